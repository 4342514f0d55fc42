//! Hostile texts, each put wherever it can reach a screen: the cases in `tests/cases/terminal` and of
//! further folders that `ANVIL_CASES_DIR` names, and random ones.

use std::path::{Path, PathBuf};

use agent::permissions::Because;
use agent::tool::GrantedPath;
use agent::{Grants, TurnOutcome};
use proptest::prelude::*;
use serde::Deserialize;
use serde_json::json;

use super::tests::{call, coloured, end, plain, request, result, text};
use super::*;

/// Sequences that the renderer itself writes.
const OWN: [&str; 8] =
    ["\x1b[2m", "\x1b[1m", "\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[36m", "\x1b[0m", "\r\x1b[2K"];

/// Most lines of a question about one of the cases: it has to be seen at once.
const SCREEN: usize = 24;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    id: String,
    file: String,
    context: Context,
    must_not_emit_hex: Vec<String>,
    must_show: Vec<String>,
    #[serde(rename = "topic")]
    _topic: String,
    #[serde(rename = "notes")]
    _notes: String,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Context {
    ToolOutput,
    ModelText,
    Approval,
    Path,
}

const CONTEXTS: [Context; 4] =
    [Context::ToolOutput, Context::ModelText, Context::Approval, Context::Path];

/// One showing of a text: all that a terminal got.
struct Showing {
    what: &'static str,
    bytes: Vec<u8>,
    /// Whether it has room for all that must be readable.
    is_whole: bool,
}

/// What a terminal gets of `show`.
fn showing(
    what: &'static str,
    look: Look,
    show: impl FnOnce(&mut Text<&mut Vec<u8>, &mut Vec<u8>>),
) -> Showing {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    show(&mut Text::new(&mut out, &mut err, Audience::Conversation, look));
    out.append(&mut err);
    Showing { what, bytes: out, is_whole: true }
}

fn showings(context: Context, hostile: &str, look: Look) -> Vec<Showing> {
    let events = |what, events: &[AgentEvent]| {
        showing(what, look, |to| events.iter().for_each(|event| to.event(event).unwrap()))
    };
    match context {
        Context::ToolOutput => {
            let live = AgentEvent::ToolOutput { id: "1".into(), chunk: hostile.into() };
            let finished = [result("1", false, hostile)];
            let failed = [call("1", "x", json!({})), result("1", true, hostile)];
            let live = Showing { is_whole: false, ..events("live output", &[live]) };
            vec![events("a result", &finished), events("a failure", &failed), live]
        }
        Context::ModelText => hostile
            .char_indices()
            .map(|(cut, _)| {
                let (head, tail) = hostile.split_at(cut);
                let pieces = [text(head), text(tail), end(TurnOutcome::Done, hostile)];
                events("text in two pieces", &pieces)
            })
            .collect(),
        Context::Approval => questions(hostile)
            .into_iter()
            .map(|(what, request)| {
                showing(what, look, |to| {
                    let asked = to.question(&request).unwrap();
                    to.keys(asked, true).unwrap();
                    to.choices(&request.proposals).unwrap();
                    to.whole(&request).unwrap();
                })
            })
            .collect(),
        Context::Path => {
            let diff =
                format!("--- {0}\n+++ {0}\n@@ -1 +1 @@\n-a\n+b", sanitize::one_line(hostile));
            vec![
                events(
                    "a path in a call",
                    &[call("1", "read_file", json!({"file_path": hostile}))],
                ),
                events("a path in a diff", &[result("1", false, &diff)]),
            ]
        }
    }
}

/// Questions in which the text is what is to be agreed to, and what is said about it.
fn questions(hostile: &str) -> Vec<(&'static str, ApprovalRequest)> {
    let harmless = request(json!({"command": "ls"}));
    let because = |why: &str, rule: Option<&str>| Because {
        why: why.to_owned(),
        rule: rule.map(str::to_owned),
        origin: rule.map(str::to_owned),
    };
    let path = GrantedPath { path: hostile.into(), write: true };
    let grants = Grants { network: true, paths: vec![path] };
    vec![
        ("a command", request(json!({"command": hostile}))),
        ("a value", request(json!({"text": hostile, "list": [hostile]}))),
        ("a name", request(json!({hostile: 1}))),
        ("a reason", ApprovalRequest { because: because(hostile, None), ..harmless.clone() }),
        ("a rule", ApprovalRequest { because: because("x", Some(hostile)), ..harmless.clone() }),
        ("a granted path", ApprovalRequest { grants, ..harmless.clone() }),
        ("a proposal", ApprovalRequest { proposals: vec![hostile.into()], ..harmless.clone() }),
        ("a diff", ApprovalRequest { preview: Some(hostile.into()), ..harmless }),
    ]
}

/// What was shown without the renderer's own sequences.
fn without_own(shown: &str) -> String {
    OWN.iter().fold(shown.to_owned(), |shown, own| shown.replace(own, ""))
}

fn bytes_of(hex: &str) -> Vec<u8> {
    let digits = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    (0..hex.len()).step_by(2).map(digits).collect()
}

fn failures(row: &Row, hostile: &str) -> Vec<String> {
    let mut failures = Vec::new();
    for look in [plain(), coloured(), Look { width: 40, ..coloured() }] {
        for Showing { what, bytes, is_whole } in showings(row.context, hostile, look) {
            let mut fail = |why: &str| {
                let shown = bytes.escape_ascii();
                failures.push(format!("{}: {what}: {why} in \"{shown}\"", row.id));
            };
            let shown = without_own(std::str::from_utf8(&bytes).unwrap());
            for hex in &row.must_not_emit_hex {
                let banned = bytes_of(hex);
                if shown.as_bytes().windows(banned.len()).any(|part| part == banned) {
                    fail(hex);
                }
            }
            // Lines that were wrapped are read on behind the margin.
            let joined: String =
                shown.lines().map(|line| line.trim_start_matches(MARGINS)).collect();
            for text in row.must_show.iter().filter(|text| is_whole && !joined.contains(*text)) {
                fail(&format!("no '{text}'"));
            }
            match row.context {
                Context::ToolOutput if !shown.lines().all(|line| line.starts_with(MARGINS)) => {
                    fail("a line that does not look like output");
                }
                Context::Path if what == "a path in a call" && shown.lines().count() != 1 => {
                    fail("a path on several lines");
                }
                // Two of them: what is asked, and the same shown whole.
                Context::Approval if shown.lines().count() > 2 * SCREEN => {
                    fail("more than a screen")
                }
                _ => {}
            }
        }
    }
    failures
}

/// What stands before a line that is not the program's own word, and blanks.
const MARGINS: [char; 4] = [' ', '⎿', '⏺', '│'];

fn folders() -> Vec<PathBuf> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let more = std::env::var_os("ANVIL_CASES_DIR").unwrap_or_default();
    std::iter::once(own)
        .chain(std::env::split_paths(&more).filter(|path| !path.as_os_str().is_empty()))
        .map(|folder| folder.join("terminal"))
        .collect()
}

#[test]
fn every_case_of_a_hostile_text_holds() {
    let mut failed = Vec::new();
    for folder in folders() {
        let rows = std::fs::read_to_string(folder.join("expected.jsonl")).unwrap();
        let mut count = 0;
        for line in rows.lines() {
            let row: Row = serde_json::from_str(line).unwrap();
            let bytes = std::fs::read(folder.join(&row.file)).unwrap();
            failed.extend(failures(&row, &String::from_utf8_lossy(&bytes)));
            count += 1;
        }
        println!("{}: terminal: {count} cases", folder.display());
        assert!(count > 0, "{} holds no case", folder.display());
    }
    assert!(failed.is_empty(), "{} failures:\n{}", failed.len(), failed.join("\n"));
}

/// Characters that act, look like nothing, or stand in a sequence that acts.
fn hostile_text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("\x1b"),
        Just("\x1b["),
        Just("\x1b]52;c;"),
        Just("\u{9b}"),
        Just("\u{9d}"),
        Just("\x07"),
        Just("\x08"),
        Just("\r"),
        Just("\n"),
        Just("\t"),
        Just("\r\n"),
        Just("\0"),
        Just("\x7f"),
        Just("2J"),
        Just("8m"),
        Just("\u{202e}"),
        Just("\u{2066}"),
        Just("\u{200b}"),
        Just("\u{2028}"),
        Just("\u{feff}"),
        Just("\u{e0041}"),
        Just("  "),
        Just("漢"),
        Just("👨\u{200d}👩"),
        Just("+x"),
        Just("@@ "),
        Just("Allow? "),
        Just("%s"),
        Just("a"),
    ];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn nothing_but_text_and_our_own_sequences_reaches_the_terminal(hostile in hostile_text()) {
        for context in CONTEXTS {
            for look in [plain(), coloured()] {
                for Showing { what, bytes, .. } in showings(context, &hostile, look) {
                    let shown = without_own(std::str::from_utf8(&bytes).unwrap());
                    // A line ending of the model's may have two characters.
                    let acts = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
                    let rest = shown.replace("\r\n", "\n");
                    prop_assert!(!rest.contains(acts), "{context:?}: {what}: {:?}", shown);
                    let hides = ['\u{202e}', '\u{2066}', '\u{200b}', '\u{2028}', '\u{feff}', '\u{e0041}'];
                    prop_assert!(!rest.contains(hides), "{context:?}: {what}: {:?}", shown);
                }
            }
        }
    }
}
