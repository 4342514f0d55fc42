//! bash: schema and text over [`process`](crate::process).
