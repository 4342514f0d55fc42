//! Whether a server's cache shows that a request began otherwise than the one before.

use llm::Usage;

/// The fewest tokens that every known service keeps of a request; below that, nothing read says nothing.
const LEAST_CACHED: u64 = 4_096;

/// What a server told about its cache, from one request to the next.
#[derive(Debug, Default)]
pub struct CacheReads {
    /// The tokens of the request before, if they were told.
    before: Option<u64>,
    /// Whether that it reads little was told, and has not changed since.
    is_low: bool,
}

/// Far less was read from a cache than the request before has put there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Collapse {
    /// Tokens read.
    pub read: u64,
    /// Tokens of the request before.
    pub before: u64,
}

impl CacheReads {
    /// Takes in the counts of an answer: a collapse when less than half of the request before was read from
    /// a cache, once until that is over. A count that nobody told is none of zero.
    pub fn count(&mut self, usage: &Usage) -> Option<Collapse> {
        let before =
            std::mem::replace(&mut self.before, usage.sent()).filter(|sent| *sent >= LEAST_CACHED);
        let (read, before) = (usage.cache_read?, before?);
        let is_low = read < before / 2;
        let was_low = std::mem::replace(&mut self.is_low, is_low);
        (is_low && !was_low).then_some(Collapse { read, before })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(input: Option<u64>, read: Option<u64>) -> Usage {
        Usage { input, cache_read: read, ..Usage::default() }
    }

    #[test]
    fn reads_collapse_below_half_of_the_request_before_and_are_told_once() {
        let mut reads = CacheReads::default();
        assert_eq!(reads.count(&usage(Some(10_000), Some(0))), None);
        assert_eq!(reads.count(&usage(Some(2_000), Some(10_000))), None);
        assert_eq!(reads.count(&usage(Some(7_000), Some(6_000))), None);
        let collapse = Collapse { read: 6_499, before: 13_000 };
        assert_eq!(reads.count(&usage(Some(6_501), Some(6_499))), Some(collapse));
        assert_eq!(reads.count(&usage(Some(20_000), Some(0))), None);
        assert_eq!(reads.count(&usage(Some(1_000), Some(20_000))), None);
        assert!(reads.count(&usage(Some(22_000), Some(0))).is_some());
    }

    #[test]
    fn neither_a_count_that_nobody_told_nor_a_short_request_is_a_collapse() {
        let mut reads = CacheReads::default();
        for counts in [
            usage(Some(10_000), None),
            usage(None, None),
            usage(None, Some(0)),
            usage(Some(4_000), Some(0)),
            usage(Some(4_200), Some(0)),
        ] {
            assert_eq!(reads.count(&counts), None, "{counts:?}");
        }
        assert!(reads.count(&usage(Some(4_300), Some(0))).is_some());
    }
}
