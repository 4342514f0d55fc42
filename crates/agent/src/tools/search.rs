//! glob and grep.
