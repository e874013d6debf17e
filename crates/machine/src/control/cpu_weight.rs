//! `cpu_weight`: the subject's share of the cores when other processes compete for them.

use super::{Amount, Control, ControlContext, ControlError, Unknown, Verdict, Window, amount};
use crate::availability::Availability;
use crate::groups::{self, CPU};
use crate::host::Host;

#[derive(Debug)]
pub(super) struct CpuWeight;

const KEY: &str = "cpu_weight";
/// The weight of a group that was given none: in version 2, and in the shares of version 1.
const DEFAULT_WEIGHT: u32 = 100;
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
        groups::probe(host, CPU)
    }

    fn check(&self, _host: &Host, amount: &Amount) -> Result<(), ControlError> {
        weight(amount).map(drop)
    }

    fn apply(&self, context: &mut ControlContext<'_>, amount: &Amount) -> Result<(), ControlError> {
        let weight = weight(amount)?;
        let group = groups::join(context, KEY, CPU)?;
        let (file, text) = weight_in(group.unified, weight);
        let (_, free) = weight_in(group.unified, DEFAULT_WEIGHT);
        group.set(context, KEY, file, &text, &free)
    }

    /// A weight has an effect only when others compete for the same cores, so we verify only that it is in force.
    fn verify(&self, window: &Window<'_>) -> Result<Verdict, Unknown> {
        let group = groups::find(window.host, window.subject, CPU)?;
        let weight = weight(window.amount)?;
        let (file, wanted) = weight_in(group.unified, weight);
        match window.host.value::<i64>(group.file(file)) {
            Some(found) if found.to_string() == wanted => Ok(Verdict::held(Amount::Number(f64::from(weight)))),
            found => Err(format!("{} holds {found:?}, not {wanted}", group.file(file)).into()),
        }
    }
}

/// The range is that of version 2 (kernel Documentation/admin-guide/cgroup-v2.rst, `cpu.weight`).
fn weight(amount: &Amount) -> Result<u32, ControlError> {
    amount::whole(KEY, amount, 1.0, 10_000.0, "of weight").map(|weight| weight as u32)
}

/// The file that holds a group's weight, and its content for a weight whose default is 100.
pub(crate) fn weight_in(unified: bool, weight: u32) -> (&'static str, String) {
    if unified {
        return ("cpu.weight", weight.to_string());
    }
    // The kernel rounds smaller values up to 2.
    let shares = f64::from(weight) * DEFAULT_SHARES / f64::from(DEFAULT_WEIGHT);
    ("cpu.shares", (shares.round() as u32).max(2).to_string())
}
