//! How a question looks: what would be done, which rule asks, what a yes opens, and the keys.
//!
//! Everything that did not come from the program itself stands behind a bar, so that no command can
//! pass for the program's own words. What is long is shown with its beginning and its end.

use agent::sanitize::{self, Visible};
use agent::{ApprovalRequest, Grants};
use serde_json::Value;

use super::super::Asked;
use super::super::style::{Ink, Paint, Style, columns, split, wrap};
use super::block::{Kind, Line, all_lines};

/// Lines of a command that are shown whole, and those that are left of a longer one.
const COMMAND: Extent = Extent { whole: 30, head: 16, tail: 10 };

/// The same of a diff or a file, of which every line is news.
const DIFF: Extent = Extent { whole: 120, head: 80, tail: 20 };

/// Blanks in a row that are shown as they are; more of them only push text out of sight.
const BLANKS: usize = 20;

/// The margin of a question, and what stands before everything that is not our own.
const BAR: &str = "  │ ";

/// Columns of the margin.
const MARGIN: usize = 4;

/// How much of something is shown.
#[derive(Debug, Clone, Copy)]
struct Extent {
    whole: usize,
    head: usize,
    tail: usize,
}

/// The question, with the middle of what is long collapsed.
pub(super) fn short(request: &ApprovalRequest, style: Style, width: usize) -> (Ink, Asked) {
    let mut ink = Ink::default();
    let why = sanitize::one_line(&request.because.why);
    for line in wrap(&why, width) {
        ink.paint(style, Paint::Bold, &line).own("\n");
    }
    let (mut lines, kind) = body(request, width);
    let extent = if matches!(kind, Kind::Diff) { DIFF } else { COMMAND };
    let asked = collapse(&mut lines, extent);
    push_body(&mut ink, &lines, style);
    push_facts(&mut ink, request, style, width);
    (ink, asked)
}

/// All of what would be done.
pub(super) fn whole(request: &ApprovalRequest, style: Style, width: usize) -> Ink {
    let mut ink = Ink::default();
    push_body(&mut ink, &body(request, width).0, style);
    ink
}

/// The keys that answer it.
pub(super) fn keys(asked: Asked, can_keep: bool, style: Style, width: usize) -> Ink {
    let keys = match (can_keep, asked) {
        (true, Asked::Whole) => "y once · a always · n no · or say what to do instead",
        (true, Asked::Collapsed) => {
            "y once · a always · n no · v show all of it · or say what to do instead"
        }
        (false, Asked::Whole) => "y this once · n no · or say what to do instead",
        (false, Asked::Collapsed) => {
            "y this once · n no · v show all of it · or say what to do instead"
        }
    };
    note(keys, style, width)
}

/// A numbered choice of rules.
pub(super) fn choices(rules: &[String], style: Style, width: usize) -> Ink {
    let mut ink = Ink::default();
    for (at, rule) in rules.iter().enumerate() {
        let rule = sanitize::one_line(rule).into_string();
        push_fact(&mut ink, &format!("{}  ", at + 1), &rule, Paint::Plain, (style, width));
    }
    ink
}

/// Something that is said about the question.
pub(super) fn note(text: &str, style: Style, width: usize) -> Ink {
    let mut ink = Ink::default();
    let text = sanitize::one_line(text);
    for line in wrap(&text, width.saturating_sub(2)) {
        ink.own("  ").paint(style, Paint::Dim, &line).own("\n");
    }
    ink
}

/// A line that is being typed, in the place of what it was before.
pub(super) fn typed(
    prompt: &str,
    line: &Visible<'_>,
    cursor: usize,
    style: Style,
    width: usize,
) -> Ink {
    let prompt = sanitize::one_line(prompt);
    let mut ink = Ink::from("\r");
    ink.paint(style, Paint::Bold, &prompt).text(line);
    if style.is_on {
        ink.own("\x1b[K");
    } else {
        let used = columns(&prompt) + columns(line);
        ink.text(&sanitize::one_line(&" ".repeat(width.saturating_sub(used + 1))));
    }
    let (before, after) = split(line, cursor);
    if !style.is_on || !after.is_empty() {
        // Back to where the cursor stands: the same again, as far as that.
        ink.own("\r").paint(style, Paint::Bold, &prompt).text(&before);
    }
    ink
}

/// What would be done: the preview, or the arguments with the command before all others.
fn body(request: &ApprovalRequest, width: usize) -> (Vec<Line>, Kind) {
    let room = width.saturating_sub(MARGIN);
    if let Some(preview) = &request.preview {
        let kind = Kind::Diff;
        return (all_lines(&without_padding(preview), room, kind), kind);
    }
    let kind = Kind::Plain(Paint::Plain);
    (all_lines(&without_padding(&arguments(&request.args)), room, kind), kind)
}

/// All arguments, whole: what is approved must have been readable.
fn arguments(args: &Value) -> String {
    let Value::Object(fields) = args else { return args.to_string() };
    let mut text = String::new();
    let command = fields.get("command").and_then(Value::as_str);
    if let Some(command) = command {
        text.push_str(command);
        text.push('\n');
    }
    for (key, value) in fields {
        match value {
            Value::String(_) if key == "command" => {}
            Value::String(value) => text.push_str(&format!("{}: {value}\n", exact_name(key))),
            value => text.push_str(&format!("{}: {value}\n", exact_name(key))),
        }
    }
    text
}

fn exact_name(name: &str) -> String {
    sanitize::one_line(name).into_string()
}

/// The text with everything visible that misleads, and with the number of the blanks where many stand
/// in a row.
fn without_padding(text: &str) -> String {
    counted(&sanitize::exact(text), |c| matches!(c, ' ' | '\t'))
}

fn counted(text: &str, is_blank: fn(char) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(is_blank) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let end = rest.find(|c| !is_blank(c)).unwrap_or(rest.len());
        match end {
            0..=BLANKS => out.push_str(&rest[..end]),
            many => out.push_str(&format!("⟨{many} blanks⟩")),
        }
        rest = &rest[end..];
    }
    out.push_str(rest);
    out
}

/// Takes the middle out of what is long.
fn collapse(lines: &mut Vec<Line>, extent: Extent) -> Asked {
    if lines.len() <= extent.whole {
        return Asked::Whole;
    }
    let tail = lines.split_off(lines.len() - extent.tail);
    let missing = lines.len() - extent.head;
    lines.truncate(extent.head);
    let note = format!("… {missing} more lines: v shows them …");
    lines.push((Paint::Yellow, sanitize::one_line(&note).into_owned()));
    lines.extend(tail);
    Asked::Collapsed
}

fn push_body(ink: &mut Ink, lines: &[Line], style: Style) {
    for (paint, line) in lines {
        ink.paint(style, Paint::Dim, &Visible::own(BAR)).paint(style, *paint, line).own("\n");
    }
}

/// Which rule asks, and what a yes opens.
fn push_facts(ink: &mut Ink, request: &ApprovalRequest, style: Style, width: usize) {
    let because = &request.because;
    if let Some(rule) = &because.rule {
        let origin = because.origin.as_ref().map(|origin| format!(" · {origin}"));
        let rule = format!("{rule}{}", origin.unwrap_or_default());
        push_fact(ink, "rule   ", &rule, Paint::Dim, (style, width));
    }
    for opened in opens(&request.grants) {
        push_fact(ink, "opens  ", &opened, Paint::Yellow, (style, width));
    }
}

fn opens(grants: &Grants) -> Vec<String> {
    let network = grants.network.then(|| "the network, for this call".to_owned());
    let paths = grants.paths.iter().map(|granted| {
        let what = if granted.write { "to write" } else { "to read" };
        format!("{} {what}, for this call", granted.path.display())
    });
    network.into_iter().chain(paths).collect()
}

/// A line with a name in a column of its own; what does not fit goes on below.
fn push_fact(ink: &mut Ink, name: &str, what: &str, paint: Paint, (style, width): (Style, usize)) {
    let what = counted(&sanitize::exact(what), |c| matches!(c, ' ' | '\t' | '\n'));
    let what = sanitize::one_line(&what);
    let (rest, column) = (name.len(), name.len() + 2);
    for (at, line) in wrap(&what, width.saturating_sub(column)).into_iter().enumerate() {
        let name = if at == 0 { name } else { "" };
        let name = sanitize::one_line(&format!("  {name:<rest$}")).into_owned();
        ink.paint(style, Paint::Dim, &name).paint(style, paint, &line).own("\n");
    }
}

#[cfg(test)]
mod tests {
    use agent::permissions::Because;
    use agent::tool::GrantedPath;
    use serde_json::json;

    use super::super::tests::{coloured, plain, request};
    use super::super::{Audience, Look, Render as _, Text};
    use super::*;

    #[test]
    fn many_blanks_are_counted_and_few_stay() {
        assert_eq!(without_padding("a    b"), "a    b");
        let padded = format!("ls{};{}rm\n    x", " ".repeat(300), "\t".repeat(40));
        assert_eq!(without_padding(&padded), "ls⟨300 blanks⟩;⟨40 blanks⟩rm\n    x");
    }

    #[test]
    fn the_end_of_something_long_is_always_there_and_what_is_missing_is_counted() {
        let line = |n: usize| (Paint::Plain, sanitize::one_line(&n.to_string()).into_owned());
        let mut lines: Vec<Line> = (1..=100).map(line).collect();
        assert_eq!(collapse(&mut lines, Extent { whole: 10, head: 2, tail: 1 }), Asked::Collapsed);
        let shown: Vec<&str> = lines.iter().map(|(_, line)| &**line).collect();
        assert_eq!(shown, ["1", "2", "… 97 more lines: v shows them …", "100"]);
        let mut few: Vec<Line> = (1..=10).map(line).collect();
        assert_eq!(collapse(&mut few, Extent { whole: 10, head: 2, tail: 1 }), Asked::Whole);
        assert_eq!(few.len(), 10);
    }

    /// What a question looks like, and whether all of it is there.
    fn asked(request: &ApprovalRequest, look: Look) -> (String, Asked) {
        let mut out = Vec::new();
        let mut renderer = Text::new(&mut out, Vec::new(), Audience::Conversation, look);
        let asked = renderer.question(request).unwrap();
        renderer.keys(asked, !request.proposals.is_empty()).unwrap();
        drop(renderer);
        (String::from_utf8(out).unwrap(), asked)
    }

    #[test]
    fn a_question_shows_all_of_what_is_approved() {
        let command = format!("echo hi{}; rm -rf x", " ".repeat(300));
        let request = request(json!({"command": command, "timeout_ms": 5}));
        let (out, extent) = asked(&request, plain());
        assert_eq!(
            out,
            "bash would run a command\n  │ echo hi⟨300 blanks⟩; rm -rf x\n  │ timeout_ms: 5\n  \
             y this once · n no · or say what to do instead\n"
        );
        assert_eq!(extent, Asked::Whole);
    }

    #[test]
    fn a_question_names_the_rule_that_asks_and_what_a_yes_opens() {
        let because = Because {
            why: "a rule asks about this command".into(),
            rule: Some("bash(git push:*)".into()),
            origin: Some("/home/me/.config/anvil/config.toml:3".into()),
        };
        let path = GrantedPath { path: "/etc/ho\nsts".into(), write: true };
        let grants = Grants { network: true, paths: vec![path] };
        let request =
            ApprovalRequest { because, grants, ..request(json!({"command": "git push"})) };
        for (width, want) in [
            (
                80,
                "a rule asks about this command\n  │ git push\n  \
                 rule   bash(git push:*) · /home/me/.config/anvil/config.toml:3\n  \
                 opens  the network, for this call\n  opens  /etc/ho\\nsts to write, for this call\n",
            ),
            (
                40,
                "a rule asks about this command\n  │ git push\n  \
                 rule   bash(git push:*) ·\n         /home/me/.config/anvil/config.t\n         oml:3\n  \
                 opens  the network, for this call\n  opens  /etc/ho\\nsts to write, for\n         this call\n",
            ),
        ] {
            let (out, _) = asked(&request, Look { width, ..plain() });
            assert!(out.starts_with(want), "{out}");
            assert!(out.lines().all(|line| columns(line) <= width), "{out}");
        }
    }

    #[test]
    fn a_long_command_is_shown_with_both_its_ends_and_whole_when_that_is_asked_for() {
        let command: String = (1..=99).map(|line| format!("echo {line}\n")).collect();
        let request = request(json!({"command": command + "rm -rf x"}));
        let (out, extent) = asked(&request, plain());
        assert_eq!(extent, Asked::Collapsed);
        assert!(out.contains("  │ echo 1\n") && out.contains("  │ rm -rf x\n"), "{out}");
        assert!(
            out.contains("… 74 more lines: v shows them …") && out.contains("· v show"),
            "{out}"
        );
        let mut whole = Vec::new();
        let mut renderer = Text::new(&mut whole, Vec::new(), Audience::Conversation, plain());
        renderer.whole(&request).unwrap();
        drop(renderer);
        let whole = String::from_utf8(whole).unwrap();
        assert_eq!(whole.lines().count(), 100);
        assert!(whole.lines().all(|line| line.starts_with("  │ ")), "{whole}");
    }

    #[test]
    fn a_line_that_is_typed_replaces_itself_and_leaves_the_cursor_where_it_is() {
        let draw = |look, cursor| {
            let mut out = Vec::new();
            let look = Look { width: 12, ..look };
            let mut renderer = Text::new(&mut out, Vec::new(), Audience::Conversation, look);
            renderer.draw("Rule: ", &Visible::own("ab"), cursor).unwrap();
            drop(renderer);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(draw(plain(), 1), "\rRule: ab   \rRule: a");
        let prompt = "\r\x1b[1mRule: \x1b[0m";
        assert_eq!(draw(coloured(), 2), format!("{prompt}ab\x1b[K"));
        assert_eq!(draw(coloured(), 1), format!("{prompt}ab\x1b[K{prompt}a"));
    }
}
