//! A provider that answers from a script, for tests.
