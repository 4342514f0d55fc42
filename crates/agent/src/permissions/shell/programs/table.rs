//! One row a program: how its options are written, and which of them a rule for it does not cover.

use super::editors;
use super::{Call, Refusal};
use crate::permissions::shell::options::Grammar;

/// Judges what options alone do not tell.
type Check = fn(&Call<'_>) -> Result<(), Refusal>;

/// What is known of a program.
pub(super) struct Program {
    pub(super) names: &'static [&'static str],
    pub(super) grammar: Grammar,
    /// Options that no rule covers: a letter, or a name after two dashes.
    pub(super) refused: &'static [(&'static str, Refusal)],
    /// What else has to hold.
    pub(super) further: Option<Check>,
}

const RUNS: Refusal = "runs another program";
const WRITES: Refusal = "writes a file that the rule does not name";
const REMOVES: Refusal = "removes files";
const CHANGES: Refusal = "changes the system";
const CODE: Refusal = "takes code from a file or an argument";
const CONFIGURES: Refusal = "takes settings that may name programs";

const fn row(
    names: &'static [&'static str],
    grammar: Grammar,
    refused: &'static [(&'static str, Refusal)],
) -> Program {
    Program { names, grammar, refused, further: None }
}

const fn checked(
    names: &'static [&'static str],
    grammar: Grammar,
    refused: &'static [(&'static str, Refusal)],
    further: Check,
) -> Program {
    Program { names, grammar, refused, further: Some(further) }
}

const PLAIN: Grammar = Grammar::gnu("", &[]);

pub(super) const PROGRAMS: &[Program] = &[
    checked(&["find"], FIND, &[], find),
    row(
        &["fd", "fdfind"],
        Grammar::gnu("dEtSoejcC", &["exec", "exec-batch"]).attached("xX"),
        &[("x", RUNS), ("X", RUNS), ("--exec", RUNS), ("--exec-batch", RUNS)],
    ),
    row(
        &["rg"],
        Grammar::gnu(
            "efgABCmMjrtTdE",
            &["pre", "pre-glob", "hostname-bin", "regexp", "file", "glob"],
        ),
        &[("--pre", RUNS), ("--hostname-bin", RUNS), ("z", RUNS), ("--search-zip", RUNS)],
    ),
    checked(
        &["sed", "gsed"],
        editors::SED,
        &[
            ("i", "changes files in place"),
            ("--in-place", "changes files in place"),
            ("f", CODE),
            ("--file", CODE),
        ],
        editors::sed,
    ),
    checked(
        &["awk", "gawk", "mawk", "nawk"],
        editors::AWK,
        &[
            ("f", CODE),
            ("--file", CODE),
            ("i", CODE),
            ("--include", CODE),
            ("E", CODE),
            ("--exec", CODE),
            ("l", CODE),
            ("--load", CODE),
            ("o", WRITES),
            ("--pretty-print", WRITES),
            ("d", WRITES),
            ("--dump-variables", WRITES),
            ("p", WRITES),
            ("--profile", WRITES),
            ("D", RUNS),
            ("--debug", RUNS),
        ],
        editors::awk,
    ),
    row(
        &["sort", "gsort"],
        Grammar::gnu(
            "kotST",
            &["output", "compress-program", "key", "temporary-directory", "files0-from"],
        ),
        &[
            ("o", WRITES),
            ("--output", WRITES),
            ("--compress-program", RUNS),
            ("T", WRITES),
            ("--temporary-directory", WRITES),
        ],
    ),
    checked(
        &["uniq"],
        Grammar::gnu("fsw", &["skip-fields", "skip-chars", "check-chars"]),
        &[],
        uniq,
    ),
    checked(&["tree"], Grammar::gnu("LPIoTH", &[]), &[("--output", WRITES)], tree),
    row(
        &["man"],
        Grammar::gnu("CLMPRSemprs", &["pager", "html", "preprocessor", "config-file", "manpath"])
            .attached("HTXt"),
        &[
            ("P", RUNS),
            ("--pager", RUNS),
            ("H", RUNS),
            ("--html", RUNS),
            ("C", CONFIGURES),
            ("--config-file", CONFIGURES),
            ("p", RUNS),
            ("--preprocessor", RUNS),
            ("l", "reads any file as a page"),
            ("--local-file", "reads any file as a page"),
        ],
    ),
    row(
        &["less", "more", "most"],
        Grammar::gnu("bhjkoOpPtTxyzD", &["log-file", "lesskey-file"]),
        &[
            ("o", WRITES),
            ("O", WRITES),
            ("--log-file", WRITES),
            ("--LOG-FILE", WRITES),
            ("k", CONFIGURES),
            ("--lesskey-file", CONFIGURES),
            ("--lesskey-src", CONFIGURES),
            ("--lesskey-content", CONFIGURES),
        ],
    ),
    checked(
        &["tar", "gtar", "bsdtar"],
        TAR,
        &[
            ("--to-command", RUNS),
            ("--checkpoint-action", RUNS),
            ("--use-compress-program", RUNS),
            ("I", RUNS),
            ("F", RUNS),
            ("--info-script", RUNS),
            ("--new-volume-script", RUNS),
            ("--rsh-command", RUNS),
            ("--rmt-command", RUNS),
            ("--remove-files", REMOVES),
            ("P", "writes outside the folder"),
            ("--absolute-names", "writes outside the folder"),
        ],
        tar,
    ),
    row(
        &["zip"],
        Grammar::gnu("bitTnPxO", &["unzip-command"]),
        &[
            ("T", RUNS),
            ("--unzip-command", RUNS),
            ("--test", RUNS),
            ("m", REMOVES),
            ("--move", REMOVES),
        ],
    ),
    checked(
        &["curl"],
        CURL,
        &[
            ("o", WRITES),
            ("--output", WRITES),
            ("O", WRITES),
            ("--remote-name", WRITES),
            ("--remote-name-all", WRITES),
            ("J", WRITES),
            ("--output-dir", WRITES),
            ("D", WRITES),
            ("--dump-header", WRITES),
            ("c", WRITES),
            ("--cookie-jar", WRITES),
            ("K", CONFIGURES),
            ("--config", CONFIGURES),
            ("--trace", WRITES),
            ("--trace-ascii", WRITES),
            ("--stderr", WRITES),
            ("--libcurl", WRITES),
            ("--etag-save", WRITES),
            ("--hsts", WRITES),
            ("--alt-svc", WRITES),
            ("--data-ascii", "sends data"),
            ("--data-raw", "sends data"),
            ("--data-urlencode", "sends data"),
            ("--form-string", "sends data"),
            ("--url-query", "sends data"),
            ("--variable", "reads another file"),
            ("b", "sends a file"),
            ("--cookie", "sends a file"),
            ("n", "sends a password of another file"),
            ("--netrc", "sends a password of another file"),
            ("--netrc-file", "sends a password of another file"),
            ("--netrc-optional", "sends a password of another file"),
            ("Q", "changes what is asked of a server"),
            ("--quote", "changes what is asked of a server"),
            (":", "asks more than one address"),
            ("--next", "asks more than one address"),
            ("--url", "asks more than one address"),
            ("x", "asks another server"),
            ("--proxy", "asks another server"),
            ("--preproxy", "asks another server"),
            ("--connect-to", "asks another server"),
            ("--resolve", "asks another server"),
            ("--doh-url", "asks another server"),
            ("--unix-socket", "asks another server"),
            ("--abstract-unix-socket", "asks another server"),
            ("T", "sends a file"),
            ("--upload-file", "sends a file"),
            ("d", "sends data"),
            ("--data", "sends data"),
            ("--data-binary", "sends data"),
            ("F", "sends data"),
            ("--form", "sends data"),
            ("--json", "sends data"),
            ("X", "changes what is asked of a server"),
            ("--request", "changes what is asked of a server"),
            ("--engine", RUNS),
            ("w", WRITES),
            ("--write-out", WRITES),
        ],
        curl,
    ),
    row(
        &["wget"],
        Grammar::gnu(
            "OoaPeiUtTwQlADIRXBG",
            &[
                "output-document",
                "output-file",
                "append-output",
                "directory-prefix",
                "execute",
                "post-file",
                "post-data",
                "body-file",
                "use-askpass",
                "config",
                "input-file",
            ],
        ),
        &[
            ("O", WRITES),
            ("--output-document", WRITES),
            ("o", WRITES),
            ("--output-file", WRITES),
            ("a", WRITES),
            ("--append-output", WRITES),
            ("P", WRITES),
            ("--directory-prefix", WRITES),
            ("e", CONFIGURES),
            ("--execute", CONFIGURES),
            ("--use-askpass", RUNS),
            ("--config", CONFIGURES),
            ("--post-file", "sends a file"),
            ("--post-data", "sends data"),
            ("--body-file", "sends a file"),
            ("--body-data", "sends data"),
            ("i", "sends lines of a file"),
            ("--input-file", "sends lines of a file"),
            ("--save-cookies", WRITES),
            ("--rejected-log", WRITES),
            ("--warc-file", WRITES),
            ("--hsts-file", WRITES),
        ],
    ),
    checked(
        &["date"],
        Grammar::gnu("dfrs", &["date", "file", "reference", "set"]).attached("I"),
        &[
            ("s", CHANGES),
            ("--set", CHANGES),
            ("f", "reads another file"),
            ("--file", "reads another file"),
        ],
        date,
    ),
    checked(
        &["hostname", "domainname", "nisdomainname", "ypdomainname"],
        Grammar::gnu("F", &["file"]),
        &[("F", CHANGES), ("--file", CHANGES), ("b", CHANGES), ("--boot", CHANGES)],
        no_operand,
    ),
    row(
        &["dmesg"],
        Grammar::gnu("lfn", &["console-level"]),
        &[
            ("C", CHANGES),
            ("c", CHANGES),
            ("--clear", CHANGES),
            ("--read-clear", CHANGES),
            ("D", CHANGES),
            ("E", CHANGES),
            ("n", CHANGES),
            ("--console-level", CHANGES),
            ("--console-off", CHANGES),
            ("--console-on", CHANGES),
        ],
    ),
    row(
        &["file"],
        Grammar::gnu("efFmP", &["magic-file", "files-from"]),
        &[
            ("C", WRITES),
            ("--compile", WRITES),
            ("z", RUNS),
            ("Z", RUNS),
            ("--uncompress", RUNS),
            ("m", CONFIGURES),
            ("--magic-file", CONFIGURES),
        ],
    ),
    row(
        &["base64", "base32", "basenc"],
        Grammar::gnu("wbio", &["wrap", "output"]),
        &[("o", WRITES), ("--output", WRITES)],
    ),
    row(&["xxd"], Grammar::gnu("clogsn", &[]), &[("r", WRITES)]),
    row(
        &["cargo"],
        CARGO,
        &[
            ("--config", CONFIGURES),
            ("Z", CONFIGURES),
            ("C", CONFIGURES),
            ("--manifest-path", "works on another project"),
            ("--target-dir", WRITES),
            ("--artifact-dir", WRITES),
            ("--out-dir", WRITES),
        ],
    ),
    row(
        &["npm", "pnpm", "yarn", "cnpm"],
        Grammar::gnu("wC", &["script-shell", "prefix", "userconfig", "globalconfig"]),
        &[
            ("--script-shell", RUNS),
            ("--shell", RUNS),
            ("--node-options", RUNS),
            ("--userconfig", CONFIGURES),
            ("--globalconfig", CONFIGURES),
            ("--use-yarnrc", CONFIGURES),
            ("--cwd", "works on another project"),
            ("--dir", "works on another project"),
            ("--prefix", "works on another project"),
            ("C", "works on another project"),
            ("--git", RUNS),
            ("--editor", RUNS),
            ("--viewer", RUNS),
            ("--browser", RUNS),
            ("--shell-emulator", RUNS),
        ],
    ),
    checked(
        &["make", "gmake", "bmake"],
        Grammar::gnu(
            "CfIoWE",
            &["directory", "file", "makefile", "eval", "include-dir", "old-file", "what-if"],
        )
        // Their values are optional, so that the next word may be an option.
        .attached("jlO"),
        &[
            ("f", CODE),
            ("--file", CODE),
            ("--makefile", CODE),
            ("E", CODE),
            ("--eval", CODE),
            ("C", "works on another project"),
            ("--directory", "works on another project"),
            ("I", CODE),
            ("--include-dir", CODE),
            ("e", "lets variables change what runs"),
            ("--environment-overrides", "lets variables change what runs"),
        ],
        assigns,
    ),
    row(
        &["just"],
        Grammar::gnu("fd", &["shell", "shell-arg", "justfile", "working-directory", "set"]),
        &[
            ("f", CODE),
            ("--justfile", CODE),
            ("--shell", RUNS),
            ("--shell-arg", RUNS),
            ("d", "works on another project"),
            ("--working-directory", "works on another project"),
            ("c", RUNS),
            ("--command", RUNS),
            ("e", RUNS),
            ("--edit", RUNS),
            ("--chooser", RUNS),
            ("--choose", RUNS),
            ("--set", CONFIGURES),
        ],
    ),
    row(
        &["vim", "vi", "nvim", "view", "vimdiff", "ex"],
        Grammar::gnu("csSuUWwiTPr", &["cmd"]),
        &[
            ("c", RUNS),
            ("--cmd", RUNS),
            ("S", CODE),
            ("s", CODE),
            ("u", CODE),
            ("U", CODE),
            ("W", WRITES),
            ("w", WRITES),
        ],
    ),
    row(
        &["emacs", "emacsclient"],
        PLAIN,
        &[
            ("--eval", RUNS),
            ("--execute", RUNS),
            ("l", CODE),
            ("--load", CODE),
            ("f", RUNS),
            ("--funcall", RUNS),
            ("--script", CODE),
            ("e", RUNS),
            ("q", RUNS),
        ],
    ),
    row(
        &["ssh", "scp", "sftp"],
        Grammar::gnu("BbcDEeFIiJLlmOoPpQRSWw", &[]),
        &[("o", CONFIGURES), ("F", CONFIGURES), ("S", RUNS), ("E", WRITES), ("J", RUNS)],
    ),
    row(
        &["rsync"],
        Grammar::gnu("efMBT", &["rsh", "rsync-path", "log-file", "files-from"]),
        &[
            ("e", RUNS),
            ("--rsh", RUNS),
            ("--rsync-path", RUNS),
            ("--log-file", WRITES),
            ("--delete", REMOVES),
            ("--remove-source-files", REMOVES),
            ("--delete-after", REMOVES),
            ("--delete-before", REMOVES),
            ("--delete-delay", REMOVES),
            ("--delete-during", REMOVES),
            ("--delete-excluded", REMOVES),
            ("M", CONFIGURES),
        ],
    ),
    row(&["tee"], PLAIN, &[]),
    row(
        &["diff", "sdiff", "diff3"],
        Grammar::gnu("UCIWFxXSo", &["output", "diff-program", "to-file", "from-file"]),
        &[("o", WRITES), ("--output", WRITES), ("--diff-program", RUNS)],
    ),
    row(
        &["patch"],
        Grammar::gnu("BDFYVdgioprz", &["output", "directory", "input"]),
        &[
            ("o", WRITES),
            ("--output", WRITES),
            ("d", "works in another folder"),
            ("--directory", "works in another folder"),
        ],
    ),
    row(&["ps"], PLAIN, &[]),
    row(
        &["pytest", "py.test"],
        Grammar::gnu(
            "ckmopWrn",
            &["rootdir", "confcutdir", "override-ini", "basetemp", "junitxml"],
        ),
        &[
            ("p", CODE),
            ("c", CONFIGURES),
            ("o", CONFIGURES),
            ("--override-ini", CONFIGURES),
            ("--confcutdir", CODE),
            ("--basetemp", REMOVES),
            ("--rootdir", CODE),
            ("--pdbcls", CODE),
        ],
    ),
    checked(
        &["go"],
        Grammar::one_dash(&[
            "exec", "toolexec", "o", "overlay", "C", "vettool", "modfile", "ldflags",
        ]),
        &[
            ("--exec", RUNS),
            ("--toolexec", RUNS),
            ("--o", WRITES),
            ("--overlay", CODE),
            ("--vettool", RUNS),
            ("--C", "works on another project"),
            ("--modfile", CONFIGURES),
        ],
        go,
    ),
    row(
        &["jq"],
        Grammar::gnu("fL", &["from-file", "slurpfile", "rawfile"]),
        &[("f", CODE), ("--from-file", CODE), ("L", CODE)],
    ),
    row(&["openssl", "gpg", "gpg2"], PLAIN, &[("--exec-path", RUNS), ("--photo-viewer", RUNS)]),
    row(
        &["docker", "podman"],
        Grammar::gnu("Hc", &["host", "config", "context"]),
        &[("H", CONFIGURES), ("--host", CONFIGURES), ("--config", CONFIGURES)],
    ),
    row(&["ps2pdf", "gs"], PLAIN, &[]),
];

const FIND: Grammar = Grammar::one_dash(&[
    "name",
    "iname",
    "path",
    "ipath",
    "regex",
    "iregex",
    "type",
    "newer",
    "size",
    "perm",
    "user",
    "group",
    "mtime",
    "atime",
    "ctime",
    "mmin",
    "amin",
    "cmin",
    "maxdepth",
    "mindepth",
    "printf",
    "wholename",
    "lname",
    "ilname",
    "samefile",
    "inum",
    "links",
    "fstype",
    "regextype",
    "uid",
    "gid",
    "xtype",
]);

const TAR: Grammar = Grammar::gnu(
    "bCfFgHIKLNTVX",
    &[
        "to-command",
        "checkpoint-action",
        "use-compress-program",
        "info-script",
        "new-volume-script",
        "rsh-command",
        "rmt-command",
        "directory",
        "file",
        "exclude",
    ],
);

const CURL: Grammar = Grammar::gnu(
    "AbcCdDeEFhHKmoPQrtTuUwxXyYz",
    &[
        "output",
        "output-dir",
        "dump-header",
        "cookie-jar",
        "config",
        "trace",
        "trace-ascii",
        "stderr",
        "libcurl",
        "etag-save",
        "hsts",
        "alt-svc",
        "upload-file",
        "data",
        "form",
        "json",
        "request",
        "header",
        "user",
        "url",
        "write-out",
        "max-time",
        "retry",
        "user-agent",
        "proxy",
    ],
);

const CARGO: Grammar = Grammar {
    ends_early: false,
    ..Grammar::gnu(
        "pFjZC",
        &[
            "config",
            "manifest-path",
            "target-dir",
            "artifact-dir",
            "out-dir",
            "package",
            "features",
            "target",
            "profile",
            "bin",
            "example",
            "test",
            "bench",
            "jobs",
            "color",
            "message-format",
            "exclude",
        ],
    )
};

/// Every word counts: whether it is the value of a test differs between versions and cannot be told from
/// the word before it, and a word that looks like an action is one in most places.
fn find(call: &Call<'_>) -> Result<(), Refusal> {
    for word in call.words {
        match *word {
            "-exec" | "-execdir" | "-ok" | "-okdir" => return Err(RUNS),
            "-delete" => return Err(REMOVES),
            "-fls" | "-fprint" | "-fprint0" | "-fprintf" => return Err(WRITES),
            "-files0-from" => return Err("reads another file"),
            _ => {}
        }
    }
    Ok(())
}

/// Its letters go on after one that takes a value, which is then a later word.
fn tree(call: &Call<'_>) -> Result<(), Refusal> {
    let letters = |word: &&&str| word.starts_with('-') && !word.starts_with("--");
    let writes = call.words.iter().filter(letters).any(|word| word.contains(['o', 'R']));
    if writes { Err(WRITES) } else { Ok(()) }
}

/// What is no format is a time to set.
fn date(call: &Call<'_>) -> Result<(), Refusal> {
    if call.operands().any(|word| !word.starts_with('+')) { Err(CHANGES) } else { Ok(()) }
}

/// A second address is one that the rule does not name.
fn curl(call: &Call<'_>) -> Result<(), Refusal> {
    let from_file = ["H", "--header"].iter().any(|o| call.values(o).any(|v| v.starts_with('@')));
    match () {
        () if from_file => Err("sends a file"),
        () if call.operands().nth(1).is_some() => Err("asks more than one address"),
        () => Ok(()),
    }
}

/// The flags of the linker may name the program that links.
fn go(call: &Call<'_>) -> Result<(), Refusal> {
    let linker = call.values("--ldflags").any(|flags| flags.contains("ext"));
    if linker { Err(RUNS) } else { Ok(()) }
}

fn uniq(call: &Call<'_>) -> Result<(), Refusal> {
    if call.operands().nth(1).is_some() { Err(WRITES) } else { Ok(()) }
}

/// Letters may stand without a dash in the first word.
fn tar(call: &Call<'_>) -> Result<(), Refusal> {
    let old = call.words.first().filter(|word| !word.starts_with('-'));
    if old.is_some_and(|word| word.contains(['I', 'F', 'P'])) { Err(RUNS) } else { Ok(()) }
}

fn no_operand(call: &Call<'_>) -> Result<(), Refusal> {
    if call.operands().next().is_some() { Err(CHANGES) } else { Ok(()) }
}

/// A variable of `make` may name the shell or any program of a recipe.
fn assigns(call: &Call<'_>) -> Result<(), Refusal> {
    let any = call.operands().any(|word| word.contains('='));
    if any { Err("sets a variable that may name a program") } else { Ok(()) }
}
