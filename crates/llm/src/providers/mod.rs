//! One module a wire dialect; each is thin over a pure `wire` and a pure `decode` half, and
//! [`connect`] makes providers of them.

pub mod anthropic;
mod call_ids;
mod connect;
mod counts;
#[cfg(test)]
mod drive;
pub mod fault;
pub mod gemini;
mod held;
mod images;
mod joined;
mod loose;
pub mod ollama;
pub mod openai_chat;
pub mod openai_responses;
mod pieces;
mod request;
pub(crate) mod thinking;
pub(crate) mod tools;

pub use connect::{Connection, connect, replay};
pub use joined::Joined;
pub use request::{body, to_wire};
