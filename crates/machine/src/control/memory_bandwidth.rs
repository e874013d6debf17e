//! The bandwidth between caches and memory that a database may use.

use std::collections::BTreeMap;
use std::time::Duration;

use super::resctrl::{Resource, ShareOf, observation};
use super::{Amount, Observation, Verdict, Window};
use crate::availability::Availability;
use crate::groups::resctrl::{BandwidthControl, ByDomain, Capabilities, Group};

/// Limits memory bandwidth by resctrl, in per cent, in MiB/s where it is mounted with `mba_MBps`, or in eighths of a
/// GB/s on AMD; the probe says which. `unlimited` is an amount too.
pub(crate) static CONTROL: ShareOf<BandwidthControl> = ShareOf::CONTROL;

impl Resource for BandwidthControl {
    const KEY: &'static str = "memory_bandwidth";
    const UNIT: &'static str = "%, MiB/s or GB/s/8, as mounted";
    const MEANING: &'static str = "the traffic between caches and memory, the same limit in every socket";
    const MISSING: [&'static str; 3] =
        ["mba", "mba", "resctrl is mounted without limits of memory bandwidth (no info/MB)"];
    const COUNTED: &'static str = "memory_bytes";

    fn of(capabilities: &Capabilities) -> Option<&BandwidthControl> {
        capabilities.bandwidth.as_ref()
    }

    fn offer(&self) -> String {
        self.describe()
    }

    fn shares(&self, amount: &Amount) -> Result<String, String> {
        wanted(self, amount).map(|limit| self.lines(limit))
    }

    fn unlimited(&self) -> String {
        self.lines(self.unlimited)
    }

    /// Threads in groups of classes would each have a separate limit, or none.
    fn obstacle(class: &Group) -> Option<Availability> {
        let reason = format!("some of its threads are in {} because of their cache class", class.folder());
        Some(Availability::no(reason, Some("set cache_classes=off")))
    }

    fn counted(group: &Group, _classes: &[Group]) -> Result<ByDomain, String> {
        let traffic = group.traffic_limited().ok_or("the processor does not count bytes (no mbm_total_bytes)")?;
        group.memory_bytes(traffic).map_err(|error| error.to_string())
    }

    fn judge(&self, _group: &Group, moved: &ByDomain, window: &Window<'_>) -> Result<Verdict, String> {
        let wanted = wanted(self, window.amount)?;
        Ok(compare(self, wanted, &rates(moved, window.earlier, window.length)?))
    }
}

fn wanted(bandwidth: &BandwidthControl, amount: &Amount) -> Result<u32, String> {
    match amount {
        Amount::Number(number) => bandwidth.limit(*number),
        Amount::Text(text) if text == "unlimited" => Ok(bandwidth.unlimited),
        Amount::Text(_) => Err(format!("it is neither a number of {} nor \"unlimited\"", bandwidth.unit)),
    }
}

/// Bytes per second of each domain since `earlier`.
fn rates(later: &ByDomain, earlier: &Observation, window: Duration) -> Result<BTreeMap<u32, f64>, String> {
    // Counters begin at 0 with the group, so that their whole numbers are exact in a float for years.
    let before = |domain: &u32| Some((*domain, *earlier.get(&observation::<BandwidthControl>(*domain))? as u64));
    let before: Option<ByDomain> = later.keys().map(before).collect();
    let before = before.ok_or("there is no reading from the beginning of the window")?;
    Group::rate(&before, later, window)
        .ok_or_else(|| "a counter was reset within the window, or the window is empty".into())
}

/// The rate reached, and why it is too high. The busiest domain counts, because the limit applies to each domain.
fn compare(bandwidth: &BandwidthControl, wanted: u32, rates: &BTreeMap<u32, f64>) -> Verdict {
    /// The kernel adjusts once per second, so a window may contain the beginning of a burst.
    const TOLERANCE: f64 = 1.05;
    let (domain, rate) =
        rates.iter().fold((0, 0.0), |most, (id, rate)| if *rate >= most.1 { (*id, *rate) } else { most });
    let Some(unit_bytes) = bandwidth.unit.bytes_per_second() else {
        let megabytes = rates.values().sum::<f64>() / 1e6;
        let told = format!("{megabytes:.0} MB/s at {wanted} %, to be compared with the rate at 100 %");
        return Verdict::held(Amount::Text(told));
    };
    let reached = rate / unit_bytes;
    let achieved = Amount::Number((reached * 10.0).round() / 10.0);
    if wanted == bandwidth.unlimited || reached <= f64::from(wanted) * TOLERANCE {
        return Verdict::held(achieved);
    }
    let unit = bandwidth.unit;
    Verdict::escaped(achieved, format!("domain {domain} moves {reached:.1} {unit} where {wanted} {unit} are allowed"))
}

#[cfg(test)]
mod tests;
