//! Which rules a person is offered after a yes.
//!
//! Each rule offered is enough by itself: with it, the same line runs unasked. Parts of a line that only
//! read need none; where several others are left, only a rule that covers all of them is offered.

use super::{Reading, Redirect, base_name, programs, words};

/// Up to three rules for the tool `bash` that would have let this line run, narrow to wide: exactly it,
/// commands that begin like it with its options, commands that begin like it.
///
/// No more than the exact line where a wider rule would allow more than its words say: for interpreters,
/// programs that delete, and calls that a rule for their program [does not cover](programs::covers). None
/// for a line that writes or reads files by redirection, or that only the shell understands.
pub fn propose(command: &str) -> Vec<String> {
    let reading = Reading::of(command);
    let Ok(simples) = reading.strict() else { return Vec::new() };
    let harmless = simples.iter().flat_map(|simple| &simple.redirects).all(Redirect::is_harmless);
    if !harmless || !reading.is_complete() {
        return Vec::new();
    }
    let mut parts: Vec<&[String]> = Vec::new();
    for simple in simples {
        let argv = simple.argv.as_slice();
        if (simples.len() == 1 || !programs::is_read_only(argv)) && !parts.contains(&argv) {
            parts.push(argv);
        }
    }
    // What a list of readers needs is a rule for the first of them.
    let Some(&first) = parts.first().or(simples.first().map(|one| one.argv.as_slice()).as_ref())
    else {
        return Vec::new();
    };
    let plain =
        simples.len() == 1 && simples[0].redirects.is_empty() && simples[0].assignments.is_empty();
    let exact = match plain && !command.trim().ends_with(":*") && !command.contains(['\n', '#']) {
        true => command.trim().to_owned(),
        false => words::quoted_line(first),
    };
    let mut rules = Vec::new();
    if parts.len() <= 1 {
        rules.push(format!("bash({exact})"));
    }
    for beginning in beginnings(first) {
        let rule = format!("bash({}:*)", words::quoted_line(beginning));
        if parts.iter().all(|part| is_covered(part, beginning)) && !rules.contains(&rule) {
            rules.push(rule);
        }
    }
    rules
}

/// A rule for commands with this beginning lets the command run.
fn is_covered(argv: &[String], beginning: &[String]) -> bool {
    argv.starts_with(beginning) && programs::covers(argv).is_ok() && may_vary(argv)
}

/// Other arguments make no other kind of command of it.
fn may_vary(argv: &[String]) -> bool {
    let name = base_name(&argv[0]);
    let is_git = name == "git" && argv.len() > 1;
    !argv[0].contains('/')
        && !DESTROYS.contains(&name)
        && (is_git || !programs::is_interpreter(name))
}

/// Programs whose operands decide what is lost.
const DESTROYS: &[&str] = &[
    "chgrp", "chmod", "chown", "dd", "fdisk", "kill", "killall", "mkfs", "mv", "parted", "pkill",
    "reboot", "rm", "rmdir", "rsync", "shred", "shutdown", "truncate", "unlink",
];

/// Programs of which one sub-command says nothing about another.
const WITH_COMMANDS: &[&str] = &[
    "apt",
    "apt-get",
    "aws",
    "az",
    "brew",
    "bundle",
    "cargo",
    "composer",
    "conda",
    "dnf",
    "docker",
    "dotnet",
    "gcloud",
    "gem",
    "gh",
    "git",
    "go",
    "gradle",
    "helm",
    "hg",
    "jj",
    "just",
    "kubectl",
    "make",
    "meson",
    "mix",
    "mvn",
    "npm",
    "nx",
    "pip",
    "pip3",
    "pnpm",
    "podman",
    "poetry",
    "rails",
    "rustup",
    "svn",
    "systemctl",
    "terraform",
    "turbo",
    "uv",
    "yarn",
];

/// Sub-commands that run what the next word names.
const WITH_TARGETS: &[&str] = &["run", "exec", "run-script", "x", "dlx", "tool"];

/// The beginnings of a command that may become rules, from long to short: with the options after its
/// sub-command, and without them.
fn beginnings(argv: &[String]) -> Vec<&[String]> {
    let is_word =
        |at: usize| argv.get(at).is_some_and(|word| !word.starts_with('-') && !word.is_empty());
    let mut fixed = 1;
    if WITH_COMMANDS.contains(&base_name(&argv[0])) {
        if !is_word(1) {
            return Vec::new();
        }
        fixed = 2;
        if WITH_TARGETS.contains(&argv[1].as_str()) {
            if !is_word(2) {
                return Vec::new();
            }
            fixed = 3;
        }
    }
    let options = argv[fixed..]
        .iter()
        .take_while(|word| word.starts_with('-') && word.len() > 1 && *word != "--");
    let with_options = fixed + options.count();
    vec![&argv[..with_options], &argv[..fixed]]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(command: &str, want: &[&str]) {
        let want: Vec<String> = want.iter().map(|rule| format!("bash({rule})")).collect();
        assert_eq!(propose(command), want, "{command:?}");
    }

    #[test]
    fn rules_go_from_the_line_to_what_begins_like_it() {
        check(
            "cargo test --lib foo",
            &["cargo test --lib foo", "cargo test --lib:*", "cargo test:*"],
        );
        check("cargo test", &["cargo test", "cargo test:*"]);
        check("npm run build", &["npm run build", "npm run build:*"]);
        check("git log -p -3", &["git log -p -3", "git log -p -3:*", "git log:*"]);
        check("pytest -q tests", &["pytest -q tests", "pytest -q:*", "pytest:*"]);
        check("grep -rn 'a b' src", &["grep -rn 'a b' src", "grep -rn:*", "grep:*"]);
        check("cargo test 2>&1", &["cargo test", "cargo test:*"]);
        check("CI=1 cargo test", &["cargo test", "cargo test:*"]);
        check("echo 'a:*'", &["echo 'a:*'", "echo:*"]);
    }

    #[test]
    fn nothing_wide_is_offered_for_what_runs_anything_or_destroys() {
        check("python3 x.py", &["python3 x.py"]);
        check("bash -c 'ls'", &["bash -c 'ls'"]);
        check("rm -rf target", &["rm -rf target"]);
        check("find . -delete", &["find . -delete"]);
        check("git -c a=b log", &["git -c a=b log"]);
        check("git branch -D x", &["git branch -D x"]);
        check("timeout 5 cargo test", &["timeout 5 cargo test"]);
        check("./run.sh a", &["./run.sh a"]);
        check("cargo --version", &["cargo --version"]);
    }

    #[test]
    fn a_rule_that_is_offered_for_a_list_covers_all_of_it() {
        check(
            "cd crates && cargo test -q | tail -5",
            &["cargo test -q", "cargo test -q:*", "cargo test:*"],
        );
        check("cargo test a; cargo test b", &["cargo test:*"]);
        check("cargo test && cargo build", &[]);
        check("cargo test && rm -rf x", &[]);
    }

    #[test]
    fn no_rule_is_offered_that_would_not_help() {
        for command in
            ["echo x > f", "cat < f", "echo $x", "a | $(b)", "", "sleep 1 &", "cat <<E\nx\nE"]
        {
            check(command, &[]);
        }
    }

    #[test]
    fn every_rule_offered_reads_as_one_plain_command() {
        for command in [
            "cargo test 'a b'",
            "grep -e '(x)' f",
            "git log --format='%H \"x\"'",
            "echo 'it'\\''s'",
        ] {
            for rule in propose(command) {
                let text =
                    rule.strip_prefix("bash(").and_then(|rule| rule.strip_suffix(')')).unwrap();
                let text = text.strip_suffix(":*").unwrap_or(text);
                assert_eq!(Reading::of(text).strict().unwrap().len(), 1, "{rule}");
            }
        }
    }
}
