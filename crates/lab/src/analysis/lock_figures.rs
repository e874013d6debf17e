//! The figures of lock waiting that claims are about, of statistics that have been put together (MW 3.7).

use crate::claim::{LockFigure, Times};
use crate::results::{LockStatistics, MeanLength, share_of};

/// A figure of lock statistics; an error is why there is none.
pub(super) fn figure(locks: &LockStatistics, figure: LockFigure) -> Result<f64, String> {
    let (found, why) = match figure {
        LockFigure::QueueTime => (locks.queue_time_us.mean, "no lock request had to wait"),
        LockFigure::WaitExcess => (locks.wait_excess_us.mean, "no lock request had to wait"),
        LockFigure::WaitRemainder => (locks.wait_remainder_us.mean, "no lock request had to wait"),
        LockFigure::Waits => (locks.per_request(locks.waits()), "no request ended"),
        LockFigure::QueueShare => (locks.queue_time_share, "no request ended"),
        LockFigure::Waited(times) => (share(&locks.requests_by_waits, times), "no request ended"),
        LockFigure::MeanWaited(times) => {
            let why = format!("no request completed that waited {times} times");
            return response(locks, times).mean_us.ok_or(why);
        }
        LockFigure::Preemptions => (locks.per_request(locks.preemptions()), "no request ended"),
        LockFigure::Preempted(times) => (share(&locks.requests_by_preemptions, times), "no request ended"),
        LockFigure::Rollbacks => (locks.per_request(locks.rollbacks), "no request ended"),
        LockFigure::RollbackTime if locks.rollbacks > 0 => {
            (locks.mean_rollback_us(), "this target cannot tell how long rollbacks take")
        }
        LockFigure::RollbackTime => (None, "no attempt was rolled back for another or as a deadlock's victim"),
        LockFigure::WorkLost if locks.preemptions() > 0 => (locks.work_lost_share, "no request completed"),
        LockFigure::WorkLost => (None, "no attempt was preempted"),
    };
    found.ok_or_else(|| why.to_owned())
}

fn share(requests: &[u64], times: Times) -> Option<f64> {
    share_of(requests, times.from, times.to)
}

/// The response times of completed requests that waited so often, which is a number of times that they are kept of.
fn response(locks: &LockStatistics, times: Times) -> MeanLength {
    let kept = &locks.response_by_waits;
    let groups = [kept.none, kept.one, kept.two, kept.more];
    let end = times.to.map_or(groups.len(), |to| to + 1);
    MeanLength::merged(groups.into_iter().take(end).skip(times.from))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Lengths, ResponseByWaits};

    fn lengths(count: u64, mean: f64) -> Lengths {
        Lengths { count, mean: (count > 0).then_some(mean), ..Lengths::default() }
    }

    /// Ten requests, half of which waited, once or twice; one of them was preempted twice.
    fn locks() -> LockStatistics {
        LockStatistics {
            requests: 10,
            requests_by_waits: vec![5, 3, 2],
            requests_by_preemptions: vec![9, 0, 1],
            response_by_waits: ResponseByWaits {
                none: MeanLength::of(5, 500.0),
                one: MeanLength::of(3, 1_800.0),
                two: MeanLength::of(2, 3_400.0),
                more: MeanLength::default(),
            },
            response_s: 0.0057,
            queue_time_us: lengths(7, 400.0),
            wait_excess_us: lengths(7, 300.0),
            wait_remainder_us: lengths(7, 100.0),
            rollbacks: 3,
            rollback_s: Some(0.0006),
            work_lost_us: lengths(2, 270.0),
            successful_attempts: MeanLength::of(10, 3_000.0),
            ..LockStatistics::default()
        }
        .with_shares()
    }

    #[test]
    fn figures_are_of_all_requests() {
        let check = |asked, expect: f64| {
            let found = figure(&locks(), asked).expect("measured");
            assert!((found - expect).abs() < 1e-9, "{asked:?}: {found}");
        };
        let times = |from, to| Times { from, to };
        check(LockFigure::QueueTime, 400.0);
        check(LockFigure::WaitExcess, 300.0);
        check(LockFigure::WaitRemainder, 100.0);
        check(LockFigure::Waits, 0.7);
        check(LockFigure::QueueShare, 2_800.0 / 5_700.0);
        check(LockFigure::Waited(times(1, Some(1))), 0.3);
        check(LockFigure::Waited(times(1, None)), 0.5);
        check(LockFigure::Waited(times(3, None)), 0.0);
        check(LockFigure::Waited(times(9, Some(9))), 0.0);
        check(LockFigure::MeanWaited(times(0, Some(0))), 100.0);
        check(LockFigure::MeanWaited(times(1, Some(1))), 600.0);
        check(LockFigure::MeanWaited(times(1, None)), 1_040.0);
        check(LockFigure::MeanWaited(times(2, None)), 1_700.0);
        check(LockFigure::Preemptions, 0.2);
        check(LockFigure::Preempted(times(1, None)), 0.1);
        check(LockFigure::Rollbacks, 0.3);
        check(LockFigure::RollbackTime, 200.0);
        check(LockFigure::WorkLost, 0.9);
    }

    #[test]
    fn what_did_not_happen_has_no_length() {
        let check = |locks: &LockStatistics, asked, expect: Result<f64, &str>| {
            assert_eq!(figure(locks, asked), expect.map_err(str::to_owned), "{asked:?}");
        };
        let calm = LockStatistics { requests: 4, requests_by_waits: vec![4], ..LockStatistics::default() };
        check(&calm, LockFigure::Waits, Ok(0.0));
        check(&calm, LockFigure::Preemptions, Ok(0.0));
        check(&calm, LockFigure::QueueTime, Err("no lock request had to wait"));
        check(&calm, LockFigure::WorkLost, Err("no attempt was preempted"));
        let once = Times { from: 1, to: Some(1) };
        check(&calm, LockFigure::MeanWaited(once), Err("no request completed that waited 1 times"));
        check(&calm, LockFigure::RollbackTime, Err("no attempt was rolled back for another or as a deadlock's victim"));
        let mute = LockStatistics { rollback_s: None, ..locks() };
        check(&mute, LockFigure::RollbackTime, Err("this target cannot tell how long rollbacks take"));
    }
}
