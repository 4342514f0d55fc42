//! Which rules a person is offered after a yes.

use super::{Reading, programs, words};

/// Up to three rules for the tool `bash` that would have allowed this line, narrow to wide: this very
/// line, its program with its sub-command, its program.
///
/// Empty where no rule could allow the line; nothing but the exact line where a wider rule would allow
/// everything.
pub fn propose(command: &str) -> Vec<String> {
    let reading = Reading::of(command);
    let Ok([simple]) = reading.strict() else { return Vec::new() };
    if !simple.redirects.iter().all(super::Redirect::is_harmless) {
        return Vec::new();
    }
    let line = words::quoted_line(&simple.argv);
    let mut rules = vec![format!("bash({line})")];
    if !programs::is_interpreter(&simple.argv[0])
        && programs::covers(&simple.argv).is_ok()
        && let [program, sub, ..] = simple.argv.as_slice()
        && !sub.starts_with('-')
    {
        rules.push(format!("bash({program} {sub}:*)"));
    }
    rules
}
