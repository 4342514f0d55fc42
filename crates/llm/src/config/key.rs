//! The place of a value in a file: the names of the tables around it and its own.

use std::fmt;

/// A dotted key such as `providers.anthropic.base_url`.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Vec<String>);

impl Key {
    /// The key made of these names.
    pub fn of<const N: usize>(names: [&str; N]) -> Self {
        Self(names.map(str::to_owned).to_vec())
    }

    /// Reads a dotted key, quoted parts included, as TOML writes it.
    pub fn parse(text: &str) -> Option<Self> {
        let document = format!("{text} = 0");
        let table = toml::de::DeTable::parse(&document).ok()?;
        let mut names = Vec::new();
        let mut table = table.get_ref();
        loop {
            let (name, value) = table.iter().next()?;
            names.push(name.get_ref().to_string());
            match value.get_ref().as_table() {
                Some(inner) => table = inner,
                None => return Some(Self(names)),
            }
        }
    }

    /// The key one table deeper.
    pub fn child(&self, name: &str) -> Self {
        let mut names = self.0.clone();
        names.push(name.to_owned());
        Self(names)
    }

    /// The names, outermost first.
    pub fn names(&self) -> Vec<&str> {
        self.0.iter().map(String::as_str).collect()
    }

    /// Whether `other` is this key or something inside it.
    pub fn contains(&self, other: &Self) -> bool {
        other.0.starts_with(&self.0)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, name) in self.0.iter().enumerate() {
            if at > 0 {
                f.write_str(".")?;
            }
            let is_bare = !name.is_empty()
                && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
            match is_bare {
                true => f.write_str(name)?,
                false => write!(f, "{name:?}")?,
            }
        }
        Ok(())
    }
}

/// The known name that `word` was probably meant to be.
pub fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let close_enough = (word.chars().count() / 3).max(1);
    known
        .map(|name| {
            // Who writes only the start of a name means it all the same.
            let is_start = word.len() > 2 && name.starts_with(word);
            (if is_start { 0 } else { strsim::osa_distance(word, name) }, name)
        })
        .filter(|(distance, _)| *distance <= close_enough)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_and_shown_as_toml_writes_them() {
        for text in ["default_model", "models.\"gpt-5.5:x\".id", "providers.my-own.base_url"] {
            assert_eq!(Key::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(Key::parse("a . 'b.c'"), Some(Key::of(["a", "b.c"])));
        for wrong in ["", ".", "a.", "a b", "a\nb=1\nc"] {
            assert_eq!(Key::parse(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_slip_of_the_pen_is_told_from_another_word() {
        let known = ["permissions", "providers", "sandbox"];
        let near = |word| nearest(word, known.into_iter());
        assert_eq!(near("permisions"), Some("permissions"));
        assert_eq!(near("sandbxo"), Some("sandbox"));
        assert_eq!(near("telemetry"), None);
        assert_eq!(near("x"), None);
        assert_eq!(nearest("api_key", ["kind", "api_key_env"].into_iter()), Some("api_key_env"));
    }
}
