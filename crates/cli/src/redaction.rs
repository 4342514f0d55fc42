//! What takes secrets out of all that this program writes: one for the whole process, since logs, complaints
//! and panics come from anywhere.
//!
//! It begins with the environment alone; once the configuration is read it knows the keys of all providers
//! and what lies in the workspace's masked files, too. Neither is looked up before something is written.

use std::borrow::Cow;
use std::path::Path;
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use agent::secrets::{self, RedactStream, Redactor};
use agent::tools::access::{AccessRules, FileAccess};
use llm::recording::{Clean, Cleaner};

static CURRENT: LazyLock<RwLock<Arc<Redactor>>> =
    LazyLock::new(|| RwLock::new(Arc::new(Redactor::lazy(|| secrets::in_environment(&[])))));

/// The one in use.
pub(crate) fn current() -> Arc<Redactor> {
    Arc::clone(&CURRENT.read().unwrap_or_else(PoisonError::into_inner))
}

/// From here on knows the values of `keys`, variables that hold keys of providers, and what lies in files of
/// the workspace that are masked, by `masks` too.
pub(crate) fn learn(keys: Vec<String>, workspace: &Path, masks: &[String]) {
    let rules = AccessRules::workspace(workspace).masking(masks);
    let redactor = Arc::new(Redactor::lazy(move || {
        let mut known = secrets::in_environment(&keys);
        known.extend(FileAccess::secrets_in_masked_files(&rules.workspace, &rules.masked));
        known
    }));
    *CURRENT.write().unwrap_or_else(PoisonError::into_inner) = redactor;
}

/// The text without secrets.
pub(crate) fn clean(text: &str) -> Cow<'_, str> {
    match current().redact(text) {
        Cow::Borrowed(_) => Cow::Borrowed(text),
        Cow::Owned(cleaned) => Cow::Owned(cleaned),
    }
}

/// What takes secrets out of a recording. One that the model spells out over several pieces of its answer
/// is in none of them, and is found where they are put together.
pub(crate) fn cleaner() -> Cleaner {
    Arc::new(|| Box::new(Pieces(current().stream())))
}

struct Pieces(RedactStream);

impl Clean for Pieces {
    fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        self.0.push(bytes, &mut out);
        out
    }

    fn finish(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        self.0.finish(&mut out);
        out
    }
}
