//! io_uring: sockets receive and send by one call of the system for all that is ready, instead of two and more for each.
//!
//! The ring knows what is under way: each operation keeps its socket open and its bytes where they are until the kernel has
//! done with both. Whoever gives up a socket shuts it down, which ends its operations; see [`Link`](super::link::Link).

mod buffers;

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use io_uring::types::{CancelBuilder, Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue};
use mio::Token;
use slab::Slab;

use super::socket::Socket;
use buffers::Buffers;

/// Operations that are handed over at once; more take a call of their own.
const SUBMITTED_MAX: u32 = 512;

/// Results that fit; more wait within the kernel.
const COMPLETED_MAX: u32 = 4096;

/// The number of the operation that watches over what the ring does not do.
const OTHERS: u64 = u64::MAX;

/// How long the kernel may take to give up what is under way when the ring ends.
const FAREWELL: Duration = Duration::from_secs(1);

/// A worker's ring. It belongs to the thread that has made it.
pub(super) struct Ring {
    uring: IoUring,
    buffers: Buffers,
    under_way: Slab<Operation>,
    /// What did not fit into the ring.
    waiting: Vec<squeue::Entry>,
}

struct Operation {
    token: Token,
    /// Keeps it open, and its number from being another's.
    _socket: Arc<Socket>,
    act: Act,
}

enum Act {
    Receive,
    /// The bytes that the kernel reads.
    Send(Vec<u8>),
    HangUp,
}

/// What has come of an operation.
#[derive(Debug)]
pub(super) enum Outcome {
    /// These bytes have come; none are the end.
    Received(io::Result<Vec<u8>>),
    /// It was interrupted, or no buffer was free: to be tried again.
    NotReceived,
    /// So many of these bytes were sent.
    Sent(io::Result<usize>, Vec<u8>),
    /// The peer has said that nothing more will come, or is gone.
    HungUp,
    /// Something has happened that the ring does not do itself.
    Others,
}

impl Ring {
    /// A ring for the thread that calls; an error where the system does not have it (Linux before 6.1), or does not allow it
    /// (`kernel.io_uring_disabled`, the filters of containers).
    pub(super) fn new() -> io::Result<Self> {
        let uring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_cqsize(COMPLETED_MAX)
            .build(SUBMITTED_MAX)?;
        let buffers = Buffers::lend(&uring)?;
        // Saves the kernel from looking the ring up at each call; it works without.
        let _ = uring.submitter().register_ring_fd();
        Ok(Ring { uring, buffers, under_way: Slab::new(), waiting: Vec::new() })
    }

    /// Tells once, with [`Outcome::Others`], when that descriptor can be read.
    pub(super) fn watch_others(&mut self, descriptor: RawFd) {
        let poll = opcode::PollAdd::new(Fd(descriptor), libc::POLLIN as u32);
        self.push(poll.build().user_data(OTHERS));
    }

    /// Receives once. If nothing can be there yet, the kernel waits before it tries.
    pub(super) fn receive(&mut self, token: Token, socket: &Arc<Socket>, is_drained: bool) {
        let receive = opcode::Recv::new(Fd(socket.as_raw_fd()), std::ptr::null_mut(), buffers::BYTES as u32)
            .buf_group(buffers::GROUP)
            .ioprio(if is_drained { POLL_FIRST } else { 0 });
        let entry = receive.build().flags(squeue::Flags::BUFFER_SELECT);
        self.begin(entry, token, socket, Act::Receive);
    }

    /// Sends bytes, all of them unless the peer goes.
    pub(super) fn send(&mut self, token: Token, socket: &Arc<Socket>, bytes: Vec<u8>) {
        let flags = libc::MSG_NOSIGNAL | libc::MSG_WAITALL;
        let send = opcode::Send::new(Fd(socket.as_raw_fd()), bytes.as_ptr(), bytes.len() as u32).flags(flags);
        self.begin(send.build(), token, socket, Act::Send(bytes));
    }

    /// Tells once when the peer hangs up, whatever lies there to be read.
    pub(super) fn watch_hang_up(&mut self, token: Token, socket: &Arc<Socket>) {
        let poll = opcode::PollAdd::new(Fd(socket.as_raw_fd()), libc::POLLRDHUP as u32);
        self.begin(poll.build(), token, socket, Act::HangUp);
    }

    /// Gives back a buffer in which bytes were received.
    pub(super) fn recycle(&mut self, buffer: Vec<u8>) {
        self.buffers.recycle(buffer);
    }

    fn begin(&mut self, entry: squeue::Entry, token: Token, socket: &Arc<Socket>, act: Act) {
        let number = self.under_way.insert(Operation { token, _socket: Arc::clone(socket), act });
        self.push(entry.user_data(number as u64));
    }

    fn push(&mut self, entry: squeue::Entry) {
        // SAFETY: an entry points to the bytes of its operation, or to a buffer of ours, and to an open socket. All of
        // them stay in `under_way` and `buffers` until the kernel has told of the operation's end; see `Drop`, too.
        if !self.waiting.is_empty() || unsafe { self.uring.submission().push(&entry) }.is_err() {
            self.waiting.push(entry);
        }
    }

    /// Hands over what was asked for, and waits until something is done, or that long.
    pub(super) fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        while !self.waiting.is_empty() {
            allow(self.uring.submit())?;
            let mut queue = self.uring.submission();
            let room = (queue.capacity() - queue.len()).min(self.waiting.len());
            if room == 0 {
                break;
            }
            for entry in self.waiting.drain(..room) {
                // SAFETY: as in `push`.
                unsafe { queue.push(&entry) }.expect("there is room");
            }
        }
        let timeout = if self.waiting.is_empty() { timeout } else { Some(Duration::ZERO) };
        allow(match timeout {
            None => self.uring.submit_and_wait(1),
            Some(timeout) => {
                let timeout = Timespec::from(timeout);
                self.uring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&timeout))
            }
        })
    }

    /// Adds what is done to `done`, each with the token of its socket.
    pub(super) fn take_done(&mut self, done: &mut Vec<(Token, Outcome)>) {
        for entry in self.uring.completion() {
            let result = match entry.result() {
                result if result < 0 => Err(io::Error::from_raw_os_error(-result)),
                result => Ok(result as usize),
            };
            let received = cqueue::buffer_select(entry.flags()).map(|number| {
                // SAFETY: the kernel has said so with this entry, which is seen once.
                unsafe { self.buffers.take(number, *result.as_ref().unwrap_or(&0)) }
            });
            if entry.user_data() == OTHERS {
                done.push((Token(usize::MAX), Outcome::Others));
                continue;
            }
            let Operation { token, act, .. } = self.under_way.remove(entry.user_data() as usize);
            let outcome = match (act, result) {
                (Act::Receive, Err(error)) if is_passing(&error) => Outcome::NotReceived,
                (Act::Receive, result) => Outcome::Received(result.map(|_| received.unwrap_or_default())),
                (Act::Send(bytes), Err(error)) if is_passing(&error) => Outcome::Sent(Ok(0), bytes),
                (Act::Send(bytes), result) => Outcome::Sent(result, bytes),
                (Act::HangUp, _) => Outcome::HungUp,
            };
            done.push((token, outcome));
        }
    }
}

/// `IORING_RECVSEND_POLL_FIRST`.
const POLL_FIRST: u16 = 1;

/// Whether an operation can be tried again.
fn is_passing(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINTR | libc::EAGAIN | libc::ENOBUFS))
}

/// What ends a wait without being an error: a signal, the time, results that must be taken first.
fn allow(submitted: io::Result<usize>) -> io::Result<()> {
    match submitted {
        Err(error) if !matches!(error.raw_os_error(), Some(libc::EINTR | libc::ETIME | libc::EBUSY | libc::EAGAIN)) => {
            Err(error)
        }
        _ => Ok(()),
    }
}

impl Drop for Ring {
    /// Ends what is under way; what the kernel does not give up is left to it for ever rather than freed.
    fn drop(&mut self) {
        let (mut done, deadline) = (Vec::new(), Instant::now() + FAREWELL);
        while !self.under_way.is_empty() && Instant::now() < deadline {
            // Whatever goes wrong here, nothing is freed before its operation has ended.
            let _ = self.wait(Some(Duration::ZERO));
            let all = CancelBuilder::any();
            let _ = self.uring.submitter().register_sync_cancel(Some(Timespec::from(FAREWELL)), all);
            self.take_done(&mut done);
        }
        if !self.under_way.is_empty() {
            tracing::error!("the kernel still works on {} operations of a relay that has ended", self.under_way.len());
            mem::forget(mem::take(&mut self.under_way));
            self.buffers.leave();
        }
    }
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring").field("under_way", &self.under_way.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
