//! Plays a script on both sides and compares what can be seen.
//!
//! The governed side goes first. Where it is told of an error that no plain server would have given (it was rolled back for
//! another, or its client cancelled), the plain side fails at the same place, by a statement that fails. So both sides
//! have done the same, and everything after that must be equal, too: answers, status, state of the session, data. If a
//! transaction of which a client is told 40001 left anything behind, or lost anything that it should have left, that shows
//! as a difference.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::time::{Duration, Instant};

use plimsoll_governor::governor::{EventId, SessionCommand};
use plimsoll_governor::registry::Phase;

use super::interposer::{Done, with_failing};
use super::script::{Injection, PROBE, Request, Script, Step, Transaction, Unit, expanded};
use super::wire::{self, Client, Message, fields};
use super::world::World;

/// How often a transaction is run again that was rolled back. Nothing is done to it then.
const RETRIES_MAX: usize = 1;

/// What did not agree.
#[derive(Debug, Clone)]
pub struct Difference {
    /// What kind of difference: it stays the same while a script shrinks.
    pub kind: &'static str,
    /// Where, and what was seen.
    pub text: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind, self.text)
    }
}

fn different<T>(kind: &'static str, text: impl Into<String>) -> Result<T, Difference> {
    Err(Difference { kind, text: text.into() })
}

/// What has happened in a run.
#[derive(Debug, Clone, Copy, Default)]
pub struct Report {
    /// Scripts.
    pub seeds: u64,
    /// Units that were aimed at and cancelled, and transactions that were rolled back while their client was thinking.
    pub preempted: usize,
    /// Transactions of which the client was told.
    pub told: usize,
    /// Units that their client cancelled.
    pub cancelled: usize,
    /// Units, those run again included.
    pub units: usize,
}

impl Report {
    /// Both together.
    pub fn add(&mut self, other: Report) {
        self.seeds += other.seeds;
        self.preempted += other.preempted;
        self.told += other.told;
        self.cancelled += other.cancelled;
        self.units += other.units;
    }
}

/// Plays a script. The world is as new before, and must be [reset](World::reset) after.
pub fn play(world: &mut World, script: &Script) -> Result<Report, Difference> {
    let (governed, plain) = world.connect().or_else(|error| different("connecting", error.to_string()))?;
    let mut play = Play {
        world,
        governed,
        plain,
        values: Values::default(),
        notifications: Default::default(),
        report: Report { seeds: 1, ..Report::default() },
        was_preempted: false,
        status: b'I',
        history: Vec::new(),
        change: None,
        pending: None,
    };
    for (number, transaction) in script.transactions.iter().enumerate() {
        play.transaction(transaction).map_err(|difference| {
            let text = format!("transaction {}, {}", number + 1, difference.text);
            Difference { text, ..difference }
        })?;
    }
    play.exchange(&[&Unit::Query(vec![PROBE.to_owned()])], false)?;
    Ok(play.report)
}

/// Generated values, by the order in which clients have first seen them: on both sides the same value must come again at the
/// same places, whichever it is.
#[derive(Debug, Default)]
struct Values {
    governed: BTreeMap<String, usize>,
    plain: BTreeMap<String, usize>,
}

fn is_generated(value: &str) -> bool {
    let mut letters = value.bytes();
    letters.next() == Some(b'g') && letters.next().is_some_and(|digit| digit.is_ascii_digit())
}

struct Play<'a> {
    world: &'a mut World,
    governed: Client,
    plain: Client,
    values: Values,
    /// What each side was notified of since its last transaction.
    notifications: [Vec<Vec<u8>>; 2],
    report: Report,
    /// Whether the transaction was rolled back for another's sake, or may have been.
    was_preempted: bool,
    /// What clients know of their transaction.
    status: u8,
    /// What has been done in the transaction, and what was answered.
    history: Vec<(Unit, Vec<Message>)>,
    /// What somebody else is to change before a replay.
    change: Option<String>,
    /// What somebody else has changed, and is to be changed on the plain side after the transaction.
    pending: Option<String>,
}

/// An error that a plain server would not have given.
struct Told {
    unit: usize,
    /// How many statements, or messages, had been answered before.
    at: usize,
    /// Whether the transaction is to be run again.
    retry: bool,
}

impl Play<'_> {
    fn transaction(&mut self, transaction: &Transaction) -> Result<(), Difference> {
        for attempt in 0..=RETRIES_MAX {
            self.was_preempted = false;
            let is_told = self.attempt(transaction, attempt == 0)?;
            self.finish()?;
            if !is_told {
                return Ok(());
            }
            self.report.told += 1;
        }
        different("told again", "a transaction to which nothing was done failed when it was run again")
    }

    /// Runs a transaction, with what is done to it or without; says whether its client was told to run it again.
    fn attempt(&mut self, transaction: &Transaction, with_injections: bool) -> Result<bool, Difference> {
        let mut rest = &transaction.steps[..];
        while let Some(first) = rest.first() {
            let (group, after) = rest.split_at(group_length(rest));
            rest = after;
            let at = format!("unit {}", transaction.steps.len() - rest.len());
            let place = |difference: Difference| {
                let text = format!("{at}: {}", difference.text);
                Difference { text, ..difference }
            };
            let injections = if with_injections { &first.injections[..] } else { &[] };
            if let Unit::Leave(unit) = &first.unit {
                self.inject(injections).map_err(place)?;
                self.leave(unit.as_deref()).map_err(place)?;
                return Ok(false);
            }
            self.inject(injections).map_err(place)?;
            let has_cancelled = injections.iter().any(is_by_client);
            let units: Vec<&Unit> = group.iter().map(|step| &step.unit).collect();
            if self.exchange(&units, has_cancelled).map_err(place)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Does to the governed session what comes before a unit, and prepares what comes with it.
    fn inject(&mut self, injections: &[Injection]) -> Result<(), Difference> {
        let is_armed = |injection: &Injection| !matches!(injection, Injection::Idle | Injection::Change { .. });
        let armed = injections.iter().copied().filter(is_armed);
        self.world.interposer.arm(armed);
        let was_preempted = self.was_preempted;
        if injections.contains(&Injection::Idle) {
            let process = self.governed.process();
            let before = self.world.governed.advisory_locks(process);
            self.roll_back_idle();
            let after = self.world.governed.advisory_locks(process);
            if before != after {
                let text = format!("its client relies on {before} advisory locks while it thinks, and has {after}");
                return different("lost locks", text);
            }
        }
        let change = injections.iter().find_map(|injection| match injection {
            Injection::Change { account } => Some(format!("UPDATE accounts SET v = v * 2 WHERE id = {account}")),
            _ => None,
        });
        self.change = change.filter(|_| self.history.iter().all(|(unit, _)| can_be_redone(unit)));
        self.world.interposer.arm_change(self.change.clone(), self.was_preempted && !was_preempted);
        Ok(())
    }

    /// Has the transaction rolled back while its client thinks, as the watcher does.
    fn roll_back_idle(&mut self) {
        let Some(card) = self.world.card(&self.governed) else { return };
        let (phase, transaction, unit) = {
            let state = card.state();
            (state.phase, state.transaction, state.unit)
        };
        if phase != Phase::IdleInTransaction {
            return;
        }
        let low = self.world.governor.settings().class_named("low").expect("it is set");
        let too_late = || {
            let class = self.world.governor.statistics.class(low);
            class.preempted_too_late.load(std::sync::atomic::Ordering::Relaxed)
        };
        let before = too_late();
        let answered = self.world.interposer.answered();
        // Nobody keeps an event for it.
        let event = EventId(u64::MAX);
        self.world.governor.tell(card.worker, card.id, SessionCommand::RollBackIdle { transaction, unit, event });
        let deadline = Instant::now() + Duration::from_secs(2);
        while card.state().phase == Phase::IdleInTransaction && too_late() == before && Instant::now() < deadline {
            std::thread::yield_now();
        }
        if card.state().phase != Phase::IdleInTransaction {
            while self.world.interposer.answered() == answered && Instant::now() < deadline {
                std::thread::yield_now();
            }
            self.was_preempted = true;
            self.report.preempted += 1;
        }
    }

    /// Has both sides do these units, and compares; says whether the client was told of something that no plain server has
    /// said. Then it has ended its transaction.
    fn exchange(&mut self, units: &[&Unit], has_cancelled: bool) -> Result<bool, Difference> {
        self.report.units += units.len();
        for unit in units {
            if let Unit::Query(statements) = unit {
                self.world.interposer.learn(statements);
            }
        }
        let governed = converse(&mut self.governed, units).or_else(|error| {
            let card = self.world.governor.registry.all();
            different(silence(&error), format!("{error}; the governor has {card:?}"))
        })?;
        let done = self.world.interposer.take_done();
        self.count(done);
        let told = self.told(units, &governed, has_cancelled)?;
        if done.changed {
            self.follow_change(told.is_some() || units.iter().any(|unit| rolls_back(unit)))?;
        }
        let followed: Vec<Unit> = units
            .iter()
            .enumerate()
            .map(|(place, unit)| match &told {
                Some(told) if told.unit == place => failing_at(unit, told.at),
                _ => (*unit).clone(),
            })
            .collect();
        let end = told.as_ref().map_or(units.len(), |told| told.unit + 1);
        let mut plain = self.on_plain(&followed[..end])?;
        if let Some(told) = told.as_ref().filter(|told| told.retry) {
            self.forgive_failed_commit(units[told.unit], &governed[told.unit], &mut plain[told.unit])?;
        }
        plain.extend(self.on_plain(&followed[end..])?);
        for (place, unit) in units.iter().enumerate() {
            let is_told = told.as_ref().is_some_and(|told| told.unit == place);
            self.compare(unit, &governed[place], &plain[place], is_told).map_err(|difference| Difference {
                text: format!("{}\nin {unit}", difference.text.trim_end()),
                ..difference
            })?;
        }
        self.status = status(&governed);
        if self.status == b'I' || told.is_some() {
            self.world.interposer.forget();
            self.history.clear();
        } else {
            self.history.extend(units.iter().map(|unit| (*unit).clone()).zip(governed));
        }
        if let Some(told) = &told
            && self.status != b'I'
        {
            self.exchange(&[&rollback_like(units[told.unit])], false)?;
        }
        Ok(told.is_some_and(|told| told.retry))
    }

    /// Somebody has changed what the transaction had seen, before the governor ran it again. If the client heard nothing, the
    /// change might as well have come before the whole transaction: then its answers are the same, and so it is done here.
    /// If it heard of it, or rolls back itself, the change has come after.
    fn follow_change(&mut self, is_after: bool) -> Result<(), Difference> {
        let change = self.change.take().expect("it was armed");
        if is_after {
            self.pending = Some(change);
            return Ok(());
        }
        let history = std::mem::take(&mut self.history);
        let failed = |error: io::Error| different("plain", error.to_string());
        if !history.is_empty() {
            let names = history.iter().flat_map(|(unit, answer)| parsed_names(unit, answer));
            let undo = Unit::Query(vec!["ROLLBACK".to_owned()]);
            let close = Unit::Extended(names.map(Request::CloseStatement).collect());
            converse(&mut self.plain, &[&undo, &close]).or_else(failed)?;
        }
        self.world.plain.change(&change);
        for (unit, governed) in &history {
            let plain = converse(&mut self.plain, &[unit]).or_else(failed)?.remove(0);
            let kept = self.notifications.clone();
            self.compare(unit, governed, &plain, false).map_err(|difference| {
                let text = format!("after {change}, {}\nin {unit}", difference.text);
                Difference { kind: "changed answers", text }
            })?;
            self.notifications = kept;
        }
        self.history = history;
        Ok(())
    }

    fn count(&mut self, done: Done) {
        self.was_preempted |= done.preempted > 0;
        self.report.preempted += done.preempted;
        self.report.cancelled += done.cancelled;
    }

    /// The first error that only a governor, or its client's own cancel, can have been the reason of.
    fn told(&self, units: &[&Unit], answers: &[Vec<Message>], has_cancelled: bool) -> Result<Option<Told>, Difference> {
        for (place, (unit, answer)) in units.iter().zip(answers).enumerate() {
            let Some(end) = answer.iter().position(|message| message.tag == b'E') else { continue };
            let error = &answer[end];
            let (state, message) = (error.field(b'C'), error.field(b'M'));
            let is_ours = state == "40001";
            // A copy that its client gives up fails with the same code.
            let is_cancelled = state == "57014" && !message.starts_with("COPY from stdin failed");
            let is_class = matches!(&state[..], "22023" | "42501") && format!("{unit}").contains("plimsoll.class");
            if is_ours && !self.was_preempted {
                return different("40001 for nothing", format!("{message}, though nothing was done to it\nin {unit}"));
            }
            if is_cancelled && !has_cancelled {
                return different("cancelled for nothing", format!("{message}, though its client did not\nin {unit}"));
            }
            if is_ours || is_cancelled || is_class {
                let at = answer[..end].iter().filter(|message| completes(unit, message.tag)).count();
                return Ok(Some(Told { unit: place, at, retry: is_ours || is_cancelled }));
            }
        }
        Ok(None)
    }

    fn on_plain(&mut self, units: &[Unit]) -> Result<Vec<Vec<Message>>, Difference> {
        converse(&mut self.plain, &units.iter().collect::<Vec<_>>())
            .or_else(|error| different("plain", error.to_string()))
    }

    /// A COMMIT that fails leaves a server idle; the statement that fails on the plain side in its place does not.
    fn forgive_failed_commit(
        &mut self,
        unit: &Unit,
        governed: &[Message],
        plain: &mut [Message],
    ) -> Result<(), Difference> {
        let status = |answer: &[Message]| answer.last().map_or(0, |last| last.body[0]);
        if may_end(unit) && (status(governed), status(plain)) == (b'I', b'E') {
            self.on_plain(&[Unit::Query(vec!["ROLLBACK".to_owned()])])?;
            plain.last_mut().expect("it has an end").body[0] = b'I';
        }
        Ok(())
    }

    /// Compares the answers to a unit; if the governed one was told of a failure, only up to there, and the status.
    fn compare(
        &mut self,
        unit: &Unit,
        governed: &[Message],
        plain: &[Message],
        is_told: bool,
    ) -> Result<(), Difference> {
        self.keep_notifications(0, governed);
        self.keep_notifications(1, plain);
        if !is_told && notices(governed) != notices(plain) {
            let text = format!("{:?} are not {:?}", notices(governed), notices(plain));
            return different("notices", text);
        }
        let mut sides = [seen(governed), seen(plain)];
        if is_told {
            sides.iter_mut().for_each(|side| cut(unit, side));
        }
        let [governed, plain] = sides;
        if governed.len() == plain.len() && governed.iter().zip(&plain).all(|(one, other)| self.equal(one, other)) {
            return Ok(());
        }
        different("answers", format!("{governed:?}\nis not {plain:?}"))
    }

    fn equal(&mut self, governed: &Message, plain: &Message) -> bool {
        if governed.tag != plain.tag {
            return false;
        }
        match governed.tag {
            b'D' => {
                let (one, other) = (fields(&governed.body), fields(&plain.body));
                one.len() == other.len() && one.iter().zip(&other).all(|(one, other)| self.equal_value(one, other))
            }
            b'T' => without_tables(&governed.body) == without_tables(&plain.body),
            b'E' => [b'S', b'C', b'M', b'D', b'H', b'P'].iter().all(|&kind| {
                let (one, other) = (governed.field(kind), plain.field(kind));
                one == other || one.contains('g') && kind == b'D'
            }),
            _ => governed.body == plain.body,
        }
    }

    fn equal_value(&mut self, governed: &Option<String>, plain: &Option<String>) -> bool {
        let (Some(one), Some(other)) = (governed, plain) else { return governed == plain };
        if !is_generated(one) || !is_generated(other) {
            return one == other;
        }
        let known = |values: &mut BTreeMap<String, usize>, value: &String| {
            let next = values.len();
            *values.entry(value.clone()).or_insert(next)
        };
        known(&mut self.values.governed, one) == known(&mut self.values.plain, other)
    }

    fn keep_notifications(&mut self, side: usize, answer: &[Message]) {
        let notified = answer.iter().filter(|message| message.tag == b'A');
        // After the process that has sent it.
        self.notifications[side].extend(notified.map(|message| message.body[4..].to_vec()));
    }

    /// Ends a transaction on both sides if it is open, and compares what it has left.
    fn finish(&mut self) -> Result<(), Difference> {
        self.world.interposer.arm([]);
        if self.status != b'I' {
            self.exchange(&[&Unit::Query(vec!["ROLLBACK".to_owned()])], false)?;
        }
        self.world.interposer.arm_change(None, false);
        self.history.clear();
        if let Some(change) = self.pending.take() {
            self.world.plain.change(&change);
        }
        let [governed, plain] = &mut self.notifications;
        governed.sort();
        plain.sort();
        if governed != plain {
            return different("notifications", format!("{governed:?} are not {plain:?}"));
        }
        governed.clear();
        plain.clear();
        let (governed, plain) = self.data();
        if governed != plain {
            let only = |one: &[String], other: &[String]| -> Vec<String> {
                one.iter().filter(|row| !other.contains(row)).cloned().collect()
            };
            let text = format!("governed {:?}\nplain    {:?}", only(&governed, &plain), only(&plain, &governed));
            return different("data", if text.len() > 40 { text } else { format!("{governed:?}\n{plain:?}") });
        }
        Ok(())
    }

    /// The data of both sides, sorted, with generated values as clients know them.
    fn data(&mut self) -> (Vec<String>, Vec<String>) {
        let rows = |rows: Vec<Vec<Option<String>>>, values: &BTreeMap<String, usize>| {
            let value = |value: Option<String>| match value {
                Some(text) if is_generated(&text) => {
                    values.get(&text).map_or("generated".to_owned(), |place| format!("generated {place}"))
                }
                Some(text) => text,
                None => "NULL".to_owned(),
            };
            let mut rows: Vec<String> =
                rows.into_iter().map(|row| row.into_iter().map(value).collect::<Vec<_>>().join(" ")).collect();
            rows.sort();
            rows
        };
        (rows(self.world.governed.data(), &self.values.governed), rows(self.world.plain.data(), &self.values.plain))
    }

    /// The client leaves without a word, perhaps after it has sent a unit, and comes again.
    fn leave(&mut self, unit: Option<&Unit>) -> Result<(), Difference> {
        let (governed, plain) = self.world.connect().or_else(|error| different("connecting", error.to_string()))?;
        // The new one cancels nothing of the old one.
        let mut old = [std::mem::replace(&mut self.governed, governed), std::mem::replace(&mut self.plain, plain)];
        let processes = old.each_ref().map(Client::process);
        if let Some(unit) = unit {
            let _ = old[0].send(&bytes(unit));
        }
        let [governed, mut plain] = old;
        drop(governed);
        self.world.governed.until_gone(processes[0]).or_else(|text| different("left over", text))?;
        let done = self.world.interposer.take_done();
        self.count(done);
        if done.changed {
            self.pending = self.change.take();
        }
        self.status = b'I';
        let (mut one, mut other) = self.data();
        // The plain session is still there, and its locks.
        [&mut one, &mut other].into_iter().for_each(|rows| rows.retain(|row| !row.starts_with("advisory lock")));
        if let Some(unit) = unit
            && one != other
        {
            // It was carried out, and then so it is here.
            converse(&mut plain, &[unit]).or_else(|error| different("plain", error.to_string()))?;
        }
        drop(plain);
        self.world.plain.until_gone(processes[1]).or_else(|text| different("plain", text))
    }
}

/// How many units are sent together.
fn group_length(steps: &[Step]) -> usize {
    let can_follow = |step: &Step| matches!(step.unit, Unit::Query(_) | Unit::Extended(_));
    let pairs = steps.iter().zip(&steps[1..]);
    pairs.take_while(|(step, next)| step.ahead && can_follow(step) && can_follow(next)).count() + 1
}

/// A ROLLBACK by the same protocol as a unit; the extended one leaves the unnamed statement alone.
fn rollback_like(unit: &Unit) -> Unit {
    if !matches!(unit, Unit::Extended(_)) {
        return Unit::Query(vec!["ROLLBACK".to_owned()]);
    }
    let name = "rollback".to_owned();
    Unit::Extended(vec![
        Request::CloseStatement(name.clone()),
        Request::Parse { name: name.clone(), sql: "ROLLBACK".to_owned() },
        Request::Bind { portal: String::new(), statement: name, values: Vec::new() },
        Request::Execute { portal: String::new(), rows: 0 },
    ])
}

fn is_by_client(injection: &Injection) -> bool {
    matches!(injection, Injection::ClientCancel { .. } | Injection::ClientCancelMissed)
}

fn silence(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => "silence",
        _ => "lost connection",
    }
}

fn status(answers: &[Vec<Message>]) -> u8 {
    answers.last().and_then(|answer| answer.last()).map_or(0, |ready| ready.body[0])
}

/// Whether a message says that a statement, or a message, was carried out.
fn completes(unit: &Unit, tag: u8) -> bool {
    match unit {
        Unit::Extended(_) => matches!(tag, b'1' | b'2' | b'3' | b'T' | b'n' | b'C' | b'I' | b's'),
        _ => matches!(tag, b'C' | b'I'),
    }
}

/// Whether a unit may run what ends a transaction.
fn may_end(unit: &Unit) -> bool {
    let ends = |sql: &str| ["COMMIT", "END", "CALL", "/* @long@ */ COMMIT"].iter().any(|word| sql.starts_with(word));
    match unit {
        Unit::Query(statements) => statements.iter().any(|sql| ends(sql)),
        Unit::Extended(requests) => {
            let executes = requests.iter().any(|request| matches!(request, Request::Execute { .. }));
            // Only what ends or begins transactions has such names, and a statement without one may be older.
            let ends = |request: &Request| match request {
                Request::Parse { sql, .. } => ends(sql),
                Request::Bind { statement, .. } => statement.starts_with(['e', 'k']) || statement.is_empty(),
                _ => false,
            };
            executes && requests.iter().any(ends)
        }
        Unit::Copy { .. } | Unit::Leave(_) => false,
    }
}

fn rolls_back(unit: &Unit) -> bool {
    let text = unit.to_string();
    text.contains("ABORT") || text.contains("ROLLBACK") && !text.contains("ROLLBACK TO")
}

/// Whether a unit does the same again once its transaction was rolled back, so that it can be done again on the plain side.
fn can_be_redone(unit: &Unit) -> bool {
    const CANNOT: [&str; 14] = [
        "PREPARE",
        "DEALLOCATE",
        "EXECUTE",
        "FETCH",
        "MOVE",
        "CLOSE",
        "DISCARD",
        "advisory",
        "CHAIN",
        "COMMIT",
        "END",
        "ROLLBACK",
        "numbers",
        "close-",
    ];
    let text = unit.to_string();
    let is_older =
        |request: &Request| matches!(request, Request::Bind { statement, .. } if statement.starts_with(['e', 'k']));
    let binds_older = matches!(unit, Unit::Extended(requests) if requests.iter().any(is_older));
    !binds_older && !matches!(unit, Unit::Copy { .. }) && CANNOT.iter().all(|word| !text.contains(word))
}

/// The names of the statements that a unit has prepared.
fn parsed_names(unit: &Unit, answer: &[Message]) -> Vec<String> {
    let Unit::Extended(requests) = unit else { return Vec::new() };
    let done = answer.iter().filter(|message| completes(unit, message.tag)).count();
    let requests = requests.iter().filter(|request| **request != Request::Flush).take(done);
    let names = requests.filter_map(|request| match request {
        Request::Parse { name, .. } if !name.is_empty() => Some(name.clone()),
        _ => None,
    });
    names.collect()
}

/// The unit, but failing there.
fn failing_at(unit: &Unit, at: usize) -> Unit {
    match unit {
        Unit::Query(statements) => Unit::Query(vec![with_failing(&statements[..at.min(statements.len())])]),
        Unit::Extended(requests) => {
            let mut left = at;
            let mut kept: Vec<Request> = Vec::new();
            for request in requests {
                if *request != Request::Flush {
                    if left == 0 {
                        break;
                    }
                    left -= 1;
                }
                kept.push(request.clone());
            }
            // A name, so that the unnamed statement stays.
            kept.push(Request::Parse { name: "failing".to_owned(), sql: "this fails".to_owned() });
            Unit::Extended(kept)
        }
        Unit::Copy { .. } | Unit::Leave(_) => Unit::Query(vec![with_failing(&[])]),
    }
}

/// What is sent for a unit, all at once.
fn bytes(unit: &Unit) -> Vec<u8> {
    match unit {
        Unit::Query(statements) => wire::query(&expanded(&statements.join("; "))),
        Unit::Extended(requests) => {
            let requests = requests.iter().flat_map(Request::bytes);
            requests.chain(wire::tagged(b'S', &[])).collect()
        }
        Unit::Copy { sql, .. } => wire::query(sql),
        Unit::Leave(_) => Vec::new(),
    }
}

/// Sends units, and reads the answer to each.
fn converse(client: &mut Client, units: &[&Unit]) -> io::Result<Vec<Vec<Message>>> {
    match units {
        [Unit::Extended(requests)] if requests.contains(&Request::Flush) => Ok(vec![flushing(client, requests)?]),
        [Unit::Copy { sql, lines, fails }] => Ok(vec![copying(client, sql, lines, *fails)?]),
        _ => {
            let all: Vec<u8> = units.iter().flat_map(|unit| bytes(unit)).collect();
            client.send(&all)?;
            units.iter().map(|_| until_ready(client, Vec::new())).collect()
        }
    }
}

fn until_ready(client: &mut Client, mut answer: Vec<Message>) -> io::Result<Vec<Message>> {
    while answer.last().is_none_or(|last| last.tag != b'Z') {
        answer.push(client.message()?);
    }
    Ok(answer)
}

/// Waits for what each `Flush` brings.
fn flushing(client: &mut Client, requests: &[Request]) -> io::Result<Vec<Message>> {
    let extended = Unit::Extended(Vec::new());
    let (mut answer, mut expected, mut has_failed) = (Vec::new(), 0, false);
    for request in requests {
        client.send(&request.bytes())?;
        if *request != Request::Flush {
            expected += 1;
            continue;
        }
        while expected > 0 && !has_failed {
            let message = client.message()?;
            has_failed = message.tag == b'E';
            expected -= usize::from(completes(&extended, message.tag));
            answer.push(message);
        }
    }
    client.send(&wire::tagged(b'S', &[]))?;
    until_ready(client, answer)
}

/// Sends lines when the server wants them.
fn copying(client: &mut Client, sql: &str, lines: &[String], fails: bool) -> io::Result<Vec<Message>> {
    client.send(&wire::query(sql))?;
    let mut answer = vec![client.message()?];
    while !matches!(answer.last().expect("there is one").tag, b'G' | b'Z') {
        answer.push(client.message()?);
    }
    if answer.last().expect("there is one").tag == b'G' {
        for line in lines {
            client.send(&wire::tagged(b'd', format!("{line}\n").as_bytes()))?;
        }
        client.send(&if fails { wire::tagged(b'f', &wire::text("no more")) } else { wire::tagged(b'c', &[]) })?;
        answer.push(client.message()?);
    }
    until_ready(client, answer)
}

/// What is compared: not what comes when it likes.
fn seen(answer: &[Message]) -> Vec<Message> {
    answer.iter().filter(|message| !matches!(message.tag, b'N' | b'A' | b'S')).cloned().collect()
}

/// Cuts off what was begun and failed, and the error, but not the status.
fn cut(unit: &Unit, answer: &mut Vec<Message>) {
    let Some(error) = answer.iter().position(|message| message.tag == b'E') else { return };
    let done = answer[..error].iter().rposition(|message| completes(unit, message.tag)).map_or(0, |last| last + 1);
    answer.drain(done..=error);
}

/// What a client was told by the way. A replay may tell it again.
fn notices(answer: &[Message]) -> BTreeSet<String> {
    let notices = answer.iter().filter(|message| message.tag == b'N');
    notices.map(|notice| format!("{} {}", notice.field(b'C'), notice.field(b'M'))).collect()
}

/// A `RowDescription` without the numbers of tables, which may be temporary ones.
fn without_tables(body: &[u8]) -> Vec<u8> {
    let (mut out, mut rest) = (body[..2].to_vec(), &body[2..]);
    while let Some(end) = rest.iter().position(|&byte| byte == 0) {
        let next = end + 1 + 18;
        out.extend_from_slice(&rest[..=end]);
        out.extend_from_slice(&rest[end + 5..next]);
        rest = &rest[next..];
    }
    out
}
