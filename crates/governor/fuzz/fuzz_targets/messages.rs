//! Any messages from both sides of a session.
#![no_main]
#![allow(dead_code, reason = "the parts are shared by all targets")]

#[path = "../../tests/fuzz/choices.rs"]
mod choices;
#[path = "../../tests/fuzz/messages.rs"]
mod messages;
#[path = "../../tests/fuzz/world.rs"]
mod world;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| messages::feed(bytes));
