//! Server-sent events to stream events; pure.
