//! read_file: numbered lines of a text file, however large it is.

use std::io::Read as _;
use std::sync::Arc;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use super::text::{PROBE_BYTES, not_text};
use super::window::{Fed, Shown, Total, Window};
use super::{Files, MAX_EDITED_BYTES, only};
use crate::digest::{Digest, Hasher};
use crate::secrets::{RedactStream, Redactor};
use crate::tool::{
    Effects, OnCancel, ReplaySafety, SubjectKind, ToolContext, ToolError, ToolOutput, TypedTool,
};
use crate::tools::access::ReadPath;
use crate::tools::off_runtime::off_runtime;

/// Lines shown when the call does not say.
const DEFAULT_LIMIT: u64 = 2000;

/// Bytes read at once; what is read of a file lies in memory no longer than its turn.
const PIECE_BYTES: usize = 128 * 1024;

/// Reads a text file.
#[derive(Debug, Clone)]
pub struct ReadFile(pub Files);

/// What a call of [`ReadFile`] says.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadFileArgs {
    /// Path, relative to the workspace or absolute.
    pub file_path: String,
    /// First line to show, counted from 1.
    pub offset: Option<u64>,
    /// Lines to show; default 2000.
    #[schemars(range(min = 1))]
    pub limit: Option<u64>,
}

#[async_trait]
impl TypedTool for ReadFile {
    type Args = ReadFileArgs;

    fn name(&self) -> &str {
        "read_file"
    }

    fn description(&self) -> &str {
        "Reads a text file as numbered lines (number, tab, text; the number is not part of the file). \
         Long lines and long files are cut and the end says how to read on. Read a file before you \
         change it."
    }

    fn effects(&self, args: &ReadFileArgs) -> Effects {
        Effects::reads(only(&args.file_path))
    }

    fn on_cancel(&self) -> OnCancel {
        OnCancel::Atomic
    }

    fn replay_safety(&self) -> ReplaySafety {
        ReplaySafety::Safe
    }

    fn permission_subject(&self, args: &ReadFileArgs) -> Option<String> {
        self.0.access.subject(&args.file_path)
    }

    fn subject_kind(&self) -> Option<SubjectKind> {
        Some(SubjectKind::Path)
    }

    async fn run(&self, args: ReadFileArgs, ctx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let limit = args.limit.unwrap_or(DEFAULT_LIMIT);
        if limit == 0 {
            return Err(ToolError::InvalidArgs("limit must be at least 1".to_owned()));
        }
        // Offset 0 can only mean the start.
        let first = args.offset.unwrap_or(1).max(1);
        let files = self.0.clone();
        let ctx = ctx.clone();
        off_runtime(&ctx.cancel.clone(), move || {
            let path = files.access.for_reading(&ctx.cwd, &args.file_path, &ctx.grants)?;
            let window = Redacted::new(Window::new(first, limit), &ctx.redactor);
            let (shown, digest) = scan(&files, &path, &args.file_path, window, &ctx.cancel)?;
            if let Some(digest) = digest {
                files.tracker.record_read(path.real(), digest);
            }
            describe(&args.file_path, first, shown).map(ToolOutput::from)
        })
        .await
    }
}

/// Reads the file once: for the window, and to the end for the hash that later edits are checked by.
/// A file too large to be edited needs no hash, and is read no further than the window.
fn scan(
    files: &Files,
    path: &ReadPath,
    named: &str,
    mut window: Redacted,
    cancel: &CancellationToken,
) -> Result<(Shown, Option<Digest>), ToolError> {
    let failed = |error| ToolError::Failed(format!("`{named}`: {error}"));
    let mut file = files.access.open(path)?;
    let is_editable = files.access.size(path)? <= MAX_EDITED_BYTES;
    let mut hasher = Hasher::default();
    let mut piece = vec![0; PIECE_BYTES];
    let mut filled = 0;
    let mut probed = false;
    loop {
        if cancel.is_cancelled() {
            return Err(ToolError::Cancelled("cancelled while reading".to_owned()));
        }
        let read = file.read(&mut piece[filled..]).map_err(failed)?;
        filled += read;
        // The first piece is filled far enough to judge it, whatever the reads return.
        if !probed && filled < PROBE_BYTES && read > 0 {
            continue;
        }
        if !probed && let Some(kind) = not_text(&piece[..filled]) {
            return Err(ToolError::Failed(format!("`{named}` {kind}")));
        }
        probed = true;
        window.feed(&piece[..filled]);
        if is_editable {
            hasher.update(&piece[..filled]);
        }
        filled = 0;
        if read == 0 {
            let digest = is_editable.then(|| hasher.finish());
            return Ok((window.finish(Fed::Whole), digest));
        }
        if !is_editable && window.is_closed() {
            return Ok((window.finish(Fed::UntilClosed), None));
        }
    }
}

/// A window on a file without its secrets, which are taken out before long lines are cut. What spans
/// several lines still takes as many.
struct Redacted {
    window: Window,
    stream: RedactStream,
    clean: Vec<u8>,
}

impl Redacted {
    fn new(window: Window, redactor: &Arc<Redactor>) -> Self {
        Self { window, stream: redactor.stream().keeping_lines(), clean: Vec::new() }
    }

    fn feed(&mut self, piece: &[u8]) {
        self.stream.push(piece, &mut self.clean);
        self.window.feed(&self.clean);
        self.clean.clear();
    }

    fn is_closed(&self) -> bool {
        self.window.is_closed()
    }

    fn finish(mut self, fed: Fed) -> Shown {
        self.stream.finish(&mut self.clean);
        self.window.feed(&self.clean);
        self.window.finish(fed)
    }
}

fn describe(named: &str, first: u64, shown: Shown) -> Result<String, ToolError> {
    let Shown { mut text, lines, total, is_utf8 } = shown;
    let next = first + lines;
    let last = next - 1;
    match total {
        Total::Lines(0) => return Ok(format!("[`{named}` is empty.]")),
        Total::Lines(total) if lines == 0 => {
            return Err(ToolError::Failed(format!(
                "offset {first} is past the end; `{named}` has {total} lines"
            )));
        }
        Total::Lines(total) if last < total => text.push_str(&format!(
            "\n[Lines {first}-{last} of {total}. Read on with offset={next}.]\n"
        )),
        Total::Lines(_) => {}
        Total::More => text.push_str(&format!(
            "\n[Lines {first}-{last} of a file too large to count. Read on with offset={next}.]\n"
        )),
    }
    if !is_utf8 {
        text.push_str(
            "\n[Not all of this is UTF-8; \u{fffd} marks such bytes. Editing other places keeps them.]\n",
        );
    }
    Ok(text)
}
