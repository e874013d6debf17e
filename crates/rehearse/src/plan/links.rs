//! Which values of answers are sent again later, and which units wait for which.

use std::collections::BTreeMap;

use plimsoll_capture::event::Unit;

use super::commands::{Command, Reading, Returned, Sent};
use super::{Span, UnitRef};
use crate::sql::{Act, Context, names_match};
use crate::value::{Kind, Value};

/// A number that is used without a known column is mapped only from here on: small ones are often amounts.
const PLAIN_NUMBER_MIN: i64 = 1_000;

/// Units whose value is equal are few; more are remembered for none.
const SOURCES_MAX: usize = 8;

/// A value of a request that is replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Use {
    /// The number of the value.
    pub slot: usize,
    /// Where it is in the request.
    pub range: std::ops::Range<usize>,
    /// The format of a parameter; `None` for a literal or number of a text.
    pub format: Option<u16>,
}

/// A value of an answer that is used later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Made {
    /// The number of the value.
    pub slot: usize,
    /// The place of its command among those of the unit.
    pub command: usize,
    pub row: usize,
    pub column: usize,
    pub kind: Kind,
    pub format: u16,
}

/// How sure it is that a server made a value up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Strength {
    /// A column that an INSERT had left to its default was read.
    Read,
    /// It was returned by the statement that made it.
    Made,
}

/// A value of an answer.
#[derive(Debug, Clone)]
struct Source {
    at: UnitRef,
    ended_us: u64,
    transaction: usize,
    strength: Strength,
    place: (usize, usize, usize),
    kind: Kind,
    format: u16,
    column: String,
    tables: Vec<String>,
    sequence: Option<String>,
}

/// A transaction of a session, or a unit by itself.
#[derive(Debug, Clone, Default)]
struct Transaction {
    writes: bool,
    slots: Vec<usize>,
    /// The unit that has ended it, and when.
    end: Option<(UnitRef, u64)>,
}

/// All links so far.
#[derive(Debug, Default)]
pub(crate) struct Links {
    sources: BTreeMap<Value, Vec<Source>>,
    transactions: Vec<Transaction>,
    /// The open transaction of each session, by its place.
    open: BTreeMap<usize, usize>,
    /// The columns that INSERTs into a table have named.
    inserted: BTreeMap<String, Vec<String>>,
    slots: BTreeMap<(UnitRef, (usize, usize, usize)), usize>,
    made: Vec<(UnitRef, Made)>,
    /// The end of the last transaction that wrote with a value, by its slot.
    writers: BTreeMap<usize, (UnitRef, u64)>,
    awaited: BTreeMap<UnitRef, usize>,
}

impl Links {
    /// The values of a request that are replaced, in the order of their places, and the units to wait for.
    pub fn uses(&mut self, reading: &Reading, request: &[u8], at: UnitRef, span: Span) -> (Vec<Use>, Vec<usize>) {
        let mut uses: Vec<Use> = Vec::new();
        let mut waits: Vec<UnitRef> = Vec::new();
        for sent in &reading.sent {
            let Some((source, value)) = self.source_of(sent, at, span) else { continue };
            let source = source.clone();
            // A form that has no room for the same value again would have none for another.
            let fits = match sent.format {
                Some(format) => value.write(format, sent.range.len()).is_some(),
                None => value.write_token(&request[sent.range.clone()]).is_some(),
            };
            if !fits {
                continue;
            }
            let slot = self.slot(&source);
            uses.push(Use { slot, range: sent.range.clone(), format: sent.format });
            if source.at.session != at.session {
                let ended = self.transactions[source.transaction].end.filter(|(_, end_us)| *end_us <= span.began_us);
                waits.push(ended.map_or(source.at, |(unit, _)| unit));
            }
            let writer = self.writers.get(&slot);
            let is_before = |(unit, end_us): &&(UnitRef, u64)| unit.session != at.session && *end_us <= span.began_us;
            waits.extend(writer.filter(is_before).map(|(unit, _)| *unit));
        }
        uses.sort_by_key(|one| one.range.start);
        // A session keeps its order: its last unit ends after its earlier ones.
        waits.sort_unstable_by_key(|unit| std::cmp::Reverse(*unit));
        waits.dedup_by_key(|unit| unit.session);
        waits.reverse();
        let waits = waits.into_iter().map(|unit| self.await_unit(unit)).collect();
        (uses, waits)
    }

    /// The source that a value most likely comes from.
    fn source_of(&self, sent: &Sent, at: UnitRef, span: Span) -> Option<(&Source, Value)> {
        if sent.context == Context::Amount {
            return None;
        }
        let candidates = sent.values.iter().flat_map(|value| {
            let sources = self.sources.get(value).into_iter().flatten();
            sources.map(move |source| (source, value))
        });
        // A client that uses a value has received it before, unless it is another client that knows it by other means.
        let known =
            candidates.filter(|(source, _)| source.at.session == at.session || source.ended_us <= span.began_us);
        let rated = known.filter_map(|(source, value)| {
            let score = score(source, value, sent, source.at.session == at.session)?;
            Some(((score, source.strength, source.at.session == at.session, source.ended_us), source, value))
        });
        rated.max_by_key(|(rate, _, _)| *rate).map(|(_, source, value)| (source, value.clone()))
    }

    fn slot(&mut self, source: &Source) -> usize {
        let next = self.slots.len();
        let slot = *self.slots.entry((source.at, source.place)).or_insert(next);
        if slot == next {
            let (command, row, column) = source.place;
            let made = Made { slot, command, row, column, kind: source.kind, format: source.format };
            self.made.push((source.at, made));
            self.transactions[source.transaction].slots.push(slot);
            let transaction = &self.transactions[source.transaction];
            if let Some(end) = transaction.end.filter(|_| transaction.writes) {
                self.writers.insert(slot, end);
            }
        }
        slot
    }

    fn await_unit(&mut self, unit: UnitRef) -> usize {
        let next = self.awaited.len();
        *self.awaited.entry(unit).or_insert(next)
    }

    /// Notes what a unit has made and whether its transaction has ended.
    pub fn finish_unit(&mut self, reading: &Reading, unit: &Unit, at: UnitRef, span: Span, uses: &[Use]) {
        let transaction = *self.open.entry(at.session).or_insert_with(|| {
            self.transactions.push(Transaction::default());
            self.transactions.len() - 1
        });
        let open = &mut self.transactions[transaction];
        open.writes |= reading.commands.iter().any(|command| command.statement().act == Act::Write);
        open.slots.extend(uses.iter().map(|one| one.slot));
        for returned in &reading.returned {
            if let Some(source) = self.source(&reading.commands[returned.command], returned, at, span, transaction) {
                self.remember(returned.value.clone(), source);
            }
        }
        for one in reading.commands.iter().map(Command::statement) {
            if let Some((table, columns)) = &one.inserted {
                let known = self.inserted.entry(table.clone()).or_default();
                known.extend(columns.iter().filter(|name| !known.contains(name)).cloned().collect::<Vec<_>>());
            }
        }
        if !matches!(unit.answer.state, b'T' | b'E') {
            self.open.remove(&at.session);
            let ended = &mut self.transactions[transaction];
            ended.end = Some((at, span.ended_us));
            if ended.writes {
                for slot in std::mem::take(&mut ended.slots) {
                    self.writers.insert(slot, (at, span.ended_us));
                }
            }
        }
    }

    fn remember(&mut self, value: Value, source: Source) {
        let known = self.sources.entry(value).or_default();
        // The oldest that was only read goes first.
        if known.len() == SOURCES_MAX {
            let weakest = known.iter().enumerate().min_by_key(|(at, one)| (one.strength, *at)).map_or(0, |(at, _)| at);
            known.remove(weakest);
        }
        known.push(source);
    }

    /// A value of an answer, if the server may have made it up.
    fn source(
        &self,
        command: &Command,
        returned: &Returned,
        at: UnitRef,
        span: Span,
        transaction: usize,
    ) -> Option<Source> {
        let one = command.statement();
        let is_made = one.has_returning
            || returned.table == 0 && (one.sequence.is_some() || one.is_volatile && returned.kind != Kind::Integer);
        let is_defaulted = returned.table != 0
            && returned.kind != Kind::Bytes
            && (returned.is_alone || one.has_order)
            && one
                .tables
                .iter()
                .any(|table| self.inserted.get(table).is_some_and(|named| !named.contains(&returned.name)));
        let strength = match () {
            () if is_made => Strength::Made,
            () if is_defaulted => Strength::Read,
            () => return None,
        };
        Some(Source {
            at,
            ended_us: span.ended_us,
            transaction,
            strength,
            place: (returned.command, returned.row, returned.column),
            kind: returned.kind,
            format: returned.format,
            column: returned.name.to_ascii_lowercase(),
            tables: one.tables.clone(),
            sequence: one.sequence.clone(),
        })
    }

    pub fn made(&self) -> impl Iterator<Item = (UnitRef, Made)> {
        self.made.iter().copied()
    }

    pub fn awaited(&self) -> impl Iterator<Item = (UnitRef, usize)> {
        self.awaited.iter().map(|(unit, number)| (*unit, *number))
    }

    pub fn slot_count(&self) -> usize {
        self.slots.len()
    }

    pub fn awaited_count(&self) -> usize {
        self.awaited.len()
    }
}

/// How well a use fits a source; `None` if it does not.
fn score(source: &Source, value: &Value, sent: &Sent, is_own: bool) -> Option<u8> {
    let of_sequence = |name: &str| {
        let sequence = source.sequence.as_deref()?;
        let fits = sequence.contains(name) || sent.tables.iter().any(|table| sequence.contains(table.as_str()));
        (fits || is_own).then_some(if fits { 2 } else { 1 })
    };
    match &sent.context {
        Context::Amount => None,
        Context::Column(name) if names_match(name, &sent.tables, &source.column, &source.tables) => Some(3),
        Context::Column(name) => of_sequence(name).or(value.is_unmistakable().then_some(2)),
        Context::Unknown => {
            let is_plain = matches!(value, Value::Integer(number) if *number >= PLAIN_NUMBER_MIN);
            (value.is_unmistakable() || is_plain).then_some(1)
        }
    }
}
