//! Which part of a request is not as it was in the one before.
//!
//! Servers keep what requests begin with, and one changed byte costs all that stands behind it. Hashes of
//! the parts tell whose byte it was. The messages' hash is a chain: a step hashes the messages it adds,
//! and looks at no earlier one.

pub mod reads;

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::io;
use std::sync::Arc;

use llm::{CacheHint, Message, ToolSpec};
use serde::Serialize;

/// A part of a request, in the order in which servers read them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Section {
    /// Who is asked, and how hard it is to think: each model has a cache of its own.
    Model,
    /// What tools there are.
    Tools,
    /// The system text.
    System,
    /// The message at this place, counted from 0.
    Message(usize),
    /// What says that the beginning is worth keeping.
    CacheMarks,
    /// None of it.
    Nothing,
}

impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Model => f.write_str("model"),
            Self::Tools => f.write_str("tools"),
            Self::System => f.write_str("system"),
            Self::Message(at) => write!(f, "message {at}"),
            Self::CacheMarks => f.write_str("cache marks"),
            Self::Nothing => f.write_str("nothing"),
        }
    }
}

/// The hashes of the request that a session becomes, kept while it changes.
#[derive(Debug, Default)]
pub struct Prefix {
    head: Head,
    /// What stands at each place is of the message there and of all before it.
    chain: Vec<u64>,
    sent: Option<Sent>,
}

/// What stands before and beside the messages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Head {
    model: u64,
    tools: u64,
    system: u64,
    marks: u64,
}

/// The request that was sent last.
#[derive(Debug)]
struct Sent {
    head: Head,
    messages: usize,
    /// The end of its chain; the chain before it is that of now, unless there is another below.
    last: u64,
    /// Its chain, once all messages were made anew.
    chain: Option<Vec<u64>>,
}

impl Prefix {
    /// Another model, or the same one asked in another way.
    pub fn set_model(&mut self, asked: &impl Hash) {
        self.head.model = hash(|hasher| asked.hash(hasher));
    }

    /// The tools of every request.
    pub fn set_tools(&mut self, tools: &[ToolSpec]) {
        self.head.tools = hash(|hasher| write_json(tools, hasher));
    }

    /// The system text.
    pub fn set_system(&mut self, text: Option<&str>) {
        self.head.system = hash(|hasher| text.hash(hasher));
    }

    /// What says that later requests begin alike.
    pub fn set_marks(&mut self, hint: Option<&CacheHint>) {
        self.head.marks = hash(|hasher| hint.map(|hint| &hint.key).hash(hasher));
    }

    /// Something joined the last message.
    pub fn extended(&mut self, messages: usize) {
        self.chain.truncate(messages.saturating_sub(1));
    }

    /// The messages were made anew.
    pub fn renewed(&mut self) {
        let chain = std::mem::take(&mut self.chain);
        if let Some(sent) = &mut self.sent {
            sent.chain.get_or_insert(chain);
        }
    }

    /// Notes that a request with these messages is sent, and says what is not as it was in the one before;
    /// what only stands behind that one is no change.
    pub fn send(&mut self, messages: &[Arc<Message>]) -> Section {
        debug_assert!(
            self.chain.len() <= messages.len(),
            "messages go only when all are made anew"
        );
        for message in messages.get(self.chain.len()..).unwrap_or_default() {
            let before = self.chain.last().copied().unwrap_or_default();
            self.chain.push(hash(|hasher| {
                before.hash(hasher);
                write_json(&**message, hasher);
            }));
        }
        let changed = self.changed();
        let last = self.chain.last().copied().unwrap_or_default();
        self.sent = Some(Sent { head: self.head, messages: messages.len(), last, chain: None });
        changed
    }

    /// One number for all that was sent last.
    pub fn digest(&self) -> u64 {
        self.sent.as_ref().map_or(0, |sent| {
            let Head { model, tools, system, marks: _ } = sent.head;
            hash(|hasher| (model, tools, system, sent.last).hash(hasher))
        })
    }

    fn changed(&self) -> Section {
        let Some(sent) = &self.sent else { return Section::Nothing };
        let (now, before) = (self.head, sent.head);
        let message = || match &sent.chain {
            Some(chain) => (0..sent.messages).find(|at| chain.get(*at) != self.chain.get(*at)),
            // Only the last one can be another while the messages were not made anew.
            None => {
                let at = sent.messages.checked_sub(1)?;
                (self.chain.get(at) != Some(&sent.last)).then_some(at)
            }
        };
        if now.model != before.model {
            Section::Model
        } else if now.tools != before.tools {
            Section::Tools
        } else if now.system != before.system {
            Section::System
        } else if let Some(at) = message() {
            Section::Message(at)
        } else if now.marks != before.marks {
            Section::CacheMarks
        } else {
            Section::Nothing
        }
    }
}

fn hash(write: impl FnOnce(&mut DefaultHasher)) -> u64 {
    let mut hasher = DefaultHasher::new();
    write(&mut hasher);
    hasher.finish()
}

/// Hashes the JSON of a value without keeping it.
fn write_json<T: Serialize + ?Sized>(value: &T, hasher: &mut DefaultHasher) {
    struct Into<'a>(&'a mut DefaultHasher);
    impl io::Write for Into<'_> {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.write(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    // Not one `write` for each piece of JSON: a hash of many small pieces is slow.
    let mut out = io::BufWriter::with_capacity(1 << 10, Into(hasher));
    serde_json::to_writer(&mut out, value).expect("a message and a tool are JSON");
    io::Write::flush(&mut out).expect("a hasher takes everything");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(texts: &[&str]) -> Vec<Arc<Message>> {
        texts.iter().map(|text| Arc::new(Message::user_text(*text))).collect()
    }

    fn sent(texts: &[&str]) -> Prefix {
        let mut prefix = Prefix::default();
        prefix.set_system(Some("be brief"));
        assert_eq!(prefix.send(&said(texts)), Section::Nothing);
        prefix
    }

    #[test]
    fn what_stands_behind_the_last_request_changes_nothing() {
        let mut prefix = sent(&["a"]);
        assert_eq!(prefix.send(&said(&["a", "b", "c"])), Section::Nothing);
        assert_eq!(prefix.send(&said(&["a", "b", "c"])), Section::Nothing);
        // Made anew, and the same all the same.
        prefix.renewed();
        assert_eq!(prefix.send(&said(&["a", "b", "c", "d"])), Section::Nothing);
    }

    #[test]
    fn the_first_message_that_is_another_is_told() {
        let mut prefix = sent(&["a", "b", "c"]);
        prefix.renewed();
        assert_eq!(prefix.send(&said(&["a", "x", "c"])), Section::Message(1));
        prefix.renewed();
        prefix.renewed();
        assert_eq!(prefix.send(&said(&["a"])), Section::Message(1));
        prefix.extended(1);
        assert_eq!(prefix.send(&said(&["ab", "c"])), Section::Message(0));
        // What nobody was sent yet may be extended.
        prefix.send(&said(&["ab", "c"]));
        prefix.extended(3);
        assert_eq!(prefix.send(&said(&["ab", "c", "d"])), Section::Nothing);
    }

    #[test]
    fn each_part_beside_the_messages_is_told_by_its_name_the_first_that_servers_read() {
        let tool = || ToolSpec {
            name: "t".into(),
            description: String::new(),
            input_schema: serde_json::json!({}),
        };
        let mut prefix = sent(&["a"]);
        let key = CacheHint { key: "k".into() };
        prefix.set_marks(Some(&key));
        assert_eq!(prefix.send(&said(&["a"])).to_string(), "cache marks");
        prefix.set_system(Some("be long"));
        prefix.set_marks(None);
        assert_eq!(prefix.send(&said(&["a"])).to_string(), "system");
        prefix.set_tools(&[tool()]);
        prefix.set_system(None);
        assert_eq!(prefix.send(&said(&["a"])).to_string(), "tools");
        prefix.set_model(&"m");
        prefix.set_tools(&[]);
        assert_eq!(prefix.send(&said(&["a"])).to_string(), "model");
        assert_eq!(prefix.send(&said(&["a"])), Section::Nothing);
    }

    #[test]
    fn a_digest_is_that_of_all_that_was_sent_but_for_marks_which_move() {
        let (a, mut b) = (sent(&["a", "b"]), sent(&["a"]));
        assert_ne!(a.digest(), b.digest());
        b.set_marks(Some(&CacheHint { key: "k".into() }));
        b.send(&said(&["a", "b"]));
        assert_eq!(a.digest(), b.digest());
    }
}
