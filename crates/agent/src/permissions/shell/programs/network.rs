//! Which calls are of no use without the network.

use crate::permissions::shell::base_name;

/// The call is of no use without the network.
///
/// Wrappers are looked through one level: `timeout 60 cargo install x` is one.
pub fn network(argv: &[String]) -> bool {
    let words: Vec<&str> = argv.iter().map(String::as_str).collect();
    needs(&words)
}

fn needs(words: &[&str]) -> bool {
    let Some((program, rest)) = words.split_first() else { return false };
    let name = base_name(program);
    if super::is_wrapper(name) {
        return (0..rest.len()).any(|at| needs(&rest[at..]));
    }
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    if ALWAYS.contains(&name) {
        return true;
    }
    let sub = rest.iter().find(|word| !word.starts_with(['-', '+'])).copied().unwrap_or_default();
    let rest_says = |word: &str| rest.contains(&word);
    match stem {
        "git" => git(rest),
        "python" | "pypy" => rest_says("-m") && rest_says("pip"),
        "pip" => ["install", "download", "index", "search", "wheel"].contains(&sub),
        "uv" => ["add", "sync", "lock", "tool", "python"].contains(&sub) || rest_says("install"),
        "go" => {
            ["get", "install"].contains(&sub)
                || (sub == "mod" && (rest_says("download") || rest_says("tidy")))
        }
        _ => SUBCOMMANDS.iter().any(|(names, subs)| names.contains(&name) && subs.contains(&sub)),
    }
}

const ALWAYS: &[&str] = &[
    "aria2c",
    "curl",
    "dig",
    "ftp",
    "gh",
    "glab",
    "host",
    "http",
    "https",
    "httpie",
    "lftp",
    "mosh",
    "mtr",
    "nc",
    "ncat",
    "netcat",
    "nmap",
    "npx",
    "nslookup",
    "ping",
    "ping6",
    "pnpx",
    "bunx",
    "rsync",
    "scp",
    "sftp",
    "ssh",
    "ssh-copy-id",
    "telnet",
    "tracepath",
    "traceroute",
    "uvx",
    "wget",
    "whois",
    "xh",
];

const SUBCOMMANDS: &[(&[&str], &[&str])] = &[
    (
        &["cargo"],
        &[
            "add", "audit", "fetch", "install", "login", "owner", "publish", "search", "update",
            "vendor", "yank",
        ],
    ),
    (
        &["npm", "pnpm", "yarn", "bun"],
        &[
            "add", "audit", "ci", "create", "dlx", "exec", "i", "info", "init", "install", "login",
            "outdated", "publish", "search", "update", "up", "upgrade", "view", "x",
        ],
    ),
    (
        &["pipx", "poetry", "pdm", "conda", "mamba"],
        &["add", "create", "install", "lock", "publish", "run", "search", "update", "upgrade"],
    ),
    (
        &["apt", "apt-get", "aptitude", "dnf", "yum", "zypper", "apk", "brew", "port"],
        &[
            "add",
            "dist-upgrade",
            "download",
            "fetch",
            "full-upgrade",
            "install",
            "search",
            "source",
            "update",
            "upgrade",
        ],
    ),
    (&["docker", "podman"], &["build", "login", "pull", "push", "search"]),
    (
        &["gem", "bundle", "composer"],
        &["fetch", "install", "outdated", "push", "require", "search", "update"],
    ),
    (&["rustup"], &["check", "component", "install", "self", "target", "toolchain", "update"]),
    (&["helm", "terraform", "tofu"], &["init", "install", "pull", "push", "repo", "upgrade"]),
    (&["mvn", "gradle"], &["deploy", "publish"]),
];

fn git(words: &[&str]) -> bool {
    let mut rest = words;
    // Options before the sub-command; some take their value as the next word.
    while let [option, after @ ..] = rest {
        match *option {
            "-c" | "-C" | "--git-dir" | "--work-tree" | "--namespace" => {
                rest = after.get(1..).unwrap_or(&[])
            }
            option if option.starts_with('-') => rest = after,
            _ => break,
        }
    }
    match rest {
        ["push" | "fetch" | "pull" | "clone" | "ls-remote", ..] => true,
        ["remote", sub, ..] => ["update", "show", "prune"].contains(sub),
        ["submodule", sub, ..] => ["update", "add", "sync"].contains(sub),
        ["lfs", sub, ..] => ["fetch", "pull", "push", "clone"].contains(sub),
        _ => false,
    }
}
