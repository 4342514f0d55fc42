//! What a request is made of beside the dialogue, and how the dialogue stays inside the window.

pub mod budget;
pub mod clear;
pub mod compact;
pub mod environment;
pub mod instructions;
pub mod prefix;
pub mod prompt;
pub mod template;
