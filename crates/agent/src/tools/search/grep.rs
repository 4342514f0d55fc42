//! grep: lines, or files, that match a regular expression.

use std::io::{self, Read};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use globset::GlobSet;
use grep_matcher::{LineTerminator, Matcher as _};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{Searcher, SearcherBuilder, Sink, SinkMatch};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use super::glob::{compile, demand_outside_git, searched};
use super::lines::FirstLines;
use super::{LEFT_OUT, MAX_RESULTS, notes, push_results, shown};
use crate::tool::{
    Effects, OnCancel, ReplaySafety, SubjectKind, ToolContext, ToolError, ToolOutput, TypedTool,
};
use crate::tools::access::{FileAccess, LeftOut, ReadPath, Route, Walked};
use crate::tools::fs::PROBE_BYTES;
use crate::tools::off_runtime::off_runtime;
use crate::truncate;

/// Characters of one matching line that are shown.
const MAX_LINE_CHARS: usize = 300;

/// Characters in front of a match that are shown of a longer line.
const LEAD_CHARS: usize = 80;

/// Memory for one line; a file with a longer one is not searched.
const MAX_LINE_BYTES: usize = 64 * 1024 * 1024;

/// Searches the contents of files.
#[derive(Debug, Clone)]
pub struct Grep(pub Arc<FileAccess>);

/// What a call of [`Grep`] says.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GrepArgs {
    /// Regular expression (Rust syntax), matched within one line.
    pub pattern: String,
    /// File or folder to search; default the workspace.
    pub path: Option<String>,
    /// Only files whose name matches, such as *.rs or src/**/*.{ts,tsx}.
    pub glob: Option<String>,
    /// Ignore letter case; default false.
    pub case_insensitive: Option<bool>,
    /// content (default) prints path:line:text, files only paths.
    pub mode: Option<GrepMode>,
}

/// What grep prints.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "documented variants would blow up the schema; the field says it")]
pub enum GrepMode {
    Files,
    #[default]
    Content,
}

#[async_trait]
impl TypedTool for Grep {
    type Args = GrepArgs;

    fn name(&self) -> &str {
        "grep"
    }

    fn description(&self) -> &str {
        "Searches file contents. Ignored and binary files are left out."
    }

    fn effects(&self, args: &GrepArgs) -> Effects {
        Effects::reads(searched(args.path.as_deref()))
    }

    fn on_cancel(&self) -> OnCancel {
        OnCancel::Atomic
    }

    fn replay_safety(&self) -> ReplaySafety {
        ReplaySafety::Safe
    }

    fn permission_subject(&self, args: &GrepArgs) -> Option<String> {
        self.0.subject(args.path.as_deref().unwrap_or("."))
    }

    fn subject_kind(&self) -> Option<SubjectKind> {
        Some(SubjectKind::Path)
    }

    async fn run(&self, args: GrepArgs, ctx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let access = Arc::clone(&self.0);
        let ctx = ctx.clone();
        off_runtime(&ctx.cancel.clone(), move || grep(&access, &args, &ctx)).await
    }
}

fn grep(access: &FileAccess, args: &GrepArgs, ctx: &ToolContext) -> Result<ToolOutput, ToolError> {
    let search = Search {
        matcher: matcher(args)?,
        filter: args.glob.as_deref().map(NameFilter::new).transpose()?,
        mode: args.mode.unwrap_or_default(),
        ctx,
        found: Mutex::new(FirstLines::new(MAX_RESULTS)),
        failed: AtomicUsize::new(0),
    };
    let named = args.path.as_deref().unwrap_or(".");
    let path = access.for_reading(&ctx.cwd, named, &ctx.grants)?;
    demand_outside_git(access, &path)?;
    let mut left_out = search.run(access, &path)?;
    left_out.unreadable += search.failed.load(Ordering::Relaxed);
    let found = search.found.into_inner().unwrap_or_else(PoisonError::into_inner);
    let (lines, more) = found.finish();
    Ok(report(&lines, more, left_out, named).into())
}

fn matcher(args: &GrepArgs) -> Result<RegexMatcher, ToolError> {
    if args.pattern.is_empty() {
        return Err(ToolError::InvalidArgs("pattern is empty".to_owned()));
    }
    RegexMatcherBuilder::new()
        .case_insensitive(args.case_insensitive == Some(true))
        // `^` and `$` are the ends of a line, whatever kind of line end the file has.
        .multi_line(true)
        .crlf(true)
        .build(&args.pattern)
        .map_err(|error| {
            let mut text = error.to_string();
            if text.contains("\\n") {
                text.push_str(
                    "; a pattern matches within one line, so search for the first line and read_file \
                     around it",
                );
            }
            ToolError::InvalidArgs(text)
        })
}

/// Which files of a folder are searched.
struct NameFilter {
    glob: GlobSet,
    inverted: bool,
}

impl NameFilter {
    fn new(glob: &str) -> Result<Self, ToolError> {
        let (inverted, glob) = glob.strip_prefix('!').map_or((false, glob), |glob| (true, glob));
        // A name alone is meant at any depth.
        let glob = if glob.contains('/') {
            compile(glob.trim_start_matches("./").trim_start_matches('/'))?
        } else {
            compile(&format!("**/{glob}"))?
        };
        Ok(Self { glob, inverted })
    }

    /// Models give such a path from the searched folder on, or from the workspace on.
    fn admits(&self, from_start: &Path, from_workspace: &Path) -> bool {
        let named = self.glob.is_match(from_start) || self.glob.is_match(from_workspace);
        named != self.inverted
    }
}

struct Search<'a> {
    matcher: RegexMatcher,
    filter: Option<NameFilter>,
    mode: GrepMode,
    ctx: &'a ToolContext,
    found: Mutex<FirstLines>,
    failed: AtomicUsize,
}

impl Search<'_> {
    /// Searches the file, or every file below the folder.
    fn run(&self, access: &FileAccess, path: &ReadPath) -> Result<LeftOut, ToolError> {
        if !access.is_directory(path)? {
            let file = access.open(path)?;
            self.search(&mut searcher(self.mode), path.real(), file);
            return Ok(LeftOut::default());
        }
        let route = Route { start: path, below: Path::new("") };
        Ok(access.walk(route, &self.ctx.cancel, || {
            let mut searcher = searcher(self.mode);
            move |file: &Walked<'_>| self.visit(&mut searcher, path.real(), file)
        }))
    }

    fn visit(&self, searcher: &mut Searcher, start: &Path, file: &Walked<'_>) {
        let is_wanted = |filter: &NameFilter| {
            filter.admits(file.relative_to(start), file.relative_to(&self.ctx.cwd))
        };
        if file.is_link() || !self.filter.as_ref().is_none_or(is_wanted) {
            return;
        }
        let mut found = self.found();
        if !found.wants(file.real()) {
            // Whether it would match does not matter enough to search it.
            found.pass_over();
            return;
        }
        drop(found);
        match file.open() {
            Ok(open) => self.search(searcher, file.real(), open),
            Err(_) => self.count_failure(),
        }
    }

    fn search(&self, searcher: &mut Searcher, path: &Path, file: impl Read) {
        let mut file =
            Probed { file, read: 0, bom: false, is_binary: false, cancel: &self.ctx.cancel };
        let mut lines = Lines { search: self, path, lines: Vec::new() };
        if searcher.search_reader(&self.matcher, &mut file, &mut lines).is_err() {
            self.count_failure();
        } else if !lines.lines.is_empty() && !file.is_binary {
            self.found().add(path.to_owned(), lines.lines);
        }
    }

    fn count_failure(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    fn found(&self) -> MutexGuard<'_, FirstLines> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn searcher(mode: GrepMode) -> Searcher {
    SearcherBuilder::new()
        .line_terminator(LineTerminator::crlf())
        .line_number(mode == GrepMode::Content)
        .heap_limit(Some(MAX_LINE_BYTES))
        .build()
}

/// A file that ends at once when it turns out to be binary, or when the call is cancelled.
struct Probed<'a, R> {
    file: R,
    read: usize,
    /// UTF-16 has NULs and is decoded by the searcher.
    bom: bool,
    is_binary: bool,
    cancel: &'a CancellationToken,
}

impl<R: Read> Read for Probed<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.is_binary || self.cancel.is_cancelled() {
            return Ok(0);
        }
        let count = self.file.read(buffer)?;
        let piece = &buffer[..count];
        if self.read == 0 {
            self.bom = piece.starts_with(b"\xff\xfe") || piece.starts_with(b"\xfe\xff");
        }
        if self.read < PROBE_BYTES && !self.bom {
            let probe = count.min(PROBE_BYTES - self.read);
            if memchr::memchr(0, &piece[..probe]).is_some() {
                self.is_binary = true;
                return Ok(0);
            }
        }
        self.read = self.read.saturating_add(count);
        Ok(count)
    }
}

/// Takes the matching lines of one file.
struct Lines<'a> {
    search: &'a Search<'a>,
    path: &'a Path,
    lines: Vec<String>,
}

impl Sink for Lines<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        let path = shown(self.path, &self.search.ctx.cwd);
        match self.search.mode {
            GrepMode::Files => {
                self.lines.push(path);
                Ok(false)
            }
            GrepMode::Content => {
                let number = found.line_number().unwrap_or_default();
                let text = self.around_match(found.bytes());
                self.lines.push(format!("{path}:{number}:{text}"));
                // One more than is shown tells that there are more.
                Ok(self.lines.len() <= MAX_RESULTS)
            }
        }
    }
}

impl Lines<'_> {
    /// A line without secrets, which are taken out before it is cut.
    fn around_match(&self, line: &[u8]) -> String {
        let line = self.search.ctx.redactor.redact_bytes(line);
        around_match(&line, &self.search.matcher)
    }
}

/// A line, or of a long one the part with the match.
fn around_match(line: &[u8], matcher: &RegexMatcher) -> String {
    let end = line.iter().rposition(|&byte| byte != b'\n' && byte != b'\r').map_or(0, |at| at + 1);
    let line = &line[..end];
    let start = if line.len() <= MAX_LINE_CHARS {
        0
    } else {
        let found = matcher.find(line).ok().flatten().map_or(0, |found| found.start());
        // A few bytes more than characters, as UTF-8 needs; lossy decoding mends a split one.
        found.saturating_sub(LEAD_CHARS)
    };
    let window = &line[start..line.len().min(start + 4 * MAX_LINE_CHARS)];
    let window = String::from_utf8_lossy(window);
    let text = truncate::head(&window, MAX_LINE_CHARS);
    let cut_front = if start > 0 { "[...]" } else { "" };
    let cut_back = if start + text.len() < line.len() { "[...]" } else { "" };
    format!("{cut_front}{}{cut_back}", text.replace('\0', "\u{fffd}"))
}

fn report(lines: &[String], more: bool, left_out: LeftOut, named: &str) -> String {
    let mut text = String::new();
    let count = push_results(&mut text, lines.iter());
    if lines.is_empty() {
        text.push_str("No matches.");
        text.push_str(LEFT_OUT);
    } else if more || count < lines.len() {
        text.push_str(&format!(
            "\n[The first {count} results in order of path; there may be more. Narrow pattern, path or \
             glob, or use mode files.]"
        ));
    }
    text.push_str(&notes(left_out, named));
    text
}
