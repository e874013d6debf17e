//! Packets with descriptors, over a Unix socket that keeps their boundaries.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout, socket_peercred};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketAddrUnix, SocketFlags, SocketType, recvmsg, sendmsg, socket_with,
};
use rustix::process::geteuid;

/// The longest text, in bytes; it lists a few addresses.
const TEXT_MAX: usize = 32 * 1024;

/// More sockets than any governor has listeners.
pub(super) const DESCRIPTORS_MAX: usize = 200;

/// A text and the descriptors sent with it.
#[derive(Debug)]
pub(super) struct Packet {
    pub text: String,
    pub descriptors: Vec<OwnedFd>,
}

/// A socket that keeps the boundaries of packets.
pub(super) fn socket() -> io::Result<OwnedFd> {
    Ok(socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

/// A connection to the process that listens at that file; `None` if none does.
pub(super) fn connect(file: &Path) -> io::Result<Option<OwnedFd>> {
    let own = socket()?;
    match rustix::net::connect(&own, &SocketAddrUnix::new(file)?) {
        Ok(()) if is_trusted(&own)? => Ok(Some(own)),
        Ok(()) => Err(io::Error::other("a process of another user listens there")),
        Err(Errno::NOENT | Errno::CONNREFUSED) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Whether the other end is a process of this user, or of root.
pub(super) fn is_trusted(socket: &OwnedFd) -> io::Result<bool> {
    let other = socket_peercred(socket)?.uid;
    Ok(other == geteuid() || other.is_root())
}

/// Limits how long a receive may take.
pub(super) fn wait_at_most(socket: &OwnedFd, length: Option<Duration>) -> io::Result<()> {
    Ok(set_socket_timeout(socket, Timeout::Recv, length)?)
}

pub(super) fn send(socket: &OwnedFd, text: &str, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    send_with(socket, text, descriptors, SendFlags::NOSIGNAL)
}

/// The same, or an error if it would block.
pub(super) fn send_at_once(socket: &OwnedFd, text: &str, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    send_with(socket, text, descriptors, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)
}

fn send_with(socket: &OwnedFd, text: &str, descriptors: &[BorrowedFd<'_>], flags: SendFlags) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::Error::other(format!("{} sockets are too many to hand over", descriptors.len())));
    }
    sendmsg(socket.as_fd(), &[IoSlice::new(text.as_bytes())], &mut control, flags)?;
    Ok(())
}

/// The next packet; an error at the end of the connection.
pub(super) fn receive(socket: &OwnedFd) -> io::Result<Packet> {
    let mut bytes = vec![0; TEXT_MAX];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC;
    let length = loop {
        match recvmsg(socket.as_fd(), &mut [IoSliceMut::new(&mut bytes)], &mut control, flags) {
            Err(Errno::INTR) => {}
            received => break received?.bytes,
        }
    };
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            descriptors.extend(rights);
        }
    }
    if length == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    bytes.truncate(length);
    let text = String::from_utf8(bytes).map_err(|_| io::Error::other("a packet is not a text"))?;
    Ok(Packet { text, descriptors })
}
