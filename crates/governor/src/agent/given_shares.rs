//! The processes whose shares were changed: their original share, their current one, and restoring.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_machine::host::Host;
use plimsoll_machine::process_identity::ProcessIdentity;
use plimsoll_machine::process_share::{ProcessFacts, ProcessShare, ShareError};

use super::server::is_postgres;
use crate::settings::CpuShare;

/// Sets the shares of processes, and restores their original ones.
#[derive(Debug)]
pub(super) struct GivenShares {
    pub(super) host: Host,
    /// The known state of each process, by its ID.
    held: BTreeMap<i32, GivenShare>,
    /// The processes that were requested since the walk began.
    asked: BTreeSet<i32>,
    /// The original share of every process of the server, if it is known. Beside a server, processes may have shares
    /// that a killed governor set. Otherwise the share that a process has when it is first seen is taken as its
    /// original.
    pub(super) first: Option<ProcessShare>,
    /// Whether the list of processes that cannot be changed differs from the reported one.
    is_list_new: bool,
}

/// The state of a process whose share was to be set.
#[derive(Debug)]
struct GivenShare {
    identity: ProcessIdentity,
    /// Its original share.
    before: ProcessShare,
    /// The last share requested for it.
    share: CpuShare,
    /// Why it does not have that share.
    trouble: Option<String>,
}

impl GivenShares {
    pub(super) fn new(host: Host) -> Self {
        GivenShares { host, held: BTreeMap::new(), asked: BTreeSet::new(), first: None, is_list_new: false }
    }

    /// A walk begins.
    pub(super) fn begin(&mut self) {
        self.asked.clear();
    }

    /// Whether a process was requested since the walk began.
    pub(super) fn was_asked_for(&self, process: i32) -> bool {
        self.asked.contains(&process)
    }

    /// A walk has ended: processes that were not requested have ended or, beside a server, are no longer governed.
    pub(super) fn end(&mut self) {
        let GivenShares { host, held, asked, first, is_list_new } = self;
        held.retain(|process, held| {
            let stays = asked.contains(process);
            if !stays && first.is_some() && held.share != CpuShare::Untouched {
                // Processes that have ended have nothing to restore.
                let _ = held.before.give(host, held.identity);
            }
            *is_list_new |= !stays && held.trouble.is_some();
            stays
        });
    }

    /// The shares that we have set.
    pub(super) fn shares(&self) -> impl Iterator<Item = (i32, CpuShare)> {
        self.held.iter().map(|(process, held)| (*process, held.share))
    }

    /// Sets the share of a server process, unless it has that share.
    pub(super) fn bring(&mut self, process: i32, share: CpuShare, postmaster: ProcessIdentity) {
        self.asked.insert(process);
        match self.held.get(&process) {
            Some(held) if held.share == share => return,
            None if share == CpuShare::Untouched && self.first.is_none() => return,
            _ => {}
        }
        // Setting a share first verifies that a known process is still the same one.
        let known = self.held.get(&process).map(|held| (held.identity, held.before));
        let Some((identity, before)) = known.or_else(|| self.meet(process, postmaster)) else { return };
        let wanted = match share {
            CpuShare::Untouched => before,
            CpuShare::Prompt => before.prompt(),
            CpuShare::Nice(nice) => before.with_nice(nice),
            CpuShare::Idle => before.idle(),
        };
        let given = wanted.give(&self.host, identity);
        self.is_list_new |= given.is_err() || self.held.get(&process).is_some_and(|held| held.trouble.is_some());
        match given {
            Err(ShareError::Ended(_)) => drop(self.held.remove(&process)),
            // The next walk tries again; until then its share is unchanged.
            Err(error) if error.is_passing() => {}
            given => {
                let trouble = given.err().map(|error| error.to_string());
                self.held.insert(process, GivenShare { identity, before, share, trouble });
            }
        }
    }

    /// The identity and the original share of a process; `None` if it does not belong to the server: it has ended, or
    /// another process has its number now, and its session will end, too.
    fn meet(&self, process: i32, postmaster: ProcessIdentity) -> Option<(ProcessIdentity, ProcessShare)> {
        let facts = ProcessFacts::of(&self.host, process)?;
        if facts.parent != postmaster.id || !is_postgres(&facts) {
            return None;
        }
        let before = self.first.map_or(facts.share, |first| ProcessShare {
            // Each server process leads a session of its own, and so has an autogroup of its own.
            autogroup: facts.share.autogroup.map(|_| 0),
            ..first
        });
        Some((facts.identity, before))
    }

    /// Restores the shares of all processes. Processes that have ended need nothing.
    pub(super) fn put_back(&mut self) {
        for held in self.held.values().filter(|held| held.share != CpuShare::Untouched) {
            match held.before.give(&self.host, held.identity) {
                Ok(()) | Err(ShareError::Ended(_)) => {}
                Err(error) => tracing::warn!(%error, "a server process keeps its share until its session ends"),
            }
        }
    }

    pub(super) fn forget(&mut self) {
        self.is_list_new |= self.held.values().any(|held| held.trouble.is_some());
        self.held.clear();
    }

    /// Whether the list of processes that cannot be changed has changed.
    pub(super) fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.is_list_new)
    }

    /// The processes without the requested share, and the reasons.
    pub(super) fn untouchable(&self) -> Vec<(i32, String)> {
        self.held.iter().filter_map(|(process, held)| Some((*process, held.trouble.clone()?))).collect()
    }
}
