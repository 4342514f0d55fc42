//! `anvil permissions` and `/permissions`: the rules in force, and what would happen with a command.

use std::fmt::Write as _;

use agent::PermissionMode;
use agent::permissions::{Confinement, Effect, Explained, Policy, Programs, Rule};
use agent::sanitize::one_line;
use serde_json::{Value, json};

use crate::args::OutputFormat;

/// The tool that runs commands.
const SHELL: &str = "bash";

/// The rules in force, in the order in which they count, each with where it was written, and the sandbox.
pub(crate) fn list(policy: &Policy, format: OutputFormat) -> String {
    let of =
        |effect: Effect| policy.parts().rules.of(effect).iter().map(move |rule| (effect, rule));
    let rules = || [Effect::Deny, Effect::Ask, Effect::Allow].into_iter().flat_map(of);
    let told = |(effect, rule): (Effect, &Rule)| json!({"effect": effect.name(), "rule": rule.text(), "origin": rule.origin()});
    let mode = json!(policy.mode());
    let (confinement, network) = (policy.parts().confinement.get(), policy.parts().network);
    match format {
        OutputFormat::Text => {
            let mut text = format!("mode   {}\n", mode.as_str().unwrap_or_default());
            if let Some(why) = &policy.parts().doubt {
                line(&mut text, &format!("doubt  {why}: every call asks"));
            }
            for (effect, rule) in rules() {
                let (effect, rule, origin) = (effect.name(), rule.text(), rule.origin());
                line(&mut text, &format!("{effect:<6} {rule}  # {origin}"));
            }
            if rules().next().is_none() {
                line(&mut text, "rules  none: the mode decides");
            }
            line(&mut text, &format!("bash   {}", in_words(confinement, network)));
            text
        }
        OutputFormat::Json | OutputFormat::StreamJson => {
            let rules: Vec<Value> = rules().map(told).collect();
            let object = json!({
                "mode": mode,
                "doubt": policy.parts().doubt,
                "rules": rules,
                "sandbox": name(confinement),
                "network": network,
            });
            format!("{object}\n")
        }
    }
}

/// The same in a conversation, with the rules that were added while it lasted.
pub(crate) fn in_session(policy: &Policy) -> String {
    let mut text = list(policy, OutputFormat::Text);
    for (at, rule) in policy.session_rules().iter().enumerate() {
        let rule = rule.text();
        line(&mut text, &format!("allow  {rule}  # this session: /permissions forget {}", at + 1));
    }
    text
}

/// Forgets a rule of the session, by its number counted from 1; what the person reads about it.
pub(crate) fn forget(policy: &mut Policy, number: usize) -> String {
    let forgotten = number.checked_sub(1).and_then(|at| policy.forget_session_rule(at));
    match (forgotten, policy.session_rules().len()) {
        (Some(rule), _) => format!("Forgotten: {rule} asks again.\n"),
        (None, 0) => "There are no rules of this session.\n".to_owned(),
        (None, most) => format!("There is no rule {number}: they go from 1 to {most}.\n"),
    }
}

/// Goes on in the mode of this name; what the person reads about it.
pub(crate) fn change_mode(policy: &mut Policy, name: &str) -> String {
    let Ok(mode) = serde_json::from_value::<PermissionMode>(json!(name)) else {
        return format!(
            "There is no mode '{name}': it is default, accept-edits, auto, plan or bypass.\n"
        );
    };
    policy.set_mode(mode);
    let confinement = policy.parts().confinement.get();
    match (mode, confinement) {
        (PermissionMode::Plan, _) | (_, Confinement::Workspace | Confinement::External) => {
            format!("Now in mode {name}.\n")
        }
        // The sandbox is what it was at the start.
        (_, Confinement::ReadOnly) => {
            format!("Now in mode {name}; commands still write nothing in this session.\n")
        }
        (_, Confinement::Partial) => format!(
            "Now in mode {name}; commands are confined by Landlock, which is not enough for them to run unasked.\n"
        ),
        (_, Confinement::None) => format!("Now in mode {name}; commands are not confined.\n"),
    }
}

/// What would happen with a command: the decision first, then what led to it.
pub(crate) fn test(
    policy: &Policy,
    command: &str,
    programs: &dyn Programs,
    format: OutputFormat,
) -> String {
    let explanation = policy.explain(SHELL, command, programs);
    let because = explanation.decision.because();
    let decision = explanation.decision.name();
    let mode = json!(policy.mode());
    let (confinement, network) = (policy.parts().confinement.get(), policy.parts().network);
    match format {
        OutputFormat::Text => {
            let mut text = String::new();
            line(&mut text, &format!("{decision:<8} {}", because.why));
            if let (Some(rule), Some(origin)) = (&because.rule, &because.origin) {
                line(&mut text, &format!("rule     {rule}  # {origin}"));
            }
            for Explained { command, effect, why } in &explanation.commands {
                let effect = effect.map_or("open", Effect::name);
                line(&mut text, &format!("command  {command}: {effect}, {why}"));
            }
            line(&mut text, &format!("mode     {}", mode.as_str().unwrap_or_default()));
            line(&mut text, &format!("sandbox  {}", in_words(confinement, network)));
            text
        }
        OutputFormat::Json | OutputFormat::StreamJson => {
            let commands: Vec<Value> = explanation.commands.iter().map(explained).collect();
            let object = json!({
                "decision": decision,
                "why": because.why,
                "rule": because.rule,
                "origin": because.origin,
                "commands": commands,
                "mode": mode,
                "sandbox": name(confinement),
                "network": network,
            });
            format!("{object}\n")
        }
    }
}

fn explained(one: &Explained) -> Value {
    json!({"command": one.command, "effect": one.effect.map(Effect::name), "why": one.why})
}

fn name(confinement: Confinement) -> &'static str {
    match confinement {
        Confinement::None => "none",
        Confinement::ReadOnly => "read-only",
        Confinement::Workspace => "workspace-write",
        Confinement::Partial => "partial",
        Confinement::External => "external",
    }
}

fn in_words(confinement: Confinement, network: bool) -> String {
    let reach = if network { "and reach the network" } else { "and reach nobody" };
    match confinement {
        Confinement::None => "commands are not confined".to_owned(),
        Confinement::ReadOnly => format!("commands write nothing but temporary files {reach}"),
        Confinement::Workspace => format!("commands write in the workspace {reach}"),
        Confinement::Partial => {
            format!(
                "commands write in the workspace {reach}, held by Landlock, which holds back less"
            )
        }
        Confinement::External => "what anvil runs in confines commands".to_owned(),
    }
}

/// One line, whatever is in it.
fn line(text: &mut String, content: &str) {
    writeln!(text, "{}", one_line(content)).expect("a string takes what is written to it");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rules_of_a_session_are_numbered_and_forgotten_by_their_number() {
        let mut policy = Policy::of_mode(PermissionMode::Default);
        for rule in ["bash(cargo test:*)", "edit_file(./src/**)"] {
            policy.allow_for_session(rule).unwrap();
        }
        let told = in_session(&policy);
        assert!(told.starts_with("mode   default\n"), "{told}");
        assert!(told.contains("allow  edit_file(./src/**)  # this session: /permissions forget 2"));
        assert_eq!(forget(&mut policy, 3), "There is no rule 3: they go from 1 to 2.\n");
        assert_eq!(forget(&mut policy, 0), "There is no rule 0: they go from 1 to 2.\n");
        let before = policy.revision();
        assert_eq!(forget(&mut policy, 1), "Forgotten: bash(cargo test:*) asks again.\n");
        assert!(policy.revision() > before, "what was agreed to before is asked about anew");
        assert_eq!(policy.session_rules()[0].text(), "edit_file(./src/**)");
        assert_eq!(forget(&mut policy, 1).lines().count(), 1);
        assert_eq!(forget(&mut policy, 1), "There are no rules of this session.\n");
    }

    #[test]
    fn a_mode_is_changed_by_its_name() {
        let mut policy = Policy::of_mode(PermissionMode::Default);
        assert_eq!(change_mode(&mut policy, "plan"), "Now in mode plan.\n");
        assert_eq!(policy.mode(), PermissionMode::Plan);
        assert!(change_mode(&mut policy, "auto").contains("commands are not confined"));
        assert!(change_mode(&mut policy, "yolo").contains("accept-edits"));
        assert_eq!(policy.mode(), PermissionMode::Auto);
    }
}
