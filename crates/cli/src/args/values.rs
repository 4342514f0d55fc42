//! What an option's value may be.

use std::ffi::OsString;
use std::time::Duration;

use agent::PermissionMode;
use clap::ValueEnum;
use llm::config::Origin;
use llm::config::file::SandboxMode;

/// What commands may write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Confine {
    /// Nothing but temporary files
    ReadOnly,
    /// The workspace
    WorkspaceWrite,
    /// Everything
    FullAccess,
    /// Everything that a container around anvil lets them
    External,
}

impl Confine {
    /// The same as a value of the configuration.
    pub(crate) fn as_mode(self) -> SandboxMode {
        match self {
            Self::ReadOnly => SandboxMode::ReadOnly,
            Self::WorkspaceWrite => SandboxMode::WorkspaceWrite,
            Self::FullAccess => SandboxMode::FullAccess,
            Self::External => SandboxMode::External,
        }
    }
}

/// What standard output carries.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    /// The final answer, or a page to read
    #[default]
    Text,
    /// One object at the end
    Json,
    /// One event per line
    StreamJson,
}

impl OutputFormat {
    /// The format a command line asks for, found without understanding the rest of it: a usage
    /// error, too, is told in the form that was asked for.
    pub(crate) fn sniff(words: &[OsString]) -> Self {
        let name = "--output-format";
        let value = words.iter().enumerate().find_map(|(at, word)| {
            let word = word.to_str()?;
            match word.strip_prefix(name)?.strip_prefix('=') {
                Some(value) => Some(value),
                None if word == name => words.get(at + 1)?.to_str(),
                None => None,
            }
        });
        value.and_then(|value| Self::from_str(value, false).ok()).unwrap_or_default()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Mode {
    /// Reads run, edits and commands ask
    Default,
    /// Edits inside the workspace run too
    AcceptEdits,
    /// Commands inside the sandbox run too; what leaves it asks
    Auto,
    /// Nothing that could change anything runs
    Plan,
    /// Everything runs that no rule denies or asks about; the sandbox stays
    Bypass,
}

impl Mode {
    /// The same as the policy knows it.
    pub(super) fn as_permission_mode(self) -> PermissionMode {
        match self {
            Self::Default => PermissionMode::Default,
            Self::AcceptEdits => PermissionMode::AcceptEdits,
            Self::Auto => PermissionMode::Auto,
            Self::Plan => PermissionMode::Plan,
            Self::Bypass => PermissionMode::Bypass,
        }
    }
}

/// Reads `VARIABLE=ADDRESS`.
pub(super) fn credential_origin(text: &str) -> Result<(String, Origin), String> {
    let (variable, address) = text.split_once('=').ok_or("write VARIABLE=https://host")?;
    Ok((variable.to_owned(), Origin::of(address)?))
}

/// Reads `90`, `90s`, `30m`, `2h` or a sum of such parts like `1h30m`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("'{text}' is not a time such as 90s, 1h30m or 30d");
    let mut total = Duration::ZERO;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let number: u64 = rest[..digits].parse().map_err(|_| wrong())?;
        let tail = &rest[digits..];
        let unit_end = tail.find(|c: char| c.is_ascii_digit()).unwrap_or(tail.len());
        let seconds = match &tail[..unit_end] {
            "s" | "" => 1,
            "m" => 60,
            "h" => 3600,
            "d" => 86_400,
            _ => return Err(wrong()),
        };
        let part = Duration::from_secs(number.checked_mul(seconds).ok_or_else(wrong)?);
        total = total.checked_add(part).ok_or_else(wrong)?;
        rest = &tail[unit_end..];
    }
    if total.is_zero() { Err(wrong()) } else { Ok(total) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_with_and_without_a_unit() {
        assert_eq!(duration("90"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("1h30m"), Ok(Duration::from_secs(5400)));
        for wrong in ["", "m", "0", "5w", "1.5h", "-1s", "99999999999999999999s"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_format_is_found_in_a_command_line_that_cannot_be_read() {
        let sniff = |words: &[&str]| {
            OutputFormat::sniff(&words.iter().map(OsString::from).collect::<Vec<_>>())
        };
        assert_eq!(sniff(&["anvil", "--nope", "--output-format", "json"]), OutputFormat::Json);
        assert_eq!(
            sniff(&["anvil", "--output-format=stream-json", "-x"]),
            OutputFormat::StreamJson
        );
        assert_eq!(sniff(&["anvil", "--output-format"]), OutputFormat::Text);
        assert_eq!(sniff(&["anvil", "--output-format=yaml"]), OutputFormat::Text);
    }
}
