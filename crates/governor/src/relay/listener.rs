//! Listening sockets: TCP addresses and Unix sockets.
//!
//! One worker accepts all clients and distributes them in turn. Sessions stay with their worker, so this spreads them
//! evenly, regardless of the kernel; and accepting is too rare to need more than one worker.

use std::fmt;
use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream as BlockingUnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mio::event::Source;
use mio::net::{TcpListener, UnixListener};
use mio::{Interest, Registry, Token};
use socket2::{Domain, Protocol, Type};

use super::StartError;
use super::socket::Socket;
use crate::handover::{Inherited, SocketRole, another};
use crate::settings::{Address, Listen};

/// Connections that the kernel keeps while they wait to be accepted.
const BACKLOG: i32 = 1024;

/// The port in the name of a Unix socket if no address has one.
const PORT_DEFAULT: u16 = 6432;

#[derive(Debug)]
pub(super) enum Listener {
    Tcp(TcpListener, SocketAddr),
    /// A Unix socket; its file is removed with it.
    Unix(UnixListener, SocketFile),
}

/// The file of a socket, removed on drop if it is still the same file.
#[derive(Debug)]
pub(super) struct SocketFile {
    path: PathBuf,
    /// Device and inode number.
    identity: (u64, u64),
    /// Whether this process must remove it: another process may serve it.
    is_owned: Arc<AtomicBool>,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if self.is_owned.load(Ordering::Relaxed)
            && fs::symlink_metadata(&self.path).is_ok_and(|file| (file.dev(), file.ino()) == self.identity)
        {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Opens all configured sockets, or none. Sockets from another governor are already open.
pub(super) fn open(
    listen: &Listen,
    inherited: &mut Inherited,
    is_owned: &Arc<AtomicBool>,
) -> Result<Vec<Listener>, StartError> {
    let mut listeners = Vec::new();
    for address in &listen.addresses {
        let listener = match inherited.tcp(*address) {
            Some(listener) => Ok(TcpListener::from_std(listener)),
            None => bind_tcp(*address),
        };
        let listener = listener.map_err(|error| StartError::Listen(Address::Tcp(*address), error))?;
        let bound = listener.local_addr().map_err(|error| StartError::Listen(Address::Tcp(*address), error))?;
        listeners.push(Listener::Tcp(listener, bound));
    }
    let port = match listeners.first() {
        Some(Listener::Tcp(_, address)) => address.port(),
        _ => PORT_DEFAULT,
    };
    for folder in &listen.socket_folders {
        let path = folder.join(format!(".s.PGSQL.{port}"));
        let listener = match inherited.socket(&path) {
            Some(listener) => Ok(UnixListener::from_std(listener)),
            None => bind_socket(&path),
        };
        let listener = listener.and_then(|listener| Ok((listener, SocketFile::at(&path, is_owned)?)));
        let (listener, file) = listener.map_err(|error| StartError::Listen(Address::Socket(path.clone()), error))?;
        listeners.push(Listener::Unix(listener, file));
    }
    if listeners.is_empty() { Err(StartError::NoAddress) } else { Ok(listeners) }
}

fn bind_tcp(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = socket2::Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        // This allows both 0.0.0.0 and ::, as PostgreSQL does.
        socket.set_only_v6(true)?;
    }
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(TcpListener::from_std(socket.into()))
}

/// Binds a Unix socket that all users may connect to: the mode of its directory (such as 0700) restricts access. A file
/// left by a governor that has ended is replaced; a socket on which a process listens is not.
fn bind_socket(path: &Path) -> io::Result<UnixListener> {
    let listener = match UnixListener::bind(path) {
        Err(error) if error.kind() == ErrorKind::AddrInUse && is_abandoned(path)? => {
            fs::remove_file(path)?;
            UnixListener::bind(path)?
        }
        bound => bound?,
    };
    fs::set_permissions(path, Permissions::from_mode(0o777))?;
    Ok(listener)
}

impl SocketFile {
    fn at(path: &Path, is_owned: &Arc<AtomicBool>) -> io::Result<Self> {
        let file = fs::symlink_metadata(path)?;
        let identity = (file.dev(), file.ino());
        Ok(SocketFile { path: path.to_owned(), identity, is_owned: Arc::clone(is_owned) })
    }
}

fn is_abandoned(path: &Path) -> io::Result<bool> {
    if !fs::symlink_metadata(path)?.file_type().is_socket() {
        return Ok(false);
    }
    Ok(matches!(BlockingUnixStream::connect(path), Err(error) if error.kind() == ErrorKind::ConnectionRefused))
}

impl Listener {
    pub(super) fn address(&self) -> Address {
        match self {
            Listener::Tcp(_, address) => Address::Tcp(*address),
            Listener::Unix(_, file) => Address::Socket(file.path.clone()),
        }
    }

    pub(super) fn accept(&self) -> io::Result<(Socket, Peer)> {
        match self {
            Listener::Tcp(listener, _) => {
                listener.accept().map(|(stream, peer)| (Socket::Tcp(stream), Peer::Tcp(peer)))
            }
            Listener::Unix(listener, _) => listener.accept().map(|(stream, _)| (Socket::Unix(stream), Peer::Local)),
        }
    }

    /// Its address, and a duplicate of its descriptor.
    pub(super) fn place(&self) -> io::Result<(SocketRole, OwnedFd)> {
        let descriptor = match self {
            Listener::Tcp(listener, _) => another(listener),
            Listener::Unix(listener, _) => another(listener),
        };
        Ok((SocketRole::Clients(self.address()), descriptor?))
    }

    pub(super) fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        match self {
            Listener::Tcp(listener, _) => listener.deregister(registry),
            Listener::Unix(listener, _) => listener.deregister(registry),
        }
    }

    pub(super) fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        match self {
            Listener::Tcp(listener, _) => listener.register(registry, token, Interest::READABLE),
            Listener::Unix(listener, _) => listener.register(registry, token, Interest::READABLE),
        }
    }
}

/// The address of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Peer {
    Tcp(SocketAddr),
    /// A client on a Unix socket.
    Local,
}

impl Peer {
    /// Its IP address, if it is a TCP client.
    pub(super) fn ip(self) -> Option<IpAddr> {
        match self {
            Peer::Tcp(address) => Some(address.ip()),
            Peer::Local => None,
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Peer::Tcp(address) => address.fmt(f),
            Peer::Local => f.write_str("local"),
        }
    }
}

/// Whether an error of `accept` means that resources are exhausted, so that waiting may help.
pub(super) fn is_out_of_room(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let room = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
    error.raw_os_error().is_some_and(|code| room.iter().any(|errno| errno.raw_os_error() == code))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_left_behind_are_taken_over_and_live_ones_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(".s.PGSQL.6432");
        // The standard library does not remove the file of a closed listener.
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let live = bind_socket(&path).unwrap();
        let file = SocketFile::at(&path, &Arc::new(AtomicBool::new(true))).unwrap();
        assert_eq!(fs::symlink_metadata(&path).unwrap().mode() & 0o777, 0o777);
        assert_eq!(bind_socket(&path).unwrap_err().kind(), ErrorKind::AddrInUse);
        drop((live, file));
        assert!(!path.exists());
        fs::write(&path, "not a socket").unwrap();
        assert_eq!(bind_socket(&path).unwrap_err().kind(), ErrorKind::AddrInUse);
    }

    #[test]
    fn the_file_of_a_successor_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(".s.PGSQL.6432");
        let _live = bind_socket(&path).unwrap();
        let file = SocketFile::at(&path, &Arc::new(AtomicBool::new(true))).unwrap();
        // Both exist at once, so the successor's inode number differs.
        let aside = folder.path().join("aside");
        fs::rename(&path, &aside).unwrap();
        let _successor = bind_socket(&path).unwrap();
        drop(file);
        assert!(path.exists());
    }
}
