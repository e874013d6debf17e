//! Schedules of the whole table as text, on a clock that stands still: who asks, who waits, who is rolled back for whom.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use plimsoll_policy::{Priority, StarvationBound, cpu_scheduler, lock_scheduler};

use super::head::Answer;
use super::*;
use crate::clock::{Clock, MonotonicClock};
use crate::cpu_priority::CpuPriority;

/// A clock that goes when it is told to.
#[derive(Debug, Default)]
struct StoppedClock(Mutex<Duration>);

impl Clock for StoppedClock {
    fn now(&self) -> Duration {
        *self.0.lock()
    }
}

fn options(scheduler: &str) -> LockOptions {
    LockOptions::new(lock_scheduler(scheduler).expect("listed"), Arc::new(MonotonicClock::default()))
}

/// A transaction of a schedule.
struct Actor {
    member: Arc<Member>,
    held: Vec<LockName>,
    asked: Option<LockName>,
    is_doomed: bool,
}

struct Stage {
    locks: LockTable,
    clock: Arc<StoppedClock>,
    actors: BTreeMap<String, Actor>,
}

/// Runs a schedule, a line a step; after `=` the answer and what else happens by it, in order of name. `L` begins low, `H`
/// high, `T` at the level above, `P` low and rolled back five times before. Steps: `L1 a X` asks for a name, `L1 commits`,
/// `L1 ends` (is rolled back), `+20ms` lets time pass.
fn check(scheduler: &str, schedule: &str) -> LockStatistics {
    let clock = Arc::new(StoppedClock::default());
    let options = LockOptions { clock: Arc::clone(&clock) as Arc<dyn Clock>, ..options(scheduler) };
    perform_all(Stage { locks: LockTable::new(options), clock, actors: BTreeMap::new() }, schedule)
}

fn perform_all(mut stage: Stage, schedule: &str) -> LockStatistics {
    for line in schedule.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (step, expected) = line.split_once('=').expect("a step has an expectation");
        assert_eq!(stage.perform(step.trim()), expected.trim(), "at `{line}` of {schedule}");
    }
    stage.finish();
    stage.locks.statistics()
}

impl Stage {
    fn perform(&mut self, step: &str) -> String {
        if let Some(time) = step.strip_prefix('+') {
            let time = time.trim_end_matches("ms").parse().expect("milliseconds");
            self.pass(Duration::from_millis(time));
            return self.events();
        }
        let words: Vec<&str> = step.split_whitespace().collect();
        let actor = self.actors.entry(words[0].to_owned()).or_insert_with(|| begin(&self.locks, words[0]));
        let answer = match words[1..] {
            ["ends"] => {
                self.locks.roll_back(&actor.member);
                end(&self.locks, actor);
                self.actors.remove(words[0]);
                String::new()
            }
            ["commits"] => match self.locks.commit_point(&actor.member) {
                Ok(()) => {
                    end(&self.locks, actor);
                    self.actors.remove(words[0]);
                    "done".to_owned()
                }
                Err(error) => format!("{error:?}").to_lowercase(),
            },
            [name, mode] => ask(&self.locks, actor, name, mode),
            _ => panic!("a step is `who name mode`, `who commits` or `who ends`: {step}"),
        };
        [answer, self.events()].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
    }

    /// Lets time pass, with a stop whenever a reprieve is over.
    fn pass(&mut self, time: Duration) {
        let end = self.clock.now() + time;
        loop {
            let next = self.actors.values().filter_map(|actor| self.locks.deadline(&actor.member)).min();
            let Some(next) = next.filter(|next| *next <= end) else { break };
            *self.clock.0.lock() = next;
            for actor in self.actors.values() {
                if self.locks.deadline(&actor.member) == Some(next) {
                    self.locks.expire(&actor.member);
                }
            }
        }
        *self.clock.0.lock() = end;
    }

    fn events(&mut self) -> String {
        let mut events = Vec::new();
        for (name, actor) in &mut self.actors {
            if let Some(decision) = self.locks.outcome(&actor.member) {
                let asked = actor.asked.take().expect("it waited");
                let event = match decision.outcome {
                    Ok(answer) => {
                        actor.held.extend((answer == Answer::Granted).then_some(asked));
                        format!("{answer:?}")
                    }
                    Err(error) => {
                        actor.is_doomed = true;
                        format!("{error:?}")
                    }
                };
                events.push(format!("{name} {}", event.to_lowercase()));
            }
            if matches!(actor.member.state(), State::Doomed(_)) && !actor.is_doomed {
                actor.is_doomed = true;
                events.push(format!("{name} doomed"));
            }
        }
        events.join(", ")
    }

    /// Rolls everybody back; nothing may be left.
    fn finish(&mut self) {
        for mut actor in std::mem::take(&mut self.actors).into_values() {
            self.locks.roll_back(&actor.member);
            end(&self.locks, &mut actor);
        }
        assert_eq!(self.locks.name_count(), 0, "locks are left");
    }
}

fn begin(locks: &LockTable, name: &str) -> Actor {
    let (priority, rollbacks) = match &name[..1] {
        "L" => (Priority::LOW, 0),
        "H" => (Priority::HIGH, 0),
        "T" => (Priority::of_level(2).expect("a level"), 0),
        "P" => (Priority::LOW, 5),
        other => panic!("no such priority: {other}"),
    };
    let member = locks.join();
    locks.begin(&member, priority, rollbacks);
    Actor { member, held: Vec::new(), asked: None, is_doomed: false }
}

fn ask(locks: &LockTable, actor: &mut Actor, name: &str, mode: &str) -> String {
    let mode = Mode::ALL.into_iter().find(|known| format!("{known:?}") == mode).expect("a mode");
    let name = LockName::row(0, u64::from(name.as_bytes()[0]));
    match locks.ask(&actor.member, name, mode) {
        Ok(answer) => {
            actor.held.extend((answer == Answer::Granted).then_some(name));
            actor.asked = (answer == Answer::Wait).then_some(name);
            format!("{answer:?}").to_lowercase()
        }
        Err(error) => {
            actor.is_doomed = true;
            format!("{error:?}").to_lowercase()
        }
    }
}

fn end(locks: &LockTable, actor: &mut Actor) {
    for name in actor.held.drain(..) {
        locks.release(&actor.member, name);
    }
    locks.release_inherited(&actor.member);
    locks.end(&actor.member);
    locks.leave(&actor.member);
}

#[test]
fn schedulers_without_verdicts_let_holders_finish() {
    for scheduler in ["standard", "nprio"] {
        let statistics = check(
            scheduler,
            "L1 a X = granted
             L2 b X = granted
             L1 b X = wait
             H1 a X = wait
             L2 commits = done, L1 granted
             L1 commits = done, H1 granted",
        );
        assert_eq!(statistics, LockStatistics::default());
    }
}

#[test]
fn pabort_rolls_a_running_holder_back_at_its_next_request() {
    let statistics = check(
        "pabort",
        "L1 a X = granted
         L1 b X = granted
         L2 b S = wait
         H1 a X = wait, L1 doomed
         L1 a S = preempted
         L1 b X = preempted
         L1 commits = preempted
         L1 ends = H1 granted, L2 granted",
    );
    assert_eq!((statistics.preempted, statistics.preempted_waiting), (1, 0));
}

#[test]
fn pabort_wakes_a_waiting_holder() {
    check(
        "pabort",
        "L1 a X = granted
         L2 b X = granted
         L1 b X = wait
         H1 a X = wait, L1 preempted
         L1 ends = H1 granted
         L2 commits = done",
    );
}

#[test]
fn nobody_is_rolled_back_after_its_commit_point() {
    let locks = LockTable::new(options("pabort"));
    let [low, high] = Priority::USUAL.map(|priority| {
        let member = locks.join();
        locks.begin(&member, priority, 0);
        member
    });
    let name = LockName::row(0, 0);
    assert_eq!(locks.ask(&low, name, Mode::X), Ok(Answer::Granted));
    assert_eq!(locks.commit_point(&low), Ok(()));
    assert_eq!(locks.ask(&high, name, Mode::X), Ok(Answer::Wait));
    assert_eq!((low.state(), locks.statistics().preempted), (State::Ending, 0));
    locks.release(&low, name);
    locks.end(&low);
    assert_eq!(locks.wait(&high).outcome, Ok(Answer::Granted));
}

#[test]
fn pow_waits_for_a_runner_and_rolls_it_back_when_it_waits() {
    let statistics = check(
        "pow",
        "L1 a X = granted
         L2 b X = granted
         H1 a X = wait
         L1 b X = wait, L1 preempted
         L1 ends = H1 granted
         L2 commits = done",
    );
    assert_eq!((statistics.preempted, statistics.preempted_waiting), (0, 1));
}

#[test]
fn pow_rolls_a_waiter_back_at_once_and_spares_who_never_waits() {
    check(
        "pow",
        "L1 a X = granted
         L2 b X = granted
         L1 b X = wait
         H1 a X = wait, L1 preempted
         L1 ends = H1 granted
         H2 b X = wait
         L2 c X = granted
         L2 commits = done, H2 granted",
    );
}

#[test]
fn pow_forgets_a_requester_that_has_gone() {
    let statistics = check(
        "pow",
        "L1 a X = granted
         L2 b X = granted
         H1 a X = wait
         H1 ends =
         L1 b X = wait
         L2 commits = done, L1 granted
         L3 a X = wait
         L4 c X = granted
         L1 c X = wait",
    );
    assert_eq!(statistics, LockStatistics::default());
}

#[test]
fn verdicts_are_asked_about_conversions_that_wait_ahead() {
    check(
        "pow",
        "L1 a IS = granted
         L2 a S = granted
         H1 a S = granted
         H2 a IX = wait
         L1 a IX = wait, L1 preempted
         H1 commits = done",
    );
    // The grant of L1 is not in the way of H1, but its conversion waits ahead.
    check(
        "pabort",
        "L1 a IS = granted
         L2 a S = granted
         L1 a IX = wait
         H1 a S = wait, H1 granted, L1 preempted
         L1 ends = ",
    );
}

#[test]
fn verdicts_are_asked_about_holders_that_come_to_be_in_the_way() {
    // L1 converts at once, past a waiter whom its intention to read did not disturb.
    check(
        "pabort",
        "L1 a IS = granted
         H1 a IX = granted
         H2 a SIX = wait
         L1 a IX = converted, L1 doomed",
    );
    // L1 is granted a mode that goes with what H1 holds; H2 has waited before it only for H1.
    check(
        "cr(300ms)",
        "H1 a S = granted
         L1 a IS = granted
         H2 a X = wait
         H1 commits = done
         +299ms =
         L1 b S = granted
         +1ms = L1 doomed",
    );
}

#[test]
fn conditional_restart_gives_each_holder_its_time() {
    let statistics = check(
        "cr(300ms)",
        "L1 a S = granted
         H1 a X = wait
         +100ms =
         L1 commits = done, H1 granted
         +300ms =
         H1 commits = done
         L2 a X = granted
         L3 b X = granted
         L2 b X = wait
         H2 a X = wait
         +299ms =
         +1ms = L2 preempted
         L2 ends = H2 granted",
    );
    assert_eq!((statistics.preempted, statistics.preempted_late), (0, 1));
}

#[test]
fn a_reprieve_is_for_one_transaction_and_one_requester() {
    check(
        "cr(300ms)",
        "L1 a X = granted
         H1 a X = wait
         +200ms =
         T1 a X = wait
         H1 ends =
         +100ms =
         +199ms =
         +1ms = L1 doomed",
    );
}

#[test]
fn wdl_leaves_no_waiter_that_is_waited_for() {
    let statistics = check(
        "wdl",
        "H1 a X = granted
         H2 b X = granted
         H1 b X = wait
         L1 a X = wait, H1 preempted
         H1 ends = L1 granted
         L2 a X = wait
         L1 b X = wait, L1 preempted",
    );
    assert_eq!(statistics.preempted_waiting, 2);
}

#[test]
fn inheritance_moves_a_holder_ahead_in_the_queue_in_which_it_waits_and_goes_on_from_there() {
    let statistics = check(
        "nprio-inherit",
        "L1 a X = granted
         L2 b X = granted
         L3 c X = granted
         L2 c X = wait
         L4 c X = wait
         H1 c S = wait
         L5 b X = wait
         L1 b X = wait
         T1 a X = wait
         L3 commits = done, L2 granted
         L2 commits = done, H1 granted, L1 granted
         L1 commits = done, L5 granted, T1 granted
         H1 commits = done, L4 granted",
    );
    // L3 of H1; then L1, L2 and L3 of T1.
    assert_eq!(statistics.inheritances, 4);
}

#[test]
fn who_waits_for_a_holder_that_waits_passes_its_priority_on_when_it_begins_to() {
    check(
        "nprio-inherit",
        "L1 a X = granted
         H1 a X = wait
         L2 b X = granted
         L3 b X = wait
         L1 b X = wait
         L2 commits = done, L1 granted
         L1 commits = done, H1 granted, L3 granted",
    );
}

/// L5 moves ahead of L4 and L3, and would for a moment wait for L1 in a circle: L1 waits for c of L3, which waits behind L5. But
/// L3 inherits, too, and came before L5. Cycles are looked for when all have the places that they are to have.
#[test]
fn nobody_is_rolled_back_for_a_cycle_that_inheritance_undoes() {
    let statistics = check(
        "nprio-inherit",
        "L1 b IS = granted
         L2 b IX = granted
         L3 c X = granted
         L4 b S = wait
         L3 b IX = wait
         L5 a X = granted
         L5 b X = wait
         L1 c X = wait
         H1 a X = wait, L3 granted",
    );
    assert_eq!((statistics.inheritances, statistics.deadlocks), (4, 0));
}

#[test]
fn a_promoted_transaction_is_nobodys_victim() {
    for scheduler in ["pabort", "pow", "wdl", "cr(1ms)"] {
        let statistics = check(
            scheduler,
            "P1 a X = granted
             P2 b X = granted
             P1 b X = wait
             +5ms =
             T1 a X = wait
             +5ms =",
        );
        assert_eq!(statistics.promotions, 2, "{scheduler}");
        assert_eq!(statistics.deadlocks + statistics.inheritances, 0, "{scheduler}");
    }
}

#[test]
fn the_starvation_bound_is_an_option() {
    let locks = LockTable::new(LockOptions { starvation_bound: StarvationBound::none(), ..options("pow") });
    let member = locks.join();
    locks.begin(&member, Priority::LOW, 1_000);
    assert_eq!(member.priority(), Priority::LOW);
}

#[test]
fn cpu_schedulers_decide_about_holders_too() {
    let clock = Arc::new(StoppedClock::default());
    let stage = |cpu: &str| {
        let cpu = CpuPriority::new(cpu_scheduler(cpu).expect("listed"));
        let locks = LockTable::new(LockOptions { cpu, ..options("standard") });
        Stage { locks, clock: Arc::clone(&clock), actors: BTreeMap::new() }
    };
    // On a thread of its own, whose nice value nobody else has.
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let preempted = perform_all(
                stage("p-cpu"),
                "L1 a X = granted
                 L2 a X = wait
                 H1 a X = wait, L1 doomed
                 L1 ends = L2 granted, L2 doomed",
            );
            assert_eq!(preempted.preempted, 2);
            // Queues stay as they are: H1 is behind L3.
            let inherited = perform_all(
                stage("cpu-prio-inherit"),
                "L1 a X = granted
                 L2 b X = granted
                 L1 b X = wait
                 L3 a X = wait
                 H1 a X = wait
                 L2 commits = done, L1 granted
                 L1 commits = done, L3 granted",
            );
            assert_eq!(inherited.inheritances, 3, "L1, L2 of L1, then L3");
        });
    });
}

#[test]
fn deadlocks_are_found_through_queues_and_cost_the_cheapest() {
    let statistics = check(
        "nprio",
        "L1 a S = granted
         L2 b X = granted
         H1 a X = wait
         L2 a S = wait
         L1 b X = wait, L2 deadlock
         L2 ends = L1 granted
         L1 commits = done, H1 granted",
    );
    assert_eq!(statistics.deadlocks, 1);
    check(
        "standard",
        "L1 a S = granted
         L2 a S = granted
         L1 a X = wait
         L2 a X = wait, L2 deadlock
         L2 ends = L1 converted",
    );
}

#[test]
fn queue_time_and_wait_excess() {
    let clock = Arc::new(StoppedClock::default());
    let options = LockOptions { clock: Arc::clone(&clock) as Arc<dyn Clock>, ..options("standard") };
    let mut stage = Stage { locks: LockTable::new(options), clock, actors: BTreeMap::new() };
    for step in ["L1 a X", "+1ms", "L2 a X", "+1ms", "L3 a X", "+1ms"] {
        stage.perform(step);
    }
    let mut waits = Vec::new();
    for ending in ["L1", "L2", "L3"] {
        let actor = &stage.actors[ending];
        stage.locks.roll_back(&actor.member);
        stage.locks.release(&actor.member, LockName::row(0, u64::from(b'a')));
        stage.locks.end(&actor.member);
        for actor in stage.actors.values() {
            let decision = stage.locks.outcome(&actor.member);
            waits.extend(
                decision.map(|decision| (decision.wait.queue_time.as_millis(), decision.wait.excess.as_millis())),
            );
        }
        stage.pass(Duration::from_millis(10));
    }
    // L2 waited for the holder alone, L3 for L2 as well.
    assert_eq!(waits, [(2, 2), (11, 1)]);
}

#[test]
fn a_wait_that_nobody_will_see_the_end_of_is_given_up() {
    let locks = LockTable::new(options("standard"));
    let members: Vec<_> = (0..3).map(|_| locks.join()).collect();
    members.iter().for_each(|member| locks.begin(member, Priority::LOW, 0));
    let name = LockName::row(0, 0);
    assert_eq!(locks.ask(&members[0], name, Mode::X), Ok(Answer::Granted));
    assert_eq!(locks.ask(&members[1], name, Mode::X), Ok(Answer::Wait));
    assert_eq!(locks.ask(&members[2], name, Mode::X), Ok(Answer::Wait));
    // One dies waiting.
    locks.roll_back(&members[1]);
    locks.end(&members[1]);
    // The other one is granted before it dies.
    locks.release(&members[0], name);
    locks.roll_back(&members[2]);
    locks.end(&members[2]);
    assert_eq!(locks.name_count(), 0);
}

/// A commit and a preemption that meet: exactly one of them wins, whatever the timing.
#[test]
fn a_commit_point_loses_against_a_preemption_exactly_once_or_wins() {
    let locks = LockTable::new(options("pabort"));
    let name = LockName::row(0, 0);
    let (low, high) = (locks.join(), locks.join());
    let mut preempted = 0;
    for _ in 0..2_000 {
        locks.begin(&low, Priority::LOW, 0);
        locks.begin(&high, Priority::HIGH, 0);
        assert_eq!(locks.ask(&low, name, Mode::X), Ok(Answer::Granted));
        let has_committed = std::thread::scope(|scope| {
            let committer = scope.spawn(|| {
                let outcome = locks.commit_point(&low);
                if outcome.is_err() {
                    locks.roll_back(&low);
                }
                locks.release(&low, name);
                locks.end(&low);
                outcome.is_ok()
            });
            if locks.ask(&high, name, Mode::X) == Ok(Answer::Wait) {
                assert_eq!(locks.wait(&high).outcome, Ok(Answer::Granted));
            }
            committer.join().expect("it does not panic")
        });
        preempted += u64::from(!has_committed);
        assert_eq!(locks.statistics().preempted, preempted, "a victim that committed, or one counted twice");
        assert_eq!(locks.commit_point(&high), Ok(()));
        locks.release(&high, name);
        locks.end(&high);
    }
}
