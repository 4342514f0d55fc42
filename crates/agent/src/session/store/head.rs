//! What a list says about a session, from the beginning of its file alone.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};

use crate::paste;
use crate::session::record::{self, Record};

/// The most bytes that are read of a file for a list.
const HEAD: u64 = 1 << 18;

/// The most characters of a first prompt in a list.
const EXCERPT: usize = 200;

/// What the beginning of a file says.
pub(super) struct Head {
    /// The model that was asked first.
    pub(super) model: Option<String>,
    pub(super) asked: Asked,
}

/// What was asked first.
pub(super) enum Asked {
    /// This, or its beginning.
    This(String),
    /// Nothing was.
    Nothing,
    /// The beginning of the file does not tell, or is damaged.
    Unknown,
}

/// The model and the first prompt, from the beginning of the file alone.
pub(super) fn read(file: &File) -> Head {
    let mut reader = BufReader::new(file.take(HEAD));
    let (mut model, mut line) = (None, Vec::new());
    let (mut read, mut asked) = (0, None);
    while asked.is_none() {
        line.clear();
        read += match reader.read_until(b'\n', &mut line) {
            Ok(more) => more as u64,
            Err(_) => HEAD,
        };
        let is_whole = line.last() == Some(&b'\n');
        match record::read(line.strip_suffix(b"\n").unwrap_or(&line)).map(|read| read.record) {
            Ok(Some(Record::SessionStarted(meta))) => model = Some(meta.model),
            Ok(Some(Record::MessageAppended { message, .. })) => {
                let prompt = message.text();
                let shown = paste::chips(&prompt, &mut 0).chars().take(EXCERPT).collect();
                asked = Some(Asked::This(shown));
            }
            Ok(_) => {}
            // The end of the file, or of a line that was never finished.
            Err(_) if !is_whole && read < HEAD => asked = Some(Asked::Nothing),
            // A prompt longer than what is read of a file has its beginning there all the same.
            Err(_) => asked = Some(cut_prompt(&line).map_or(Asked::Unknown, Asked::This)),
        }
    }
    Head { model, asked: asked.unwrap_or(Asked::Unknown) }
}

/// The beginning of the first text in a line that was read in part.
fn cut_prompt(line: &[u8]) -> Option<String> {
    let line = String::from_utf8_lossy(line);
    if !line.contains("\"type\":\"message_appended\"") {
        return None;
    }
    let (_, text) = line.split_once("\"text\":\"")?;
    let mut is_escaped = false;
    let is_inside = |c: &char| {
        let ends = *c == '"' && !is_escaped;
        is_escaped = *c == '\\' && !is_escaped;
        !ends
    };
    let text: Vec<char> = text.chars().take(EXCERPT).take_while(is_inside).collect();
    // The last escape may be cut in its middle; a pair of them has twelve characters.
    let whole = (text.len().saturating_sub(12)..=text.len()).rev().find_map(|end| {
        let text: String = text[..end].iter().collect();
        serde_json::from_str::<String>(&format!("\"{text}\"")).ok()
    })?;
    Some(match whole.split_once(paste::MARK) {
        Some((typed, _)) => format!("{typed}[paste]"),
        None => whole,
    })
}
