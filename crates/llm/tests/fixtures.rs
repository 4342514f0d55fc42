//! Replays recorded and hand-written streams through the decoders and compares what comes out.
//!
//! The streams of this repository lie in `tests/fixtures`. `ANVIL_FIXTURES_DIR` names further
//! folders (separated by `:`) laid out in the same way: `FAMILY/NAME.sse` beside
//! `FAMILY/NAME.expected.json`. Every stream is decoded whole and byte by byte; up to [`SMALL`] its
//! events are compared at every cut in two, up to [`TINY`] also what the dialect makes of them. A
//! dialect sees whole events and nothing of the cuts, so the first comparison covers the second; the
//! second would show it if that stopped being so.
//!
//! Error answers lie in `errors/NAME.json`: status, headers, body, and what they have to be judged as.
//! Requests lie in `requests/FAMILY/NAME.N.json`; each carries the answer of the step before.

#[path = "fixtures/errors.rs"]
mod errors;
#[path = "fixtures/expectation.rs"]
mod expectation;
#[path = "fixtures/requests.rs"]
mod requests;
#[path = "support/mod.rs"]
mod support;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use llm::LlmError;
use llm::sse::{SseDecoder, SseEvent};
use support::{Cut, Decoded, Dialect, decode, named};

/// Up to this size, in bytes, a stream is cut in two at every offset. The work grows with the square
/// of it; above it a cut meets nothing that the smaller streams do not have.
const SMALL: usize = 16 << 10;

/// Up to this size, in bytes, it is decoded to its end after every such cut.
const TINY: usize = 3 << 10;

const FOLDERS: &str = "ANVIL_FIXTURES_DIR";

struct Stream {
    /// What it is, or what it is mistaken for.
    dialect: Dialect,
    path: PathBuf,
    /// The name of the API that it really belongs to, when that is another: it is to be refused.
    stranger: Option<&'static str>,
}

/// Families of an API that lives beside one of ours, which must not misread it.
const STRANGERS: &[(&str, Dialect, &str)] =
    &[("gemini-interactions", Dialect::Gemini, "Interactions")];

/// The streams of one folder, and how many lie in families without a decoder.
fn streams(folder: &Path) -> (Vec<Stream>, BTreeMap<String, usize>) {
    let mut streams = Vec::new();
    let mut uncovered = BTreeMap::new();
    for family in entries(folder) {
        let name = family.file_name().unwrap_or_default().to_string_lossy().into_owned();
        for path in entries(&family) {
            if path.extension().is_none_or(|extension| extension != "sse") {
                continue;
            }
            let stranger = STRANGERS.iter().find(|(family, ..)| *family == name);
            match (named(&name), stranger) {
                (Some(dialect), _) => streams.push(Stream { dialect, path, stranger: None }),
                (None, Some(&(_, dialect, api))) => {
                    streams.push(Stream { dialect, path, stranger: Some(api) });
                }
                (None, None) => *uncovered.entry(name.clone()).or_default() += 1,
            }
        }
    }
    (streams, uncovered)
}

/// What a directory holds, sorted; nothing when it is none.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let Ok(read) = fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<PathBuf> =
        read.map(|entry| entry.expect("a readable folder").path()).collect();
    paths.sort();
    paths
}

fn own_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

/// Everything that is wrong with the decoding of one stream.
fn check(stream: &Stream) -> Vec<String> {
    let body = fs::read(&stream.path).expect("a readable stream");
    let whole = decode(stream.dialect, &body, Cut::Whole);
    let fingerprint = whole.fingerprint();
    let mut faults = match stream.stranger {
        None => compare(&stream.path.with_extension("expected.json"), whole),
        Some(api) => refusal_fault(api, &whole).into_iter().collect(),
    };
    if body.len() <= SMALL {
        let events = sse_events(&body);
        faults.extend(
            (0..body.len()).map(Cut::At).find_map(|cut| differing_event(&events, &body, cut)),
        );
    }
    let splits = if body.len() <= TINY { 0..body.len() } else { 0..0 };
    for cut in std::iter::once(Cut::Bytes).chain(splits.map(Cut::At)) {
        if decode(stream.dialect, &body, cut).fingerprint() != fingerprint {
            faults.push(format!("cut {cut:?} gives something else than the whole body"));
            break;
        }
    }
    faults
}

fn compare(expected: &Path, decoded: Decoded) -> Vec<String> {
    match fs::read(expected) {
        Ok(json) => {
            let expected = serde_json::from_slice(&json).expect("an expectation is JSON");
            expectation::compare(&expected, decoded)
        }
        Err(error) => vec![format!("{}: {error}", expected.display())],
    }
}

/// Says what is wrong when a stream of another API is not refused by its name.
fn refusal_fault(api: &str, decoded: &Decoded) -> Option<String> {
    match &decoded.end {
        Err(LlmError::Decode(text)) if text.contains(api) && decoded.events.is_empty() => None,
        end => Some(format!("expected a refusal that names {api}, got {end:?}")),
    }
}

fn sse_events(body: &[u8]) -> Vec<SseEvent> {
    SseDecoder::default().push(body).expect("streams stay within the limits")
}

/// Says which event differs when `body` is cut.
fn differing_event(expected: &[SseEvent], body: &[u8], cut: Cut) -> Option<String> {
    let mut sse = SseDecoder::default();
    let mut seen = 0;
    for chunk in cut.chunks(body) {
        let fed = sse.feed(chunk, |frame| match expected.get(seen) {
            Some(event) if event.frame() == frame => {
                seen += 1;
                Ok(())
            }
            _ => Err(LlmError::Decode(format!("event {seen} differs at the cut {cut:?}"))),
        });
        if let Err(error) = fed {
            return Some(error.to_string());
        }
    }
    (seen != expected.len()).then(|| format!("only {seen} events at the cut {cut:?}"))
}

/// Checks the streams of a folder on all cores and returns how many there were.
fn check_folder(folder: &Path) -> usize {
    let (streams, uncovered) = streams(folder);
    for (family, count) in uncovered {
        eprintln!(
            "{}: {count} streams of the family {family} have no decoder yet",
            folder.display()
        );
    }
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let faults: Vec<String> = std::thread::scope(|scope| {
        let spawn = |worker| {
            let own: Vec<&Stream> = streams.iter().skip(worker).step_by(workers).collect();
            scope.spawn(move || {
                let named = |stream: &Stream, fault| format!("{}: {fault}", stream.path.display());
                own.iter()
                    .flat_map(|stream| check(stream).into_iter().map(|fault| named(stream, fault)))
                    .collect::<Vec<String>>()
            })
        };
        let handles: Vec<_> = (0..workers).map(spawn).collect();
        handles
            .into_iter()
            .flat_map(|handle| handle.join().expect("a worker reports faults and does not panic"))
            .collect()
    });
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
    streams.len()
}

#[test]
fn the_streams_of_this_repository_decode_to_what_they_say() {
    assert!(check_folder(&own_folder()) > 0, "no streams in {}", own_folder().display());
}

#[test]
fn the_error_answers_of_this_repository_are_judged_as_they_say() {
    assert!(errors::check_folder(&own_folder()) > 0, "no errors in {}", own_folder().display());
}

#[test]
fn the_error_answers_of_other_folders_are_judged_as_they_say() {
    let Some(folders) = std::env::var_os(FOLDERS) else {
        eprintln!("{FOLDERS} is not set: only the error answers of this repository were judged");
        return;
    };
    for folder in std::env::split_paths(&folders) {
        let count = errors::check_folder(&folder);
        eprintln!("{}: {count} error answers judged", folder.display());
    }
}

#[test]
fn the_requests_of_this_repository_send_back_what_the_server_said() {
    assert!(requests::check_folder(&own_folder()) > 0, "no requests in {}", own_folder().display());
}

#[test]
fn the_requests_of_other_folders_send_back_what_the_server_said() {
    let Some(folders) = std::env::var_os(FOLDERS) else {
        eprintln!("{FOLDERS} is not set: only the requests of this repository were compared");
        return;
    };
    for folder in std::env::split_paths(&folders) {
        let count = requests::check_folder(&folder);
        eprintln!("{}: {count} requests compared with the answers before them", folder.display());
    }
}

#[test]
fn the_streams_of_other_folders_decode_to_what_they_say() {
    let Some(folders) = std::env::var_os(FOLDERS) else {
        eprintln!("{FOLDERS} is not set: only the streams of this repository were replayed");
        return;
    };
    for folder in std::env::split_paths(&folders) {
        assert!(folder.is_dir(), "{FOLDERS} names {}, which is no folder", folder.display());
        let count = check_folder(&folder);
        assert!(count > 0, "{FOLDERS} names {}, which has no streams", folder.display());
        eprintln!("{}: {count} streams replayed", folder.display());
    }
}

#[test]
fn every_stream_of_this_repository_is_described() {
    for stream in streams(&own_folder()).0 {
        let manifest = stream.path.with_file_name("manifest.toml");
        let manifest = fs::read_to_string(&manifest).unwrap();
        let name = stream.path.file_stem().unwrap().to_string_lossy().into_owned();
        let has = |start: &str| manifest.lines().any(|line| line.starts_with(start));
        assert!(has(&format!("[{name}]")), "{name} is not described");
        for field in ["provider = ", "endpoint = ", "api_revision = "] {
            assert!(has(field), "the manifest beside {name} has no line '{field}…'");
        }
    }
}
