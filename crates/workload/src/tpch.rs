//! TPC-H.
