//! A station that shares: evenly, or more important requests first.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use crate::network::Service;

/// A moment or an amount of service that sorts.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct Seconds(pub(super) f64);

impl Eq for Seconds {}

impl PartialOrd for Seconds {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Seconds {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// Requests of one priority. All of them are served alike, so one number gives the service that each has received.
#[derive(Default)]
struct Level {
    priority: u8,
    /// Seconds of service of a request that has always been here.
    served_s: f64,
    /// Seconds of service per second for each.
    rate: f64,
    /// Clients by the service at which they are done.
    clients: BinaryHeap<Reverse<(Seconds, usize)>>,
}

impl Level {
    /// Until its next request is done; `None` if it is empty or starves.
    fn next(&self) -> Option<Seconds> {
        let Reverse((done, _)) = self.clients.peek()?;
        (self.rate > 0.0).then(|| Seconds(((done.0 - self.served_s) / self.rate).max(0.0)))
    }
}

/// A station with its present requests.
pub(super) struct Station<'a> {
    service: &'a Service,
    /// The most important first.
    levels: Vec<Level>,
}

impl<'a> Station<'a> {
    /// An empty station. `priorities` are those of all classes; without any, all requests are alike.
    pub(super) fn new(service: &'a Service, mut priorities: Vec<u8>) -> Self {
        priorities.sort_unstable_by_key(|priority| Reverse(*priority));
        priorities.dedup();
        let levels = priorities.into_iter().map(|priority| Level { priority, ..Level::default() }).collect();
        Self { service, levels }
    }

    /// A request that needs `demand_s` arrives.
    pub(super) fn enter(&mut self, client: usize, priority: u8, demand_s: f64) {
        let level = self.levels.iter_mut().find(|level| level.priority <= priority);
        let level = level.expect("a level for the priority of each class");
        level.clients.push(Reverse((Seconds(level.served_s + demand_s), client)));
        self.share();
    }

    /// Seconds until the next request is done, if none arrives.
    pub(super) fn next_s(&self) -> Option<f64> {
        self.levels.iter().filter_map(Level::next).min().map(|next| next.0)
    }

    /// Advances the time.
    pub(super) fn pass(&mut self, seconds: f64) {
        for level in &mut self.levels {
            level.served_s += level.rate * seconds;
        }
    }

    /// Removes the request that is done next, now.
    pub(super) fn leave(&mut self) -> Option<usize> {
        let level = (0..self.levels.len()).filter_map(|at| Some((self.levels[at].next()?, at))).min()?.1;
        let Reverse((done, client)) = self.levels[level].clients.pop()?;
        let level = &mut self.levels[level];
        // Rounding must not leave the level behind the service that it gave; an idle level starts again at 0, so that
        // sums stay small.
        level.served_s = if level.clients.is_empty() { 0.0 } else { level.served_s.max(done.0) };
        self.share();
        Some(client)
    }

    /// The clients that are served, each with its seconds of service per second.
    #[cfg(test)]
    pub(super) fn served(&self) -> impl Iterator<Item = (usize, f64)> {
        self.levels.iter().flat_map(|level| level.clients.iter().map(|Reverse((_, client))| (*client, level.rate)))
    }

    fn share(&mut self) {
        let mut before = 0;
        for level in &mut self.levels {
            let there = level.clients.len();
            let rate = self.service.rate(before + there) - self.service.rate(before);
            level.rate = if there > 0 { rate / there as f64 } else { 0.0 };
            before += there;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// When clients with these demands and priorities leave, if all enter at the beginning.
    fn leave(servers: u32, clients: &[(u8, f64)]) -> Vec<(usize, f64)> {
        let service = Service::Processors { servers };
        let mut station = Station::new(&service, clients.iter().map(|client| client.0).collect());
        for (client, (priority, demand_s)) in clients.iter().enumerate() {
            station.enter(client, *priority, *demand_s);
        }
        let mut now = 0.0;
        std::iter::from_fn(|| {
            let next = station.next_s()?;
            now += next;
            station.pass(next);
            Some((station.leave()?, now))
        })
        .collect()
    }

    #[test]
    fn equals_share_evenly() {
        assert_eq!(leave(1, &[(0, 1.0), (0, 3.0)]), [(0, 2.0), (1, 4.0)]);
        assert_eq!(leave(2, &[(0, 1.0), (0, 3.0), (0, 3.0)]), [(0, 1.5), (1, 3.5), (2, 3.5)]);
    }

    #[test]
    fn the_more_important_are_served_as_if_alone() {
        assert_eq!(leave(1, &[(0, 1.0), (1, 3.0)]), [(1, 3.0), (0, 4.0)]);
        // One of two servers is left for the others.
        assert_eq!(leave(2, &[(0, 1.0), (0, 1.0), (1, 3.0)]), [(0, 2.0), (1, 2.0), (2, 3.0)]);
    }
}
