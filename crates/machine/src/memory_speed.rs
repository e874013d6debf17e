//! How fast memory and caches of this machine are.

pub mod buffer;
pub mod caches;
pub mod chase;
pub mod stream;
