//! The part of the tables that the lock table knows.

#[path = "../../src/table/latch.rs"]
pub mod latch;
