//! The smallest tool: arithmetic the model should not do in its head.
