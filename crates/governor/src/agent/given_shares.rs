//! The processes whose shares were changed: their original share, their current one, and restoring.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_machine::host::Host;
use plimsoll_machine::process_identity::ProcessIdentity;
use plimsoll_machine::process_share::{ProcessFacts, ProcessShare, ShareError};

use super::server::is_postgres;
use crate::settings::CpuShare;

/// Gives processes their shares, and puts back those that they had.
#[derive(Debug)]
pub(super) struct GivenShares {
    pub(super) host: Host,
    /// What is held of each process, by its number.
    held: BTreeMap<i32, Held>,
    /// The processes that were asked for since the walk began.
    asked: BTreeSet<i32>,
    /// What every process of the server had when it began, where that is known: beside a server, whose processes may have shares
    /// that a governor gave them which was killed. Otherwise a process is taken to have had what it has when it is first seen.
    pub(super) first: Option<ProcessShare>,
    /// Whether the list of processes that cannot be changed differs from the reported one.
    is_list_new: bool,
}

/// What is known of a process that was to be given a share.
#[derive(Debug)]
struct Held {
    identity: ProcessIdentity,
    /// What it had.
    before: ProcessShare,
    /// What it was to be given last.
    share: CpuShare,
    /// Why it does not have that.
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

    /// Whether a process was asked for since the walk began.
    pub(super) fn was_asked_for(&self, process: i32) -> bool {
        self.asked.contains(&process)
    }

    /// A walk has ended: who was not asked for has gone, or, beside a server, is not governed any more.
    pub(super) fn end(&mut self) {
        let GivenShares { host, held, asked, first, is_list_new } = self;
        held.retain(|process, held| {
            let stays = asked.contains(process);
            if !stays && first.is_some() && held.share != CpuShare::Untouched {
                // Of those who have ended nothing is left to be put back.
                let _ = held.before.give(host, held.identity);
            }
            *is_list_new |= !stays && held.trouble.is_some();
            stays
        });
    }

    /// The shares that processes have by us.
    pub(super) fn shares(&self) -> impl Iterator<Item = (i32, CpuShare)> {
        self.held.iter().map(|(process, held)| (*process, held.share))
    }

    /// Brings a process of the server to a share, unless it has it.
    pub(super) fn bring(&mut self, process: i32, share: CpuShare, postmaster: ProcessIdentity) {
        self.asked.insert(process);
        match self.held.get(&process) {
            Some(held) if held.share == share => return,
            None if share == CpuShare::Untouched && self.first.is_none() => return,
            _ => {}
        }
        // That a known process is still the same one is seen before anything is given to it.
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
            // Tried again in the next walk; until then it is as it was.
            Err(error) if error.is_passing() => {}
            given => {
                let trouble = given.err().map(|error| error.to_string());
                self.held.insert(process, Held { identity, before, share, trouble });
            }
        }
    }

    /// Which process a number is and with which share it began; `None` if it is none of the server's: it has ended, or the number
    /// belongs to another process by now, and the session will end, too.
    fn meet(&self, process: i32, postmaster: ProcessIdentity) -> Option<(ProcessIdentity, ProcessShare)> {
        let facts = ProcessFacts::of(&self.host, process)?;
        if facts.parent != postmaster.id || !is_postgres(&facts) {
            return None;
        }
        let before = self.first.map_or(facts.share, |first| ProcessShare {
            // Each process of a server is a session of its own, and so is its autogroup.
            autogroup: facts.share.autogroup.map(|_| 0),
            ..first
        });
        Some((facts.identity, before))
    }

    /// Gives all processes back what they had. Those that have ended need nothing.
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

    /// Whether the list of those who cannot be touched has changed.
    pub(super) fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.is_list_new)
    }

    /// Those who do not have what they should, and why.
    pub(super) fn untouchable(&self) -> Vec<(i32, String)> {
        self.held.iter().filter_map(|(process, held)| Some((*process, held.trouble.clone()?))).collect()
    }
}
