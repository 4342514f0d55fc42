//! What a model is told before the first word of a person.

pub mod instructions;
