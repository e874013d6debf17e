//! The governor: a proxy in front of a stock PostgreSQL server that keeps important work fast.
//!
//! One connection of a client is one connection to the server, so everything that a session has (settings, prepared
//! statements, listening, copying) passes through untouched. The governor acts at the boundaries of transactions and
//! on the server's processes. It decides nothing: it tells [`plimsoll_policy`] what it sees and does what that says.
//!
//! In reading order: [`settings`] is what an operator has asked for, [`governor`] what all threads share, [`registry`]
//! what is known of each session. `session` is the state machine of one session, bytes in and bytes out, without
//! sockets or clocks; `relay` has the sockets and drives it. `watch` asks the server who waits for whom, and carries out
//! what is decided. [`statement`] reads SQL as far as is needed, [`effects`] asks the
//! server's catalogs whether it may run twice; [`targets`] keeps what classes are promised; `admin` is what operators look at.
//! `handover` passes the sockets on to a new process.

pub mod admin;
pub mod agent;
pub mod config;
pub mod effects;
pub mod governor;
mod handover;
pub mod history;
pub mod metrics;
pub mod own_process;
pub mod page;
pub mod registry;
pub mod relay;
pub mod reload;
pub mod run;
pub mod session;
pub mod settings;
pub mod statement;
pub mod statistics;
pub mod targets;
pub mod top;
pub mod watch;
