//! The relay over loopback: what clients and a server played by the test see of each other.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

mod cancels;
mod capturing;
#[path = "../common/certificates.rs"]
mod certificates;
mod client_certificates;
mod draining;
mod endings;
mod floods;
mod letting_in;
mod postgres;
mod proofs;
mod proxies;
mod tls;
mod traffic;
mod world;
