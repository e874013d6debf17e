//! `cores`: the logical cores that the subject may run on.
//!
//! Set by the cpuset controller, which also binds threads that begin later. Without it, set by the affinity of every
//! thread, which later threads inherit.

use std::collections::BTreeSet;

use super::threads::{Thread, bring_all, living, threads};
use super::{Amount, Control, ControlContext, ControlError, Undo, Unknown, Verdict, Window, amount};
use crate::availability::Availability;
use crate::facts::processor::{affinity, online_cores};
use crate::groups::{self, CORES, Cgroups, Group, is_of_plimsoll};
use crate::host::{Host, parse_core_list};

#[derive(Debug)]
pub(super) struct Cores;

const KEY: &str = "cores";

impl Control for Cores {
    fn key(&self) -> &'static str {
        KEY
    }

    fn unit(&self) -> &'static str {
        "cores"
    }

    fn meaning(&self) -> &'static str {
        "logical cores to run on: a number of them (one of each physical core first), or a list such as 0-3,8"
    }

    fn probe(&self, host: &Host) -> Availability {
        let groups = groups::probe(host, CORES);
        if groups.available || threads(host, std::process::id() as i32).is_empty() {
            return groups;
        }
        Availability::yes(format!("affinity of every thread, which threads may change ({})", groups.reason))
    }

    fn check(&self, host: &Host, amount: &Amount) -> Result<(), ControlError> {
        wanted(&usable(host), host, amount).map(drop)
    }

    fn apply(&self, context: &mut ControlContext<'_>, amount: &Amount) -> Result<(), ControlError> {
        let cores = wanted(&usable(context.host), context.host, amount)?;
        match groups::join(context, KEY, CORES) {
            Ok(group) => apply_to_group(context, &group, &cores),
            Err(ControlError::Unavailable { .. }) => apply_to_threads(context, &cores),
            Err(error) => Err(error),
        }
    }

    fn verify(&self, window: &Window<'_>) -> Result<Verdict, Unknown> {
        let Window { host, subject, amount, .. } = *window;
        let cores = BTreeSet::from_iter(wanted(&usable(host), host, amount)?);
        let processes = match groups::find(host, subject, CORES) {
            Ok(group) => group.processes(host),
            Err(_) => living(host, &subject.processes),
        };
        let threads: Vec<Thread> = processes.iter().flat_map(|process| threads(host, *process)).collect();
        if threads.is_empty() {
            return Err("none of the processes to limit is running".into());
        }
        let allowed: BTreeSet<usize> = threads.iter().flat_map(|thread| thread.cores.iter().copied()).collect();
        let achieved = match amount {
            Amount::Number(_) => Amount::Number(allowed.len() as f64),
            Amount::Text(_) => Amount::Text(list(allowed.iter().copied())),
        };
        let outside = |thread: &&Thread| thread.cores.iter().any(|core| !cores.contains(core));
        let count = threads.iter().filter(outside).count();
        if count > 0 {
            let beyond = list(allowed.difference(&cores).copied());
            let outside = format!("{count} of {} threads may run on cores {beyond}", threads.len());
            return Ok(Verdict::escaped(achieved, outside));
        }
        if allowed.len() < cores.len() {
            let short = format!("threads may run on cores {} only, less than was asked for", list(allowed));
            return Ok(Verdict::escaped(achieved, short));
        }
        // A thread that has not run since the limit was set shows the core where it ran before; the kernel would at
        // once have moved a thread that is now on another core.
        Ok(Verdict::held(achieved))
    }
}

/// A list as the kernel writes it: `0-2,8`.
pub(crate) fn list(cores: impl IntoIterator<Item = usize>) -> String {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for core in cores.into_iter().collect::<BTreeSet<usize>>() {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == core => *last = core,
            _ => ranges.push((core, core)),
        }
    }
    let text =
        |(first, last): (usize, usize)| if first == last { first.to_string() } else { format!("{first}-{last}") };
    ranges.into_iter().map(text).collect::<Vec<String>>().join(",")
}

/// The cores that this process's own groups and its affinity allow, not counting our own limits.
fn usable(host: &Host) -> Vec<usize> {
    let allowed = allowed_by_groups(host);
    match affinity(host) {
        Some(given) => allowed.into_iter().filter(|core| given.contains(core)).collect(),
        None => allowed,
    }
}

fn allowed_by_groups(host: &Host) -> Vec<usize> {
    let online = online_cores(host);
    let cgroups = Cgroups::read(host);
    let Ok((unified, groups)) = cgroups.standing(CORES) else { return online };
    let file = if unified { "cpuset.cpus.effective" } else { "cpuset.effective_cpus" };
    let allowed = groups
        .iter()
        .filter(|folder| !is_of_plimsoll(folder))
        .find_map(|folder| host.cores(folder.join(file)).or_else(|| host.cores(folder.join("cpuset.cpus"))));
    match allowed {
        Some(allowed) => online.into_iter().filter(|core| allowed.contains(core)).collect(),
        None => online,
    }
}

/// Why fewer cores are usable than are online, and what to do about it, if the affinity of this process is the reason.
fn narrowed(usable: &[usize], host: &Host) -> String {
    if usable.len() == allowed_by_groups(host).len() {
        return String::new();
    }
    let given = list(usable.iter().copied());
    format!("; this process was started on cores {given} only: start it without taskset, or with more cores")
}

fn wanted(usable: &[usize], host: &Host, amount: &Amount) -> Result<Vec<usize>, ControlError> {
    match amount {
        Amount::Text(text) => {
            let Some(cores) = parse_core_list(text) else {
                return Err(ControlError::amount(KEY, amount, "it is a number or a list such as 0-3,8"));
            };
            match cores.iter().find(|core| !usable.contains(core)) {
                Some(core) => {
                    let there = list(usable.iter().copied());
                    let why = format!("core {core} is not usable; usable are {there}{}", narrowed(usable, host));
                    Err(ControlError::amount(KEY, amount, why))
                }
                None => Ok(cores),
            }
        }
        Amount::Number(_) => {
            let unit = format!("cores{}", narrowed(usable, host));
            let count = amount::whole(KEY, amount, 1.0, usable.len() as f64, &unit)? as usize;
            // The first hardware thread of every physical core comes before the second of any.
            let rank = |core: usize| {
                let file = format!("/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list");
                let siblings = host.cores(file).unwrap_or_default();
                siblings.iter().filter(|sibling| **sibling < core && usable.contains(sibling)).count()
            };
            let mut ordered = usable.to_vec();
            ordered.sort_by_key(|core| (rank(*core), *core));
            ordered.truncate(count);
            ordered.sort_unstable();
            Ok(ordered)
        }
    }
}

fn apply_to_group(context: &mut ControlContext<'_>, group: &Group, cores: &[usize]) -> Result<(), ControlError> {
    let all = list(usable(context.host));
    // An empty list means "as the group above" in version 2; version 1 has no such value.
    let free = if group.unified { "\n" } else { all.as_str() };
    group.set(context, KEY, "cpuset.cpus", &list(cores.iter().copied()), free)
}

fn apply_to_threads(context: &mut ControlContext<'_>, cores: &[usize]) -> Result<(), ControlError> {
    let host = context.host;
    let undo = |thread: &Thread, since| {
        (thread.cores != cores).then(|| Undo::Affinity {
            thread: thread.id,
            started: thread.started,
            cores: thread.cores.clone(),
            since,
        })
    };
    bring_all(context, KEY, "cores", undo, |thread| host.set_affinity(thread, cores))
}
