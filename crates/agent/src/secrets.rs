//! What a child process may know: an allowlist of environment variables.
