//! glob: names of files that match a pattern, newest first.

use std::cmp::Reverse;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use async_trait::async_trait;
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{LEFT_OUT, MAX_RESULTS, notes, push_results, shown};
use crate::tool::{
    Effects, Grants, OnCancel, PathSet, ReplaySafety, SubjectKind, ToolContext, ToolError,
    ToolOutput, TypedTool,
};
use crate::tools::access::{FileAccess, LeftOut, ReadPath, Route, Walked};
use crate::tools::off_runtime::off_runtime;

/// Finds files by name.
#[derive(Debug, Clone)]
pub struct Glob(pub Arc<FileAccess>);

/// What a call of [`Glob`] says.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GlobArgs {
    /// Pattern such as src/**/*.{ts,tsx}.
    pub pattern: String,
    /// Folder to start in; default the workspace.
    pub path: Option<String>,
}

#[async_trait]
impl TypedTool for Glob {
    type Args = GlobArgs;

    fn name(&self) -> &str {
        "glob"
    }

    fn description(&self) -> &str {
        "Finds files by name, newest first. * stays within one folder, ** crosses folders: *.rs finds only \
         files directly in path, **/*.rs all. Ignored files are left out."
    }

    fn effects(&self, args: &GlobArgs) -> Effects {
        Effects::reads(searched(args.path.as_deref()))
    }

    fn on_cancel(&self) -> OnCancel {
        OnCancel::Atomic
    }

    fn replay_safety(&self) -> ReplaySafety {
        ReplaySafety::Safe
    }

    fn permission_subject(&self, args: &GlobArgs) -> Option<String> {
        self.0.subject(args.path.as_deref().unwrap_or("."))
    }

    fn subject_kind(&self) -> Option<SubjectKind> {
        Some(SubjectKind::Path)
    }

    async fn run(&self, args: GlobArgs, ctx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let access = Arc::clone(&self.0);
        let ctx = ctx.clone();
        off_runtime(&ctx.cancel.clone(), move || glob(&access, &args, &ctx)).await
    }
}

/// What a search reads.
pub(super) fn searched(path: Option<&str>) -> PathSet {
    path.map_or(PathSet::Workspace, |path| PathSet::Paths(vec![PathBuf::from(path)]))
}

fn glob(access: &FileAccess, args: &GlobArgs, ctx: &ToolContext) -> Result<ToolOutput, ToolError> {
    let named = args.path.as_deref().unwrap_or(".");
    let start = access.directory(&ctx.cwd, named, &ctx.grants)?;
    let Split { start, below, pattern } = split(access, start, &args.pattern, &ctx.grants)?;
    demand_outside_git(access, &start)?;
    let search = Search::new(&pattern)?;
    let route = Route { start: &start, below: &below };
    let left_out = access.walk(route, &ctx.cancel, || {
        let mut batch = Batch { found: Found::default(), search: &search };
        let (start, search) = (start.real(), &search);
        move |file: &Walked<'_>| {
            let relative = file.relative_to(start);
            if search.pattern.is_match(relative) && !is_dead_link(access, file) {
                batch.found.add(file);
            } else if search.is_shallow && search.deep.is_match(relative) {
                batch.found.deeper += 1;
            }
        }
    });
    let found = search.found.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(report(found, left_out, &ctx.cwd, args).into())
}

fn is_dead_link(access: &FileAccess, file: &Walked<'_>) -> bool {
    file.is_link() && !access.leads_to_readable_file(file)
}

/// Git's own files are read with git, or with read_file by name.
pub(super) fn demand_outside_git(access: &FileAccess, start: &ReadPath) -> Result<(), ToolError> {
    if access.has_git_part(start.real()) {
        return Err(ToolError::Failed(
            "glob and grep leave .git out; ask git in bash, or read_file a file by its name"
                .to_owned(),
        ));
    }
    Ok(())
}

/// A pattern taken apart at its first wildcard.
struct Split {
    start: ReadPath,
    /// The folders in front of the wildcard: nothing beside them need be walked.
    below: PathBuf,
    pattern: String,
}

/// Takes an absolute pattern, or one with leading `..`, to the folder it speaks of, where the usual
/// rules decide whether it may be searched.
fn split(
    access: &FileAccess,
    start: ReadPath,
    pattern: &str,
    grants: &Grants,
) -> Result<Split, ToolError> {
    let pattern = pattern.strip_prefix("./").unwrap_or(pattern);
    if pattern.is_empty() {
        return Err(ToolError::InvalidArgs("pattern is empty; **/* matches every file".to_owned()));
    }
    let wildcard = pattern.find(['*', '?', '[', '{', '\\']).unwrap_or(pattern.len());
    let cut = pattern[..wildcard].rfind('/').map_or(0, |slash| slash + 1);
    let (literal, rest) = pattern.split_at(cut);
    let climbs = |text: &str| text.split('/').any(|part| part == "..");
    if climbs(rest) {
        return Err(ToolError::InvalidArgs(
            "pattern must not hold .. after a wildcard; give the folder as path".to_owned(),
        ));
    }
    if literal.starts_with('/') || climbs(literal) {
        let start = access.directory(start.real(), literal, grants)?;
        return Ok(Split { start, below: PathBuf::new(), pattern: rest.to_owned() });
    }
    Ok(Split { start, below: PathBuf::from(literal), pattern: pattern.to_owned() })
}

/// A compiled pattern and what it has found.
struct Search {
    pattern: GlobSet,
    /// Whether the pattern looks into one folder only, as models write by mistake.
    is_shallow: bool,
    /// The same at any depth, to tell of such a mistake.
    deep: GlobSet,
    found: Mutex<Found>,
}

impl Search {
    fn new(pattern: &str) -> Result<Self, ToolError> {
        Ok(Self {
            pattern: compile(pattern)?,
            is_shallow: !pattern.contains('/') && !pattern.starts_with("**"),
            deep: compile(&format!("**/{pattern}"))?,
            found: Mutex::default(),
        })
    }
}

/// Compiles one pattern of paths, in which `*` does not cross folders.
pub(super) fn compile(pattern: &str) -> Result<GlobSet, ToolError> {
    let glob = GlobBuilder::new(pattern).literal_separator(true).empty_alternates(true).build();
    glob.and_then(|glob| GlobSetBuilder::new().add(glob).build())
        .map_err(|error| ToolError::InvalidArgs(error.to_string()))
}

/// The newest files of all that match, in bounded memory.
#[derive(Debug, Default)]
struct Found {
    files: Vec<(Reverse<SystemTime>, PathBuf)>,
    total: usize,
    /// Files that match only deeper than the pattern looks.
    deeper: usize,
}

impl Found {
    fn add(&mut self, file: &Walked) {
        self.total += 1;
        self.files.push((Reverse(file.modified()), file.real().to_owned()));
        if self.files.len() >= 4 * MAX_RESULTS {
            self.keep_newest();
        }
    }

    fn merge(&mut self, other: &mut Self) {
        self.files.append(&mut other.files);
        self.total += other.total;
        self.deeper += other.deeper;
        self.keep_newest();
    }

    fn keep_newest(&mut self) {
        self.files.sort_unstable();
        self.files.truncate(MAX_RESULTS);
    }
}

/// What one thread has found; handed over when the thread is done.
struct Batch<'s> {
    found: Found,
    search: &'s Search,
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        let found = self.search.found.lock();
        found.unwrap_or_else(PoisonError::into_inner).merge(&mut self.found);
    }
}

fn report(found: Found, left_out: LeftOut, cwd: &Path, args: &GlobArgs) -> String {
    let named = args.path.as_deref().unwrap_or(".");
    if found.total == 0 {
        let mut text = "No files match.".to_owned();
        if found.deeper > 0 {
            text.push_str(&format!(
                " {} would match deeper down: use **/{}.",
                found.deeper, args.pattern
            ));
        }
        text.push_str(LEFT_OUT);
        text.push_str(&notes(left_out, named));
        return text;
    }
    let mut text = String::new();
    let lines = found.files.iter().map(|(_, path)| shown(path, cwd));
    let count = push_results(&mut text, lines);
    if count < found.total {
        text.push_str(&format!(
            "\n[The {count} newest of {} files. Narrow pattern or path to see others.]",
            found.total
        ));
    }
    text.push_str(&notes(left_out, named));
    text
}
