//! Which session a run goes on with, or the new one that it begins.

use std::path::Path;

use agent::session::Opening;
use agent::session::journal::{self, Journal, JournalError};
use agent::session::record::Meta;
use agent::session::store::{Entry, Store};
use llm::config::SessionsSection;

use super::{Environment, StartError, new_session_id, retention};
use crate::args::Args;
use crate::redaction;

/// What the command line says about the session.
#[derive(Debug)]
pub(super) struct Choice {
    /// The id of the session that the run writes.
    pub(super) id: String,
    /// The one that it goes on with.
    resumed: Option<Entry>,
    is_fork: bool,
    /// Where it is kept; nowhere where nothing is kept.
    store: Option<Store>,
}

/// A session to go on with.
pub(super) struct Resumed {
    /// What it holds, and where it goes on.
    pub(super) opening: Opening,
    /// What is not as it should be.
    pub(super) problems: Vec<String>,
    /// What a person at the terminal may want to know.
    pub(super) notices: Vec<String>,
}

impl Choice {
    /// The session that `args` ask for in `cwd`; `id` is that of a new one.
    ///
    /// # Errors
    /// When there is no such session.
    pub(super) fn new(
        args: &Args,
        env: &Environment,
        cwd: &Path,
        id: &str,
    ) -> Result<Self, StartError> {
        let all = env.data_dir.as_deref().map(Store::new);
        let resumed = match (&all, &args.resume, args.r#continue) {
            (_, None, false) => None,
            (None, ..) => {
                return Err(StartError::Usage("HOME is not set: no session is kept".to_owned()));
            }
            (Some(store), Some(prefix), _) => {
                Some(store.find(cwd, prefix).map_err(StartError::usage)?)
            }
            (Some(store), None, true) => match store.latest(cwd).map_err(StartError::usage)? {
                Some(entry) => Some(entry),
                None => {
                    return Err(StartError::Usage(format!(
                        "no session was kept in {} yet, so there is none to continue: start without -c",
                        cwd.display()
                    )));
                }
            },
        };
        let is_fork = args.fork_session && resumed.is_some();
        let id = match &resumed {
            Some(entry) if !is_fork => entry.id.clone(),
            Some(_) => new_session_id(),
            None => id.to_owned(),
        };
        let store = all.filter(|_| !args.no_session_persistence);
        Ok(Self { id, resumed, is_fork, store })
    }

    /// The session to go on with, if one is.
    ///
    /// # Errors
    /// When it is damaged, in use, longer than `limits` let it be, or cannot be read.
    pub(super) fn resume(
        &self,
        cwd: &Path,
        limits: &SessionsSection,
    ) -> Result<Option<Resumed>, StartError> {
        let Some(entry) = &self.resumed else { return Ok(None) };
        let redactor = redaction::current();
        // Whoever keeps nothing makes no file longer.
        let near = match self.store {
            Some(_) => retention::of_file(&entry.id, entry.size, limits),
            None => Ok(None),
        };
        let mut problems: Vec<String> = near.map_err(StartError::Session)?.into_iter().collect();
        let (journal, state) = match &self.store {
            None => (None, journal::load(&entry.path).map_err(unusable)?.state),
            Some(store) if self.is_fork => {
                let (journal, state) =
                    store.fork(&entry.path, &self.id, cwd, redactor).map_err(unusable)?;
                (Some(journal), state)
            }
            Some(_) => {
                let (journal, loaded) = Journal::open(&entry.path, redactor).map_err(unusable)?;
                if let Some(torn) = loaded.torn {
                    problems.push(format!(
                        "line {} of the session was never finished: it is kept in {}, and the session goes \
                         on without it",
                        torn.line,
                        torn.kept.display()
                    ));
                }
                (Some(journal), loaded.state)
            }
        };
        let mut notices = Vec::new();
        match state.meta().map_or(Place::Here, |meta| elsewhere(&meta.cwd, cwd)) {
            Place::Here => {}
            Place::Another(notice) => notices.push(notice),
            Place::Lost(problem) => problems.push(problem),
        }
        let opening = Opening { state, journal, trouble: None };
        Ok(Some(Resumed { opening, problems, notices }))
    }

    /// What a person has to know about the size of all sessions.
    pub(super) fn crowded(&self, limits: &SessionsSection) -> Option<String> {
        retention::of_all(self.store.as_ref()?.total_bytes(), limits)
    }

    /// What the conversation tells about sizes later on, which is not what was told at its start.
    pub(super) fn growth(&self, limits: &SessionsSection) -> Growth {
        let told = retention::Told::nothing(limits.clone());
        let mut growth = Growth { told, store: self.store.clone() };
        growth.news(self.resumed.as_ref().map(|entry| entry.size));
        growth
    }

    /// A new session. Where it cannot be kept it goes on all the same, and the reason is told with its
    /// first turn.
    pub(super) fn begin(&self, meta: Meta) -> Opening {
        match &self.store {
            Some(store) => kept_in(store, meta),
            None => Opening::unsaved(meta),
        }
    }
}

/// How large sessions become while a conversation goes on.
pub(crate) struct Growth {
    told: retention::Told,
    store: Option<Store>,
}

impl Growth {
    /// What a person has to know since the last time; `file` is the size of the session's file, if it has
    /// one.
    pub(crate) fn news(&mut self, file: Option<u64>) -> Vec<String> {
        let Some(store) = &self.store else { return Vec::new() };
        self.told.news(file, || store.total_bytes())
    }
}

/// A new session in `store`, or one that says why it is not kept.
fn kept_in(store: &Store, meta: Meta) -> Opening {
    match store.create(meta.clone(), redaction::current()) {
        Ok((journal, state)) => Opening { state, journal: Some(journal), trouble: None },
        Err(error) => {
            tracing::warn!(%error, "the session is not kept");
            let trouble = format!("{error}; the run continues and is not kept");
            Opening { trouble: Some(trouble), ..Opening::unsaved(meta) }
        }
    }
}

/// Who answers in the demo, as people write it.
pub(crate) const DEMO_MODEL: &str = "demo:script";

/// The session of the demo, kept below `dir`.
pub(crate) fn demo_session(dir: &Path, cwd: &Path, id: &str) -> Opening {
    kept_in(&Store::new(dir), meta(id, cwd, DEMO_MODEL))
}

/// What a session is when it begins.
pub(super) fn meta(id: &str, cwd: &Path, model: &str) -> Meta {
    Meta {
        id: id.to_owned(),
        cwd: cwd.to_owned(),
        model: model.to_owned(),
        anvil: env!("CARGO_PKG_VERSION").to_owned(),
        ..Meta::default()
    }
}

fn unusable(error: impl Into<JournalError>) -> StartError {
    let error = error.into();
    let way = match error {
        JournalError::Io { .. } => {
            "; --no-session-persistence continues it without saving anything"
        }
        _ => "",
    };
    StartError::Session(format!("{error}{way}"))
}

/// Where a session began that goes on here.
#[derive(Debug, PartialEq, Eq)]
enum Place {
    Here,
    /// What is told of another folder.
    Another(String),
    /// What is told of one that is gone.
    Lost(String),
}

fn elsewhere(recorded: &Path, cwd: &Path) -> Place {
    if recorded == cwd || recorded.as_os_str().is_empty() {
        return Place::Here;
    }
    let (is_there, recorded, here) = (recorded.is_dir(), recorded.display(), cwd.display());
    match is_there {
        true => Place::Another(format!(
            "the session began in the directory {recorded} and continues in {here}"
        )),
        false => Place::Lost(format!(
            "the session's directory {recorded} is gone: it continues in {here}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_directory_is_told_and_a_lost_one_too() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(elsewhere(dir.path(), dir.path()), Place::Here);
        let Place::Another(told) = elsewhere(dir.path(), Path::new("/w")) else { panic!() };
        assert!(told.contains("continues in /w"), "{told}");
        let Place::Lost(gone) = elsewhere(&dir.path().join("x"), Path::new("/w")) else { panic!() };
        assert!(gone.contains("directory") && gone.contains("is gone"), "{gone}");
    }
}
