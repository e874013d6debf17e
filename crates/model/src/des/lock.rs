//! Locks as tokens: each has one holder, and requests that wait for it.

use std::collections::VecDeque;

/// One lock. Requests are named by their client.
#[derive(Default)]
pub(super) struct Lock {
    holder: Option<usize>,
    waiters: VecDeque<(u8, usize)>,
}

impl Lock {
    /// Returns whether `client` holds it now; otherwise the client waits behind all others or, by priority, behind
    /// equally or more important ones.
    pub(super) fn acquire(&mut self, client: usize, priority: u8, by_priority: bool) -> bool {
        if self.holder.is_none() {
            self.holder = Some(client);
            return true;
        }
        let behind = |waiter: &(u8, usize)| !by_priority || waiter.0 >= priority;
        let at = self.waiters.iter().rposition(behind).map_or(0, |at| at + 1);
        self.waiters.insert(at, (priority, client));
        false
    }

    /// Passes it on; returns the new holder if a client was waiting.
    pub(super) fn release(&mut self) -> Option<usize> {
        self.holder = self.waiters.pop_front().map(|(_, client)| client);
        self.holder
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The successive holders, if clients ask for it in this order with these priorities.
    fn holders(priorities: &[u8], by_priority: bool) -> Vec<usize> {
        let mut lock = Lock::default();
        for (client, priority) in priorities.iter().enumerate() {
            assert_eq!(lock.acquire(client, *priority, by_priority), client == 0);
        }
        [0].into_iter().chain(std::iter::from_fn(|| lock.release())).collect()
    }

    #[test]
    fn the_first_comes_first_unless_another_is_more_important() {
        assert_eq!(holders(&[0, 0, 1, 0, 2, 1], false), [0, 1, 2, 3, 4, 5]);
        assert_eq!(holders(&[0, 0, 1, 0, 2, 1], true), [0, 4, 2, 5, 1, 3]);
    }

    #[test]
    fn a_lock_that_nobody_wants_is_free_again() {
        let mut lock = Lock::default();
        assert!(lock.acquire(7, 0, true));
        assert_eq!(lock.release(), None);
        assert!(lock.acquire(8, 0, true));
    }
}
