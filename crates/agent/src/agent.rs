//! Carries out what [`turn`](crate::turn) decides: the only place where a decision meets the world.
