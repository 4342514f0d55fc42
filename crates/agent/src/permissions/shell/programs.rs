//! What is known about programs: which options make one do more than its name says.

use super::base_name;

/// An allow rule for the program covers this call of it.
///
/// # Errors
///
/// What an option makes the program do beyond what a rule for its name means: run another program,
/// write a file that is not its business, change settings.
pub fn covers(argv: &[String]) -> Result<(), &'static str> {
    let Some((program, arguments)) = argv.split_first() else { return Err("there is no program") };
    let program = base_name(program);
    if is_interpreter(program) {
        return Err("runs whatever its arguments say");
    }
    let any = |bad: &[&str]| arguments.iter().any(|word| bad.contains(&word.as_str()));
    match program {
        "find" if any(&["-exec", "-execdir", "-ok", "-okdir", "-delete", "-fls", "-fprint"]) => {
            Err("runs programs or changes files")
        }
        _ => Ok(()),
    }
}

/// The call only reads, by what is known of the program and its options.
pub fn is_read_only(argv: &[String]) -> bool {
    let Some(program) = argv.first() else { return false };
    let known = ["cat", "echo", "head", "ls", "pwd", "tail", "true", "wc", "which"];
    known.contains(&program.as_str()) && covers(argv).is_ok()
}

/// The program runs whatever its arguments or its input say, so that a rule for its name, or for a
/// prefix of its arguments, would allow everything.
pub fn is_interpreter(program: &str) -> bool {
    let name = base_name(program);
    const NAMES: &[&str] = &[
        "awk",
        "bash",
        "bun",
        "bunx",
        "builtin",
        "chroot",
        "command",
        "dash",
        "deno",
        "doas",
        "env",
        "eval",
        "exec",
        "fish",
        "flock",
        "git",
        "ionice",
        "ksh",
        "lua",
        "nice",
        "node",
        "nohup",
        "npx",
        "osascript",
        "parallel",
        "perl",
        "php",
        "pnpx",
        "python",
        "ruby",
        "setsid",
        "sh",
        "source",
        "stdbuf",
        "su",
        "sudo",
        "tclsh",
        "time",
        "timeout",
        "trap",
        "unshare",
        "uvx",
        "watch",
        "xargs",
        "zsh",
        ".",
    ];
    let version = |c: char| c.is_ascii_digit() || c == '.';
    let stem = name.trim_end_matches(version);
    NAMES.contains(&name) || (!stem.is_empty() && NAMES.contains(&stem))
}

/// The call is of no use without the network.
pub fn network(argv: &[String]) -> bool {
    let words: Vec<&str> = argv.iter().map(String::as_str).collect();
    match words.as_slice() {
        [program, ..]
            if ["curl", "wget", "ssh", "scp", "rsync", "ping"].contains(&base_name(program)) =>
        {
            true
        }
        ["git", "push" | "fetch" | "pull" | "clone", ..] => true,
        ["cargo", "install" | "update" | "fetch" | "add", ..] => true,
        ["npm" | "pnpm" | "yarn", "install" | "ci" | "add", ..] => true,
        _ => false,
    }
}

/// Setting this variable changes what a program prints or how fast it works, and not what runs.
pub(super) fn is_harmless_variable(name: &str) -> bool {
    const NAMES: &[&str] = &[
        "CARGO_INCREMENTAL",
        "CARGO_TERM_COLOR",
        "CI",
        "CLICOLOR",
        "CLICOLOR_FORCE",
        "COLUMNS",
        "FORCE_COLOR",
        "LANG",
        "LC_ALL",
        "LINES",
        "NO_COLOR",
        "PROPTEST_CASES",
        "RUST_BACKTRACE",
        "RUST_LIB_BACKTRACE",
        "RUST_LOG",
        "RUST_TEST_THREADS",
        "TZ",
    ];
    NAMES.contains(&name)
}
