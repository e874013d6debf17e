//! Clients that have not said what they want: a bounded number, of which the oldest gives way to a newcomer.
//!
//! They take none of the places of those who have spoken, so whoever connects and says nothing keeps nobody out: neither
//! clients nor operators. A client that means it speaks at once, long before as many others have come after it.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

/// How many there may be; more than come at once where a whole pool connects anew.
const SILENT_MAX: usize = 500;

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Silent(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    next: u64,
    /// The worker of each, oldest first.
    workers: BTreeMap<u64, usize>,
}

/// One of them, until this is dropped.
#[derive(Debug)]
pub(super) struct SilentPlace {
    silent: Arc<Silent>,
    /// Counts newcomers.
    pub(super) number: u64,
}

/// One that is to be closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct GivesWay {
    pub(super) worker: usize,
    /// Its [`SilentPlace::number`].
    pub(super) number: u64,
}

impl Silent {
    /// Takes in a newcomer that this worker will serve, and says who gives way to it.
    pub(super) fn enter(self: &Arc<Self>, worker: usize) -> (SilentPlace, Option<GivesWay>) {
        let mut waiting = self.0.lock();
        let number = waiting.next;
        waiting.next += 1;
        let gives_way = if waiting.workers.len() < SILENT_MAX { None } else { waiting.workers.pop_first() };
        waiting.workers.insert(number, worker);
        let gives_way = gives_way.map(|(number, worker)| GivesWay { worker, number });
        (SilentPlace { silent: Arc::clone(self), number }, gives_way)
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
        let mut places: Vec<_> = (0..SILENT_MAX).map(|worker| silent.enter(worker)).collect();
        assert!(places.iter().all(|(_, gives_way)| gives_way.is_none()));
        // The first has spoken, so there is room for another.
        places.remove(0);
        let (_room, gives_way) = silent.enter(7);
        assert_eq!(gives_way, None);
        let (_newcomer, gives_way) = silent.enter(7);
        assert_eq!(gives_way, Some(GivesWay { worker: 1, number: 1 }));
    }
}
