//! PostgreSQL as a database under test: a connection, a private server, and a look at what its backends do.

pub mod activity;
pub mod server;
