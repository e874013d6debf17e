//! Keeps clients whose login failed over TLS from logging in without it.
//!
//! A client that connects with `sslmode=prefer`, libpq's default, silently tries again in plain text after every failed
//! login. If the login failed because of channel binding, which plain text does not have, the second attempt would
//! succeed: a session that should be encrypted would not be.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// The longest time until a client tries again; libpq does so at once.
const REMEMBERED: Duration = Duration::from_secs(10);

/// Beyond this number the oldest are forgotten.
const KEPT_MAX: usize = 1024;

/// Address and user of logins over TLS that recently failed because of channel binding, and when.
#[derive(Debug, Default)]
pub(super) struct Fallbacks(Mutex<HashMap<(IpAddr, String), Instant>>);

impl Fallbacks {
    /// A login has failed over TLS.
    pub(super) fn note(&self, address: IpAddr, user: &str, now: Instant) {
        let mut failed = self.0.lock();
        failed.retain(|_, at| now.saturating_duration_since(*at) < REMEMBERED);
        if failed.len() >= KEPT_MAX
            && let Some(oldest) = failed.iter().min_by_key(|(_, at)| **at).map(|(key, _)| key.clone())
        {
            failed.remove(&oldest);
        }
        failed.insert((address, user.to_owned()), now);
    }

    /// Whether a login in plain text is probably the second attempt of such a client.
    pub(super) fn is_one(&self, address: IpAddr, user: &str, now: Instant) -> bool {
        let failed = self.0.lock();
        // The map is nearly always empty.
        !failed.is_empty()
            && failed.get(&(address, user.to_owned())).is_some_and(|at| now.saturating_duration_since(*at) < REMEMBERED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_remembered_for_a_while() {
        let (fallbacks, start) = (Fallbacks::default(), Instant::now());
        let [ann, bob] = [[10, 0, 0, 1], [10, 0, 0, 2]].map(IpAddr::from);
        fallbacks.note(ann, "app", start);
        assert!(fallbacks.is_one(ann, "app", start + Duration::from_secs(9)));
        assert!(!fallbacks.is_one(ann, "app", start + REMEMBERED));
        assert!(!fallbacks.is_one(ann, "other", start) && !fallbacks.is_one(bob, "app", start));
        for user in 0..2 * KEPT_MAX {
            fallbacks.note(bob, &user.to_string(), start + Duration::from_secs(1));
        }
        assert_eq!(fallbacks.0.lock().len(), KEPT_MAX);
        assert!(!fallbacks.is_one(ann, "app", start));
    }
}
