//! Silent clients, which have sent neither a start-up message nor a cancel request: a bounded number, of which the
//! oldest is closed to make room for a new one.
//!
//! They do not occupy the places of other clients, so connecting and sending nothing keeps out neither clients nor
//! operators. A genuine client sends its message at once, long before that many others have connected after it.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::process::{Resource, getrlimit};

/// The bound; more than connect at once when a whole pool reconnects.
const SILENT_MAX: usize = 500;

/// The least part of the files that this process may open which is kept for others: three quarters.
const SILENT_PART: u64 = 4;

/// How many clients may be silent at once, given how many files this process may open.
pub(super) fn silent_max() -> usize {
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(files / SILENT_PART).map_or(SILENT_MAX, |part| part.clamp(1, SILENT_MAX))
}

/// All silent clients.
#[derive(Debug, Default)]
pub(super) struct Silent(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    next: u64,
    /// The worker of each, oldest first.
    workers: BTreeMap<u64, usize>,
}

/// The place of a silent client, until this is dropped.
#[derive(Debug)]
pub(super) struct SilentPlace {
    silent: Arc<Silent>,
    /// The sequence number of the client.
    pub(super) number: u64,
}

/// A client that must be closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct GivesWay {
    pub(super) worker: usize,
    /// Its [`SilentPlace::number`].
    pub(super) number: u64,
}

impl Silent {
    /// Adds a new client that the given worker will serve, and returns the client to close for it if `max` are silent.
    pub(super) fn enter(self: &Arc<Self>, worker: usize, max: usize) -> (SilentPlace, Option<GivesWay>) {
        let gives_way = if self.0.lock().workers.len() < max { None } else { self.oldest() };
        let mut waiting = self.0.lock();
        let number = waiting.next;
        waiting.next += 1;
        waiting.workers.insert(number, worker);
        (SilentPlace { silent: Arc::clone(self), number }, gives_way)
    }

    /// Takes the oldest client out: it must be closed.
    pub(super) fn oldest(&self) -> Option<GivesWay> {
        self.0.lock().workers.pop_first().map(|(number, worker)| GivesWay { worker, number })
    }
}

impl Drop for SilentPlace {
    fn drop(&mut self) {
        self.silent.0.lock().workers.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_that_is_still_silent_gives_way() {
        let silent = Arc::new(Silent::default());
        let mut places: Vec<_> = (0..SILENT_MAX).map(|worker| silent.enter(worker, SILENT_MAX)).collect();
        assert!(places.iter().all(|(_, gives_way)| gives_way.is_none()));
        // The first is no longer silent, so there is room for another.
        places.remove(0);
        let (_room, gives_way) = silent.enter(7, SILENT_MAX);
        assert_eq!(gives_way, None);
        let (_newcomer, gives_way) = silent.enter(7, SILENT_MAX);
        assert_eq!(gives_way, Some(GivesWay { worker: 1, number: 1 }));
    }
}
