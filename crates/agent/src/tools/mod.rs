//! The built-in tools, in the order the model sees them.

pub mod access;
pub mod bash;
pub mod calculator;
pub mod fs;
pub mod search;
pub mod tracker;
