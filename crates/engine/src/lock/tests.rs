//! Schedules of the whole table as text, on a stopped clock: which transactions ask, which wait, and which are rolled
//! back.

mod choices;
mod intents;
mod life;
mod verdicts;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use plimsoll_policy::{Priority, StarvationBound, cpu_scheduler, lock_scheduler};

use super::head::Answer;
use super::*;
use crate::clock::{Clock, MonotonicClock};
use crate::cpu_priority::CpuPriority;

/// A clock that moves only when a test moves it.
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

fn joined(locks: &LockTable, priority: Priority) -> Arc<Member> {
    let member = locks.join();
    locks.begin(&member, priority, 0);
    member
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

/// Runs a schedule, a line a step; after `=` the answer and its effects on others, in order of name. `L` begins low,
/// `H` high, `T` at the level above, `P` low and rolled back five times before. Steps: `L1 a X` asks for a name, `L1
/// commits`, `L1 ends` (is rolled back), `+20ms` lets time pass.
fn check(scheduler: &str, schedule: &str) -> LockStatistics {
    let clock = Arc::new(StoppedClock::default());
    let options = LockOptions { clock: Arc::clone(&clock) as Arc<dyn Clock>, ..options(scheduler) };
    perform_all(Stage { locks: LockTable::new(options), clock, actors: BTreeMap::new() }, schedule)
}

fn perform_all(mut stage: Stage, schedule: &str) -> LockStatistics {
    let lines = schedule.lines().map(str::trim);
    for line in lines.filter(|line| !line.is_empty() && !line.starts_with("//")) {
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

    /// Lets time pass, with a stop at the end of each reprieve.
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

    /// Rolls all transactions back; no locks may be left.
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
