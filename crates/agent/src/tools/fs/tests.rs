//! The three tools on real files.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::PathBuf;

use serde_json::{Value, json};

use super::*;
use crate::tool::{Tool, ToolContext, ToolOutput};
use crate::tools::access::AccessRules;

struct Scratch {
    _dir: tempfile::TempDir,
    root: PathBuf,
    files: Files,
    ctx: ToolContext,
}

impl Scratch {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let access = FileAccess::new(AccessRules::workspace(&root)).unwrap();
        let ctx = ToolContext {
            cwd: root.clone(),
            cancel: CancellationToken::new(),
            session_id: String::new(),
            output: None,
            grants: crate::tool::Grants::default(),
            redactor: std::sync::Arc::default(),
        };
        Self { _dir: dir, root, files: Files::new(Arc::new(access)), ctx }
    }

    fn file(&self, path: &str, content: impl AsRef<[u8]>) -> &Self {
        fs::write(self.root.join(path), content).unwrap();
        self
    }

    fn content(&self, path: &str) -> String {
        fs::read_to_string(self.root.join(path)).unwrap()
    }

    async fn read(&self, args: Value) -> Result<String, ToolError> {
        Tool::call(&ReadFile(self.files.clone()), args, &self.ctx).await.map(|output| output.text)
    }

    async fn write(&self, path: &str, content: &str) -> Result<ToolOutput, ToolError> {
        let args = json!({"file_path": path, "content": content});
        Tool::call(&WriteFile(self.files.clone()), args, &self.ctx).await
    }

    async fn edit(&self, path: &str, old: &str, new: &str) -> Result<ToolOutput, ToolError> {
        let args = json!({"file_path": path, "old_string": old, "new_string": new});
        Tool::call(&EditFile(self.files.clone()), args, &self.ctx).await
    }

    /// A file that the model has read.
    async fn known(&self, path: &str, content: impl AsRef<[u8]>) -> &Self {
        self.file(path, content);
        self.read(json!({"file_path": path})).await.unwrap();
        self
    }
}

fn failed(text: &str) -> ToolError {
    ToolError::Failed(text.to_owned())
}

#[tokio::test]
async fn reading_numbers_the_lines_and_says_how_to_read_on() {
    let scratch = Scratch::new();
    scratch.file("a", (1..=5).map(|n| format!("line {n}\n")).collect::<String>());
    let text = scratch.read(json!({"file_path": "a", "offset": 2, "limit": 2})).await.unwrap();
    assert_eq!(
        text,
        "     2\tline 2\n     3\tline 3\n\n[Lines 2-3 of 5. Read on with offset=4.]\n"
    );
    let whole = scratch.read(json!({"file_path": "a", "offset": 0})).await.unwrap();
    assert!(whole.starts_with("     1\tline 1\n") && whole.ends_with("     5\tline 5\n"));
}

#[tokio::test]
async fn reading_past_the_end_says_where_the_end_is() {
    let scratch = Scratch::new();
    scratch.file("a", "1\n2\n");
    assert_eq!(
        scratch.read(json!({"file_path": "a", "offset": 3})).await,
        Err(failed("offset 3 is past the end; `a` has 2 lines"))
    );
}

#[tokio::test]
async fn a_file_too_large_to_edit_is_read_no_further_than_its_window() {
    let scratch = Scratch::new();
    scratch.file("huge", "line\n".repeat(10_000));
    let file = fs::File::options().write(true).open(scratch.root.join("huge")).unwrap();
    file.set_len(1 << 33).unwrap();
    let text = scratch.read(json!({"file_path": "huge", "limit": 2})).await.unwrap();
    assert!(text.contains("of a file too large to count. Read on with offset=3."), "{text}");
    let error = scratch.edit("huge", "line", "x").await.unwrap_err().to_string();
    assert!(error.contains("bash"), "{error}");
}

#[tokio::test]
async fn an_empty_file_says_so_and_counts_as_read() {
    let scratch = Scratch::new();
    scratch.file("a", "");
    assert_eq!(scratch.read(json!({"file_path": "a"})).await.unwrap(), "[`a` is empty.]");
    scratch.write("a", "now it is not").await.unwrap();
}

#[tokio::test]
async fn a_byte_that_is_not_utf8_is_marked_and_told() {
    let scratch = Scratch::new();
    scratch.file("a", b"ok\n\xff\n");
    let text = scratch.read(json!({"file_path": "a"})).await.unwrap();
    assert!(text.contains("     2\t\u{fffd}\n") && text.contains("Not all of this is UTF-8"));
}

#[tokio::test]
async fn binary_files_are_refused_by_all_three_tools() {
    let scratch = Scratch::new();
    scratch.file("b", b"x\0y").file("u", b"\xff\xfea\0\n\0");
    for path in ["b", "u"] {
        for error in [
            scratch.read(json!({"file_path": path})).await.unwrap_err(),
            scratch.write(path, "x").await.unwrap_err(),
            scratch.edit(path, "x", "y").await.unwrap_err(),
        ] {
            assert!(error.to_string().contains("binary"), "{error}");
        }
    }
}

#[tokio::test]
async fn a_misspelt_argument_is_named() {
    let scratch = Scratch::new();
    let error = scratch.read(json!({"file_path": "a", "ofset": 3})).await.unwrap_err();
    assert!(matches!(&error, ToolError::InvalidArgs(text) if text.contains("ofset")), "{error}");
    let error = scratch.read(json!({"file_path": "a", "limit": 0})).await.unwrap_err();
    assert!(matches!(&error, ToolError::InvalidArgs(text) if text.contains("limit")), "{error}");
}

#[tokio::test]
async fn a_new_file_is_created_with_its_folders_and_shown_as_a_diff() {
    let scratch = Scratch::new();
    let output = scratch.write("src/deep/a.rs", "fn a() {}\n").await.unwrap();
    assert_eq!(scratch.content("src/deep/a.rs"), "fn a() {}\n");
    assert_eq!(output.text, "Created `src/deep/a.rs` (1 lines, 10 bytes).");
    assert_eq!(
        output.display.unwrap(),
        "--- /dev/null\n+++ src/deep/a.rs\n@@ -0,0 +1 @@\n+fn a() {}\n"
    );
    let mode = fs::metadata(scratch.root.join("src/deep/a.rs")).unwrap().mode();
    assert_eq!(mode & 0o111, 0);
    scratch.write("src/deep/a.rs", "again\n").await.expect("what it wrote itself it knows");
}

#[tokio::test]
async fn replacing_a_file_needs_a_fresh_read() {
    let scratch = Scratch::new();
    scratch.file("a", "old\n");
    assert_eq!(
        scratch.write("a", "new\n").await,
        Err(failed("You must read_file before editing it."))
    );
    scratch.known("a", "old\n").await.file("a", "theirs\n");
    assert_eq!(
        scratch.write("a", "new\n").await,
        Err(failed("File changed on disk since you last read it. Read it again."))
    );
    assert_eq!(scratch.content("a"), "theirs\n");
    let output = scratch.known("a", "old\n").await.write("a", "new\n").await.unwrap();
    assert!(output.display.unwrap().ends_with("-old\n+new\n"));
}

#[tokio::test]
async fn editing_an_unread_file_is_refused() {
    let scratch = Scratch::new();
    scratch.file("a", "x\n");
    assert_eq!(
        scratch.edit("a", "x", "y").await,
        Err(failed("You must read_file before editing it."))
    );
}

#[tokio::test]
async fn two_edits_in_a_row_work_and_a_change_by_the_user_in_between_is_noticed() {
    let scratch = Scratch::new();
    scratch.known("a", "one\n").await;
    scratch.edit("a", "one", "two").await.unwrap();
    scratch.edit("a", "two", "three").await.unwrap();
    scratch.file("a", "theirs\n");
    assert_eq!(
        scratch.edit("a", "three", "four").await,
        Err(failed("File changed on disk since you last read it. Read it again."))
    );
    assert_eq!(scratch.content("a"), "theirs\n");
}

#[tokio::test]
async fn an_edit_shows_the_numbered_lines_around_it_and_a_diff() {
    let scratch = Scratch::new();
    let lines: String = (1..=9).map(|n| format!("line {n}\n")).collect();
    let output = scratch.known("a", lines).await.edit("a", "line 6", "LINE 6").await.unwrap();
    assert!(output.text.starts_with("Replaced 1 occurrence in `a`:\n     2\tline 2\n"));
    assert!(output.text.contains("     6\tLINE 6\n"));
    assert!(output.display.unwrap().contains("-line 6\n+LINE 6\n"));
}

#[tokio::test]
async fn no_match_suggests_whitespace_indentation_and_reading_again() {
    let scratch = Scratch::new();
    scratch.known("a", "\tif x:\n").await;
    let error = scratch.edit("a", "    if x:", "y").await.unwrap_err().to_string();
    for part in ["No match", "1 tab(s)", "whitespace", "indentation", "read_file"] {
        assert!(error.contains(part), "{error}");
    }
}

#[tokio::test]
async fn three_matches_without_replace_all_are_counted_and_named() {
    let scratch = Scratch::new();
    scratch.known("a", "x\nx\nx\n").await;
    assert_eq!(
        scratch.edit("a", "x", "y").await,
        Err(failed(
            "old_string has 3 matches in `a` (lines 1, 2, 3). Add surrounding lines to make it unique, \
             or set replace_all to change every one."
        ))
    );
    let args = json!({"file_path": "a", "old_string": "x", "new_string": "y", "replace_all": true});
    let output = Tool::call(&EditFile(scratch.files.clone()), args, &scratch.ctx).await.unwrap();
    assert!(output.text.starts_with("Replaced 3 occurrences"));
    assert_eq!(scratch.content("a"), "y\ny\ny\n");
}

#[tokio::test]
async fn an_edit_keeps_mode_and_symlink_and_tells_of_other_hard_links() {
    let scratch = Scratch::new();
    scratch.known("real", "X\n").await;
    fs::set_permissions(scratch.root.join("real"), fs::Permissions::from_mode(0o640)).unwrap();
    symlink("real", scratch.root.join("link")).unwrap();
    fs::hard_link(scratch.root.join("real"), scratch.root.join("other")).unwrap();
    let output = scratch.edit("link", "X", "Y").await.unwrap();
    assert!(output.text.contains("1 other hard link(s); they keep the old content"));
    assert!(scratch.root.join("link").is_symlink());
    assert_eq!(scratch.content("real"), "Y\n");
    assert_eq!(scratch.content("other"), "X\n");
    assert_eq!(fs::metadata(scratch.root.join("real")).unwrap().mode() & 0o7777, 0o640);
}

#[tokio::test]
async fn reading_through_a_link_is_reading_the_file() {
    let scratch = Scratch::new();
    scratch.file("real", "X\n");
    symlink("real", scratch.root.join("link")).unwrap();
    scratch.read(json!({"file_path": "link"})).await.unwrap();
    scratch.edit("real", "X", "Y").await.unwrap();
}

#[tokio::test]
async fn a_preview_shows_the_diff_and_changes_nothing() {
    let scratch = Scratch::new();
    scratch.known("a", "old\n").await;
    let edit = EditFile(scratch.files.clone());
    let args = json!({"file_path": "a", "old_string": "old", "new_string": "new"});
    let preview = Tool::preview(&edit, &args, &scratch.ctx).await.unwrap();
    assert!(preview.ends_with("-old\n+new\n"), "{preview}");
    let write = WriteFile(scratch.files.clone());
    let args = json!({"file_path": "new/b", "content": "b\n"});
    assert!(Tool::preview(&write, &args, &scratch.ctx).await.unwrap().ends_with("+b\n"));
    let args = json!({"file_path": "../x", "content": "b\n"});
    let preview = Tool::preview(&write, &args, &scratch.ctx).await.unwrap();
    assert!(preview.starts_with("this call would fail: `../x` lies outside"), "{preview}");
    assert!(preview.ends_with("what it asks for:\n--- /dev/null\n+++ ../x\n@@ -0,0 +1 @@\n+b\n"));
    assert_eq!(scratch.content("a"), "old\n");
    assert!(!scratch.root.join("new").exists());
}

#[tokio::test]
async fn a_preview_shows_the_last_line_of_a_large_change_or_leaves_it_to_the_arguments() {
    let scratch = Scratch::new();
    scratch.known("a", "old\n").await;
    let edit = EditFile(scratch.files.clone());
    let write = WriteFile(scratch.files.clone());
    let large = "harmless\n".repeat(2_300) + &" ".repeat(400) + "rm -rf ~\n";
    let written = json!({"file_path": "b", "content": large});
    let preview = Tool::preview(&write, &written, &scratch.ctx).await.unwrap();
    assert!(preview.ends_with(" rm -rf ~\n"), "{preview}");
    for (old, start) in [("old\n", "--- a\n"), ("not there", "this call would fail: ")] {
        let edited = json!({"file_path": "a", "old_string": old, "new_string": large});
        let preview = Tool::preview(&edit, &edited, &scratch.ctx).await.unwrap();
        assert!(preview.starts_with(start) && preview.contains(" rm -rf ~\n"), "{preview}");
    }
    let huge = json!({"file_path": "b", "content": large.repeat(20)});
    assert_eq!(Tool::preview(&write, &huge, &scratch.ctx).await, None);
}

#[tokio::test]
async fn a_cancelled_call_changes_nothing() {
    let scratch = Scratch::new();
    scratch.known("a", "old\n").await;
    scratch.ctx.cancel.cancel();
    assert!(matches!(scratch.edit("a", "old", "new").await, Err(ToolError::Cancelled(_))));
    assert!(matches!(scratch.write("b", "new").await, Err(ToolError::Cancelled(_))));
    assert!(matches!(scratch.read(json!({"file_path": "a"})).await, Err(ToolError::Cancelled(_))));
    assert_eq!(scratch.content("a"), "old\n");
    assert!(!scratch.root.join("b").exists());
}

#[tokio::test]
async fn what_permission_rules_match_is_the_path_without_detours() {
    let scratch = Scratch::new();
    let read = ReadFile(scratch.files.clone());
    let subject = |path: &str| Tool::permission_subject(&read, &json!({"file_path": path}));
    assert_eq!(subject("./src/../.env").as_deref(), Some(".env"));
    assert_eq!(subject("/etc/./passwd").as_deref(), Some("/etc/passwd"));
    let inside = scratch.root.join("a/b");
    assert_eq!(subject(inside.to_str().unwrap()).as_deref(), Some("a/b"));
}

#[tokio::test]
async fn reading_is_read_only_and_writing_names_its_file() {
    let scratch = Scratch::new();
    let args = json!({"file_path": "a", "content": ""});
    let effects = Tool::effects(&WriteFile(scratch.files.clone()), &args);
    assert_eq!(effects.writes, PathSet::Paths(vec!["a".into()]));
    let effects = Tool::effects(&ReadFile(scratch.files.clone()), &json!({"file_path": "a"}));
    assert!(effects.is_read_only());
    assert_eq!(effects.reads, PathSet::Paths(vec!["a".into()]));
}
