//! How the requests of a class waited for locks, and what was rolled back (MW 3.7).

use plimsoll_display::{Figure, duration_us, percent};

use crate::results::{LockStatistics, share_of};

type Of = Figure<LockStatistics>;

const WAITS: &Of = &Of {
    short: "waits",
    long: "Waits per request",
    width: 9,
    tell: |locks| locks.per_request(locks.waits()).map(|waits| format!("{waits:.2}")),
};
const QUEUE_TIME: &Of = &Of {
    short: "queue time",
    long: "QueueTime, mean",
    width: 12,
    tell: |locks| locks.queue_time_us.mean.map(duration_us),
};
const EXCESS: &Of = &Of {
    short: "excess",
    long: "WaitExcess, mean",
    width: 11,
    tell: |locks| locks.wait_excess_us.mean.map(duration_us),
};
const REMAINDER: &Of = &Of {
    short: "remainder",
    long: "WaitRemainder, mean",
    width: 11,
    tell: |locks| locks.wait_remainder_us.mean.map(duration_us),
};
const OF_TIME: &Of = &Of {
    short: "of time",
    long: "QueueTime of response",
    width: 10,
    tell: |locks| locks.queue_time_share.map(percent),
};
const PREEMPTED: &Of = &Of {
    short: "preempted",
    long: "Preempted, of requests",
    width: 12,
    tell: |locks| locks.per_request(locks.preemptions()).map(percent),
};

/// Those that fit a line of a terminal.
pub(crate) const IN_LINE: [&Of; 6] = [WAITS, QUEUE_TIME, EXCESS, REMAINDER, OF_TIME, PREEMPTED];

/// How often requests waited.
pub(crate) const HOW_OFTEN: [&Of; 10] = [
    &on_page("Requests", |locks| Some(plimsoll_display::count(locks.requests))),
    WAITS,
    &on_page("Never waited", |locks| waited(locks, 0, Some(0))),
    &on_page("Once", |locks| waited(locks, 1, Some(1))),
    &on_page("Twice", |locks| waited(locks, 2, Some(2))),
    &on_page("3 times or more", |locks| waited(locks, 3, None)),
    &on_page("Mean response of those that never waited", |locks| locks.response_by_waits.none.mean_us.map(duration_us)),
    &on_page("Once", |locks| locks.response_by_waits.one.mean_us.map(duration_us)),
    &on_page("Twice", |locks| locks.response_by_waits.two.mean_us.map(duration_us)),
    &on_page("3 times or more", |locks| locks.response_by_waits.more.mean_us.map(duration_us)),
];

/// How long lock requests waited.
pub(crate) const HOW_LONG: [&Of; 11] = [
    &on_page("Waits", |locks| Some(plimsoll_display::count(locks.waits()))),
    QUEUE_TIME,
    &on_page("p50", |locks| microseconds(locks.queue_time_us.p50)),
    &on_page("p95", |locks| microseconds(locks.queue_time_us.p95)),
    &on_page("p99", |locks| microseconds(locks.queue_time_us.p99)),
    &on_page("Longest", |locks| microseconds(locks.queue_time_us.max)),
    EXCESS,
    &on_page("p95", |locks| microseconds(locks.wait_excess_us.p95)),
    REMAINDER,
    &on_page("p95", |locks| microseconds(locks.wait_remainder_us.p95)),
    OF_TIME,
];

/// What was rolled back.
pub(crate) const LOST: [&Of; 10] = [
    PREEMPTED,
    &on_page("Never preempted", |locks| preempted(locks, 0, Some(0))),
    &on_page("Once", |locks| preempted(locks, 1, Some(1))),
    &on_page("Twice", |locks| preempted(locks, 2, Some(2))),
    &on_page("3 times or more", |locks| preempted(locks, 3, None)),
    &on_page("Rolled back", |locks| Some(plimsoll_display::count(locks.rollbacks))),
    &on_page("Taking back, mean", |locks| locks.mean_rollback_us().map(duration_us)),
    &on_page("Work lost, mean", |locks| locks.work_lost_us.mean.map(duration_us)),
    &on_page("p95", |locks| microseconds(locks.work_lost_us.p95)),
    &on_page("Of a life", |locks| locks.work_lost_share.map(percent)),
];

/// A figure that no terminal shows.
const fn on_page(long: &'static str, tell: fn(&LockStatistics) -> Option<String>) -> Of {
    Figure { short: "", long, width: 0, tell }
}

fn microseconds(us: Option<u64>) -> Option<String> {
    us.map(|us| duration_us(us as f64))
}

fn waited(locks: &LockStatistics, from: usize, to: Option<usize>) -> Option<String> {
    share_of(&locks.requests_by_waits, from, to).map(percent)
}

fn preempted(locks: &LockStatistics, from: usize, to: Option<usize>) -> Option<String> {
    share_of(&locks.requests_by_preemptions, from, to).map(percent)
}
