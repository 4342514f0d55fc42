//! The command line of sandbox-exec, the sandbox of macOS: one fixed profile, and a rule for each path.
//!
//! The later of two rules wins, so they stand by depth like mounts do: hidden homes, toolchains, what may be
//! written, what of that may not, and what cannot be read. Every path is a parameter and appears in the text
//! only by its number. One that lies behind a link of the system (`/tmp`, `/var`, `/etc` lead to
//! `/private`) gets its rule in both spellings.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

use super::command::{Inside, Report, Start};
use super::mounts::{Ground, Mount, plan_mounts};
use super::probe::Tool;

/// The part that is the same for every command.
const PROFILE: &str = include_str!("profile.sb");

/// Folders at the top that are links into `/private`.
const BEHIND_LINKS: [&str; 3] = ["etc", "tmp", "var"];

/// The beginning of the command line.
pub(super) fn start(_: &Tool, inside: &Inside<'_>) -> io::Result<Start> {
    let args = arguments(inside.ground, inside.may_write, inside.has_network);
    Ok(Start { args, env: None, files: Vec::new(), report: Report(None) })
}

/// The arguments of sandbox-exec before the command.
fn arguments(ground: &Ground, may_write: bool, has_network: bool) -> Vec<OsString> {
    let mut profile = Profile { text: PROFILE.to_owned(), parameters: Vec::new() };
    for mount in plan_mounts(ground, may_write) {
        profile.mount(&mount);
    }
    for name in missing_authority(ground, may_write) {
        profile.rule("deny file-write*", "subpath", &name);
    }
    // A rule is about a path, so whoever moves an outer folder takes what is in it out of the rule.
    for path in ground.protected.iter().filter(|_| may_write) {
        for outer in path.ancestors().skip(1).take_while(|outer| outer.parent().is_some()) {
            profile.rule("deny file-write-unlink", "literal", outer);
        }
    }
    if has_network {
        profile.text.push_str(NETWORK);
    }
    let mut arguments: Vec<OsString> = vec!["-p".into(), profile.text.into()];
    for (number, path) in profile.parameters.into_iter().enumerate() {
        let mut definition = OsString::from(format!("P{number}="));
        definition.push(path);
        arguments.extend(["-D".into(), definition]);
    }
    arguments.push("--".into());
    arguments
}

/// Connections to anywhere, names looked up, and the local servers of tests.
const NETWORK: &str = "
(allow network*)
(deny network-outbound (remote unix-socket))
(allow mach-lookup
  (global-name \"com.apple.dnssd.service\")
  (global-name \"com.apple.SystemConfiguration.configd\"))
(allow network-outbound (literal \"/private/var/run/mDNSResponder\"))
";

/// Names of authority in the writable folders. A rule needs no file to be there, so none is left out.
fn missing_authority(ground: &Ground, may_write: bool) -> Vec<PathBuf> {
    let roots = ground.writable.iter().filter(|_| may_write);
    roots.flat_map(|root| [root.join(".git"), root.join(".anvil")]).collect()
}

struct Profile {
    text: String,
    parameters: Vec<PathBuf>,
}

impl Profile {
    fn mount(&mut self, mount: &Mount) {
        match mount {
            Mount::ReadOnly(path) if path.parent().is_some() => {
                self.rule("allow file-read*", "subpath", path);
                self.rule("deny file-write*", "subpath", path);
            }
            Mount::ReadWrite(path) => {
                self.rule("allow file-read* file-write*", "subpath", path);
            }
            // Temporary folders of macOS are each user's own; there is nothing to put in their place.
            Mount::Empty { at, .. } if at.starts_with("/tmp") || at.starts_with("/var/tmp") => {
                self.rule("allow file-read* file-write*", "subpath", at);
            }
            Mount::Empty { at, .. } => self.rule("deny file-read* file-write*", "subpath", at),
            Mount::Unreadable(path) => self.rule("deny file-read* file-write*", "subpath", path),
            // The profile begins with the whole machine, its devices and its processes, and denies what it
            // does not name, so that nothing has to be sealed.
            Mount::ReadOnly(_) | Mount::Devices(_) | Mount::Processes(_) | Mount::Seal(_) => {}
        }
    }

    /// A rule about a path alone (`literal`) or with all below it (`subpath`), in each of its spellings.
    fn rule(&mut self, rule: &str, extent: &str, path: &Path) {
        for spelling in spellings(path) {
            let number = self.parameters.iter().position(|known| *known == spelling);
            let number = number.unwrap_or_else(|| {
                self.parameters.push(spelling);
                self.parameters.len() - 1
            });
            writeln!(self.text, "({rule} ({extent} (param \"P{number}\")))")
                .expect("a text takes everything");
        }
    }
}

/// A path as it is named, and as the links at the top of the system lead.
fn spellings(path: &Path) -> Vec<PathBuf> {
    let mut all = vec![path.to_owned()];
    for name in BEHIND_LINKS {
        let (short, long) = (Path::new("/").join(name), Path::new("/private").join(name));
        if let Ok(rest) = path.strip_prefix(&short) {
            // Collected, since joining nothing leaves a slash at the end.
            all.push(long.join(rest).components().collect());
        } else if let Ok(rest) = path.strip_prefix(&long) {
            all.push(short.join(rest).components().collect());
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ground() -> Ground {
        Ground {
            hidden_dirs: vec!["/Users/me".into()],
            hidden_files: vec!["/tmp/w/.env".into()],
            readable: vec!["/Users/me/.cargo/bin".into()],
            writable: vec!["/tmp/w".into()],
            protected: vec!["/tmp/w/sub/.git".into()],
            temporary: vec!["/tmp".into()],
            ..Ground::default()
        }
    }

    fn text(ground: &Ground, may_write: bool, has_network: bool) -> String {
        let arguments = arguments(ground, may_write, has_network);
        let rules = arguments[1].to_str().unwrap().strip_prefix(PROFILE).unwrap().to_owned();
        let parameters: Vec<&str> =
            arguments[2..].iter().map(|argument| argument.to_str().unwrap()).collect();
        format!("{rules}{}", parameters.join(" "))
    }

    #[test]
    fn the_rules_stand_in_the_order_of_the_mounts() {
        insta::assert_snapshot!(text(&ground(), true, false), @r#"
        (deny file-read* file-write* (subpath (param "P0")))
        (allow file-read* file-write* (subpath (param "P1")))
        (allow file-read* file-write* (subpath (param "P2")))
        (deny file-read* file-write* (subpath (param "P3")))
        (allow file-read* file-write* (subpath (param "P4")))
        (allow file-read* file-write* (subpath (param "P5")))
        (allow file-read* file-write* (subpath (param "P6")))
        (allow file-read* file-write* (subpath (param "P7")))
        (deny file-read* file-write* (subpath (param "P8")))
        (deny file-read* file-write* (subpath (param "P9")))
        (allow file-read* (subpath (param "P10")))
        (deny file-write* (subpath (param "P10")))
        (allow file-read* (subpath (param "P11")))
        (allow file-read* (subpath (param "P12")))
        (deny file-write* (subpath (param "P11")))
        (deny file-write* (subpath (param "P12")))
        (deny file-write* (subpath (param "P13")))
        (deny file-write* (subpath (param "P14")))
        (deny file-write* (subpath (param "P15")))
        (deny file-write* (subpath (param "P16")))
        (deny file-write-unlink (literal (param "P6")))
        (deny file-write-unlink (literal (param "P7")))
        (deny file-write-unlink (literal (param "P4")))
        (deny file-write-unlink (literal (param "P5")))
        (deny file-write-unlink (literal (param "P1")))
        (deny file-write-unlink (literal (param "P2")))
        -D P0=/dev/shm -D P1=/tmp -D P2=/private/tmp -D P3=/Users/me -D P4=/tmp/w -D P5=/private/tmp/w -D P6=/tmp/w/sub -D P7=/private/tmp/w/sub -D P8=/tmp/w/.env -D P9=/private/tmp/w/.env -D P10=/Users/me/.cargo/bin -D P11=/tmp/w/sub/.git -D P12=/private/tmp/w/sub/.git -D P13=/tmp/w/.git -D P14=/private/tmp/w/.git -D P15=/tmp/w/.anvil -D P16=/private/tmp/w/.anvil --
        "#);
    }

    #[test]
    fn nothing_is_writable_under_a_policy_that_only_reads() {
        let text = text(&ground(), false, false);
        let granted: Vec<&str> = text
            .lines()
            .filter(|line| line.starts_with("(allow") && line.contains("file-write*"))
            .collect();
        // The temporary folder in its two spellings.
        assert_eq!(granted.len(), 2, "{text}");
    }

    #[test]
    fn the_network_is_open_only_where_it_is_said_to_be() {
        assert!(!text(&ground(), true, false).contains("network"));
        assert!(!PROFILE.contains("network"));
        assert!(text(&ground(), true, true).contains("(allow network*)"));
    }

    #[test]
    fn no_path_is_part_of_the_text() {
        let name = "/tmp/w) (allow default";
        let ground = Ground { writable: vec![name.into()], ..ground() };
        let arguments = arguments(&ground, true, false);
        assert!(!arguments[1].to_str().unwrap().contains("allow default"));
        assert!(arguments.iter().any(|argument| argument.to_str().unwrap().ends_with(name)));
    }

    #[test]
    fn a_path_behind_a_link_of_the_system_is_meant_in_both_spellings() {
        assert_eq!(
            spellings(Path::new("/tmp/a")),
            [Path::new("/tmp/a"), Path::new("/private/tmp/a")]
        );
        assert_eq!(
            spellings(Path::new("/private/var/x")),
            [Path::new("/private/var/x"), Path::new("/var/x")]
        );
        assert_eq!(spellings(Path::new("/usr/x")), [Path::new("/usr/x")]);
    }

    #[test]
    fn brackets_of_the_profile_are_balanced() {
        let profile: String =
            PROFILE.lines().filter(|line| !line.starts_with(";;")).collect::<Vec<_>>().join("\n");
        let count = |bracket: char| profile.matches(bracket).count();
        assert_eq!(count('('), count(')'));
    }
}
