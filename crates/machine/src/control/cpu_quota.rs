//! `cpu_quota`: the CPU time that all threads of the subject may use, in cores.

use super::{Amount, Control, ControlContext, ControlError, Observation, Subject, Unknown, Verdict, Window, amount};
use crate::availability::Availability;
use crate::facts::processor::online_cores;
use crate::groups::{self, CPU, CPU_TIME, Group, quota_of};
use crate::host::Host;

#[derive(Debug)]
pub(super) struct CpuQuota;

const KEY: &str = "cpu_quota";
/// The kernel's own period. Each period gets the full quota.
const PERIOD_US: f64 = 100_000.0;
/// The kernel takes no quota below 1 ms a period.
const LEAST_CORES: f64 = 0.01;

impl Control for CpuQuota {
    fn key(&self) -> &'static str {
        KEY
    }

    fn unit(&self) -> &'static str {
        "cores"
    }

    fn meaning(&self) -> &'static str {
        "CPU time per second of all threads together (1.5 is one and a half cores); they wait when it is used up"
    }

    fn probe(&self, host: &Host) -> Availability {
        groups::probe(host, CPU)
    }

    fn check(&self, host: &Host, amount: &Amount) -> Result<(), ControlError> {
        quota(host, amount).map(drop)
    }

    fn apply(&self, context: &mut ControlContext<'_>, amount: &Amount) -> Result<(), ControlError> {
        let quota_us = (quota(context.host, amount)? * PERIOD_US).round() as u64;
        let group = groups::join(context, KEY, CPU)?;
        if group.unified {
            return group.set(context, KEY, "cpu.max", &format!("{quota_us} {PERIOD_US}"), "max");
        }
        // Another controller, possibly in a hierarchy of its own, counts the time. Without it the limit holds, but its
        // effect is unknown.
        match groups::join(context, KEY, CPU_TIME) {
            Ok(_) | Err(ControlError::Unavailable { .. }) => {}
            Err(error) => return Err(error),
        }
        group.set(context, KEY, "cpu.cfs_period_us", &PERIOD_US.to_string(), &PERIOD_US.to_string())?;
        group.set(context, KEY, "cpu.cfs_quota_us", &quota_us.to_string(), "-1")
    }

    fn observe(&self, host: &Host, subject: &Subject) -> Observation {
        let mut observation = Observation::new();
        if let Ok(group) = groups::find(host, subject, CPU) {
            observation.extend(used_s(host, subject, &group).map(|used| ("used_s".to_owned(), used)));
            let throttled = host.line_value(group.file("cpu.stat"), "nr_throttled");
            observation.extend(throttled.map(|count| ("throttled".to_owned(), count as f64)));
        }
        observation
    }

    fn verify(&self, window: &Window<'_>) -> Result<Verdict, Unknown> {
        let Window { host, subject, earlier, .. } = *window;
        let group = groups::find(host, subject, CPU)?;
        let quota = quota(host, window.amount)?;
        let set = quota_of(host, group.folder(), group.unified);
        if set.is_none_or(|set| (set - quota).abs() > 0.001) {
            return Err(format!("the quota in force is {set:?} cores, not {quota}").into());
        }
        let now = self.observe(host, subject);
        let (Some(used), Some(before)) = (now.get("used_s"), earlier.get("used_s")) else {
            return Err("the CPU time of the group is not counted (no cpuacct controller)".into());
        };
        let (used, seconds) = (used - before, window.length.as_secs_f64());
        let achieved = Amount::Number(used / seconds.max(1e-9));
        // The window begins and ends within a period, whose whole quota may be used at once, and cores keep slices of 5
        // ms that they received.
        let period = PERIOD_US / 1e6;
        if used <= quota * (seconds + period) * 1.05 + 0.005 * online_cores(host).len() as f64 {
            return Ok(Verdict::held(achieved));
        }
        let throttled = now.get("throttled").zip(earlier.get("throttled")).map_or(0.0, |(now, then)| now - then);
        let reason = format!(
            "{:.2} cores were used, {quota} allowed (5 % and a period of {period} s are tolerated); stopped {throttled} times",
            used / seconds.max(1e-9)
        );
        Ok(Verdict::escaped(achieved, reason))
    }
}

fn quota(host: &Host, amount: &Amount) -> Result<f64, ControlError> {
    amount::number(KEY, amount, LEAST_CORES, online_cores(host).len().max(1) as f64, "cores")
}

/// CPU time that the group has used, seconds.
fn used_s(host: &Host, subject: &Subject, group: &Group) -> Option<f64> {
    if group.unified {
        return Some(host.line_value(group.file("cpu.stat"), "usage_usec")? as f64 / 1e6);
    }
    let counting = groups::find(host, subject, CPU_TIME).ok()?;
    Some(host.value::<u64>(counting.file("cpuacct.usage"))? as f64 / 1e9)
}
