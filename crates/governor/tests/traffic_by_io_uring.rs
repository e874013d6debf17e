//! The tests of the bank and of hostile input again, with the event loop that is not the default: io_uring.
//!
//! `tests/traffic` has them by epoll. What the two share is included here; the rest of it runs with one loop or the other.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(dead_code, reason = "some of what is shared is only used by the tests that are not here")]

mod traffic {
    mod bank;
    mod client;
    mod governed;
    mod hostile;
    mod server;
}
