//! Holds a part of the last-level cache: the [`pirate`] as a hog.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::pirate::counted::{self, MissCounter};
use super::pirate::split::{MissShare, Split, Timings};
use super::pirate::{self, Sweep};
use super::{Achieved, Crew, HogError, HogKind, HogPlace, Leave, Running, pin_to_one};
use crate::memory_speed::caches::CacheSizes;

const MIB: f64 = 1_048_576.0;

/// No processor we know has a larger last level that one core can reach.
const MIB_MAX: f64 = 4096.0;

/// Pieces of a sweep between two accounts.
const PIECES_PER_ACCOUNT: usize = 16;

/// The kind `llc`.
pub struct Llc;

impl HogKind for Llc {
    fn key(&self) -> &'static str {
        "llc"
    }

    fn unit(&self) -> &'static str {
        "MiB"
    }

    fn meaning(&self) -> &'static str {
        "holds this much of the last level cache, a thread on each of its cores"
    }

    fn verb(&self) -> &'static str {
        "held"
    }

    fn may_be_idle(&self) -> bool {
        true
    }

    fn shortfall(&self) -> &'static str {
        "others took part of it back, or the cache that its cores share is smaller"
    }

    fn refuse(&self, strength: f64) -> Option<String> {
        (strength > MIB_MAX).then(|| format!("it takes at most {MIB_MAX} MiB"))
    }

    fn start(&self, strength: f64, place: &HogPlace) -> Result<Box<dyn Running>, HogError> {
        let caches = CacheSizes::here();
        let threads = place.cores.len().max(1);
        let is_idle = strength == 0.0;
        let part = match is_idle {
            true => pirate::IDLE_SWEEP,
            false => caches.sweep_for((strength * MIB / threads as f64) as u64),
        };
        let accounts: Arc<[Mutex<Account>]> = (0..threads).map(|_| Mutex::default()).collect();
        let (inside, cores, sizes) = (Arc::clone(&accounts), place.cores.clone(), caches.clone());
        let crew = Crew::start(threads, move |index| {
            pin_to_one(&cores, index)?;
            // A pirate that holds nothing cannot lose anything.
            let split = if is_idle { None } else { Some(pirate::calibrate(&sizes)?) };
            let sweep = Sweep::new(part, index as u64)?;
            let opened = Account {
                swept: sweep.bytes(),
                huge_share: sweep.huge_share(),
                split,
                counter: if is_idle { None } else { MissCounter::of_this_thread() },
                ..Account::default()
            };
            *lock(&inside[index]) = opened;
            let accounts = Arc::clone(&inside);
            Ok(move |leave: &Leave| keep_hot(sweep, &accounts[index], leave))
        })?;
        let notes = warnings(&caches, strength, place);
        Ok(Box::new(RunningPirate { accounts, beside: caches.beside_llc(), is_idle, notes, _crew: crew }))
    }
}

/// The work of one thread since the last report.
#[derive(Default)]
struct Account {
    loads: u64,
    timings: Timings,
    swept: u64,
    huge_share: Option<f64>,
    split: Option<Split>,
    counter: Option<MissCounter>,
}

fn lock(account: &Mutex<Account>) -> MutexGuard<'_, Account> {
    account.lock().unwrap_or_else(PoisonError::into_inner)
}

fn keep_hot(mut sweep: Sweep, account: &Mutex<Account>, leave: &Leave) {
    let mut timings = Timings::default();
    while !leave.is_asked() {
        let loads: u64 = (0..PIECES_PER_ACCOUNT).map(|_| sweep.piece(&mut timings)).sum();
        let mut account = lock(account);
        account.loads += loads;
        account.timings.take(&mut timings);
    }
}

/// Conditions known beforehand to prevent the strength.
fn warnings(caches: &CacheSizes, wanted_mib: f64, place: &HogPlace) -> Vec<String> {
    let mut notes = Vec::new();
    if place.cores.is_empty() {
        notes
            .push("it is pinned to no core: where there are several last level caches, it may hold another".to_owned());
    }
    match caches.llc {
        Some(llc) if wanted_mib * MIB > llc as f64 => {
            notes.push(format!("the last level cache of a core has {:.1} MiB", llc as f64 / MIB));
        }
        Some(_) => {}
        None => notes.push("the size of the last level cache is not known here".to_owned()),
    }
    notes
}

struct RunningPirate {
    accounts: Arc<[Mutex<Account>]>,
    /// Bytes of each thread's sweep that lie in its second level.
    beside: u64,
    /// It should hold nothing, and sweeps a buffer that fits its first-level cache.
    is_idle: bool,
    notes: Vec<String>,
    _crew: Crew,
}

struct Window {
    loads: u64,
    swept: u64,
    misses: Result<MissShare, String>,
    is_counted: bool,
}

impl Account {
    /// Closes the account and returns the work since the last call.
    fn close(&mut self) -> Window {
        let loads = std::mem::take(&mut self.loads);
        let mut timings = Timings::default();
        timings.take(&mut self.timings);
        let counted = self.counter.as_mut().and_then(MissCounter::misses);
        let by_count = counted.and_then(|(misses, coverage)| counted::share(misses, loads, coverage));
        let by_time = || {
            let split = self.split.as_ref().ok_or("the hog has not begun")?;
            let too_few = || format!("only {} loads were timed", timings.count());
            split.misses_among(&timings).ok_or_else(|| split.refusal().unwrap_or_else(too_few))
        };
        Window { loads, swept: self.swept, is_counted: by_count.is_some(), misses: by_count.map_or_else(by_time, Ok) }
    }
}

impl Running for RunningPirate {
    fn achieved(&mut self, window: Duration) -> Achieved {
        let windows: Vec<Window> = self.accounts.iter().map(|account| lock(account).close()).collect();
        let mut achieved = Achieved { notes: self.notes.clone(), ..Achieved::default() };
        let loads: u64 = windows.iter().map(|one| one.loads).sum();
        let swept: u64 = windows.iter().map(|one| one.swept).sum();
        let per_second = loads as f64 / window.as_secs_f64();
        achieved.figures.insert("loads_per_s".to_owned(), per_second);
        achieved.figures.insert("sweeps_per_s".to_owned(), per_second * 64.0 / swept.max(1) as f64);
        if let Some(account) = self.accounts.first() {
            let account = lock(account);
            let (hit, miss) = account.split.as_ref().map_or((None, None), Split::medians_ns);
            let figures = [("huge_page_share", account.huge_share), ("hit_ns", hit), ("miss_ns", miss)];
            achieved.figures.extend(figures.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
        }
        if self.is_idle {
            achieved.amount = Some(0.0);
            achieved.notes.push("idle: its core is as busy as another pirate's, and it holds nothing".to_owned());
            return achieved;
        }
        let shares: Result<Vec<(u64, u64, MissShare)>, &String> =
            windows.iter().map(|one| Ok((one.loads, one.swept, *one.misses.as_ref()?))).collect();
        match shares {
            Ok(shares) => {
                let missed: f64 = shares.iter().map(|(loads, _, share)| *loads as f64 * share.share).sum();
                achieved.figures.insert("misses_per_load".to_owned(), missed / loads.max(1) as f64);
                let held = shares.iter().map(|(_, swept, share)| pirate::held(*swept, self.beside, *share));
                let (amount, low, high) = held.fold((0.0, 0.0, 0.0), |sum, (amount, [low, high])| {
                    (sum.0 + amount / MIB, sum.1 + low / MIB, sum.2 + high / MIB)
                });
                achieved.amount = Some(amount);
                achieved.interval = Some([low, high]);
                let how = if windows.iter().all(|one| one.is_counted) { "counting" } else { "timing" };
                achieved.notes.push(format!("its misses are known by {how} its loads"));
            }
            Err(why) => achieved.notes.push(format!("what it held is not known: {why}")),
        }
        achieved
    }
}
