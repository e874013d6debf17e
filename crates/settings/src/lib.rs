//! The settings of a governor: the keys of `plimsoll.toml`, their meaning, and how a file is read and written.
//!
//! In reading order: `table` lists every key; [`Settings`] is what the rows fill; [`read`] makes it of a file, and
//! [`mod@write`] writes a file; [`section`] is the table as data, for the JSON schema and the documentation. [`users`] is
//! the file with passwords of roles that settings may name.
//!
//! The crate knows no session and no connection: the governor obeys the settings, and other parts write files for it.

pub mod governed;
mod quantity;
pub mod read;
pub mod section;
mod settings;
mod table;
#[cfg(test)]
mod tests;
pub mod users;
mod values;
pub mod write;

pub use quantity::write_duration;
pub use settings::*;
