//! Digests of what is compared later: files, texts, and lists of parts.
//!
//! SHA-256, because what is hashed may come from anyone and a collision would let a change pass unseen, and
//! because the processors of today hash a gigabyte a second and more with it.

use std::fmt;

use sha2::{Digest as _, Sha256};

/// The digest of some bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Hashes `content`.
    pub fn of(content: &[u8]) -> Self {
        let mut hasher = Hasher::default();
        hasher.update(content);
        hasher.finish()
    }
}

/// All of it, in hexadecimal.
impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest(")?;
        self.0[..4].iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        write!(f, "..)")
    }
}

/// Hashes what comes in pieces, so that a large file never lies in memory as a whole.
#[derive(Debug, Default)]
pub struct Hasher(Sha256);

impl Hasher {
    /// Takes the next piece. Where one ends and the next begins makes no difference.
    pub fn update(&mut self, piece: &[u8]) {
        self.0.update(piece);
    }

    /// Takes a part with its length, so that no two parts can trade bytes.
    pub fn part(&mut self, part: &[u8]) {
        self.0.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_le_bytes());
        self.0.update(part);
    }

    /// The digest of all of it together.
    pub fn finish(self) -> Digest {
        Digest(self.0.finalize().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_written_as_other_programs_write_it() {
        let want = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(Digest::of(b"abc").to_string(), want);
    }

    #[test]
    fn pieces_hash_like_the_whole() {
        let mut hasher = Hasher::default();
        hasher.update(b"one ");
        hasher.update(b"");
        hasher.update(b"two");
        assert_eq!(hasher.finish(), Digest::of(b"one two"));
    }

    #[test]
    fn parts_are_told_apart_and_pieces_are_not() {
        let of = |parts: &[&[u8]]| {
            let mut hasher = Hasher::default();
            parts.iter().for_each(|part| hasher.part(part));
            hasher.finish()
        };
        assert_ne!(of(&[b"a", b"bc"]), of(&[b"ab", b"c"]));
        assert_ne!(of(&[b"abc"]), of(&[b"abc", b""]));
        assert_eq!(of(&[b"a", b"bc"]), of(&[b"a", b"bc"]));
    }
}
