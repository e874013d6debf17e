//! Pooling: clients share server connections, transaction by transaction.
//!
//! A *link* stands between a session and the server. The session believes that it has a server of its own; the link
//! asks the pool for a connection when the session sends something, and gives the connection back when the session is
//! at rest and has left nothing in it. Everything else (admission, rollbacks, replays, cancels, shares of the cores)
//! works as without a pool, because the session does not change.
//!
//! Three things follow a client from one connection to the next:
//!
//! - **prepared statements** ([`statements`]): a client's names are names of texts, which all clients share; a
//!   connection that lacks a text gets it just before it is bound, in the same round trip;
//! - **settings** ([`settings`]): what a session has set is asked of the server after the transaction that set it, and
//!   set on the next connection before the next transaction, in the same round trip;
//! - **reported parameters**: a client hears of a value once, whichever connection has it.
//!
//! Whatever else lives in a session pins it to its connection ([`link::Link::pin`]).
//!
//! In reading order: [`link`] is a state machine without sockets, [`connection`] what is known of a server connection,
//! [`pools`] who has which. `relay` has the sockets.

pub mod connection;
pub mod link;
pub mod pools;
pub mod settings;
pub mod statements;
