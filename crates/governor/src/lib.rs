//! The governor: a proxy in front of a stock PostgreSQL server that keeps important work fast.
//!
//! Each session has one connection to the server, so its state (settings, prepared statements, LISTEN, COPY) passes through
//! untouched; with a [`pool`] it has one for each transaction, and the state follows. The governor acts at the boundaries of transactions and on the server's
//! processes. It does not decide: it passes facts to [`plimsoll_policy`] and carries out the decisions.
//!
//! In reading order: [`settings`] is the operator's configuration, [`governor`] the state that all threads share, [`registry`]
//! the known facts about each session. `session` is the state machine of one session, bytes in and bytes out, without sockets or
//! clocks; `relay` has the sockets and drives it. `watch` asks the server which transactions wait for which, and carries out
//! decisions. [`statement`] reads as much SQL as necessary, and [`effects`] asks the server's catalogs whether it may run twice.
//! [`credentials`] lets clients in, and logs in at the server, for a governor that pools connections.
//! `targets` keeps promised response times; `capture` records traffic; `admin` is the console for operators. `handover` passes the sockets to a new
//! process.

pub mod activity;
pub mod admin;
mod agent;
mod awake;
pub mod capture;
pub mod config;
pub mod credentials;
pub mod effects;
pub mod governor;
mod handover;
mod history;
pub mod metrics;
mod own_process;
pub mod page;
pub mod pool;
pub mod registry;
pub mod relay;
mod reload;
pub mod run;
mod service;
pub mod session;
pub mod settings;
pub mod statement;
mod statistics;
mod targets;
#[cfg(test)]
mod testing;
pub mod top;
pub mod watch;
