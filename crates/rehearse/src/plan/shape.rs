//! Kinds of units: those whose statements differ only in values.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hasher;

use fnv::FnvHasher;
use plimsoll_capture::event::Unit;
use plimsoll_notation::sql::normalised;

use super::Facts;
use super::commands::{Command, Reading};
use super::session::SessionState;
use crate::sql::{Act, Statement};

/// A kind of unit.
#[derive(Debug, Clone, Default)]
pub struct Shape {
    /// Its statements in their normal form, with `; ` between them; without those that only control the transaction,
    /// unless there is no other.
    pub text: String,
    /// A number that is the same for equal texts on every machine.
    pub fingerprint: u64,
    /// Whether it may change data.
    pub writes: bool,
    /// Why answers are not compared; `None` if they are.
    pub not_compared: Option<NotCompared>,
    /// A statement of it as it was sent, for plans.
    pub sample: Option<String>,
    /// Equal requests with their answers, by hashes; emptied when the plan is complete.
    answers: BTreeMap<u64, u64>,
    tables: BTreeSet<String>,
}

/// Why the answers of a kind of unit are not compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotCompared {
    /// It does not only read.
    Writes,
    /// It calls functions whose results differ.
    Volatile,
    /// Equal requests had different answers.
    Varies,
    /// The capture writes a table that it reads.
    Written,
}

impl NotCompared {
    /// The reason in words.
    pub fn words(self) -> &'static str {
        match self {
            NotCompared::Writes => "it does not only read",
            NotCompared::Volatile => "it calls functions whose results differ from call to call",
            NotCompared::Varies => "its answers differ within the recording",
            NotCompared::Written => "the capture changes a table that it reads",
        }
    }
}

/// A statement to try on a target.
#[derive(Debug, Clone)]
pub struct Probe {
    /// The statement as one client has sent it.
    pub text: String,
    /// Parameters of the startup message of that client.
    pub parameters: Vec<(String, String)>,
    /// What that client had set before.
    pub settings: Vec<String>,
    /// The shapes that have it.
    pub shapes: BTreeSet<usize>,
    /// The error that it had in every unit of the recording.
    pub recorded_error: Option<String>,
    /// The tables that it names.
    pub tables: Vec<String>,
    /// The types that the client gave its parameters; 0 is left to the server.
    pub types: Vec<u32>,
    session: usize,
    succeeded: bool,
}

/// All kinds so far.
#[derive(Debug, Default)]
pub(crate) struct Shapes {
    shapes: Vec<Shape>,
    known: BTreeMap<Vec<u64>, usize>,
    probes: BTreeMap<u64, Probe>,
    written: BTreeSet<String>,
    created: BTreeSet<String>,
}

impl Shapes {
    /// The shape of a unit.
    pub fn take(&mut self, reading: &Reading, unit: &Unit, session: usize, state: &SessionState) -> usize {
        let is_work = |command: &&Command| command.statement().act != Act::Control;
        let mut main: Vec<&Command> = reading.commands.iter().filter(is_work).collect();
        if main.is_empty() {
            main = reading.commands.iter().collect();
        }
        let key: Vec<u64> = main.iter().map(|command| command.fingerprint()).collect();
        let at = *self.known.entry(key).or_insert_with_key(|key| {
            self.shapes.push(Shape::of(&main, key));
            self.shapes.len() - 1
        });
        for command in &main {
            self.note(command, unit, at, session, state);
        }
        let mut hash = FnvHasher::default();
        hash.write(&unit.request);
        let answer = unit.answer.checksum ^ unit.answer.rows;
        let shape = &mut self.shapes[at];
        if *shape.answers.entry(hash.finish()).or_insert(answer) != answer {
            shape.not_compared.get_or_insert(NotCompared::Varies);
        }
        at
    }

    fn note(&mut self, command: &Command, unit: &Unit, shape: usize, session: usize, state: &SessionState) {
        let one = command.statement();
        if one.act == Act::Write {
            self.written.extend(one.tables.iter().cloned());
        }
        self.created.extend(one.created.iter().cloned());
        if !can_be_prepared(one, &command.text.bytes) {
            return;
        }
        let probe = self.probes.entry(command.fingerprint()).or_insert_with(|| Probe {
            text: text_of(command),
            parameters: Vec::new(),
            settings: state.settings.clone(),
            shapes: BTreeSet::new(),
            recorded_error: unit.answer.error.clone(),
            tables: one.tables.clone(),
            types: command.types.clone(),
            session,
            succeeded: false,
        });
        probe.shapes.insert(shape);
        probe.succeeded |= unit.answer.error.is_none();
    }

    /// The shapes, and the statements to try.
    pub fn finish(mut self, facts: &mut Facts, parameters: &[Vec<(String, String)>]) -> (Vec<Shape>, Vec<Probe>) {
        for shape in &mut self.shapes {
            if shape.tables.iter().any(|table| self.written.contains(table)) {
                shape.not_compared.get_or_insert(NotCompared::Written);
            }
            shape.answers.clear();
        }
        let mut probes: Vec<Probe> = self.probes.into_values().collect();
        for probe in &mut probes {
            probe.parameters.clone_from(&parameters[probe.session]);
            if probe.succeeded {
                probe.recorded_error = None;
            }
        }
        (facts.written, facts.created) = (self.written, self.created);
        (self.shapes, probes)
    }
}

impl Shape {
    fn of(commands: &[&Command], key: &[u64]) -> Shape {
        let statements = || commands.iter().map(|command| command.statement());
        let texts: Vec<String> = commands.iter().map(|command| normalised(text_of(command).as_bytes())).collect();
        let mut hash = FnvHasher::default();
        key.iter().for_each(|part| hash.write(&part.to_be_bytes()));
        let fingerprint = if let [only] = key { *only } else { hash.finish() };
        let writes = statements().any(|one| one.act == Act::Write);
        let not_compared = match () {
            () if writes => Some(NotCompared::Writes),
            () if statements().any(|one| one.is_volatile || one.act == Act::Control) => Some(NotCompared::Volatile),
            () => None,
        };
        let planned = commands.iter().find(|command| can_be_prepared(command.statement(), &command.text.bytes));
        Shape {
            text: if texts.is_empty() { "(prepares statements)".to_owned() } else { texts.join("; ") },
            fingerprint,
            writes,
            not_compared,
            sample: planned.map(|command| text_of(command)),
            answers: BTreeMap::new(),
            tables: statements().flat_map(|one| one.tables.iter().cloned()).collect(),
        }
    }
}

fn text_of(command: &Command) -> String {
    String::from_utf8_lossy(&command.text.bytes[command.statement().range.clone()]).into_owned()
}

/// Whether preparing a statement shows if a server could run it: its tables, columns and functions are looked up then.
fn can_be_prepared(one: &Statement, text: &[u8]) -> bool {
    const BEGIN: [&str; 8] = ["select", "insert", "update", "delete", "merge", "with", "values", "table"];
    let text = &text[one.range.clone()];
    let begins = |word: &str| text.get(..word.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(word.as_bytes()));
    one.unfit.is_none() && (BEGIN.iter().any(|word| begins(word)) || text.starts_with(b"("))
}
