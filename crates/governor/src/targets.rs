//! Targets: once per second the policy's controller receives the counts, and its moves are put in force.
//!
//! [`plimsoll_policy::TargetController`] decides; its documentation has the rules. A target concerns the response times
//! of transactions as in [`Times::transaction`](crate::statistics::Times::transaction): from a transaction's first byte
//! until the server is idle again, including queueing, replays, and the client's time within it.
//!
//! Levers are the `mpl` of classes below, the limit of their disk reads if they yield, their `workers_max` if set, and
//! the nice value of their processes; the disk and nice values only if these can be changed. The operator's settings
//! are upper bounds: moves are kept beside the settings ([`Held`]), not in them. `SHOW CONFIG`, `SET` and reloads
//! therefore concern the operator's settings, and a reload keeps the moves. When the governor ends, so do its moves.
//!
//! If neither an `mpl` nor a target is set, an `mpl` is searched ([`MplSearch`]) in the same turns.

mod search;

use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant, SystemTime};

use plimsoll_policy::{
    ClassIndex, ClassSeen, EndedWork, LeverBounds, LeverKind, Move, MplSearch, Promise, TargetController, TargetPhase,
    TargetView, Why,
};

use crate::governor::{DiskReading, Governor};
use crate::registry::Phase;
use crate::settings::levers::SHARES;
use crate::settings::{Held, Settings};
use crate::statistics::{Counts, count};
use search::Search;

/// The number of moves kept for operators.
const MOVES_KEPT: usize = 50;

/// Every target and how well it is met.
#[derive(Debug, Default)]
pub struct Targets {
    controller: TargetController,
    search: Search,
    /// The counts at the last turn, by class; empty without targets and without a search for an `mpl`.
    before: Vec<Counts>,
    /// The same for sessions at the server.
    direct_before: EndedWork,
    /// The phases that were logged last, by class.
    logged: Vec<(ClassIndex, TargetPhase)>,
    moves: VecDeque<(SystemTime, Move)>,
}

impl Targets {
    /// Evaluates the time since the last turn, and moves levers. Called about once per second.
    pub(crate) fn turn(&mut self, governor: &Governor, now: Instant) {
        let settings = governor.settings();
        let promises = promises(&settings);
        let has_work = !promises.is_empty() || settings.searched().next().is_some();
        if !has_work && self.before.is_empty() {
            return;
        }
        let reading = governor.health.lock().disk_reading;
        let shares_work = governor.lever(SHARES).is_some_and(|lever| lever.is_on);
        if let Err(contradiction) = self.controller.plan(&promises, &levers(&settings, shares_work, reading)) {
            // Contradictory settings are refused, so this is a bug.
            tracing::error!("targets are not kept: {contradiction}");
            return;
        }
        let (seen, ended) = self.seen(governor, &settings, now);
        let mut moves = self.controller.step(governor.clock(now), &seen);
        let direct = *governor.direct_work.lock();
        let before = std::mem::replace(&mut self.direct_before, direct);
        let searched = self.search.step(governor, &settings, (&ended, direct.since(before)), now);
        moves.extend(searched.map(|(class, moved)| Move {
            class,
            kind: LeverKind::Mpl,
            from: moved.from.map(u64::from),
            to: moved.to.map(u64::from),
            target: class,
            why: Why::Search(moved.why),
        }));
        governor.hold(&self.held(&settings));
        if !has_work {
            tracing::info!("no class has a target any more, and no mpl is searched; nothing is limited");
        }
        for moved in moves {
            log_move(&settings, &moved);
            count(&governor.statistics.class(moved.target).target_moves);
            self.moves.push_back((SystemTime::now(), moved));
        }
        self.moves.drain(..self.moves.len().saturating_sub(MOVES_KEPT));
        self.log_phases(&settings);
        if !has_work {
            self.before.clear();
        }
    }

    /// The state of each target, highest priority first.
    pub fn views(&self) -> Vec<TargetView> {
        self.controller.views()
    }

    /// The levers that may be moved, and the class's present amount of each.
    pub fn levers(&self) -> impl Iterator<Item = (LeverBounds, Option<u64>)> {
        self.controller.levers()
    }

    /// The class for which an `mpl` is searched, and the search.
    pub fn search(&self) -> Option<(ClassIndex, &MplSearch)> {
        Some((self.search.class?, &self.search.search))
    }

    /// The last moves, oldest first.
    pub fn moves(&self) -> impl DoubleEndedIterator<Item = &(SystemTime, Move)> {
        self.moves.iter()
    }

    /// The bounds that the controller leaves each class.
    fn held(&self, settings: &Settings) -> Vec<Held> {
        let of_class = |class: ClassIndex| {
            let position = |kind| self.controller.position(class, kind);
            let searched = self.search.mpl().filter(|(of, _)| *of == class).map(|(_, mpl)| mpl);
            let number = |kind| position(kind).map(|number| u32::try_from(number).unwrap_or(u32::MAX));
            Held {
                mpl: number(LeverKind::Mpl).or(searched),
                nice: position(LeverKind::CpuShare).map(LeverKind::nice_of_share),
                disk: position(LeverKind::DiskBandwidth),
                workers: number(LeverKind::Workers),
            }
        };
        settings.indexed().map(|(class, _)| of_class(class)).collect()
    }

    /// The facts about each class since the last turn.
    fn seen(&mut self, governor: &Governor, settings: &Settings, now: Instant) -> (Vec<ClassSeen>, Vec<EndedWork>) {
        let counts: Vec<Counts> = governor.statistics.classes().map(|class| class.times.transaction.counts()).collect();
        let of_class = |(class, _)| {
            let ClassIndex(place) = class;
            // A new class, or a first turn, has no earlier counts.
            let ended = match (counts.get(usize::from(place)), self.before.get(usize::from(place))) {
                (Some(counts), Some(before)) => counts.since(before).lengths().collect(),
                _ => Default::default(),
            };
            ClassSeen { ended, uses: uses(governor, class), ..ClassSeen::default() }
        };
        let mut seen: Vec<ClassSeen> = settings.indexed().map(of_class).collect();
        for card in governor.registry.all() {
            let state = card.state();
            // The governor cannot influence the time that a client thinks.
            let is_open = matches!(state.phase, Phase::Active | Phase::Queued | Phase::Preempted);
            if let Some(class) = seen.get_mut(usize::from(state.class.0)).filter(|_| is_open) {
                class.open.add(now.saturating_duration_since(state.transaction_since), 1);
            }
        }
        // As above: without earlier counts the difference is unknown.
        let ended = counts.iter().zip(&self.before).map(|(counts, before)| search::ended(counts, before)).collect();
        self.before = counts;
        (seen, ended)
    }

    /// Logs targets that cannot be met, and those that are met again.
    fn log_phases(&mut self, settings: &Settings) {
        let views = self.controller.views();
        for view in &views {
            let before = self.logged.iter().find(|(class, _)| *class == view.class).map(|(_, phase)| *phase);
            let class = &settings.class(view.class).name;
            match (before, view.phase) {
                (Some(before), now) if before == now => {}
                (_, TargetPhase::CannotHold) => {
                    tracing::warn!(class, "the target {} cannot be held: {}", view.target, view.why);
                }
                (Some(TargetPhase::CannotHold), TargetPhase::Held) => {
                    tracing::info!(class, "the target {} is held again", view.target);
                }
                _ => {}
            }
        }
        self.logged = views.iter().map(|view| (view.class, view.phase)).collect();
    }
}

fn promises(settings: &Settings) -> Vec<Promise> {
    let classes = settings.indexed();
    let promises =
        classes.filter_map(|(class, own)| Some(Promise { class, priority: own.limits.priority, target: own.target? }));
    promises.collect()
}

/// The levers that can be moved, and how far.
fn levers(settings: &Settings, shares_work: bool, reading: Option<DiskReading>) -> Vec<LeverBounds> {
    let mut levers = Vec::new();
    let disk = settings.disk_lever().zip(reading);
    for (class, own) in settings.indexed() {
        let priority = own.limits.priority;
        let mut lever = |kind, open, floor| levers.push(LeverBounds { class, priority, kind, open, floor });
        lever(LeverKind::Mpl, own.limits.mpl.map(u64::from), own.mpl_floor().into());
        if let Some(share) = own.share_lever().filter(|_| settings.cpu.shares && shares_work) {
            lever(LeverKind::CpuShare, Some(share), 0);
        }
        if let Some(workers) = own.workers_max.filter(|workers| *workers > 0) {
            lever(LeverKind::Workers, Some(workers.into()), 0);
        }
        if let Some((_, reading)) = disk.filter(|(of, _)| *of == class) {
            lever(LeverKind::DiskBandwidth, None, reading.least);
        }
    }
    levers
}

/// How much of each lever a class uses.
fn uses(governor: &Governor, class: ClassIndex) -> Vec<(LeverKind, u64)> {
    // Relaxed: a slightly outdated count does no harm.
    let own = governor.statistics.class(class);
    let inside = own.inside.load(Relaxed);
    let if_inside = |amount| if inside > 0 { amount } else { 0 };
    // A class with a transaction inside uses its whole share.
    let mut uses = vec![(LeverKind::Mpl, inside), (LeverKind::CpuShare, if_inside(u64::MAX))];
    // It may also use as many workers as the server allows by default.
    uses.push((LeverKind::Workers, if_inside(own.server_workers.load(Relaxed))));
    if let Some(reading) = governor.health.lock().disk_reading {
        uses.push((LeverKind::DiskBandwidth, reading.read_bytes_per_s));
    }
    uses
}

fn log_move(settings: &Settings, moved: &Move) {
    let written = |amount| moved.kind.written(amount);
    tracing::info!(
        class = settings.class(moved.class).name,
        lever = moved.kind.name(),
        from = written(moved.from),
        to = written(moved.to),
        promised_to = settings.class(moved.target).name,
        "a lever was moved: {}",
        moved.why
    );
}

/// The time since the target's present state began.
pub(crate) fn since(governor: &Governor, view: &TargetView, now: Instant) -> Duration {
    governor.clock(now).saturating_sub(view.since)
}

#[cfg(test)]
mod tests;
