//! How large sessions may grow: what is told before a limit, and what is refused at it.

use std::num::NonZeroU32;

use llm::config::SessionsSection;

const MB: u64 = 1 << 20;

/// Says what becomes of a session whose file has `bytes`: nothing, a line for a person, or why no run
/// goes on with it. Only a start asks; a turn that runs keeps all of its records.
///
/// # Errors
/// The refusal.
pub(super) fn of_file(
    id: &str,
    bytes: u64,
    limits: &SessionsSection,
) -> Result<Option<String>, String> {
    let Some(limit) = limits.max_file_mb else { return Ok(None) };
    let size = told(bytes);
    if bytes >= in_bytes(limit) {
        return Err(format!(
            "session {id} has {size} and the limit is {limit} MB (sessions.max_file_mb): raise it, or begin a \
             new session; `anvil sessions export {id}` gives out what was said"
        ));
    }
    let notice = || {
        format!(
            "the session has {size}, and at {limit} MB (sessions.max_file_mb) no further run goes on with it: \
             raise the limit, or begin a new session soon"
        )
    };
    Ok(is_near(bytes, limit).then(notice))
}

/// What is told of all sessions together. Nothing is deleted, and sessions go on being kept.
pub(super) fn of_all(bytes: u64, limits: &SessionsSection) -> Option<String> {
    let limit = limits.max_total_mb.filter(|limit| is_near(bytes, *limit))?;
    let place = if bytes >= in_bytes(limit) { "over" } else { "near" };
    Some(format!(
        "all sessions together have {}, {place} the limit of {limit} MB (sessions.max_total_mb): `anvil \
         sessions prune --older-than 30d` lists what could go",
        told(bytes)
    ))
}

fn in_bytes(limit: NonZeroU32) -> u64 {
    u64::from(limit.get()) * MB
}

/// From four fifths on.
fn is_near(bytes: u64, limit: NonZeroU32) -> bool {
    bytes >= in_bytes(limit) / 5 * 4
}

fn told(bytes: u64) -> String {
    format!("{} MB", bytes / MB)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> SessionsSection {
        let limit = NonZeroU32::new(10);
        SessionsSection { max_file_mb: limit, max_total_mb: limit, max_log_mb: None }
    }

    #[test]
    fn a_file_is_told_of_near_its_limit_and_refused_at_it() {
        assert_eq!(of_file("s", 7 * MB, &limits()), Ok(None));
        let near = of_file("s", 8 * MB, &limits()).unwrap().unwrap();
        assert!(near.contains("8 MB") && near.contains("max_file_mb"), "{near}");
        let refused = of_file("s", 10 * MB, &limits()).unwrap_err();
        assert!(refused.contains("limit is 10 MB") && refused.contains("export s"), "{refused}");
        assert_eq!(of_file("s", 99 * MB, &SessionsSection::default()), Ok(None));
    }

    #[test]
    fn all_together_are_told_of_and_never_refused() {
        assert_eq!(of_all(7 * MB, &limits()), None);
        assert!(of_all(8 * MB, &limits()).unwrap().contains("near the limit of 10 MB"));
        assert!(of_all(11 * MB, &limits()).unwrap().contains("over the limit of 10 MB"));
    }
}
