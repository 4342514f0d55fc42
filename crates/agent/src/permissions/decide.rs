//! The order in which a call is judged. [pure]
//!
//! What is refused comes first and nothing after it can undo it: protected files, deny rules, plan mode.
//! Then what only a person's word opens, which no rule and no mode can: paths outside the roots, the
//! network of a sandbox that has none. Then ask rules, allow rules, and the mode.

use std::path::{Path, PathBuf};

use super::command::Line;
use super::cover::understood;
use super::paths::{Named, Territory};
use super::pattern::{Certainty, Subject};
use super::rule::{Effect, Rule};
use super::shell::Simple;
use super::{Because, ByName, Confinement, Decision, PermissionMode, Policy, Programs};
use crate::tool::{Effects, GrantedPath, Grants, PathSet, SubjectKind};

/// A call with all that a judgement needs of it.
pub(super) struct Call<'a> {
    pub(super) tool: &'a str,
    pub(super) effects: &'a Effects,
    pub(super) subject: Option<&'a Subject<'a>>,
    pub(super) machine: &'a dyn Programs,
}

impl Call<'_> {
    pub(super) fn line(&self) -> Option<&Line<'_>> {
        match self.subject {
            Some(Subject::Command(line)) => Some(line),
            Some(Subject::Path(_) | Subject::Name(_)) | None => None,
        }
    }
}

impl Policy {
    /// Judges a call.
    pub(super) fn judge(&self, call: &Call<'_>) -> Decision {
        self.refusal(call)
            .or_else(|| self.grant_needed(call))
            .or_else(|| self.question(call))
            .or_else(|| self.permission(call))
            .unwrap_or_else(|| self.by_mode(call))
    }

    /// What nothing can undo.
    fn refusal(&self, call: &Call<'_>) -> Option<Decision> {
        self.protected(call).or_else(|| self.denied(call)).or_else(|| self.refused_by_plan(call))
    }

    fn protected(&self, call: &Call<'_>) -> Option<Decision> {
        let territory = &self.territory;
        let of_line = call.line().into_iter().flat_map(Line::written);
        let all = paths(&call.effects.writes).map(Path::to_owned).chain(of_line);
        all.into_iter().find_map(|path| {
            let why = territory.protection(&territory.named(&path, call.machine))?;
            Some(deny(format!(
                "{} may not be written: {why}. Ask the user to change it by hand.",
                path.display()
            )))
        })
    }

    fn denied(&self, call: &Call<'_>) -> Option<Decision> {
        let rules = self.parts.rules.of(Effect::Deny);
        let rule = self.first(rules, call, Certainty::Yes)?;
        Some(Decision::Deny { because: because(rule, format!("denied by {}", told(rule))) })
    }

    /// The first rule that means the call with at least this certainty.
    fn first<'r>(
        &self,
        rules: &'r [Rule],
        call: &Call<'_>,
        at_least: Certainty,
    ) -> Option<&'r Rule> {
        rules.iter().find(|rule| {
            rule.is_about(call.tool) && rule.could_mean(call.subject, &self.territory) >= at_least
        })
    }

    fn refused_by_plan(&self, call: &Call<'_>) -> Option<Decision> {
        if self.parts.mode != PermissionMode::Plan || call.effects.is_read_only() {
            return None;
        }
        // A list of programs can be wrong about one of them; under a sandbox that is of no matter.
        let can_write_nothing = self.parts.confinement.get() == Confinement::ReadOnly;
        if can_write_nothing && call.line().is_some_and(|line| self.reads_only(line, call)) {
            return None;
        }
        Some(deny(format!(
            "plan mode: {} would {}. Describe the change instead, or ask the user to leave plan mode.",
            call.tool,
            describe(call.effects)
        )))
    }

    /// What only a person's word opens.
    fn grant_needed(&self, call: &Call<'_>) -> Option<Decision> {
        let outside = self.paths_outside(call);
        let network = call.line().filter(|_| self.has_no_network()).and_then(Line::needs_network);
        let why = match (outside.first(), &network) {
            (Some(path), _) => format!(
                "{} would {} {}, which is outside the folders of this session (--add-dir DIR opens one)",
                call.tool,
                if path.write { "write" } else { "read" },
                path.path.display()
            ),
            (None, Some(command)) => format!(
                "'{command}' needs the network, which commands do not have (--network gives it to them)"
            ),
            (None, None) => return None,
        };
        let grants = Grants { network: network.is_some(), paths: outside };
        Some(Decision::Ask { because: Because::of(why), grants })
    }

    fn has_no_network(&self) -> bool {
        let is_ours =
            !matches!(self.parts.confinement.get(), Confinement::None | Confinement::External);
        is_ours && !self.parts.network
    }

    fn paths_outside(&self, call: &Call<'_>) -> Vec<GrantedPath> {
        let of_line = call.line().into_iter().flat_map(Line::written);
        let is_scratch = |named: &Named| call.line().is_some() && self.territory.is_scratch(named);
        let written = paths(&call.effects.writes).map(Path::to_owned).chain(of_line);
        let written = written.map(|path| (path, true));
        let read = paths(&call.effects.reads).map(|path| (path.to_owned(), false));
        let mut outside: Vec<GrantedPath> = Vec::new();
        for (path, write) in written.chain(read) {
            let named = self.territory.named(&path, call.machine);
            if self.territory.holds(&named) || is_scratch(&named) {
                continue;
            }
            for way in named.ways().map(Path::to_owned) {
                if !outside.iter().any(|known| known.path == way) {
                    outside.push(GrantedPath { path: way, write });
                }
            }
        }
        outside
    }

    /// Rules that ask, and those that may deny what only the shell knows.
    fn question(&self, call: &Call<'_>) -> Option<Decision> {
        let rules = &self.parts.rules;
        let asks = self.first(rules.of(Effect::Ask), call, Certainty::Maybe);
        let rule = asks.or_else(|| self.first(rules.of(Effect::Deny), call, Certainty::Maybe))?;
        let why = match asks {
            Some(rule) => format!("{} asks by {}", call.tool, told(rule)),
            None => {
                format!("the shell decides what runs here, and it may be denied by {}", told(rule))
            }
        };
        Some(Decision::Ask { because: because(rule, why), grants: Grants::default() })
    }

    fn permission(&self, call: &Call<'_>) -> Option<Decision> {
        let rules: Vec<&Rule> = self.permitting(call.tool).collect();
        let because = match call.line() {
            Some(line) => self.line_permission(line, &rules, call)?,
            None => {
                let rule =
                    rules.into_iter().find(|rule| rule.permits(call.subject, &self.territory))?;
                because(rule, format!("allowed by {}", told(rule)))
            }
        };
        Some(Decision::Allow { because })
    }

    /// The rules that permit calls of a tool, those of the session first. Where rules may be missing,
    /// one that forbids may be among them, and only a person's word counts.
    pub(super) fn permitting<'a>(&'a self, tool: &'a str) -> impl Iterator<Item = &'a Rule> {
        let configured: &[Rule] = match self.parts.doubt {
            Some(_) => &[],
            None => self.parts.rules.of(Effect::Allow),
        };
        self.session_allow.iter().chain(configured).filter(move |rule| rule.is_about(tool))
    }

    /// What happens with a call that nobody said anything about.
    fn by_mode(&self, call: &Call<'_>) -> Decision {
        if *call.effects == Effects::none() {
            return allow("it touches nothing");
        }
        if let Some(why) = &self.parts.doubt {
            return ask(format!("{why}: rules may be missing"));
        }
        if call.effects.is_read_only() {
            return allow("it changes nothing");
        }
        if let Some(line) = call.line() {
            return self.line_by_mode(line, call);
        }
        match self.parts.mode {
            PermissionMode::Bypass => allow("everything runs in this mode"),
            PermissionMode::AcceptEdits | PermissionMode::Auto if self.is_plain_edit(call) => {
                allow("edits of the workspace run in this mode")
            }
            _ => ask(format!("{} would {}", call.tool, describe(call.effects))),
        }
    }

    fn line_by_mode(&self, line: &Line<'_>, call: &Call<'_>) -> Decision {
        let is_read = line.reading.strict().is_err() && self.reads_only(line, call);
        let Some(gap) = (!is_read).then(|| self.gap(line, call)).flatten() else {
            return allow("it runs programs that read and nothing else");
        };
        let is_complete = line.reading.is_complete();
        match self.parts.mode {
            // Without a rule that forbids there is nothing that could have been missed.
            PermissionMode::Bypass if is_complete || !self.parts.rules.restrict(call.tool) => {
                allow("everything runs in this mode")
            }
            PermissionMode::Auto
                if is_complete && self.sandbox_holds() && !self.writes_acted_upon(line, call) =>
            {
                allow("the sandbox confines it")
            }
            _ => ask(format!("{} would run a command; {gap}", call.tool)),
        }
    }

    fn sandbox_holds(&self) -> bool {
        !matches!(self.parts.confinement.get(), Confinement::None | Confinement::Partial)
    }

    fn writes_acted_upon(&self, line: &Line<'_>, call: &Call<'_>) -> bool {
        let mut named = line.written().map(|path| self.territory.named(&path, call.machine));
        named.any(|named| self.territory.is_acted_upon(&named))
    }

    /// An edit of named files inside the roots, and nothing else.
    fn is_plain_edit(&self, call: &Call<'_>) -> bool {
        let effects = call.effects;
        let is_acted_upon =
            |path: &Path| self.territory.is_acted_upon(&self.territory.named(path, call.machine));
        matches!(effects.writes, PathSet::Paths(_) | PathSet::Workspace)
            && !effects.network
            && !effects.subprocess
            && !effects.unknown
            && !paths(&effects.writes).any(is_acted_upon)
    }
}

/// Whether a rule alone would do with an example what it is there for.
pub(super) fn is_example(
    rule: &Rule,
    effect: Effect,
    example: &str,
    kind: Option<SubjectKind>,
) -> bool {
    let home = PathBuf::from("/home/example");
    let territory = Territory {
        workspace: home.join("workspace"),
        home: Some(home.clone()),
        ..Territory::default()
    };
    let line = Line::of(if kind == Some(SubjectKind::Command) { example } else { "" });
    let path = match example.strip_prefix("~/") {
        Some(rest) => home.join(rest),
        None => PathBuf::from(example),
    };
    let named = territory.named(&path, &ByName);
    let subject = match kind {
        Some(SubjectKind::Command) => Subject::Command(&line),
        Some(SubjectKind::Path) => Subject::Path(&named),
        Some(SubjectKind::Name) | None => Subject::Name(example),
    };
    let is_meant = || rule.could_mean(Some(&subject), &territory) == Certainty::Yes;
    match (effect, &subject) {
        (Effect::Ask | Effect::Deny, _) => is_meant(),
        (Effect::Allow, Subject::Command(line)) => {
            let permits = |one: &Simple| rule.permits_command(&one.argv) == Ok(true);
            understood(line).is_ok_and(|commands| commands.iter().all(permits))
        }
        (Effect::Allow, _) => rule.permits(Some(&subject), &territory),
    }
}

/// The paths of a set that are known one by one.
fn paths(set: &PathSet) -> impl Iterator<Item = &Path> {
    let paths = match set {
        PathSet::Paths(paths) => paths.as_slice(),
        PathSet::None | PathSet::Workspace | PathSet::Anywhere => &[],
    };
    paths.iter().map(PathBuf::as_path)
}

/// A rule with where it was written.
pub(super) fn told(rule: &Rule) -> String {
    format!("the rule {} ({})", rule.text(), rule.origin())
}

pub(super) fn because(rule: &Rule, why: String) -> Because {
    Because { why, rule: Some(rule.text().to_owned()), origin: Some(rule.origin().to_owned()) }
}

fn allow(why: &str) -> Decision {
    Decision::Allow { because: Because::of(why) }
}

fn ask(why: String) -> Decision {
    Decision::Ask { because: Because::of(why), grants: Grants::default() }
}

fn deny(why: String) -> Decision {
    Decision::Deny { because: Because::of(why) }
}

fn describe(effects: &Effects) -> &'static str {
    if effects.subprocess {
        "run a command"
    } else if effects.writes != PathSet::None {
        "change files"
    } else if effects.network {
        "use the network"
    } else {
        "do something whose effects are not known"
    }
}
