//! The side of the active governor: it listens for a successor, and hands over the sockets.

use std::fs::{self, Permissions};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rustix::net::{SocketAddrUnix, SocketFlags, accept_with, bind, listen};

use super::packet::{Packet, connect, is_trusted, receive, send, socket, wait_at_most};
use super::{PATIENCE, SocketRole, VERSION, cancel_of};
use crate::governor::Governor;

/// How long a successor may take to start.
const START_MAX: Duration = Duration::from_secs(600);

/// Listens for a successor at that file, in its own thread. `retire` is called once one serves.
pub(crate) fn start(
    file: &Path,
    governor: Arc<Governor>,
    places: Vec<(SocketRole, OwnedFd)>,
    retire: impl FnOnce() + Send + 'static,
) -> io::Result<()> {
    let listener = open(file)?;
    let run = move || give(listener, &governor, places, retire);
    thread::Builder::new().name("handover".to_owned()).spawn(run)?;
    Ok(())
}

/// Takes over a file left behind by a governor that has ended, but not one at which a process listens.
fn open(file: &Path) -> io::Result<OwnedFd> {
    let is_socket = fs::symlink_metadata(file).is_ok_and(|there| there.file_type().is_socket());
    if is_socket && connect(file)?.is_none() {
        fs::remove_file(file)?;
    }
    let listener = socket()?;
    bind(&listener, &SocketAddrUnix::new(file)?)?;
    fs::set_permissions(file, Permissions::from_mode(0o600))?;
    listen(&listener, 8)?;
    Ok(listener)
}

/// Answers governors that want to take over, until one has.
fn give(listener: OwnedFd, governor: &Governor, places: Vec<(SocketRole, OwnedFd)>, retire: impl FnOnce()) {
    let successor = loop {
        match accept_with(&listener, SocketFlags::CLOEXEC) {
            Ok(other) => match offer(&other, &places, governor) {
                Ok(()) => break other,
                Err(error) => tracing::warn!("the governor that should take over does not: {error}; this one stays"),
            },
            // Out of descriptors, or the peer has already disconnected.
            Err(_) => thread::sleep(Duration::from_millis(100)),
        }
    };
    // None of these may stay open here: if the successor ended, its clients would wait in a queue that no process
    // serves.
    drop((listener, places));
    // If the message is lost, the successor finds out by itself. It is sent before retiring, because without sessions
    // that ends this process.
    let _ = send(&successor, "retired", &[]);
    retire();
    let _ = wait_at_most(&successor, None);
    pass_cancels_on(&successor, governor);
}

/// Hands the sockets to a governor; returns once it serves.
fn offer(other: &OwnedFd, places: &[(SocketRole, OwnedFd)], governor: &Governor) -> io::Result<()> {
    if !is_trusted(other)? {
        return Err(io::Error::other("it is of another user"));
    }
    wait_at_most(other, Some(PATIENCE))?;
    let asked = receive(other)?.text;
    if asked != format!("take {VERSION}") {
        send(other, "unknown", &[])?;
        return Err(io::Error::other(format!("it asks for {asked:?}")));
    }
    {
        let predecessors = governor.predecessors.lock();
        let own = places.iter().map(|(place, descriptor)| (place, descriptor.as_fd()));
        let before = predecessors.iter().map(|predecessor| (&SocketRole::Governor, predecessor.0.as_fd()));
        let (places, descriptors): (Vec<&SocketRole>, Vec<_>) = own.chain(before).unzip();
        let lines: Vec<String> = places.into_iter().map(SocketRole::write).collect();
        send(other, &format!("listeners {VERSION}\n{}", lines.join("\n")), &descriptors)?;
    }
    wait_at_most(other, Some(START_MAX))?;
    match receive(other)?.text.as_str() {
        "serving" => Ok(()),
        said => Err(io::Error::other(format!("it says {said:?}"))),
    }
}

/// Receives cancels for sessions here from the successor, which has the address.
fn pass_cancels_on(successor: &OwnedFd, governor: &Governor) {
    while let Ok(Packet { text, descriptors }) = receive(successor) {
        let (Some((process, secret)), Some(client)) = (cancel_of(&text), descriptors.into_iter().next()) else {
            continue;
        };
        governor.cancel_from_elsewhere(process, &secret, client);
    }
}
