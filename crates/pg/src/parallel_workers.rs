//! Parallel workers: processes of a server that work for another of its processes.
//!
//! They are children of the server's first process, and their titles name the process that they work for. A child's
//! title is read once. Children are listed again only if a process has begun on this machine since all of them had a
//! title, so a look costs little more than one read.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_machine::host::Host;
use plimsoll_machine::process_share::{children, newest_process, title};

/// The children of a server that are known.
#[derive(Debug, Default)]
pub struct ParallelWorkers {
    /// The leader of each worker.
    led_by: BTreeMap<i32, i32>,
    /// Children that are not workers.
    others: BTreeSet<i32>,
    /// The machine's newest process when children were listed last; `None` if one of them had no title yet.
    newest: Option<i32>,
}

/// What a process title says about its leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Says {
    /// A worker of that process.
    WorksFor(i32),
    /// Something else.
    Other,
    /// Nothing yet: it still has the title of the process that it was forked from.
    NothingYet,
}

impl ParallelWorkers {
    /// Finds the workers that have begun since the last look, each with its leader. `forgets` lists children even if no
    /// process has begun, and so forgets those that have ended.
    pub fn look(&mut self, host: &Host, postmaster: i32, forgets: bool) -> Vec<(i32, i32)> {
        // Asked before children are listed: a process that begins in between is found by the next look.
        let newest = newest_process(host);
        if !forgets && newest.is_some() && newest == self.newest {
            return Vec::new();
        }
        let mut found = Vec::new();
        let have_titles = self.list(host, postmaster, &mut found);
        self.newest = newest.filter(|_| have_titles);
        found
    }

    /// Each worker with its leader.
    pub fn all(&self) -> impl Iterator<Item = (i32, i32)> {
        self.led_by.iter().map(|(worker, leader)| (*worker, *leader))
    }

    /// The workers that a process leads.
    pub fn of(&self, leader: i32) -> impl Iterator<Item = i32> {
        self.all().filter(move |(_, led_by)| *led_by == leader).map(|(worker, _)| worker)
    }

    /// Lists the server's children, and returns whether all of them have titles. If the kernel does not list them,
    /// workers stay as they are.
    fn list(&mut self, host: &Host, postmaster: i32, found: &mut Vec<(i32, i32)>) -> bool {
        let Some(children) = children(host, postmaster) else { return false };
        let children: BTreeSet<i32> = children.into_iter().collect();
        self.led_by.retain(|worker, _| children.contains(worker));
        self.others.retain(|other| children.contains(other));
        let mut have_titles = true;
        for child in children {
            if self.led_by.contains_key(&child) || self.others.contains(&child) {
                continue;
            }
            match title(host, child).map_or(Says::NothingYet, |title| says(&title)) {
                Says::WorksFor(leader) => {
                    self.led_by.insert(child, leader);
                    found.push((child, leader));
                }
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
