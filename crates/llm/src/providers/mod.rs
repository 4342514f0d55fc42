//! One module a wire dialect; each is a thin provider over a pure `wire` and a pure `decode` half.

pub mod anthropic;
mod call_ids;
mod counts;
#[cfg(test)]
mod drive;
pub mod fault;
pub mod gemini;
mod held;
mod loose;
pub mod ollama;
pub mod openai_chat;
pub mod openai_responses;
mod pieces;
mod servers;
pub(crate) mod tools;

pub use pieces::CallIdRule;
