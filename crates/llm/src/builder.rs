//! Turns stream events into a completion and refuses impossible orders.
