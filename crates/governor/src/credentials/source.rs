//! Where what is known of a user's password comes from: the users file first, then a question to the server.

use std::time::Instant;

use plimsoll_pg::secret::Secret;

use super::lookup::{Asks, Lookup};
use crate::settings::Login;

/// What a client's proof is compared with.
#[derive(Debug, Clone)]
pub struct Known {
    /// The secret; for an unknown user, one that no password fits.
    pub secret: Secret,
    /// Where it comes from.
    pub origin: Origin,
}

/// Where a secret comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The users file.
    File,
    /// The server, by `auth_query`.
    Server,
    /// Nowhere: there is no such user, or it cannot be found out. The log has the reason.
    Nobody,
}

/// The result of looking for a user.
#[derive(Debug)]
pub enum Found {
    /// At once.
    Now(Known),
    /// The server is asked; the answer comes within seconds.
    Asking,
}

/// Receives an answer of the server's, on another thread: a function that sends it to the thread of the client, and
/// wakes that.
pub type Answer = Box<dyn FnOnce(Known) + Send>;

/// The users that are known. One for a governor; it starts a thread with the first question.
#[derive(Debug, Default)]
pub struct Source {
    lookup: Lookup,
}

impl Source {
    /// Looks for a user. `answer` is called only if the server is asked, and then once, if the governor lives on.
    pub fn find(&self, login: &Login, user: &str, now: Instant, answer: Answer) -> Found {
        let in_file = login.users.as_ref().and_then(|users| users.find(user));
        if let Some(secret) = in_file {
            return Found::Now(Known { secret: secret.clone(), origin: Origin::File });
        }
        let usual = login.users.as_ref().and_then(|users| users.usual());
        match &login.asks_as {
            Some(url) => {
                let asks = Asks { url: url.clone(), query: login.query.clone() };
                self.lookup.find(asks, user, usual, now, answer)
            }
            None => Found::Now(Known::nobody(user, usual)),
        }
    }

    /// Forgets what the server has said about a user, because a login with it has failed: the password may have changed.
    pub fn forget(&self, user: &str, now: Instant) {
        self.lookup.forget(user, now);
    }
}

impl Known {
    /// For an unknown user: a secret that resembles that of a real one.
    pub(super) fn nobody(user: &str, like: Option<&Secret>) -> Self {
        Known { secret: Secret::of_nobody(user, like), origin: Origin::Nobody }
    }
}
