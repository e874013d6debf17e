//! The ways of the last-level cache that a database may fill (SR fig. 2: the same mask for all cores, allocations nested).

use std::collections::BTreeMap;

use super::{Amount, Control, ControlContext, ControlError, Observation, Subject, Unknown, Verdict, Window};
use crate::availability::Availability;
use crate::host::Host;
use crate::resctrl::{ByDomain, CacheControl, CacheMask, Group, NotRead, Resctrl, absent, subject};

/// How experiments name the control of the ways of the last-level cache.
pub const KEY: &str = "llc_ways";

/// Limits the ways of the last-level cache by resctrl: a number of ways, a mask as `0xf0`, or `unlimited`.
pub struct LlcWays;

impl Control for LlcWays {
    fn key(&self) -> &'static str {
        KEY
    }

    fn unit(&self) -> &'static str {
        "ways"
    }

    fn meaning(&self) -> &'static str {
        "the ways of the last-level cache that new data may go to, the same in every socket"
    }

    fn probe(&self, host: &Host) -> Availability {
        match Resctrl::open(host).and_then(|resctrl| cache(&resctrl, host).map(CacheControl::describe)) {
            Ok(told) => Availability::yes(format!("resctrl: {told}")),
            Err(absent) => absent,
        }
    }

    fn check(&self, host: &Host, amount: &Amount) -> Result<(), ControlError> {
        let resctrl = open(host)?;
        mask(cache(&resctrl, host).map_err(|absent| absent.error(KEY))?, amount).map(drop)
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

/// The cache, or why its ways cannot be allocated although resctrl is mounted.
fn cache<'a>(resctrl: &'a Resctrl, host: &Host) -> Result<&'a CacheControl, Availability> {
    resctrl.capabilities().last_level().ok_or_else(|| {
        absent::missing(
            host,
            &["cat_l3"],
            "l3cat",
            "resctrl is mounted without allocation of the level 3 cache (no info/L3)",
        )
    })
}

fn mask(cache: &CacheControl, amount: &Amount) -> Result<CacheMask, ControlError> {
    let wrong = |why: String| ControlError::amount(KEY, amount, why);
    let mask = match amount {
        Amount::Number(ways) if ways.fract() == 0.0 && (0.0..=f64::from(cache.ways())).contains(ways) => {
            cache.mask(*ways as u32)
        }
        Amount::Number(_) => {
            return Err(wrong(format!("it must be a whole number from {} to {}", cache.ways_min, cache.ways())));
        }
        Amount::Text(text) if text == "unlimited" => cache.full,
        Amount::Text(text) => CacheMask::parse(text).ok_or_else(|| {
            wrong(format!("it is neither a number of ways, nor a mask such as {}, nor \"unlimited\"", cache.full))
        })?,
    };
    cache.fault(mask).map_or(Ok(mask), |fault| Err(wrong(fault)))
}

/// Gives the subject's group the mask, and then moves the subject into the group.
fn limit(resctrl: &Resctrl, context: &mut ControlContext<'_>, amount: &Amount) -> Result<(), ControlError> {
    let mask = mask(cache(resctrl, context.host).map_err(|absent| absent.error(KEY))?, amount)?;
    let group = subject::enter(resctrl, context, KEY)?;
    group.undo_mask().map_or(Ok(()), |undo| context.undo.note(undo))?;
    group.set_mask(mask)?;
    subject::move_threads(&group, context.host, context.subject)
}

/// Bytes that the group holds, by domain. Empty if that cannot be read; the verdict of the window says why.
fn observed(resctrl: &Resctrl, subject: &Subject) -> Observation {
    let group = resctrl.find(&subject::group_name(subject));
    let bytes = group.and_then(|group| held(resctrl, &group, subject).ok()).into_iter().flatten();
    bytes.map(|(domain, bytes)| (format!("occupancy_bytes.{domain}"), bytes as f64)).collect()
}

/// Bytes that the subject holds by domain, including its classes.
fn held(resctrl: &Resctrl, group: &Group, subject: &Subject) -> Result<ByDomain, NotRead> {
    let mut held = group.occupancy()?;
    for class in subject::class_groups(resctrl, subject) {
        for (domain, bytes) in class.occupancy()? {
            *held.entry(domain).or_default() += bytes;
        }
    }
    Ok(held)
}

/// Why a class of the subject's threads may use ways beyond the mask.
fn class_beyond(resctrl: &Resctrl, cache: &CacheControl, subject: &Subject, mask: CacheMask) -> Option<String> {
    subject::class_groups(resctrl, subject).iter().find_map(|class| {
        let schemata = match class.schemata() {
            Ok(schemata) => schemata,
            Err(error) => return Some(error.to_string()),
        };
        let masks = cache.resources.iter().flat_map(|resource| schemata.masks(resource).into_values());
        let beyond = masks.into_iter().find(|of_class| of_class.0 & !mask.0 != 0)?;
        Some(format!("the mask {beyond} of {} has ways outside of {mask}", class.folder()))
    })
}

fn judge(resctrl: &Resctrl, window: &Window<'_>) -> Result<Verdict, Unknown> {
    let Window { host, subject, .. } = *window;
    let cache = cache(resctrl, host).map_err(|absent| absent.error(KEY))?;
    let mask = mask(cache, window.amount)?;
    let name = subject::group_name(subject);
    let group = resctrl.find(&name).ok_or_else(|| format!("there is no group {name}"))?;
    let outside = || {
        not_in_force(cache, &group, mask)
            .or_else(|| subject::why_outside(&group, host, subject))
            .or_else(|| class_beyond(resctrl, cache, subject, mask))
    };
    let held = held(resctrl, &group, subject).map_err(|error| {
        outside().unwrap_or_else(|| format!("the mask is in force; what it holds cannot be measured: {error}"))
    })?;
    let ways = |bytes: u64| Some(bytes as f64 / cache.way_bytes.filter(|bytes| *bytes > 0)? as f64);
    let most = held.values().max().and_then(|bytes| ways(*bytes));
    let why_not = outside().or_else(|| overfull(resctrl, cache, &group, &held, window.earlier));
    Ok(Verdict { achieved: most.map(|ways| Amount::Number((ways * 100.0).round() / 100.0)), why_not })
}

fn not_in_force(cache: &CacheControl, group: &Group, wanted: CacheMask) -> Option<String> {
    let schemata = match group.schemata() {
        Ok(schemata) => schemata,
        Err(error) => return Some(error.to_string()),
    };
    cache.resources.iter().find_map(|resource| {
        let masks = schemata.masks(resource);
        let other = cache.domains.iter().find(|domain| masks.get(domain) != Some(&wanted))?;
        let found = masks.get(other).map_or("none".to_owned(), CacheMask::to_string);
        Some(format!("the mask of {resource} in domain {other} is {found} and not {wanted}"))
    })
}

/// Compares the bytes held with the capacity of the ways. The counters are estimates, for which 5 % is allowed, and may
/// include bytes of the previous user of a group's counter. Setting the mask does not evict older lines: while they
/// remain, the subject has more cache than it should, so the limit has not taken effect, and this is reported.
fn overfull(
    resctrl: &Resctrl,
    cache: &CacheControl,
    group: &Group,
    held: &BTreeMap<u32, u64>,
    earlier: &Observation,
) -> Option<String> {
    const TOLERANCE: f64 = 1.05;
    let mebibytes = |bytes: f64| format!("{:.2} MiB", bytes / f64::from(1 << 20));
    let sizes = match group.sizes() {
        Ok(sizes) => sizes.numbers(&cache.resources[0]),
        Err(error) => return Some(error.to_string()),
    };
    let leftover = resctrl.capabilities().monitoring.as_ref().map_or(0, |monitoring| monitoring.leftover_bytes) as f64;
    held.iter().find_map(|(domain, held)| {
        let Some(allowed) = sizes.get(domain).map(|bytes| *bytes as f64) else {
            return Some(format!("the kernel does not tell how many bytes the mask has in domain {domain}"));
        };
        let held = *held as f64;
        if held <= allowed * TOLERANCE + leftover {
            return None;
        }
        let before = earlier.get(&format!("occupancy_bytes.{domain}")).filter(|before| **before >= held);
        let before = before.map_or(String::new(), |before| {
            let why = "lines from before the mask stay until others need their place, so warm up longer";
            format!("; it was {} at the beginning: {why}", mebibytes(*before))
        });
        let (held, allowed) = (mebibytes(held), mebibytes(allowed));
        Some(format!("{held} are held in domain {domain} where the mask has {allowed}{before}"))
    })
}

#[cfg(test)]
mod tests;
