//! How large sessions may grow: what is told before a limit, and what is refused at it.

use std::num::NonZeroU32;

use llm::config::SessionsSection;

const MB: u64 = 1 << 20;

/// Says what becomes of a session whose file has `bytes`: nothing, a line for a person, or why no run
/// goes on with it. Only a start refuses; a run that is there keeps all of its records.
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
             new session; `anvil sessions export {id}` prints what was said"
        ));
    }
    Ok(is_near(bytes, limit).then(|| growing(bytes, limit)))
}

fn growing(bytes: u64, limit: NonZeroU32) -> String {
    format!(
        "the session has {}, and at {limit} MB (sessions.max_file_mb) no further run can continue it: \
         raise the limit, or begin a new session soon",
        told(bytes)
    )
}

/// What was told about sizes, so that a conversation tells each thing once.
#[derive(Debug)]
pub(super) struct Told {
    limits: SessionsSection,
    is_file_told: bool,
    are_all_told: bool,
}

impl Told {
    /// Nothing was told yet.
    pub(super) fn nothing(limits: SessionsSection) -> Self {
        Self { limits, is_file_told: false, are_all_told: false }
    }

    /// What became worth telling: `file` is the size of the session's file, if it has one, and `all` counts
    /// the bytes of all sessions where somebody has to know.
    pub(super) fn news(&mut self, file: Option<u64>, all: impl FnOnce() -> u64) -> Vec<String> {
        let mut news = Vec::new();
        if let Some((bytes, limit)) = file.zip(self.limits.max_file_mb)
            && is_near(bytes, limit)
            && !std::mem::replace(&mut self.is_file_told, true)
        {
            news.push(growing(bytes, limit));
        }
        // Nobody looks through all folders for a limit that there is none of, or that was told.
        if !self.are_all_told && self.limits.max_total_mb.is_some() {
            let crowded = of_all(all(), &self.limits);
            self.are_all_told = crowded.is_some();
            news.extend(crowded);
        }
        news
    }
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
    fn between_turns_each_thing_is_told_once() {
        let mut told = Told::nothing(limits());
        assert_eq!(told.news(Some(7 * MB), || 0), Vec::<String>::new());
        assert_eq!(told.news(None, || 0), Vec::<String>::new());
        let near = told.news(Some(8 * MB), || 0);
        assert!(near.len() == 1 && near[0].contains("max_file_mb"), "{near:?}");
        let crowded = told.news(Some(11 * MB), || 11 * MB);
        assert!(crowded.len() == 1 && crowded[0].contains("over the limit"), "{crowded:?}");
        let unasked = || panic!("all folders were looked through again");
        assert_eq!(told.news(Some(12 * MB), unasked), Vec::<String>::new());
    }

    #[test]
    fn all_together_are_told_of_and_never_refused() {
        assert_eq!(of_all(7 * MB, &limits()), None);
        assert!(of_all(8 * MB, &limits()).unwrap().contains("near the limit of 10 MB"));
        assert!(of_all(11 * MB, &limits()).unwrap().contains("over the limit of 10 MB"));
    }
}
