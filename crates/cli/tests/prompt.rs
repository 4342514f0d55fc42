//! The system prompt: what is shown of it is what is sent, and who may replace its base.

mod support;

use std::fs;

use serde_json::Value;

use support::model::{Answer, Model};
use support::pty::{self, Pty, Setup};
use support::{Home, Ran, run};

const SHOW: &[&str] = &["config", "prompt"];

/// A repository with instructions on the way to the folder `a/b`, and a user with some of their own.
fn home() -> Home {
    let home = Home::new();
    fs::create_dir_all(home.work().join("a/b")).expect("the workspace can be written");
    fs::create_dir_all(home.work().join(".git")).expect("the workspace can be written");
    fs::create_dir_all(home.work().join(".anvil")).expect("the workspace can be written");
    fs::create_dir_all(home.config()).expect("the home can be written");
    home.write(".git/HEAD", "ref: refs/heads/topic\n");
    home.write("AGENTS.md", "Run {{ make }} test.\n");
    home.write("a/b/AGENTS.md", "This part is generated.\n");
    fs::write(home.config().join("AGENTS.md"), "Answer in German.\n").expect("as above");
    home
}

fn own(home: &Home, base: &str) {
    fs::write(home.config().join("SYSTEM.md"), base).expect("the home can be written");
}

fn show(home: &Home, words: &[&str]) -> Ran {
    run(home.anvil().args(SHOW).args(words))
}

fn ask(home: &Home, words: &[&str]) -> String {
    let model = Model::new([Answer::text("hello")]);
    run(home.anvil_with(&model).args(["-p", "x"]).args(words)).assert_code(0);
    sent(model.requests().last().expect("it was asked"))
}

/// The system text of a request.
fn sent(request: &Value) -> String {
    match &request["system"] {
        Value::String(text) => text.clone(),
        blocks => {
            assert_eq!(blocks.as_array().map(Vec::len), Some(1), "{blocks}");
            blocks[0]["text"].as_str().expect("a block has a text").to_owned()
        }
    }
}

#[test]
fn what_is_shown_is_byte_for_byte_what_is_sent() {
    let home = home();
    let folder = home.work().join("a/b");
    let options = ["-C", folder.to_str().unwrap(), "--append-system-prompt", "Be brief. "];
    let shown = show(&home, &options).assert_code(0).out.clone();
    assert_eq!(shown, ask(&home, &options));
    assert_eq!(shown, show(&home, &options).out);
    let order = [
        "You are anvil",
        "Instructions from /",
        "Answer in German.",
        "Instructions from AGENTS.md",
        "Run {{ make }} test.",
        "Instructions from a/b/AGENTS.md",
        "This part is generated.",
        "Workspace: /",
        "Git at the start: branch topic",
        "Be brief.\n",
    ];
    let places: Vec<usize> = order
        .iter()
        .map(|part| shown.find(part).unwrap_or_else(|| panic!("{part}: {shown}")))
        .collect();
    assert!(places.is_sorted(), "{places:?}: {shown}");
    assert!(shown.ends_with("\n\nBe brief.\n"), "{shown}");

    own(&home, "In {{ workspace }}:\n{% for tool in tools %}\n- {{ tool.name }}\n{% endfor %}\n");
    let shown = show(&home, &[]).assert_code(0).out.clone();
    assert!(shown.contains("\n- read_file\n"), "{shown}");
    assert_eq!(shown, ask(&home, &[]));
}

#[test]
fn a_base_that_is_no_template_keeps_anvil_from_starting_and_names_the_place() {
    let home = home();
    own(&home, "a\n\n{% nope %}\n");
    let model = Model::new([Answer::text("hello")]);
    for words in [&["-p", "x"][..], SHOW, &["config", "prompt", "--check"]] {
        let ran = run(home.anvil_with(&model).args(words));
        ran.assert_code(78);
        assert!(ran.err.contains("SYSTEM.md:3:4: "), "{ran:?}");
        assert!(ran.err.contains("3 | {% nope %}"), "{ran:?}");
        assert_eq!(ran.out, "");
    }
    assert_eq!(model.requests().len(), 0);
    home.write("base.md", "Be {{ a.b.c }}.\n");
    let ran = show(&home, &["--system-file", "base.md"]);
    assert!(ran.assert_code(78).err.contains("base.md:1:"), "{ran:?}");
}

#[test]
fn a_check_lists_the_names_that_nothing_fills_in() {
    let home = home();
    own(&home, "In {{ workspace }}\nand {{ worksapce }}\n");
    let ran = show(&home, &["--check"]);
    let told = &ran.assert_code(0).out;
    assert_eq!(told.lines().count(), 2, "{ran:?}");
    assert!(told.contains("SYSTEM.md:2:8: nothing is called 'worksapce'"), "{ran:?}");
    fs::remove_file(home.config().join("SYSTEM.md")).unwrap();
    assert_eq!(show(&home, &["--check"]).assert_code(0).out, "");
}

#[test]
fn the_doctor_tells_of_a_base_that_no_run_could_use() {
    let home = home();
    let state = |base: &str| {
        own(&home, base);
        let ran = run(home.anvil().args(["doctor", "--output-format", "json"]));
        let told = ran.json();
        let checks = told["checks"].as_array().expect("a list").iter();
        let checks: Vec<_> = checks.filter(|check| check["name"] == "prompt").collect();
        assert_eq!(checks.len(), 1, "{told}");
        let text = checks[0]["text"].as_str().expect("a text").to_owned();
        (checks[0]["state"].as_str().expect("a text").to_owned(), text)
    };
    assert_eq!(state("In {{ workspace }}\n").0, "ok");
    let (noted, text) = state("In {{ worksapce }}\n");
    assert!(noted == "note" && text.contains("'worksapce'"), "{noted} {text}");
    let (problem, text) = state("a\n\n{% nope %}\n");
    assert!(problem == "problem" && text.contains("SYSTEM.md:3:4: "), "{problem} {text}");
    run(home.anvil().arg("doctor")).assert_code(1);
}

#[test]
fn a_repositorys_base_counts_once_a_person_trusts_it_as_it_is() {
    let home = home();
    own(&home, "The user's base.\n");
    home.write(".anvil/SYSTEM.md", "The repository's base.\n");
    let base = |ran: &Ran| ran.assert_code(0).out.lines().next().unwrap_or_default().to_owned();
    let untrusted = show(&home, &[]);
    assert_eq!(base(&untrusted), "The user's base.");
    assert!(untrusted.err.contains(".anvil/SYSTEM.md is not used"), "{untrusted:?}");

    let asked = run(home.anvil().args(["trust", "show"]));
    assert!(asked.assert_code(0).out.contains("+ file .anvil/SYSTEM.md sha256:"), "{asked:?}");
    run(home.anvil().args(["trust", "grant", "--yes"])).assert_code(0);
    let trusted = show(&home, &[]);
    assert_eq!(base(&trusted), "The repository's base.");
    assert_eq!(trusted.err, "");
    assert_eq!(trusted.out, ask(&home, &[]));
    home.write("one.md", "For one run.\n");
    assert_eq!(base(&show(&home, &["--system-file", "one.md"])), "For one run.");

    home.write(".anvil/SYSTEM.md", "Something else.\n");
    let changed = show(&home, &[]);
    assert_eq!(base(&changed), "The user's base.");
    assert!(changed.err.contains(".anvil/SYSTEM.md is not used"), "{changed:?}");
}

#[test]
fn a_link_out_of_the_repository_is_no_base() {
    let home = home();
    fs::write(home.home().join("secret"), "SECRET\n").unwrap();
    let link = home.work().join(".anvil/SYSTEM.md");
    std::os::unix::fs::symlink(home.home().join("secret"), &link).unwrap();
    let ran = show(&home, &[]);
    assert!(ran.assert_code(0).err.contains(".anvil/SYSTEM.md"), "{ran:?}");
    assert!(!ran.out.contains("SECRET"), "{ran:?}");
}

#[test]
fn a_session_that_goes_on_begins_with_the_same_bytes_whatever_became_of_the_files() {
    let home = home();
    let first = ask(&home, &["--append-system-prompt", "Be brief."]);
    home.write("AGENTS.md", "Something else.\n");
    home.write(".git/HEAD", "ref: refs/heads/other\n");
    assert_eq!(ask(&home, &["--continue"]), first);
    assert!(ask(&home, &[]).contains("Something else."));
}

#[test]
fn a_recording_holds_nothing_that_another_day_or_branch_would_change() {
    let home = home();
    let model = Model::new([Answer::text("hello")]);
    let words = ["-p", "x", "--record", "tape.jsonl"];
    run(home.anvil_with(&model).args(words)).assert_code(0);
    let recorded = sent(&model.requests()[0]);
    assert!(recorded.contains("Workspace: /") && !recorded.contains("Date"), "{recorded}");
    home.write(".git/HEAD", "ref: refs/heads/other\n");
    let replayed = run(home.anvil().args(["-p", "x", "--replay", "tape.jsonl"]));
    assert_eq!(replayed.assert_code(0).out, "hello\n");
}

#[test]
fn a_session_that_goes_on_in_another_sandbox_tells_the_model_so() {
    let home = home();
    let first = ask(&home, &["--sandbox", "read-only"]);
    home.write("AGENTS.md", "Something else.\n");
    let second = ask(&home, &["--continue", "--sandbox", "external"]);
    assert!(first.contains("nothing but temporary files can be written"), "{first}");
    assert!(second.contains("confined by the surroundings"), "{second}");
    assert!(second.contains("Something else."), "{second}");
    home.write("AGENTS.md", "Something else again.\n");
    assert_eq!(ask(&home, &["--continue", "--sandbox", "external"]), second);
    let other = ask(&home, &["-c", "--sandbox", "external", "-m", "anthropic:another-model"]);
    assert!(other.contains("Something else again."), "{other}");
}

#[test]
fn a_session_goes_on_with_another_prompt_once_the_repository_is_trusted_or_no_longer() {
    let home = home();
    own(&home, "The user's base.\n");
    home.write(".anvil/SYSTEM.md", "The repository's base.\n");
    let go_on = |words: &[&str]| {
        let model = Model::new([Answer::text("hello")]);
        let ran = run(home.anvil_with(&model).args(["-p", "x", "--continue"]).args(words));
        ran.assert_code(0);
        let told: Vec<_> = ran.err.lines().filter(|line| line.starts_with("anvil: ")).collect();
        let text = sent(&model.requests()[0]);
        (text.lines().next().unwrap_or_default().to_owned(), told.join("\n"), text)
    };
    let trust = |word: &str| {
        let words =
            if word == "grant" { &["trust", "grant", "--yes"][..] } else { &["trust", "revoke"] };
        run(home.anvil().args(words)).assert_code(0);
    };
    let first = ask(&home, &[]);
    assert!(first.starts_with("The user's base."), "{first}");

    trust("grant");
    let (base, told, granted) = go_on(&[]);
    assert_eq!(base, "The repository's base.");
    let changed = "the session continues with another system prompt";
    assert_eq!(told, format!("anvil: .anvil/SYSTEM.md is trusted as it is now: {changed}"));
    home.write("AGENTS.md", "Something else.\n");
    assert_eq!(go_on(&[]), (base, String::new(), granted));

    trust("revoke");
    let (base, told, _) = go_on(&[]);
    assert_eq!(base, "The user's base.");
    assert!(told.contains("is no longer trusted: the session continues"), "{told}");
    // A base that was named for one run is not a matter of trust.
    home.write("one.md", "For one run.\n");
    let (base, told, _) = go_on(&["--system-file", "one.md"]);
    assert_eq!(base, "The user's base.");
    assert!(!told.contains("another system prompt"), "{told}");
}

#[test]
fn a_session_of_an_earlier_version_goes_on_with_its_bytes() {
    let home = home();
    let first = ask(&home, &[]);
    let strip = |home: &Home| {
        let mut files = Vec::new();
        for folder in fs::read_dir(home.data().join("sessions")).expect("sessions are kept") {
            files.extend(fs::read_dir(folder.expect("a folder").path()).expect("a folder"));
        }
        for file in files.into_iter().map(|file| file.expect("a file").path()) {
            let mut lines = Vec::new();
            for line in fs::read_to_string(&file).expect("a session is text").lines() {
                let mut record: Value = serde_json::from_str(line).expect("a record is JSON");
                let had = record.as_object_mut().expect("an object").remove("basis").is_some();
                assert_eq!(had, record["type"] == "system_stamped", "{line}");
                lines.push(format!("{record}\n"));
            }
            fs::write(&file, lines.concat()).expect("the home can be written");
        }
    };
    strip(&home);
    home.write("AGENTS.md", "Something else.\n");
    assert_eq!(ask(&home, &["--continue"]), first);
    let other = ask(&home, &["--continue", "--sandbox", "external"]);
    assert!(other.contains("confined by the surroundings"), "{other}");
}

#[test]
fn a_dialogue_that_is_forgotten_or_goes_to_another_model_begins_like_a_new_session() {
    for command in ["/clear", "/model anthropic:another-model"] {
        let home = home();
        let first = ask(&home, &[]);
        home.write("AGENTS.md", "Something else.\n");
        let model = Model::new([Answer::text("hello")]);
        let setup = Setup::default().with_args(&["--continue"]);
        let mut pty = Pty::start_with(&home, &model, setup);
        pty.expect_prompt();
        pty::ask(&mut pty, "one", "hello");
        pty.send(&format!("{command}\r"));
        pty.expect_prompt();
        pty::ask(&mut pty, "two", "hello");
        let requests = model.requests();
        assert_eq!(sent(&requests[0]), first, "{command}");
        let second = sent(&requests[1]);
        assert!(second.contains("Something else."), "{command}: {second}");
    }
}

#[test]
fn a_template_that_could_grow_without_end_keeps_anvil_from_starting() {
    let home = home();
    own(&home, "a\n{% set b = workspace ~ workspace %}\n");
    let ran = show(&home, &[]);
    assert!(ran.assert_code(78).err.contains("SYSTEM.md:2:22: '~'"), "{ran:?}");
}

#[test]
fn the_doctor_tells_what_a_prompt_tells_about_the_surroundings() {
    let home = home();
    let told = run(home.anvil().arg("doctor")).out;
    let shown = show(&home, &[]).out;
    for name in ["Workspace: ", "Platform: ", "Git at the start: ", "Commands: "] {
        let line = shown.lines().find(|line| line.starts_with(name)).expect("it is told");
        assert!(told.contains(line), "{line}: {told}");
    }
}
