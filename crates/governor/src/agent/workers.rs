//! Parallel workers: processes of the server that work for another of its processes, and get its share.
//!
//! They are the server's children, and their titles name the process they work for. A child's title is read once, and children
//! are listed again only if a process has begun on this machine since all of them had a title, so a look costs little more than
//! one read.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use plimsoll_machine::process_identity::ProcessIdentity;
use plimsoll_machine::process_share::{children, newest_process, title};

use super::cache::Cache;
use super::groups::Groups;
use super::hands::Hands;
use crate::settings::CpuShare;

/// What gives workers what their leaders have.
#[derive(Debug)]
pub(super) struct Followers<'a> {
    pub(super) hands: &'a mut Hands,
    pub(super) groups: &'a mut Groups,
    pub(super) cache: &'a mut Cache,
}

/// The server's children that are known.
#[derive(Debug, Default)]
pub(super) struct Workers {
    /// The leader of each worker.
    led_by: BTreeMap<i32, i32>,
    /// Children that are no workers.
    others: BTreeSet<i32>,
    /// The machine's newest process when children were listed last; `None` if one of them had no title yet.
    newest: Option<i32>,
}

/// What a title says of whom the process works for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Says {
    /// A worker of that process.
    WorksFor(i32),
    /// Something else.
    Other,
    /// Nothing yet: it still has the title of the process that it was forked from.
    NothingYet,
}

impl Workers {
    /// The workers that a process leads.
    pub(super) fn of(&self, leader: i32) -> impl Iterator<Item = i32> {
        self.led_by.iter().filter(move |(_, led_by)| **led_by == leader).map(|(worker, _)| *worker)
    }

    /// Brings every worker to its leader's share, to its groups and to its part of the cache.
    /// Even if no class has a share or a group, they are looked for if they `count`. A walk lists children whether or not a process has begun,
    /// and so forgets those that have ended.
    pub(super) fn tend(
        &mut self,
        followers: Followers<'_>,
        count: bool,
        walks: bool,
        postmaster: ProcessIdentity,
        now: Instant,
    ) {
        let Followers { hands, groups, cache } = followers;
        let shares: BTreeMap<i32, CpuShare> = hands.shares().collect();
        let is_untouched = |share: &CpuShare| *share == CpuShare::Untouched;
        let are_untouched = shares.values().all(is_untouched) && !groups.has_any() && !cache.has_any() && !count;
        if self.led_by.is_empty() && are_untouched {
            return;
        }
        // Asked before children are listed: a process that begins in between is found by the next look.
        let newest = newest_process(hands.host());
        if walks || newest.is_none() || newest != self.newest {
            let have_titles = self.list(hands, postmaster);
            self.newest = newest.filter(|_| have_titles);
        }
        for (worker, leader) in &self.led_by {
            hands.bring(*worker, shares.get(leader).copied().unwrap_or(CpuShare::Untouched), postmaster);
            groups.follow(*worker, *leader, postmaster, now);
            cache.follow(*worker, *leader, postmaster, now);
        }
    }

    /// Lists the server's children; whether all of them have titles. A kernel that does not list them leaves workers as they are.
    fn list(&mut self, hands: &Hands, postmaster: ProcessIdentity) -> bool {
        let Some(children) = children(hands.host(), postmaster.id) else { return false };
        let children: BTreeSet<i32> = children.into_iter().collect();
        self.led_by.retain(|worker, _| children.contains(worker));
        self.others.retain(|other| children.contains(other));
        let mut have_titles = true;
        for child in children {
            if self.led_by.contains_key(&child) || self.others.contains(&child) {
                continue;
            }
            match title(hands.host(), child).map_or(Says::NothingYet, |title| says(&title)) {
                Says::WorksFor(leader) => drop(self.led_by.insert(child, leader)),
                Says::Other => drop(self.others.insert(child)),
                Says::NothingYet => have_titles = false,
            }
        }
        have_titles
    }
}

fn says(title: &str) -> Says {
    const WORKER: &str = "parallel worker for PID ";
    match (title.starts_with("postgres: "), title.rsplit_once(WORKER)) {
        (false, _) => Says::NothingYet,
        (true, Some((_, leader))) => leader.trim().parse().map_or(Says::Other, Says::WorksFor),
        (true, None) => Says::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_say_who_works_for_whom() {
        let check = |title: &str, expect: Says| assert_eq!(says(title), expect, "{title}");
        check("postgres: parallel worker for PID 4711", Says::WorksFor(4711));
        check("postgres: main: parallel worker for PID 4711 ", Says::WorksFor(4711));
        check("postgres: parallel worker for PID 4711 SELECT", Says::Other);
        check("postgres: ann shop [local] idle", Says::Other);
        check("/usr/lib/postgresql/15/bin/postgres -D /data", Says::NothingYet);
        check("", Says::NothingYet);
    }
}
