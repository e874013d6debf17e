//! The bandwidth between caches and memory that a database may use.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Amount, Control, ControlContext, ControlError, Observation, Subject, Unknown, Verdict, Window};
use crate::availability::Availability;
use crate::host::Host;
use crate::resctrl::{BandwidthControl, ByDomain, Group, Resctrl, absent, subject};

const KEY: &str = "memory_bandwidth";

/// Limits memory bandwidth by resctrl, in per cent, in MiB/s where it is mounted with `mba_MBps`, or in eighths of a
/// GB/s on AMD; the probe says which. `unlimited` is an amount too.
pub struct MemoryBandwidth;

impl Control for MemoryBandwidth {
    fn key(&self) -> &'static str {
        KEY
    }

    fn unit(&self) -> &'static str {
        "%, MiB/s or GB/s/8, as mounted"
    }

    fn meaning(&self) -> &'static str {
        "the traffic between caches and memory, the same limit in every socket"
    }

    fn probe(&self, host: &Host) -> Availability {
        match Resctrl::open(host).and_then(|resctrl| bandwidth(&resctrl, host).map(BandwidthControl::describe)) {
            Ok(told) => Availability::yes(format!("resctrl: {told}")),
            Err(absent) => absent,
        }
    }

    fn check(&self, host: &Host, amount: &Amount) -> Result<(), ControlError> {
        let resctrl = open(host)?;
        wanted(bandwidth(&resctrl, host).map_err(|absent| absent.error(KEY))?, amount).map(drop)
    }

    fn apply(&self, context: &mut ControlContext<'_>, amount: &Amount) -> Result<(), ControlError> {
        limit(&open(context.host)?, context, amount)
    }

    fn observe(&self, host: &Host, subject: &Subject) -> Observation {
        Resctrl::open(host).map(|resctrl| observed(&resctrl, subject)).unwrap_or_default()
    }

    fn verify(&self, window: &Window<'_>) -> Result<Verdict, Unknown> {
        judge(&open(window.host)?, window)
    }
}

fn open(host: &Host) -> Result<Resctrl, ControlError> {
    Resctrl::open(host).map_err(|absent| absent.error(KEY))
}

/// How bandwidth is limited, or why it cannot be although resctrl is mounted.
fn bandwidth<'a>(resctrl: &'a Resctrl, host: &Host) -> Result<&'a BandwidthControl, Availability> {
    resctrl.capabilities().bandwidth.as_ref().ok_or_else(|| {
        absent::missing(host, &["mba"], "mba", "resctrl is mounted without limits of memory bandwidth (no info/MB)")
    })
}

fn wanted(bandwidth: &BandwidthControl, amount: &Amount) -> Result<u32, ControlError> {
    let wrong = |why: String| ControlError::amount(KEY, amount, why);
    match amount {
        Amount::Number(number) => bandwidth.limit(*number).map_err(wrong),
        Amount::Text(text) if text == "unlimited" => Ok(bandwidth.unlimited),
        Amount::Text(_) => Err(wrong(format!("it is neither a number of {} nor \"unlimited\"", bandwidth.unit))),
    }
}

/// Gives the subject's group the limit, and then moves the subject into the group.
fn limit(resctrl: &Resctrl, context: &mut ControlContext<'_>, amount: &Amount) -> Result<(), ControlError> {
    let wanted = wanted(bandwidth(resctrl, context.host).map_err(|absent| absent.error(KEY))?, amount)?;
    if let Some(class) = subject::class_groups(resctrl, context.subject).first() {
        // Threads in class groups would each have a separate limit, or none.
        let reason = format!("some of its threads are in {} because of their cache class", class.folder());
        return Err(Availability::no(reason, Some("set cache_classes=off")).error(KEY));
    }
    let group = subject::enter(resctrl, context, KEY)?;
    group.undo_bandwidth().map_or(Ok(()), |undo| context.undo.note(undo))?;
    group.set_bandwidth(wanted)?;
    subject::move_threads(&group, context.host, context.subject)
}

/// Bytes that the group has transferred, by domain. Empty if that cannot be read; the verdict of the window says why.
fn observed(resctrl: &Resctrl, subject: &Subject) -> Observation {
    let moved = resctrl
        .find(&subject::group_name(subject))
        .and_then(|group| group.memory_bytes(group.traffic_limited()?).ok())
        .unwrap_or_default();
    moved.into_iter().map(|(domain, bytes)| (format!("memory_bytes.{domain}"), bytes as f64)).collect()
}

fn judge(resctrl: &Resctrl, window: &Window<'_>) -> Result<Verdict, Unknown> {
    let Window { host, subject, .. } = *window;
    let bandwidth = bandwidth(resctrl, host).map_err(|absent| absent.error(KEY))?;
    let wanted = wanted(bandwidth, window.amount)?;
    let name = subject::group_name(subject);
    let group = resctrl.find(&name).ok_or_else(|| format!("there is no group {name}"))?;
    let not_in_force = not_in_force(bandwidth, &group, wanted).or_else(|| subject::why_outside(&group, host, subject));
    match rates(&group, window.earlier, window.length) {
        Ok(rates) => {
            let (achieved, too_much) = compare(bandwidth, wanted, &rates);
            Ok(Verdict { achieved: Some(achieved), why_not: not_in_force.or(too_much) })
        }
        Err(error) => {
            let unmeasured = || format!("the limit is in force; what is moved cannot be measured: {error}");
            Err(not_in_force.unwrap_or_else(unmeasured).into())
        }
    }
}

fn not_in_force(bandwidth: &BandwidthControl, group: &Group, wanted: u32) -> Option<String> {
    let limits = match group.schemata() {
        Ok(schemata) => schemata.numbers("MB"),
        Err(error) => return Some(error.to_string()),
    };
    let other = bandwidth.domains.iter().find(|domain| limits.get(domain) != Some(&u64::from(wanted)))?;
    let found = limits.get(other).map_or("none".to_owned(), u64::to_string);
    Some(format!("the limit of domain {other} is {found} and not {wanted} {}", bandwidth.unit))
}

/// Bytes per second of each domain since `earlier`.
fn rates(group: &Group, earlier: &Observation, window: Duration) -> Result<BTreeMap<u32, f64>, String> {
    let traffic = group.traffic_limited().ok_or("the processor does not count bytes (no mbm_total_bytes)")?;
    let later = group.memory_bytes(traffic).map_err(|error| error.to_string())?;
    // Counters begin at 0 with the group, so that their whole numbers are exact in a float for years.
    let before = |domain: &u32| Some((*domain, *earlier.get(&format!("memory_bytes.{domain}"))? as u64));
    let before: Option<ByDomain> = later.keys().map(before).collect();
    let before = before.ok_or("there is no reading from the beginning of the window")?;
    Group::rate(&before, &later, window)
        .ok_or_else(|| "a counter was reset within the window, or the window is empty".into())
}

/// The rate reached, and why it is too high. The busiest domain counts, because the limit applies to each domain.
fn compare(bandwidth: &BandwidthControl, wanted: u32, rates: &BTreeMap<u32, f64>) -> (Amount, Option<String>) {
    /// The kernel adjusts once per second, so a window may contain the beginning of a burst.
    const TOLERANCE: f64 = 1.05;
    let (domain, rate) =
        rates.iter().fold((0, 0.0), |most, (id, rate)| if *rate >= most.1 { (*id, *rate) } else { most });
    let Some(unit_bytes) = bandwidth.unit.bytes_per_second() else {
        let megabytes = rates.values().sum::<f64>() / 1e6;
        let told = format!("{megabytes:.0} MB/s at {wanted} %, to be compared with the rate at 100 %");
        return (Amount::Text(told), None);
    };
    let reached = rate / unit_bytes;
    let is_limited = wanted != bandwidth.unlimited;
    let too_much = (is_limited && reached > f64::from(wanted) * TOLERANCE)
        .then(|| format!("domain {domain} moves {reached:.1} {0} where {wanted} {0} are allowed", bandwidth.unit));
    (Amount::Number((reached * 10.0).round() / 10.0), too_much)
}

#[cfg(test)]
mod tests;
