//! Whether each command of a line is covered: by a rule, or by what is known of its program. [pure]

use std::path::PathBuf;

use super::command::{Line, is_read_only, shown, spellings, writes};
use super::decide::{Call, because, told};
use super::rule::Rule;
use super::shell::{Found, RedirectKind, Simple, programs};
use super::{Because, Confinement, PermissionMode, Policy};

/// What lets one command of a line run.
#[derive(Debug, Clone, Copy)]
pub(super) enum Cover<'r> {
    /// A rule.
    Rule(&'r Rule),
    /// It is known to read and nothing else.
    ReadOnly,
}

impl Policy {
    /// A line is permitted when each of its commands is, and when nothing in it is hidden.
    pub(super) fn line_permission(
        &self,
        line: &Line<'_>,
        rules: &[&Rule],
        call: &Call<'_>,
    ) -> Option<Because> {
        let commands = understood(line).ok()?;
        if let Some(rule) = rules.iter().find(|rule| rule.permits(call.subject, &self.territory)) {
            return Some(because(rule, format!("allowed by {}", told(rule))));
        }
        let mut deciding: Vec<&Rule> = Vec::new();
        for command in commands {
            if let Cover::Rule(rule) = self.cover(command, rules, call).ok()?
                && !deciding.iter().any(|known| std::ptr::eq(*known, rule))
            {
                deciding.push(rule);
            }
        }
        self.hidden_is_covered(line, commands, rules, call).ok()?;
        let texts: Vec<&str> = deciding.iter().map(|rule| rule.text()).collect();
        let origins: Vec<&str> = deciding.iter().map(|rule| rule.origin()).collect();
        let told: Vec<String> = deciding.iter().map(|rule| told(rule)).collect();
        (!deciding.is_empty()).then(|| Because {
            why: format!("allowed by {}", told.join(" and ")),
            rule: Some(texts.join(", ")),
            origin: Some(origins.join(", ")),
        })
    }

    /// What lets this one command of a line run.
    ///
    /// # Errors
    /// Why nothing does.
    pub(super) fn cover<'r>(
        &self,
        command: &Simple,
        rules: &[&'r Rule],
        call: &Call<'_>,
    ) -> Result<Cover<'r>, String> {
        self.check_redirects(command, call)?;
        self.cover_words(command, rules, call)
    }

    fn cover_words<'r>(
        &self,
        command: &Simple,
        rules: &[&'r Rule],
        call: &Call<'_>,
    ) -> Result<Cover<'r>, String> {
        let spellings = spellings(&command.argv, call.machine);
        let shown = command.argv.join(" ");
        if spellings.is_empty() {
            let program = &command.argv[0];
            return Err(format!("'{program}' is a program that anybody could have put there"));
        }
        let mut beyond = None;
        for (rule, argv) in rules.iter().flat_map(|rule| spellings.iter().map(move |s| (rule, s))) {
            match rule.permits_command(argv) {
                Ok(true) => return Ok(Cover::Rule(rule)),
                // What it starts has to be covered for its own sake.
                Err(_) if rule.is_unsafe() && starts_known(&command.argv, call) => {
                    return Ok(Cover::Rule(rule));
                }
                Ok(false) => {}
                Err(what) => {
                    beyond = Some(format!("{} does not cover '{shown}': it {what}", told(rule)))
                }
            }
        }
        let is_read =
            |line| is_read_only(command, line, &self.territory, self.is_confined(), call.machine);
        if call.line().is_some_and(is_read) {
            return Ok(Cover::ReadOnly);
        }
        Err(beyond.unwrap_or_else(|| format!("no rule allows '{shown}'")))
    }

    /// Wide rules cover programs that run others; those have to be covered too.
    fn hidden_is_covered(
        &self,
        line: &Line<'_>,
        commands: &[Simple],
        rules: &[&Rule],
        call: &Call<'_>,
    ) -> Result<(), String> {
        for found in line.reading.commands() {
            let words = found.words.iter().map(|word| word.literal().map(str::to_owned));
            let Some(argv) = words.collect::<Option<Vec<String>>>() else {
                return Err(format!("'{}' is not known in full", shown(&found.words)));
            };
            if commands.iter().all(|command| command.argv != argv) {
                let inner = Simple { argv, ..Simple::default() };
                self.cover_words(&inner, rules, call)?;
            }
        }
        Ok(())
    }

    /// Redirections are effects of their own: no rule about a program covers them.
    fn check_redirects(&self, command: &Simple, call: &Call<'_>) -> Result<(), String> {
        for redirect in command.redirects.iter().filter(|one| !one.is_harmless()) {
            let territory = &self.territory;
            let is_fine = |path: &PathBuf| {
                let named = territory.named(path, call.machine);
                let is_edit = || self.edits_run() && !territory.is_acted_upon(&named);
                let is_inside = territory.holds(&named);
                match redirect.kind {
                    RedirectKind::Duplicate => true,
                    RedirectKind::Read => {
                        is_inside && (self.is_confined() || !territory.hides(&named))
                    }
                    RedirectKind::Write | RedirectKind::Append => {
                        (is_inside && is_edit())
                            || (self.is_confined() && territory.is_scratch(&named))
                    }
                }
            };
            let places = call.line().and_then(|line| line.places(&redirect.target));
            if !places.is_some_and(|places| places.iter().all(is_fine)) {
                let what = if writes(redirect) { "writes" } else { "reads" };
                return Err(format!("a redirection {what} {}", redirect.target));
            }
        }
        Ok(())
    }

    fn edits_run(&self) -> bool {
        matches!(self.parts.mode, PermissionMode::AcceptEdits | PermissionMode::Auto)
    }

    pub(super) fn is_confined(&self) -> bool {
        matches!(self.parts.confinement.get(), Confinement::ReadOnly | Confinement::Workspace)
    }

    /// Whether the line runs nothing but programs that are known to read and nothing else.
    pub(super) fn reads_only(&self, line: &Line<'_>, call: &Call<'_>) -> bool {
        // Which files a pattern means is of no matter where the sandbox shows only what may be read.
        let patterns = || line.reading.reading_patterns().filter(|_| self.is_confined());
        understood(line).ok().or_else(patterns).is_some_and(|commands| {
            let is_cover = |one: &Simple| matches!(self.cover(one, &[], call), Ok(Cover::ReadOnly));
            let writes = |one: &Simple| one.redirects.iter().any(writes);
            commands.iter().all(|one| is_cover(one) && !writes(one))
        })
    }

    /// Why the line is not let run by rules and by what is known of programs.
    pub(super) fn gap(&self, line: &Line<'_>, call: &Call<'_>) -> Option<String> {
        let commands = match understood(line) {
            Ok(commands) => commands,
            Err(why) => return Some(why),
        };
        let rules: Vec<&Rule> = self.permitting(call.tool).collect();
        let gap = |command: &Simple| self.cover(command, &rules, call).err();
        commands
            .iter()
            .find_map(gap)
            .or_else(|| self.hidden_is_covered(line, commands, &rules, call).err())
            .or_else(|| {
                let written = || line.written().next().map(|path| path.display().to_string());
                let why = || match written() {
                    Some(path) => format!("a redirection writes {path}"),
                    None => "no rule allows all of it".to_owned(),
                };
                (!self.reads_only(line, call)).then(why)
            })
    }
}

/// Whether a command is one that runs the end of its arguments, and what that is was found.
fn starts_known(argv: &[String], call: &Call<'_>) -> bool {
    let commands = call.line().map(|line| line.reading.commands()).unwrap_or_default();
    let is_end = |found: &Found| {
        let words = found.words.iter().map(|word| word.literal().unwrap_or_default());
        argv.len() > found.words.len() && words.rev().eq(argv.iter().rev().take(found.words.len()))
    };
    programs::is_interpreter(&argv[0]) && commands.iter().any(is_end)
}

/// The commands of a line of which every byte is understood.
///
/// # Errors
/// What is not.
pub(super) fn understood<'l>(line: &'l Line<'_>) -> Result<&'l [Simple], String> {
    match line.reading.strict() {
        Ok(commands) if line.reading.is_complete() && !commands.is_empty() => Ok(commands),
        Ok(_) => Err("what it runs is decided while it runs".to_owned()),
        Err(unknown) => {
            Err(format!("{} (at byte {}) is left to the shell", unknown.what, unknown.at))
        }
    }
}
