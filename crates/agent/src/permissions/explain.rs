//! Says of a command line what would be decided and why, command by command. [pure]

use super::command::{Line, shown};
use super::cover::{Cover, understood};
use super::decide::{Call, told};
use super::pattern::{Certainty, Subject};
use super::rule::{Effect, Rule};
use super::shell::{Found, Simple};
use super::{Decision, Policy, Programs};
use crate::tool::Effects;

const READS: &str = "it is known to read and nothing else";

/// What would be decided about a command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// What would happen with all of it.
    pub decision: Decision,
    /// What speaks for and against each command in it.
    pub commands: Vec<Explained>,
}

/// One command of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explained {
    /// Its words; `…` stands for what only the shell knows.
    pub command: String,
    /// What rules and what is known of programs say about it; none where they say nothing.
    pub effect: Option<Effect>,
    /// Why.
    pub why: String,
}

impl Policy {
    /// Explains what would happen with a call of `tool`, a shell, that runs `command`.
    pub fn explain(&self, tool: &str, command: &str, machine: &dyn Programs) -> Explanation {
        let (line, effects) = (Line::of(command), Effects::command());
        let subject = Subject::Command(&line);
        let call = Call { tool, effects: &effects, subject: Some(&subject), machine };
        let found = line.reading.commands().iter();
        let commands = found.map(|found| self.explain_one(found, &line, &call)).collect();
        Explanation { decision: self.judge(&call), commands }
    }

    fn explain_one(&self, found: &Found, line: &Line<'_>, call: &Call<'_>) -> Explained {
        let explained = |effect, why| Explained { command: shown(&found.words), effect, why };
        for effect in [Effect::Deny, Effect::Ask] {
            let mut rules = self.parts.rules.of(effect).iter();
            let meant = rules.find(|rule| {
                rule.is_about(call.tool) && rule.could_mean_command(&found.words) != Certainty::No
            });
            if let Some(rule) = meant {
                return explained(Some(effect), told(rule));
            }
        }
        match self.covered(found, line, call) {
            Ok(why) => explained(Some(Effect::Allow), why),
            Err(why) => explained(None, why),
        }
    }

    fn covered(&self, found: &Found, line: &Line<'_>, call: &Call<'_>) -> Result<String, String> {
        let commands = match understood(line) {
            Err(_) if self.reads_only(line, call) => return Ok(READS.to_owned()),
            reading => reading?,
        };
        let words = found.words.iter().map(|word| word.literal().map(str::to_owned));
        let Some(argv) = words.collect::<Option<Vec<String>>>() else {
            return Err("only the shell knows what runs".to_owned());
        };
        let hidden = || Simple { argv: argv.clone(), ..Simple::default() };
        let command = commands.iter().find(|one| one.argv == argv).cloned().unwrap_or_else(hidden);
        let rules: Vec<&Rule> = self.permitting(call.tool).collect();
        match self.cover(&command, &rules, call)? {
            Cover::Rule(rule) => Ok(told(rule)),
            Cover::ReadOnly => Ok(READS.to_owned()),
        }
    }
}
