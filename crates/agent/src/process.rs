//! Runs child processes and cleans up after them; the only spawner.
