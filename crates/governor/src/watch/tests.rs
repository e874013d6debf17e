//! The watcher, mostly against a real server: sessions are direct connections with cards made by hand.

mod acting;
mod beside;
mod cycles;
mod hostile;
mod looking;
mod outside;
mod resting;
mod running;
mod stage;
mod stalled;
mod standby;
mod stress;
