//! Several sessions whose transactions are recorded, rolled back and replayed.
#![no_main]
#![allow(dead_code, reason = "the parts are shared by all targets")]

/// So that `society` finds its parts where they are.
#[path = "../../tests/fuzz"]
mod shared {
    pub mod choices;
    pub mod society;
    pub mod world;
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    shared::society::live(bytes, false);
});
