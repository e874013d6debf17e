//! `nice`: the scheduler's preference for or against every thread of the subject.

use super::threads::{Thread, bring_all, living, threads};
use super::{Amount, Control, ControlContext, ControlError, Undo, Unknown, Verdict, Window, amount};
use crate::availability::Availability;
use crate::host::Host;

#[derive(Debug)]
pub(super) struct Nice;

const KEY: &str = "nice";
/// `CAP_SYS_NICE`, by its bit in `/proc/PID/status`.
const CAPABILITY: u32 = 23;

impl Control for Nice {
    fn key(&self) -> &'static str {
        KEY
    }

    fn unit(&self) -> &'static str {
        "-20 (first) to 19 (last)"
    }

    fn meaning(&self) -> &'static str {
        "nice value of every thread: a step is about a quarter more or less CPU time where threads compete"
    }

    fn probe(&self, host: &Host) -> Availability {
        let status = host.text("/proc/self/status").unwrap_or_default();
        let capabilities = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
        match capabilities.and_then(|text| u64::from_str_radix(text.trim(), 16).ok()) {
            Some(bits) if bits >> CAPABILITY & 1 == 1 => Availability::yes("setpriority for every thread"),
            // Anyone may make a thread nicer, but not put it back.
            _ => Availability::no("nice values could be raised but not put back", Some("run as root (CAP_SYS_NICE)")),
        }
    }

    fn check(&self, _host: &Host, amount: &Amount) -> Result<(), ControlError> {
        nice(amount).map(drop)
    }

    fn apply(&self, context: &mut ControlContext<'_>, amount: &Amount) -> Result<(), ControlError> {
        let nice = nice(amount)?;
        let host = context.host;
        self.probe(host).required().map_err(|no| no.error(KEY))?;
        let undo = |thread: &Thread, since| {
            (thread.nice != nice).then_some(Undo::Nice {
                thread: thread.id,
                started: thread.started,
                nice: thread.nice,
                since,
            })
        };
        bring_all(context, KEY, "nice value", undo, |thread| host.set_nice(thread, nice))
    }

    fn verify(&self, window: &Window<'_>) -> Result<Verdict, Unknown> {
        let host = window.host;
        let nice = nice(window.amount)?;
        let processes = living(host, &window.subject.processes);
        let threads: Vec<Thread> = processes.iter().flat_map(|process| threads(host, *process)).collect();
        let last = threads.last().ok_or("none of the processes to limit is running")?;
        let other = threads.iter().filter(|thread| thread.nice != nice).count();
        if other == 0 {
            return Ok(Verdict::held(Amount::Number(nice.into())));
        }
        let reason = format!("{other} of {} threads have another nice value", threads.len());
        Ok(Verdict::escaped(Amount::Number(last.nice.into()), reason))
    }
}

fn nice(amount: &Amount) -> Result<i32, ControlError> {
    Ok(amount::whole(KEY, amount, -20.0, 19.0, "of niceness")? as i32)
}
