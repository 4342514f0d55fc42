//! The two tools on real folders.

use std::fs;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::tool::{Tool, ToolContext, ToolError};
use crate::tools::access::{AccessRules, FileAccess};
use crate::tools::fs::{Files, ReadFile};

struct Scratch {
    _dir: tempfile::TempDir,
    root: PathBuf,
    access: Arc<FileAccess>,
    ctx: ToolContext,
}

impl Scratch {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap().join("W");
        fs::create_dir(&root).unwrap();
        Self::over(dir, root)
    }

    fn over(dir: tempfile::TempDir, root: PathBuf) -> Self {
        let access = Arc::new(FileAccess::new(AccessRules::workspace(&root)).unwrap());
        let ctx = ToolContext {
            cwd: root.clone(),
            cancel: CancellationToken::new(),
            session_id: String::new(),
            output: None,
            grants: crate::tool::Grants::default(),
            redactor: std::sync::Arc::default(),
        };
        Self { _dir: dir, root, access, ctx }
    }

    fn file(&self, path: &str, content: impl AsRef<[u8]>) -> &Self {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
        self
    }

    fn aged(&self, path: &str, seconds: u64) -> &Self {
        self.file(path, "x\n");
        let file = fs::File::options().write(true).open(self.root.join(path)).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(seconds)).unwrap();
        self
    }

    async fn glob(&self, args: Value) -> Result<String, ToolError> {
        Tool::call(&Glob(Arc::clone(&self.access)), args, &self.ctx).await.map(|out| out.text)
    }

    async fn grep(&self, args: Value) -> Result<String, ToolError> {
        Tool::call(&Grep(Arc::clone(&self.access)), args, &self.ctx).await.map(|out| out.text)
    }

    #[track_caller]
    fn files(text: Result<String, ToolError>) -> Vec<String> {
        let text = text.unwrap();
        let results = text.lines().take_while(|line| !line.is_empty());
        results.map(str::to_owned).collect()
    }
}

#[tokio::test]
async fn files_are_listed_newest_first() {
    let scratch = Scratch::new();
    scratch.aged("old.rs", 300).aged("new.rs", 1).aged("sub/middle.rs", 60).aged("x.txt", 5);
    let files = Scratch::files(scratch.glob(json!({"pattern": "**/*.rs"})).await);
    assert_eq!(files, ["new.rs", "sub/middle.rs", "old.rs"]);
}

#[tokio::test]
async fn two_hundred_files_are_listed_and_the_rest_is_counted() {
    let scratch = Scratch::new();
    for n in 0..1203 {
        scratch.file(&format!("{n:04}"), "");
    }
    scratch.aged("newest", 0);
    let text = scratch.glob(json!({"pattern": "*"})).await.unwrap();
    assert!(text.contains("[The 200 newest of 1204 files."), "{text}");
    let files = Scratch::files(Ok(text));
    assert_eq!((files.len(), files[0].as_str()), (200, "newest"));
}

#[tokio::test]
async fn ignored_files_never_show_up_in_or_outside_a_git_repository() {
    for in_git in [false, true] {
        let scratch = Scratch::new();
        if in_git {
            scratch.file(".git/HEAD", "ref: refs/heads/main\n");
        }
        scratch.file(".gitignore", "target/\n*.log\n!keep.log\n");
        for path in ["target/x.rs", "sub/target/y.rs", "a.log", "keep.log", "src/b.rs", ".ci/c.rs"]
        {
            scratch.file(path, "needle\n");
        }
        let mut files = Scratch::files(scratch.glob(json!({"pattern": "**/*.{rs,log}"})).await);
        files.sort();
        assert_eq!(files, [".ci/c.rs", "keep.log", "src/b.rs"], "in git: {in_git}");
        let lines = Scratch::files(scratch.grep(json!({"pattern": "needle"})).await);
        assert_eq!(lines, [".ci/c.rs:1:needle", "keep.log:1:needle", "src/b.rs:1:needle"]);
    }
}

#[tokio::test]
async fn ignore_files_above_the_workspace_count_inside_the_same_repository_only() {
    let scratch = Scratch::new();
    scratch.file("../.gitignore", "*.rs\n").file("a.rs", "x\n");
    let all = json!({"pattern": "**/*.rs"});
    assert_eq!(Scratch::files(scratch.glob(all.clone()).await), ["a.rs"]);
    scratch.file("../.git/HEAD", "ref: refs/heads/main\n");
    let text = scratch.glob(all.clone()).await.unwrap();
    assert!(text.starts_with("No files match.") && text.contains(".gitignore"), "{text}");
    scratch.file(".git/HEAD", "ref: refs/heads/main\n");
    assert_eq!(Scratch::files(scratch.glob(all).await), ["a.rs"]);
}

#[tokio::test]
async fn an_ignored_folder_is_searched_when_it_is_named() {
    let scratch = Scratch::new();
    scratch.file(".gitignore", "vendor/\n").file("vendor/lib/a.rs", "needle\n");
    let text = scratch.grep(json!({"pattern": "needle", "path": "vendor/lib"})).await.unwrap();
    assert!(text.starts_with("vendor/lib/a.rs:1:needle\n"), "{text}");
    assert!(text.contains("`vendor/lib` is ignored; it was searched because it is named"));
    let text = scratch.grep(json!({"pattern": "needle"})).await.unwrap();
    assert!(text.contains("name an ignored folder as path"), "{text}");
}

#[tokio::test]
async fn the_git_folder_is_never_searched() {
    let scratch = Scratch::new();
    scratch.file(".git/config", "needle\n").file("sub/.git/config", "needle\n");
    assert!(scratch.grep(json!({"pattern": "needle"})).await.unwrap().starts_with("No matches."));
    for path in [".git", "sub/.git", ".git/config"] {
        let error = scratch.grep(json!({"pattern": "needle", "path": path})).await.unwrap_err();
        assert!(error.to_string().contains("leave .git out"), "{error}");
    }
}

#[tokio::test]
async fn search_cannot_expose_masked_files() {
    let scratch = Scratch::new();
    scratch.file(".env", "needle\n").file("deploy/.ssh/id_rsa", "needle\n").file("a", "x\n");
    symlink(".env", scratch.root.join("innocent")).unwrap();
    let text = scratch.grep(json!({"pattern": "needle"})).await.unwrap();
    assert!(text.starts_with("No matches.") && !text.contains("id_rsa"), "{text}");
    assert!(text.contains("2 masked file(s) or folder(s) left out"), "{text}");
    let text = scratch.glob(json!({"pattern": "**/*"})).await.unwrap();
    assert_eq!(Scratch::files(Ok(text)), ["a"]);
    for path in [".env", "deploy/.ssh", "innocent"] {
        let error = scratch.grep(json!({"pattern": "needle", "path": path})).await.unwrap_err();
        assert!(error.to_string().contains("masked"), "{error}");
    }
}

#[tokio::test]
async fn credentials_deep_in_a_folder_stay_masked_even_when_an_ignored_folder_is_named() {
    let scratch = Scratch::new();
    let secrets = [".docker/config.json", ".cargo/credentials.toml", ".config/gcloud/token.db"];
    scratch.file(".gitignore", ".docker/\n.cargo/\n.config/\n");
    for secret in secrets {
        scratch.file(secret, "needle\n").file(&format!("sub/{secret}"), "needle\n");
    }
    let seen = [".docker/seen", ".cargo/seen", ".config/seen"];
    for seen in seen {
        scratch.file(seen, "needle\n").file(&format!("sub/{seen}"), "needle\n");
    }
    let read_file = ReadFile(Files::new(Arc::clone(&scratch.access)));
    for (secret, seen) in secrets.into_iter().zip(seen) {
        for home in ["", "sub/"] {
            let (secret, seen) = (format!("{home}{secret}"), format!("{home}{seen}"));
            let folder = Path::new(&seen).parent().unwrap().to_str().unwrap();
            let lines = scratch.grep(json!({"pattern": "needle", "path": folder})).await;
            assert_eq!(Scratch::files(lines), [format!("{seen}:1:needle")]);
            let files = scratch.glob(json!({"pattern": "**/*", "path": folder})).await;
            assert_eq!(Scratch::files(files), [seen]);
            let error = Tool::call(&read_file, json!({"file_path": secret}), &scratch.ctx).await;
            assert!(error.unwrap_err().to_string().contains("masked"), "{secret}");
        }
    }
}

#[tokio::test]
async fn masks_of_a_root_inside_another_hold_for_a_search_from_the_outer_one() {
    let mut scratch = Scratch::new();
    scratch.file("inner/private/k", "needle\n").file("inner/seen", "needle\n");
    let mut rules = AccessRules::workspace(&scratch.root);
    rules.readable = vec![scratch.root.join("inner")];
    rules.masked = vec!["/private/".to_owned()];
    scratch.access = Arc::new(FileAccess::new(rules).unwrap());
    for path in [".", "inner"] {
        let lines = scratch.grep(json!({"pattern": "needle", "path": path})).await;
        assert_eq!(Scratch::files(lines), ["inner/seen:1:needle"], "{path}");
    }
}

#[tokio::test]
async fn links_are_listed_when_they_lead_to_a_file_inside_and_never_followed() {
    let scratch = Scratch::new();
    scratch.file("../secret", "needle\n").file("real", "needle\n").file("d/x", "needle\n");
    for (link, target) in [("in", "real"), ("out", "../secret"), ("dead", "none"), ("d/loop", "..")]
    {
        symlink(target, scratch.root.join(link)).unwrap();
    }
    let mut files = Scratch::files(scratch.glob(json!({"pattern": "**/*"})).await);
    files.sort();
    assert_eq!(files, ["d/x", "in", "real"]);
    let lines = Scratch::files(scratch.grep(json!({"pattern": "needle"})).await);
    assert_eq!(lines, ["d/x:1:needle", "real:1:needle"]);
}

#[tokio::test]
async fn a_pattern_that_leads_outside_is_refused_and_one_that_leads_inside_works() {
    let scratch = Scratch::new();
    scratch.file("src/a.rs", "x\n");
    for pattern in ["/etc/*", "../*", "src/../../*", "../*/x"] {
        let error = scratch.glob(json!({"pattern": pattern})).await.unwrap_err();
        assert!(error.to_string().contains("outside"), "{pattern}: {error}");
    }
    let inside = format!("{}/src/*.rs", scratch.root.display());
    for (pattern, path) in [(inside.as_str(), "."), ("../src/*.rs", "src"), ("./src/*.rs", ".")] {
        let files = Scratch::files(scratch.glob(json!({"pattern": pattern, "path": path})).await);
        assert_eq!(files, ["src/a.rs"], "{pattern}");
    }
    assert!(matches!(
        scratch.glob(json!({"pattern": "*/../x"})).await,
        Err(ToolError::InvalidArgs(_))
    ));
}

#[tokio::test]
async fn a_star_stays_in_its_folder_and_an_empty_answer_tells_of_deeper_files() {
    let scratch = Scratch::new();
    scratch.file("src/a.rs", "x\n").file("src/deep/b.rs", "x\n");
    let files = Scratch::files(scratch.glob(json!({"pattern": "src/*.rs"})).await);
    assert_eq!(files, ["src/a.rs"]);
    let text = scratch.glob(json!({"pattern": "*.rs"})).await.unwrap();
    assert!(text.contains("2 would match deeper down: use **/*.rs"), "{text}");
    let files = Scratch::files(scratch.glob(json!({"pattern": "*.rs", "path": "src"})).await);
    assert_eq!(files, ["src/a.rs"]);
}

#[tokio::test]
async fn a_bad_pattern_is_an_argument_error_with_the_reason() {
    let scratch = Scratch::new();
    scratch.file("a", "x\n");
    for (args, reason) in [
        (json!({"pattern": "a("}), "unclosed group"),
        (json!({"pattern": "(?=x)"}), "look-around"),
        (json!({"pattern": "a\\nb"}), "within one line"),
        (json!({"pattern": "a\nb"}), "within one line"),
        (json!({"pattern": ""}), "empty"),
        (json!({"pattern": "x", "glob": "["}), "unclosed character class"),
    ] {
        let error = scratch.grep(args.clone()).await.unwrap_err();
        assert!(
            matches!(&error, ToolError::InvalidArgs(text) if text.contains(reason)),
            "{args}: {error}"
        );
    }
    let error = scratch.glob(json!({"pattern": "["})).await.unwrap_err();
    assert!(matches!(&error, ToolError::InvalidArgs(text) if text.contains("unclosed")));
}

#[tokio::test]
async fn a_path_that_is_missing_or_no_folder_is_an_error_and_not_an_empty_answer() {
    let scratch = Scratch::new();
    scratch.file("a", "x\n");
    assert!(scratch.glob(json!({"pattern": "*", "path": "a"})).await.is_err());
    assert!(scratch.glob(json!({"pattern": "*", "path": "none"})).await.is_err());
    assert!(scratch.grep(json!({"pattern": "x", "path": "none"})).await.is_err());
    assert!(scratch.grep(json!({"pattern": "x", "path": "../"})).await.is_err());
}

#[tokio::test]
async fn lines_come_in_order_of_path_and_the_first_two_hundred_are_shown() {
    let scratch = Scratch::new();
    for n in 0..150 {
        scratch.file(&format!("{n:03}.txt"), "needle\nhay\nneedle\n");
    }
    let text = scratch.grep(json!({"pattern": "needle"})).await.unwrap();
    assert!(text.contains("[The first 200 results in order of path; there may be more."), "{text}");
    let lines = Scratch::files(Ok(text));
    assert_eq!(lines.len(), 200);
    assert_eq!((lines[0].as_str(), lines[199].as_str()), ("000.txt:1:needle", "099.txt:3:needle"));
    let files = Scratch::files(scratch.grep(json!({"pattern": "needle", "mode": "files"})).await);
    assert_eq!((files.len(), files[149].as_str()), (150, "149.txt"));
}

#[tokio::test]
async fn grep_takes_a_file_a_name_filter_and_ignores_case_on_request() {
    let scratch = Scratch::new();
    scratch.file("src/a.rs", "Needle\n").file("src/b.ts", "Needle\n").file("c.rs", "Needle\n");
    for (args, want) in [
        (json!({"pattern": "Needle", "path": "src/a.rs"}), vec!["src/a.rs:1:Needle"]),
        (json!({"pattern": "Needle", "glob": "*.ts"}), vec!["src/b.ts:1:Needle"]),
        (
            json!({"pattern": "Needle", "glob": "src/*.{rs,ts}", "mode": "files"}),
            vec!["src/a.rs", "src/b.ts"],
        ),
        (json!({"pattern": "Needle", "glob": "!*.rs"}), vec!["src/b.ts:1:Needle"]),
        (
            json!({"pattern": "Needle", "path": "src", "glob": "src/*.ts", "mode": "files"}),
            vec!["src/b.ts"],
        ),
        (
            json!({"pattern": "needle", "case_insensitive": true, "path": "src", "glob": "*.rs"}),
            vec!["src/a.rs:1:Needle"],
        ),
        (json!({"pattern": "-Needle|^Needle$", "glob": "c.rs"}), vec!["c.rs:1:Needle"]),
    ] {
        assert_eq!(Scratch::files(scratch.grep(args.clone()).await), want, "{args}");
    }
}

#[tokio::test]
async fn binary_files_are_skipped_and_other_encodings_are_searched() {
    let scratch = Scratch::new();
    scratch.file("b.bin", b"needle\0needle\n").file("latin1", b"caf\xe9 needle\n");
    scratch.file("crlf", "needle\r\n").file("utf16", b"\xff\xfen\0e\0e\0d\0l\0e\0\n\0");
    let mut late = vec![b'x'; 9000];
    late.extend_from_slice(b"\n\0\nneedle\n");
    scratch.file("late-nul", late);
    let lines = Scratch::files(scratch.grep(json!({"pattern": "needle$"})).await);
    assert_eq!(
        lines,
        ["crlf:1:needle", "late-nul:3:needle", "latin1:1:caf\u{fffd} needle", "utf16:1:needle"]
    );
}

#[tokio::test]
async fn a_long_line_shows_the_part_with_the_match() {
    let scratch = Scratch::new();
    scratch.file("m.js", format!("{}needle;{}", "var a=1;".repeat(200_000), "é".repeat(1000)));
    let text = scratch.grep(json!({"pattern": "needle"})).await.unwrap();
    assert!(text.starts_with("m.js:1:[...]") && text.contains("needle;é"), "{text}");
    assert!(text.chars().count() < 400, "{text}");
}

/// macOS takes no such names.
#[cfg(not(target_os = "macos"))]
#[tokio::test]
async fn names_that_are_not_utf8_or_hold_a_newline_stay_on_one_line() {
    let scratch = Scratch::new();
    let name = std::ffi::OsString::from_vec(b"bad\xff.rs".to_vec());
    fs::write(scratch.root.join(name), "needle\n").unwrap();
    scratch.file("two\nlines.rs", "needle\n");
    let mut files = Scratch::files(scratch.glob(json!({"pattern": "*.rs"})).await);
    files.sort();
    assert_eq!(files, ["bad\u{fffd}.rs", "two\\nlines.rs"]);
    assert_eq!(Scratch::files(scratch.grep(json!({"pattern": "needle"})).await).len(), 2);
}

#[tokio::test]
async fn a_cancelled_search_returns_at_once() {
    let scratch = Scratch::new();
    scratch.file("a", "needle\n").ctx.cancel.cancel();
    assert!(matches!(
        scratch.grep(json!({"pattern": "needle"})).await,
        Err(ToolError::Cancelled(_))
    ));
    assert!(matches!(scratch.glob(json!({"pattern": "*"})).await, Err(ToolError::Cancelled(_))));
}

#[tokio::test]
async fn searching_for_fn_main_across_this_repository_finds_the_binary() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let scratch = Scratch::over(tempfile::tempdir().unwrap(), root);
    let lines = Scratch::files(scratch.grep(json!({"pattern": "fn main"})).await);
    assert!(lines.iter().any(|line| line.starts_with("crates/cli/src/main.rs:")), "{lines:?}");
    let files = scratch.glob(json!({"pattern": "target/**"})).await.unwrap();
    assert!(files.starts_with("No files match."), "{files}");
}

#[tokio::test]
async fn searches_are_read_only_and_say_where() {
    let scratch = Scratch::new();
    let grep = Grep(Arc::clone(&scratch.access));
    assert!(Tool::effects(&grep, &json!({"pattern": "x"})).is_read_only());
    let subject = |args| Tool::permission_subject(&grep, &args);
    assert_eq!(subject(json!({"pattern": "x"})).as_deref(), Some("."));
    assert_eq!(subject(json!({"pattern": "x", "path": "a/../b"})).as_deref(), Some("b"));
}
