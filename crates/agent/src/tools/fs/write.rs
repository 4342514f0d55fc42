//! write_file: makes a file, or replaces the whole of one that the model has read.

use std::path::Path;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{Files, check_cancel, diff, intended, links_note, only, preview_of};
use crate::digest::Digest;
use crate::secrets::Redactor;
use crate::session::record::Intended;
use crate::tool::{Effects, OnCancel, SubjectKind, ToolContext, ToolError, ToolOutput, TypedTool};
use crate::tools::access::{Expect, WritePath};
use crate::tools::off_runtime::{finish_off_runtime, off_runtime};

/// Writes a whole file.
#[derive(Debug, Clone)]
pub struct WriteFile(pub Files);

/// What a call of [`WriteFile`] says.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WriteFileArgs {
    /// Path, relative to the workspace or absolute.
    pub file_path: String,
    /// The whole content, byte for byte.
    pub content: String,
}

/// A write that would be allowed, and what it would replace.
struct Planned {
    path: WritePath,
    /// Nothing for a new file.
    before: Option<Vec<u8>>,
    expect: Expect,
}

#[async_trait]
impl TypedTool for WriteFile {
    type Args = WriteFileArgs;

    fn name(&self) -> &str {
        "write_file"
    }

    fn description(&self) -> &str {
        "Creates a file, with its folders, or replaces a whole file that you have read. To change part \
         of a file use edit_file."
    }

    fn effects(&self, args: &WriteFileArgs) -> Effects {
        Effects::writes(only(&args.file_path))
    }

    fn on_cancel(&self) -> OnCancel {
        OnCancel::Atomic
    }

    fn permission_subject(&self, args: &WriteFileArgs) -> Option<String> {
        self.0.access.subject(&args.file_path)
    }

    fn subject_kind(&self) -> Option<SubjectKind> {
        Some(SubjectKind::Path)
    }

    async fn preview(&self, args: WriteFileArgs, ctx: &ToolContext) -> Option<String> {
        let (files, ctx) = (self.0.clone(), ctx.clone());
        off_runtime(&ctx.cancel.clone(), move || {
            let content = || args.content.clone().into_bytes();
            let plan =
                plan(&files, &ctx, &args).map(|plan| (plan.before.unwrap_or_default(), content()));
            Ok(preview_of(&args.file_path, plan, || (Vec::new(), content())))
        })
        .await
        .ok()
        .flatten()
    }

    async fn intend(&self, args: WriteFileArgs, ctx: &ToolContext) -> Vec<Intended> {
        let (files, ctx) = (self.0.clone(), ctx.clone());
        let cancel = ctx.cancel.clone();
        let intended = off_runtime(&cancel, move || {
            let plan = plan(&files, &ctx, &args)?;
            Ok(intended(plan.path.real(), plan.before.as_deref(), args.content.as_bytes()))
        });
        intended.await.into_iter().collect()
    }

    async fn fingerprint(&self, path: &Path, ctx: &ToolContext) -> Option<Option<String>> {
        self.0.fingerprint(path, ctx).await
    }

    async fn run(&self, args: WriteFileArgs, ctx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let files = self.0.clone();
        let ctx = ctx.clone();
        finish_off_runtime(move || {
            let plan = plan(&files, &ctx, &args)?;
            check_cancel(&ctx.cancel)?;
            carry_out(&files, &args, plan, &ctx.redactor)
        })
        .await
    }
}

fn plan(files: &Files, ctx: &ToolContext, args: &WriteFileArgs) -> Result<Planned, ToolError> {
    let named = &args.file_path;
    let path = files.access.for_writing(&ctx.cwd, named, &ctx.grants)?;
    if !files.access.is_there(path.as_read())? {
        return Ok(Planned { path, before: None, expect: Expect::Absent });
    }
    let before = files.read_for_change(path.as_read(), named)?;
    let digest = Digest::of(&before);
    files.tracker.check_fresh(path.real(), digest)?;
    super::demand_no_marker(&args.content, &before)?;
    Ok(Planned { path, before: Some(before), expect: Expect::Content(digest) })
}

fn carry_out(
    files: &Files,
    WriteFileArgs { file_path: named, content }: &WriteFileArgs,
    Planned { path, before, expect }: Planned,
    redactor: &Redactor,
) -> Result<ToolOutput, ToolError> {
    let content = content.as_bytes();
    let done = files.access.replace(&path, content, expect)?;
    files.tracker.record_read(path.real(), Digest::of(content));
    let verb = if before.is_some() { "Replaced" } else { "Created" };
    let lines = content.split_inclusive(|&byte| byte == b'\n').count();
    Ok(ToolOutput {
        text: format!(
            "{verb} `{named}` ({lines} lines, {} bytes).{}",
            content.len(),
            links_note(named, done.other_links)
        ),
        display: Some(diff::unified(named, &before.unwrap_or_default(), content, redactor)),
        ..ToolOutput::default()
    })
}
