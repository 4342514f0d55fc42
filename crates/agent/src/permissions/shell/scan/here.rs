//! Redirections and here-documents.

use super::{Quoting, Scanner};

/// A here-document whose body is still to come.
pub(super) struct HereDocument {
    delimiter: String,
    /// Nothing in the body is expanded.
    quoted: bool,
    /// Tabs before a line do not count.
    indented: bool,
}

impl Scanner<'_> {
    /// A redirection, up to the end of its target.
    pub(super) fn redirect(&mut self) {
        const SIGNS: &[&str] =
            &["&>>", "&>", "<<<", "<<-", "<<", "<&", "<>", ">>", ">&", ">|", "<", ">"];
        let sign = *SIGNS.iter().find(|sign| self.sees(sign)).expect("a sign was seen");
        self.at += sign.len();
        self.skip_blanks();
        match sign {
            "<<" | "<<-" => self.here_document(sign == "<<-"),
            _ if self.peek().is_none_or(|byte| b"\n;&|)".contains(&byte)) => self.gives_up(),
            // The dash that closes a descriptor ends there; what follows it is a word of the command.
            "<&" | ">&" if self.peek() == Some(b'-') => self.at += 1,
            _ => drop(self.word(false)),
        }
    }

    /// The delimiter of a here-document.
    fn here_document(&mut self, indented: bool) {
        let start = self.at;
        let mut delimiter = String::new();
        let mut quoted = false;
        while let Some(byte) = self.peek() {
            match byte {
                b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b'(' | b')' | b'<' | b'>' => break,
                b'\'' | b'"' => {
                    quoted = true;
                    self.at += 1;
                    let rest = &self.text[self.at..];
                    let Some(length) = rest.find(char::from(byte)) else { return self.abort() };
                    delimiter += &rest[..length];
                    self.at += length + 1;
                }
                b'\\' if self.sees("\\\n") => self.at += 2,
                b'\\' => {
                    quoted = true;
                    self.at += 1;
                    self.push_char(&mut delimiter);
                }
                _ => self.push_char(&mut delimiter),
            }
        }
        let raw = &self.text[start..self.at];
        // What quoting does to these in a delimiter is not worth knowing.
        if delimiter.is_empty()
            || raw.contains(['$', '`', '\n'])
            || (raw.contains('"') && raw.contains('\\'))
        {
            self.gives_up();
        }
        self.pending.push(HereDocument { delimiter, quoted, indented });
    }

    /// The bodies of the here-documents of the line that has just ended.
    pub(super) fn here_documents(&mut self) {
        for document in std::mem::take(&mut self.pending) {
            let start = self.at;
            let mut end = self.bytes.len();
            while self.at < self.bytes.len() {
                let line_start = self.at;
                let rest = &self.text[line_start..];
                let length = rest.find('\n').unwrap_or(rest.len());
                let line = &rest[..length];
                self.at = (line_start + length + 1).min(self.bytes.len());
                let text = if document.indented { line.trim_start_matches('\t') } else { line };
                if text == document.delimiter {
                    end = line_start;
                    break;
                }
                // A continued line may hide the delimiter, or make one.
                if !document.quoted && line.ends_with('\\') {
                    self.gives_up();
                }
            }
            if end == self.bytes.len() {
                self.gives_up();
            }
            if !document.quoted {
                let inner = super::expansions(&self.text[start..end], self.depth + 1, self.left);
                self.merge(inner);
            }
        }
    }

    /// Text in which quotes mean nothing, to its end.
    pub(super) fn unquoted_text(&mut self) {
        while let Some(byte) = self.peek() {
            match byte {
                b'\\' => self.at = (self.at + 2).min(self.bytes.len()),
                b'$' => self.dollar(&mut None, Quoting::Double),
                b'`' => self.backquoted(Quoting::Double),
                _ => self.at += 1,
            }
        }
    }
}
