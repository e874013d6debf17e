//! The notation of Plimsoll's input and of its messages: TOML files with the places of their faults, amounts with
//! units, SQL, and suggestions for misspelled words.
//!
//! In reading order: [`At`] is a value with its place in a file, [`Problem`] a fault at such a place, and [`Source`]
//! makes a [`FileError`] of problems, with lines and columns. [`wrong_keys`] finds the keys that a JSON schema
//! ([`schema`]) does not have. [`quantity`] reads and writes amounts with units, and [`sql`] cuts SQL into pieces.
//! [`nearest`] and the functions beside it make the rest of a message.

mod at;
mod fault;
mod known_keys;
pub mod quantity;
mod quote;
pub mod schema;
pub mod sql;
mod words;

pub use at::At;
pub use fault::{Fault, FileError, Problem, Problems, Source, place, within};
pub use known_keys::wrong_keys;
pub use quote::{quoted, sql_name, toml_string};
pub use words::{alternatives, choices, did_you_mean, listed, meant_or_all, nearest, suggestion};
