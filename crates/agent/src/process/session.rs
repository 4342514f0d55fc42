//! Which processes of a session still run, although the program that started them is gone.

/// Ids and command lines of the living processes of this user whose environment names the session;
/// nothing where the system does not tell.
#[cfg(target_os = "linux")]
pub fn of_session(session_id: &str) -> Option<Vec<(u32, String)>> {
    use std::fs;

    let mark = format!("ANVIL_SESSION_ID={session_id}");
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").ok()?.flatten() {
        let Some(id) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        // Processes of others, and those that ended in between, cannot be read.
        let Ok(environment) = fs::read(entry.path().join("environ")) else { continue };
        if !environment.split(|&byte| byte == 0).any(|variable| variable == mark.as_bytes()) {
            continue;
        }
        let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let words: Vec<_> = command.split(|&byte| byte == 0).map(String::from_utf8_lossy).collect();
        found.push((id, words.join(" ").trim().to_owned()));
    }
    found.sort_unstable();
    Some(found)
}

/// Nothing is known.
#[cfg(not(target_os = "linux"))]
pub fn of_session(_session_id: &str) -> Option<Vec<(u32, String)>> {
    None
}
