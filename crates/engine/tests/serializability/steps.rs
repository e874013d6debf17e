//! The steps of transactions on the engine, and the same steps on a model that is run serially.

use std::collections::BTreeMap;
use std::sync::Arc;

use plimsoll_engine::Engine;
use plimsoll_engine::lock::Mode;
use plimsoll_engine::table::IndexKind;
use plimsoll_engine::table::layout::TableSpec;
use plimsoll_engine::transaction::{Connection, End, Purpose, TransactionError};
use plimsoll_engine::value::{ColumnSpec, ColumnType, Value};
use plimsoll_policy::Priority;
use rand::RngExt;
use rand_pcg::Pcg64;

/// Widest range of keys that is scanned.
const SPAN: i64 = 8;
pub const TAGS: i64 = 3;
/// One table of numbers and one of text. Both have a primary key and an index on tags.
pub const TABLES: usize = 2;
const NUMBERS: usize = 0;

/// Key, tag, value; the value may be null.
pub type Row = (i64, i64, Option<i64>);

#[derive(Debug, Clone, Copy)]
pub enum ProgramStep {
    Read(usize, i64),
    Scan(usize, i64, i64),
    ScanTag(usize, i64),
    /// All of a table, without its indexes.
    ScanTable(usize),
    Edge(usize, i64, i64, End),
    /// Rows from one end on, up to a limit.
    Some(usize, i64, i64, End, usize),
    Write(usize, i64, Option<i64>),
    ReadThenWrite(usize, i64, Option<i64>),
    InsertIfAbsent(usize, Row),
    Delete(usize, i64),
    /// Delete and insert the same key.
    Replace(usize, Row),
    /// To the other table, unless the key exists there.
    Move(usize, i64),
}

impl ProgramStep {
    /// The same, or a read of the first key in place of a range of the primary key.
    fn without_range(self) -> Self {
        match self {
            ProgramStep::Scan(table, key, _)
            | ProgramStep::Edge(table, key, ..)
            | ProgramStep::Some(table, key, ..) => ProgramStep::Read(table, key),
            other => other,
        }
    }
}

#[derive(Debug, Clone)]
pub struct Program {
    pub priority: Priority,
    pub steps: Vec<ProgramStep>,
    pub rolls_back: bool,
}

/// The rows of each table by key.
pub type Model = [BTreeMap<i64, (i64, Option<i64>)>; TABLES];

/// A program for tables whose primary keys have such an index.
pub fn program(random: &mut Pcg64, keys: i64, serial: i64, index: IndexKind) -> Program {
    let steps = (0..random.random_range(1..6)).map(|at| step(random, keys, serial * 10 + at));
    let steps = steps.map(|step| if index == IndexKind::Tree { step } else { step.without_range() }).collect();
    let level = [0, 0, 0, 1, 1, 2][random.random_range(0..6)];
    let priority = Priority::of_level(level).expect("a level");
    Program { priority, steps, rolls_back: random.random_bool(0.1) }
}

fn step(random: &mut Pcg64, keys: i64, number: i64) -> ProgramStep {
    let table = random.random_range(0..TABLES);
    let key = random.random_range(0..keys);
    let other = (key + random.random_range(0..SPAN)).min(keys - 1);
    let tag = random.random_range(0..TAGS);
    let value = random.random_bool(0.8).then_some(number);
    let end = if number % 2 == 0 { End::First } else { End::Last };
    match random.random_range(0..26) {
        0 | 1 => ProgramStep::Read(table, key),
        2..=5 => ProgramStep::Scan(table, key, other),
        6 | 7 => ProgramStep::ScanTag(table, tag),
        8 => ProgramStep::ScanTable(table),
        9 | 10 => ProgramStep::Edge(table, key, other, end),
        11 | 12 => ProgramStep::Write(table, key, value),
        13 | 14 => ProgramStep::ReadThenWrite(table, key, value),
        15..=17 => ProgramStep::InsertIfAbsent(table, (key, tag, value)),
        18 | 19 => ProgramStep::Delete(table, key),
        20 | 21 => ProgramStep::Replace(table, (key, tag, value)),
        22 | 23 => ProgramStep::Move(table, key),
        _ => ProgramStep::Some(table, key, other, end, random.random_range(1..4)),
    }
}

/// Runs a step on the model.
pub fn replay(model: &mut Model, step: ProgramStep) -> Vec<Row> {
    let row = |(&key, &(tag, value)): (&i64, &(i64, Option<i64>))| (key, tag, value);
    let one = |model: &Model, table: usize, key: i64| model[table].range(key..=key).map(row).collect::<Vec<_>>();
    match step {
        ProgramStep::Read(table, key) => one(model, table, key),
        ProgramStep::Scan(table, low, high) => model[table].range(low..=high).map(row).collect(),
        ProgramStep::ScanTag(table, tag) => model[table].iter().map(row).filter(|row| row.1 == tag).collect(),
        ProgramStep::ScanTable(table) => model[table].iter().map(row).collect(),
        ProgramStep::Edge(table, low, high, End::First) => {
            model[table].range(low..=high).next().map(row).into_iter().collect()
        }
        ProgramStep::Edge(table, low, high, End::Last) => {
            model[table].range(low..=high).next_back().map(row).into_iter().collect()
        }
        ProgramStep::Some(table, low, high, End::First, limit) => {
            model[table].range(low..=high).map(row).take(limit).collect()
        }
        ProgramStep::Some(table, low, high, End::Last, limit) => {
            model[table].range(low..=high).rev().map(row).take(limit).collect()
        }
        ProgramStep::Write(table, key, value) | ProgramStep::ReadThenWrite(table, key, value) => {
            let before = one(model, table, key);
            if let Some(stored) = model[table].get_mut(&key) {
                stored.1 = value;
            }
            before
        }
        ProgramStep::InsertIfAbsent(table, (key, tag, value)) => {
            let before = one(model, table, key);
            model[table].entry(key).or_insert((tag, value));
            before
        }
        ProgramStep::Delete(table, key) => {
            let before = one(model, table, key);
            model[table].remove(&key);
            before
        }
        ProgramStep::Replace(table, (key, tag, value)) => {
            let before = one(model, table, key);
            model[table].insert(key, (tag, value));
            before
        }
        ProgramStep::Move(from, key) => {
            let (mut seen, there) = (one(model, from, key), one(model, 1 - from, key));
            if let (Some(stored), true) = (model[from].get(&key).copied(), there.is_empty()) {
                model[from].remove(&key);
                model[1 - from].insert(key, stored);
            }
            seen.extend(there);
            seen
        }
    }
}

/// A connection, and the engine for reads past its indexes.
pub struct Client {
    pub engine: Arc<Engine>,
    pub connection: Connection,
}

impl Client {
    /// Runs a step on the engine. Rows come in order of key.
    pub fn perform(&mut self, step: ProgramStep) -> Result<Vec<Row>, TransactionError> {
        match step {
            ProgramStep::Read(table, key) => Ok(self.one(table, key, Purpose::Read)?.1),
            ProgramStep::Scan(table, low, high) => self.scan(table, low, high),
            ProgramStep::ScanTag(table, tag) => {
                self.scan_index((table, 1), &tag_value(table, tag), &tag_value(table, tag))
            }
            ProgramStep::ScanTable(table) => {
                self.connection.lock_table(table as u32, Mode::S)?;
                let rows = self.engine.row_table(table as u32);
                let mut rows: Vec<_> = rows.heap.live_rows().map(|row| self.read(table, row)).collect();
                rows.sort_unstable();
                Ok(rows)
            }
            ProgramStep::Edge(table, low, high, end) => {
                let index = (table as u32, 0);
                let [low, high] = [low, high].map(|key| key_text(table, key));
                let [low, high] = [&low, &high].map(|key| [key_value(key)]);
                let found = self.connection.find_end(index, &low, &high, end, Purpose::Read)?;
                Ok(found.map(|row| self.read(table, row)).into_iter().collect())
            }
            ProgramStep::Some(table, low, high, end, limit) => {
                let [low, high] = [low, high].map(|key| key_text(table, key));
                let [low, high] = [&low, &high].map(|key| [key_value(key)]);
                let mut rows = Vec::new();
                let (index, ends) = ((table as u32, 0), (&low[..], &high[..]));
                self.connection.find_some(index, ends, (end, limit), Purpose::Read, &mut rows)?;
                Ok(rows.into_iter().map(|row| self.read(table, row)).collect())
            }
            ProgramStep::Write(table, key, value) | ProgramStep::ReadThenWrite(table, key, value) => {
                let purpose = if matches!(step, ProgramStep::Write(..)) { Purpose::Write } else { Purpose::Update };
                let (found, seen) = self.one(table, key, purpose)?;
                if let Some(row) = found {
                    let text = value.map(|value| value.to_string());
                    self.connection.set(table as u32, row, 2, value_of(table, value, text.as_deref()))?;
                }
                Ok(seen)
            }
            ProgramStep::InsertIfAbsent(table, row) => {
                let (found, seen) = self.one(table, row.0, Purpose::Read)?;
                if found.is_none() {
                    self.insert(table, row)?;
                }
                Ok(seen)
            }
            ProgramStep::Delete(table, key) => {
                let (found, seen) = self.one(table, key, Purpose::Write)?;
                if let Some(row) = found {
                    self.connection.delete(table as u32, row)?;
                }
                Ok(seen)
            }
            ProgramStep::Replace(table, row) => {
                let seen = self.perform(ProgramStep::Delete(table, row.0))?;
                self.insert(table, row)?;
                Ok(seen)
            }
            ProgramStep::Move(from, key) => self.move_row(from, key),
        }
    }

    fn move_row(&mut self, from: usize, key: i64) -> Result<Vec<Row>, TransactionError> {
        let (found, mut seen) = self.one(from, key, Purpose::Write)?;
        let (_, there) = self.one(1 - from, key, Purpose::Read)?;
        if let (Some(row), true) = (found, there.is_empty()) {
            self.connection.delete(from as u32, row)?;
            self.insert(1 - from, seen[0])?;
        }
        seen.extend(there);
        Ok(seen)
    }

    fn scan(&mut self, table: usize, low: i64, high: i64) -> Result<Vec<Row>, TransactionError> {
        let [low, high] = [low, high].map(|key| key_text(table, key));
        self.scan_index((table, 0), &key_value(&low), &key_value(&high))
    }

    fn scan_index(
        &mut self,
        (table, index): (usize, usize),
        low: &Value<'_>,
        high: &Value<'_>,
    ) -> Result<Vec<Row>, TransactionError> {
        let mut rows = Vec::new();
        self.connection.find_all((table as u32, index), &[*low], &[*high], Purpose::Read, &mut rows)?;
        let mut rows: Vec<_> = rows.into_iter().map(|row| self.read(table, row)).collect();
        if index == 1 {
            // Equal tags come in order of row number.
            rows.sort_unstable();
        }
        Ok(rows)
    }

    fn one(&mut self, table: usize, key: i64, purpose: Purpose) -> Result<(Option<u64>, Vec<Row>), TransactionError> {
        let key = key_text(table, key);
        let found = self.connection.find(table as u32, &[key_value(&key)], purpose)?;
        Ok((found, found.map(|row| self.read(table, row)).into_iter().collect()))
    }

    fn insert(&mut self, table: usize, row: Row) -> Result<(), TransactionError> {
        with_values(table, row, |values| self.connection.insert(table as u32, values).map(|_| ()))
    }

    fn read(&self, table: usize, row: u64) -> Row {
        let number = |column: usize| -> i64 {
            if table == NUMBERS {
                return self.connection.int(NUMBERS as u32, row, column);
            }
            let mut text = String::new();
            self.connection.text(table as u32, row, column, &mut text);
            text.rsplit(' ').next().and_then(|word| word.parse().ok()).expect("a number at its end")
        };
        let is_null = self.connection.is_null(table as u32, row, 2);
        (number(0), number(1), (!is_null).then(|| number(2)))
    }
}

/// A key in the type of its table: a number, or text in the same order. Texts are in groups of four with the same first
/// eight bytes.
enum KeyText {
    Number(i64),
    Text(String),
}

fn key_text(table: usize, key: i64) -> KeyText {
    if table == NUMBERS { KeyText::Number(key) } else { KeyText::Text(format!("{:08} row {key:04}", key / 4)) }
}

fn key_value(key: &KeyText) -> Value<'_> {
    match key {
        KeyText::Number(key) => Value::Int(*key),
        KeyText::Text(text) => Value::Text(text),
    }
}

fn tag_value(table: usize, tag: i64) -> Value<'static> {
    if table == NUMBERS { Value::Int(tag) } else { Value::Text(["tag 0", "tag 1", "tag 2"][tag as usize]) }
}

fn value_of(table: usize, value: Option<i64>, text: Option<&str>) -> Value<'_> {
    match (value, text) {
        (Some(value), _) if table == NUMBERS => Value::Int(value),
        (Some(_), Some(text)) => Value::Text(text),
        _ => Value::Null,
    }
}

fn with_values<T>(table: usize, (key, tag, value): Row, with: impl FnOnce(&[Value<'_>]) -> T) -> T {
    let (key, text) = (key_text(table, key), value.map(|value| value.to_string()));
    with(&[key_value(&key), tag_value(table, tag), value_of(table, value, text.as_deref())])
}

/// The rows at the beginning: every other key, in both tables.
pub fn initial_model(keys: i64) -> Model {
    let rows =
        |table: i64| (0..keys).step_by(2).map(move |key| (key, (key % TAGS, (key % 4 == 0).then_some(table - key))));
    [rows(0).collect(), rows(1).collect()]
}

/// Makes the tables with these rows.
pub fn add_tables(engine: &Engine, model: &Model, index: IndexKind) {
    for (table, rows) in model.iter().enumerate() {
        let kinds = if table == NUMBERS {
            [ColumnType::Int64; 3]
        } else {
            [ColumnType::Text(24), ColumnType::Text(8), ColumnType::Text(20)]
        };
        let columns = ["key", "tag", "value"].into_iter().zip(kinds);
        let column =
            |(name, kind): (&str, ColumnType)| ColumnSpec { name: name.to_owned(), kind, nullable: name == "value" };
        let spec = TableSpec {
            name: format!("t{table}"),
            columns: columns.map(column).collect(),
            primary_key: vec![0],
            secondary: vec![vec![1]],
        };
        let stored = engine.create_table_with(spec, index).expect("a small table");
        for (&key, &(tag, value)) in rows {
            with_values(table, (key, tag, value), |values| stored.load(values)).expect("distinct keys");
        }
    }
}
