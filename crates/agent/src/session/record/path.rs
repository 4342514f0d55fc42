//! Paths in records: a text where they are one, their bytes where they are not.
//!
//! A folder may have any name. One that is no text must not keep a session from being written.

use std::borrow::Cow;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A path as it is written.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Written<'a> {
    Text(Cow<'a, str>),
    Bytes { base64: String },
}

pub(super) fn serialize<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
    let written = match path.to_str() {
        Some(text) => Written::Text(text.into()),
        None => Written::Bytes { base64: STANDARD.encode(path.as_os_str().as_bytes()) },
    };
    written.serialize(to)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
    match Written::deserialize(from)? {
        Written::Text(text) => Ok(text.into_owned().into()),
        Written::Bytes { base64 } => {
            let bytes = STANDARD.decode(base64).map_err(D::Error::custom)?;
            Ok(OsString::from_vec(bytes).into())
        }
    }
}
