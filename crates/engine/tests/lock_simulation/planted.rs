//! Schedulers and hosts with bugs, to see whether the simulation sees them.

use std::borrow::Cow;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use plimsoll_engine::lock::head::Answer;
use plimsoll_engine::lock::{Mode, RequestError, State};
use plimsoll_policy::{
    Batch, Blockers, Contender, CpuScheduler, CpuVerdict, Facts, LockScheduler, Priority, Rank, Requester, Stance,
    Verdict, cpu_scheduler, lock_scheduler,
};

use super::lock_host::{Host, Outcome, Table, Thing, Who};

/// A scheduler that is like another but for a bug.
#[derive(Debug)]
pub struct Planted {
    like: Arc<dyn LockScheduler>,
    rank: Option<fn(&Requester) -> Rank>,
    blockers: Option<Blockers>,
    verdict: Option<fn(&Requester, &Stance) -> Verdict>,
    /// Changes the facts before the other chooses.
    facts: Option<fn(&mut Contender)>,
}

impl Planted {
    fn like(name: &str) -> Self {
        Planted { like: lock_scheduler(name).expect("listed"), rank: None, blockers: None, verdict: None, facts: None }
    }

    fn rank(like: &str, rank: fn(&Requester) -> Rank) -> Self {
        Planted { rank: Some(rank), ..Planted::like(like) }
    }

    fn blockers(like: &str, blockers: Blockers) -> Self {
        Planted { blockers: Some(blockers), ..Planted::like(like) }
    }

    fn facts(like: &str, facts: fn(&mut Contender)) -> Self {
        Planted { facts: Some(facts), ..Planted::like(like) }
    }

    fn verdict(like: &str, verdict: fn(&Requester, &Stance) -> Verdict) -> Self {
        Planted { verdict: Some(verdict), ..Planted::like(like) }
    }
}

impl LockScheduler for Planted {
    fn name(&self) -> Cow<'static, str> {
        self.like.name()
    }

    fn rank(&self, requester: &Requester) -> Rank {
        self.rank.map_or_else(|| self.like.rank(requester), |rank| rank(requester))
    }

    fn blockers(&self) -> Blockers {
        self.blockers.unwrap_or_else(|| self.like.blockers())
    }

    fn facts(&self) -> Facts {
        self.like.facts()
    }

    fn choose(&self, contenders: &[Contender]) -> Batch {
        let mut contenders = contenders.to_vec();
        contenders.iter_mut().for_each(|contender| self.facts.into_iter().for_each(|change| change(contender)));
        self.like.choose(&contenders)
    }

    fn verdict(&self, requester: &Requester, holder: &Stance) -> Verdict {
        self.verdict.map_or_else(|| self.like.verdict(requester, holder), |verdict| verdict(requester, holder))
    }
}

/// Every scheduler with a bug, and what the bug is.
pub fn planted_schedulers() -> impl Iterator<Item = (&'static str, Arc<dyn LockScheduler>)> {
    let planted = planted_ranks().into_iter().chain(planted_choices()).chain(planted_verdicts());
    planted.map(|(bug, scheduler)| (bug, Arc::new(scheduler) as _))
}

fn planted_ranks() -> Vec<(&'static str, Planted)> {
    vec![
        ("low before high", Planted::rank("nprio", |requester| Rank(requester.priority.level()))),
        ("no order by priority", Planted::rank("pow", |_| Rank(0))),
        ("an order by priority where there is none", Planted::rank("standard", |r| Rank::by_priority(r.priority))),
        (
            "last come, first served",
            Planted::rank("standard", |_| {
                static TURN: AtomicU8 = AtomicU8::new(u8::MAX);
                Rank(TURN.fetch_sub(1, Ordering::Relaxed))
            }),
        ),
        (
            "whoever was rolled back goes first",
            Planted::rank("nprio", |r| match r.rollbacks {
                0 => Rank::by_priority(r.priority),
                _ => Rank(0),
            }),
        ),
    ]
}

fn planted_choices() -> Vec<(&'static str, Planted)> {
    vec![
        ("the youngest first", Planted::facts("vats", |contender| contender.began = u64::MAX - contender.began)),
        ("no dependents", Planted::facts("ldsf", |contender| contender.dependents.truncate(1))),
        ("readers do not share", Planted::facts("ldsf", |contender| contender.group = None)),
        ("more dependents than there are", Planted::facts("bldsf", |c| c.dependents.push(100 + c.began as u32))),
    ]
}

fn planted_verdicts() -> Vec<(&'static str, Planted)> {
    vec![
        (
            "a rollback under a scheduler that has none",
            Planted::verdict("nprio-inherit", |r, h| {
                if h.priority < r.priority && h.waiting { Verdict::Preempt } else { Verdict::Inherit }
            }),
        ),
        (
            "equals are rolled back",
            Planted::verdict("pabort", |r, h| if h.priority <= r.priority { Verdict::Preempt } else { Verdict::Wait }),
        ),
        (
            "only the highest level counts",
            Planted::verdict("pabort", |r, h| {
                if h.priority < Priority::HIGH && r.priority >= Priority::HIGH {
                    Verdict::Preempt
                } else {
                    Verdict::Wait
                }
            }),
        ),
        (
            "runners are rolled back",
            Planted::verdict("pow", |r, h| if h.priority < r.priority { Verdict::Preempt } else { Verdict::Wait }),
        ),
        (
            "rolled back only for whom it never happened to",
            Planted::verdict("pow", |r, h| {
                if h.priority < r.priority && h.waiting && r.rollbacks == 0 { Verdict::Preempt } else { Verdict::Wait }
            }),
        ),
        (
            "waiters do not inherit",
            Planted::verdict("nprio-inherit", |r, h| {
                if h.priority < r.priority && !h.waiting { Verdict::Inherit } else { Verdict::Wait }
            }),
        ),
        (
            "the reprieve is too short",
            Planted::verdict("cr(300ms)", |r, h| {
                let short = Verdict::PreemptAfter(Duration::from_millis(299));
                if h.priority < r.priority { short } else { Verdict::Wait }
            }),
        ),
        (
            "the reprieve is too long",
            Planted::verdict("cr(300ms)", |r, h| {
                let long = Verdict::PreemptAfter(Duration::from_millis(301));
                if h.priority < r.priority { long } else { Verdict::Wait }
            }),
        ),
        (
            "chains grow below high",
            Planted::verdict(
                "wdl",
                |r, _| {
                    if r.priority > Priority::LOW { Verdict::PreemptIfWaiting } else { Verdict::Wait }
                },
            ),
        ),
        ("chains grow in queues", Planted::blockers("wdl", Blockers::Holders)),
        ("whoever is ahead in a queue is rolled back", Planted::blockers("wdl-holders", Blockers::HoldersAndQueue)),
    ]
}

/// CPU schedulers with a bug, and what the bug is.
pub static PLANTED_CPU_SCHEDULERS: [(&str, &dyn CpuScheduler); 2] = [
    (
        "equals are rolled back",
        &PlantedCpu {
            like: "p-cpu",
            verdict: |r, h| if h.priority <= r.priority { CpuVerdict::Preempt } else { CpuVerdict::Wait },
        },
    ),
    (
        "waiters do not inherit",
        &PlantedCpu {
            like: "cpu-prio-inherit",
            verdict: |r, h| if h.priority < r.priority && !h.waiting { CpuVerdict::Inherit } else { CpuVerdict::Wait },
        },
    ),
];

#[derive(Debug)]
struct PlantedCpu {
    like: &'static str,
    verdict: fn(&Requester, &Stance) -> CpuVerdict,
}

impl CpuScheduler for PlantedCpu {
    fn name(&self) -> &'static str {
        self.like
    }

    fn about(&self) -> &'static str {
        "has a bug"
    }

    fn nice(&self, priority: Priority) -> i32 {
        cpu_scheduler(self.like).expect("listed").nice(priority)
    }

    fn verdict(&self, requester: &Requester, holder: &Stance) -> CpuVerdict {
        (self.verdict)(requester, holder)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    LosesWakeUp,
    GrantsWhatMustWait,
    ForgetsRelease,
    ForgetsMerges,
    ForgetsReprieves,
    HidesPreemption,
    CommitsVictims,
    ForgetsRollbacks,
}

impl Fault {
    /// Each with a scheduler under which it shows.
    pub const ALL: [(Fault, &str); 8] = [
        (Fault::LosesWakeUp, "nprio"),
        (Fault::GrantsWhatMustWait, "standard"),
        (Fault::ForgetsRelease, "standard"),
        (Fault::ForgetsMerges, "standard"),
        (Fault::ForgetsReprieves, "cr(300ms)"),
        (Fault::HidesPreemption, "pabort"),
        (Fault::CommitsVictims, "pabort"),
        (Fault::ForgetsRollbacks, "wdl"),
    ];
}

/// The lock table behind a layer that makes a mistake once in a while.
pub struct FaultyHost {
    pub table: Table,
    pub fault: Fault,
    /// Counts chances; the mistake is made at every fifth.
    chances: Cell<u32>,
}

impl FaultyHost {
    pub fn new(table: Table, fault: Fault) -> Self {
        FaultyHost { table, fault, chances: Cell::new(0) }
    }

    /// Whether the mistake is to be made now.
    fn errs(&self, fault: Fault) -> bool {
        if self.fault != fault {
            return false;
        }
        self.chances.set(self.chances.get() + 1);
        self.chances.get().is_multiple_of(5)
    }
}

impl Host for FaultyHost {
    fn begin(&self, who: Who, own: Priority, rollbacks: u32) {
        let rollbacks = if rollbacks > 0 && self.errs(Fault::ForgetsRollbacks) { 0 } else { rollbacks };
        self.table.begin(who, own, rollbacks);
    }

    fn ask(&self, who: Who, thing: Thing, mode: Mode) -> Outcome {
        let answer = self.table.ask(who, thing, mode);
        match answer {
            Ok(Answer::Wait) if self.errs(Fault::GrantsWhatMustWait) => Ok(Answer::Granted),
            _ => answer,
        }
    }

    fn outcome(&self, who: Who) -> Option<Outcome> {
        self.table.outcome(who).filter(|outcome| outcome.is_err() || !self.errs(Fault::LosesWakeUp))
    }

    fn deadline(&self, who: Who) -> Option<Duration> {
        self.table.deadline(who).filter(|_| self.fault != Fault::ForgetsReprieves)
    }

    fn expire(&self, who: Who) {
        self.table.expire(who);
    }

    fn commit_point(&self, who: Who) -> Result<(), RequestError> {
        let answer = self.table.commit_point(who);
        if answer.is_err() && self.errs(Fault::CommitsVictims) { Ok(()) } else { answer }
    }

    fn roll_back(&self, who: Who) {
        self.table.roll_back(who);
    }

    fn release(&self, who: Who, thing: Thing) {
        if !self.errs(Fault::ForgetsRelease) {
            self.table.release(who, thing);
        }
    }

    fn give_up_intention(&self, who: Who, gap: Thing) -> bool {
        self.table.give_up_intention(who, gap)
    }

    fn merge(&self, gap: Thing, into: Thing) {
        if !self.errs(Fault::ForgetsMerges) {
            self.table.merge(gap, into);
        }
    }

    fn end(&self, who: Who) {
        self.table.end(who);
    }

    fn state(&self, who: Who) -> State {
        match self.table.state(who) {
            State::Doomed(RequestError::Preempted) if self.errs(Fault::HidesPreemption) => State::Running,
            state => state,
        }
    }

    fn priority(&self, who: Who) -> Priority {
        self.table.priority(who)
    }

    fn nice(&self, who: Who) -> i32 {
        self.table.nice(who)
    }

    fn set_time(&self, now: Duration) {
        self.table.set_time(now);
    }

    fn thing_count(&self) -> usize {
        self.table.thing_count()
    }
}
