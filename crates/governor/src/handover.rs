//! One governor takes over from another without refusing or disconnecting a client: the new process gets the listening
//! sockets, and the old one serves its sessions until they end.
//!
//! Both have the same `handover` file in `[listen]`, a Unix socket at which the active governor listens:
//!
//! ```text
//! new                                    old
//!  │ take 1 ─────────────────────────────▶ │
//!  │ ◀──── listeners 1, with descriptors   │   both could accept; only the old one does
//!  │ (starts; both accept)                 │
//!  │ serving ────────────────────────────▶ │
//!  │ ◀──────────────────────────── retired │   its doors are closing, and the file is the new one's
//!  │ cancel …, with the client ──────────▶ │   until the last session of the old one has ended
//! ```
//!
//! The queue of connections that wait to be accepted belongs to the socket, not to a process, so none is lost. If the
//! new governor fails before it serves, the old one simply continues. Both accept messages only from processes of the
//! same user, or of root.
//!
//! [`Inherited`] is the new governor's side, [`giving`] the old one's; [`packet`] has the messages.

pub(crate) mod giving;
mod packet;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::Duration;

use crate::settings::Address;
use packet::{Packet, connect, receive, send};

/// How long the other side may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// The version of the messages.
const VERSION: u32 = 1;

/// The clients that connect to a socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SocketRole {
    Clients(Address),
    /// Browsers and Prometheus.
    Page(SocketAddr),
    /// Not a listener: the connection to an earlier governor, which still has sessions.
    Governor,
}

impl SocketRole {
    fn write(&self) -> String {
        match self {
            SocketRole::Clients(Address::Tcp(address)) => format!("tcp {address}"),
            SocketRole::Clients(Address::Socket(path)) => format!("socket {}", path.display()),
            SocketRole::Page(address) => format!("page {address}"),
            SocketRole::Governor => "governor -".to_owned(),
        }
    }

    fn read(line: &str) -> Option<SocketRole> {
        let (kind, at) = line.split_once(' ')?;
        match kind {
            "tcp" => at.parse().ok().map(|address| SocketRole::Clients(Address::Tcp(address))),
            "socket" => Some(SocketRole::Clients(Address::Socket(at.into()))),
            "page" => at.parse().ok().map(SocketRole::Page),
            "governor" => Some(SocketRole::Governor),
            _ => None,
        }
    }
}

/// The sockets from the previous governor; empty if there was none.
#[derive(Debug, Default)]
pub(crate) struct Inherited {
    places: Vec<(SocketRole, OwnedFd)>,
    predecessor: Option<OwnedFd>,
}

impl Inherited {
    /// Asks the governor that listens at that file; empty if none does.
    pub(crate) fn ask(file: &Path) -> io::Result<Inherited> {
        let Some(predecessor) = connect(file)? else { return Ok(Inherited::default()) };
        packet::wait_at_most(&predecessor, Some(PATIENCE))?;
        send(&predecessor, &format!("take {VERSION}"), &[])?;
        let Packet { text, descriptors } = receive(&predecessor)?;
        let mut lines = text.lines();
        if lines.next() != Some(&format!("listeners {VERSION}")) {
            return Err(io::Error::other(format!("it answers {text:?}; stop it, and start this one then")));
        }
        let places: Option<Vec<SocketRole>> = lines.map(SocketRole::read).collect();
        match places.filter(|places| places.len() == descriptors.len()) {
            Some(places) => {
                let places = places.into_iter().zip(descriptors).collect();
                Ok(Inherited { places, predecessor: Some(predecessor) })
            }
            None => Err(io::Error::other("it announces other sockets than it sends")),
        }
    }

    /// Whether a previous governor serves until this one does.
    pub(crate) fn has_predecessor(&self) -> bool {
        self.predecessor.is_some()
    }

    /// The socket at that address, if it was handed over.
    pub(crate) fn tcp(&mut self, wanted: SocketAddr) -> Option<TcpListener> {
        self.take(|place| matches!(place, SocketRole::Clients(Address::Tcp(address)) if is_at(wanted, *address)))
            .map(TcpListener::from)
    }

    /// The socket of that file, if it was handed over.
    pub(crate) fn socket(&mut self, wanted: &Path) -> Option<UnixListener> {
        self.take(|place| matches!(place, SocketRole::Clients(Address::Socket(path)) if path == wanted))
            .map(UnixListener::from)
    }

    /// The socket of the page, if it was handed over.
    pub(crate) fn page(&mut self, wanted: SocketAddr) -> Option<TcpListener> {
        self.take(|place| matches!(place, SocketRole::Page(address) if is_at(wanted, *address))).map(TcpListener::from)
    }

    fn take(&mut self, is_wanted: impl Fn(&SocketRole) -> bool) -> Option<OwnedFd> {
        let at = self.places.iter().position(|(place, _)| is_wanted(place))?;
        Some(self.places.swap_remove(at).1)
    }

    /// Notifies the previous governor that this one serves, and waits until it has released its addresses. Sockets that
    /// are no longer wanted are closed, and their files removed. Returns all earlier governors that may have sessions.
    pub(crate) fn confirm(self) -> Vec<Predecessor> {
        let Some(predecessor) = self.predecessor else { return Vec::new() };
        let answer = send(&predecessor, "serving", &[]).and_then(|()| receive(&predecessor));
        let mut governors = Vec::new();
        for (place, descriptor) in self.places {
            match place {
                // No process listens there any more, whether or not it can be removed.
                SocketRole::Clients(Address::Socket(path)) => drop(std::fs::remove_file(path)),
                SocketRole::Governor => governors.push(Predecessor(descriptor)),
                SocketRole::Clients(Address::Tcp(_)) | SocketRole::Page(_) => {}
            }
        }
        match answer {
            Ok(Packet { text, .. }) if text == "retired" => governors.push(Predecessor(predecessor)),
            Ok(Packet { text, .. }) => tracing::warn!(text, "the previous governor does not confirm that it lets go"),
            Err(error) => tracing::warn!("the previous governor has ended without an answer: {error}"),
        }
        governors
    }
}

/// Port 0 matches any port.
fn is_at(wanted: SocketAddr, there: SocketAddr) -> bool {
    wanted == there || wanted.port() == 0 && wanted.ip() == there.ip()
}

/// An earlier governor that still serves sessions.
#[derive(Debug)]
pub(crate) struct Predecessor(OwnedFd);

impl Predecessor {
    /// Forwards a cancel whose key is not ours, together with the client that waits for its end. Returns whether that
    /// governor is still running.
    pub(crate) fn cancel(&self, process: i32, secret: &[u8], client: BorrowedFd<'_>) -> bool {
        let secret: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
        match packet::send_at_once(&self.0, &format!("cancel {process} {secret}"), &[client]) {
            Ok(()) => true,
            // Its buffer is full, so it is running.
            Err(error) => error.kind() == io::ErrorKind::WouldBlock,
        }
    }
}

/// The process and the secret that a successor's packet names.
fn cancel_of(text: &str) -> Option<(i32, Vec<u8>)> {
    let (process, secret) = text.strip_prefix("cancel ")?.split_once(' ')?;
    let byte = |at: usize| u8::from_str_radix(secret.get(at..at + 2)?, 16).ok();
    let secret = (0..secret.len()).step_by(2).map(byte).collect::<Option<Vec<u8>>>()?;
    Some((process.parse().ok()?, secret))
}

/// A duplicate of a socket's descriptor, to be handed over.
pub(crate) fn another(socket: &impl AsFd) -> io::Result<OwnedFd> {
    socket.as_fd().try_clone_to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_and_cancels_are_read_as_they_were_written() {
        for place in [
            SocketRole::Clients(Address::Tcp("[::1]:6432".parse().unwrap())),
            SocketRole::Clients(Address::Socket("/run/a folder/.s.PGSQL.6432".into())),
            SocketRole::Page("127.0.0.1:6433".parse().unwrap()),
            SocketRole::Governor,
        ] {
            assert_eq!(SocketRole::read(&place.write()), Some(place));
        }
        assert_eq!(cancel_of("cancel -5 00ff1a"), Some((-5, vec![0, 255, 26])));
        for wrong in ["cancel 5", "cancel x 00", "cancel 5 0", "cancel 5 0g", "take 1"] {
            assert_eq!(cancel_of(wrong), None, "{wrong}");
        }
    }
}
