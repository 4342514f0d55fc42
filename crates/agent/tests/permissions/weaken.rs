//! Whatever is put around a denied command, it stays denied.

use agent::PermissionMode;
use agent::permissions::Confinement;
use proptest::prelude::*;

use super::{Situation, Verdict, decide, policy};

const RULES: &[&str] = &["allow bash(*)!", "deny bash(rm:*)"];

/// What a command can be put into, again and again; `@` is the command.
const AROUND: &[&str] = &[
    "true; @",
    "@; true",
    "true && @",
    "@ || true",
    "true | @",
    "true & @",
    "(@)",
    "{ @; }",
    "! @",
    "true\n@",
    "@ # x",
    "@ > log",
    "if true; then @; fi",
    "for i in 1; do @; done",
    "while true; do @; done",
    "f() { @; }; f",
    "echo $(@)",
    "echo \"$(@)\"",
    "cat <(@)",
    "cat <<E\n$(@)\nE",
    "case x in x) @;; esac",
];

/// What can stand in front of a simple command.
const BEFORE: &[&str] = &[
    "env",
    "env -i A=1",
    "sudo",
    "nohup",
    "nice -n 5",
    "timeout 5",
    "setsid",
    "stdbuf -o0",
    "command",
    "exec",
    "time",
    "xargs",
];

/// Blanks, comments and words that fill a line without meaning, up to any size.
fn padding() -> impl Strategy<Value = String> {
    (0..3usize, 0..80_000usize).prop_map(|(kind, length)| match kind {
        0 => " ".repeat(length),
        1 => format!("true {}; ", "a".repeat(length)),
        _ => "true;".repeat(length / 5),
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn text_around_a_denied_command_never_weakens_the_rule(
        before in prop::collection::vec(prop::sample::select(BEFORE), 0..3),
        around in prop::collection::vec(prop::sample::select(AROUND), 0..6),
        padding in padding(),
        is_assigned in any::<bool>(),
        is_bypass in any::<bool>(),
    ) {
        let mut line = "rm -rf x".to_owned();
        for word in &before {
            line = format!("{word} {line}");
        }
        if is_assigned {
            line = format!("A=1 {line}");
        }
        for frame in &around {
            line = frame.replace('@', &line);
        }
        let line = format!("{padding}{line}");
        let mode = if is_bypass { PermissionMode::Bypass } else { PermissionMode::Auto };
        let policy = policy(&Situation { mode, confinement: Confinement::Workspace, rules: RULES });
        let decision = decide(&policy, "bash", &line);
        prop_assert_eq!(Verdict::of(&decision), Verdict::Deny, "{:?}", decision);
    }
}
