//! A client: draws a transaction and its input, then runs it.

use std::sync::Arc;

use rand_pcg::Pcg64;

use super::audit::Audit;
use super::population::{RUN_TIME_US, Sizes};
use super::request::{Request, TransactionKind};
use super::schema::{TEXT_MAX, TITLE_MAX};
use super::{execute_one, inserts, reads, updates};
use crate::benchmark::{Client, Outcome};
use crate::database::{DatabaseError, Session};
use crate::statement::{Rows, Value};
use crate::words::write_words;

#[derive(Debug)]
pub(super) struct AsdbClient {
    number: usize,
    random: Pcg64,
    sizes: Sizes,
    /// The request drawn last.
    drawn: Option<(TransactionKind, Request)>,
    /// The time that rows are stamped with: a clock that moves 10 ms with each request, at any speed of the database.
    clock_us: i64,
    /// The title or the text that the request writes.
    text: String,
    rows: Rows,
    audit: Arc<Audit>,
}

impl AsdbClient {
    pub(super) fn new(seed: u64, sizes: Sizes, number: usize, audit: Arc<Audit>) -> Self {
        // Parts of a table have streams below 2^64, so a client's differs from all of them.
        let random = Pcg64::new(u128::from(seed), 1 << 127 | number as u128);
        let (text, rows) = (String::new(), Rows::new());
        AsdbClient { number, random, sizes, drawn: None, clock_us: RUN_TIME_US, text, rows, audit }
    }

    #[cfg(test)]
    pub(super) fn drawn(&self) -> Option<&(TransactionKind, Request)> {
        self.drawn.as_ref()
    }
}

impl Client for AsdbClient {
    fn draw(&mut self) -> usize {
        let (kind, request) = Request::draw(&mut self.random, self.sizes);
        self.clock_us += 10_000;
        let (shortest, longest) = if kind == TransactionKind::UpdateHeavy { (30, TITLE_MAX) } else { (40, TEXT_MAX) };
        if matches!(kind, TransactionKind::UpdateHeavy | TransactionKind::InsertLite | TransactionKind::InsertHeavy) {
            write_words(&mut self.random, shortest, longest, &mut self.text);
        }
        self.drawn = Some((kind, request));
        kind as usize
    }

    fn run(&mut self, session: &mut dyn Session) -> Result<Outcome, DatabaseError> {
        let (kind, request) = self.drawn.as_ref().expect("the driver draws before it runs");
        let (rows, time, text) = (&mut self.rows, self.clock_us, self.text.as_str());
        let mut deleted = 0;
        session.begin()?;
        match request {
            Request::ReadLite { account } => execute_one(session, &reads::READ_ACCOUNT, &[Value::Int(*account)], rows)?,
            Request::ReadMedium { branch, place } => reads::read_medium(*branch, *place, session, rows)?,
            Request::ReadHeavy { topic } => execute_one(session, &reads::READ_TOPIC, &[Value::Int(*topic)], rows)?,
            Request::UpdateLite { account, amount } => {
                execute_one(session, &updates::ADD_TO_BALANCE, &[*account, *amount].map(Value::Int), rows)?;
            }
            Request::UpdateHeavy { documents } => updates::update_heavy(documents, time, text, session, rows)?,
            Request::InsertLite(entries) => inserts::insert(entries, time, text, session, rows)?,
            Request::InsertHeavy(entries) => inserts::insert(entries, time, text, session, rows)?,
            Request::Delete(accounts) => deleted = inserts::delete(accounts, session, rows)?,
            Request::CpuHeavy { addend } => execute_one(session, &reads::SUM_PAIRS, &[Value::Int(*addend)], rows)?,
        }
        session.commit()?;
        self.audit.of(self.number).completed(*kind, request, deleted);
        Ok(Outcome::Committed)
    }
}
