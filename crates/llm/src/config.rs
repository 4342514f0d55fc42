//! The configuration: what every key is set to, by whom, and whether that may count.
//!
//! [`parse`] reads one file; [`Layers`] merges files, environment and options, and refuses what a
//! repository has no authority for; [`Settings`] gives the result as two types. What a repository
//! may say reaches [`InstructionConfig`]; commands, endpoints, credentials and permissions are in
//! [`TrustedRuntimeConfig`], which no value of a repository reaches without a [`Grant`] for exactly
//! that content. Files, variables and options come in as arguments.

pub mod builtin;
pub mod digest;
pub mod file;
pub mod key;
pub mod layers;
pub mod origin;
pub mod project;
pub mod rules;
pub mod settings;
pub mod text;

pub use builtin::{BuiltinProvider, FromVariable, environment};
pub use digest::{Request, TooManyWords, digest_of, named_words};
pub use file::{ConfigFile, ProviderEntry, SessionsSection, json_schema};
pub use key::Key;
pub use layers::{Layer, Layers, Place, Setting, Sources, Trust};
pub use origin::{CredentialOrigin, Origin, shown};
pub use project::{Class, Grant, Project, Standing};
pub use rules::{PlacedRule, RuleList, rules_in};
pub use settings::{InstructionConfig, ModelName, Settings, TrustedRuntimeConfig};
pub use text::{Fault, Leaf, Parsed, Spot, parse};

#[cfg(test)]
mod tests;
