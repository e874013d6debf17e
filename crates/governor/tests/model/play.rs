//! Plays a script on both sides and compares everything visible.
//!
//! The governed side goes first. If it gets an error that no plain server would have sent (it was rolled back for
//! another session, or its client cancelled), the plain side fails at the same place, by a statement that fails. Both
//! sides have then done the same, and everything after that must be equal, too: answers, status, session state, data.
//! If a transaction that failed with 40001 left anything behind, or lost anything that it should have left, that shows
//! as a difference.

mod answers;
mod comparing;
mod conversation;
mod injections;
mod units;

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::time::Duration;

use super::interposer::Done;
use super::rival::Rival;
use super::script::{Injection, PROBE, Request, Script, Transaction, Unit, User, pooled_probe};
use super::wire::{Client, Message};
use super::world::World;
use answers::Generated;
use conversation::{Conversation, converse};
use units::{completes, failing_at, group_length, may_end, rollback_like, rolls_back};

/// A notice or an error may arrive this much later than on a plain server. Times are those before the end of a unit that
/// sleeps, so that a machine that is slow as a whole makes no difference.
const LATE_MAX: Duration = Duration::from_millis(100);

/// How often a rolled-back transaction is run again. The repetition has no injections.
const RETRIES_MAX: usize = 1;

#[derive(Debug, Clone)]
pub struct Difference {
    /// The kind of difference: it stays the same while a script shrinks.
    pub kind: &'static str,
    /// The place, and the observed difference.
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

/// The counts of a run.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Scripts.
    pub seeds: u64,
    /// Units that were aimed at and cancelled, and transactions that were rolled back while their client was thinking.
    pub preempted: usize,
    /// Transactions whose client got an error.
    pub told: usize,
    /// Units that their client cancelled.
    pub cancelled: usize,
    /// Units, including repeated ones.
    pub units: usize,
    /// Notices and errors whose times were compared.
    pub timed: usize,
    /// How often another client of the pool had the session's connection, and how often the session kept it.
    pub intruded: usize,
    pub kept: usize,
    /// Preemptions by their outcomes, as the governor reports them, and units that were left alone, by the reason.
    pub outcomes: BTreeMap<String, usize>,
}

impl Report {
    pub fn add(&mut self, other: Report) {
        self.seeds += other.seeds;
        self.preempted += other.preempted;
        self.told += other.told;
        self.cancelled += other.cancelled;
        self.units += other.units;
        self.timed += other.timed;
        self.intruded += other.intruded;
        self.kept += other.kept;
        for (outcome, count) in other.outcomes {
            *self.outcomes.entry(outcome).or_default() += count;
        }
    }

    fn count(&mut self, outcome: String) {
        *self.outcomes.entry(outcome).or_default() += 1;
    }
}

/// Plays a script. The world must be new before, and must be [reset](World::reset) afterwards.
pub fn play(world: &mut World, script: &Script) -> Result<Report, Difference> {
    let seen = world.governor.events().last().map(|event| event.id);
    let rival = world.rival(script.user);
    let (governed, plain) = world.connect(script.user).or_else(|error| different("connecting", error.to_string()))?;
    let mut play = Play {
        world,
        governed,
        plain,
        values: Generated::default(),
        notifications: Default::default(),
        report: Report { seeds: 1, ..Report::default() },
        user: script.user,
        was_preempted: false,
        may_differ: false,
        has_chosen: false,
        status: b'I',
        history: Vec::new(),
        change: None,
        pending: None,
        rival,
    };
    for (number, transaction) in script.transactions.iter().enumerate() {
        play.transaction(transaction).map_err(|difference| {
            let text = format!("transaction {}, {}", number + 1, difference.text);
            Difference { text, ..difference }
        })?;
    }
    let probe = if play.world.is_pooled { pooled_probe() } else { PROBE.to_owned() };
    play.exchange(&[&Unit::Query(vec![probe])], false)?;
    let mut report = play.report;
    for event in world.governor.events() {
        if Some(event.id) > seen {
            report.count(event.outcome.to_string());
        }
    }
    Ok(report)
}

struct Play<'a> {
    world: &'a mut World,
    governed: Client,
    plain: Client,
    values: Generated,
    user: User,
    /// The notifications that each side received since its last transaction.
    notifications: [Vec<Vec<u8>>; 2],
    report: Report,
    /// Whether the transaction was rolled back for another session, or may have been.
    was_preempted: bool,
    /// Whether its client may be told 40001 even if its class has `retries = false`: another session has changed what it
    /// may have read, or the server has aborted it.
    may_differ: bool,
    /// Whether the client may have chosen another class than that of its user.
    has_chosen: bool,
    /// The transaction status that clients know.
    status: u8,
    /// The transaction's units so far, and their answers.
    history: Vec<(Unit, Vec<Message>)>,
    /// The change that another session is to make before a replay.
    change: Option<String>,
    /// The change that another session has made, to be made on the plain side after the transaction.
    pending: Option<String>,
    /// Another client of the session's pool.
    rival: Option<Rival>,
}

/// An error that a plain server would not have given.
struct Told {
    unit: usize,
    /// Whether the transaction is to be run again.
    retry: bool,
}

impl Play<'_> {
    fn transaction(&mut self, transaction: &Transaction) -> Result<(), Difference> {
        for attempt in 0..=RETRIES_MAX {
            (self.was_preempted, self.may_differ) = (false, false);
            let is_told = self.attempt(transaction, attempt == 0)?;
            self.finish()?;
            if !is_told {
                return Ok(());
            }
            self.report.told += 1;
        }
        different("told again", "a transaction to which nothing was done failed when it was run again")
    }

    /// Runs a transaction, with or without its injections; returns whether its client was asked to run it again.
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
            self.inject(injections).map_err(place)?;
            match &first.unit {
                Unit::Leave(unit) => {
                    self.leave(unit.as_deref()).map_err(place)?;
                    return Ok(false);
                }
                Unit::Finish(unit) => {
                    self.finish_sending(unit).map_err(place)?;
                    return Ok(false);
                }
                _ => {}
            }
            let has_cancelled = injections.iter().any(is_by_client);
            let units: Vec<&Unit> = group.iter().map(|step| &step.unit).collect();
            if self.exchange(&units, has_cancelled).map_err(place)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Both sides are about to run these units.
    fn notes(&mut self, units: &[&Unit]) {
        self.report.units += units.len();
        self.has_chosen |= units.iter().any(|unit| unit.to_string().contains("plimsoll.class"));
        units.iter().for_each(|unit| self.world.interposer.learn_unit(unit));
    }

    /// Makes the change that waits for the end of the plain side's transaction, if that status shows it.
    fn make_pending_change(&mut self, status: u8) {
        if status == b'I'
            && let Some(change) = self.pending.take()
        {
            self.world.plain.change(&change);
        }
    }

    /// Has both sides run these units, and compares; returns whether the client got an error that no plain server
    /// sends. In that case it has ended its transaction.
    fn exchange(&mut self, units: &[&Unit], has_cancelled: bool) -> Result<bool, Difference> {
        self.intrude()?;
        self.notes(units);
        let mut heard = converse(&mut self.governed, units).or_else(|error| {
            let card = self.world.governor.registry.all();
            different(silence(&error), format!("{error}; the governor has {card:?}"))
        })?;
        let governed = std::mem::take(&mut heard.answers);
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
                // After the first error, the governor may repeat it until the transaction is ended, and refuse a class.
                Some(told) if told.unit == place || told.unit < place && is_told(unit, &governed[place]) => {
                    let is_commit = done.is_commit_failed && told.unit == place;
                    failing_at(unit, completed(unit, &governed[place]), is_commit)
                }
                _ => (*unit).clone(),
            })
            .collect();
        let end = told.as_ref().map_or(units.len(), |told| told.unit + 1);
        let was_quiet = told.is_none() && !self.was_preempted && done.cancelled == 0 && !has_cancelled;
        let mut plain = self.on_plain(&followed[..end], &heard, was_quiet)?;
        if let Some(told) = told.as_ref().filter(|_| done.is_commit_failed) {
            forget_first_command(&mut plain[told.unit]);
        }
        if let Some(told) = told.as_ref().filter(|told| told.retry) {
            self.forgive_failed_commit(units[told.unit], &governed[told.unit], &mut plain[told.unit])?;
        }
        self.make_pending_change(status(&governed[..end]));
        plain.extend(self.on_plain(&followed[end..], &heard, false)?);
        for (place, unit) in units.iter().enumerate() {
            let follows = |told: &Told| told.unit == place || told.unit < place && is_told(unit, &governed[place]);
            let is_cut = told.as_ref().is_some_and(follows);
            self.compare(unit, &governed[place], &plain[place], is_cut).map_err(|difference| Difference {
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
        self.make_pending_change(self.status);
        if let Some(told) = &told
            && self.status != b'I'
        {
            // An injection for a unit that was not sent must not hit this one.
            self.world.interposer.arm([]);
            self.exchange(&[&rollback_like(units[told.unit])], false)?;
        }
        if let Some(told) = &told
            && matches!(units[told.unit], Unit::Query(_))
        {
            self.forget_unnamed()?;
        }
        Ok(told.is_some_and(|told| told.retry))
    }

    /// Between transactions, another client of the pool has the connection, unless the session keeps it.
    fn intrude(&mut self) -> Result<(), Difference> {
        let Some(rival) = self.rival.as_mut().filter(|_| self.status == b'I') else { return Ok(()) };
        match rival.intrude().or_else(|text| different("rival", text))? {
            true => self.report.intruded += 1,
            false => self.report.kept += 1,
        }
        Ok(())
    }

    /// A server forgets its unnamed statement with every query, even with one that the governor answers itself.
    fn forget_unnamed(&mut self) -> Result<(), Difference> {
        self.world.interposer.arm_change(None, false);
        let close = Unit::Extended(vec![Request::CloseStatement(String::new())]);
        for client in [&mut self.governed, &mut self.plain] {
            converse(client, &[&close]).or_else(|error| different("closing", error.to_string()))?;
        }
        Ok(())
    }

    fn count(&mut self, done: Done) {
        self.was_preempted |= done.preempted > 0;
        self.may_differ |= done.is_aborted || done.changed;
        if let Some(spared) = done.spared {
            self.report.count(format!("left alone: {spared}"));
        }
        self.report.preempted += done.preempted;
        self.report.cancelled += done.cancelled;
    }

    /// The first error that only a governor, or its client's own cancel, can have caused.
    fn told(&self, units: &[&Unit], answers: &[Vec<Message>], has_cancelled: bool) -> Result<Option<Told>, Difference> {
        for (place, (unit, answer)) in units.iter().zip(answers).enumerate() {
            let Some(end) = answer.iter().position(|message| message.tag == b'E') else { continue };
            let error = &answer[end];
            let (state, message) = (error.field(b'C'), error.field(b'M'));
            let is_ours = state == "40001";
            // A copy that its client aborts, and a time-out, have the same code.
            let is_cancelled = state == "57014" && message == "canceling statement due to user request";
            let is_class = refuses_class(unit, error);
            if is_ours && !self.was_preempted {
                return different("40001 for nothing", format!("{message}, though nothing was done to it\nin {unit}"));
            }
            if is_ours && self.user == User::Steady && !self.has_chosen && !self.may_differ {
                let outcome = self.world.governor.events().last().map(|event| event.outcome.to_string());
                let text = format!(
                    "{message} ({}), though its class does not retry and nobody has changed data\nin {unit}",
                    outcome.unwrap_or_default()
                );
                return different("40001 unasked", text);
            }
            if is_cancelled && !has_cancelled {
                return different("cancelled for nothing", format!("{message}, though its client did not\nin {unit}"));
            }
            if is_ours || is_cancelled || is_class {
                return Ok(Some(Told { unit: place, retry: is_ours || is_cancelled }));
            }
        }
        Ok(None)
    }

    /// The answers of the plain side to these units. If `is_timed`, nothing was done to the governed side, so its notices
    /// and errors must have arrived as soon.
    fn on_plain(
        &mut self,
        units: &[Unit],
        governed: &Conversation,
        is_timed: bool,
    ) -> Result<Vec<Vec<Message>>, Difference> {
        let units: Vec<&Unit> = units.iter().collect();
        let plain = converse(&mut self.plain, &units).or_else(|error| different("plain", error.to_string()))?;
        if is_timed && units.iter().any(|unit| unit.to_string().contains("pg_sleep(0.")) {
            self.report.timed += plain.told.len();
            let late = governed.told.iter().zip(&plain.told).find(|(governed, plain)| **governed + LATE_MAX < **plain);
            if let Some((governed, plain)) = late {
                let text =
                    format!("told {governed:?} before the end of the unit, by a plain server {plain:?} before it");
                return different("times", text);
            }
        }
        Ok(plain.answers)
    }

    /// A COMMIT that fails leaves a server idle; its replacement on the plain side does not.
    fn forgive_failed_commit(
        &mut self,
        unit: &Unit,
        governed: &[Message],
        plain: &mut [Message],
    ) -> Result<(), Difference> {
        let status = |answer: &[Message]| answer.last().map_or(0, |last| last.body[0]);
        if may_end(unit) && (status(governed), status(plain)) == (b'I', b'E') {
            // A server that leaves its transaction delivers the notifications that arrived in the meantime.
            let rollback = Unit::Query(vec!["ROLLBACK".to_owned()]);
            for answer in self.on_plain(&[rollback], &Conversation::default(), false)? {
                self.keep_notifications(1, &answer);
            }
            plain.last_mut().expect("it has an end").body[0] = b'I';
        }
        Ok(())
    }
}

/// Removes the answer to the statement that was put before a text to make its commit fail.
fn forget_first_command(answer: &mut Vec<Message>) {
    if let Some(ours) = answer.iter().position(|message| message.tag == b'C') {
        answer.remove(ours);
    }
}

/// Whether an answer says that the transaction was rolled back for another, or that there is no such class.
fn is_told(unit: &Unit, answer: &[Message]) -> bool {
    let mut errors = answer.iter().filter(|message| message.tag == b'E');
    errors.any(|error| error.field(b'C') == "40001" || refuses_class(unit, error))
}

/// Whether an error refuses the class that its unit asks for, which a server without a governor does not know.
fn refuses_class(unit: &Unit, error: &Message) -> bool {
    matches!(&error.field(b'C')[..], "22023" | "42501") && unit.to_string().contains("plimsoll.class")
}

/// The number of statements, or messages, that were answered before the first error.
fn completed(unit: &Unit, answer: &[Message]) -> usize {
    let before_error = answer.iter().take_while(|message| message.tag != b'E');
    before_error.filter(|message| completes(unit, message.tag)).count()
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
