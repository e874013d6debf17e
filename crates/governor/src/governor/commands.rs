//! Commands from one thread of a governor to another: to a session, a worker or the main thread.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use crate::registry::{EventId, SessionCard, SessionId};

/// A command to a session from another thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionCommand {
    /// Its transaction is admitted.
    Admitted,
    /// Its transaction has waited too long for admission.
    TimedOut,
    /// A cancel that was aimed at it has arrived (or was not sent): it may continue. See [`Registry`](crate::registry::Registry).
    CancelArrived,
    /// Roll back that transaction, if the session still waits for its client after that unit.
    RollBackIdle {
        /// The transaction.
        transaction: u64,
        /// The last unit.
        unit: u64,
        /// The event to settle with the outcome.
        event: EventId,
    },
    /// Its client has cancelled while it waited for admission.
    ClientCancelled,
    /// End the session if that transaction still waits for its client, because it holds up others.
    EndIdle {
        /// The transaction.
        transaction: u64,
        /// The message for its client.
        why: String,
    },
    /// End the session once it is idle, as its card says.
    EndWhenIdle,
    /// End the session.
    End {
        /// The message for its client.
        why: String,
    },
}

/// A command to a worker from another thread.
#[derive(Debug)]
pub enum WorkerCommand {
    /// A command for one of its sessions; ignored if that has ended.
    Session(SessionId, SessionCommand),
    /// Take no new clients; end each session when it is idle.
    Drain,
    /// Close the listeners, because another governor accepts clients now, and have every worker retire.
    CloseDoor,
    /// Serve the remaining sessions until they end.
    Retire,
    /// A client of that session has cancelled at the governor that now has the address. The client waits until the
    /// cancel has arrived.
    Cancel(Arc<SessionCard>, OwnedFd),
    /// An operator has changed what pools may do.
    ReviewPools,
    /// End at once.
    Stop,
}

/// A command to the main thread from another thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MainCommand {
    /// Take no new clients, wait until each session is idle, and end.
    Drain,
    /// End at once.
    Stop,
}

/// The handle of a worker.
#[derive(Debug)]
pub struct WorkerHandle {
    /// The sender of its commands.
    pub sender: Sender<WorkerCommand>,
    /// Wakes it while it waits for sockets.
    pub waker: Arc<mio::Waker>,
}

impl WorkerHandle {
    /// Sends it a command.
    pub fn send(&self, command: WorkerCommand) {
        // A worker that has ended needs no commands.
        if self.sender.send(command).is_ok() {
            let _ = self.waker.wake();
        }
    }
}
