//! summary.
