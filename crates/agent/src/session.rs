//! The transcript of a session and the one path by which it changes.
