//! The watcher against a real server: sessions are direct connections with cards made by hand.

mod acting;
mod looking;
mod running;
mod stage;
mod stress;
