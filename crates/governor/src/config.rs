//! The settings file: `plimsoll-settings` reads it, [`check`] is the output of `plimsoll govern --check`,
//! and [`pgbouncer`] makes a file of pgbouncer's settings.

pub mod check;
pub mod pgbouncer;

pub(crate) use plimsoll_settings::read::read_for;
pub use plimsoll_settings::read::{Config, ConfigError, Surroundings, parse, read};
