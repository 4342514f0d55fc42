//! What a repository asks authority for, as one number that changes when any of it does.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::project::Class;
use super::text::Leaf;

/// Longest list of files that command lines can name; a repository that names more is not trusted
/// by reading it.
const MAX_WORDS: usize = 1024;

/// Longest path that the system takes; a longer word names no file.
const MAX_PATH: usize = 4096;

/// Everything executable or authority-bearing that a repository's file holds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// The values by their keys.
    pub settings: BTreeMap<String, Value>,
    /// Files of the repository that command lines name or that are asked for themselves, with the digest
    /// of their content.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
}

impl Request {
    /// What these values ask for, as far as it needs a person's word.
    pub fn of(leaves: &[Leaf], files: BTreeMap<String, String>) -> Self {
        let binding = leaves.iter().filter(|leaf| Class::of(&leaf.key).needs_grant());
        let settings = binding.map(|leaf| (leaf.key.to_string(), leaf.value.clone())).collect();
        Self { settings, files }
    }

    /// Whether nothing is asked for.
    pub fn is_empty(&self) -> bool {
        self.settings.is_empty() && self.files.is_empty()
    }

    /// `sha256:` and the digest of the canonical JSON: keys sorted, nothing between.
    pub fn digest(&self) -> String {
        let value = serde_json::json!({"settings": self.settings, "files": self.files});
        digest_of(canonical(&value).as_bytes())
    }
}

/// `sha256:` and the digest of some bytes.
pub fn digest_of(bytes: &[u8]) -> String {
    let hex = Sha256::digest(bytes).iter().fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").expect("a string takes what is written to it");
        hex
    });
    format!("sha256:{hex}")
}

/// Why the words of command lines are not looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("its command lines have more than {MAX_WORDS} words")]
pub struct TooManyWords;

/// The words of command lines, each of which may be the name of a file in the repository.
///
/// # Errors
/// When they are too many to look at.
pub fn named_words(leaves: &[Leaf]) -> Result<BTreeSet<String>, TooManyWords> {
    let mut words = BTreeSet::new();
    for leaf in leaves {
        let texts: Vec<&str> = match leaf.key.names()[..] {
            ["hooks", _] => {
                let hooks = leaf.value.as_array().into_iter().flatten();
                hooks.filter_map(|hook| hook["command"].as_str()).collect()
            }
            ["mcp", _, "command"] => leaf.value.as_str().into_iter().collect(),
            ["mcp", _, "args"] => {
                leaf.value.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
            }
            _ => continue,
        };
        for text in texts {
            let between = |c: char| c.is_whitespace() || ";|&()<>{}'\"`=$,".contains(c);
            // Names that are quoted may hold white space.
            let pieces = text.split(['\'', '"']).chain(text.split(between)).chain([text]);
            for word in pieces.flat_map(endings).filter(|word| word.len() < MAX_PATH) {
                words.insert(word.to_owned());
                if words.len() > MAX_WORDS {
                    return Err(TooManyWords);
                }
            }
        }
    }
    Ok(words)
}

/// A path and what is left of it when its first parts are left out: they may be a variable for the
/// folder itself, such as `$PWD`.
fn endings(path: &str) -> impl Iterator<Item = &str> {
    let shorter = path.match_indices('/').map(|(at, _)| &path[at + 1..]);
    std::iter::once(path).chain(shorter).filter(|ending| !ending.is_empty())
}

/// JSON with the keys of every object sorted, so that equal values have equal texts.
fn canonical(value: &Value) -> String {
    match value {
        Value::Object(object) => {
            let sorted: BTreeMap<&String, &Value> = object.iter().collect();
            let pairs = sorted.into_iter().map(|(name, value)| {
                format!("{}:{}", Value::from(name.as_str()), canonical(value))
            });
            format!("{{{}}}", pairs.collect::<Vec<_>>().join(","))
        }
        Value::Array(items) => {
            format!("[{}]", items.iter().map(canonical).collect::<Vec<_>>().join(","))
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::text::parse;

    fn request(text: &str) -> Request {
        Request::of(&parse("f", text).unwrap().leaves, BTreeMap::new())
    }

    #[test]
    fn the_order_and_the_spelling_of_a_file_do_not_change_the_digest() {
        let one = "[mcp.x]\ncommand = \"sh\"\nargs = [\"-c\"]\n[sandbox]\nnetwork = true\n";
        let same =
            "# comment\nsandbox.network=true\nmcp = { x = { args = ['-c'], command = 'sh' } }";
        assert_eq!(request(one).digest(), request(same).digest());
        assert_eq!(
            canonical(&serde_json::json!({"b": 1, "a": [{"d": null, "c": "\n"}]})),
            "{\"a\":[{\"c\":\"\\n\",\"d\":null}],\"b\":1}"
        );
    }

    #[test]
    fn whatever_bears_authority_changes_the_digest() {
        let base = "[mcp.x]\ncommand = \"a\"\n";
        for more in [
            "args = [\"-c\"]",
            "env_passthrough = [\"TOKEN\"]",
            "[[hooks.stop]]\ncommand = \"x\"",
            "[providers.p]\nbase_url = \"http://h\"",
            "[providers.p]\napi_key_env = \"K\"",
            "[permissions]\nallow = [\"bash(x:*)\"]",
            "[permissions]\nmode = \"bypass\"",
            "[sandbox]\nmode = \"full-access\"",
            "[models.m]\nid = \"x\"",
        ] {
            assert_ne!(
                request(base).digest(),
                request(&format!("{base}{more}")).digest(),
                "{more}"
            );
        }
    }

    #[test]
    fn what_a_repository_may_say_anyway_does_not() {
        let base = "[mcp.x]\ncommand = \"a\"\n";
        for more in ["[agent]\nmax_steps = 3", "[permissions]\ndeny = [\"bash(curl:*)\"]"] {
            assert_eq!(
                request(base).digest(),
                request(&format!("{base}{more}")).digest(),
                "{more}"
            );
        }
        assert!(request("default_model = \"x\"").is_empty());
    }

    #[test]
    fn the_content_of_a_named_file_is_part_of_it() {
        let leaves = parse("f", "[[hooks.stop]]\ncommand = \"sh ./check.sh\"").unwrap().leaves;
        assert!(named_words(&leaves).unwrap().contains("./check.sh"));
        let quoted = "[[hooks.stop]]\ncommand = '''\"$PWD\"/a/b.sh; 'my check.sh' x=c.sh'''";
        let words = named_words(&parse("f", quoted).unwrap().leaves).unwrap();
        for word in ["a/b.sh", "my check.sh", "c.sh"] {
            assert!(words.contains(word), "{word}: {words:?}");
        }
        let with = |content: &str| {
            let files = BTreeMap::from([("check.sh".to_owned(), digest_of(content.as_bytes()))]);
            Request::of(&leaves, files).digest()
        };
        assert_ne!(with("exit 0"), with("touch PWNED"));
    }

    #[test]
    fn more_words_than_anybody_reads_are_refused() {
        let args: Vec<String> = (0..1025).map(|at| format!("\"w{at}\"")).collect();
        let text = format!("[mcp.x]\nargs = [{}]", args.join(","));
        assert_eq!(named_words(&parse("f", &text).unwrap().leaves), Err(TooManyWords));
        let most = text.replacen("\"w0\",", "", 1);
        assert_eq!(
            named_words(&parse("f", &most).unwrap().leaves).map(|words| words.len()),
            Ok(1024)
        );
    }

    #[test]
    fn a_command_line_of_nothing_but_slashes_costs_no_more_than_its_length() {
        let text = format!("[mcp.x]\ncommand = \"{}\"", "a/".repeat(400_000));
        assert_eq!(named_words(&parse("f", &text).unwrap().leaves), Err(TooManyWords));
    }
}
