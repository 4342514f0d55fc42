//! Keeps the head and the tail of a stream of bytes, and counts what lay between.

/// How many bytes of a stream are kept at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keep {
    /// The first bytes.
    pub head: usize,
    /// The last bytes.
    pub tail: usize,
}

/// What is left of a stream that may have been longer than anyone wants to hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Captured {
    /// The first bytes.
    pub head: Vec<u8>,
    /// The last bytes; they follow `head` directly when `omitted` is zero.
    pub tail: Vec<u8>,
    /// How many bytes between the two were dropped.
    pub omitted: u64,
}

impl Captured {
    /// Whether the stream held nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// At most the last `count` bytes that were kept.
    pub fn tail_of(&self, count: usize) -> Vec<u8> {
        let last = |bytes: &[u8], count: usize| bytes[bytes.len().saturating_sub(count)..].to_vec();
        let tail = last(&self.tail, count);
        // Only where nothing is missing between the two.
        match self.omitted {
            0 => [last(&self.head, count - tail.len()), tail].concat(),
            _ => tail,
        }
    }

    /// How many bytes the stream had.
    pub fn len(&self) -> u64 {
        self.omitted + self.head.len() as u64 + self.tail.len() as u64
    }
}

/// A capture that still runs. Memory: at most `keep.head + 2 * keep.tail` bytes.
#[derive(Debug)]
pub(super) struct Capture {
    keep: Keep,
    head: Vec<u8>,
    /// The last bytes and up to as many before them: dropping the older half now and then is cheaper than
    /// moving bytes on every read.
    tail: Vec<u8>,
    omitted: u64,
}

impl Capture {
    pub(super) fn new(keep: Keep) -> Self {
        Self { keep, head: Vec::new(), tail: Vec::new(), omitted: 0 }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        let (to_head, rest) = bytes.split_at(bytes.len().min(self.keep.head - self.head.len()));
        self.head.extend_from_slice(to_head);
        let (skipped, rest) = rest.split_at(rest.len().saturating_sub(self.keep.tail));
        if !skipped.is_empty() {
            self.omitted += (self.tail.len() + skipped.len()) as u64;
            self.tail.clear();
        }
        if self.tail.len() + rest.len() > 2 * self.keep.tail {
            self.drop_all_but(self.keep.tail);
        }
        self.tail.extend_from_slice(rest);
    }

    /// What was kept; the capture starts anew.
    pub(super) fn take(&mut self) -> Captured {
        self.drop_all_but(self.keep.tail);
        let Self { head, tail, omitted, .. } = std::mem::replace(self, Self::new(self.keep));
        Captured { head, tail, omitted }
    }

    fn drop_all_but(&mut self, kept: usize) {
        let old = self.tail.len().saturating_sub(kept);
        self.tail.drain(..old);
        self.omitted += old as u64;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_short_stream_is_kept_whole() {
        let mut capture = Capture::new(Keep { head: 4, tail: 4 });
        capture.push(b"abc");
        capture.push(b"defg");
        let captured = capture.take();
        assert_eq!(captured, Captured { head: b"abcd".into(), tail: b"efg".into(), omitted: 0 });
        assert_eq!(captured.len(), 7);
    }

    #[test]
    fn memory_stays_bounded_however_much_comes() {
        let keep = Keep { head: 1000, tail: 1000 };
        let mut capture = Capture::new(keep);
        for _ in 0..10_000 {
            capture.push(&[b'y'; 777]);
            assert!(capture.head.len() + capture.tail.len() <= 3000);
        }
        assert_eq!(capture.take().omitted, 7_770_000 - 2000);
    }

    proptest! {
        #[test]
        fn head_tail_and_count_are_exact_however_the_stream_is_cut(
            pieces in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 0..20),
            head in 0usize..30,
            tail in 0usize..30,
        ) {
            let whole = pieces.concat();
            let mut capture = Capture::new(Keep { head, tail });
            for piece in &pieces {
                capture.push(piece);
            }
            let captured = capture.take();
            let head_end = whole.len().min(head);
            let tail_start = head_end.max(whole.len().saturating_sub(tail));
            prop_assert_eq!(&captured.head[..], &whole[..head_end]);
            prop_assert_eq!(&captured.tail[..], &whole[tail_start..]);
            prop_assert_eq!(captured.omitted, (tail_start - head_end) as u64);
            prop_assert_eq!(captured.len(), whole.len() as u64);
            let last = captured.tail_of(7);
            prop_assert!(whole.ends_with(&last));
            prop_assert!(captured.omitted > 0 || last.len() == whole.len().min(7));
        }
    }
}
