//! Finds out whether somebody could still write to the pipe on standard input.
//!
//! A pipeline's other side is a living process that holds the write end. A pipe that was merely
//! inherited (from a CI runner, an editor) is held open by an ancestor, or by anvil itself. Linux
//! tells who holds what under `/proc`.

use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::io;
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

/// Who could still write to standard input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outside {
    /// This process.
    Writer(Writer),
    /// Perhaps somebody: there are processes into which this user cannot look.
    Unknown,
    /// No one.
    Nobody,
}

/// Whether the holders of a pipe can be found out on this machine.
pub(crate) fn can_look() -> bool {
    // The first process is there for everybody, unless the processes of others are hidden.
    fs::read_link("/proc/self/fd/0").is_ok() && process(1).is_some()
}

/// Looks for a living process, neither this one nor one of its ancestors or descendants, that holds
/// the write end of standard input.
pub(crate) fn outside_writer() -> Outside {
    let (Ok(pipe), Ok(entries)) = (fs::read_link("/proc/self/fd/0"), fs::read_dir("/proc")) else {
        return Outside::Unknown;
    };
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let table = pids.filter_map(|pid: u32| Some((pid, process(pid)?))).collect();
    judge(std::process::id(), &table, |pid| holds_write_end(pid, &pipe))
}

/// Who of the process table could write to the pipe of the process `own`.
///
/// Another user's process shows nothing of what it holds (`sudo slow | anvil`). In our own process
/// group it is a part of the same pipeline and counts as a writer; elsewhere in our session it may be
/// one. In other sessions run services, which start no pipelines.
fn judge(own: u32, table: &HashMap<u32, Process>, holds: impl Fn(u32) -> Holds) -> Outside {
    let Some(us) = table.get(&own) else { return Outside::Unknown };
    let mut found = Outside::Nobody;
    for (&pid, process) in table {
        if pid == own || is_ancestor(pid, own, table) || is_ancestor(own, pid, table) {
            continue;
        }
        let writer = || Outside::Writer(Writer { pid, command: command(pid) });
        match holds(pid) {
            Holds::WriteEnd => return writer(),
            Holds::Hidden if process.group == us.group => return writer(),
            Holds::Hidden if process.session == us.session => found = Outside::Unknown,
            Holds::Hidden | Holds::Nothing => {}
        }
    }
    found
}

/// Whether `older` is among the parents of `younger`.
fn is_ancestor(older: u32, younger: u32, table: &HashMap<u32, Process>) -> bool {
    let mut at = younger;
    // A chain longer than the table would be a circle made of reused ids.
    for _ in 0..table.len() {
        match table.get(&at) {
            Some(process) if process.parent == older => return true,
            Some(process) => at = process.parent,
            None => return false,
        }
    }
    false
}

/// Where a process stands.
#[derive(Debug, Clone, Copy)]
struct Process {
    parent: u32,
    group: u32,
    session: u32,
}

/// A living process; zombies hold nothing and count as gone.
fn process(pid: u32) -> Option<Process> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything, further parentheses included.
    let mut fields = stat[stat.rfind(')')? + 1..].split_ascii_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X") {
        return None;
    }
    let mut number = || fields.next()?.parse().ok();
    Some(Process { parent: number()?, group: number()?, session: number()? })
}

/// What a process holds of the pipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Holds {
    WriteEnd,
    Nothing,
    /// It does not let this user look.
    Hidden,
}

fn holds_write_end(pid: u32, pipe: &Path) -> Holds {
    let hidden = |error: &io::Error| error.kind() == io::ErrorKind::PermissionDenied;
    let descriptors = match fs::read_dir(format!("/proc/{pid}/fd")) {
        Ok(descriptors) => descriptors,
        Err(error) if hidden(&error) => return Holds::Hidden,
        // It has ended meanwhile.
        Err(_) => return Holds::Nothing,
    };
    let mut holds = Holds::Nothing;
    for entry in descriptors.filter_map(Result::ok) {
        let path = entry.path();
        match fs::read_link(&path) {
            // The link's own permission bits say how the descriptor was opened.
            Ok(target) if target == pipe => match fs::symlink_metadata(&path) {
                Ok(link) if link.permissions().mode() & 0o200 != 0 => return Holds::WriteEnd,
                Ok(_) | Err(_) => {}
            },
            Err(error) if hidden(&error) => holds = Holds::Hidden,
            Ok(_) | Err(_) => {}
        }
    }
    holds
}

fn command(pid: u32) -> String {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let line = String::from_utf8_lossy(&line).replace('\0', " ");
    let line: String = line.trim().chars().take(60).collect();
    agent::sanitize::one_line(&line).into_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Processes that share one group and one session.
    fn family<const N: usize>(parents: [(u32, u32); N]) -> HashMap<u32, Process> {
        parents.map(|(pid, parent)| (pid, Process { parent, group: 1, session: 1 })).into()
    }

    #[test]
    fn ancestors_are_found_over_several_generations_and_strangers_are_not() {
        let table = family([(10, 5), (5, 1), (7, 1), (20, 10)]);
        assert!(is_ancestor(1, 20, &table));
        assert!(is_ancestor(10, 20, &table));
        assert!(!is_ancestor(20, 10, &table));
        assert!(!is_ancestor(7, 20, &table));
    }

    #[test]
    fn a_circle_in_the_process_table_ends_the_search() {
        assert!(!is_ancestor(9, 2, &family([(2, 3), (3, 2)])));
    }

    #[track_caller]
    fn check(other: Process, holds: Holds, want: &Outside) {
        let us = Process { parent: 1, group: 50, session: 40 };
        let table = HashMap::from([(50, us), (u32::MAX, other)]);
        assert_eq!(&judge(50, &table, |_| holds), want, "{other:?} {holds:?}");
    }

    #[test]
    fn a_process_that_cannot_be_looked_into_is_a_writer_in_our_pipeline_and_unknown_in_our_session()
    {
        let writer = Outside::Writer(Writer { pid: u32::MAX, command: String::new() });
        let stranger = Process { parent: 1, group: 7, session: 7 };
        let neighbour = Process { session: 40, ..stranger };
        let partner = Process { group: 50, ..neighbour };
        check(partner, Holds::Hidden, &writer);
        check(neighbour, Holds::Hidden, &Outside::Unknown);
        check(stranger, Holds::Hidden, &Outside::Nobody);
        for process in [partner, neighbour, stranger] {
            check(process, Holds::WriteEnd, &writer);
            check(process, Holds::Nothing, &Outside::Nobody);
        }
    }

    #[test]
    fn ancestors_hold_a_pipe_without_being_its_writers() {
        let parent = Process { parent: 1, group: 50, session: 40 };
        let table = HashMap::from([(50, Process { parent: 49, ..parent }), (49, parent)]);
        assert_eq!(judge(50, &table, |_| Holds::Hidden), Outside::Nobody);
        assert_eq!(judge(50, &table, |_| Holds::WriteEnd), Outside::Nobody);
    }
}
