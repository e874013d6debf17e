//! Windows in which about as many sessions of each class were there, taken together as a mix that was measured.

use std::collections::BTreeMap;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::regression::{Attribution, attribute};
use super::{Seen, SeenDemand, SeenMix, Taught, Window};
use crate::demand::Block;
use crate::idd::{Calibration, Lesson, Member, Slowdown};
use crate::statistics::Interval;

/// A mix that lasted for fewer windows is passing from one to another.
const WINDOWS_LEAST: usize = 3;
/// Requests, or as much work, that a class needs in a mix to be judged there.
const WORK_LEAST: f64 = 5.0;
/// Fewer requests per window than this are counted by their CPU seconds: where a long request ends says little about where it ran.
const PER_WINDOW_LEAST: f64 = 3.0;
/// Mixes in which others use about as much of the cores as in the least one are one baseline.
const SAME_OTHERS: f64 = 0.02;
/// A class is alone if others use less of the cores.
pub(super) const ALONE_MAX: f64 = 0.05;
/// Others that keep this many cores busy are worth a word.
pub(super) const OTHERS_NOTED: f64 = 0.1;
/// Requests of a [`Block`] are whole. Parts of one count as requests of their own, each with as small a part of the sums.
const PARTS: f64 = 1_000.0;
/// Resamples of the bootstrap.
const RESAMPLES: usize = 200;

/// Sums over windows.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Totals {
    pub(super) seconds: f64,
    pub(super) requests: f64,
    /// Sessions times seconds.
    pub(super) session_s: f64,
    pub(super) active_s: f64,
    pub(super) client_s: f64,
    pub(super) cpu_s: f64,
    pub(super) counted_s: Option<f64>,
    disk_wait_s: f64,
    lock_s: f64,
    other_s: f64,
    windows_present: f64,
}

impl Totals {
    pub(super) fn of<'a>(windows: impl IntoIterator<Item = &'a Window>, class: usize) -> Totals {
        let mut totals = Totals { counted_s: Some(0.0), ..Totals::default() };
        for window in windows {
            let one = &window.classes[class];
            totals.seconds += window.seconds;
            totals.requests += one.requests;
            totals.session_s += one.sessions * window.seconds;
            totals.active_s += one.active_s;
            totals.client_s += one.client_s;
            totals.cpu_s += one.cpu_s;
            totals.disk_wait_s += one.disk_wait_s;
            totals.lock_s += one.lock_s;
            totals.other_s += one.other_s;
            totals.counted_s = totals.counted_s.zip(one.counted_s).map(|(sum, more)| sum + more);
            totals.windows_present += f64::from(u8::from(one.sessions > 0.0));
        }
        totals
    }
}

/// How requests of a class are counted in a part of the windows.
#[derive(Debug, Clone, Copy)]
enum Unit {
    Requests,
    /// By CPU seconds, of which a request needs this many.
    Cpu(f64),
}

impl Unit {
    fn of(totals: &Totals) -> Unit {
        let is_long = totals.requests < PER_WINDOW_LEAST * totals.windows_present;
        if is_long { Unit::Cpu(totals.cpu_s / totals.requests) } else { Unit::Requests }
    }

    fn work(self, totals: &Totals) -> f64 {
        match self {
            Unit::Requests => totals.requests,
            Unit::Cpu(of_request_s) => totals.cpu_s / of_request_s,
        }
    }
}

/// A mix.
#[derive(Debug)]
pub(super) struct Stratum<'a> {
    windows: Vec<&'a Window>,
    totals: Vec<Totals>,
    /// Requests, or as much work, by class.
    work: Vec<f64>,
}

impl Stratum<'_> {
    fn seconds(&self) -> f64 {
        self.totals[0].seconds
    }

    fn is_there(&self, class: usize) -> bool {
        self.work[class] >= WORK_LEAST && self.totals[class].session_s > 0.0
    }

    fn sessions(&self, class: usize) -> u32 {
        let mean = self.totals[class].session_s / self.seconds();
        // One session that is there is one, even if it comes and goes.
        if self.is_there(class) { (mean.round() as u32).max(1) } else { mean.round() as u32 }
    }

    /// The share of all cores that the other classes used.
    fn others(&self, class: usize, cores: u32) -> f64 {
        let others = self.totals.iter().enumerate().filter(|(at, _)| *at != class);
        others.map(|(_, totals)| totals.cpu_s).sum::<f64>() / self.seconds() / f64::from(cores)
    }

    pub(super) fn shown(&self) -> SeenMix {
        let classes = || 0..self.totals.len();
        let response = |at: usize| self.is_there(at).then(|| self.totals[at].active_s / self.work[at]);
        SeenMix {
            sessions: classes().map(|at| self.sessions(at)).collect(),
            windows: self.windows.len(),
            throughputs: classes().map(|at| self.work[at] / self.seconds()).collect(),
            responses_s: classes().map(response).collect(),
        }
    }
}

/// The windows with the least of others, from which demands of a class are taken.
#[derive(Debug)]
pub(super) struct Baseline {
    totals: Totals,
    work: f64,
    /// The share of all cores that others used.
    pub(super) others: f64,
    /// The mix that lasted longest of those that it is made from.
    pub(super) longest: usize,
}

impl Baseline {
    fn cpu_s(&self) -> f64 {
        self.totals.cpu_s / self.work
    }
}

/// All mixes.
pub(super) struct Strata<'a> {
    pub(super) all: Vec<Stratum<'a>>,
    units: Vec<Unit>,
    whole: Vec<Totals>,
}

/// About as many sessions are one level: 0, 1, 2, 3 to 4, 5 to 6, … ever wider.
fn level(sessions: f64) -> u32 {
    (2.0 * (1.0 + sessions).log2()).round() as u32
}

impl<'a> Strata<'a> {
    pub(super) fn of(windows: &[&'a Window], classes: usize) -> Self {
        let whole: Vec<Totals> = (0..classes).map(|at| Totals::of(windows.iter().copied(), at)).collect();
        let units: Vec<Unit> = whole.iter().map(Unit::of).collect();
        let mut by_level: BTreeMap<Vec<u32>, Vec<&'a Window>> = BTreeMap::new();
        for window in windows {
            let levels = window.classes.iter().map(|class| level(class.sessions)).collect();
            by_level.entry(levels).or_default().push(window);
        }
        let stratum = |windows: Vec<&'a Window>| {
            let totals: Vec<Totals> = (0..classes).map(|at| Totals::of(windows.iter().copied(), at)).collect();
            let work = totals.iter().zip(&units).map(|(totals, unit)| unit.work(totals)).collect();
            Stratum { windows, totals, work }
        };
        let lasting = by_level.into_values().filter(|windows| windows.len() >= WINDOWS_LEAST).map(stratum);
        let all = lasting.filter(|stratum| (0..classes).any(|class| stratum.is_there(class))).collect();
        Strata { all, units, whole }
    }

    /// Sessions of a class in the mean of the windows in which it had any.
    pub(super) fn sessions(&self, class: usize) -> u32 {
        let of = self.all.iter().filter(|stratum| stratum.is_there(class));
        let (sessions, seconds) = of.fold((0.0, 0.0), |(sessions, seconds), stratum| {
            (sessions + stratum.totals[class].session_s, seconds + stratum.seconds())
        });
        if seconds > 0.0 { ((sessions / seconds).round() as u32).max(1) } else { 1 }
    }

    pub(super) fn baseline(&self, class: usize, cores: u32) -> Option<Baseline> {
        let there = || self.all.iter().enumerate().filter(|(_, stratum)| stratum.is_there(class));
        let least = there().map(|(_, stratum)| stratum.others(class, cores)).min_by(f64::total_cmp)?;
        let meant: Vec<(usize, &Stratum<'_>)> =
            there().filter(|(_, stratum)| stratum.others(class, cores) <= least + SAME_OTHERS).collect();
        let totals = Totals::of(meant.iter().flat_map(|(_, stratum)| stratum.windows.iter().copied()), class);
        let others = meant.iter().map(|(_, stratum)| stratum.others(class, cores) * stratum.seconds()).sum::<f64>();
        let (longest, _) = *meant.iter().max_by_key(|(_, stratum)| stratum.windows.len())?;
        Some(Baseline { totals, work: self.units[class].work(&totals), others: others / totals.seconds, longest })
    }

    /// The needs of a class in its baseline.
    pub(super) fn block(&self, baseline: &Baseline, class: usize, attribution: &Attribution) -> Block {
        let Baseline { totals, work, .. } = baseline;
        let helpers_s = attribution.helpers[class] * totals.cpu_s;
        let disk_s = attribution.disk.as_ref().map_or(0.0, |disk| disk[class] * totals.cpu_s);
        // Sessions that wait for the disk longer than it works for them wait for the log, or behind others that read the
        // same page: a delay.
        let delay_s = (totals.disk_wait_s - disk_s).max(0.0) + totals.other_s + totals.lock_s;
        let none = || Err("no counter is read on a live server".to_owned());
        Block {
            requests: (work * PARTS).round() as u64,
            response_s: totals.active_s * PARTS,
            cpu_s: Ok((totals.cpu_s + helpers_s) * PARTS),
            upkeep_cores: attribution.rest_cores,
            disk_s: Ok(disk_s * PARTS),
            log_s: Ok(delay_s * PARTS),
            lock_s: Ok(totals.lock_s * PARTS),
            round_trip_s: totals.client_s * PARTS,
            wakes: work * PARTS,
            workers_s: 0.0,
            instructions: none(),
            spin_instructions: none(),
            between_s: Ok(helpers_s * PARTS),
        }
    }

    /// How much more CPU time requests need beside others.
    pub(super) fn slowdown(&self, baselines: &[Baseline], cores: u32) -> Slowdown {
        let points = |(class, baseline): (usize, &Baseline)| -> Vec<Calibration> {
            // Work that is counted by its CPU seconds always needs as many.
            if matches!(self.units[class], Unit::Cpu(_)) {
                return Vec::new();
            }
            let there = self.all.iter().filter(|stratum| stratum.is_there(class));
            let point = |stratum: &Stratum<'_>| {
                let others = stratum.others(class, cores) - baseline.others;
                let factor = stratum.totals[class].cpu_s / stratum.work[class] / baseline.cpu_s();
                (others > SAME_OTHERS && factor > 0.0).then_some(Calibration { others: others.min(1.0), factor })
            };
            there.filter_map(point).collect()
        };
        let points: Vec<Vec<Calibration>> = baselines.iter().enumerate().map(points).collect();
        if points.iter().all(Vec::is_empty) { Slowdown::None } else { Slowdown::Calibrated(points) }
    }

    /// Mixes of several classes. With one class at all, its numbers of sessions.
    pub(super) fn lessons(&self) -> impl Iterator<Item = &Stratum<'a>> {
        let least = self.whole.len().min(2);
        let there = |stratum: &Stratum<'_>| (0..self.whole.len()).filter(|class| stratum.is_there(*class)).count();
        self.all.iter().filter(move |stratum| there(stratum) >= least)
    }

    pub(super) fn lesson(&self, stratum: &Stratum<'_>, members: &[Member], slowdown: &Slowdown) -> Lesson {
        let member = |(class, member): (usize, &Member)| {
            let population = if stratum.is_there(class) { stratum.sessions(class) } else { 0 };
            let cycle_s = f64::from(population) * stratum.seconds() / stratum.work[class].max(f64::MIN_POSITIVE);
            let response_s = stratum.totals[class].active_s / stratum.work[class].max(f64::MIN_POSITIVE);
            let think_s = if population > 0 { (cycle_s - response_s).max(0.0) } else { 0.0 };
            Member { population, think_s, ..member.clone() }
        };
        let response =
            |class: usize| vec![stratum.is_there(class).then(|| (stratum.totals[class].active_s, stratum.work[class]))];
        Lesson {
            members: members.iter().enumerate().map(member).collect(),
            slowdown: slowdown.clone(),
            responses: (0..members.len()).map(response).collect(),
        }
    }
}

/// Demands with intervals: the regression is done again on blocks of windows that are drawn with repetition.
pub(super) fn demands(
    seen: &Seen,
    taught: &Taught,
    block_of: &dyn Fn(usize) -> usize,
    blocks: usize,
) -> Vec<SeenDemand> {
    let classes = seen.classes.len();
    let of = |windows: &[&Window], attribution: &Attribution, class: usize| -> Option<[f64; 3]> {
        let totals = Totals::of(windows.iter().copied(), class);
        let cpu_s = totals.cpu_s / totals.requests;
        let disk = attribution.disk.as_ref().map_or(0.0, |disk| disk[class]);
        (totals.requests > 0.0).then_some([cpu_s, cpu_s * attribution.helpers[class], cpu_s * disk])
    };
    let mut random = Pcg64::seed_from_u64(7);
    let mut draws: Vec<Vec<[f64; 3]>> = vec![Vec::new(); classes];
    for _ in 0..RESAMPLES {
        let drawn: Vec<usize> = (0..blocks).map(|_| random.random_range(0..blocks)).collect();
        let windows: Vec<&Window> = drawn
            .iter()
            .flat_map(|block| seen.windows.iter().enumerate().filter(|(at, _)| block_of(*at) == *block))
            .map(|(_, window)| window)
            .collect();
        let attribution = attribute(&windows, classes, seen.cores);
        for (class, draws) in draws.iter_mut().enumerate() {
            draws.extend(of(&windows, &attribution, class));
        }
    }
    let all: Vec<&Window> = seen.windows.iter().collect();
    let demand = |class: usize| {
        let value = of(&all, &taught.attribution, class).unwrap_or_default();
        let interval = |figure: usize| {
            let mut drawn: Vec<f64> = draws[class].iter().map(|draw| draw[figure]).collect();
            drawn.sort_unstable_by(f64::total_cmp);
            let at = |share: f64| drawn.get((share * (drawn.len().max(1) - 1) as f64).round() as usize).copied();
            Interval { value: value[figure], low: at(0.025), high: at(0.975) }
        };
        SeenDemand {
            cpu_s: interval(0),
            helpers_s: interval(1),
            disk_s: taught.attribution.disk.as_ref().map(|_| interval(2)),
            think_s: taught.members[class].think_s,
        }
    };
    (0..classes).map(demand).collect()
}
