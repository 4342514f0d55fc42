//! Whether compacting a dialogue still gains something, or is to be stopped.

/// How often in a row a compaction may gain next to nothing.
const MOST_IN_VAIN: u32 = 3;

/// What is left to try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rung {
    /// A summary, or a digest where no model gives one.
    Summary,
    /// A short digest, for which nobody is asked.
    Digest,
    /// Nothing.
    None,
}

/// How the last compactions came out.
///
/// What a server counts decides, because an estimate that is wrong would be wrong each time. Where none
/// counts, the estimate does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Gains {
    in_vain: u32,
    /// What a compaction began with that seems to have gained something.
    unjudged: Option<u64>,
}

impl Gains {
    /// Notes a compaction, with the tokens before and the estimate of those afterwards.
    pub fn compacted(&mut self, before: u64, after: u64) {
        match has_shrunk(before, after) {
            // The one before was not counted either, and seemed to have gained something too.
            true if self.unjudged.is_some() => self.in_vain = 0,
            true => {}
            false => self.in_vain += 1,
        }
        self.unjudged = has_shrunk(before, after).then_some(before);
    }

    /// Notes what a server counted since.
    pub fn counted(&mut self, tokens: u64) {
        if let Some(before) = self.unjudged.take() {
            self.in_vain = if has_shrunk(before, tokens) { 0 } else { self.in_vain + 1 };
        }
    }

    /// Notes that there is room again.
    pub fn has_room(&mut self) {
        *self = Self::default();
    }

    /// What to try next.
    pub fn rung(&self) -> Rung {
        match self.in_vain {
            0..MOST_IN_VAIN => Rung::Summary,
            MOST_IN_VAIN => Rung::Digest,
            _ => Rung::None,
        }
    }
}

/// Whether a context is so much smaller that it was worth it: less than seven tenths.
fn has_shrunk(before: u64, after: u64) -> bool {
    after.saturating_mul(10) < before.saturating_mul(7)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_in_vain_leave_a_digest_and_then_nothing() {
        let mut gains = Gains::default();
        for _ in 0..3 {
            assert_eq!(gains.rung(), Rung::Summary);
            gains.compacted(1_000, 700);
        }
        assert_eq!(gains.rung(), Rung::Digest);
        gains.compacted(1_000, 700);
        assert_eq!(gains.rung(), Rung::None);
        gains.has_room();
        assert_eq!(gains.rung(), Rung::Summary);
    }

    #[test]
    fn what_a_server_counts_decides_over_the_estimate() {
        let mut gains = Gains::default();
        for _ in 0..3 {
            gains.compacted(1_000, 100);
            gains.counted(990);
        }
        assert_eq!(gains.rung(), Rung::Digest);
        gains.compacted(1_000, 100);
        gains.counted(300);
        assert_eq!(gains.rung(), Rung::Summary);
    }

    #[test]
    fn without_a_count_the_estimate_decides() {
        let mut gains = Gains::default();
        for _ in 0..9 {
            gains.compacted(1_000, 100);
            assert_eq!(gains.rung(), Rung::Summary);
        }
        // Two in vain, then two that seem to have gained something.
        for after in [800, 800, 100, 100, 800] {
            gains.compacted(1_000, after);
        }
        assert_eq!(gains.rung(), Rung::Summary);
    }
}
