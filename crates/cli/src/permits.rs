//! `anvil permissions`: the rules in force, and what would happen with a command.

use std::fmt::Write as _;

use agent::permissions::{Confinement, Decision, Effect, Explained, Policy, Programs, Rule};
use agent::sanitize::one_line;
use serde_json::{Value, json};

use crate::args::OutputFormat;

/// The tool that runs commands.
const SHELL: &str = "bash";

/// The rules in force, in the order in which they count, each with where it was written.
pub(crate) fn list(policy: &Policy, format: OutputFormat) -> String {
    let of =
        |effect: Effect| policy.parts().rules.of(effect).iter().map(move |rule| (effect, rule));
    let rules = || [Effect::Deny, Effect::Ask, Effect::Allow].into_iter().flat_map(of);
    let told = |(effect, rule): (Effect, &Rule)| json!({"effect": effect.name(), "rule": rule.text(), "origin": rule.origin()});
    let mode = json!(policy.mode());
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
            text
        }
        OutputFormat::Json | OutputFormat::StreamJson => {
            let rules: Vec<Value> = rules().map(told).collect();
            format!("{}\n", json!({"mode": mode, "doubt": policy.parts().doubt, "rules": rules}))
        }
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
    let decision = match explanation.decision {
        Decision::Allow { .. } => "allow",
        Decision::Ask { .. } => "ask",
        Decision::Deny { .. } => "deny",
    };
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
        Confinement::External => "external",
    }
}

fn in_words(confinement: Confinement, network: bool) -> String {
    let reach = if network { "and reach the network" } else { "and reach nobody" };
    match confinement {
        Confinement::None => "commands are not confined".to_owned(),
        Confinement::ReadOnly => format!("commands write nothing but temporary files {reach}"),
        Confinement::Workspace => format!("commands write the workspace {reach}"),
        Confinement::External => "what anvil runs in confines commands".to_owned(),
    }
}

/// One line, whatever is in it.
fn line(text: &mut String, content: &str) {
    writeln!(text, "{}", one_line(content)).expect("a string takes what is written to it");
}
