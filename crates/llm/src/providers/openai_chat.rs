//! The provider for this dialect: thin, over `wire` and `decode`.

pub mod decode;
pub mod options;
pub mod wire;
