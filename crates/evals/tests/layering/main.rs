//! Holds the sources and manifests against the floor plan in `docs/architecture.md` and names the
//! line that breaks it.
//!
//! The page is the one list of files: a new file is judged by the rules of its room from the moment
//! it is there, and as [pure] from the moment the page says so.

#![expect(clippy::unwrap_used, reason = "everything here is test code, its helpers too")]

mod manifest;
mod page;
mod rules;
mod source;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use page::{Entry, Page};
use rules::{Judge, Offence, RULES};
use serde_json::Value;
use source::Source;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn the_page() -> Page {
    page::read(&fs::read_to_string(root().join("docs/architecture.md")).unwrap())
}

/// Runs the Cargo that runs this test, without a network.
fn cargo(arguments: &[&str]) -> String {
    let output =
        Command::new(env!("CARGO")).args(arguments).arg("--offline").current_dir(root()).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn packages() -> Vec<Value> {
    let metadata = cargo(&["metadata", "--no-deps", "--format-version", "1"]);
    let metadata: Value = serde_json::from_str(&metadata).unwrap();
    metadata["packages"].as_array().unwrap().clone()
}

/// Everything any member depends on, as code writes it.
fn crates() -> Vec<String> {
    let names = packages().iter().flat_map(manifest::dependencies).collect::<BTreeSet<_>>();
    names.into_iter().map(|name| name.replace('-', "_")).collect()
}

/// Every source of the shipped crates, relative to `crates/`.
fn source_files() -> BTreeSet<String> {
    let crates = root().join("crates");
    let mut folders: Vec<PathBuf> = (fs::read_dir(&crates).unwrap())
        .map(|entry| entry.unwrap().path().join("src"))
        .filter(|folder| folder.is_dir())
        .collect();
    let mut files = BTreeSet::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let path = path.strip_prefix(&crates).unwrap();
                files.insert(path.to_str().unwrap().replace('\\', "/"));
            }
        }
    }
    files
}

fn read_text(file: &str) -> String {
    fs::read_to_string(root().join("crates").join(file)).unwrap()
}

fn read_source(file: &str) -> Source {
    Source::read(&read_text(file)).unwrap_or_else(|error| panic!("crates/{file}: {error}"))
}

/// Where a module that `file` declares may live.
fn module_files(file: &str, module: &str) -> [String; 2] {
    let (folder, name) = file.rsplit_once('/').unwrap();
    let inside = match name {
        "lib.rs" | "main.rs" | "mod.rs" => folder.to_owned(),
        name => format!("{folder}/{}", name.trim_end_matches(".rs")),
    };
    [format!("{inside}/{module}.rs"), format!("{inside}/{module}/mod.rs")]
}

/// The shipped sources, without the files that are declared as tests of another.
fn shipped_sources() -> Vec<(String, Source)> {
    let sources: Vec<_> =
        source_files().into_iter().map(|file| (file.clone(), read_source(&file))).collect();
    let tests: BTreeSet<String> = (sources.iter())
        .flat_map(|(file, source)| {
            source.test_modules.iter().flat_map(|module| module_files(file, module))
        })
        .collect();
    sources.into_iter().filter(|(file, _)| !tests.contains(file)).collect()
}

#[track_caller]
fn assert_none(offences: &[Offence]) {
    let lines: Vec<String> = offences.iter().map(ToString::to_string).collect();
    assert!(lines.is_empty(), "the floor plan is broken:\n{}\n", lines.join("\n"));
}

#[test]
fn every_source_keeps_to_its_room() {
    let (page, crates) = (the_page(), crates());
    let judge = Judge { page: &page, crates: &crates };
    let sources = shipped_sources();
    assert!(sources.len() > 20, "only {} sources were found", sources.len());
    let offences: Vec<Offence> =
        sources.iter().flat_map(|(file, source)| judge.judge(file, source)).collect();
    assert_none(&offences);
}

#[test]
fn every_source_file_is_on_the_page() {
    let page = the_page();
    let sources = shipped_sources().into_iter().map(|(file, _)| file);
    let missing = sources.filter(|file| !page.contains_key(file)).map(|file| {
        let text = "is missing in docs/architecture.md: say there what it is for".to_owned();
        Offence { file, line: 1, text }
    });
    assert_none(&missing.collect::<Vec<_>>());
}

#[test]
fn a_file_that_calls_itself_pure_is_marked_on_the_page() {
    let page = the_page();
    let unmarked = source_files().into_iter().filter(|file| {
        let text = read_text(file);
        let title = text.lines().next().unwrap_or_default();
        (title.contains("[pure]") || title.ends_with("; pure."))
            && page.get(file).is_some_and(|entry| !entry.pure)
    });
    let offences = unmarked.map(|file| {
        let text = "calls itself [pure], and docs/architecture.md does not".to_owned();
        Offence { file, line: 1, text }
    });
    assert_none(&offences.collect::<Vec<_>>());
}

#[test]
fn every_file_on_the_page_exists() {
    let gone: Vec<String> = (the_page().iter())
        .filter(|(file, _)| !root().join("crates").join(file).exists())
        .map(|(file, entry)| format!("docs/architecture.md:{}: no crates/{file}", entry.line))
        .collect();
    assert!(gone.is_empty(), "the page names what is not there:\n{}\n", gone.join("\n"));
}

#[test]
fn dependencies_of_members_point_one_way() {
    let packages = packages();
    assert_eq!(packages.len(), 4, "the floor plan has four members");
    let offences: Vec<Offence> = (packages.iter())
        .flat_map(|package| {
            let path = package["manifest_path"].as_str().unwrap();
            manifest::judge(package, &fs::read_to_string(path).unwrap())
        })
        .collect();
    assert_none(&offences);
}

#[test]
fn llm_reaches_no_other_member_through_anything() {
    let tree = cargo(&["tree", "--package", "llm", "--prefix", "none", "--format", "{p}"]);
    let names: BTreeSet<&str> =
        tree.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert!(names.contains("llm") && names.contains("serde"), "not a tree of llm: {tree}");
    assert!(names.is_disjoint(&BTreeSet::from(["agent", "cli", "evals"])), "{tree}");
}

#[test]
fn an_exception_that_nothing_needs_is_taken_back() {
    let sources = shipped_sources();
    let needs = |rule: &rules::Rule, one: &rules::Exception| {
        (sources.iter()).filter(|(file, _)| rules::is_behind(file, one.file)).any(|(_, source)| {
            let mut seen = source.seen.iter();
            seen.any(|seen| {
                one.allows(&seen.what) && rules::forbidden_by(rule, &seen.what).is_some()
            })
        })
    };
    let idle: Vec<String> = (RULES.iter())
        .flat_map(|rule| rule.exceptions.iter().map(move |one| (rule, one)))
        .filter(|(rule, one)| !needs(rule, one))
        .map(|(_, one)| format!("{} needs no exception for `{}` ({})", one.file, one.what, one.why))
        .collect();
    assert!(idle.is_empty(), "{}", idle.join("\n"));
}

/// Deliberate breaks: what the judge says of a source that was made up.
mod breaks {
    use super::*;

    #[track_caller]
    fn check(file: &str, text: &str, want: &[&str]) {
        let entry = |pure| Entry { line: 1, pure };
        let page = Page::from([
            ("agent/src/turn.rs".to_owned(), entry(true)),
            ("agent/src/truncate.rs".to_owned(), entry(true)),
            ("agent/src/tool.rs".to_owned(), entry(false)),
            ("agent/src/process.rs".to_owned(), entry(false)),
        ]);
        let crates = ["llm", "reqwest", "serde", "tokio", "anyhow"].map(str::to_owned);
        let judge = Judge { page: &page, crates: &crates };
        let found = judge.judge(file, &Source::read(text).unwrap());
        let found: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), want.len(), "{found:#?}");
        for (found, want) in found.iter().zip(want) {
            assert!(found.starts_with(want), "{found}\nshould start with\n{want}");
        }
    }

    #[test]
    fn the_network_has_one_door() {
        let text = "fn f() {}\nuse tokio::net::TcpStream;\n";
        check(
            "agent/src/agent.rs",
            text,
            &["crates/agent/src/agent.rs:2: `tokio::net::TcpStream`"],
        );
        check("llm/src/http.rs", text, &[]);
        check("llm/src/http/client.rs", text, &[]);
        check("llm/src/error.rs", "type A = reqwest::Error;", &[]);
        check(
            "llm/src/error.rs",
            "type A =\n reqwest::Client;",
            &["crates/llm/src/error.rs:2: `reqwest::Client`"],
        );
    }

    #[test]
    fn child_processes_have_one_door() {
        let text = "use std::process;\nfn f() {\n    process::Command::new(\"ls\");\n}";
        check("cli/src/demo.rs", text, &["crates/cli/src/demo.rs:3: `std::process::Command::new`"]);
        check("agent/src/process/drain.rs", text, &[]);
        check("cli/src/main.rs", "fn main() { std::process::exit(2) }", &[]);
    }

    #[test]
    fn files_in_the_libraries_have_one_door() {
        let text = "fn f() { std::fs::read(p); }";
        check("agent/src/agent.rs", text, &["crates/agent/src/agent.rs:1: `std::fs::read`"]);
        check("agent/src/tools/access/open.rs", text, &[]);
        check("cli/src/history.rs", text, &[]);
        let text = "fn f(p: &Path) {\n    p.exists();\n}";
        check("agent/src/tools/bash.rs", text, &["crates/agent/src/tools/bash.rs:2: `.exists()`"]);
        check("llm/src/sse.rs", "use std::fs::*;", &["crates/llm/src/sse.rs:1: `std::fs::*`"]);
        check(
            "llm/src/sse.rs",
            "use std::*;",
            &[
                "crates/llm/src/sse.rs:1: `std::*`",
                "crates/llm/src/sse.rs:1: `std::*`",
                "crates/llm/src/sse.rs:1: `std::*`",
                "crates/llm/src/sse.rs:1: `std::*`",
                "crates/llm/src/sse.rs:1: `std::*`",
            ],
        );
    }

    #[test]
    fn the_libraries_do_not_print() {
        check(
            "agent/src/agent.rs",
            "fn f() {\n    println!(\"x\");\n}",
            &["crates/agent/src/agent.rs:2: `println!`: only cli::say writes"],
        );
        check(
            "llm/src/http.rs",
            "use std::io;\nfn f() { io::stderr() }",
            &["crates/llm/src/http.rs:2: `std::io::stderr`"],
        );
        check("cli/src/say.rs", "fn f() { std::io::stdout(); }", &[]);
    }

    #[test]
    fn in_the_binary_what_is_written_is_made_visible_first() {
        check(
            "cli/src/render.rs",
            "fn f() { println!(\"x\") }",
            &["crates/cli/src/render.rs:1: `println!`: only cli::say writes"],
        );
    }

    #[test]
    fn the_environment_has_three_doors() {
        let text = "use std::env::{self};\nfn f() { env::var(\"HOME\"); }";
        check("agent/src/agent.rs", text, &["crates/agent/src/agent.rs:2: `std::env::var`"]);
        check("agent/src/secrets.rs", text, &[]);
        check("cli/src/app.rs", text, &[]);
        check("cli/src/args.rs", "fn f() { std::env::args() }", &[]);
    }

    #[test]
    fn errors_of_the_libraries_are_typed() {
        check(
            "llm/src/http.rs",
            "fn f() -> anyhow::Result<()> {}",
            &["crates/llm/src/http.rs:1: `anyhow::Result`: the libraries return typed errors"],
        );
        check("cli/src/app.rs", "fn f() -> anyhow::Result<()> {}", &[]);
    }

    #[test]
    fn names_of_providers_and_models_stay_where_what_is_known_of_them_stands() {
        let text = "// anthropic\nfn f() {\n    name == \"OpenAI\";\n}";
        check("agent/src/agent.rs", text, &["crates/agent/src/agent.rs:3: \"OpenAI\""]);
        check("llm/src/capability/presets.rs", text, &[]);
        let text = "fn f() { model.starts_with(\"gpt-5\"); }";
        let file = "llm/src/providers/openai_chat/wire.rs";
        check(file, text, &[&format!("crates/{file}:1: \"gpt-5\"")]);
        let test = "#[cfg(test)]\nmod tests { const NAME: &str = \"openai\"; }";
        check("agent/src/agent.rs", test, &[]);
    }

    #[test]
    fn a_pure_file_has_no_clock_no_files_no_runtime_and_awaits_nothing() {
        let file = "agent/src/turn.rs";
        let says =
            |line, what| format!("crates/{file}:{line}: {what} in a file that is marked [pure]");
        let one = |text, line, what| check(file, text, &[&says(line, what)]);
        one("\nfn f() { std::time::Instant::now(); }", 2, "`std::time::Instant::now`");
        one("use std::time::{Duration, SystemTime};", 1, "`std::time::SystemTime`");
        one("fn f(t: T) -> Duration {\n t.elapsed() }", 2, "`.elapsed()`");
        check(
            file,
            "fn f(p: &Path) -> bool { p.exists() }",
            &[
                &says(1, "`.exists()`"),
                "crates/agent/src/turn.rs:1: `.exists()`: in the libraries only",
            ],
        );
        one("async fn f() {}", 1, "`async`");
        one("use tokio::sync::mpsc;", 1, "`tokio::sync::mpsc`");
        one("use std::time::*;", 1, "`std::time::*`");
        check(file, "use std::time::Duration;\nuse serde::Serialize;\nuse llm::Message;", &[]);
        check("agent/src/agent.rs", "async fn f() { Instant::now(); }", &[]);
    }

    #[test]
    fn a_pure_file_uses_pure_siblings_and_plain_data() {
        let file = "agent/src/turn.rs";
        check(file, "use crate::truncate::middle;\nuse crate::tool::Effects;", &[]);
        check(
            file,
            "use crate::process::run;",
            &["crates/agent/src/turn.rs:1: `crate::process::run`"],
        );
        check(file, "use super::process;", &["crates/agent/src/turn.rs:1: `super::process`"]);
    }
}
