//! Letting clients in without the server, and logging in at the server without a client: what a governor needs that
//! pools connections.
//!
//! In reading order: `source` finds what is known of a user's password, in the users file or by a question to the
//! server (`lookup`); `gate` asks a client for a proof; [`ServerCredentials`] are what remains of it, and
//! `server_login` logs in with them. `gate` and `server_login` are state machines, bytes in and bytes out, without
//! sockets.
//!
//! **A password is not needed.** A client's proof of a SCRAM verifier contains the keys with which the governor logs in
//! wherever the same verifier is stored. So the users file and the question give the server's own verifiers, and no
//! clear password is stored. The governor writes none.
//!
//! **A proof is the client's own.** A client that the gate has let in has proved who it is. A server that then asks the
//! governor for nothing (`peer`, `trust`, `cert`) has proved nothing more about the client, but nothing less, either;
//! [`Terms::must_be_asked`] says whether that is enough.

mod gate;
mod lookup;
mod server_login;
mod source;

pub use gate::{Gate, Refused, Step};
pub(crate) use lookup::{Asker, Asks, Finding};
pub use server_login::{FailureKind, LoginFailure, ServerLogin, ServerSession, Stepped, Terms};
pub use source::{Answer, Found, Known, Origin, Source};

use std::sync::Arc;

use plimsoll_pg::scram::ClientKeys;
use plimsoll_pg::secret::{ClearPassword, Md5Hash};

/// The means to log in at the server as one role.
#[derive(Debug, Clone)]
pub enum ServerCredentials {
    /// None: the server must ask for nothing, or for a certificate of the governor's.
    None,
    /// The keys of one SCRAM verifier, from a client's proof.
    Keys(ClientKeys),
    /// An MD5 hash.
    Md5(Md5Hash),
    /// The password.
    Clear(Arc<ClearPassword>),
}

#[cfg(test)]
mod tests;
