//! placeholder

pub mod columns;
pub mod query;
