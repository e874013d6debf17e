//! Queries on several worker processes, compared with the embedded engine over the same data.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "cluster/answers.rs"]
mod answers;
#[path = "cluster/command_line.rs"]
mod command_line;
#[path = "cluster/encryption.rs"]
mod encryption;
#[path = "cluster/live.rs"]
mod live;
#[path = "cluster/losses.rs"]
mod losses;
#[path = "cluster/pair.rs"]
mod pair;
#[path = "common/program.rs"]
mod program;
#[path = "cluster/random_query.rs"]
mod random_query;
#[path = "cluster/recording_proxy.rs"]
mod recording_proxy;
#[path = "cluster/traffic.rs"]
mod traffic;
