//! Which settings of git name a program, and how each is set to none. [pure]
//!
//! Source: git-config(1). A setting that is only used by commands that nobody here asks for is listed all
//! the same, since the list also tells a person what a repository brings along.

/// Whole keys, in lower case.
const KEYS: &[&str] = &[
    "core.alternaterefscommand",
    "core.askpass",
    "core.attributesfile",
    "core.editor",
    "core.fsmonitor",
    "core.gitproxy",
    "core.hookspath",
    "core.pager",
    "core.sshcommand",
    "credential.helper",
    "diff.external",
    "gpg.program",
    "init.templatedir",
    "interactive.difffilter",
    "sequence.editor",
    "uploadpack.packobjectshook",
];

/// Keys with a name in the middle: section and variable, in lower case.
const NAMED: &[(&str, &str)] = &[
    ("browser", "cmd"),
    ("credential", "helper"),
    ("diff", "command"),
    ("diff", "textconv"),
    ("difftool", "cmd"),
    ("filter", "clean"),
    ("filter", "process"),
    ("filter", "smudge"),
    ("gpg", "defaultkeycommand"),
    ("gpg", "program"),
    ("man", "cmd"),
    ("merge", "driver"),
    ("mergetool", "cmd"),
    ("remote", "receivepack"),
    ("remote", "uploadpack"),
    ("remote", "vcs"),
    ("submodule", "update"),
    ("tar", "command"),
    ("trailer", "cmd"),
    ("trailer", "command"),
];

/// Sections whose every variable is a command line.
const SECTIONS: &[&str] = &["alias", "pager"];

/// Whether the setting can make git start a program, or says where such settings come from.
pub(crate) fn is_program(key: &str) -> bool {
    let (section, name, variable) = parts(key);
    match name {
        None => {
            KEYS.contains(&format!("{section}.{variable}").as_str())
                || SECTIONS.contains(&&*section)
        }
        Some(_) => {
            NAMED.iter().any(|(s, v)| *s == section && *v == variable)
                || SECTIONS.contains(&&*section)
        }
    }
}

/// What to set, and to what, so that the setting starts nothing; nothing where the commands that are asked
/// for here do not look at it.
pub(super) fn pin(key: &str) -> Vec<(String, String)> {
    let (section, name, _) = parts(key);
    let nothing = || (key.to_owned(), String::new());
    match (section.as_str(), name) {
        // A filter that has to succeed would make git fail without it.
        ("filter", Some(name)) => {
            vec![nothing(), (format!("filter.{name}.required"), "false".to_owned())]
        }
        ("diff", Some(_)) => vec![nothing()],
        _ => Vec::new(),
    }
}

/// Section and variable are without regard to case, the name between them is not.
fn parts(key: &str) -> (String, Option<&str>, String) {
    let (section, rest) = key.split_once('.').unwrap_or((key, ""));
    let (name, variable) = match rest.rsplit_once('.') {
        Some((name, variable)) => (Some(name), variable),
        None => (None, rest),
    };
    (section.to_lowercase(), name, variable.to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_start_programs_are_known_in_any_case_and_with_any_name() {
        for key in [
            "core.fsMonitor",
            "CORE.HOOKSPATH",
            "filter.a.b.Clean",
            "diff.x y.textconv",
            "alias.st",
            "gpg.ssh.program",
        ] {
            assert!(is_program(key), "{key}");
        }
        for key in
            ["core.bare", "user.name", "filter.f.required", "remote.origin.url", "diff.renames"]
        {
            assert!(!is_program(key), "{key}");
        }
    }

    #[test]
    fn a_filter_is_set_to_nothing_and_is_not_required() {
        let pins = pin("filter.a.b.clean");
        let want = [("filter.a.b.clean", ""), ("filter.a.b.required", "false")];
        assert_eq!(pins, want.map(|(key, value)| (key.to_owned(), value.to_owned())));
        assert_eq!(pin("alias.st"), []);
    }
}
