//! Finds out whether somebody could still write to the pipe on standard input.
//!
//! A pipeline's other side is a living process that holds the write end. A pipe that was merely
//! inherited (from a CI runner, an editor) is held open by an ancestor, or by anvil itself. Linux
//! tells who holds what under `/proc`.

use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// A process that can write to standard input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Writer {
    /// Its id.
    pub(crate) pid: u32,
    /// How it was started, shortened.
    pub(crate) command: String,
}

impl fmt::Display for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` (process {})", self.command, self.pid)
    }
}

/// Whether the holders of a pipe can be found out on this machine.
pub(crate) fn can_look() -> bool {
    fs::read_link("/proc/self/fd/0").is_ok()
}

/// A living process, neither this one nor one of its ancestors or descendants, that holds the write
/// end of standard input.
pub(crate) fn outside_writer() -> Option<Writer> {
    let pipe = fs::read_link("/proc/self/fd/0").ok()?;
    let processes: Vec<u32> = fs::read_dir("/proc")
        .ok()?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    let parents: HashMap<u32, u32> =
        processes.iter().filter_map(|pid| Some((*pid, parent(*pid)?))).collect();
    let own = std::process::id();
    let pid = processes.into_iter().find(|pid| {
        *pid != own
            && !is_ancestor(*pid, own, &parents)
            && !is_ancestor(own, *pid, &parents)
            && holds_write_end(*pid, &pipe)
    })?;
    Some(Writer { pid, command: command(pid) })
}

/// Whether `older` is among the parents of `younger`.
fn is_ancestor(older: u32, younger: u32, parents: &HashMap<u32, u32>) -> bool {
    let mut at = younger;
    // A chain longer than the table would be a circle made of reused ids.
    for _ in 0..parents.len() {
        match parents.get(&at) {
            Some(parent) if *parent == older => return true,
            Some(parent) => at = *parent,
            None => return false,
        }
    }
    false
}

/// The parent of a living process; zombies hold nothing and count as gone.
fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything, further parentheses included.
    let mut fields = stat[stat.rfind(')')? + 1..].split_ascii_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X") {
        return None;
    }
    fields.next()?.parse().ok()
}

fn holds_write_end(pid: u32, pipe: &Path) -> bool {
    let Ok(descriptors) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    descriptors.filter_map(Result::ok).any(|entry| {
        // The link's own permission bits say how the descriptor was opened.
        let path = entry.path();
        fs::read_link(&path).is_ok_and(|target| target == pipe)
            && fs::symlink_metadata(&path).is_ok_and(|link| link.permissions().mode() & 0o200 != 0)
    })
}

fn command(pid: u32) -> String {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let line = String::from_utf8_lossy(&line).replace('\0', " ");
    let line: String = line.trim().chars().take(60).collect();
    agent::sanitize::one_line(&line).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ancestors_are_found_over_several_generations_and_strangers_are_not() {
        let parents = HashMap::from([(10, 5), (5, 1), (7, 1), (20, 10)]);
        assert!(is_ancestor(1, 20, &parents));
        assert!(is_ancestor(10, 20, &parents));
        assert!(!is_ancestor(20, 10, &parents));
        assert!(!is_ancestor(7, 20, &parents));
    }

    #[test]
    fn a_circle_in_the_process_table_ends_the_search() {
        let parents = HashMap::from([(2, 3), (3, 2)]);
        assert!(!is_ancestor(9, 2, &parents));
    }
}
