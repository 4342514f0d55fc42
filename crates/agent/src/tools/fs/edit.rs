//! edit_file: replaces one text in a file by another.

use std::path::Path;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;

use super::splice::{MAX_COUNTED, NoSplice, Places, Spliced, splice};
use super::{Files, check_cancel, context, diff, hints, intended, links_note, only, preview_of};
use crate::digest::Digest;
use crate::secrets::Redactor;
use crate::session::record::Intended;
use crate::tool::{Effects, OnCancel, SubjectKind, ToolContext, ToolError, ToolOutput, TypedTool};
use crate::tools::access::{Expect, WritePath};
use crate::tools::off_runtime::{finish_off_runtime, off_runtime};

/// Replaces text in a file.
#[derive(Debug, Clone)]
pub struct EditFile(pub Files);

/// What a call of [`EditFile`] says.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EditFileArgs {
    /// Path, relative to the workspace or absolute.
    pub file_path: String,
    /// Text to replace, exactly as in the file.
    pub old_string: String,
    /// Text to put in its place.
    pub new_string: String,
    /// Replace every occurrence; default false.
    pub replace_all: Option<bool>,
}

/// An edit worked out and not yet made.
struct Planned {
    path: WritePath,
    before: Vec<u8>,
    digest: Digest,
    spliced: Spliced,
}

#[async_trait]
impl TypedTool for EditFile {
    type Args = EditFileArgs;

    fn name(&self) -> &str {
        "edit_file"
    }

    fn description(&self) -> &str {
        "Replaces old_string by new_string in a file you have read. old_string must match exactly, \
         indentation included, and occur once: include enough surrounding lines to make it unique, or \
         set replace_all. Line endings are kept as the file has them."
    }

    fn effects(&self, args: &EditFileArgs) -> Effects {
        Effects::writes(only(&args.file_path))
    }

    fn on_cancel(&self) -> OnCancel {
        OnCancel::Atomic
    }

    fn permission_subject(&self, args: &EditFileArgs) -> Option<String> {
        self.0.access.subject(&args.file_path)
    }

    fn subject_kind(&self) -> Option<SubjectKind> {
        Some(SubjectKind::Path)
    }

    async fn preview(&self, args: EditFileArgs, ctx: &ToolContext) -> Option<String> {
        let (files, ctx) = (self.0.clone(), ctx.clone());
        off_runtime(&ctx.cancel.clone(), move || {
            let plan = plan(&files, &ctx, &args).map(|plan| (plan.before, plan.spliced.content));
            let asked =
                || (args.old_string.clone().into_bytes(), args.new_string.clone().into_bytes());
            Ok(preview_of(&args.file_path, plan, asked))
        })
        .await
        .ok()
        .flatten()
    }

    async fn intend(&self, args: EditFileArgs, ctx: &ToolContext) -> Vec<Intended> {
        let (files, ctx) = (self.0.clone(), ctx.clone());
        let cancel = ctx.cancel.clone();
        let intended = off_runtime(&cancel, move || {
            let plan = plan(&files, &ctx, &args)?;
            Ok(intended(plan.path.real(), Some(&plan.before), &plan.spliced.content))
        });
        intended.await.into_iter().collect()
    }

    async fn fingerprint(&self, path: &Path, ctx: &ToolContext) -> Option<Option<String>> {
        self.0.fingerprint(path, ctx).await
    }

    async fn run(&self, args: EditFileArgs, ctx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let files = self.0.clone();
        let ctx = ctx.clone();
        finish_off_runtime(move || {
            let plan = plan(&files, &ctx, &args)?;
            check_cancel(&ctx.cancel)?;
            carry_out(&files, &args.file_path, &plan, &ctx.redactor)
        })
        .await
    }
}

fn plan(files: &Files, ctx: &ToolContext, args: &EditFileArgs) -> Result<Planned, ToolError> {
    let named = &args.file_path;
    let path = files.access.for_writing(&ctx.cwd, named, &ctx.grants)?;
    let before = files.read_for_change(path.as_read(), named)?;
    let digest = Digest::of(&before);
    files.tracker.check_fresh(path.real(), digest)?;
    let places = if args.replace_all == Some(true) { Places::All } else { Places::One };
    super::demand_no_marker(&args.new_string, &before)?;
    let spliced = splice(&before, &args.old_string, &args.new_string, places)
        .map_err(|reason| explain(reason, &before, args))?;
    Ok(Planned { path, before, digest, spliced })
}

fn carry_out(
    files: &Files,
    named: &str,
    plan: &Planned,
    redactor: &Redactor,
) -> Result<ToolOutput, ToolError> {
    let Spliced { content, count, places } = &plan.spliced;
    let done = files.access.replace(&plan.path, content, Expect::Content(plan.digest))?;
    files.tracker.record_read(plan.path.real(), Digest::of(content));
    let occurrences = if *count == 1 { "occurrence" } else { "occurrences" };
    Ok(ToolOutput {
        text: format!(
            "Replaced {count} {occurrences} in `{named}`:\n{}{}",
            context::around(content, places, redactor),
            links_note(named, done.other_links)
        ),
        display: Some(diff::unified(named, &plan.before, content, redactor)),
        ..ToolOutput::default()
    })
}

fn explain(reason: NoSplice, before: &[u8], args: &EditFileArgs) -> ToolError {
    let named = &args.file_path;
    ToolError::Failed(match reason {
        NoSplice::EmptyOld => {
            "old_string is empty. Give the text to replace; to fill or create a file use write_file."
                .to_owned()
        }
        NoSplice::Unchanged => {
            "old_string and new_string are the same, so there is nothing to change. Line endings follow \
             the file; to change those use write_file."
                .to_owned()
        }
        NoSplice::NoMatch => {
            let hint = hints::explain(before, &args.old_string);
            let gap = if hint.is_empty() { "" } else { " " };
            format!(
                "No match for old_string in `{named}`.{gap}{hint} Check whitespace and indentation, and \
                 read the file again with read_file."
            )
        }
        NoSplice::Ambiguous { lines, count } => {
            let lines = lines.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
            let least = if count == MAX_COUNTED { "at least " } else { "" };
            format!(
                "old_string has {least}{count} matches in `{named}` (lines {lines}{}). Add surrounding \
                 lines to make it unique, or set replace_all to change every one.",
                if count > 10 { ", ..." } else { "" }
            )
        }
    })
}
