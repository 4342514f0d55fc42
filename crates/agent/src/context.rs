//! What a model is told before the first word of a person.

pub mod budget;
pub mod clear;
pub mod compact;
pub mod environment;
pub mod instructions;
pub mod prefix;
pub mod prompt;
pub mod template;
