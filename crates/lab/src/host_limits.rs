//! Limits in force on this machine: its controls through a [`Limiter`], hogs in processes of their own.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use plimsoll_machine::MachineFacts;
use plimsoll_machine::control::{Amount, CONTROLS, LLC_WAYS, Limits, Subject, Verdict};
use plimsoll_machine::facts::{self, Cache};
use plimsoll_machine::hog::pirate::pirate_capacity;
use plimsoll_machine::hog::{HogProcess, HogSpec};
use plimsoll_machine::host::{Host, parse_core_list};
use plimsoll_machine::limiter::{LimitWindow, Limiter, LimiterError, default_state_folder};
use plimsoll_machine::memory_speed::MemorySpeed;
use plimsoll_machine::process_tree::TreeSample;
use plimsoll_machine::resctrl::{CacheControl, Resctrl};
use plimsoll_workload::database::Footprint;

use crate::limits::{HOG, LLC_MIB, LimitsError, MachineLimits};

/// Limits on the machine of this process.
pub struct HostLimits {
    host: Host,
    state: PathBuf,
    /// The program that is a hog, with the arguments before the hog's own.
    hog_command: Vec<OsString>,
    limiter: Option<(Footprint, Limiter)>,
    /// The hogs that run beside the workloads, by the limit that needs them.
    hogs: BTreeMap<&'static str, (HogSpec, HogProcess)>,
    window: Option<LimitWindow>,
    /// The bounds of the last-level cache that workloads can have, MiB; if they are unknown, the reason and the remedy.
    llc_mib: Result<[f64; 2], String>,
    /// The number of last-level caches.
    llc_count: usize,
    /// The share of it that cache allocation gave to workloads, 0 to 1; `None` if no share was requested or a hog holds
    /// the rest.
    allocated: Option<f64>,
    /// The cores that could be used before anything was limited.
    cores: Vec<usize>,
}

/// Limits as this machine implements them: controls, and hogs by the limit that needs them, with the cores they run on.
struct LimitPlan {
    controls: Limits,
    hogs: BTreeMap<&'static str, (HogSpec, Vec<usize>)>,
    /// The share of the last-level cache that is allocated.
    allocated: Option<f64>,
}

impl HostLimits {
    /// Nothing is limited yet. `hog_command` is a program, with its first arguments, that is a hog when it is given a hog's
    /// strength, as `plimsoll hog` is.
    pub fn new(hog_command: Vec<OsString>) -> HostLimits {
        let facts = MachineFacts::read();
        let llc = last_level_told(&facts);
        HostLimits {
            host: Host::real(),
            state: default_state_folder(),
            hog_command,
            limiter: None,
            hogs: BTreeMap::new(),
            window: None,
            llc_mib: last_level(llc.map(|cache| cache.size_bytes), facts.virtualised.as_deref(), None),
            llc_count: llc.map_or(0, |cache| cache.count),
            allocated: None,
            cores: facts::usable_cores(),
        }
    }

    /// Uses the last-level cache as `plimsoll machine --probe` has measured it, if it has: other guests may use a part
    /// of the cache that the kernel reports.
    pub fn with_memory_speed(mut self, speed: Option<&MemorySpeed>) -> HostLimits {
        if let Some(speed) = speed {
            let facts = MachineFacts::read();
            let told = last_level_told(&facts).map(|cache| cache.size_bytes);
            self.llc_mib = last_level(told, facts.virtualised.as_deref(), Some(speed.last_level_seen_mib()));
        }
        self
    }

    /// Returns how each limit is put in force here, or why it cannot be. Changes nothing.
    fn translate(&self, limits: &Limits) -> Result<LimitPlan, LimitsError> {
        let mut translated = LimitPlan { controls: limits.clone(), hogs: BTreeMap::new(), allocated: None };
        if let Some(hog) = translated.controls.remove(HOG) {
            let spec: HogSpec = hog.to_string().parse().map_err(|error| LimitsError(format!("{error}")))?;
            if spec != HogSpec::NONE {
                translated.hogs.insert(HOG, (spec, Vec::new()));
            }
        }
        match translated.controls.remove(LLC_MIB) {
            None => {}
            Some(Amount::Number(mib)) => self.share_cache(mib, &mut translated)?,
            Some(amount) => return Err(LimitsError(format!("`{LLC_MIB}` is a number of MiB; this is {amount}"))),
        }
        for control in CONTROLS.iter().filter(|control| translated.controls.contains_key(control.key())) {
            let availability = control.probe(&self.host);
            if !availability.available {
                let remedy = availability.remedy.map(|remedy| format!("; remedy: {remedy}")).unwrap_or_default();
                let key = control.key();
                return Err(LimitsError(format!("{key} cannot be limited here: {}{remedy}", availability.reason)));
            }
        }
        Ok(translated)
    }

    /// Gives the workloads an amount of the last-level cache: by allocation of whole ways if that is possible, else
    /// by a pirate that holds the rest from a core taken from the workloads. If they have all of the cache, the pirate
    /// is idle on that core.
    fn share_cache(&self, mib: f64, translated: &mut LimitPlan) -> Result<(), LimitsError> {
        let cannot = |why: &String| LimitsError(format!("llc_mib cannot be limited here: {why}"));
        let [low, high] = *self.llc_mib.as_ref().map_err(cannot)?;
        let total = f64::midpoint(low, high);
        if let Some(ways) = llc_ways(&self.host).filter(|_| !translated.controls.contains_key(LLC_WAYS)) {
            let wanted = (mib / total * f64::from(ways)).round().clamp(1.0, f64::from(ways));
            translated.controls.insert(LLC_WAYS.to_owned(), Amount::Number(wanted));
            translated.allocated = Some(wanted / f64::from(ways));
            return Ok(());
        }
        let Some((pirates_core, others @ [_, ..])) = self.cores.split_last() else {
            return Err(LimitsError(
                "llc_mib cannot be limited here: there is no cache allocation (resctrl), and holding a part of the cache takes a core of its own, \
                 but only one core may be used"
                    .to_owned(),
            ));
        };
        if self.llc_count > 1 {
            return Err(LimitsError(format!(
                "llc_mib cannot be limited here: there is no cache allocation (resctrl), and of {} last-level caches a hog \
                 on one core holds a part of one only",
                self.llc_count
            )));
        }
        let shares_core = match translated.controls.get("cores") {
            Some(Amount::Number(count)) => *count >= self.cores.len() as f64,
            Some(Amount::Text(list)) => parse_core_list(list).is_none_or(|cores| cores.contains(pirates_core)),
            None => false,
        };
        if shares_core {
            return Err(LimitsError(format!(
                "llc_mib cannot be limited here beside cores that include core {pirates_core}: there is no cache allocation (resctrl), and \
                 the hog that holds the rest of the cache needs that core for itself; give the workloads fewer cores"
            )));
        }
        // The core is taken at every amount, so that settings differ only in the cache.
        let list: Vec<String> = others.iter().map(usize::to_string).collect();
        translated.controls.entry("cores".to_owned()).or_insert(Amount::Text(list.join(",")));
        let spec = format!("llc:{}", pirate_capacity(total, mib));
        let spec = spec.parse::<HogSpec>().map_err(|error| LimitsError(format!("{error}")))?;
        translated.hogs.insert(LLC_MIB, (spec, vec![*pirates_core]));
        Ok(())
    }

    /// Lifts all controls and restores the machine. Also done when this is dropped, but then failures are not reported.
    pub fn lift(&mut self) -> Result<(), LimitsError> {
        let Some((_, mut limiter)) = self.limiter.take() else { return Ok(()) };
        let restored = limiter.restore().map_err(|error| LimitsError(error.to_string()))?;
        match &restored.failed[..] {
            [] => Ok(()),
            failed => Err(LimitsError(format!("not put back: {}", failed.join("; ")))),
        }
    }

    /// Starts the hogs that are wanted and ends the others. No limits may be in force when a hog starts, because it
    /// would inherit them.
    fn set_hogs(
        &mut self,
        wanted: BTreeMap<&'static str, (HogSpec, Vec<usize>)>,
        folder: Option<&Path>,
    ) -> Result<(), LimitsError> {
        let is_wanted = |key: &str, spec: HogSpec| wanted.get(key).is_some_and(|(wanted, _)| *wanted == spec);
        if self.hogs.iter().all(|(key, (spec, _))| is_wanted(key, *spec)) && self.hogs.len() == wanted.len() {
            return Ok(());
        }
        self.lift()?;
        self.hogs.retain(|key, (spec, _)| is_wanted(key, *spec));
        for (key, (spec, cores)) in wanted {
            if !self.hogs.contains_key(key) {
                let hog = HogProcess::spawn(&mut self.hog_process(spec, &cores, folder)?);
                let hog = hog.map_err(|why| LimitsError(format!("{key}={spec}: {why}")))?;
                self.hogs.insert(key, (spec, hog));
            }
        }
        Ok(())
    }

    /// The command of a hog on these cores, or on any if the list is empty. Disk hogs use `folder`, or the one for
    /// temporary files.
    fn hog_process(&self, spec: HogSpec, cores: &[usize], folder: Option<&Path>) -> Result<Command, LimitsError> {
        let no_program = || LimitsError(format!("no program is known that can be the hog {spec}"));
        let (program, first) = self.hog_command.split_first().ok_or_else(no_program)?;
        let mut command = Command::new(program);
        command.args(first).arg(spec.to_string());
        command.arg("--folder").arg(folder.map_or_else(std::env::temp_dir, Path::to_owned));
        if !cores.is_empty() {
            let list: Vec<String> = cores.iter().map(usize::to_string).collect();
            command.arg("--cores").arg(list.join(","));
        }
        Ok(command)
    }

    /// The verdicts on the share of the cache that a pirate left.
    fn cache_verdicts(&self, hog: &mut HogProcess, verdicts: &mut BTreeMap<String, Verdict>) {
        let unknown = |why: String| Verdict { achieved: None, why_not: Some(why) };
        let report = match hog.report() {
            Ok(report) => report,
            Err(error) => return drop(verdicts.insert(LLC_MIB.to_owned(), unknown(error.to_string()))),
        };
        let (Ok(whole), Some(held)) = (&self.llc_mib, report.achieved) else {
            verdicts.insert(LLC_MIB.to_owned(), unknown(report.notes.join("; ")));
            return;
        };
        let short =
            (report.reached == Some(false)).then(|| format!("the hog beside it {report}: {}", report.notes.join("; ")));
        verdicts.extend(left_of(*whole, held, report.interval, short));
    }
}

/// The last-level cache, of a size between these bounds in MiB, that a hog leaves to the workloads; with the interval,
/// if there is one.
fn left_of(
    whole: [f64; 2],
    held: f64,
    interval: Option<[f64; 2]>,
    why_not: Option<String>,
) -> impl Iterator<Item = (String, Verdict)> {
    let [held_low, held_high] = interval.unwrap_or([held, held]);
    let [low, high] = [whole[0] - held_high, whole[1] - held_low];
    had([low, f64::midpoint(whole[0], whole[1]) - held, high], why_not)
}

/// The verdicts on the amount of last-level cache that workloads had, MiB: lower bound, value and upper bound.
fn had([low, had, high]: [f64; 3], why_not: Option<String>) -> impl Iterator<Item = (String, Verdict)> {
    let seen = |amount: f64, why_not| Verdict { achieved: Some(Amount::Number(amount.max(0.0))), why_not };
    let bounds = [("low", low), ("high", high)].into_iter().filter(move |_| high > low);
    let bounds = bounds.map(move |(name, amount)| (format!("{LLC_MIB}_{name}"), seen(amount, None)));
    bounds.chain([(LLC_MIB.to_owned(), seen(had, why_not))])
}

/// The last-level cache as the kernel reports it.
pub(crate) fn last_level_told(facts: &MachineFacts) -> Option<&Cache> {
    facts.caches.iter().filter(|cache| cache.kind == "unified").max_by_key(|cache| cache.level)
}

/// The bounds of the last-level cache that workloads can have, MiB: as a probe has `seen` it, if the probe was
/// conclusive; else as the kernel has `told`, which is reliable only on bare metal. If neither is available, the reason
/// and the remedy.
pub(crate) fn last_level(
    told_bytes: Option<u64>,
    guest_of: Option<&str>,
    seen: Option<Option<[f64; 2]>>,
) -> Result<[f64; 2], String> {
    if let Some(Some(seen)) = seen {
        return Ok(seen);
    }
    let told = told_bytes.map(|bytes| bytes as f64 / f64::from(1 << 20));
    match (guest_of, seen) {
        (None, _) => told.map(|mib| [mib, mib]).ok_or_else(|| "the size of the last-level cache is unknown".to_owned()),
        (Some(host), None) => Err(format!(
            "this is a guest ({host}), which has less of the last-level cache than it sees; measure how much: plimsoll \
             machine --probe (with --quick, 20 seconds)"
        )),
        (Some(host), Some(_)) => Err(format!(
            "this is a guest ({host}), and the probe could not tell how much of the last-level cache it has, because others \
             use it; try plimsoll machine --probe again while the machine is quiet"
        )),
    }
}

/// The ways of the last-level cache, if they can be allocated.
pub(crate) fn llc_ways(host: &Host) -> Option<u32> {
    let resctrl = Resctrl::open(host).ok()?;
    resctrl.capabilities().caches.iter().find(|cache| cache.level == 3).map(CacheControl::ways)
}

/// How often limits are put in force again because the database has started another process.
const STARTS_MAX: usize = 20;

/// The processes of a database and all their descendants. Descendants of this process are left out, because hogs are
/// among them.
fn with_descendants(host: &Host, footprint: &Footprint) -> Vec<i32> {
    let own = std::process::id().cast_signed();
    let mut all = footprint.processes.clone();
    for process in footprint.processes.iter().filter(|process| **process != own) {
        let family = TreeSample::read(host, &[*process]).map(|tree| tree.processes()).unwrap_or_default();
        all.extend(family.into_iter().filter(|process| *process != own));
    }
    let mut seen = BTreeSet::new();
    all.retain(|process| seen.insert(*process));
    all
}

impl MachineLimits for HostLimits {
    fn set(&mut self, footprint: &Footprint, limits: &Limits) -> Result<(), LimitsError> {
        let LimitPlan { controls, hogs, allocated } = self.translate(limits)?;
        self.allocated = allocated;
        self.set_hogs(hogs, footprint.folder.as_deref())?;
        if controls.is_empty() {
            return self.lift();
        }
        if footprint.processes.is_empty() {
            return Err(LimitsError(
                "the database runs on another machine, which cannot be limited from here".to_owned(),
            ));
        }
        if self.limiter.as_ref().is_some_and(|(limited, _)| limited != footprint) {
            self.lift()?;
        }
        let failed = |error: LimiterError| LimitsError(error.to_string());
        if let Some((_, limiter)) = &mut self.limiter {
            return limiter.set(&controls).map_err(failed);
        }
        for _ in 0..STARTS_MAX {
            let processes = with_descendants(&self.host, footprint);
            let subject = Subject { processes: processes.clone(), data_folder: footprint.folder.clone() };
            let mut limiter = Limiter::begin(self.host.clone(), subject, &self.state).map_err(failed)?;
            limiter.set(&controls).map_err(failed)?;
            // A process that began while the first were being limited may have a parent that was not limited yet.
            if with_descendants(&self.host, footprint).iter().all(|process| processes.contains(process)) {
                self.limiter = Some((footprint.clone(), limiter));
                return Ok(());
            }
        }
        Err(LimitsError(format!(
            "the database goes on starting processes: after {STARTS_MAX} tries some are not limited; stop what else uses it"
        )))
    }

    fn processes(&self) -> Vec<i32> {
        self.hogs.values().map(|(_, hog)| hog.id().cast_signed()).collect()
    }

    fn open_window(&mut self) {
        // The work that hogs did earlier belongs to no window.
        for (_, hog) in self.hogs.values_mut() {
            let _ = hog.report();
        }
        self.window = self.limiter.as_ref().map(|(_, limiter)| limiter.observe());
    }

    fn close_window(&mut self) -> BTreeMap<String, Verdict> {
        let mut verdicts = BTreeMap::new();
        if let (Some((_, limiter)), Some(window)) = (&self.limiter, self.window.take()) {
            verdicts = limiter.verify(&window);
        }
        if let (Some(share), Ok([low, high]), Some(ways)) = (self.allocated, &self.llc_mib, verdicts.get(LLC_WAYS)) {
            let sizes = [*low, f64::midpoint(*low, *high), *high].map(|mib| mib * share);
            verdicts.extend(had(sizes, ways.why_not.clone()));
        }
        let mut hogs = std::mem::take(&mut self.hogs);
        for (key, (_, hog)) in &mut hogs {
            if *key == LLC_MIB {
                self.cache_verdicts(hog, &mut verdicts);
                continue;
            }
            let verdict = match hog.report() {
                Ok(report) => Verdict {
                    achieved: report.achieved.map(Amount::Number),
                    why_not: (report.reached != Some(true))
                        .then(|| format!("it {report}: {}", report.notes.join("; "))),
                },
                Err(error) => Verdict { achieved: None, why_not: Some(error.to_string()) },
            };
            verdicts.insert((*key).to_owned(), verdict);
        }
        self.hogs = hogs;
        verdicts
    }
}

#[cfg(test)]
mod tests;
