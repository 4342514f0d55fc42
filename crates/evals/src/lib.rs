//! Watches anvil from outside: the layering test lives in `tests/`.
