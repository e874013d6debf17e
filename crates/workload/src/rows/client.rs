//! A client: draws rows, then reads, updates or inserts them in one transaction.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use rand::RngExt;
use rand_pcg::Pcg64;

use super::data::{VALUES, write_text};
use super::schema::{BIGINT, TEXT};
use super::{Columns, RandomRows, Work};
use crate::benchmark::{Client, Outcome};
use crate::database::{DatabaseError, Session};
use crate::keyed;
use crate::statement::{Rows, Statement, Value};

/// The operation of a transaction on its rows; its position among the benchmark's transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TransactionKind {
    Read = 0,
    Update = 1,
    Insert = 2,
}

/// The distance of a client's next inserted key from its last: the most clients that insert, each of which takes its own
/// remainder.
const CLIENTS_MAX: i64 = 4_096;

/// Text keys from here on have another digit, so that they would not sort as their numbers do.
const TEXT_KEYS_END: i64 = 100_000_000_000;

/// A row that a transaction will touch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Touch {
    /// The row's key.
    pub(super) key: i64,
    /// The value that is inserted, or the number whose text is written, where a text is updated.
    pub(super) value: i64,
}

#[derive(Debug)]
pub(super) struct RowsClient {
    random: Pcg64,
    row_count: i64,
    columns: Columns,
    /// The share that updates of the transactions that do not insert.
    updates: f64,
    /// The share of transactions that insert.
    inserts: f64,
    next_key: i64,
    /// Its number among the clients, from 0.
    number: usize,
    kind: TransactionKind,
    touched: Box<[Touch]>,
    key: String,
    value: String,
    rows: Rows,
    work: Arc<Work>,
}

impl RowsClient {
    pub(super) fn new(benchmark: &RandomRows, number: usize, seed: u64) -> Self {
        let inserted_before = benchmark.work.inserted_before.load(Ordering::Relaxed);
        RowsClient {
            random: Pcg64::new(u128::from(seed), number as u128),
            row_count: benchmark.row_count() as i64,
            columns: benchmark.columns,
            updates: benchmark.updates,
            inserts: benchmark.inserts,
            next_key: (benchmark.row_count() + inserted_before + number as u64) as i64 + 1,
            number,
            kind: TransactionKind::Read,
            touched: vec![Touch { key: 0, value: 0 }; benchmark.rows_per_transaction].into(),
            key: String::new(),
            value: String::new(),
            rows: Rows::new(),
            work: benchmark.work.clone(),
        }
    }

    /// The rows of the transaction drawn last.
    #[cfg(test)]
    pub(super) fn touched(&self) -> &[Touch] {
        &self.touched
    }

    /// Fails if no key is left for a client that inserts.
    fn must_have_keys(&self) -> Result<(), DatabaseError> {
        let why = match (self.kind, self.columns) {
            (TransactionKind::Insert, _) if self.number as i64 >= CLIENTS_MAX => {
                format!("at most {CLIENTS_MAX} clients insert; let fewer, or set inserts to 0")
            }
            (TransactionKind::Insert, Columns::Text) if self.next_key >= TEXT_KEYS_END => {
                "there are no more text keys to insert; load the rows again".to_owned()
            }
            _ => return Ok(()),
        };
        Err(DatabaseError::Failed(why))
    }

    /// Reads, updates or inserts one row.
    fn touch(&mut self, session: &mut dyn Session, touch: Touch) -> Result<(), DatabaseError> {
        let key = match self.columns {
            Columns::BigInt => Value::Int(touch.key),
            Columns::Text => {
                write_text(touch.key, &mut self.key);
                Value::Text(&self.key)
            }
        };
        let touched = match (self.kind, self.columns) {
            (TransactionKind::Read, Columns::BigInt) => {
                session.execute(&READ_BIGINT, &[key], &mut self.rows)?;
                self.rows.len() as u64
            }
            (TransactionKind::Read, Columns::Text) => {
                session.execute(&READ_TEXT, &[key], &mut self.rows)?;
                self.rows.len() as u64
            }
            (TransactionKind::Update, Columns::BigInt) => {
                session.execute(&UPDATE_BIGINT, &[key], &mut self.rows)?;
                self.rows.affected()
            }
            (TransactionKind::Update, Columns::Text) => {
                write_text(touch.value, &mut self.value);
                session.execute(&UPDATE_TEXT, &[key, Value::Text(&self.value)], &mut self.rows)?;
                self.rows.affected()
            }
            (TransactionKind::Insert, Columns::BigInt) => {
                session.execute(&INSERT_BIGINT, &[key, Value::Int(touch.value)], &mut self.rows)?;
                self.rows.affected()
            }
            (TransactionKind::Insert, Columns::Text) => {
                write_text(touch.value, &mut self.value);
                session.execute(&INSERT_TEXT, &[key, Value::Text(&self.value)], &mut self.rows)?;
                self.rows.affected()
            }
        };
        if touched == 1 {
            return Ok(());
        }
        session.rollback()?;
        let key = touch.key;
        Err(DatabaseError::Failed(format!("{touched} rows have the key {key}; were they loaded at this scale?")))
    }
}

impl Client for RowsClient {
    fn draw(&mut self) -> usize {
        let draws_insert = self.inserts > 0.0 && self.random.random_bool(self.inserts);
        let draws_update = self.random.random_bool(self.updates);
        self.kind = match (draws_insert, draws_update) {
            (true, _) => TransactionKind::Insert,
            (false, true) => TransactionKind::Update,
            (false, false) => TransactionKind::Read,
        };
        for touch in &mut self.touched {
            touch.key = self.random.random_range(1..=self.row_count);
            if draws_insert {
                touch.key = self.next_key;
                self.next_key += CLIENTS_MAX;
            }
            // Drawn for every kind of transaction, so that the keys do not depend on the parameters.
            touch.value = self.random.random_range(0..VALUES as i64);
        }
        self.kind as usize
    }

    fn run(&mut self, session: &mut dyn Session) -> Result<Outcome, DatabaseError> {
        self.must_have_keys()?;
        session.begin()?;
        for row in 0..self.touched.len() {
            self.touch(session, self.touched[row])?;
        }
        session.commit()?;
        let count = match self.kind {
            TransactionKind::Read => return Ok(Outcome::Committed),
            TransactionKind::Update => &self.work.updated,
            TransactionKind::Insert => &self.work.inserted,
        };
        // Relaxed: read only after the clients have ended.
        count.fetch_add(self.touched.len() as u64, Ordering::Relaxed);
        Ok(Outcome::Committed)
    }
}

/// (key) → (value).
static READ_BIGINT: Statement =
    keyed::statement!(BIGINT, "rows_read_bigint", "SELECT pair_value FROM pairs WHERE pair_key = $1");

/// (key) → (value), both texts.
static READ_TEXT: Statement =
    keyed::statement!(TEXT, "rows_read_text", "SELECT pair_value FROM pairs WHERE pair_key = $1");

/// (key): adds one to the value, so that the sum of all values shows the number of updates.
static UPDATE_BIGINT: Statement =
    keyed::statement!(BIGINT, "rows_update_bigint", "UPDATE pairs SET pair_value = pair_value + 1 WHERE pair_key = $1");

/// (key, value): replaces the value.
static UPDATE_TEXT: Statement =
    keyed::statement!(TEXT, "rows_update_text", "UPDATE pairs SET pair_value = $2 WHERE pair_key = $1");

/// (key, value).
static INSERT_BIGINT: Statement =
    keyed::statement!(BIGINT, "rows_insert_bigint", "INSERT INTO pairs (pair_key, pair_value) VALUES ($1, $2)");

/// (key, value), both texts.
static INSERT_TEXT: Statement =
    keyed::statement!(TEXT, "rows_insert_text", "INSERT INTO pairs (pair_key, pair_value) VALUES ($1, $2)");

pub(super) static STATEMENTS: [&Statement; 6] =
    [&READ_BIGINT, &READ_TEXT, &UPDATE_BIGINT, &UPDATE_TEXT, &INSERT_BIGINT, &INSERT_TEXT];
