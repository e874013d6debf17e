//! The tests of the relay again, for machines on which there is no io_uring: by epoll.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

#[path = "relay/cancels.rs"]
mod cancels;
#[path = "relay/client_certificates.rs"]
mod client_certificates;
#[path = "relay/draining.rs"]
mod draining;
#[path = "relay/endings.rs"]
mod endings;
#[path = "relay/floods.rs"]
mod floods;
#[path = "relay/letting_in.rs"]
mod letting_in;
#[path = "relay/postgres.rs"]
mod postgres;
#[path = "relay/proofs.rs"]
mod proofs;
#[path = "relay/proxies.rs"]
mod proxies;
#[path = "relay/tls.rs"]
mod tls;
#[path = "relay/traffic.rs"]
mod traffic;
#[path = "relay/world.rs"]
mod world;
