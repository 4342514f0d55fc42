//! The rules of a session: those of all files and options, and those a person adds while it runs. [pure]

use super::rule::{Effect, KnownTools, Rule, RuleError, Written};

/// What is allowed, asked about and denied.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    allow: Vec<Rule>,
    ask: Vec<Rule>,
    deny: Vec<Rule>,
}

impl Rules {
    /// Adds a rule.
    ///
    /// # Errors
    /// What is wrong with it; then nothing was added.
    pub fn add(
        &mut self,
        effect: Effect,
        written: Written,
        tools: KnownTools<'_>,
    ) -> Result<(), RuleError> {
        let rule = Rule::new(effect, written, tools)?;
        self.list(effect).push(rule);
        Ok(())
    }

    /// The rules of one kind, in the order in which they were added.
    pub fn of(&self, effect: Effect) -> &[Rule] {
        match effect {
            Effect::Allow => &self.allow,
            Effect::Ask => &self.ask,
            Effect::Deny => &self.deny,
        }
    }

    /// What the deny rules about reading hide from searches too, which read more than the path they are
    /// given: masks of the file access, for patterns that begin in the workspace or anywhere.
    pub fn masks(&self) -> impl Iterator<Item = String> {
        self.deny.iter().filter(|rule| rule.is_about("read_file")).filter_map(Rule::mask)
    }

    fn list(&mut self, effect: Effect) -> &mut Vec<Rule> {
        match effect {
            Effect::Allow => &mut self.allow,
            Effect::Ask => &mut self.ask,
            Effect::Deny => &mut self.deny,
        }
    }

    /// Whether any of them takes calls of this tool away.
    pub(super) fn restrict(&self, tool: &str) -> bool {
        self.ask.iter().chain(&self.deny).any(|rule| rule.is_about(tool))
    }
}
