//! Lock waiting and preemption (MW 3.7): over requests that ended, completed or given up, with all of their attempts.

use super::{Figure, FigureSource, FigureSubject, FigureValue, Merge, Reading, Times, Unit, by, known};
use crate::results::{LockStatistics, MeanLength, share_of};

pub(super) const FIGURES: &[Figure] = &[
    row("locks.waits_per_request", Unit::PerRequest, "waits", "lock requests that had to wait", |of| {
        let locks = locks(of)?;
        known(locks.per_request(locks.waits()), NOTHING_ENDED)
    }),
    row(
        "locks.queue_time_us.mean",
        Unit::Microseconds,
        "queue_time",
        "mean QueueTime of a lock request that had to wait",
        |of| known(locks(of)?.queue_time_us.mean, NOBODY_WAITED),
    ),
    row(
        "locks.queue_time_if_preempted.mean_us",
        Unit::Microseconds,
        "queue_time_preempted",
        "mean QueueTime of a lock request for which a holder of the lock was preempted",
        |of| {
            known(locks(of)?.queue_time_if_preempted.mean_us, "no holder was preempted for a lock request that waited")
        },
    ),
    row(
        "locks.queue_time_if_completed.mean_us",
        Unit::Microseconds,
        "queue_time_completed",
        "mean QueueTime of the other lock requests that had to wait",
        |of| known(locks(of)?.queue_time_if_completed.mean_us, "no lock request waited for a holder that completed"),
    ),
    row(
        "locks.wait_excess_us.mean",
        Unit::Microseconds,
        "wait_excess",
        "mean WaitExcess: time spent on holders",
        |of| known(locks(of)?.wait_excess_us.mean, NOBODY_WAITED),
    ),
    row(
        "locks.wait_remainder_us.mean",
        Unit::Microseconds,
        "wait_remainder",
        "mean WaitRemainder: time spent on others in the queue",
        |of| known(locks(of)?.wait_remainder_us.mean, NOBODY_WAITED),
    ),
    row("locks.queue_time_share", Unit::Share, "queue_share", "QueueTime as a part of response time", |of| {
        known(locks(of)?.queue_time_share, NOTHING_ENDED)
    }),
    of_times(
        "locks.requests_by_waits",
        Unit::Share,
        "waited",
        "part of requests that waited for that many locks",
        |of, times| share(&locks(of)?.requests_by_waits, times),
    ),
    of_times(
        "locks.response_by_waits",
        Unit::Microseconds,
        "mean_waited",
        "mean latency of completed requests that waited for that many locks",
        |of, times| {
            let why = || format!("no request completed that waited {times} times");
            response(locks(of)?, times).mean_us.ok_or_else(why)
        },
    ),
    row(
        "locks.preemptions_per_request",
        Unit::PerRequest,
        "preemptions",
        "attempts rolled back for another transaction",
        |of| {
            let locks = locks(of)?;
            known(locks.per_request(locks.preemptions()), NOTHING_ENDED)
        },
    ),
    of_times(
        "locks.requests_by_preemptions",
        Unit::Share,
        "preempted",
        "part of requests that were preempted that many times",
        |of, times| share(&locks(of)?.requests_by_preemptions, times),
    ),
    row(
        "locks.work_lost_us.mean",
        Unit::Microseconds,
        "age_lost",
        "mean age of an attempt when it was preempted",
        |of| known(locks(of)?.work_lost_us.mean, "no attempt was preempted"),
    ),
    row(
        "locks.rollbacks_per_request",
        Unit::PerRequest,
        "rollbacks",
        "attempts rolled back as a deadlock's victim, for another transaction or after a conflict",
        |of| {
            let locks = locks(of)?;
            known(locks.per_request(locks.rollbacks), NOTHING_ENDED)
        },
    ),
    row("locks.rollback_us.mean", Unit::Microseconds, "rollback_time", "mean time that such a rollback took", |of| {
        let locks = locks(of)?;
        if locks.rollbacks == 0 {
            return Err("no attempt was rolled back for another or as a deadlock's victim".to_owned());
        }
        known(locks.mean_rollback_us(), "this target cannot tell how long rollbacks take")
    }),
    row(
        "locks.work_lost_share",
        Unit::Ratio,
        "work_lost",
        "mean age of an attempt when it was preempted, over the mean length of attempts that got through",
        |of| {
            let locks = locks(of)?;
            let why = if locks.preemptions() > 0 { "no request completed" } else { "no attempt was preempted" };
            known(locks.work_lost_share, why)
        },
    ),
];

const NOTHING_ENDED: &str = "no request ended";

const NOBODY_WAITED: &str = "no lock request had to wait";

const fn row(
    key: &'static str,
    unit: Unit,
    claim: &'static str,
    meaning: &'static str,
    read: fn(&Reading<'_>) -> FigureValue,
) -> Figure {
    Figure {
        key,
        unit,
        meaning,
        merge: Merge::Together,
        of: FigureSubject::Class,
        claim: by(claim),
        read: FigureSource::Plain(read),
    }
}

const fn of_times(
    key: &'static str,
    unit: Unit,
    claim: &'static str,
    meaning: &'static str,
    read: fn(&Reading<'_>, Times) -> FigureValue,
) -> Figure {
    Figure {
        key,
        unit,
        meaning,
        merge: Merge::Together,
        of: FigureSubject::Class,
        claim: by(claim),
        read: FigureSource::OfTimes(read),
    }
}

/// Lock statistics of requests that ended; an error if none did.
fn locks<'a>(of: &Reading<'a>) -> Result<&'a LockStatistics, String> {
    let locks = of.part.locks.as_ref().ok_or("this target cannot tell lock waits apart")?;
    if locks.requests == 0 { Err(NOTHING_ENDED.to_owned()) } else { Ok(locks) }
}

fn share(requests: &[u64], times: Times) -> FigureValue {
    known(share_of(requests, times.from, times.to), NOTHING_ENDED)
}

/// The response times of completed requests that waited this often, for the numbers of times that have response times.
fn response(locks: &LockStatistics, times: Times) -> MeanLength {
    let kept = &locks.response_by_waits;
    let groups = [kept.none, kept.one, kept.two, kept.more];
    let end = times.to.map_or(groups.len(), |to| to + 1);
    MeanLength::merged(groups.into_iter().take(end).skip(times.from))
}
