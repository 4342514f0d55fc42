//! anvil between other programs: what comes in by standard input, what goes out, who goes away.

mod support;

use std::io::{Read, Write};
use std::process::Stdio;
use std::time::Duration;

use serde_json::json;

use support::model::{Answer, Model};
use support::{Home, Running, run, run_with_input, survivors};

#[test]
fn a_diff_piped_in_reaches_the_model_behind_the_prompt() {
    let (home, model) = (Home::new(), Model::new([Answer::text("Looks good.")]));
    let script = "git init -q . && echo one > file && git add file && echo two > file \
                  && git diff | anvil -p 'review this'";
    let ran = run(&mut home.shell(script, &model));
    ran.assert_code(0);
    assert_eq!(ran.out, "Looks good.\n");
    let text = model.last_user_text();
    assert!(text.starts_with("review this\n\n<stdin>\ndiff --git a/file b/file\n"), "{text}");
    assert!(text.ends_with("-one\n+two\n</stdin>"), "{text}");
}

#[test]
fn piped_input_alone_is_the_prompt() {
    let (home, model) = (Home::new(), Model::new([Answer::text("ok")]));
    run_with_input(&mut home.anvil_with(&model), b"say ok\n").assert_code(0);
    assert_eq!(model.last_user_text(), "say ok\n");
}

#[test]
fn a_regular_file_as_input_is_read_whole() {
    let (home, model) = (Home::new(), Model::new([Answer::text("ok")]));
    home.write("input", "from a file");
    run(&mut home.shell("anvil -p x < input", &model)).assert_code(0);
    assert!(model.last_user_text().contains("from a file"));
}

#[test]
fn a_socket_as_input_is_read_to_its_end() {
    let (home, model) = (Home::new(), Model::new([Answer::text("ok")]));
    let (mut ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    let mut command = home.anvil_with(&model);
    command.args(["-p", "x"]).stdin(std::os::fd::OwnedFd::from(theirs));
    let running = Running::start(&mut command);
    drop(command);
    ours.write_all(b"through a socket").unwrap();
    drop(ours);
    running.finish().assert_code(0);
    assert!(model.last_user_text().contains("through a socket"));
}

#[test]
fn a_pipe_that_only_anvil_itself_could_write_to_is_given_up() {
    let (home, model) = (Home::new(), Model::new([Answer::text("ok")]));
    let ran = run(&mut home.shell("mkfifo fifo && anvil -p x 0<>fifo", &model));
    ran.assert_code(0);
    assert!(ran.err.contains("stayed silent"), "{ran:?}");
}

#[test]
fn no_stdin_leaves_the_pipe_alone() {
    let (home, model) = (Home::new(), Model::new([Answer::text("ok")]));
    let mut command = home.anvil_with(&model);
    command.args(["-p", "x", "--no-stdin"]).stdin(Stdio::piped());
    let mut running = Running::start(&mut command);
    let open = running.child.stdin.take();
    let ran = running.finish();
    ran.assert_code(0);
    assert!(ran.took < Duration::from_secs(3), "{ran:?}");
    assert_eq!(model.last_user_text(), "x");
    drop(open);
}

#[test]
fn an_idle_pipe_is_given_up_with_a_warning() {
    let (home, model) = (Home::new(), Model::new([Answer::text("ok")]));
    let mut command = home.anvil_with(&model);
    command.args(["-p", "x"]).stdin(Stdio::piped());
    let mut running = Running::start(&mut command);
    // This process holds the write end and is anvil's parent, like a CI runner.
    let open = running.child.stdin.take();
    let ran = running.finish();
    ran.assert_code(0);
    // Elsewhere nobody can tell who holds the pipe, and the wait is the longer one.
    let (least, most) = if cfg!(target_os = "linux") { (3, 8) } else { (10, 20) };
    let expected = Duration::from_secs(least)..Duration::from_secs(most);
    assert!(expected.contains(&ran.took), "{ran:?}");
    assert!(ran.err.contains("stayed silent"), "{ran:?}");
    assert_eq!(model.last_user_text(), "x");
    drop(open);
}

#[test]
fn an_idle_pipe_without_a_prompt_is_a_usage_error_and_no_hang() {
    let (home, model) = (Home::new(), Model::new([Answer::text("ok")]));
    let mut command = home.anvil_with(&model);
    command.stdin(Stdio::piped());
    let mut running = Running::start(&mut command);
    let open = running.child.stdin.take();
    running.finish().assert_code(64);
    assert!(model.requests().is_empty());
    drop(open);
}

#[test]
fn a_slow_pipeline_is_waited_for_and_told_of() {
    let (home, model) = (Home::new(), Model::new([Answer::text("ok")]));
    let ran = run(&mut home.shell("(sleep 4.5; echo late) | anvil -p explain", &model));
    ran.assert_code(0);
    assert!(
        cfg!(not(target_os = "linux"))
            || ran.err.contains("waiting for standard input from `sleep 4.5`")
            || ran.err.contains("waiting for standard input from `sh"),
        "{ran:?}"
    );
    assert!(model.last_user_text().contains("late"), "{}", model.last_user_text());
}

#[test]
fn input_that_is_not_utf8_is_an_error_that_names_the_byte() {
    let (home, model) = (Home::new(), Model::new([Answer::text("ok")]));
    let ran = run_with_input(home.anvil_with(&model).args(["-p", "x"]), b"caf\xe9 au lait");
    ran.assert_code(64);
    assert!(ran.err.contains("byte offset 3"), "{ran:?}");
    assert!(model.requests().is_empty(), "nothing was sent");
}

#[test]
fn input_over_the_limit_is_an_error_and_not_a_cut() {
    let (home, model) = (Home::new(), Model::new([Answer::text("ok")]));
    let input = vec![b'x'; 11 * 1024 * 1024];
    let ran = run_with_input(home.anvil_with(&model).args(["-p", "x"]), &input);
    ran.assert_code(64);
    assert!(ran.err.contains("10 MiB"), "{ran:?}");
}

#[test]
fn only_the_final_answer_is_on_standard_output() {
    let (home, model) = (
        Home::new(),
        Model::new([
            Answer::Calls(
                "Let me calculate.".into(),
                vec![("calculator", json!({"a": 2, "op": "add", "b": 2}))],
            ),
            Answer::text("It is 4."),
        ]),
    );
    let ran = run(home.anvil_with(&model).args(["-p", "x"]));
    ran.assert_code(0);
    assert_eq!(ran.out, "It is 4.\n");
    assert!(ran.err.contains("Let me calculate."), "{ran:?}");
    assert!(ran.err.contains("⏺ calculator(a=2, op=add, b=2)\n  ⎿ 4\n"), "{ran:?}");
    assert!(ran.err.contains("2 steps"), "{ran:?}");
}

#[test]
fn nothing_that_is_piped_carries_escape_sequences() {
    let (home, model) = (
        Home::new(),
        Model::new([
            Answer::Calls(
                "\x1b[31mred\x1b[0m".into(),
                vec![("calculator", json!({"a": 1, "op": "div", "b": 0}))],
            ),
            Answer::text("a\x1b]52;c;AAAA\x07\u{202e}b"),
        ]),
    );
    let ran = run(home.anvil_with(&model).args(["-p", "x"]).env("TERM", "xterm-256color"));
    ran.assert_code(0);
    assert!(!ran.out.contains('\x1b') && !ran.err.contains('\x1b'), "{ran:?}");
    assert_eq!(ran.out, "a\\u{1b}]52;c;AAAA\\u{7}\\u{202e}b\n");
}

#[test]
fn a_slow_reader_gets_every_line_and_the_end_last() {
    let text = "0123456789".repeat(40_000);
    let (home, model) = (Home::new(), Model::new([Answer::Text(text.clone())]));
    let mut command = home.anvil_with(&model);
    command.args(["-p", "x", "--output-format", "stream-json"]).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = Running::start_as_is(&mut command);
    let mut out = running.child.stdout.take().unwrap();
    // Slower than the model, in pieces smaller than a pipe holds.
    let (mut all, mut piece) = (Vec::new(), [0; 8192]);
    loop {
        let read = out.read(&mut piece).unwrap();
        if read == 0 {
            break;
        }
        all.extend_from_slice(&piece[..read]);
        std::thread::sleep(Duration::from_millis(5));
    }
    running.finish().assert_code(0);
    let lines: Vec<serde_json::Value> = all
        .split(|b| *b == b'\n')
        .filter(|l| !l.is_empty())
        .map(|l| serde_json::from_slice(l).unwrap())
        .collect();
    assert_eq!(lines.last().unwrap()["type"], "turn_finished");
    assert_eq!(lines.last().unwrap()["text"], text.as_str());
    let told: Vec<u64> = lines.iter().map(|line| line["seq"].as_u64().unwrap()).collect();
    assert_eq!(told, (0..lines.len() as u64).collect::<Vec<_>>());
    let deltas: String = lines
        .iter()
        .filter(|l| l["type"] == "text_delta")
        .map(|l| l["text"].as_str().unwrap())
        .collect();
    assert_eq!(deltas, text);
}

#[test]
fn the_stream_opens_with_the_session_and_names_it_on_every_line() {
    let (home, model) = (Home::new(), Model::new([Answer::text("ok")]));
    let ran = run(home.anvil_with(&model).args(["-p", "x", "--output-format", "stream-json"]));
    let lines = ran.assert_code(0).lines();
    assert_eq!(lines[0]["type"], "session_started");
    assert_eq!(lines[0]["schema_version"], 1);
    assert_eq!(lines[0]["cwd"], home.work().to_str().unwrap());
    assert!(lines[0]["tools"].as_array().unwrap().contains(&json!("bash")));
    let session = &lines[0]["session_id"];
    assert!(lines.iter().all(|line| &line["session_id"] == session && !session.is_null()));
    assert_eq!(lines.last().unwrap()["outcome"], "done");
    assert_eq!(ran.err, "");
}

#[test]
fn a_closed_standard_output_cancels_the_work_and_leaves_no_child() {
    for format in ["text", "json", "stream-json"] {
        let marker = survivors::marker();
        let (home, model) = (
            Home::new(),
            Model::new([Answer::bash(&format!("sleep {marker}")), Answer::text("x")]),
        );
        let mut command = home.anvil_with(&model);
        command.args(["-p", "x", "--yolo", "--output-format", format]);
        let (reader, writer) = std::io::pipe().unwrap();
        let mut running = Running::start_as_is(
            command.stdin(Stdio::null()).stdout(writer).stderr(Stdio::piped()),
        );
        drop(command);
        support::wait_until("the command runs", || !survivors::with(&marker).is_empty());
        drop(reader);
        let status = running.child.wait().unwrap();
        assert_eq!(status.code(), Some(141), "{format}");
        survivors::assert_none(&marker);
        running.finish().assert_no_panic();
    }
}

#[test]
fn a_reader_that_stops_early_causes_no_panic() {
    let (home, model) = (Home::new(), Model::new([Answer::Text("word ".repeat(50_000))]));
    let script =
        "anvil -p hi --output-format stream-json | head -c 1 >/dev/null; anvil -p hi | true";
    run(&mut home.shell(script, &model)).assert_no_panic();
}

#[test]
#[cfg_attr(not(target_os = "linux"), ignore = "needs /dev/full")]
fn a_full_device_as_standard_output_is_an_error_that_says_so() {
    for format in ["text", "json", "stream-json"] {
        let (home, model) = (Home::new(), Model::new([Answer::text("hi")]));
        let script = format!("anvil -p hi --output-format {format} > /dev/full");
        let ran = run(&mut home.shell(&script, &model));
        ran.assert_code(1).assert_no_panic();
        assert!(ran.err.contains("No space left"), "{ran:?}");
    }
}

#[test]
#[cfg_attr(not(target_os = "linux"), ignore = "needs /dev/full")]
fn a_closed_standard_error_disturbs_nothing() {
    let (home, model) = (
        Home::new(),
        Model::new([
            Answer::call("calculator", json!({"a": 2, "op": "add", "b": 2})),
            Answer::text("4"),
        ]),
    );
    let ran = run(&mut home.shell("anvil -p x 2>&-; anvil -p x 2>/dev/full", &model));
    ran.assert_code(0);
    assert_eq!(ran.out, "4\n4\n");
}

#[test]
fn a_data_folder_that_cannot_be_written_does_not_fail_the_run() {
    let (home, model) = (Home::new(), Model::new([Answer::text("ok")]));
    home.write("blocker", "");
    let mut command = home.anvil_with(&model);
    command.args(["-p", "x"]).env("ANVIL_HOME", home.work().join("blocker"));
    let ran = run(command.env("ANVIL_LOG", "debug"));
    ran.assert_code(0);
    assert_eq!(ran.out, "ok\n");
}

#[test]
fn without_a_home_people_are_told_and_programs_are_not() {
    for (format, told) in [("text", true), ("json", false), ("stream-json", false)] {
        let (home, model) = (Home::new(), Model::new([Answer::text("ok")]));
        let mut command = home.anvil_with(&model);
        command.env_remove("HOME").env_remove("ANVIL_HOME");
        let ran = run(command.args(["-p", "x", "--output-format", format]));
        ran.assert_code(0);
        assert_eq!(ran.err.contains("anvil: HOME is not set"), told, "{ran:?}");
        assert_eq!(ran.err.is_empty(), !told, "{ran:?}");
    }
}

#[test]
fn log_lines_go_to_the_file_and_nowhere_else() {
    let (home, model) = (Home::new(), Model::new([Answer::text("ok")]));
    let ran = run(home
        .anvil_with(&model)
        .args(["-p", "x", "--output-format", "json"])
        .env("ANVIL_LOG", "trace"));
    ran.assert_code(0);
    assert_eq!(ran.err, "");
    assert_eq!(ran.json()["text"], "ok");
    let log = std::fs::read_to_string(home.data().join("logs/anvil.log")).unwrap();
    assert!(!log.is_empty());
    assert!(!log.contains("sk-test-0123456789abcdef0123"), "the key is never logged");
}

#[test]
fn a_log_filter_that_is_none_is_a_configuration_error() {
    let (home, model) = (Home::new(), Model::new([Answer::text("ok")]));
    let ran = run(home.anvil_with(&model).args(["-p", "x"]).env("ANVIL_LOG", "a=b=c"));
    ran.assert_code(78);
    assert!(ran.err.contains("ANVIL_LOG"), "{ran:?}");
}

#[test]
fn a_full_disk_under_an_edit_is_told_to_the_model_and_leaves_the_file_as_it_was() {
    let before = "old line\n".repeat(400);
    let (home, model) = (
        Home::new(),
        Model::new([
            Answer::call("read_file", json!({"file_path": "file"})),
            Answer::call(
                "write_file",
                json!({"file_path": "file", "content": "x".repeat(200_000)}),
            ),
            Answer::text("The disk is full."),
        ]),
    );
    let disk = SmallDisk::new(&home);
    home.write("file", &before);
    let ran = run(&mut home.shell(
        &disk.wrap("anvil -p x --permission-mode accept-edits --output-format json"),
        &model,
    ));
    assert_eq!(ran.assert_code(0).json()["outcome"], "done", "the run goes on: {ran:?}");
    let (text, is_error) = model.last_results().remove(0);
    assert!(is_error && disk.is_the_reason(&text), "{text}");
    assert_eq!(home.read("file"), before);
    let left: Vec<_> =
        std::fs::read_dir(home.work()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["file"], "no half-written file stays behind");
}

/// A workspace into which little fits.
enum SmallDisk {
    /// A file system of its own, mounted over the workspace.
    Mounted(std::path::PathBuf),
    /// Where mounting is not allowed, a limit on the size of files, which fails the same write.
    Limited,
}

impl SmallDisk {
    fn new(home: &Home) -> Self {
        let work = home.work();
        let mounted = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=64k", "tmpfs"])
            .arg(&work)
            .output()
            .is_ok_and(|done| done.status.success());
        if mounted {
            return Self::Mounted(work);
        }
        // Past the test harness, which would swallow it.
        let note = b"NOTE: no small file system can be mounted here; a limit on the size of files plays the full disk\n";
        let told = std::io::stderr().write_all(note);
        told.expect("standard error takes a line");
        Self::Limited
    }

    fn wrap(&self, command: &str) -> String {
        match self {
            Self::Mounted(work) => format!("cd '{}' && {command}", work.display()),
            Self::Limited => format!("trap '' XFSZ; ulimit -f 64; {command}"),
        }
    }

    fn is_the_reason(&self, text: &str) -> bool {
        match self {
            Self::Mounted(_) => text.contains("No space left"),
            Self::Limited => text.contains("File too large"),
        }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        if let Self::Mounted(work) = self {
            let done = std::process::Command::new("umount").arg(&*work).status();
            let done = done.expect("what mount made umount can undo");
            assert!(done.success(), "{} stays mounted", work.display());
        }
    }
}
