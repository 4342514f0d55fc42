//! The rules of the floor plan as data, and the judge that holds one source against them.
//!
//! File names are relative to `crates/`. A door named `a/b.rs` includes the folder `a/b/`; one that
//! ends in `/` is a folder.

use std::fmt;

use crate::page::Page;
use crate::source::{Source, What};

/// Something that may happen behind its door only.
pub(crate) struct Rule {
    /// What the reader of an offence is told.
    pub(crate) says: &'static str,
    /// Where the rule holds.
    pub(crate) within: &'static [&'static str],
    /// Paths that offend, with everything below them.
    pub(crate) paths: &'static [&'static str],
    /// Macros that offend.
    pub(crate) macros: &'static [&'static str],
    /// Methods that offend.
    pub(crate) methods: &'static [&'static str],
    /// Words that offend inside a string, in any case.
    pub(crate) texts: &'static [&'static str],
    /// Files that may.
    pub(crate) doors: &'static [&'static str],
    /// Files that may do one thing more, and why.
    pub(crate) exceptions: &'static [Exception],
}

/// One thing that a rule forbids and one file may do all the same.
pub(crate) struct Exception {
    /// The file.
    pub(crate) file: &'static str,
    /// The path or text it may name.
    pub(crate) what: &'static str,
    /// Why that is right.
    pub(crate) why: &'static str,
}

const ALL: &[&str] = &["llm/", "agent/", "cli/", "evals/"];

/// One door each.
pub(crate) const RULES: &[Rule] = &[
    Rule {
        says: "only llm::http talks to the network",
        within: ALL,
        paths: &[
            "reqwest",
            "hyper",
            "tokio::net",
            "std::net::TcpStream",
            "std::net::TcpListener",
            "std::net::UdpSocket",
            "std::net::ToSocketAddrs",
            "std::os::unix::net",
            "nix::sys::socket",
            "rustix::net",
        ],
        macros: &[],
        methods: &[],
        texts: &[],
        doors: &["llm/src/http.rs"],
        exceptions: &[
            Exception {
                file: "llm/src/error.rs",
                what: "reqwest::Error",
                why: "a failed connection is one of the errors, and its cause is kept",
            },
            Exception {
                file: "agent/src/process.rs",
                what: "tokio::net::unix::pipe",
                why: "what a child prints comes through a pipe, which is no network",
            },
        ],
    },
    Rule {
        says: "only agent::process starts child processes",
        within: ALL,
        paths: &[
            "std::process::Command",
            "std::process::Child",
            "tokio::process",
            "process_wrap",
            "std::os::unix::process::CommandExt",
            "nix::unistd::fork",
            "nix::unistd::execv",
            "nix::unistd::execvp",
            "nix::unistd::execve",
            "nix::spawn",
        ],
        macros: &[],
        methods: &[],
        texts: &[],
        doors: &["agent/src/process.rs"],
        exceptions: &[],
    },
    Rule {
        says: "in the libraries only agent::tools::access, agent::sandbox and the session's journal and \
               store touch files",
        within: &["llm/", "agent/"],
        paths: &[
            "std::fs",
            "tokio::fs",
            "rustix::fs",
            "nix::fcntl",
            "nix::sys::stat",
            "tempfile",
            "ignore::Walk",
            "ignore::WalkBuilder",
        ],
        macros: &[],
        methods: FILE_METHODS,
        texts: &[],
        doors: &[
            "agent/src/tools/access.rs",
            "agent/src/sandbox.rs",
            "agent/src/session/journal.rs",
            "agent/src/session/store.rs",
        ],
        exceptions: &[
            Exception {
                file: "agent/src/process/family.rs",
                what: "std::fs",
                why: "Linux tells about processes in files, below /proc",
            },
            Exception {
                file: "agent/src/process/session.rs",
                what: "std::fs",
                why: "Linux tells about processes in files, below /proc",
            },
            Exception {
                file: "agent/src/process/start.rs",
                what: "std::fs",
                why: "Linux tells which signals are ignored in a file, below /proc",
            },
            Exception {
                file: "agent/src/process/vfork.rs",
                what: "nix::fcntl::OFlag",
                why: "a child's standard input is opened for it in the words of open(2)",
            },
            Exception {
                file: "agent/src/process/vfork.rs",
                what: "nix::sys::stat::Mode",
                why: "a child's standard input is opened for it in the words of open(2)",
            },
            Exception {
                file: "agent/src/process.rs",
                what: "is_dir",
                why: "a failed spawn is told apart by whether the working directory is gone",
            },
            Exception {
                file: "agent/src/programs.rs",
                what: "std::fs",
                why: "which program a name means is found on PATH, in no file that a tool is given",
            },
            Exception {
                file: "agent/src/programs.rs",
                what: "canonicalize",
                why: "a link may lead from a folder of PATH to anywhere",
            },
            Exception {
                file: "agent/src/programs.rs",
                what: "is_file",
                why: "a folder on PATH is no program",
            },
            Exception {
                file: "agent/src/tools/bash.rs",
                what: "is_file",
                why: "bash itself is looked for on PATH, no file of the workspace",
            },
        ],
    },
    Rule {
        says: "only cli::say writes to standard output and error, where everything is made visible first",
        within: &["llm/", "agent/", "cli/"],
        paths: &[
            "std::io::stdout",
            "std::io::stderr",
            "std::io::Stdout",
            "std::io::Stderr",
            "tokio::io::stdout",
            "tokio::io::stderr",
        ],
        macros: &["print", "println", "eprint", "eprintln", "dbg"],
        methods: &[],
        texts: &[],
        doors: &["cli/src/say.rs"],
        exceptions: &[
            Exception {
                file: "cli/src/app.rs",
                what: "std::io::stdout",
                why: "hands them to the renderers, which write nothing that is not visible",
            },
            Exception {
                file: "cli/src/app.rs",
                what: "std::io::stderr",
                why: "hands them to the renderers, which write nothing that is not visible",
            },
            Exception {
                file: "cli/src/demo.rs",
                what: "std::io::stdout",
                why: "hands them to a renderer",
            },
            Exception {
                file: "cli/src/demo.rs",
                what: "std::io::stderr",
                why: "hands them to a renderer",
            },
            Exception {
                file: "cli/src/headless.rs",
                what: "std::io::stdout",
                why: "hands it to a renderer when no turn began",
            },
            Exception {
                file: "cli/src/terminal.rs",
                what: "std::io::stdout",
                why: "asks how wide it is, and puts it back with a sequence of its own",
            },
            Exception {
                file: "cli/src/terminal.rs",
                what: "std::io::stderr",
                why: "asks how wide it is, and puts it back with a sequence of its own",
            },
            Exception {
                file: "cli/src/grants.rs",
                what: "std::io::stderr",
                why: "asks whether a person reads it",
            },
            Exception {
                file: "cli/src/signals.rs",
                what: "std::io::stdout",
                why: "watches whether it is still read",
            },
        ],
    },
    Rule {
        says: "environment variables are read in cli::app and agent::secrets",
        within: ALL,
        paths: &[
            "std::env::var",
            "std::env::var_os",
            "std::env::vars",
            "std::env::vars_os",
            "std::env::set_var",
            "std::env::remove_var",
            "std::env::home_dir",
            "std::env::temp_dir",
            "dirs",
        ],
        macros: &[],
        methods: &[],
        texts: &[],
        doors: &["cli/src/app.rs", "agent/src/secrets.rs"],
        exceptions: &[],
    },
    Rule {
        says: "the libraries return typed errors; anyhow is for the binaries",
        within: &["llm/", "agent/"],
        paths: &["anyhow"],
        macros: &["anyhow", "bail"],
        methods: &[],
        texts: &[],
        doors: &[],
        exceptions: &[],
    },
    Rule {
        says: "provider and model names stay under llm::capability, llm::models and llm::config",
        within: ALL,
        paths: &[],
        macros: &[],
        methods: &[],
        texts: &[
            "anthropic",
            "azure",
            "claude",
            "deepseek",
            "gemini",
            "gpt-",
            "grok",
            "groq",
            "kimi",
            "mistral",
            "moonshot",
            "ollama",
            "openai",
            "openrouter",
        ],
        doors: &["llm/src/capability.rs", "llm/src/models.rs", "llm/src/config.rs"],
        exceptions: &[
            Exception {
                file: "cli/src/demo.rs",
                what: "_api_key",
                why: "its last line tells a person how to use a real model",
            },
            Exception {
                file: "llm/src/providers/anthropic.rs",
                what: "anthropic-version",
                why: "the protocol's own header",
            },
            Exception {
                file: "llm/src/providers/gemini/decode.rs",
                what: "gemini interactions",
                why: "a person reads which protocol answered instead",
            },
            Exception {
                file: "agent/src/context/instructions.rs",
                what: "claude.md",
                why: "many repositories keep their instructions in a file of that name",
            },
        ],
    },
];

/// What a [pure] file does not name: I/O, clocks and threads of the standard library. Of `std::os` only the
/// bytes of a name (`std::os::unix::ffi`) are left.
const IMPURE_PATHS: &[&str] = &[
    "std::fs",
    "std::net",
    "std::process",
    "std::env",
    "std::thread",
    "std::os::fd",
    "std::os::linux",
    "std::os::macos",
    "std::os::unix::fs",
    "std::os::unix::io",
    "std::os::unix::net",
    "std::os::unix::prelude",
    "std::os::unix::process",
    "std::os::unix::thread",
    "std::io::stdin",
    "std::io::stdout",
    "std::io::stderr",
    "std::time::Instant",
    "std::time::SystemTime",
];

/// Methods of paths, and of a searcher that opens them itself, that look at the file system.
const FILE_METHODS: &[&str] = &[
    "exists",
    "try_exists",
    "is_file",
    "is_dir",
    "is_symlink",
    "metadata",
    "symlink_metadata",
    "canonicalize",
    "read_link",
    "read_dir",
    "search_path",
];

/// Crates, or the part of a crate, that do no I/O by themselves. A [pure] file uses no other.
const PURE_CRATES: &[&str] = &[
    "aho_corasick",
    "base64",
    "bytes",
    "globset",
    "httpdate",
    "icu_normalizer",
    "ignore::Error",
    "ignore::gitignore",
    "llm",
    "memchr",
    "minijinja",
    "regex",
    "schemars",
    "serde",
    "serde_json",
    "sha2",
    "similar",
    "strsim",
    "thiserror",
    "toml",
    "unicode_width",
    "url",
];

/// Modules that are not [pure] themselves but hold plain data that [pure] files need.
const DATA_FROM: &[Exception] = &[
    Exception {
        file: "agent/src/context/instructions.rs",
        what: "Instruction",
        why: "a file's name and text, which the prompt is made of",
    },
    Exception {
        file: "llm/src/error.rs",
        what: "LlmError",
        why: "the errors of the pure halves are variants of the crate's one error",
    },
    Exception {
        file: "agent/src/tool.rs",
        what: "Effects, PathSet",
        why: "a policy judges the effects that a tool states, not what it does",
    },
];

/// A broken rule and where.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Offence {
    /// Relative to `crates/`.
    pub(crate) file: String,
    /// Counted from 1.
    pub(crate) line: usize,
    /// What was found and which rule it breaks.
    pub(crate) text: String,
}

impl fmt::Display for Offence {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "crates/{}:{}: {}", self.file, self.line, self.text)
    }
}

/// What a source is held against.
pub(crate) struct Judge<'a> {
    /// The files that exist and which of them are [pure].
    pub(crate) page: &'a Page,
    /// The crates that any member depends on, as they are written in code.
    pub(crate) crates: &'a [String],
}

impl Judge<'_> {
    /// Every offence of one file.
    pub(crate) fn judge(&self, file: &str, source: &Source) -> Vec<Offence> {
        let mut offences = Vec::new();
        for seen in &source.seen {
            let mut reasons = broken_rules(file, &seen.what);
            if self.page.get(file).is_some_and(|entry| entry.pure) {
                reasons.extend(self.impurity(file, &seen.what));
            }
            offences.extend(reasons.into_iter().map(|text| Offence {
                file: file.to_owned(),
                line: seen.line,
                text,
            }));
        }
        offences.sort();
        offences.dedup();
        offences
    }

    /// Why `what` has no place in a [pure] file.
    fn impurity(&self, file: &str, what: &What) -> Option<String> {
        let found = match what {
            What::Word(word) => format!("`{word}`"),
            What::Method(name) if name == "elapsed" || FILE_METHODS.contains(&name.as_str()) => {
                format!("`.{name}()`")
            }
            What::Path(path) if self.is_impure(file, path) => format!("`{path}`"),
            What::Glob(path) if IMPURE_PATHS.iter().any(|impure| is_below(impure, path)) => {
                format!("`{path}::*`")
            }
            _ => return None,
        };
        Some(format!("{found} in a file that is marked [pure]"))
    }

    fn is_impure(&self, file: &str, path: &str) -> bool {
        let first = path.split("::").next().unwrap_or_default();
        let is_impure_crate = self.crates.iter().any(|name| name == first)
            && !PURE_CRATES.iter().any(|pure| is_below(path, pure));
        is_impure_crate
            || IMPURE_PATHS.iter().any(|impure| is_below(path, impure))
            || self.sibling(file, path).is_some_and(|sibling| {
                !self.page[&sibling].pure && DATA_FROM.iter().all(|data| data.file != sibling)
            })
    }

    /// The file of this crate that a path leads into, unless it is an index of modules.
    fn sibling(&self, file: &str, path: &str) -> Option<String> {
        let (member, own) = file.split_once("/src/")?;
        let mut module: Vec<&str> = own.trim_end_matches(".rs").split('/').collect();
        let mut parts = path.split("::").peekable();
        match parts.next()? {
            "crate" => module.clear(),
            "super" => {
                module.pop();
                while parts.next_if_eq(&"super").is_some() {
                    module.pop();
                }
            }
            _ => return None,
        }
        let mut found = None;
        for part in parts {
            module.push(part);
            let candidate = format!("{member}/src/{}.rs", module.join("/"));
            if self.page.contains_key(&candidate) {
                found = Some(candidate);
            }
        }
        found
    }
}

/// What is said of `what` by each rule that it breaks in `file`.
fn broken_rules(file: &str, what: &What) -> Vec<String> {
    let holds = |rule: &&Rule| {
        rule.within.iter().any(|place| file.starts_with(place))
            && !rule.doors.iter().any(|door| is_behind(file, door))
    };
    (RULES.iter().filter(holds))
        .filter_map(|rule| {
            let found = forbidden_by(rule, what)?;
            let is_excepted =
                rule.exceptions.iter().any(|one| is_behind(file, one.file) && one.allows(what));
            (!is_excepted).then(|| format!("{found}: {}", rule.says))
        })
        .collect()
}

impl Exception {
    /// Whether `what` is the one thing more.
    pub(crate) fn allows(&self, what: &What) -> bool {
        match what {
            What::Path(path) => is_below(path, self.what),
            What::Macro(name) | What::Method(name) => name == self.what,
            What::Text(text) => text.to_lowercase().contains(self.what),
            What::Glob(_) | What::Word(_) => false,
        }
    }
}

/// What of `what` the rule forbids, as an offence quotes it.
pub(crate) fn forbidden_by(rule: &Rule, what: &What) -> Option<String> {
    match what {
        What::Path(path) => {
            rule.paths.iter().any(|door| is_below(path, door)).then(|| format!("`{path}`"))
        }
        // What a glob brings in cannot be seen, so it may not reach over anything forbidden.
        What::Glob(path) => (rule.paths.iter())
            .any(|door| is_below(door, path) || is_below(path, door))
            .then(|| format!("`{path}::*`")),
        What::Macro(name) => rule.macros.contains(&name.as_str()).then(|| format!("`{name}!`")),
        What::Text(text) => {
            let lower = text.to_lowercase();
            rule.texts.iter().any(|word| lower.contains(word)).then(|| shortened(text))
        }
        What::Method(name) => rule.methods.contains(&name.as_str()).then(|| format!("`.{name}()`")),
        What::Word(_) => None,
    }
}

fn shortened(text: &str) -> String {
    let head: String = text.chars().take(60).collect();
    if head.len() < text.len() { format!("{head}…") } else { head }
}

/// Whether `path` is `root` or something inside it.
fn is_below(path: &str, root: &str) -> bool {
    path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// Whether `file` is `door` or in the folder of the same name.
pub(crate) fn is_behind(file: &str, door: &str) -> bool {
    if door.ends_with('/') {
        return file.starts_with(door);
    }
    let stem = door.trim_end_matches(".rs");
    file == door || file.strip_prefix(stem).is_some_and(|rest| rest.starts_with('/'))
}
