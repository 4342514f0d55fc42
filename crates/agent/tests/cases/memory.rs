//! How much memory this process has used at most, and how many bytes a thread of it has read.

/// Starts a new peak from what is in use now, and gives that, in KiB.
#[cfg(target_os = "linux")]
pub(crate) fn reset_peak() -> u64 {
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    field("VmRSS:")
}

/// The most that was in use since, in KiB.
#[cfg(target_os = "linux")]
pub(crate) fn peak() -> u64 {
    field("VmHWM:")
}

#[cfg(target_os = "linux")]
fn field(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(name)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn reset_peak() -> u64 {
    eprintln!("cases: memory is measured on Linux only; its bounds are NOT checked here");
    0
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn peak() -> u64 {
    0
}

/// What this thread reads, in all its calls of the system.
pub(crate) struct Reads {
    before: u64,
}

impl Reads {
    pub(crate) fn start() -> Self {
        Self { before: bytes_read() }
    }

    /// How many bytes it was since; a look at them costs some dozens.
    pub(crate) fn bytes(&self) -> u64 {
        bytes_read() - self.before
    }
}

#[cfg(target_os = "linux")]
fn bytes_read() -> u64 {
    let counts = std::fs::read_to_string("/proc/thread-self/io").unwrap();
    let count = counts.lines().find_map(|line| line.strip_prefix("rchar: ")).unwrap();
    count.parse().unwrap()
}

#[cfg(not(target_os = "linux"))]
fn bytes_read() -> u64 {
    eprintln!("cases: what is read is counted on Linux only; its bounds are NOT checked here");
    0
}
