//! `nice`: the scheduler's preference for or against every thread of the subject.

use std::time::Duration;

use super::threads::{Thread, bring_all, living, started, threads, ticks_now};
use super::{Amount, Control, ControlContext, ControlError, Observation, Subject, Undo, Verdict, amount};
use crate::availability::Availability;
use crate::host::Host;

/// See the module.
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
        let possible = self.probe(host);
        if !possible.available {
            return Err(ControlError::unavailable(KEY, possible.reason, possible.remedy.as_deref()));
        }
        let processes = living(host, &context.subject.processes);
        if processes.is_empty() {
            return Err(ControlError::unavailable(KEY, "none of the processes to limit is running", None));
        }
        let since = ticks_now(host);
        bring_all(host, &processes, |process, thread| {
            if thread.nice == nice {
                return Ok(false);
            }
            context.undo.note(Undo::Nice {
                thread: thread.id,
                started: thread.started,
                nice: thread.nice,
                since: since.filter(|_| thread.id == process),
            })?;
            match host.set_nice(thread.id, nice) {
                Err(error) if started(host, thread.id).is_some() => {
                    Err(ControlError::refused("set the nice value of", format!("thread {}", thread.id), error))
                }
                _ => Ok(true),
            }
        })
    }

    fn verify(
        &self,
        host: &Host,
        subject: &Subject,
        amount: &Amount,
        _earlier: &Observation,
        _window: Duration,
    ) -> Verdict {
        let nice = match nice(amount) {
            Ok(nice) => nice,
            Err(error) => return Verdict::unknown(error.to_string()),
        };
        let threads: Vec<Thread> =
            living(host, &subject.processes).iter().flat_map(|process| threads(host, *process)).collect();
        let other = threads.iter().filter(|thread| thread.nice != nice).count();
        match (threads.last(), other) {
            (None, _) => Verdict::unknown("none of the processes to limit is running"),
            (Some(_), 0) => Verdict::held(Amount::Number(nice.into())),
            (Some(thread), _) => Verdict::escaped(
                Amount::Number(thread.nice.into()),
                format!("{other} of {} threads have another nice value", threads.len()),
            ),
        }
    }
}

fn nice(amount: &Amount) -> Result<i32, ControlError> {
    Ok(amount::whole(KEY, amount, -20.0, 19.0, "of niceness")? as i32)
}
