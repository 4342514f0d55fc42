//! Chat request to JSON; pure.
