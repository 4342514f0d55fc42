//! A notice: what it says, where it comes from, and what a model reads of it.

use llm::ContentBlock;
use serde::{Deserialize, Serialize};

use crate::paste;
use crate::secrets::redact::Redactor;

/// Most characters of a notice that no person wrote.
const MAX_CHARS: usize = 8 * 1024;

/// Where a notice comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The person at the terminal.
    User,
    /// A command in the background.
    Job,
    /// A verifier.
    Verifier,
    /// Another agent.
    Subagent,
}

impl Source {
    fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Job => "job",
            Self::Verifier => "verifier",
            Self::Subagent => "subagent",
        }
    }
}

/// Something to tell the model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    /// Unlike any other in the session.
    pub id: String,
    /// Where it comes from.
    pub source: Source,
    /// What it says.
    pub text: String,
}

impl Notice {
    /// What the model reads. A person's words are sent as they are, as every prompt is; all else is
    /// redacted, bounded and says where it comes from.
    pub fn block(&self, redactor: &Redactor) -> ContentBlock {
        if self.source == Source::User {
            return ContentBlock::text(paste::sealed(&self.text, redactor));
        }
        let text = redactor.redact(&self.text);
        let mut chars = paste::typed(&text).chars().collect::<Vec<_>>();
        let left_out = chars.len().saturating_sub(MAX_CHARS);
        chars.truncate(MAX_CHARS);
        let text: String = chars.into_iter().collect();
        let more = match left_out {
            0 => String::new(),
            count => format!("… ({count} more characters)"),
        };
        ContentBlock::text(format!("[{}] {text}{more}", self.source.name()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_person_wrote_is_bounded_redacted_and_says_where_it_comes_from() {
        let redactor = Redactor::new([("KEY", "hunter2hunter2hunter2")]);
        let text = format!("hunter2hunter2hunter2 {}", "x".repeat(MAX_CHARS));
        let job = Notice { id: "1".into(), source: Source::Job, text };
        let ContentBlock::Text { text, .. } = job.block(&redactor) else { panic!("a text block") };
        assert!(text.starts_with("[job] «redacted:KEY» xx"), "{}", &text[..40]);
        assert!(text.ends_with(" more characters)") && text.chars().count() < MAX_CHARS + 50);
        let user = Notice { id: "2".into(), source: Source::User, text: "no, the other".into() };
        assert_eq!(user.block(&redactor), ContentBlock::text("no, the other"));
    }
}
