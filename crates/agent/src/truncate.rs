//! Keeps tool output inside a budget without hiding that something was cut.
