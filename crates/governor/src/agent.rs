//! The CPU shares of server processes, by the class of the transaction that each works for.
//!
//! If the server is on this machine and its processes may be changed (`server` finds out by trying), each session's
//! process receives its class's [`CpuShare`], and so do its parallel workers (`workers`). A lock holder that blocks a
//! more important transaction can inherit that transaction's share until its own ends. Every share is read back from
//! `/proc` after it was set (`plimsoll_machine::process_share`); processes that cannot be changed are listed in the
//! governor's health with the reason.
//!
//! A process keeps the share of its session's last transaction until a transaction of another class is admitted, which
//! wakes the watcher: the change takes about a tenth of a millisecond, and a millisecond if many change. The agent
//! looks for new parallel workers every 5 ms while a session that may have some is active. All other changes
//! (settings, processes that could not be changed) are noticed in a walk over all sessions every 50 ms.
//!
//! All shares are restored when the governor ends, when shares are turned off, and for a class that becomes untouched.
//! A killed governor restores nothing; the processes that it changed end with their sessions, because its connections
//! are closed.
//!
//! Sessions that applications open at the server themselves outlive a killed governor, and their processes keep their
//! changed shares. The next governor therefore assumes that every process began with the share and in the groups of the
//! server's first process, and restores those that differ.
//!
//! A class may name control groups for the processes that serve it (`groups`), which an operator has created and
//! delegated. They set limits that nice values cannot express, above all on a disk's bandwidth. If the agent may create
//! groups itself, it limits the disk reads of yielding classes while other sessions wait for the disk (`disk`). It also
//! makes classes with `cpu = "idle"` yield at once even if the scheduler ignores policies of processes between its
//! groups (`idle`). If the processor can partition its last-level cache, processes of a class can be confined to a part
//! of it (`cache`).

mod cache;
mod disk;
mod floor;
mod given_shares;
mod groups;
mod idle;
mod server;
mod workers;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use plimsoll_machine::groups::GroupFolder;
use plimsoll_machine::host::Host;
use plimsoll_machine::process_identity::ProcessIdentity;
use plimsoll_machine::process_share::{ProcessFacts, has_autogroups};
use plimsoll_policy::ClassIndex;
use plimsoll_policy::cache_use::CacheUse;

use crate::governor::Governor;
use crate::registry::{SessionCard, SessionId};
use crate::settings::{CpuShare, Settings, levers};
use cache::Cache;
pub(crate) use cache::cache_here;
use disk::Disk;
use given_shares::GivenShares;
use groups::{Folders, Groups};
use idle::Idle;
pub use server::ServerHere;
pub(crate) use server::find as find_server;
use workers::{Followers, Workers};

/// The interval between walks over the sessions and their workers.
const EVERY: Duration = Duration::from_millis(50);

/// The interval between looks for new parallel workers, while a class with its own share has admitted sessions. Workers
/// begin with the server's share, and each deprives an important process of a core until that is changed. Most live for
/// a fraction of a second. A look every millisecond brought nothing more, and took 3 % of a core.
const WORKERS_EVERY: Duration = Duration::from_millis(5);

/// The pause after a look for workers, as a multiple of its duration: with hundreds of sessions a look takes longer.
const WORKERS_REST_FACTOR: u32 = 50;

/// How long the agent waits after the kernel has refused a change.
const REFUSED_FOR: Duration = Duration::from_secs(60);

/// The shortest interval between changes due to admitted transactions of other classes, so that sessions that change
/// class with each transaction do not keep a core busy.
const CHANGES_EVERY: Duration = Duration::from_millis(1);

/// How long `prompt` stays in force after the last transaction of a class with a smaller share: switching it for each
/// transaction would cost more than it gains.
const PROMPT_FOR: Duration = Duration::from_secs(1);

/// Sets the CPU shares of server processes. Dropping it restores them.
#[derive(Debug)]
pub struct Agent {
    governor: Arc<Governor>,
    /// The server's first process, or why its processes cannot be changed.
    server: Result<ProcessIdentity, String>,
    given_shares: GivenShares,
    groups: Groups,
    disk: Disk,
    idle: Idle,
    cache: Cache,
    workers: Workers,
    /// The transactions that have inherited a share, by session.
    inherited: BTreeMap<SessionId, (u64, CpuShare)>,
    /// Until when `prompt` is in force.
    prompt_until: Instant,
    next: Instant,
    /// Whether transactions of other classes were admitted, and when the changes may be made.
    are_changes_due: bool,
    next_changes: Instant,
    next_workers: Instant,
    /// The settings for which the levers' state was reported.
    told_for: Option<Arc<Settings>>,
}

impl Agent {
    /// An agent whose server is unknown yet.
    pub fn new(governor: Arc<Governor>) -> Self {
        Agent::on(governor, Host::real())
    }

    /// An agent for the given machine.
    pub fn on(governor: Arc<Governor>, host: Host) -> Self {
        Agent {
            governor,
            server: Err("the server is not known yet".to_owned()),
            groups: Groups::new(host.clone()),
            disk: Disk::new(host.clone()),
            idle: Idle::new(host.clone()),
            cache: Cache::new(host.clone()),
            given_shares: GivenShares::new(host),
            workers: Workers::default(),
            inherited: BTreeMap::new(),
            prompt_until: Instant::now(),
            next: Instant::now(),
            are_changes_due: false,
            next_changes: Instant::now(),
            next_workers: Instant::now(),
            told_for: None,
        }
    }

    /// The server has become known or unknown.
    pub fn server(&mut self, here: Result<ServerHere, String>) {
        let found = here.and_then(|here| server::find(&self.given_shares.host, &here));
        if self.server != found {
            self.put_back();
            self.server = found;
            let outlive_us = self.governor.settings().observes();
            let postmaster = self.server.as_ref().ok().filter(|_| outlive_us).map(|postmaster| postmaster.id);
            let facts = postmaster.and_then(|process| ProcessFacts::of(&self.given_shares.host, process));
            self.given_shares.first = facts.map(|facts| facts.share);
            self.groups.may_be_left = outlive_us;
            server::restore_left_over(&self.given_shares.host);
            self.disk.server(&self.server);
            self.idle.server(&self.server);
            self.cache.server(&self.server);
        }
        self.told_for = None;
    }

    /// Why the server's processes cannot be changed; `None` if they can.
    pub(crate) fn is_kept_out(&self) -> Option<&str> {
        self.server.as_ref().err().map(String::as_str)
    }

    /// Whether holders can and may inherit.
    pub(crate) fn may_inherit(&self, settings: &Settings) -> bool {
        settings.cpu.inheritance && self.server.is_ok()
    }

    /// When [`tend`](Self::tend) must be called next; `None` for never.
    pub fn due(&self, now: Instant) -> Option<Duration> {
        let settings = self.told_for.as_ref().filter(|settings| self.is_wanted(settings))?;
        let changes = self.are_changes_due.then_some(self.next_changes);
        let workers = self.may_have_new_workers(settings, now).then_some(self.next_workers);
        let next = [changes, workers].into_iter().flatten().fold(self.next, Instant::min);
        Some(next.saturating_duration_since(now))
    }

    /// Updates the shares of all processes, as far as they are due.
    pub fn tend(&mut self, settings: &Arc<Settings>, now: Instant) {
        if !self.told_for.as_ref().is_some_and(|told| Arc::ptr_eq(told, settings)) {
            self.told_for = Some(settings.clone());
            self.tell(settings);
        }
        self.are_changes_due |= self.governor.take_changed_shares();
        let walks = now >= self.next;
        let changes = walks || self.are_changes_due && now >= self.next_changes;
        if changes && self.are_less_at_work(settings) {
            self.prompt_until = now + PROMPT_FOR;
        }
        let looks_for_workers = walks || now >= self.next_workers && self.may_have_new_workers(settings, now);
        if !(changes || looks_for_workers) {
            return;
        }
        match self.server {
            Ok(postmaster) if self.is_wanted(settings) && walks => self.walk(settings, postmaster, now),
            Ok(postmaster) if self.is_wanted(settings) => {
                if changes {
                    self.bring_all(settings, postmaster, now);
                }
                if looks_for_workers {
                    self.look_for_workers(postmaster, false, now);
                }
            }
            _ => self.put_back(),
        }
        if walks {
            self.next = now + EVERY;
        }
        if changes {
            (self.are_changes_due, self.next_changes) = (false, now + CHANGES_EVERY);
        }
        self.publish();
    }

    /// Whether a process with a share of its own may be starting workers now.
    fn may_have_new_workers(&self, settings: &Settings, now: Instant) -> bool {
        let mut classes = (0..).map(ClassIndex).zip(&settings.classes).zip(self.governor.statistics.classes());
        // Relaxed: an extra or a missed look is harmless.
        classes.any(|((place, class), statistics)| {
            let has_share = self.share_of(settings, place, now) != CpuShare::Untouched;
            let has_group = !class.control_groups.is_empty() || self.disk.is_counting() || class.cache.is_confined();
            (has_share || has_group) && statistics.inside.load(Ordering::Relaxed) > 0
        })
    }

    /// Whether a class with a smaller CPU share has a transaction; also true if no class has a smaller share, so that
    /// `prompt` does not depend on this.
    fn are_less_at_work(&self, settings: &Settings) -> bool {
        let classes = (0..).map(ClassIndex).zip(self.governor.statistics.classes()).take(settings.classes.len());
        let mut less = classes.filter(|(place, _)| settings.share_of(*place).is_less()).peekable();
        // Relaxed: the next walk sees it, too.
        less.peek().is_none() || less.any(|(_, statistics)| statistics.inside.load(Ordering::Relaxed) > 0)
    }

    /// A transaction inherits a share until it ends. Returns whether it had not inherited it before; no effect if it
    /// has already ended.
    pub fn inherit(
        &mut self,
        settings: &Settings,
        card: &SessionCard,
        transaction: u64,
        share: CpuShare,
        now: Instant,
    ) -> bool {
        if !card.state().is_working_on(transaction)
            || !self.may_inherit(settings)
            || self.inherited.insert(card.id, (transaction, share)) == Some((transaction, share))
        {
            return false;
        }
        if let Ok(postmaster) = self.server {
            self.bring(settings, card, postmaster, now);
        }
        true
    }

    fn is_wanted(&self, settings: &Settings) -> bool {
        let has_groups = settings.classes.iter().any(|class| !class.control_groups.is_empty());
        let has_any = settings.cpu.shares || settings.cpu.inheritance || has_groups;
        self.server.is_ok() && (has_any || self.disk.is_wanted(settings) || self.cache.is_wanted(settings))
    }

    fn look_for_workers(&mut self, postmaster: ProcessIdentity, walks: bool, now: Instant) {
        let began = Instant::now();
        let followers =
            Followers { given_shares: &mut self.given_shares, groups: &mut self.groups, cache: &mut self.cache };
        self.workers.tend(followers, self.disk.is_counting(), walks, postmaster, now);
        self.next_workers = now + WORKERS_EVERY.max(began.elapsed() * WORKERS_REST_FACTOR);
    }

    /// Visits all sessions, then the workers of their processes.
    fn walk(&mut self, settings: &Settings, postmaster: ProcessIdentity, now: Instant) {
        self.groups.of_classes(settings);
        if !postmaster.is_running(&self.given_shares.host) {
            self.server = Err("the server's first process has ended".to_owned());
            self.disk.server(&self.server);
            self.governor.health.lock().disk_reading = None;
            self.idle.server(&self.server);
            self.cache.server(&self.server);
            self.told_for = None;
            self.forget();
            return;
        }
        self.disk.tend(&self.governor, settings, &self.workers, now);
        let mut idle = idle::floors_set(settings);
        idle.extend(self.disk.idle_classes(settings));
        if self.idle.tend(&self.governor, idle, now) {
            self.tell(settings);
        }
        self.cache.tend(&self.governor, settings, now);
        self.given_shares.begin();
        self.bring_all(settings, postmaster, now);
        self.look_for_workers(postmaster, true, now);
        self.given_shares.end();
        self.groups.keep(|process| self.given_shares.was_asked_for(process));
        self.cache.keep(|process| self.given_shares.was_asked_for(process));
        let governor = &self.governor;
        self.inherited.retain(|session, _| governor.registry.get(*session).is_some());
    }

    /// Updates the process of each session.
    fn bring_all(&mut self, settings: &Settings, postmaster: ProcessIdentity, now: Instant) {
        for card in self.governor.registry.all() {
            self.bring(settings, &card, postmaster, now);
        }
    }

    /// Updates the share and the groups of one session's process.
    fn bring(&mut self, settings: &Settings, card: &SessionCard, postmaster: ProcessIdentity, now: Instant) {
        let Some(process) = card.process() else { return };
        let (served, inherits) = {
            let state = card.state();
            let inherited = self.inherited.get(&card.id);
            (state.served, inherited.is_some_and(|(heir, _)| state.is_working_on(*heir)))
        };
        let own = (self.share_of(settings, served, now), self.folders(settings, served), settings.class(served).cache);
        let (share, folders, part) = match self.inherited.get(&card.id) {
            // While it inherits, its class's groups must not limit it.
            Some((_, share)) if inherits => (*share, Folders::default(), CacheUse::ALL),
            Some(_) => {
                self.inherited.remove(&card.id);
                own
            }
            None => own,
        };
        self.given_shares.bring(process, share, postmaster);
        self.groups.wish(process, served, &folders, postmaster, now);
        self.cache.wish(process, part, postmaster, now);
    }

    /// The share of processes that serve a class, with two exceptions. While the class's reads are limited, idle time
    /// replaces a nice value. `prompt` applies only beside classes with a smaller share: if all processes had short
    /// slices, these would only add switches.
    fn share_of(&self, settings: &Settings, class: ClassIndex, now: Instant) -> CpuShare {
        match settings.share_of(class) {
            CpuShare::Nice(_) if self.disk.makes_idle(settings, class) => CpuShare::Idle,
            CpuShare::Prompt if now >= self.prompt_until => CpuShare::Untouched,
            share => share,
        }
    }

    /// The groups for processes that serve a class: those that an operator has named, or ours. In version 2 a process
    /// is in only one group, and the temporary group of the disk limit sets idle time itself.
    fn folders(&self, settings: &Settings, class: ClassIndex) -> Folders {
        match (self.disk.folders(settings, class), self.idle.folders(class)) {
            (Some(disk), Some(idle)) if !self.idle.is_unified() => disk.iter().chain(idle.iter()).cloned().collect(),
            (Some(one), _) | (None, Some(one)) => Folders::clone(one),
            (None, None) => Folders::clone(&settings.class(class).control_groups),
        }
    }

    fn put_back(&mut self) {
        self.given_shares.put_back();
        self.groups.put_back();
        self.disk.put_back();
        self.governor.health.lock().disk_reading = None;
        self.idle.put_back();
        self.cache.put_back();
        self.forget();
    }

    fn forget(&mut self) {
        self.given_shares.forget();
        self.workers = Workers::default();
        self.inherited.clear();
    }

    /// Publishes the processes that cannot be changed, and the number of confined ones.
    fn publish(&mut self) {
        self.governor.health.lock().cache_confined = self.cache.confined();
        if self.cache.take_lever_news() {
            self.cache.tell(&self.governor, &self.governor.settings());
        }
        if self.given_shares.take_news() | self.groups.take_news() | self.cache.take_news() {
            let mut untouchable = self.given_shares.untouchable();
            untouchable.extend(self.groups.troubles());
            untouchable.extend(self.cache.troubles());
            self.governor.health.lock().untouchable = untouchable;
        }
    }

    /// Describes how `prompt` takes effect, for the console.
    fn how_prompt(&self, settings: &Settings, postmaster: ProcessIdentity) -> String {
        let is_used = settings.classes.iter().any(|class| class.cpu == CpuShare::Prompt);
        match self.given_shares.host.slice(postmaster.id) {
            _ if !is_used => String::new(),
            Some(_) => "; `prompt` by a short slice, while a class that gets less is at work".to_owned(),
            None => "; `prompt` changes nothing: processes have no slices of their own (Linux before 6.12)".to_owned(),
        }
    }

    /// Describes how `idle` yields, for the console.
    fn how_idle(&self, settings: &Settings) -> String {
        let has_idle = settings.classes.iter().any(|class| class.cpu == CpuShare::Idle);
        match self.idle.how() {
            _ if !has_idle => String::new(),
            Ok(how) => {
                let floor = match idle::sum(&idle::floors_set(settings)) {
                    0 => String::new(),
                    percent => format!(", with a weight while it gets less than {percent} % of the cores"),
                };
                format!("; `idle` gives way at once, by a group of its own ({how}){floor}")
            }
            Err(why) if has_autogroups(&self.given_shares.host) => format!(
                "; the scheduler's autogroups are on, so that `idle` gives way after milliseconds only: {why}, or \
                 sysctl -w kernel.sched_autogroup_enabled=0"
            ),
            Err(why) => format!("; a process of `idle` still keeps its core for milliseconds now and then: {why}"),
        }
    }

    fn tell(&self, settings: &Settings) {
        let how = self.server.clone().map(|postmaster| {
            let how = format!("processes of the server {} by nice value, each verified", postmaster.id);
            how + &self.how_prompt(settings, postmaster) + &self.how_idle(settings)
        });
        let cpu = [(levers::SHARES, settings.cpu.shares), (levers::INHERITANCE, settings.cpu.inheritance)];
        for (name, is_wanted) in cpu {
            let off = "turned off in the settings".to_owned();
            self.governor.report(name, how.clone().and_then(|how| if is_wanted { Ok(how) } else { Err(off) }));
        }
        self.governor.report(levers::CONTROL_GROUPS, self.groups_work(settings));
        self.disk.tell(&self.governor, settings);
        self.cache.tell(&self.governor, settings);
    }

    /// The groups of classes to which processes are moved, or why they cannot be.
    fn groups_work(&self, settings: &Settings) -> Result<String, String> {
        let folders: Vec<_> = settings.classes.iter().flat_map(|class| class.control_groups.iter()).collect();
        if folders.is_empty() {
            return Err("no class names `control_groups`".to_owned());
        }
        self.server.clone()?;
        for folder in &folders {
            let group = GroupFolder::at(&self.given_shares.host, *folder).map_err(|error| error.to_string())?;
            if !group.is_ours(&self.given_shares.host) {
                return Err(format!("processes may not be moved to {}: delegate it", group.folder().display()));
            }
        }
        let folders: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
        Ok(format!("processes are moved to {}, each looked up there", folders.join(", ")))
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.put_back();
    }
}

#[cfg(test)]
mod tests;
