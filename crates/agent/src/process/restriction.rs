//! What a child is held by because the thread that starts it is.

use std::fmt;
use std::io;
use std::sync::Arc;

/// What a thread does to itself, for good, before it starts a child, which inherits it. The thread ends
/// afterwards.
#[derive(Clone)]
pub struct Restriction(Arc<Restrict>);

type Restrict = dyn Fn() -> io::Result<()> + Send + Sync;

impl Restriction {
    /// Of what `restrict` does to the thread that calls it. Where it fails the child is not started.
    pub fn new(restrict: impl Fn() -> io::Result<()> + Send + Sync + 'static) -> Self {
        Self(Arc::new(restrict))
    }

    pub(super) fn apply(&self) -> io::Result<()> {
        (self.0)()
    }
}

impl fmt::Debug for Restriction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Restriction")
    }
}
