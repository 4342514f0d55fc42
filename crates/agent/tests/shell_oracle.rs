//! Holds the readings of command lines against bash itself.
//!
//! Random lines from an alphabet of everything that has ever fooled a reader of shell text; each line that
//! the strict reading accepts is given to bash, where every command is a recorder. Bash must run exactly
//! the argument lists that the reading told, and write exactly the files. Nothing real can run: `PATH` is
//! an empty folder, names with a slash are left out, and the letters make no builtin's name.
//!
//! Lists skip commands by their exit status, so that every line runs twice, with all commands succeeding
//! and with all failing; together they reach each command.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a comparison that cannot be set up fails")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use agent::permissions::shell::{Found, Reading, RedirectKind, Simple, Word};

const WORDS: &[&str] =
    &["a", "b", "ab", "x1", "2", "1", "0", "bax", "-x", "--a=b", "ä", "漢", "x2"];
const BLANKS: &[&str] = &[" ", " ", " ", "\t", "  ", "\n", "\\\n", " \\\n "];
const OPERATORS: &[&str] =
    &[";", "&&", "||", "|", "\n", " ; ", " && ", " | ", " || ", "|&", "&", ";;", "&|"];
const REDIRECTS: &[&str] = &[
    ">",
    ">>",
    "<",
    "2>&1",
    " 2>/dev/null ",
    ">&2",
    "2>",
    "1>",
    "&>",
    ">|",
    "<>",
    "<<",
    "<&",
    ">&",
    "2>>",
];
const QUOTES: &[&str] =
    &["'", "\"", "\\", "''", "\"\"", "'a b'", "\"a b\"", "\\ ", "\\'", "\\\"", "$'", "'\\''"];
const ODD: &[&str] = &[
    "#", "$", "`", "*", "?", "[", "]", "{", "}", "{}", "(", ")", "~", "!", "=", "a=", "^", "%",
    "+", ",", "..", ":", ".", "@", "$(", "${", "$((", "A=1 ", "CI=1 ", "if", "then", "fi", "do",
    "time", "coproc", "function", "case", "[[", "]]", "\r", "\u{1b}", "\u{a0}", "\u{200b}",
    "\u{3000}", "x$", "$ ", "\"$", "@{1}", "a~", "a#", " #",
];

/// Numbers that look random and are the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let high = usize::try_from(self.0 >> 33).expect("31 bits fit");
        high % end
    }

    fn pick(&mut self, from: &[&'static str]) -> &'static str {
        from[self.below(from.len())]
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        for _ in 0..=self.below(14) {
            line += match self.below(20) {
                0..=7 => self.pick(WORDS),
                8..=12 => self.pick(BLANKS),
                13..=14 => self.pick(OPERATORS),
                15 => self.pick(REDIRECTS),
                16..=17 => self.pick(QUOTES),
                _ => self.pick(ODD),
            };
        }
        line
    }
}

/// A line that the strict reading accepts, with what it says of it.
struct Accepted {
    line: String,
    simples: Vec<Simple>,
}

impl Accepted {
    /// Whether bash can run the line here: no name with a slash, no file elsewhere, no file that is both
    /// read and written.
    fn can_run(&self) -> bool {
        let redirects = || self.simples.iter().flat_map(|simple| &simple.redirects);
        let names = self.simples.iter().all(|simple| !simple.argv[0].contains('/'));
        let is_here = |target: &str| {
            target == "/dev/null"
                || !(target.is_empty() || target.contains('/') || target.starts_with('.'))
        };
        names && redirects().all(|redirect| is_here(&redirect.target))
    }

    fn files(&self, reads: bool) -> BTreeSet<String> {
        let redirects = self.simples.iter().flat_map(|simple| &simple.redirects);
        let of_kind = redirects.filter(|redirect| match redirect.kind {
            RedirectKind::Read => reads,
            RedirectKind::Write | RedirectKind::Append => !reads,
            RedirectKind::Duplicate => false,
        });
        let targets = of_kind.map(|redirect| redirect.target.clone());
        targets.filter(|target| target != "/dev/null").collect()
    }
}

fn accepted(seed: u64, count: usize) -> Vec<Accepted> {
    let mut dice = Dice(seed);
    let mut lines = Vec::new();
    let mut seen = BTreeSet::new();
    let mut tries = 0;
    while lines.len() < count {
        tries += 1;
        assert!(tries < count * 400, "the strict reading accepts next to nothing");
        let line = dice.line();
        if let Ok(simples) = Reading::of(&line).strict() {
            let accepted = Accepted { line: line.clone(), simples: simples.to_vec() };
            if accepted.can_run() && seen.insert(line) {
                lines.push(accepted);
            }
        }
    }
    lines
}

/// Every command is this. Each process has a file of its own, since bash writes an argument with a newline
/// in pieces, which the sides of a pipe would mix. `.`, `:` and `[` are builtins whose names the alphabet makes.
const RECORDER: &str = r#"
command_not_found_handle() { printf '%s\0' "$#" "$@" >>"$RECORD/$BASHPID"; return "$STATUS"; }
function . { command_not_found_handle . "$@"; }
function : { command_not_found_handle : "$@"; }
function [ { command_not_found_handle [ "$@"; }
"#;

const DRIVER: &str = r#"
for ((at = 0; at < COUNT; at++)); do
    IFS= read -r -d '' line <"$ROOT/line.$at"
    for STATUS in 0 1; do
        (
            RECORD="$ROOT/record.$at.$STATUS"
            cd "$ROOT/folder.$at.$STATUS" && eval "$line"
        ) </dev/null >/dev/null 2>&1
    done
done
exit 0
"#;

/// Bash by its own path, since the recorders' `PATH` does not lead to it.
fn bash(root: &Path) -> Command {
    let path = std::env::var_os("PATH").unwrap();
    let found =
        std::env::split_paths(&path).map(|folder| folder.join("bash")).find(|p| p.is_file());
    let mut command = Command::new(found.expect("bash is on PATH"));
    command.env_clear().env("PATH", root.join("empty")).env("BASH_ENV", root.join("recorder"));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// A folder in which lines are run: for each line and exit status a folder and a record.
struct Stage(tempfile::TempDir);

impl Stage {
    fn new<'a>(lines: impl Iterator<Item = &'a str>) -> Self {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("empty")).unwrap();
        fs::write(root.path().join("recorder"), RECORDER).unwrap();
        let stage = Self(root);
        for (at, line) in lines.enumerate() {
            fs::write(stage.0.path().join(format!("line.{at}")), line).unwrap();
            for status in 0..2 {
                fs::create_dir(stage.folder(at, status)).unwrap();
                fs::create_dir(stage.record(at, status)).unwrap();
            }
        }
        stage
    }

    fn folder(&self, at: usize, status: usize) -> PathBuf {
        self.0.path().join(format!("folder.{at}.{status}"))
    }

    fn record(&self, at: usize, status: usize) -> PathBuf {
        self.0.path().join(format!("record.{at}.{status}"))
    }

    /// Runs all lines in one bash.
    fn run(&self, count: usize, locale: &str) {
        let root = self.0.path();
        let mut command = bash(root);
        command.current_dir(root).env("ROOT", root).env("COUNT", count.to_string());
        let status = command.env("LC_ALL", locale).args(["-c", DRIVER]).status().unwrap();
        assert!(status.success(), "the driver failed: {status}");
    }

    /// Runs a line in a bash of its own.
    fn run_alone(&self, at: usize, line: &str, locale: &str) {
        for status in 0..2 {
            let mut command = bash(self.0.path());
            command.current_dir(self.folder(at, status)).env("LC_ALL", locale);
            command.env("STATUS", status.to_string()).env("RECORD", self.record(at, status));
            command.args(["-c", "--", line]).status().unwrap();
        }
    }

    fn recorded(&self, at: usize, status: usize) -> BTreeMap<Vec<String>, usize> {
        let mut runs = BTreeMap::new();
        for entry in fs::read_dir(self.record(at, status)).unwrap() {
            count_runs(&fs::read(entry.unwrap().path()).unwrap(), &mut runs);
        }
        runs
    }

    fn files(&self, at: usize, status: usize) -> Vec<String> {
        let entries = fs::read_dir(self.folder(at, status)).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }
}

/// Runs the lines and holds what was recorded against what was told.
fn compare(lines: &[Accepted], each_alone: bool, locale: &str) {
    let stage = Stage::new(lines.iter().map(|accepted| accepted.line.as_str()));
    for (at, accepted) in lines.iter().enumerate() {
        for file in accepted.files(true) {
            (0..2).for_each(|status| fs::write(stage.folder(at, status).join(&file), "").unwrap());
        }
    }
    if each_alone {
        for (at, accepted) in lines.iter().enumerate() {
            stage.run_alone(at, &accepted.line, locale);
        }
    } else {
        stage.run(lines.len(), locale);
    }
    let wrong: Vec<String> =
        lines.iter().enumerate().filter_map(|(at, line)| differs(&stage, at, line)).collect();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), lines.len(), wrong.join("\n"));
}

/// How bash did something else than was told, in words.
fn differs(stage: &Stage, at: usize, accepted: &Accepted) -> Option<String> {
    let mut told = BTreeMap::<Vec<String>, usize>::new();
    for simple in &accepted.simples {
        *told.entry(simple.argv.clone()).or_default() += 1;
    }
    let runs = [stage.recorded(at, 0), stage.recorded(at, 1)];
    let files: BTreeSet<String> = (0..2).flat_map(|status| stage.files(at, status)).collect();
    let all: BTreeSet<&Vec<String>> = runs.iter().flat_map(BTreeMap::keys).collect();
    let too_often = runs.iter().flatten().any(|(argv, count)| told.get(argv).unwrap_or(&0) < count);
    let too_seldom = told.iter().any(|(argv, count)| {
        let ran: usize = runs.iter().filter_map(|run| run.get(argv)).sum();
        ran < *count
    });
    let mut expected = accepted.files(true);
    expected.extend(accepted.files(false));
    let same = !too_often && !too_seldom && all.into_iter().eq(told.keys()) && files == expected;
    (!same).then(|| {
        format!("{:?}: told {told:?}, bash ran {runs:?} and made {files:?}", accepted.line)
    })
}

/// Adds the argument lists in a record, each with its length before it.
fn count_runs(record: &[u8], runs: &mut BTreeMap<Vec<String>, usize>) {
    let mut parts =
        record.split(|byte| *byte == 0).map(|part| String::from_utf8_lossy(part).into_owned());
    while let Some(count) = parts.next().filter(|part| !part.is_empty()) {
        let argv: Vec<String> = parts.by_ref().take(count.parse().unwrap()).collect();
        *runs.entry(argv).or_default() += 1;
    }
}

/// Lines of any kind that end by themselves and start nothing without end: no function, which could call
/// itself, and no brace that counts to millions.
fn wild(seed: u64, count: usize) -> Vec<String> {
    let mut dice = Dice(seed);
    let mut lines = Vec::new();
    while lines.len() < count {
        let line = dice.line();
        let joined: String = line.chars().filter(|c| !" \t\n\\".contains(*c)).collect();
        let forbidden =
            ["()", "function", "coproc", "/dev/null)"].iter().any(|part| joined.contains(part));
        let counts = joined.contains("..") && joined.contains('{');
        // Files are made in the line's folder only.
        if !forbidden && !counts && !joined.contains('\0') {
            lines.push(line);
        }
    }
    lines
}

/// A found command stands for what ran: word by word up to the first that only the shell knows.
fn stands_for(found: &Found, argv: &[String]) -> bool {
    let known = found.words.iter().take_while(|word| **word != Word::Unknown).count();
    let literal = found.words[..known].iter().filter_map(Word::literal);
    let same = literal.eq(argv.iter().take(known).map(String::as_str));
    same && (known < found.words.len() || argv.len() == known)
}

fn compare_found(lines: &[String], locale: &str) {
    let stage = Stage::new(lines.iter().map(String::as_str));
    stage.run(lines.len(), locale);
    let mut held = 0;
    let mut wrong = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let reading = Reading::of(line);
        if !reading.is_complete() {
            continue;
        }
        for argv in (0..2).flat_map(|status| stage.recorded(at, status).into_keys()) {
            match reading.commands().iter().any(|found| stands_for(found, &argv)) {
                true => held += 1,
                false => {
                    wrong.push(format!("{line:?} ran {argv:?}, found {:?}", reading.commands()))
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), lines.len(), wrong.join("\n"));
    assert!(held > lines.len() / 5, "only {held} commands ran in {} lines", lines.len());
}

#[test]
fn the_wide_reading_finds_whatever_bash_runs() {
    compare_found(&wild(4, 800), "C.UTF-8");
}

#[test]
fn bash_runs_exactly_what_the_strict_reading_tells() {
    compare(&accepted(1, 800), false, "C");
    compare(&accepted(2, 300), false, "C.UTF-8");
}

#[test]
fn a_bash_of_its_own_runs_a_line_the_same_way() {
    compare(&accepted(3, 40), true, "C.UTF-8");
}

/// The long twin of the tests above.
#[test]
#[ignore = "takes minutes; the tests above run some lines of it"]
fn bash_runs_exactly_what_the_strict_reading_tells_of_very_many_lines() {
    for seed in 100..140 {
        compare_found(&wild(seed, 5000), "C.UTF-8");
        compare(&accepted(seed, 5000), false, if seed % 2 == 0 { "C" } else { "C.UTF-8" });
    }
    compare(&accepted(200, 2000), true, "C.UTF-8");
}
