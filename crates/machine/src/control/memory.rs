//! `memory_mib`: the memory that may be charged to the subject from now on.
//!
//! A page is charged to the group of the process that first touched it and stays there when the process is moved to
//! another group (version 1 could move charges until Linux 6.x removed that; version 2 never could). The memory that
//! processes had allocated elsewhere when they joined, such as what a server touches while it starts, is therefore taken
//! off the limit of the group: both together are the amount. [`verify`](Control::verify) reports memory elsewhere that
//! was not counted. Page cache from before never counts.

use super::{Amount, Control, ControlContext, ControlError, Unknown, Verdict, Window, amount};
use crate::availability::Availability;
use crate::groups::{self, Group, MEMORY};
use crate::host::Host;

#[derive(Debug)]
pub(super) struct Memory;

const KEY: &str = "memory_mib";
const MIB: f64 = 1024.0 * 1024.0;
/// With less than this, a process is killed before it has loaded its libraries.
const LEAST_MIB: f64 = 16.0;
/// Fewer pages charged elsewhere than this do not count: libraries, and pages that the kernel charges in batches.
const ELSEWHERE_LEAST: u64 = 8 << 20;
/// The kernel rounds limits to pages.
const PAGES: u64 = 1 << 16;

struct Files {
    limit: &'static str,
    usage: &'static str,
    free: &'static str,
    /// Lines of `memory.stat` that add up to the memory that cannot be dropped: anonymous and shared memory.
    kept: [&'static str; 2],
}

fn files(group: &Group) -> Files {
    match group.unified {
        true => Files { limit: "memory.max", usage: "memory.current", free: "max", kept: ["anon", "shmem"] },
        false => Files {
            limit: "memory.limit_in_bytes",
            usage: "memory.usage_in_bytes",
            free: "-1",
            kept: ["total_rss", "total_shmem"],
        },
    }
}

impl Control for Memory {
    fn key(&self) -> &'static str {
        KEY
    }

    fn unit(&self) -> &'static str {
        "MiB"
    }

    fn meaning(&self) -> &'static str {
        "memory and page cache that it may have; page cache from before the limit does not count"
    }

    fn probe(&self, host: &Host) -> Availability {
        groups::probe(host, MEMORY)
    }

    fn check(&self, host: &Host, amount: &Amount) -> Result<(), ControlError> {
        limit(host, amount).map(drop)
    }

    fn apply(&self, context: &mut ControlContext<'_>, amount: &Amount) -> Result<(), ControlError> {
        let limit = limit(context.host, amount)?;
        let group = groups::join(context, KEY, MEMORY)?;
        let files = files(&group);
        let elsewhere = elsewhere(context.host, &group).filter(|bytes| *bytes > tolerance(limit)).unwrap_or(0);
        // Version 2 accepts a limit below the memory in use, and then kills processes. Version 1 refuses it by itself.
        let used = kept(context.host, &group) + elsewhere;
        if used >= limit {
            let why =
                format!("{:.0} MiB are in use that cannot be dropped; restart the database first", used as f64 / MIB);
            return Err(ControlError::amount(KEY, amount, why));
        }
        group.set(context, KEY, files.limit, &(limit - elsewhere).to_string(), files.free)
    }

    fn verify(&self, window: &Window<'_>) -> Result<Verdict, Unknown> {
        let host = window.host;
        let group = groups::find(host, window.subject, MEMORY)?;
        let limit = limit(host, window.amount)?;
        let files = files(&group);
        // The kernel counts in whole pages.
        let set: Option<u64> = host.value(group.file(files.limit));
        let Some(set) = set.filter(|set| *set < limit + PAGES) else {
            return Err(format!("{} holds {set:?}, not {limit}", group.file(files.limit)).into());
        };
        let usage: Option<u64> = host.value(group.file(files.usage));
        let usage = usage.ok_or_else(|| format!("{} cannot be read", group.file(files.usage)))?;
        let elsewhere =
            elsewhere(host, &group).ok_or("what its processes hold is not told (/proc/PID/smaps_rollup)")?;
        let counted = if limit - set.min(limit) < PAGES { 0 } else { limit - set };
        let achieved = Amount::Number((usage + counted) as f64 / MIB);
        if usage > set {
            return Ok(Verdict::escaped(achieved, format!("{usage} bytes are charged, {set} allowed")));
        }
        let reason = if elsewhere > counted + tolerance(limit) {
            let mib = elsewhere as f64 / MIB;
            format!("does not bite: {mib:.0} MiB were allocated before the limit; load again inside it")
        } else if counted > elsewhere + tolerance(limit) {
            let mib = (counted - elsewhere) as f64 / MIB;
            format!("is {mib:.0} MiB too tight: processes that had allocated as much before the limit have ended")
        } else {
            return Ok(Verdict::held(achieved));
        };
        Ok(Verdict::escaped(achieved, reason))
    }
}

/// The limit, bytes.
fn limit(host: &Host, amount: &Amount) -> Result<u64, ControlError> {
    let most = host.line_value("/proc/meminfo", "MemTotal").map_or(f64::MAX, |bytes| (bytes as f64 / MIB).floor());
    Ok((amount::number(KEY, amount, LEAST_MIB, most, "MiB")? * MIB) as u64)
}

/// The memory elsewhere that does not matter beside a limit, bytes.
fn tolerance(limit: u64) -> u64 {
    ELSEWHERE_LEAST.max(limit / 20)
}

/// Bytes that the group's processes hold and that are charged elsewhere; `None` if that is not told.
fn elsewhere(host: &Host, group: &Group) -> Option<u64> {
    Some(held(host, group)?.saturating_sub(kept(host, group)))
}

/// Bytes charged to the group that cannot be dropped as page cache can.
fn kept(host: &Host, group: &Group) -> u64 {
    let line = |name: &&str| host.line_value(group.file("memory.stat"), name);
    files(group).kept.iter().filter_map(line).sum()
}

/// Bytes of anonymous and shared memory that the group's processes hold, regardless of where it is charged; shared
/// pages are divided among their processes. `None` if no process reports it.
fn held(host: &Host, group: &Group) -> Option<u64> {
    let of_process = |process: i32| {
        let file = format!("/proc/{process}/smaps_rollup");
        Some(host.line_value(&file, "Pss_Anon")? + host.line_value(&file, "Pss_Shmem").unwrap_or(0))
    };
    let told: Vec<u64> = group.processes(host).into_iter().filter_map(of_process).collect();
    (!told.is_empty()).then(|| told.iter().sum())
}
