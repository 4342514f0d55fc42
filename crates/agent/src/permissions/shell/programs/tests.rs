//! Rows of calls and what the tables say of them.

use super::*;
use crate::permissions::shell::Reading;

fn argv(command: &str) -> Vec<String> {
    let reading = Reading::of(command);
    let simples = reading.strict().unwrap_or_else(|unknown| panic!("{command:?}: {unknown:?}"));
    assert_eq!(simples.len(), 1, "{command:?}");
    simples[0].argv.clone()
}

#[track_caller]
fn check_covered(command: &str) {
    assert_eq!(covers(&argv(command)), Ok(()), "{command:?}");
}

#[track_caller]
fn check_refused(command: &str) {
    assert!(covers(&argv(command)).is_err(), "{command:?}");
}

#[test]
fn a_rule_covers_what_its_program_is_for() {
    for command in [
        "cargo test --lib -- --nocapture",
        "git log -p -3",
        "rg --files -g '*.rs'",
        "find . -name '*.rs' -type f",
        "git diff -- 'src/*.rs'",
        "grep -e '-exec' notes.txt",
        "git diff HEAD~1 --stat",
        "sed -n 1,5p f",
        "sed s/a/b/ f",
        "awk '{print $1}' f",
        "sort -rk2 f",
        "uniq -c f",
        "tree -L 2",
        "man ls",
        "tar -xzf a.tgz",
        "tar xzf a.tgz",
        "curl -s http://x",
        "date +%F",
        "hostname",
        "hostname -f",
        "npm test",
        "make test",
        "make -j4",
        "git branch -a",
        "git branch --list x",
        "git tag -l 'v*'",
        "git tag",
        "git remote -v",
        "git grep pat",
        "git stash list",
        "git status",
        "test -f x",
        "printf %s x",
        "git config --get user.name",
        "git show --format=%H",
        "git commit -m --output",
        "git log -- --output",
        "rg -e --pre x",
        "git remote show origin",
    ] {
        check_covered(command);
    }
}

#[test]
fn a_rule_does_not_cover_what_an_option_adds() {
    for command in [
        "find . -exec touch p \\;",
        "find . -execdir x {} +",
        "find . -okdir x {} \\;",
        "find . -fprintf p x",
        "find . -fls p",
        "find . '-delete'",
        "find . -ex\\ec x",
        "find . -printf -name -delete",
        "find . -fstype -name -fprint p",
        "tree -C -o p",
        "tree -Po x p",
        "date 01010000",
        "sed ':a;e touch p' f",
        "sed 't;w p' f",
        "make test -j -f p",
        "make -l -f p",
        "npm test -g --script-shell ./x",
        "go build -ldflags=-extld=./x",
        "curl http://y --data-urlencode x@f",
        "curl http://y -H @f",
        "curl http://y -b f",
        "curl http://y http://z",
        "curl http://y -x http://z",
        "wget -i f",
        "fd -x rm",
        "fd --exec rm",
        "fd -xrm",
        "rg --pre ./x pat",
        "rg --pre=./x pat",
        "rg --hostname-bin ./x pat",
        "rg -z pat",
        "rg -nz pat",
        "rg --search-zip pat",
        "sed 's/a/b/e' f",
        "sed -n 'w p' f",
        "sed 's/a/b/w p' f",
        "sed -f script f",
        "sed --in-place=.b s/a/b/ f",
        "sed -i s/a/b/ f",
        "sed -ni s/a/b/ f",
        "sed --in s/a/b/ f",
        "sed -e p -e 'w x' f",
        "sort -o p f",
        "sort -ro p f",
        "sort --out=p f",
        "sort --compress-program=./x f",
        "uniq in out",
        "tree -o p",
        "man -P ./x ls",
        "man -P./x ls",
        "man --pager=./x ls",
        "tar --to-command=./x -xf a.tar",
        "tar --checkpoint-action=exec=x -cf a b",
        "tar -I x -xf a",
        "tar --to-com ./x -xf a.tar",
        "awk 'BEGIN{system(\"touch p\")}'",
        "awk 'BEGIN{print 1 > \"p\"}'",
        "awk -f x f",
        "vim -c ':!touch p' -c q",
        "date -s 2020-01-01",
        "date --set=x",
        "hostname evil",
        "curl -o x http://y",
        "curl -sO http://y",
        "curl -so x http://y",
        "curl --out x http://y",
        "wget -O x http://y",
        "cargo test --config target.x.runner='./x'",
        "cargo --config x=1 test",
        "npm test --script-shell ./x",
        "npm --script-shell=./x test",
        "make SHELL=./x test",
        "make -f x",
        "make --eval=x",
        "env rm x",
        "sudo ls",
        "xargs rm",
        "timeout 5 ls",
        "eval ls",
        "source x",
        ". ./x",
        "export A=b",
        "test -v 'a[$(x)]'",
        "[ -v a ]",
        "printf -v a x",
        "let a=1",
        "read a",
        "trap x EXIT",
        "alias a=b",
        "unset a",
        "command ls",
    ] {
        check_refused(command);
    }
}

#[test]
fn git_lists_and_does_not_change_run_or_write() {
    for command in [
        "git log --output=p",
        "git diff --output p HEAD",
        "git diff --outp=p",
        "git diff --ext-diff",
        "git log --ext-diff -p",
        "git grep -O'touch p' pat",
        "git grep --open-files-in-pager=x pat",
        "git grep --ext-grep pat",
        "git branch -D release",
        "git branch -f main HEAD~3",
        "git branch -m main x",
        "git branch x",
        "git branch --delete x",
        "git tag v9",
        "git tag -d v1",
        "git tag -a v1 -m x",
        "git remote add e http://127.0.0.1:9/",
        "git remote set-url a b",
        "git -p status",
        "git -c core.pager='touch p' log",
        "git -c alias.x='!touch p' x",
        "git --config-env=core.pager=E log",
        "git --exec-path=/tmp/x status",
        "git --git-dir=/tmp/x/.git log",
        "git -C /x status",
        "git config core.hooksPath /dev/null",
        "git config --unset x",
        "git config -f x --get y",
        "git config user.name x",
        "git bisect run x",
        "git rebase -x y main",
        "git rebase --exec=y main",
        "git submodule foreach x",
        "git difftool",
        "git clone --upload-pack=x y",
        "git fetch --upload-pack x y",
        "git reflog expire --all",
        "git diff --no-index a /etc/passwd",
        "git clone -c core.x=y z --config a=b",
        "git clone -c core.x=y z",
        "git clone -u ./x y",
        "git diff-tree -m --output=p HEAD",
        "git stash show -c --output=p",
        "git grep --op=./x pat",
        "git cat-file --filters HEAD:f",
        "git log --show-signature",
        "git branch -v x",
        "git tag -v x",
        "git archive -o p HEAD",
        "git format-patch -o p HEAD",
    ] {
        check_refused(command);
    }
}

#[test]
fn reading_is_told_from_everything_else() {
    for command in [
        "cat x",
        "ls -la",
        "grep -rn x src",
        "git status",
        "git log --oneline -5",
        "git branch",
        "head -3 x",
        "wc -l x",
        "find . -name x",
        "sed -n 1,3p x",
        "cd crates",
        "command -v cargo",
        "cargo --version",
        "git stash list",
        "git remote -v",
        "ps aux",
        "ps -ef",
        "date +%s",
    ] {
        assert!(is_read_only(&argv(command)), "{command:?}");
    }
    for command in [
        "rm x",
        "./cat x",
        "/tmp/ls",
        "git commit",
        "git branch x",
        "git push",
        "find . -delete",
        "sed -i s/a/b/ x",
        "sort -o x y",
        "tail -f x",
        "tee x",
        "cargo test",
        "env",
        "git config a.b c",
        "xargs ls",
        "git -c a=b log",
        "git stash",
        "awk 1 x",
        "command ls",
        "npm test",
        "ps eww",
        "ps auxe",
        "ps -E",
        "git remote show origin",
        "git log '--format=%G?'",
        "git for-each-ref '--format=%(signature)'",
        "find . -printf -name -delete",
    ] {
        assert!(!is_read_only(&argv(command)), "{command:?}");
    }
}

#[test]
fn interpreters_are_known_by_any_version_and_path() {
    for name in [
        "bash",
        "/bin/sh",
        "python",
        "python3",
        "python3.11",
        "perl5.36",
        "node",
        "env",
        "sudo",
        "xargs",
        "git",
        "npx",
    ] {
        assert!(is_interpreter(name), "{name}");
    }
    for name in ["cargo", "ls", "find", "grep", "make", "npm", "gitk", "x3"] {
        assert!(!is_interpreter(name), "{name}");
    }
}

#[test]
fn what_needs_the_network_is_known() {
    for command in [
        "curl http://x",
        "git push",
        "git -C x fetch",
        "git -c a=b clone u",
        "cargo install x",
        "cargo +nightly install x",
        "npm ci",
        "pip install x",
        "pip3 install x",
        "python3 -m pip install x",
        "ssh h",
        "timeout 60 cargo install x",
        "sudo apt-get -y install x",
        "go get x",
        "git submodule update --init",
        "/usr/bin/curl x",
    ] {
        assert!(network(&argv(command)), "{command:?}");
    }
    for command in [
        "cargo test",
        "git commit -m push",
        "git log",
        "npm test",
        "pip list",
        "ls curl",
        "git remote -v",
        "go build",
    ] {
        assert!(!network(&argv(command)), "{command:?}");
    }
}
