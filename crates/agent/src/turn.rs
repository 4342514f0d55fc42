//! Decides what a turn does next: a state machine that never acts.
