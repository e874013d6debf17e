//! The agent on a simulated machine, and on this one with a real server.

mod beside;
mod cached;
mod cached_real;
mod grouped;
mod idle;
mod limited;
mod made_up;
mod real;
mod shares;
mod workers;
