//! Processes that outlived what started them, found by a word in their command line.

use std::time::{Duration, Instant};

/// A duration for `sleep` that no other test uses: it marks the process in the process table.
pub fn marker() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{}.{:03}", 100_000 + std::process::id() % 900_000, next)
}

/// Ids of living `sleep` processes with `word` among their arguments.
pub fn with(word: &str) -> Vec<u32> {
    let is_it = |line: &str| {
        let mut words = line.split_whitespace();
        words.next().is_some_and(|program| program.ends_with("sleep")) && words.any(|w| w == word)
    };
    command_lines().into_iter().filter(|(_, line)| is_it(line)).map(|(pid, _)| pid).collect()
}

/// Every process with its command line; that of a zombie is empty.
#[cfg(target_os = "linux")]
fn command_lines() -> Vec<(u32, String)> {
    let entries = std::fs::read_dir("/proc").unwrap();
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.map(|pid: u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        (pid, String::from_utf8_lossy(&line).replace('\0', " "))
    })
    .collect()
}

#[cfg(not(target_os = "linux"))]
fn command_lines() -> Vec<(u32, String)> {
    let listed = std::process::Command::new("ps").args(["-axo", "pid=,args="]).output().unwrap();
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    let parse = |line: &str| {
        let (pid, args) = line.trim().split_once(' ')?;
        Some((pid.parse().ok()?, args.to_owned()))
    };
    text.lines().filter_map(parse).collect()
}

/// Fails if something with `word` is alive one second from now, the time that the kernel and a
/// loaded machine may need.
#[track_caller]
pub fn assert_none(word: &str) {
    let started = Instant::now();
    loop {
        let alive = with(word);
        if alive.is_empty() {
            return;
        }
        assert!(started.elapsed() < Duration::from_secs(1), "still alive: {alive:?} ({word})");
        std::thread::sleep(Duration::from_millis(20));
    }
}
