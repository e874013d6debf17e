//! Answers of the server about passwords, with their age.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use plimsoll_pg::secret::Secret;

/// How long a password counts as the server's.
const FRESH: Duration = Duration::from_secs(10);

/// How long it is remembered that there is none, or that the server could not be asked. It bounds the questions about
/// one name.
const NONE_FRESH: Duration = Duration::from_secs(1);

/// How long a password counts while the server cannot be asked.
const STALE_MAX: Duration = Duration::from_secs(300);

/// The most users that are remembered.
const USERS_MAX: usize = 10_000;

/// An answer.
#[derive(Debug, Clone)]
pub(super) struct Kept {
    /// The secret; `None` for a user without one.
    pub(super) secret: Option<Secret>,
    /// When it was received.
    pub(super) at: Instant,
}

#[derive(Debug, Default)]
pub(super) struct Cache {
    /// Each answer, and until when it is fresh.
    kept: BTreeMap<String, (Kept, Instant)>,
}

impl Cache {
    /// An answer that is recent enough not to ask again.
    pub(super) fn fresh(&self, user: &str, now: Instant) -> Option<Kept> {
        let (kept, until) = self.kept.get(user)?;
        (now < *until).then(|| kept.clone())
    }

    /// An answer that counts while the server cannot be asked.
    pub(super) fn stale(&self, user: &str, now: Instant) -> Option<Kept> {
        let (kept, _) = self.kept.get(user)?;
        (now.saturating_duration_since(kept.at) < STALE_MAX).then(|| kept.clone())
    }

    /// Keeps an answer; one that is not new is only not asked for again for a moment.
    pub(super) fn keep(&mut self, user: &str, kept: Kept, is_new: bool) {
        let now = kept.at;
        if self.kept.len() >= USERS_MAX && !self.kept.contains_key(user) {
            self.kept.retain(|_, (_, until)| now < *until);
            if self.kept.len() >= USERS_MAX {
                self.kept.clear();
            }
        }
        let until = now + if is_new && kept.secret.is_some() { FRESH } else { NONE_FRESH };
        // Its age is still that of the server's answer.
        let at = self.kept.get(user).filter(|_| !is_new).map_or(now, |(earlier, _)| earlier.at);
        self.kept.insert(user.to_owned(), (Kept { at, ..kept }, until));
    }

    /// Forgets an answer, unless it is so recent that the server would say the same.
    pub(super) fn forget(&mut self, user: &str, now: Instant) {
        let is_recent = |(kept, _): &(Kept, Instant)| now.saturating_duration_since(kept.at) < NONE_FRESH;
        if self.kept.get(user).is_some_and(|kept| !is_recent(kept)) {
            self.kept.remove(user);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn secret() -> Option<Secret> {
        Some(Secret::of_nobody("ann", None))
    }

    #[test]
    fn answers_age() {
        let (mut cache, start) = (Cache::default(), Instant::now());
        cache.keep("ann", Kept { secret: secret(), at: start }, true);
        cache.keep("bob", Kept { secret: None, at: start }, true);
        assert!(cache.fresh("ann", start + FRESH - SECOND).is_some() && cache.fresh("ann", start + FRESH).is_none());
        assert!(cache.fresh("bob", start).is_some() && cache.fresh("bob", start + NONE_FRESH).is_none());
        assert!(cache.fresh("eve", start).is_none());
        // The server cannot be asked: the older answer counts for a moment, and for five minutes in all.
        let later = start + FRESH + SECOND;
        let old = cache.stale("ann", later).unwrap();
        cache.keep("ann", Kept { secret: old.secret, at: later }, false);
        assert!(cache.fresh("ann", later).is_some() && cache.fresh("ann", later + NONE_FRESH).is_none());
        assert!(cache.stale("ann", start + STALE_MAX - SECOND).is_some());
        assert!(cache.stale("ann", start + STALE_MAX).is_none());
    }

    #[test]
    fn a_failed_login_forgets_an_answer_but_not_the_newest() {
        let (mut cache, start) = (Cache::default(), Instant::now());
        cache.keep("ann", Kept { secret: secret(), at: start }, true);
        cache.forget("ann", start + SECOND / 2);
        assert!(cache.fresh("ann", start + SECOND).is_some());
        cache.forget("ann", start + SECOND);
        assert!(cache.fresh("ann", start + SECOND).is_none() && cache.stale("ann", start + SECOND).is_none());
    }

    #[test]
    fn names_that_nobody_has_do_not_fill_it() {
        let (mut cache, start) = (Cache::default(), Instant::now());
        for number in 0..USERS_MAX + 5 {
            cache.keep(&number.to_string(), Kept { secret: None, at: start }, true);
            assert!(cache.kept.len() <= USERS_MAX);
        }
        assert!(cache.fresh(&(USERS_MAX + 4).to_string(), start).is_some());
    }
}
