//! Arithmetic on token counts that several dialects share; pure.

/// The input that no cache served, out of a count that includes what caches read and wrote.
pub(super) fn uncached(input: u64, cache_read: Option<u64>, cache_write: Option<u64>) -> u64 {
    let (read, write) = (cache_read.unwrap_or(0), cache_write.unwrap_or(0));
    // More cached than input tokens: this server counts cached input apart (Grok on Azure).
    if read > input { input } else { (input - read).saturating_sub(write) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cached_input_is_taken_off_unless_it_was_counted_apart() {
        assert_eq!(uncached(100, Some(60), Some(30)), 10);
        assert_eq!(uncached(100, None, None), 100);
        assert_eq!(uncached(100, Some(60), Some(50)), 0);
        assert_eq!(uncached(10, Some(60), None), 10);
    }
}
