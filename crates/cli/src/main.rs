//! The binary `anvil`: parse, run, exit.

fn main() {}
