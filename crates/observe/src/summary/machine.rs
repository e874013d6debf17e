//! The machine and replication, as the terminal shows them.

use plimsoll_display::{MISSING, bytes, percent, rate, seconds};

use super::{heading, item};
use crate::results::{CoreUse, DiskUse, Observation, Operations};

pub(super) fn host(text: &mut String, observation: &Observation) {
    let host = &observation.host;
    if host.cores.is_none() && host.disk.is_none() {
        return;
    }
    heading(text, "The machine");
    if let Some(found) = &host.cores {
        item(text, &cores(found));
    }
    if let Some(found) = &host.disk {
        item(text, &disk(found));
        if let Some(told) = against_probe(found) {
            item(text, &told);
        }
    }
}

/// Who had the cores, in a sentence.
pub(crate) fn cores(found: &CoreUse) -> String {
    let named: Vec<String> = found
        .named
        .iter()
        .take(4)
        .map(|one| match one.count {
            1 => format!("{} {:.2}", one.name, one.cores),
            count => format!("{count} x {} {:.2}", one.name, one.cores),
        })
        .collect();
    let named = if named.is_empty() { String::new() } else { format!(" ({})", named.join(", ")) };
    let stolen = found.stolen.map_or_else(|| MISSING.to_owned(), |stolen| format!("{stolen:.2}"));
    let usable =
        if found.usable < found.machine { format!(", of which {} can be used", found.usable) } else { String::new() };
    format!(
        "of {} cores{usable}: PostgreSQL {:.2}, others {:.2}{named}, the hypervisor {stolen}, looking {:.3}",
        found.machine, found.postgres, found.others, found.observer
    )
}

/// What the disk did, in a sentence.
pub(crate) fn disk(found: &DiskUse) -> String {
    format!(
        "disk {}: busy {}; reads {}; writes {}",
        found.device,
        percent(found.busy),
        operations(&found.read),
        operations(&found.write)
    )
}

fn operations(all: &Operations) -> String {
    let ms = |ms: f64| seconds(ms / 1e3);
    let mean = all.mean_ms.map_or_else(String::new, |mean| format!(", {} each", ms(mean)));
    let worst = all.worst_ms.filter(|worst| all.mean_ms.is_some_and(|mean| *worst > 2.0 * mean));
    let worst = worst.map_or_else(String::new, |worst| format!(" (up to {} in a window)", ms(worst)));
    format!("{:.1} MB/s, {}{mean}{worst}", all.mb_per_s, rate(all.per_s))
}

/// What the disk did against what a probe has found, in a sentence; `None` if it was not probed.
pub(crate) fn against_probe(found: &DiskUse) -> Option<String> {
    let probe = found.probe.as_ref()?;
    let mean = found.read.mean_ms.map_or_else(String::new, |mean| {
        format!(
            ", and a read took {:.1} times as long as alone ({})",
            mean / probe.read_ms,
            seconds(probe.read_ms / 1e3)
        )
    });
    Some(format!(
        "that is {} of the {} random reads that machine --probe found on {}{mean}",
        percent(found.read.per_s / probe.reads_per_s_max),
        rate(probe.reads_per_s_max),
        probe.measured_at.split('T').next().unwrap_or_default()
    ))
}

pub(super) fn replication(text: &mut String, observation: &Observation) {
    let sentences = sentences(observation);
    if !sentences.is_empty() {
        heading(text, "Replication");
    }
    for sentence in sentences {
        item(text, &sentence);
    }
}

/// Replication in sentences; none without any.
pub(crate) fn sentences(observation: &Observation) -> Vec<String> {
    let size = |amount: Option<f64>| amount.map_or_else(|| MISSING.to_owned(), |amount| bytes(amount as u64));
    let time = |amount: Option<f64>| amount.map_or_else(|| MISSING.to_owned(), seconds);
    let mut told = Vec::new();
    if let Some(here) = &observation.replication.standby {
        told.push(format!(
            "this standby received {} and replayed {} per second; it was behind {} at the end (at most {}), {} (at most {})",
            size(here.received_bytes_per_s),
            size(here.replayed_bytes_per_s),
            size(here.lag_bytes),
            size(here.lag_bytes_max),
            time(here.lag_s),
            time(here.lag_s_max)
        ));
        let parts: Vec<String> =
            here.replay.iter().map(|(what, share)| format!("{what} {}", percent(*share))).collect();
        let paused = if here.paused { "; it is paused (pg_wal_replay_resume() continues it)" } else { "" };
        told.push(format!("replay: {}{paused}", parts.join(", ")));
        let conflicts: Vec<String> = here
            .conflicts
            .iter()
            .filter(|one| one.count > 0)
            .map(|one| format!("{} for {}", one.count, one.kind))
            .collect();
        told.push(match conflicts.is_empty() {
            true => "no query was cancelled for replay".to_owned(),
            false => format!("queries cancelled for replay: {}", conflicts.join(", ")),
        });
    }
    for standby in &observation.replication.standbys {
        told.push(format!(
            "standby {} ({}): behind {} at the end (at most {}), {} from flush to replay (at most {})",
            standby.name,
            standby.sync_state,
            size(standby.lag_bytes),
            size(standby.lag_bytes_max),
            time(standby.replay_lag_s),
            time(standby.replay_lag_s_max)
        ));
    }
    told
}
