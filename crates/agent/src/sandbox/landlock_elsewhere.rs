//! Landlock where there is none: everything it would confine is refused.

use std::io;
use std::path::Path;

use super::mounts::Ground;
use super::probe::Problem;
use crate::process::Restriction;

pub(super) fn version() -> Result<u32, Problem> {
    Err(Problem {
        what: "only Linux has Landlock".to_owned(),
        remedy: "leave out `[sandbox] backend`".to_owned(),
    })
}

pub(super) fn promise(_version: u32) -> String {
    String::new()
}

/// Never made, since there is no version.
#[derive(Debug)]
pub(super) struct Temporary;

impl Temporary {
    pub(super) fn new() -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn path(&self) -> &Path {
        Path::new("")
    }
}

#[expect(dead_code, reason = "nothing holds here")]
pub(super) struct Held<'a> {
    pub(super) ground: &'a Ground,
    pub(super) may_write: bool,
    pub(super) has_network: bool,
    pub(super) temporary: &'a Path,
}

pub(super) fn restriction(_held: &Held<'_>) -> io::Result<Restriction> {
    Err(io::ErrorKind::Unsupported.into())
}
