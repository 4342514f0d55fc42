//! A request in any dialect, as it is sent; pure.

use serde_json::Value;

use super::anthropic::wire as messages;
use super::gemini::wire as contents;
use super::joined::Joined;
use super::openai_chat::wire as chat;
use super::openai_responses::wire as responses;
use crate::capability::{Dialect, Target};
use crate::types::ChatRequest;

/// The body of a request as one value, which is what [`body`] says in bytes.
pub fn to_wire(dialect: Dialect, req: &ChatRequest, target: Target) -> Value {
    match dialect {
        Dialect::Anthropic => messages::to_wire(req, target),
        Dialect::OpenaiChat => chat::to_wire(req, target),
        Dialect::OpenaiResponses => responses::to_wire(req, target),
        Dialect::Gemini => contents::to_wire(req, target),
    }
}

/// The body of a request, with what `joined` remembers of those before it.
pub fn body(dialect: Dialect, req: &ChatRequest, target: Target, joined: &Joined) -> Vec<u8> {
    match dialect {
        Dialect::Anthropic => messages::body(req, target, joined),
        Dialect::OpenaiChat => chat::body(req, target, joined),
        Dialect::OpenaiResponses => responses::body(req, target, joined),
        Dialect::Gemini => contents::body(req, target, joined),
    }
}
