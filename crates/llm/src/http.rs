//! The only network code: client, deadlines, status check, body to server-sent events.
