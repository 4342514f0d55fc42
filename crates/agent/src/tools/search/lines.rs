//! The first matching lines in order of path, whatever order the files are searched in. [pure]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Keeps the first results of a search that several threads carry out.
#[derive(Debug)]
pub(super) struct FirstLines {
    files: BTreeMap<PathBuf, Vec<String>>,
    count: usize,
    max: usize,
    dropped: bool,
}

impl FirstLines {
    /// Keeps `max` lines.
    pub(super) fn new(max: usize) -> Self {
        Self { files: BTreeMap::new(), count: 0, max, dropped: false }
    }

    /// Whether results of this file could still be among the first.
    pub(super) fn wants(&self, path: &Path) -> bool {
        self.count < self.max
            || self.files.last_key_value().is_none_or(|(last, _)| path < last.as_path())
    }

    /// Notes that results beyond the first were passed over.
    pub(super) fn pass_over(&mut self) {
        self.dropped = true;
    }

    /// Takes the lines of one file.
    pub(super) fn add(&mut self, path: PathBuf, lines: Vec<String>) {
        self.count += lines.len();
        self.files.insert(path, lines);
        // Whole files go as long as enough is left without them.
        while let Some(last) = self.files.last_entry() {
            if self.count - last.get().len() < self.max {
                break;
            }
            self.count -= last.remove().len();
            self.dropped = true;
        }
    }

    /// The lines, and whether there are more.
    pub(super) fn finish(self) -> (Vec<String>, bool) {
        let mut lines: Vec<String> = self.files.into_values().flatten().collect();
        let more = self.dropped || lines.len() > self.max;
        lines.truncate(self.max);
        (lines, more)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lines(path: &str, count: usize) -> Vec<String> {
        (1..=count).map(|line| format!("{path}:{line}")).collect()
    }

    #[test]
    fn a_file_after_the_last_kept_one_is_not_wanted_once_enough_is_there() {
        let mut first = FirstLines::new(3);
        first.add("b".into(), lines("b", 3));
        assert!(first.wants(Path::new("a")));
        assert!(!first.wants(Path::new("c")));
        first.add("a".into(), lines("a", 2));
        assert_eq!(
            first.finish(),
            (vec!["a:1".to_owned(), "a:2".to_owned(), "b:1".to_owned()], true)
        );
    }

    #[test]
    fn exactly_enough_is_not_more() {
        let mut first = FirstLines::new(2);
        first.add("a".into(), lines("a", 2));
        assert!(!first.finish().1);
    }

    proptest! {
        #[test]
        fn the_order_of_the_search_does_not_matter(
            counts in proptest::collection::vec(1usize..6, 1..12),
            order in any::<proptest::sample::Index>(),
        ) {
            let names: Vec<String> = (0..counts.len()).map(|n| format!("f{n:02}")).collect();
            let all: Vec<String> =
                names.iter().zip(&counts).flat_map(|(name, &count)| lines(name, count)).collect();
            let mut first = FirstLines::new(7);
            let start = order.index(names.len());
            for at in (start..names.len()).chain(0..start) {
                if first.wants(Path::new(&names[at])) {
                    first.add(names[at].clone().into(), lines(&names[at], counts[at]));
                } else {
                    first.pass_over();
                }
            }
            let want: Vec<String> = all.iter().take(7).cloned().collect();
            prop_assert_eq!(first.finish(), (want, all.len() > 7));
        }
    }
}
