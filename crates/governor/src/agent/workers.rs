//! Parallel workers receive the share, the groups and the part of the cache of their leader.

use std::collections::BTreeMap;
use std::time::Instant;

use plimsoll_machine::process_identity::ProcessIdentity;
use plimsoll_pg::parallel_workers::ParallelWorkers;

use super::cache::Cache;
use super::given_shares::GivenShares;
use super::groups::Groups;
use crate::settings::CpuShare;

/// The settings that workers receive from their leaders.
#[derive(Debug)]
pub(super) struct Followers<'a> {
    pub(super) given_shares: &'a mut GivenShares,
    pub(super) groups: &'a mut Groups,
    pub(super) cache: &'a mut Cache,
}

#[derive(Debug, Default)]
pub(super) struct Workers(ParallelWorkers);

impl Workers {
    /// The workers that a process leads.
    pub(super) fn of(&self, leader: i32) -> impl Iterator<Item = i32> {
        self.0.of(leader)
    }

    /// Updates the share, the groups and the part of the cache of every worker. If workers `count`, they are looked for
    /// even if no class has a share or a group. A walk lists children even if no process has begun, and so drops those
    /// that have ended.
    pub(super) fn tend(
        &mut self,
        followers: Followers<'_>,
        count: bool,
        walks: bool,
        postmaster: ProcessIdentity,
        now: Instant,
    ) {
        let Followers { given_shares, groups, cache } = followers;
        let shares: BTreeMap<i32, CpuShare> = given_shares.shares().collect();
        let is_untouched = |share: &CpuShare| *share == CpuShare::Untouched;
        let are_untouched = shares.values().all(is_untouched) && !groups.has_any() && !cache.has_any() && !count;
        if self.0.all().next().is_none() && are_untouched {
            return;
        }
        self.0.look(&given_shares.host, postmaster.id, walks);
        for (worker, leader) in self.0.all() {
            given_shares.bring(worker, shares.get(&leader).copied().unwrap_or(CpuShare::Untouched), postmaster);
            groups.follow(worker, leader, postmaster, now);
            cache.follow(worker, leader, postmaster, now);
        }
    }
}
