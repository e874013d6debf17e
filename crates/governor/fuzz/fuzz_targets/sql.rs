//! Any text of a query.
#![no_main]

#[path = "../../tests/fuzz/sql.rs"]
mod sql;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sql::read(bytes));
