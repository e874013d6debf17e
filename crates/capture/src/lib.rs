//! Recorded traffic of PostgreSQL clients: what they sent, when, and what the server answered.
//!
//! A capture is a folder of segments. In reading order: [`event`] has what a segment holds.

pub mod event;
