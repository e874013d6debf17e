//! Recent verdicts, so that transactions that are rolled back repeatedly cause one inquiry per second.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::{Inquiry, Key, Verdict};

/// How long a verdict holds. A client that bypasses the governor may change code unnoticed.
const KEPT_FOR: Duration = Duration::from_secs(1);

/// The most verdicts of one database. When they exceed this, the cache drops all of them.
const VERDICTS_MAX: usize = 1000;

/// The most databases with verdicts. When they exceed this, the cache drops all of them.
const DATABASES_MAX: usize = 100;

/// Verdicts by database, shared by all sessions.
#[derive(Debug, Default)]
pub struct Cache {
    databases: Mutex<Databases>,
}

#[derive(Debug, Default)]
struct Databases {
    verdicts: HashMap<String, HashMap<Key, (Verdict, Instant)>>,
    /// Counts calls of [`Cache::forget`]. A verdict from an inquiry that began before the last one is not kept.
    generation: u64,
}

impl Cache {
    /// Gives an inquiry its verdict if the cache has one. Call it before each [`Inquiry::next`].
    pub fn look_up(&self, database: &str, inquiry: &mut Inquiry, now: Instant) {
        let Some(key) = inquiry.key.filter(|_| inquiry.verdict.is_none() && !inquiry.has_looked_up) else { return };
        let databases = self.databases.lock();
        (inquiry.has_looked_up, inquiry.generation) = (true, databases.generation);
        let kept = databases.verdicts.get(database).and_then(|verdicts| verdicts.get(&key));
        inquiry.verdict = kept.filter(|(_, until)| now < *until).map(|(verdict, _)| *verdict);
    }

    /// Keeps the verdict of an inquiry, unless code has changed since it began.
    pub fn keep(&self, database: &str, inquiry: &Inquiry, now: Instant) {
        let (Some(key), Some(verdict)) = (inquiry.key.filter(|_| inquiry.has_looked_up), inquiry.verdict) else {
            return;
        };
        // A question that failed may succeed the next time.
        if inquiry.has_failed {
            return;
        }
        let mut databases = self.databases.lock();
        if databases.generation != inquiry.generation {
            return;
        }
        let is_new = !databases.verdicts.contains_key(database);
        if is_new && databases.verdicts.len() >= DATABASES_MAX {
            databases.verdicts.clear();
        }
        let verdicts = databases.verdicts.entry(database.to_owned()).or_default();
        if verdicts.len() >= VERDICTS_MAX {
            verdicts.clear();
        }
        verdicts.entry(key).or_insert((verdict, now + KEPT_FOR));
        verdicts.retain(|_, (_, until)| now < *until);
    }

    /// Drops the verdicts of a database whose code has changed.
    pub fn forget(&self, database: &str) {
        let mut databases = self.databases.lock();
        databases.generation += 1;
        databases.verdicts.remove(database);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::effects::tests::inquiry;
    use crate::effects::{Next, Question};

    fn is_asked(cache: &Cache, text: &str, now: Instant) -> bool {
        let mut inquiry = inquiry(text);
        cache.look_up("d", &mut inquiry, now);
        let is_asked = matches!(inquiry.next(), Next::Ask(_));
        if is_asked {
            inquiry.on_answered(true);
            cache.look_up("d", &mut inquiry, now);
            assert!(matches!(inquiry.next(), Next::Known(Ok(_))));
            cache.keep("d", &inquiry, now);
        }
        is_asked
    }

    #[test]
    fn verdicts_hold_for_a_second_or_until_code_is_changed() {
        let (cache, now) = (Cache::default(), Instant::now());
        let (later, much_later) = (now + KEPT_FOR / 2, now + KEPT_FOR);
        assert!(is_asked(&cache, "select f(1)", now));
        assert!(!is_asked(&cache, "select F ( 2 )", later));
        assert!(is_asked(&cache, "select g(1)", later));
        cache.forget("another");
        assert!(!is_asked(&cache, "select f(1)", later));
        assert!(is_asked(&cache, "select f(1)", much_later));
        cache.forget("d");
        assert!(is_asked(&cache, "select f(1)", much_later));
    }

    /// A session asks about a function, another session replaces the function, and then the first one gets its answer. The
    /// answer is about the old function and must not be kept.
    #[test]
    fn what_was_asked_before_a_change_is_not_kept() {
        let (cache, now) = (Cache::default(), Instant::now());
        let mut asking = inquiry("select f(1)");
        cache.look_up("d", &mut asking, now);
        assert!(matches!(asking.next(), Next::Ask(_)));
        cache.forget("d");
        asking.on_answered(true);
        assert!(matches!(asking.next(), Next::Known(Ok(_))));
        cache.keep("d", &asking, now);
        assert!(is_asked(&cache, "select f(1)", now));
    }

    /// Cursors belong to a session, so a cached verdict does not cover them.
    #[test]
    fn cursors_are_asked_for_again() {
        let (cache, now) = (Cache::default(), Instant::now());
        for _ in 0..2 {
            let mut inquiry = inquiry("fetch c");
            cache.look_up("d", &mut inquiry, now);
            while let Next::Ask(Question { sql, .. }) = inquiry.next() {
                let asks_cursors = sql.contains("pg_cursors");
                if asks_cursors {
                    inquiry.on_row(&[Some(b"cursor")]);
                }
                inquiry.on_answered(true);
                assert!(asks_cursors || inquiry.questions == 1);
            }
            assert_eq!(inquiry.next(), Next::Known(Err(plimsoll_policy::Unsafe::Cursor)));
            cache.keep("d", &inquiry, now);
        }
    }
}
