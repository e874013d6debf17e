//! Addresses at which clients are received.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

/// An address to listen at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// A TCP address.
    Tcp(SocketAddr),
    /// The file of a Unix socket.
    Socket(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(address) => address.fmt(f),
            Address::Socket(path) => path.display().fmt(f),
        }
    }
}
