//! Read before write: remembers what the model has seen of each file, by content hash.
