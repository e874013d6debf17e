//! The `SHOW` commands, one file each: the columns and the code that fills the rows.

pub(crate) mod aborts;
pub(crate) mod capture;
pub(crate) mod class_stats;
pub(crate) mod classes;
pub(crate) mod clients;
pub mod config;
pub(crate) mod databases;
mod figures;
pub mod fingerprint;
pub(crate) mod govern;
pub(crate) mod governed;
pub(crate) mod help;
pub(crate) mod levers;
pub(crate) mod lists;
pub(crate) mod mem;
pub(crate) mod names;
pub(crate) mod peers;
pub(crate) mod pools;
pub(crate) mod preemptions;
pub(crate) mod queue;
pub(crate) mod servers;
pub(crate) mod sockets;
pub mod state;
pub(crate) mod stats;
pub(crate) mod targets;
pub(crate) mod users;
pub(crate) mod version;
