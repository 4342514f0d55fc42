//! What a child process may know: an allowlist of environment variables.
//!
//! A list of what is allowed, and not of what is secret: the next secret has a name nobody thought of.
//! What is secret all the same and turns up in a text is taken out by the [`Redactor`].

pub mod known;
pub mod redact;

pub use redact::{RedactStream, Redactor};

use std::ffi::{OsStr, OsString};

/// Variables that a child gets with the value they have here.
///
/// Who and where the user is, how text and time are written, where toolchains and their caches lie. None of
/// them holds a secret, and none makes a program load code that it would not load anyway.
const ALLOWED: &[&str] = &[
    // which commands we run in ourselves, so that an outer anvil finds what an inner one started
    "ANVIL_CALL_ID",
    // the user and the machine
    "CI",
    "HOME",
    "HOSTNAME",
    "LANG",
    "LANGUAGE",
    "LOGNAME",
    "PATH",
    "SHELL",
    "TMPDIR",
    "TZ",
    "USER",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
    // certificates, without which a company's network cannot be reached
    "CURL_CA_BUNDLE",
    "NIX_SSL_CERT_FILE",
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    // toolchains
    "ANDROID_HOME",
    "AR",
    "CARGO_BUILD_JOBS",
    "CARGO_HOME",
    "CARGO_INCREMENTAL",
    "CARGO_NET_OFFLINE",
    "CARGO_TARGET_DIR",
    "CC",
    "CFLAGS",
    "CMAKE_PREFIX_PATH",
    "CONDA_DEFAULT_ENV",
    "CONDA_PREFIX",
    "CXX",
    "CXXFLAGS",
    "DEVELOPER_DIR",
    "DOTNET_ROOT",
    "GEM_HOME",
    "GEM_PATH",
    "GOBIN",
    "GOCACHE",
    "GOFLAGS",
    "GOMODCACHE",
    "GOPATH",
    "GOROOT",
    "GRADLE_USER_HOME",
    "JAVA_HOME",
    "LDFLAGS",
    "M2_HOME",
    "MAVEN_HOME",
    "NVM_BIN",
    "NVM_DIR",
    "PKG_CONFIG_PATH",
    "PNPM_HOME",
    "PYENV_ROOT",
    "PYENV_VERSION",
    "RBENV_ROOT",
    "RBENV_VERSION",
    "RUSTFLAGS",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    "RUST_BACKTRACE",
    "SDKROOT",
    "SDKMAN_DIR",
    "UV_CACHE_DIR",
    "VIRTUAL_ENV",
    "VOLTA_HOME",
];

/// Proxy settings, which pass unless a password is part of the address.
const PROXIES: &[&str] = &[
    "ALL_PROXY",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NO_PROXY",
    "all_proxy",
    "http_proxy",
    "https_proxy",
    "no_proxy",
];

/// Variables that make a shell or the loader run other code first; no passthrough list brings them back.
const NEVER: &[&str] = &[
    "BASHOPTS",
    "BASH_ENV",
    "ENV",
    "JAVA_TOOL_OPTIONS",
    "NODE_OPTIONS",
    "PERL5OPT",
    "PROMPT_COMMAND",
    "PS4",
    "PYTHONSTARTUP",
    "RUBYOPT",
    "SHELLOPTS",
    "_JAVA_OPTIONS",
];
const NEVER_PREFIXES: &[&str] = &["BASH_FUNC_", "DYLD_", "GIT_", "LD_"];

/// What of git's variables says only who somebody is; the others name programs and folders that git obeys.
const HARMLESS_PREFIXES: &[&str] = &["GIT_AUTHOR_", "GIT_COMMITTER_"];

/// What every child is told, whatever the environment here says.
///
/// Nobody is there to answer a password prompt or to leave a pager, and there is no terminal.
const ALWAYS: &[(&str, &str)] = &[
    ("AI_AGENT", "anvil"),
    ("GIT_PAGER", "cat"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("NO_COLOR", "1"),
    ("PAGER", "cat"),
    ("TERM", "dumb"),
];

/// The whole environment of a child process: what is allowed, what `passthrough` names, and who asks.
///
/// `passthrough` holds exact names that a person trusted children with, secrets included. Variables through
/// which the loader or a shell runs other code stay out even then.
pub fn child_env(session_id: &str, passthrough: &[OsString]) -> Vec<(OsString, OsString)> {
    let mut env = allowed(std::env::vars_os(), passthrough);
    env.push(("ANVIL_SESSION_ID".into(), session_id.into()));
    env
}

/// The secrets in the environment of this process, by the names of their variables: what no child gets
/// unless somebody trusts it with that, and is a secret by its name or its looks. `keys` are variables that
/// hold keys whatever they are called.
pub fn in_environment(keys: &[String]) -> Vec<(String, String)> {
    let here: Vec<(String, String)> = std::env::vars_os()
        .filter(|(name, value)| !may_pass(name, value))
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    let is_key = |name: &str| keys.iter().any(|key| key == name);
    let keys = here.iter().filter(|(name, _)| is_key(name)).cloned();
    let others = here.iter().filter(|(name, _)| !is_key(name));
    let others = others.map(|(name, value)| (name.as_str(), value.as_str()));
    keys.chain(known::secrets_among(others)).collect()
}

/// Which of the variables `here` a child may see, and the constant ones.
fn allowed(
    here: impl Iterator<Item = (OsString, OsString)>,
    passthrough: &[OsString],
) -> Vec<(OsString, OsString)> {
    let set = ALWAYS.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
    here.filter(|(name, value)| {
        !ALWAYS.iter().any(|(always, _)| name == always)
            && (may_pass(name, value) || (passthrough.contains(name) && !runs_code(name)))
    })
    .chain(set)
    .collect()
}

fn may_pass(name: &OsStr, value: &OsStr) -> bool {
    let Some(name) = name.to_str() else { return false };
    ALLOWED.contains(&name)
        || name.starts_with("LC_")
        || (PROXIES.contains(&name) && !value.as_encoded_bytes().contains(&b'@'))
}

fn runs_code(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    let begins =
        |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix.as_bytes()));
    NEVER.iter().any(|never| name == never.as_bytes())
        || (begins(NEVER_PREFIXES) && !begins(HARMLESS_PREFIXES))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(here: &[(&str, &str)], passthrough: &[&str]) -> Vec<String> {
        let here = here.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
        let passthrough: Vec<OsString> = passthrough.iter().map(OsString::from).collect();
        allowed(here, &passthrough)
            .into_iter()
            .map(|(name, _)| name.into_string().unwrap())
            .filter(|name| !ALWAYS.iter().any(|(always, _)| always == name))
            .collect()
    }

    #[test]
    fn a_child_sees_no_key_token_or_secret() {
        let here = [
            ("PATH", "/bin"),
            ("ANTHROPIC_API_KEY", "k"),
            ("GITHUB_TOKEN", "t"),
            ("AWS_SECRET_ACCESS_KEY", "s"),
            ("SSH_AUTH_SOCK", "/run/agent"),
            ("SOMETHING_NEW", "x"),
            ("LC_ALL", "C.UTF-8"),
        ];
        assert_eq!(names(&here, &[]), ["PATH", "LC_ALL"]);
    }

    #[test]
    fn a_trusted_name_passes_and_a_loader_variable_never_does() {
        let here = [
            ("DATABASE_URL", "x"),
            ("LD_PRELOAD", "/tmp/x.so"),
            ("BASH_ENV", "/tmp/rc"),
            ("BASH_FUNC_ls%%", "() { :; }"),
            ("PROMPT_COMMAND", "id"),
            ("DYLD_INSERT_LIBRARIES", "x"),
            ("GIT_SSH_COMMAND", "id"),
            ("GIT_CONFIG_COUNT", "1"),
            ("GIT_AUTHOR_NAME", "A"),
            ("NODE_OPTIONS", "--require=x"),
        ];
        let trusted: Vec<&str> = here.iter().map(|(name, _)| *name).collect();
        assert_eq!(names(&here, &trusted), ["DATABASE_URL", "GIT_AUTHOR_NAME"]);
    }

    #[test]
    fn a_proxy_passes_unless_its_address_holds_a_password() {
        let here =
            [("HTTPS_PROXY", "http://user:pass@proxy:3128"), ("http_proxy", "http://proxy:3128")];
        assert_eq!(names(&here, &[]), ["http_proxy"]);
    }

    #[test]
    fn pagers_and_prompts_are_off_whatever_the_environment_says() {
        let here = [("PAGER", "less"), ("TERM", "xterm-256color")];
        let env = allowed(here.iter().map(|(n, v)| (n.into(), v.into())), &["PAGER".into()]);
        let get = |name: &str| {
            let values: Vec<_> = env.iter().filter(|(n, _)| n == name).map(|(_, v)| v).collect();
            assert_eq!(values.len(), 1, "{name}");
            values[0].clone()
        };
        assert_eq!(get("PAGER"), "cat");
        assert_eq!(get("GIT_PAGER"), "cat");
        assert_eq!(get("GIT_TERMINAL_PROMPT"), "0");
        assert_eq!(get("AI_AGENT"), "anvil");
        assert_eq!(get("NO_COLOR"), "1");
        assert_eq!(get("TERM"), "dumb");
    }
}
