//! How a row is checked. Its last word is the rule that decides, or what the reason says where none does.

use agent::PermissionMode;
use agent::permissions::Confinement;

use super::{Situation, Verdict, decide, policy, workspace};

/// A tool, what the call is about, the verdict, and who decides.
pub(crate) type Row = (&'static str, &'static str, Verdict, &'static str);

pub(crate) const NO_RULES: &[&str] = &[];

#[track_caller]
pub(crate) fn check(
    mode: PermissionMode,
    confinement: Confinement,
    rules: &'static [&'static str],
    rows: &[Row],
) {
    let policy = policy(&Situation { mode, confinement, rules });
    let mut wrong = Vec::new();
    for (tool, subject, verdict, by) in rows {
        let subject = subject.replace("{WS}", &workspace().display().to_string());
        let decision = decide(&policy, tool, &subject);
        let because = decision.because();
        let is_by = match rules.iter().any(|rule| rule.trim_end_matches('!').ends_with(by)) {
            true => {
                because.rule.as_deref().is_some_and(|rule| rule.split(", ").any(|one| one == *by))
            }
            false => because.rule.is_none() && because.why.contains(by),
        };
        if Verdict::of(&decision) != *verdict || !is_by {
            wrong.push(format!(
                "{tool} {subject:?}: wanted {verdict:?} by {by:?}, got {decision:?}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{mode:?}, {confinement:?}, {rules:?}\n{}", wrong.join("\n"));
}
