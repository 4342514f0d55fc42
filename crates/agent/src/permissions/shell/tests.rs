//! What the two readings make of lines.

use super::*;

fn argvs(command: &str) -> Vec<Vec<String>> {
    let reading = Reading::of(command);
    let simples = reading.strict().unwrap_or_else(|unknown| panic!("{command:?}: {unknown:?}"));
    simples.iter().map(|simple| simple.argv.clone()).collect()
}

#[track_caller]
fn check(command: &str, want: &[&[&str]]) {
    assert_eq!(argvs(command), want, "{command:?}");
}

#[track_caller]
fn check_unknown(command: &str) {
    assert!(Reading::of(command).strict().is_err(), "{command:?}");
}

/// The programs found, in no order that means something.
fn programs_of(command: &str) -> Vec<String> {
    let reading = Reading::of(command);
    reading.commands().iter().filter_map(|found| found.program().map(str::to_owned)).collect()
}

#[track_caller]
fn check_found(command: &str, program: &str) {
    let found = programs_of(command);
    assert!(found.iter().any(|name| name == program), "{program} in {command:?}: {found:?}");
}

#[test]
fn words_are_what_bash_makes_of_quotes() {
    check("cargo test --lib", &[&["cargo", "test", "--lib"]]);
    check("echo \"a > b\" 'it''s $(fine)'", &[&["echo", "a > b", "its $(fine)"]]);
    check("echo \"\\\"; touch p; echo \\\"\"", &[&["echo", "\"; touch p; echo \""]]);
    check("r\\m 'x'\"y\"z \"\"", &[&["rm", "xyz", ""]]);
    check("cargo test \\\n  --lib", &[&["cargo", "test", "--lib"]]);
    check("git show HEAD~3 HEAD@{1} {}", &[&["git", "show", "HEAD~3", "HEAD@{1}", "{}"]]);
    check("grep \"x$\" a#b", &[&["grep", "x$", "a#b"]]);
    check("[ -f x ]", &[&["[", "-f", "x", "]"]]);
}

#[test]
fn lists_and_pipes_are_taken_apart() {
    check("a; b && c || d | e\nf\n", &[&["a"], &["b"], &["c"], &["d"], &["e"], &["f"]]);
    check("cat src/main.rs # cargo test", &[&["cat", "src/main.rs"]]);
    check("a && # why\n b", &[&["a"], &["b"]]);
    check("echo '\\'; touch p; echo '\\'", &[&["echo", "\\"], &["touch", "p"], &["echo", "\\"]]);
}

#[test]
fn what_is_not_fully_understood_is_unknown() {
    for command in [
        "",
        "   ",
        "# only a comment",
        "&& a",
        "a |",
        "a &&",
        "a ;; b",
        "; a",
        "a &",
        "a |& b",
        "echo $x",
        "echo \"$x\"",
        "echo `x`",
        "echo \"`x`\"",
        "echo 'open",
        "echo \"open",
        "echo $(ls",
        "ls *",
        "ls a?",
        "ls [a]b",
        "echo {a,b}",
        "echo {1..3}",
        "ls ~",
        "make x=~/y",
        "(a)",
        "a()",
        "{ a; }",
        "if a; then b; fi",
        "! a",
        "time a",
        "a\r\nb",
        "git\u{200b} status",
        "git\u{a0}status",
        "a \u{1b}[2K",
        "LD_PRELOAD=x a",
        "A[1]=x a",
        "'A'=x a",
        "X=1",
        "a <<EOF\nx\nEOF",
        "a <<<x",
        "a <>x",
        "a 3>x",
        "a >&x",
        "exec 3<>/dev/tcp/127.0.0.1/9",
        "cat </dev/tcp/127.0.0.1/9",
        "> x",
        "a {fd}>x",
        "-x a",
        "\"\" a",
        "a \\",
        "a >",
        "a > ",
        "a > ; b",
        "a >#x",
        "coproc a",
        "[[ a ]]",
        "echo $'x'",
    ] {
        check_unknown(command);
    }
}

#[test]
fn redirections_say_what_they_touch() {
    let reading = Reading::of("a 2>&1 >out 2>>log <in &>both >|x >/dev/null");
    let redirects = &reading.strict().unwrap()[0].redirects;
    let told: Vec<_> = redirects
        .iter()
        .map(|r| (r.fd, r.both, r.kind, r.target.as_str(), r.is_harmless()))
        .collect();
    use RedirectKind::{Append, Duplicate, Read, Write};
    assert_eq!(
        told,
        [
            (2, false, Duplicate, "1", true),
            (1, false, Write, "out", false),
            (2, false, Append, "log", false),
            (0, false, Read, "in", false),
            (1, true, Write, "both", false),
            (1, false, Write, "x", false),
            (1, false, Write, "/dev/null", true),
        ]
    );
    assert_eq!(argvs("echo a2>f")[0], ["echo", "a2"]);
}

#[test]
fn a_command_is_found_wherever_it_hides() {
    for command in [
        "rm x",
        "a; rm x",
        "a && rm x",
        "a | rm x",
        "a & rm x",
        "a |& rm x",
        "(rm x)",
        "{ rm x; }",
        "! rm x",
        "time rm x",
        "coproc rm x",
        "if a; then rm x; fi",
        "while rm x; do b; done",
        "for f in a; do rm $f; done",
        "case a in a) rm x;; esac",
        "f() { rm x; }",
        "function f { rm x; }",
        "echo $(rm x)",
        "echo \"$(rm x)\"",
        "echo `rm x`",
        "echo \"a `rm x` b\"",
        "cat <(rm x)",
        "cat >(rm x)",
        "echo ${x:-$(rm x)}",
        "echo \"${x:-`rm x`}\"",
        "x=$(rm x)",
        "x=(a $(rm x))",
        "a[$(rm x)]=1",
        "echo $(( $(rm x) ))",
        "(( a[$(rm x)] ))",
        "cat <<EOF\n$(rm x)\nEOF",
        "cat <<<$(rm x)",
        "[[ -f $(rm x) ]]",
        "echo ${a[$(rm x)]}",
        "a >$(rm x)",
        "cargo test\r\nrm -rf x",
        "a\rrm x",
        "c\"\"d; 'rm' x",
        "/bin/rm x",
        "r\\m x",
        "$'rm' x",
        "$'\\x72m' x",
        "A=1 rm x",
        "( (rm x) )",
        "bash -c 'rm x'",
        "eval rm x",
        "env A=1 bash -lc 'rm x'",
        "a # c\nrm x",
        "a \\\n; rm x",
    ] {
        check_found(command, "rm");
        assert!(Reading::of(command).is_complete(), "{command:?}");
    }
}

#[test]
fn text_is_no_command() {
    for command in
        ["echo rm x", "echo 'rm x'", "echo '$(rm x)'", "# rm x", "cat <<'EOF'\n$(rm x)\nEOF"]
    {
        let found = programs_of(command);
        assert!(!found.iter().any(|name| name == "rm"), "{command:?}: {found:?}");
    }
}

#[test]
fn what_cannot_be_looked_into_is_incomplete() {
    for command in ["echo 'open", "echo $(rm", "$X -rf x", "/bin/r? x", "{rm,-rf,x}"] {
        assert!(!Reading::of(command).is_complete(), "{command:?}");
    }
    assert!(Reading::of("'r'\\m $(").mentions("rm"));
    assert!(!Reading::of("echo $(").mentions("rm"));
}

#[test]
fn a_split_line_reads_back_the_same() {
    assert_eq!(split_shell("echo 'a b' | cat").unwrap(), ["echo 'a b'", "cat"]);
    assert_eq!(split_shell("echo it\\'s").unwrap(), ["echo 'it'\\''s'"]);
    let error = split_shell("a; $x").unwrap_err();
    assert_eq!((error.at, error.what), (3, "a character that the shell may expand"));
}
