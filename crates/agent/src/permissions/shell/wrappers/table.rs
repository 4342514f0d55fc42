//! Programs whose operands are another command, and the options before it.

use crate::permissions::shell::options::Grammar;

/// A program that runs the command in its operands.
pub(super) struct Wrapper {
    pub(super) names: &'static [&'static str],
    pub(super) grammar: Grammar,
    /// Letters that are known to take no value.
    pub(super) flags: &'static str,
    /// Long names that are known to take no value.
    pub(super) long_flags: &'static [&'static str],
    /// Operands before the command.
    pub(super) operands: usize,
    /// `NAME=value` may stand before the command.
    pub(super) variables: bool,
    /// Letters whose value is a text of commands.
    pub(super) scripts: &'static str,
    /// Long names whose value is one.
    pub(super) long_scripts: &'static [&'static str],
    /// Letters with which nothing runs.
    pub(super) only_looks: &'static str,
}

impl Wrapper {
    const fn new(names: &'static [&'static str], grammar: Grammar, flags: &'static str) -> Self {
        Self {
            names,
            grammar,
            flags,
            long_flags: &[],
            operands: 0,
            variables: false,
            scripts: "",
            long_scripts: &[],
            only_looks: "",
        }
    }

    const fn after(self, operands: usize) -> Self {
        Self { operands, ..self }
    }

    /// It is known whether the letter takes a value.
    pub(super) fn knows(&self, letter: char) -> bool {
        let grammar = &self.grammar;
        letter.is_ascii_digit()
            || [self.flags, grammar.valued, grammar.attached].iter().any(|all| all.contains(letter))
    }
}

const PLAIN: Grammar = Grammar::wrapper("", &[]);

pub(super) const WRAPPERS: &[Wrapper] = &[
    Wrapper {
        variables: true,
        scripts: "S",
        long_scripts: &["split-string"],
        long_flags: &["ignore-environment", "null", "debug"],
        ..Wrapper::new(
            &["env"],
            Grammar::wrapper("uCS", &["unset", "chdir", "split-string"]),
            "iv0",
        )
    },
    Wrapper {
        variables: true,
        long_flags: &["non-interactive", "preserve-env", "set-home", "login", "shell", "stdin"],
        ..Wrapper::new(
            &["sudo"],
            Grammar::wrapper(
                "CDghpRrtTUu",
                &[
                    "close-from",
                    "chdir",
                    "group",
                    "host",
                    "prompt",
                    "chroot",
                    "role",
                    "type",
                    "command-timeout",
                    "other-user",
                    "user",
                ],
            ),
            "ABbEeHiKklNnPSsVv",
        )
    },
    Wrapper::new(&["doas"], Grammar::wrapper("aCu", &[]), "Lns"),
    Wrapper::new(
        &["nohup", "builtin", "busybox", "toybox", "catchsegv", "fakeroot", "unbuffer"],
        PLAIN,
        "",
    ),
    Wrapper { only_looks: "vV", ..Wrapper::new(&["command"], PLAIN, "p") },
    Wrapper::new(&["exec"], Grammar::wrapper("a", &[]), "cl"),
    Wrapper::new(&["setsid"], PLAIN, "cfw"),
    Wrapper::new(&["nice"], Grammar::wrapper("n", &["adjustment"]), ""),
    Wrapper::new(
        &["ionice"],
        Grammar::wrapper("cnpPu", &["class", "classdata", "pid", "pgid", "uid"]),
        "t",
    ),
    Wrapper {
        long_flags: &["foreground", "preserve-status", "verbose"],
        ..Wrapper::new(&["timeout"], Grammar::wrapper("ks", &["kill-after", "signal"]), "fpv")
            .after(1)
    },
    Wrapper::new(&["choom"], Grammar::wrapper("np", &["adjust", "pid"]), ""),
    Wrapper::new(&["uclampset"], Grammar::wrapper("mMp", &["pid"]), "asR"),
    Wrapper::new(&["stdbuf"], Grammar::wrapper("ioe", &["input", "output", "error"]), ""),
    Wrapper {
        long_flags: &["null", "no-run-if-empty", "verbose", "interactive", "exit", "open-tty"],
        ..Wrapper::new(
            &["xargs"],
            Grammar::wrapper(
                "adEILnPs",
                &[
                    "arg-file",
                    "delimiter",
                    "max-args",
                    "max-procs",
                    "max-chars",
                    "process-slot-var",
                ],
            )
            .attached("eil"),
            "0oprtx",
        )
    },
    Wrapper {
        long_flags: &["append", "portability", "quiet", "verbose"],
        ..Wrapper::new(&["time", "gtime"], Grammar::wrapper("fo", &["format", "output"]), "apqvl")
    },
    Wrapper::new(&["chroot"], Grammar::wrapper("", &["groups", "userspec"]), "").after(1),
    Wrapper::new(
        &["unshare", "nsenter"],
        Grammar::wrapper(
            "SGRwlt",
            &["setuid", "setgid", "root", "wd", "target", "map-user", "map-group"],
        ),
        "cCfFiImnNprTuUzZ",
    ),
    Wrapper::new(
        &["strace", "ltrace"],
        Grammar::wrapper(
            "abeEIloOpPsSuUxX",
            &["output", "trace", "string-limit", "attach", "user"],
        ),
        "AcCdDfFhiknqrtTvwyYzZ",
    ),
    Wrapper {
        scripts: "c",
        long_scripts: &["command"],
        long_flags: &["shared", "exclusive", "unlock", "nonblock", "close", "no-fork", "verbose"],
        ..Wrapper::new(
            &["flock"],
            Grammar {
                ends_early: false,
                ..Grammar::wrapper("cEw", &["command", "timeout", "conflict-exit-code"])
            },
            "Feionsuxv",
        )
        .after(1)
    },
    Wrapper::new(&["taskset", "chrt"], Grammar::wrapper("TPD", &[]), "abcdfimopRrv").after(1),
    Wrapper::new(&["linux32", "linux64", "i386", "x86_64", "setpriv", "prlimit"], PLAIN, ""),
    Wrapper::new(
        &["systemd-run"],
        Grammar::wrapper("pEuGHM", &["property", "setenv", "unit", "slice", "working-directory"]),
        "dqrtPS",
    ),
    Wrapper::new(
        &["rlwrap", "xvfb-run", "dbus-run-session", "proxychains", "proxychains4", "torsocks"],
        PLAIN,
        "",
    ),
    Wrapper::new(&["pkexec", "run0", "gosu", "setuidgid"], Grammar::wrapper("u", &["user"]), ""),
];
