//! Gives every call of an answer an id that no other call of it has; pure.

use std::collections::HashSet;

use crate::stream::IdSource;

/// The ids of one answer.
pub(super) struct CallIds {
    source: IdSource,
    used: HashSet<String>,
}

impl CallIds {
    /// Starts an answer; `source` makes the ids that the server does not give.
    pub(super) fn new(source: IdSource) -> Self {
        Self { source, used: HashSet::new() }
    }

    /// The server's `id` for a new call, or a made one when it is missing or taken.
    ///
    /// Two calls under one id could not be told apart by their results.
    pub(super) fn claim(&mut self, id: Option<&str>) -> String {
        let id = match id {
            Some(id) if !self.used.contains(id) => id.to_owned(),
            _ => (self.source)(),
        };
        self.used.insert(id.clone());
        id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_or_repeated_id_is_made_and_a_new_one_is_kept() {
        let mut made = 0;
        let mut ids = CallIds::new(Box::new(move || {
            made += 1;
            format!("made_{made}")
        }));
        let claimed =
            [ids.claim(Some("a")), ids.claim(None), ids.claim(Some("a")), ids.claim(Some("b"))];
        assert_eq!(claimed, ["a", "made_1", "made_2", "b"]);
    }
}
