//! The lines of a recording, and how they are put together to exchanges.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use super::error::RecordingError;

/// The version that this program writes and reads.
pub(super) const VERSION: u32 = 1;

/// What a recording says about the run it is of.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// Name and version of the program that wrote it.
    #[serde(default)]
    pub program: String,
    /// The model that was asked, as `provider:model-id`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The address of its server, on which depends what requests hold; without a password and a query.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// The folder that was worked in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// The session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
}

/// One line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Line {
    Recording {
        version: u32,
        #[serde(flatten)]
        header: Header,
    },
    Request {
        request: u64,
        dialect: String,
        method: String,
        path: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        body: Option<Payload>,
    },
    Answer {
        request: u64,
        status: u16,
        headers: BTreeMap<String, String>,
    },
    Chunk {
        request: u64,
        bytes: Payload,
    },
    End {
        request: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<Failure>,
    },
}

/// How a request failed on its way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Failure {
    pub(super) message: String,
    pub(super) is_retryable: bool,
}

/// Bytes: as a text where they are one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum Payload {
    Text(String),
    Binary { base64: String },
}

impl Payload {
    pub(super) fn of(bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::Text(text.to_owned()),
            Err(_) => Self::Binary { base64: STANDARD.encode(bytes) },
        }
    }

    fn into_bytes(self) -> Result<Vec<u8>, String> {
        match self {
            Self::Text(text) => Ok(text.into_bytes()),
            Self::Binary { base64 } => {
                STANDARD.decode(base64).map_err(|error| format!("its base64 is wrong: {error}"))
            }
        }
    }
}

impl Line {
    /// The line with its end.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut line = serde_json::to_vec(self).expect("a line has only text keys");
        line.push(b'\n');
        line
    }
}

/// A request and what became of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Exchange {
    pub(super) dialect: String,
    pub(super) method: String,
    pub(super) path: String,
    /// What was sent; absent where anything goes.
    pub(super) body: Option<Vec<u8>>,
    /// Status and headers, once an answer came.
    pub(super) answer: Option<(u16, Vec<(String, String)>)>,
    pub(super) chunks: Vec<Vec<u8>>,
    pub(super) end: End,
}

/// How an exchange ended.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) enum End {
    /// It did not: the client gave up, or the recording was cut.
    #[default]
    Open,
    /// With the answer's last byte.
    Complete,
    Failed(Failure),
}

/// Reads a whole recording. What stands behind its last line feed was being written when the program
/// was killed and is left out.
///
/// # Errors
/// When it is no recording, of another version, or damaged, with the line.
pub(super) fn parse(text: &str) -> Result<(Header, Vec<Exchange>), RecordingError> {
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let mut lines = (1..).zip(whole.split('\n'));
    let header =
        lines.next().map_or(Err(RecordingError::NotARecording), |(_, line)| begin(line))?;
    let mut exchanges: Vec<Exchange> = Vec::new();
    for (number, line) in lines.filter(|(_, line)| !line.trim().is_empty()) {
        let wrong = |message| RecordingError::Line { line: number, message };
        let line: Line = serde_json::from_str(line)
            .map_err(|error| wrong(format!("it is no line of a recording: {error}")))?;
        take(line, &mut exchanges).map_err(wrong)?;
    }
    Ok((header, exchanges))
}

fn begin(line: &str) -> Result<Header, RecordingError> {
    #[derive(Deserialize)]
    struct Version {
        r#type: String,
        version: u64,
    }
    match serde_json::from_str::<Version>(line) {
        Ok(Version { r#type, version })
            if r#type == "recording" && version != u64::from(VERSION) =>
        {
            Err(RecordingError::Version { found: version, known: VERSION })
        }
        _ => match serde_json::from_str(line) {
            Ok(Line::Recording { header, .. }) => Ok(header),
            _ => Err(RecordingError::NotARecording),
        },
    }
}

/// Adds a line to the exchange it belongs to.
fn take(line: Line, exchanges: &mut Vec<Exchange>) -> Result<(), String> {
    let of = |request: u64, exchanges: &mut Vec<Exchange>| {
        let at = usize::try_from(request).ok().and_then(|number| number.checked_sub(1));
        match at {
            Some(at) if at < exchanges.len() => Ok(at),
            _ => Err(format!("it belongs to request {request}, which has not come")),
        }
    };
    match line {
        Line::Recording { .. } => return Err("a recording begins inside another one".to_owned()),
        Line::Request { request, dialect, method, path, body } => {
            if request != exchanges.len() as u64 + 1 {
                return Err(format!("request {request} is not the next one"));
            }
            let body = body.map(Payload::into_bytes).transpose()?;
            exchanges.push(Exchange { dialect, method, path, body, ..Exchange::default() });
        }
        Line::Answer { request, status, headers } => {
            let at = of(request, exchanges)?;
            exchanges[at].answer = Some((status, headers.into_iter().collect()));
        }
        Line::Chunk { request, bytes } => {
            let at = of(request, exchanges)?;
            exchanges[at].chunks.push(bytes.into_bytes()?);
        }
        Line::End { request, error } => {
            let at = of(request, exchanges)?;
            exchanges[at].end = error.map_or(End::Complete, End::Failed);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = r#"{"type":"recording","version":1,"program":"p 1","model":"a:b"}"#;
    const REQUEST: &str =
        r#"{"type":"request","request":1,"dialect":"d","method":"POST","path":"/p","body":"{}"}"#;

    fn parse_lines(lines: &[&str]) -> Result<(Header, Vec<Exchange>), RecordingError> {
        parse(&(lines.join("\n") + "\n"))
    }

    #[test]
    fn lines_come_back_as_they_were_written() {
        let lines = [
            Line::Recording {
                version: VERSION,
                header: Header {
                    program: "p 1".into(),
                    cwd: Some("/w".into()),
                    ..Header::default()
                },
            },
            Line::Request {
                request: 1,
                dialect: "d".into(),
                method: "POST".into(),
                path: "/p".into(),
                body: Some(Payload::of(b"{\"a\":\"\xc3\xa9\"}")),
            },
            Line::Answer { request: 1, status: 200, headers: BTreeMap::new() },
            Line::Chunk { request: 1, bytes: Payload::of(b"half an \xc3") },
            Line::Chunk { request: 1, bytes: Payload::of(b"\xa9\n") },
            Line::End { request: 1, error: None },
        ];
        let text: Vec<u8> = lines.iter().flat_map(Line::to_bytes).collect();
        let (header, exchanges) = parse(std::str::from_utf8(&text).unwrap()).unwrap();
        assert_eq!(header.cwd.as_deref(), Some("/w"));
        let [exchange] = &exchanges[..] else { panic!("{exchanges:?}") };
        assert_eq!(exchange.body.as_deref(), Some("{\"a\":\"é\"}".as_bytes()));
        assert_eq!(exchange.chunks, [&b"half an \xc3"[..], b"\xa9\n"]);
        assert_eq!((&exchange.answer, &exchange.end), (&Some((200, vec![])), &End::Complete));
    }

    #[test]
    fn a_recording_that_was_cut_anywhere_is_read_up_to_its_last_whole_line() {
        let chunk = r#"{"type":"chunk","request":1,"bytes":"é"}"#;
        let text = [HEADER, REQUEST, chunk, ""].join("\n");
        for end in HEADER.len() + 1..=text.len() {
            let Some(cut) = text.get(..end) else { continue };
            let (_, exchanges) = parse(cut).unwrap();
            let want = match () {
                () if end == text.len() => Some(1),
                () if end > HEADER.len() + 1 + REQUEST.len() => Some(0),
                () => None,
            };
            assert_eq!(exchanges.first().map(|one| one.chunks.len()), want, "{cut}");
        }
    }

    #[test]
    fn another_version_is_named_and_another_file_is_no_recording() {
        let newer = r#"{"type":"recording","version":2,"sparkles":true}"#;
        let error = parse_lines(&[newer]).unwrap_err().to_string();
        assert_eq!(
            error,
            "it is a recording of format version 2, and this program reads version 1"
        );
        for other in ["", "{}", "data: x", REQUEST, HEADER.trim_end_matches('}')] {
            let error = parse_lines(&[other, REQUEST]).unwrap_err();
            assert!(matches!(error, RecordingError::NotARecording), "{other}: {error}");
        }
        assert!(matches!(parse(HEADER), Err(RecordingError::NotARecording)), "it has no line end");
    }

    #[test]
    fn a_damaged_line_is_named() {
        for (line, message) in [
            ("{", "line 3: it is no line of a recording"),
            (r#"{"type":"chunk","request":2,"bytes":""}"#, "line 3: it belongs to request 2"),
            (r#"{"type":"chunk","request":0,"bytes":""}"#, "line 3: it belongs to request 0"),
            (REQUEST, "line 3: request 1 is not the next one"),
            (HEADER, "line 3: a recording begins inside another one"),
            (
                r#"{"type":"chunk","request":1,"bytes":{"base64":"?"}}"#,
                "line 3: its base64 is wrong",
            ),
        ] {
            let error = parse_lines(&[HEADER, REQUEST, line]).unwrap_err().to_string();
            assert!(error.starts_with(message), "{error}");
        }
    }
}
