//! `cpu_weight`: the subject's share of the cores when other processes compete for them.

use std::time::Duration;

use super::group::{self, CPU};
use super::{Amount, Control, ControlError, Observation, Place, Subject, Verdict, amount};
use crate::availability::Availability;
use crate::host::Host;

/// See the module.
#[derive(Debug)]
pub(super) struct CpuWeight;

const KEY: &str = "cpu_weight";
/// What a group has that was given no weight: in version 2, and in the shares of version 1.
const DEFAULT_WEIGHT: f64 = 100.0;
const DEFAULT_SHARES: f64 = 1024.0;

impl Control for CpuWeight {
    fn key(&self) -> &'static str {
        KEY
    }

    fn unit(&self) -> &'static str {
        "relative, 100 as given to all"
    }

    fn meaning(&self) -> &'static str {
        "weight in sharing cores with other groups while there are not enough for all"
    }

    fn probe(&self, host: &Host) -> Availability {
        group::probe(host, CPU)
    }

    fn check(&self, _host: &Host, amount: &Amount) -> Result<(), ControlError> {
        weight(amount).map(drop)
    }

    fn apply(&self, place: &mut Place<'_>, amount: &Amount) -> Result<(), ControlError> {
        let weight = weight(amount)?;
        let group = group::join(place, KEY, CPU)?;
        let (file, text, free) = match group.unified {
            true => ("cpu.weight", weight.to_string(), DEFAULT_WEIGHT.to_string()),
            false => ("cpu.shares", shares(weight).to_string(), DEFAULT_SHARES.to_string()),
        };
        group.set(place, KEY, file, &text, &free)
    }

    /// A weight shows only against others who want the same cores, so that all there is to see is that it is in force.
    fn verify(
        &self,
        host: &Host,
        subject: &Subject,
        amount: &Amount,
        _earlier: &Observation,
        _window: Duration,
    ) -> Verdict {
        let (group, weight) = match (group::find(host, subject, CPU), weight(amount)) {
            (Ok(group), Ok(weight)) => (group, weight),
            (Err(reason), _) => return Verdict::unknown(reason),
            (_, Err(error)) => return Verdict::unknown(error.to_string()),
        };
        let (file, wanted) = match group.unified {
            true => ("cpu.weight", weight),
            false => ("cpu.shares", shares(weight)),
        };
        match host.value::<i64>(group.file(file)) {
            Some(found) if found == wanted => Verdict::held(Amount::Number(weight as f64)),
            found => Verdict::unknown(format!("{} holds {found:?}, not {wanted}", group.file(file))),
        }
    }
}

/// The range is that of version 2 (kernel Documentation/admin-guide/cgroup-v2.rst, `cpu.weight`).
fn weight(amount: &Amount) -> Result<i64, ControlError> {
    amount::whole(KEY, amount, 1.0, 10_000.0, "of weight")
}

fn shares(weight: i64) -> i64 {
    // The kernel takes 2 for less.
    ((weight as f64 * DEFAULT_SHARES / DEFAULT_WEIGHT).round() as i64).max(2)
}
