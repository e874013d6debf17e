//! The `SHOW` commands, one file each: their columns and how their rows are made.

pub mod aborts;
pub mod classes;
pub mod clients;
pub mod config;
pub mod databases;
pub mod fingerprint;
pub mod help;
pub mod levers;
pub mod lists;
pub mod mem;
pub mod pools;
pub mod preemptions;
pub mod queue;
pub mod servers;
pub mod state;
pub mod stats;
pub mod targets;
pub mod users;
pub mod version;
