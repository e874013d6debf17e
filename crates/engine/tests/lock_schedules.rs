//! The behaviour of each scheduler as readable tables: the requests of transactions in time, and their results.
//!
//! The tables are the files in `lock_schedules/`. A schedule begins with its title after `#`, text that explains it,
//! and a line `scheduler: NAME`, with `cpu: NAME` after it where there is a CPU scheduler, and `bound: K` where
//! transactions are promoted after other than five rollbacks. Then comes a line for each step, in virtual time:
//!
//! ```text
//!   0ms  L begins low
//!   0ms  L asks X a            -> granted
//!   1ms  H begins high
//!   1ms  H asks S a            -> waits; L becomes high
//!   2ms  L commits             -> H granted
//! ```
//!
//! Transactions are the first words and things are the last; `begins low after 3 rollbacks`, `asks MODE THING`,
//! `commits`, `has inserted into GAP`, `rolls back` and, without a transaction, `time passes` and `GAP disappears into
//! GAP`. Gaps have names of two letters. The arrow is followed by the result of the request (`granted`, `held`,
//! `converted`, `waits`, `preempted`, `deadlock`), and then by everything that others can see, in order of their names
//! and without omissions: `H granted`, `L preempted` (a waiter wakes, or a runner is to find out), `L becomes high`, `L
//! has nice 0`.

#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "common/lock_host.rs"]
mod lock_host;

use std::collections::BTreeMap;
use std::fs;
use std::num::NonZeroU32;
use std::path::Path;
use std::time::Duration;

use plimsoll_engine::lock::head::Answer;
use plimsoll_engine::lock::{Mode, RequestError, State};
use plimsoll_policy::{CPU_SCHEDULERS, LOCK_SCHEDULERS, Priority, StarvationBound, cpu_scheduler, lock_scheduler};

use lock_host::{FIRST_GAP, Host, Outcome, Table, Thing, Who};

/// More than any schedule has.
const MEMBERS: usize = 8;

/// One schedule: its title, its scheduler, its bound and its steps.
#[derive(Debug)]
struct Schedule {
    title: String,
    scheduler: String,
    cpu_scheduler: String,
    bound: StarvationBound,
    steps: Vec<String>,
}

fn schedules(text: &str) -> Vec<Schedule> {
    let sections = text.split("\n# ").map(|section| section.strip_prefix("# ").unwrap_or(section));
    sections.filter(|section| !section.trim().is_empty()).map(schedule).collect()
}

fn schedule(section: &str) -> Schedule {
    let mut lines = section.lines().map(str::trim).skip_while(|line| !line.starts_with("scheduler: "));
    let head = lines.next().unwrap_or_else(|| panic!("no line `scheduler: NAME` in {section}"));
    let words: Vec<&str> = head.split_whitespace().collect();
    let setting = |key: &str| words.windows(2).find(|pair| pair[0] == key).map(|pair| pair[1]);
    let scheduler = setting("scheduler:").expect("it begins with it").to_owned();
    let cpu_scheduler = setting("cpu:").unwrap_or("none").to_owned();
    let bound = setting("bound:").map(|bound| StarvationBound::after(bound.parse::<NonZeroU32>().unwrap()));
    let bound = bound.unwrap_or_default();
    let steps = lines.filter(|line| !line.is_empty()).map(str::to_owned).collect();
    Schedule { title: section.lines().next().unwrap_or_default().to_owned(), scheduler, cpu_scheduler, bound, steps }
}

/// A schedule while it runs.
struct Play {
    table: Table,
    /// Participants by their names, in the order in which they were named first.
    names: BTreeMap<String, Who>,
    held: BTreeMap<Who, Vec<Thing>>,
    waits_for: BTreeMap<Who, Thing>,
    /// The last state seen of each.
    seen: [Seen; MEMBERS],
}

#[derive(Debug, Clone, Copy)]
struct Seen {
    state: State,
    priority: Priority,
    nice: i32,
}

impl Seen {
    fn of(table: &Table, who: Who) -> Self {
        Seen { state: table.state(who), priority: table.priority(who), nice: table.nice(who) }
    }
}

impl Play {
    fn new(schedule: &Schedule) -> Self {
        let scheduler = lock_scheduler(&schedule.scheduler).unwrap_or_else(|| panic!("{schedule:?}"));
        let cpu_scheduler = cpu_scheduler(&schedule.cpu_scheduler).unwrap_or_else(|| panic!("{schedule:?}"));
        let table = Table::new(scheduler, cpu_scheduler, schedule.bound, MEMBERS);
        let seen = std::array::from_fn(|who| Seen::of(&table, who));
        Play { table, names: BTreeMap::new(), held: BTreeMap::new(), waits_for: BTreeMap::new(), seen }
    }

    /// Does one step and returns its results, in the words of the tables.
    fn step(&mut self, step: &str) -> String {
        let (time, rest) = step.split_once(char::is_whitespace).expect("a time and what happens");
        let now = Duration::from_millis(time.strip_suffix("ms").expect("milliseconds").parse().unwrap());
        self.pass_time(now);
        let rest = rest.trim();
        let mut told = Vec::new();
        let mut actor = None;
        if let Some((gap, into)) = rest.split_once(" disappears into ") {
            self.table.merge(thing(gap), thing(into));
        } else if rest != "time passes" {
            let (name, action) = rest.split_once(' ').expect("who does what");
            let next = self.names.len();
            let who = *self.names.entry(name.to_owned()).or_insert(next);
            told.extend(self.act(who, action));
            actor = Some(who);
        }
        self.tell_of_others(actor, &mut told);
        told.join("; ")
    }

    /// Deadlines before `now` take effect at their own time.
    fn pass_time(&mut self, now: Duration) {
        let due = |table: &Table| (0..MEMBERS).filter_map(|who| Some((table.deadline(who)?, who))).min();
        while let Some((deadline, who)) = due(&self.table).filter(|(deadline, _)| *deadline <= now) {
            self.table.set_time(deadline);
            self.table.expire(who);
        }
        self.table.set_time(now);
    }

    fn act(&mut self, who: Who, action: &str) -> Option<String> {
        let words: Vec<&str> = action.split_whitespace().collect();
        match words[..] {
            ["begins", priority, ref rest @ ..] => {
                let rollbacks = rest.get(1).map_or(0, |count| count.parse().unwrap());
                self.table.begin(who, priority.parse().unwrap(), rollbacks);
                let seen = Seen::of(&self.table, who);
                self.seen[who] = seen;
                let present = Some(seen.priority.to_string()).filter(|present| present != priority);
                let nice = (seen.nice != 0).then(|| format!("nice {}", seen.nice));
                let told: Vec<String> = present.into_iter().chain(nice).collect();
                Some(told.join(" ")).filter(|told| !told.is_empty())
            }
            ["asks", mode, name] => {
                let mode = Mode::ALL.into_iter().find(|known| format!("{known:?}") == mode).expect("a mode");
                let answer = self.table.ask(who, thing(name), mode);
                let decided = self.table.outcome(who).unwrap_or(answer);
                self.waits_for.insert(who, thing(name));
                self.note(who, decided);
                Some(word(decided).to_owned())
            }
            ["commits"] => match self.table.commit_point(who) {
                Ok(()) => {
                    self.end(who);
                    None
                }
                Err(error) => Some(word(Err(error)).to_owned()),
            },
            ["has", "inserted", "into", gap] => {
                let gap = thing(gap);
                let has_read = self.table.give_up_intention(who, gap);
                self.held.entry(who).or_default().retain(|held| *held != gap || has_read);
                None
            }
            ["rolls", "back"] => {
                self.table.roll_back(who);
                self.end(who);
                None
            }
            _ => panic!("`{action}` is nothing that can be done"),
        }
    }

    /// Records the lock that it holds from now on, or that it knows that it is a victim.
    fn note(&mut self, who: Who, decided: Outcome) {
        match decided {
            Ok(Answer::Granted) => self.held.entry(who).or_default().push(self.waits_for[&who]),
            Ok(_) => {}
            // Its state says the same.
            Err(_) => self.seen[who].state = self.table.state(who),
        }
    }

    /// Releases everything in the order in which it was granted.
    fn end(&mut self, who: Who) {
        let held = self.held.remove(&who).unwrap_or_default();
        held.into_iter().for_each(|thing| self.table.release(who, thing));
        self.table.end(who);
    }

    fn tell_of_others(&mut self, actor: Option<Who>, told: &mut Vec<String>) {
        for (name, who) in self.names.clone() {
            let seen = Seen::of(&self.table, who);
            let before = std::mem::replace(&mut self.seen[who], seen);
            let outcome = self.table.outcome(who);
            outcome.into_iter().for_each(|outcome| self.note(who, outcome));
            if seen.state == State::Idle {
                continue;
            }
            if seen.priority != before.priority {
                told.push(format!("{name} becomes {}", seen.priority));
            }
            if seen.nice != before.nice {
                told.push(format!("{name} has nice {}", seen.nice));
            }
            match (outcome, seen.state) {
                (Some(_), _) if actor == Some(who) => unreachable!("it has just been told"),
                (Some(outcome), _) => told.push(format!("{name} {}", word(outcome))),
                (None, State::Doomed(error)) if before.state != seen.state => {
                    told.push(format!("{name} {}", word(Err(error))))
                }
                _ => {}
            }
        }
    }
}

/// A row by one letter, a gap by two.
fn thing(name: &str) -> Thing {
    let letter = name.bytes().last().expect("a name");
    usize::from(letter - b'a') + if name.len() == 2 { FIRST_GAP } else { 0 }
}

fn word(outcome: Outcome) -> &'static str {
    match outcome {
        Ok(Answer::Granted) => "granted",
        Ok(Answer::Held) => "held",
        Ok(Answer::Converted) => "converted",
        Ok(Answer::Wait) => "waits",
        Err(RequestError::Deadlock) => "deadlock",
        Err(RequestError::Preempted) => "preempted",
    }
}

/// Runs a schedule; returns its actual steps if they differ from the written ones.
fn check(schedule: &Schedule) -> Result<(), String> {
    let mut play = Play::new(schedule);
    for line in &schedule.steps {
        let (step, expected) = line.split_once("->").map_or((line.as_str(), ""), |(step, expected)| (step, expected));
        let told = play.step(step.trim());
        if told != expected.trim() {
            return Err(format!("{}: `{line}` came to `{told}`", schedule.title));
        }
    }
    // Transactions that are still open roll back; then no locks may be left.
    let is_open = |who: &Who| play.table.state(*who) != State::Idle;
    for who in (0..MEMBERS).filter(is_open).collect::<Vec<_>>() {
        play.act(who, "rolls back");
        play.tell_of_others(None, &mut Vec::new());
    }
    match play.table.thing_count() {
        0 => Ok(()),
        left => Err(format!("{}: {left} locks are left", schedule.title)),
    }
}

fn every_schedule() -> Vec<Schedule> {
    let folder = Path::new("tests/lock_schedules");
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.iter().flat_map(|file| schedules(&fs::read_to_string(file).unwrap())).collect()
}

#[test]
fn every_schedule_goes_as_written() {
    let faults: Vec<String> = every_schedule().iter().filter_map(|schedule| check(schedule).err()).collect();
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn every_scheduler_has_a_schedule() {
    let schedules = every_schedule();
    for kind in LOCK_SCHEDULERS {
        assert!(schedules.iter().any(|schedule| schedule.scheduler == kind.example), "{}", kind.name);
    }
    for scheduler in CPU_SCHEDULERS {
        assert!(schedules.iter().any(|schedule| schedule.cpu_scheduler == scheduler.name()), "{}", scheduler.name());
    }
}

/// Tables that agree with any behaviour would prove nothing.
#[test]
fn a_schedule_that_goes_otherwise_is_seen() {
    let wrong = "# Two readers\nscheduler: standard\n0ms A begins low\n0ms A asks S a -> waits\n";
    let error = check(&schedules(wrong)[0]).unwrap_err();
    assert_eq!(error, "Two readers: `0ms A asks S a -> waits` came to `granted`");
    let short = "# A reader\nscheduler: pabort\n0ms A begins low\n0ms A asks S a -> granted\n0ms B begins high\n\
                 0ms B asks X a -> waits\n";
    let error = check(&schedules(short)[0]).unwrap_err();
    assert_eq!(error, "A reader: `0ms B asks X a -> waits` came to `waits; A preempted`");
}
