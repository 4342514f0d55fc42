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
fn check_found(commands: &[&str], program: &str) {
    let misses = |command: &&&str| !programs_of(command).iter().any(|name| name == program);
    let missed: Vec<_> = commands.iter().filter(misses).map(|c| (c, programs_of(c))).collect();
    assert!(missed.is_empty(), "{program} in {missed:#?}");
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
    let commands = [
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
        "((rm x); a)",
        "echo $((rm x); (b))",
        "echo $(( (a) )); rm x",
        "coproc N { rm x; }",
        "for x do rm $x; done",
        "for ((i=0;i<3;i++)); do rm x; done",
        "for ((i=0;i<3;i++)) { rm x; }",
        "function f() { rm x; }",
        "f()\n{ rm x; }",
        "f() if a; then rm x; fi",
        "case $x in (a|b) c;; *) rm x;; esac",
        "echo $(case a in a) rm x;; esac)",
        "case a in\na) b ;&\nc) rm x\nesac",
        "case a in esac; rm x",
        "[[ x =~ (#) ]] && rm x",
        "[[ -n a && case == b ]] && rm x",
        "[[ ( a ) && b =~ (#) ]] && rm x",
        "a[ #]=1; rm x",
        "echo a[ ; rm x ]",
        "cat <<A <<'B'\na\nA\n$(b)\nB\nrm x",
        "cat <<-E\n\t\tE\nrm x",
        "cat <<'E' && rm x\nbody\nE",
        "echo $(cat <<E\n$(rm x)\nE\n)",
        "(( 1 << 2 ))\nrm x",
        "x=$((1<<2))\nrm x",
        "echo ${x:-}}; rm x",
        "echo \"${x:-\"$(rm x)\"}\"",
        "time -p rm x",
        "time -p -- rm x",
        "! ! rm x",
        "if ! rm x; then a; fi",
        "a &>/dev/null & rm x",
        "{ a; } 2>&1 | rm x",
        "while read l; do rm x; done < <(a)",
        "diff <(a) <(rm x)",
        "x=(a\n$(rm x)\n)",
        "declare -a x=($(rm x))",
        "echo \"\\\"\"; rm x",
        "echo `echo \\`rm x\\``",
        "select x in a; do rm x; done",
        "until a; do rm x; done",
        "a; b &\nrm x",
        "echo a\\;b; rm x",
        "2>&1 rm x",
        ">f rm x",
        "a >&-; rm x",
        "<&-rm x",
        "{fd}>f rm x",
        "A+=1 rm x",
        "r\\\nm x",
        "echo !(rm x)",
        "bash -c 'rm x'",
        "eval rm x",
        "env A=1 bash -lc 'rm x'",
        "a # c\nrm x",
        "a \\\n; rm x",
    ];
    check_found(&commands, "rm");
    let incomplete: Vec<_> = commands.iter().filter(|c| !Reading::of(c).is_complete()).collect();
    assert!(incomplete.is_empty(), "{incomplete:#?}");
}

/// Shells disagree about these, or change their mind about what a sign means.
#[test]
fn what_a_shell_reads_in_another_way_hides_no_command() {
    let commands = [
        "a |& time -o f rm x",
        "a |\n time -o f rm x",
        "coproc time -o f rm x",
        "sh -c 'a &>f rm x'",
        "sh -c '[[ a; if rm x; then b; fi; ]]'",
        "sh -c '[[ a && ! rm x ]]'",
        "[[ a == @(#) || -n $(rm x) ]]\n)",
        "[[ a == !(b|$(rm x)) ]]",
    ];
    check_found(&commands, "rm");
    for command in [
        "x=(a)#b; rm x",
        "cat <<E; x=(\n'\nE\n)\nrm x\n#'\n)\nE\n",
        "cat <<E; case x\nin '\nE\nin x) rm x;; esac #'\nE\n) esac",
        "coproc N ((#)); rm x\n))",
        "[[ a",
    ] {
        let reading = Reading::of(command);
        let is_seen = !reading.is_complete() || programs_of(command).contains(&"rm".to_owned());
        assert!(is_seen, "{command:?}");
    }
}

#[test]
fn wrappers_hide_no_command() {
    let commands = [
        "env rm x",
        "env -i A=1 B=2 rm x",
        "env - rm x",
        "env -u A rm x",
        "env --unset=A -C /x rm x",
        "env -S 'rm x'",
        "env --split-string='rm x'",
        "sudo rm x",
        "sudo -n -u root A=1 rm x",
        "sudo -uroot -- rm x",
        "sudo --user root rm x",
        "doas -u root rm x",
        "nohup rm x",
        "nice rm x",
        "nice -n 5 rm x",
        "nice -5 rm x",
        "nice --adjustment 5 rm x",
        "nice --adj 5 rm x",
        "ionice -c 3 rm x",
        "timeout 5 rm x",
        "timeout -k 1 -s KILL 5 rm x",
        "timeout --signal=9 5s rm x",
        "stdbuf -o0 rm x",
        "stdbuf -o 0 rm x",
        "setsid -w rm x",
        "xargs rm -rf < l",
        "xargs -n 1 -I{} rm {}",
        "xargs -0 -P4 rm",
        "xargs -d '\\n' rm",
        "watch rm x",
        "watch -n 5 'rm x'",
        "find . -exec rm -rf {} +",
        "find . -name a -execdir rm {} \\;",
        "find . -ok rm {} ';'",
        "find . -ex?c rm x",
        "parallel rm ::: x",
        "parallel -j 4 'rm {}' ::: x",
        "command rm x",
        "command -p rm x",
        "builtin exec rm x",
        "exec rm x",
        "exec -a n rm x",
        "chroot / rm x",
        "unshare -r rm x",
        "su -c 'rm x'",
        "su root -c 'rm x'",
        "time -p rm x",
        "time -p -- rm x",
        "\\time -o f rm x",
        "strace -f -o l rm x",
        "flock /l rm x",
        "flock -n /l -c 'rm x'",
        "flock -w 5 /l rm x",
        "taskset 1 rm x",
        "bash -c 'rm x'",
        "sh -ec \"rm x\"",
        "bash -o pipefail -c 'rm x'",
        "bash +x -c 'rm x'",
        "env A=1 bash -lc 'rm x'",
        "bash -c 'bash -c \"rm x\"'",
        "eval rm x",
        "eval 'rm x'",
        "eval -- 'r''m x'",
        "trap 'rm x' EXIT",
        "alias a='rm x'; a",
        "ssh localhost rm -rf x",
        "ssh -p 22 h 'rm x'",
        "busybox rm x",
        "/lib64/ld-linux-x86-64.so.2 /bin/rm x",
        "/proc/self/root/bin/rm x",
        "fd -x rm",
        "git -c alias.x='!rm x' x",
        "git rebase -x 'rm x' main",
        "git bisect run rm x",
        "git submodule foreach 'rm x'",
        "test -v 'a[$(rm x)]'",
        "[ -v 'a[`rm x`]' ]",
        "printf -v 'a[$(rm x)]' y",
        "read 'a[$(rm x)]'",
        "unset 'a[$(rm x)]'",
        "declare 'a[$(rm x)]=1'",
        "let 'a[$(rm x)]'",
        "mapfile -C 'rm x' a",
        "sudo env nice timeout 5 bash -c 'eval \"rm x\"'",
        "setpriv rm x",
        "systemd-run -p A=b --unit x rm x",
        "stdbuf --output=0 rm x",
        "script -c 'rm x' /dev/null",
        "sudo -Z val rm x",
        "a=-v; timeout $a 5 rm x",
        "setarch -R rm x",
        "setarch x86_64 rm x",
        "choom -n 0 -- rm x",
        "uclampset -m 1 rm x",
    ];
    check_found(&commands, "rm");
}

#[test]
fn a_wrapper_makes_no_command_of_data() {
    for command in [
        "command -v rm",
        "xargs grep rm",
        "timeout 5 echo rm",
        "env A=rm ls",
        "find . -name rm",
        "nice -n 5 ls rm",
    ] {
        let found = programs_of(command);
        assert!(!found.iter().any(|name| name == "rm"), "{command:?}: {found:?}");
    }
}

#[test]
fn what_a_variable_may_hold_or_an_input_say_is_not_overlooked() {
    for command in [
        "x='a[$(rm y)]'; echo $((x))",
        "x='$(rm y)'; echo ${x@P}",
        "x='a[`rm y`]'; [[ -v x ]]; (( x ))",
        "echo cm0= | bash",
        "exec 3<<< 'rm x'; . /dev/fd/3",
        "source <(echo rm x)",
        "bash /proc/self/fd/0 <<< 'rm x'",
        "a=--norc; bash $a -c 'rm x'",
        "hash -p /bin/rm zz; zz x",
        "PS4='$(rm x)'; set -x; a",
        "BASH_ENV=/dev/stdin bash -c a <<< 'rm x'",
        "git -c \"alias.x=!rm $y\" x",
        "bash <<< 'rm x'",
        "bash -s < f",
        "eval \"$x\"",
        "bash -c \"$x\"",
        "$x y",
        "env $x",
    ] {
        assert!(!Reading::of(command).is_complete(), "{command:?}");
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

#[test]
fn patterns_are_read_as_arguments_of_programs_that_only_read_whatever_they_name() {
    for line in ["ls *.rs", "cd src && cat a/*.rs 2>/dev/null | wc -l", "grep -n '*' ?.c"] {
        let reading = Reading::of(line);
        assert!(reading.strict().is_err(), "{line}: no rule may build on it");
        assert!(reading.reading_patterns().is_some(), "{line}");
    }
    let others = [
        "sort *",
        "test -v *",
        "rg x *",
        "git diff *",
        "cd *",
        "l* -l",
        "A=* ls",
        "cat < *",
        "ls > *",
        "ls *; sort *",
        "ls * $x",
        "ls {*,a}",
        "ls ?(a)",
        "ls [ab]*",
        "ls *(/)",
        "ls * `x`",
        "rm *",
    ];
    for line in others {
        assert!(Reading::of(line).reading_patterns().is_none(), "{line}");
    }
    let commands = Reading::of("head -3 *.md").reading_patterns().map(<[Simple]>::to_vec);
    assert_eq!(commands.unwrap()[0].argv, ["head", "-3", "*.md"]);
}

#[test]
fn no_nesting_is_too_deep_and_no_line_too_long_to_be_told_about() {
    let nests = [
        ("(", ")"),
        ("{ ", "; }"),
        ("$(", ")"),
        ("\"$(", ")\""),
        ("${x:-", "}"),
        ("\"${x:-", "}\""),
        ("`", "`"),
        ("((", "))"),
        ("$((", "))"),
        ("$[", "]"),
        ("<(", ")"),
        ("x=(", ")"),
        ("a[", "]=1"),
        ("[[ ( ", " ) ]]"),
        ("if a; then ", "; fi"),
        ("case a in a) ", ";; esac"),
        ("f() { ", "; }"),
        ("! ", ""),
        ("coproc ", ""),
        ("eval ", ""),
        ("sudo ", ""),
        ("xargs sudo -x ", ""),
        ("a.=", ""),
        ("<<E ", ""),
        ("'", ""),
        ("\"", ""),
        ("\\", ""),
        ("a|", "b"),
        ("2>&1<", "x"),
        ("$((<(", ""),
        ("((=~[[ ", ""),
        ("bash -c '", "'"),
        ("$x", ""),
        ("{a,", "}"),
        ("[", "]"),
        ("\n", ""),
        ("#", ""),
        ("a;", ""),
    ];
    for (open, close) in nests {
        let line = format!("{}a{}; rm x", open.repeat(100_000), close.repeat(100_000));
        let reading = Reading::of(&line);
        let seen = reading.commands().iter().any(|found| found.program() == Some("rm"));
        // A comment, a name cut in two or a quote that stays open make it no command.
        let text = ["#", "'", "\"", "\\", "$x", "sudo ", "xargs sudo -x ", "eval ", "coproc "]
            .contains(&open);
        assert!(seen || text || !reading.is_complete(), "{open:?}");
        assert!(reading.mentions("rm"), "{open:?}");
    }
}

const PARTS: &[&str] = &[
    "a",
    "b",
    "rm",
    "x1",
    " ",
    "  ",
    "\t",
    "\n",
    "\\\n",
    ";",
    "&&",
    "||",
    "|",
    ">",
    ">>",
    "<",
    "2>&1",
    "2>/dev/null ",
    "&>",
    "'",
    "\"",
    "\\",
    "''",
    "'a b'",
    "\"a b\"",
    "$",
    "`",
    "*",
    "[",
    "]",
    "{",
    "}",
    "{}",
    "(",
    ")",
    "~",
    "!",
    "=",
    "#",
    ",",
    "..",
    "A=1 ",
    "CI=1 ",
    "if ",
    "then ",
    "time ",
    "case ",
    "-x",
    "$(",
    "${",
    "ä",
    "@{1}",
    "x$",
];

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(2000))]

    /// The strict reading spares the wide one only because they agree.
    #[test]
    fn the_wide_reading_finds_whatever_the_strict_one_tells(
        picks in proptest::collection::vec(0..PARTS.len(), 1..14),
    ) {
        let line: String = picks.into_iter().map(|at| PARTS[at]).collect();
        if let Ok(simples) = strict::read(&line) {
            let (found, complete) = walk::everywhere(&line);
            proptest::prop_assert!(complete, "{:?}", line);
            for simple in &simples {
                let words: Vec<Word> = simple.argv.iter().cloned().map(Word::Literal).collect();
                proptest::prop_assert!(found.iter().any(|f| f.words == words), "{:?}: {:?}", line, found);
            }
        }
    }

    #[test]
    fn no_text_makes_a_reading_fail(line in ".{0,60}", picks in proptest::collection::vec(0..PARTS.len(), 0..60)) {
        let parts: String = picks.into_iter().map(|at| PARTS[at]).collect();
        for line in [&line, &parts] {
            let reading = Reading::of(line);
            proptest::prop_assert!(reading.strict().is_err() || !reading.commands().is_empty());
        }
    }
}
