//! Workloads from files.
