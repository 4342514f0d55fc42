//! Turns bytes of a `text/event-stream` into events; pure, with a line limit and an event limit.
