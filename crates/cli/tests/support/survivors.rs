//! Processes that outlived what started them, found by a word in their command line.

use std::time::{Duration, Instant};

/// A duration for `sleep` that no other test uses: it marks the process in the process table.
pub fn marker() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{}.{:03}", 100_000 + std::process::id() % 900_000, next)
}

/// Ids of living processes with `word` in their command line.
pub fn with(word: &str) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").unwrap();
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter(|pid: &u32| *pid != std::process::id() && is_alive_with(*pid, word)).collect()
}

fn is_alive_with(pid: u32, word: &str) -> bool {
    // A zombie has an empty command line.
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words: Vec<&str> =
        line.split(|byte| *byte == 0).filter_map(|word| std::str::from_utf8(word).ok()).collect();
    words.first().is_some_and(|program| program.ends_with("sleep")) && words.contains(&word)
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
