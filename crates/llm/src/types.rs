//! What a conversation consists of, as plain data that every provider shares.
//!
//! The names here are the stored format: a session written today must load in years. New fields are
//! optional and omitted when empty.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::capability::Effort;

/// Who speaks. System text travels beside the messages, tool results inside user messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The person, and the results of the tools that the assistant called.
    User,
    /// The model.
    Assistant,
}

/// State that only the named provider understands and that goes back to it unchanged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProviderMeta {
    /// The wire dialect that made the data, not the company that ran the server.
    pub provider: String,
    /// Verbatim content: a signature, an encrypted item, a whole block.
    pub data: Value,
}

/// A picture as base64 text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageData {
    /// A media type such as `image/png`.
    pub media_type: String,
    /// The bytes in standard base64 with padding.
    pub data: String,
}

/// One piece of a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ContentBlock {
    /// Visible text, refusals included.
    Text {
        /// The text.
        text: String,
        /// Opaque state that arrived with exactly this block.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        meta: Option<ProviderMeta>,
    },
    /// A picture the user supplied.
    Image(ImageData),
    /// The model's reasoning or a summary of it; the text may be empty when only state was sent.
    Reasoning {
        /// Visible reasoning.
        text: String,
        /// Signature or encrypted content needed to replay the block.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        meta: Option<ProviderMeta>,
    },
    /// The model asks for a tool to be run.
    ToolCall {
        /// Unique in the whole transcript.
        id: String,
        /// The tool's name.
        name: String,
        /// A JSON object; a `Value::String` with the raw text when the model's JSON was broken.
        arguments: Value,
        /// Opaque state that belongs to the call.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        meta: Option<ProviderMeta>,
    },
    /// What a tool answered.
    ToolResult {
        /// The id of the call this answers.
        call_id: String,
        /// Text for the model.
        content: String,
        /// Whether the tool failed.
        #[serde(default)]
        is_error: bool,
        /// Pictures the tool produced.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        images: Vec<ImageData>,
    },
    /// A server-side block that only its own provider can read; kept and replayed verbatim.
    Opaque {
        /// The block.
        meta: ProviderMeta,
    },
}

impl ContentBlock {
    /// A text block without provider state.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into(), meta: None }
    }

    /// A result without pictures.
    pub fn tool_result(
        call_id: impl Into<String>,
        content: impl Into<String>,
        is_error: bool,
    ) -> Self {
        Self::ToolResult {
            call_id: call_id.into(),
            content: content.into(),
            is_error,
            images: Vec::new(),
        }
    }

    /// The block's name in the stored format, for messages about it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Text { .. } => "text",
            Self::Image(_) => "image",
            Self::Reasoning { .. } => "reasoning",
            Self::ToolCall { .. } => "tool_call",
            Self::ToolResult { .. } => "tool_result",
            Self::Opaque { .. } => "opaque",
        }
    }
}

/// A call as the agent wants to see it: borrowed from its block.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ToolCallRef<'a> {
    /// The call's id.
    pub id: &'a str,
    /// The tool's name.
    pub name: &'a str,
    /// The arguments as decoded.
    pub arguments: &'a Value,
}

/// One turn of the dialogue.
#[derive(Clone, Serialize, Deserialize)]
pub struct Message {
    role: Role,
    content: Vec<ContentBlock>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    author: Option<String>,
}

impl Message {
    /// A message of `content` in this order.
    pub fn new(role: Role, content: Vec<ContentBlock>) -> Self {
        Self { role, content, author: None }
    }

    /// The same, said by this model of this provider.
    #[must_use]
    pub fn by(mut self, author: impl Into<String>) -> Self {
        self.author = Some(author.into());
        self
    }

    /// A user message of one text block.
    pub fn user_text(text: impl Into<String>) -> Self {
        Self::new(Role::User, vec![ContentBlock::text(text)])
    }

    /// An assistant message of one text block.
    pub fn assistant_text(text: impl Into<String>) -> Self {
        Self::new(Role::Assistant, vec![ContentBlock::text(text)])
    }

    /// Who speaks.
    pub fn role(&self) -> Role {
        self.role
    }

    /// Which model of which provider said it, in the words of whoever committed it; nothing for a user
    /// and in transcripts from before it was kept.
    pub fn author(&self) -> Option<&str> {
        self.author.as_deref()
    }

    /// The blocks in order.
    pub fn content(&self) -> &[ContentBlock] {
        &self.content
    }

    /// The blocks for change.
    pub fn content_mut(&mut self) -> &mut Vec<ContentBlock> {
        &mut self.content
    }

    /// All text blocks joined without a separator.
    pub fn text(&self) -> String {
        self.content
            .iter()
            .filter_map(|block| match block {
                ContentBlock::Text { text, .. } => Some(text.as_str()),
                _ => None,
            })
            .collect()
    }

    /// The calls in order.
    pub fn tool_calls(&self) -> impl Iterator<Item = ToolCallRef<'_>> {
        self.content.iter().filter_map(|block| match block {
            ContentBlock::ToolCall { id, name, arguments, .. } => {
                Some(ToolCallRef { id, name, arguments })
            }
            _ => None,
        })
    }
}

/// Whether the same is said; not by whom.
impl PartialEq for Message {
    fn eq(&self, other: &Self) -> bool {
        self.role == other.role && self.content == other.content
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message").field("role", &self.role).field("content", &self.content).finish()
    }
}

/// A tool as the model sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// The name it is called by.
    pub name: String,
    /// What it does and when to use it.
    pub description: String,
    /// JSON Schema of the arguments; the root is an object.
    pub input_schema: Value,
}

/// Everything a provider needs for one answer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ChatRequest {
    /// The provider's own model id.
    pub model: String,
    /// System text, sent before the messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// The dialogue; shared, because the same messages go out with every step.
    pub messages: Vec<Arc<Message>>,
    /// The tools on offer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToolSpec>,
    /// The most tokens the answer may have; 0 leaves it to the server where the protocol allows.
    pub max_tokens: u32,
    /// Sampling temperature; absent means the server's default, and some models take no other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f32>,
    /// Whether tools are to be called; absent means that the model chooses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_choice: Option<ToolChoice>,
    /// How hard the model is to think; absent means the server's default. What the model does not
    /// know becomes the nearest that it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<Effort>,
    /// The most tokens that the model may think with, for those that count them; 0 for none. For others
    /// it stands for an effort, unless one is told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking_budget: Option<u32>,
    /// Says that later requests will begin like this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<CacheHint>,
}

/// Whether tools are to be called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolChoice {
    /// The model chooses.
    Auto,
    /// At least one, where the target can be made to.
    Required,
    /// None, although they are described: taking the descriptions out would spoil a cached beginning.
    None,
}

/// Says that later requests will begin like this one, so that what is computed for the beginning is
/// worth keeping.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheHint {
    /// The same in all requests that share a beginning, and telling nothing about who sends them; at
    /// most [`LONGEST_KEY`](Self::LONGEST_KEY) characters.
    pub key: String,
}

impl CacheHint {
    /// The longest key that every server with a use for it takes, in characters.
    pub const LONGEST_KEY: usize = 64;
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn meta(data: Value) -> Option<ProviderMeta> {
        Some(ProviderMeta { provider: "some-dialect".into(), data })
    }

    fn picture() -> ImageData {
        ImageData { media_type: "image/png".into(), data: "iVBORw0KGgo=".into() }
    }

    fn every_block() -> Message {
        Message::new(
            Role::Assistant,
            vec![
                ContentBlock::text("plain"),
                ContentBlock::Text { text: "signed".into(), meta: meta(json!({"sig": "c2ln"})) },
                ContentBlock::Image(picture()),
                ContentBlock::Reasoning { text: "hm".into(), meta: None },
                ContentBlock::Reasoning { text: String::new(), meta: meta(json!("ZW5j")) },
                ContentBlock::ToolCall {
                    id: "c1".into(),
                    name: "ls".into(),
                    arguments: json!({"path": ".", "all": true}),
                    meta: None,
                },
                ContentBlock::ToolCall {
                    id: "c2".into(),
                    name: "ls".into(),
                    arguments: Value::String("{\"path".into()),
                    meta: meta(json!([1, 2])),
                },
                ContentBlock::tool_result("c1", "two files", false),
                ContentBlock::ToolResult {
                    call_id: "c2".into(),
                    content: "no".into(),
                    is_error: true,
                    images: vec![picture()],
                },
                ContentBlock::Opaque { meta: meta(json!({"type": "search"})).unwrap() },
            ],
        )
    }

    #[test]
    fn a_message_of_every_block_keeps_its_stored_form_and_loads_as_it_was() {
        let message = every_block();
        insta::assert_json_snapshot!(message);
        let stored = serde_json::to_string(&message).unwrap();
        assert_eq!(serde_json::from_str::<Message>(&stored).unwrap(), message);
    }

    #[test]
    fn what_is_absent_is_left_out_of_the_stored_form() {
        let blocks = vec![
            ContentBlock::text("t"),
            ContentBlock::Reasoning { text: "r".into(), meta: None },
            ContentBlock::tool_result("c1", "ok", false),
        ];
        assert_eq!(
            serde_json::to_value(Message::new(Role::User, blocks)).unwrap(),
            json!({"role": "user", "content": [
                {"type": "text", "text": "t"},
                {"type": "reasoning", "text": "r"},
                {"type": "tool_result", "call_id": "c1", "content": "ok", "is_error": false},
            ]})
        );
        assert_eq!(
            serde_json::to_value(ChatRequest::default()).unwrap(),
            json!({"model": "", "messages": [], "max_tokens": 0})
        );
    }

    #[test]
    fn an_older_form_without_the_later_fields_loads() {
        let stored =
            r#"{"role":"user","content":[{"type":"tool_result","call_id":"c1","content":"ok"}]}"#;
        let message: Message = serde_json::from_str(stored).unwrap();
        assert_eq!(message.content(), [ContentBlock::tool_result("c1", "ok", false)]);
    }

    #[test]
    fn an_author_is_stored_and_stays_with_a_message_that_changes() {
        let mut message = Message::assistant_text("a").by("p:m");
        let stored = serde_json::to_value(&message).unwrap();
        assert_eq!(stored["author"], "p:m");
        let loaded: Message = serde_json::from_value(stored).unwrap();
        message.content_mut().push(ContentBlock::text("b"));
        assert_eq!((loaded.author(), message.clone().author()), (Some("p:m"), Some("p:m")));
    }

    #[test]
    fn text_and_calls_are_found_among_other_blocks() {
        let message = every_block();
        assert_eq!(message.text(), "plainsigned");
        let calls: Vec<_> = message.tool_calls().map(|call| (call.id, call.name)).collect();
        assert_eq!(calls, [("c1", "ls"), ("c2", "ls")]);
    }
}
