//! A client: draws a transaction and its input, then runs it.

use std::sync::Arc;

use rand_pcg::Pcg64;

use super::audit::Audit;
use super::buffers::Buffers;
use super::population::{RUN_TIME_US, Sizes};
use super::request::{Request, TransactionKind};
use super::schema::{TEXT_MAX, TITLE_MAX};
use super::words::write_words;
use super::{inserts, reads, updates};
use crate::benchmark::{Client, Outcome};
use crate::database::{DatabaseError, Session};

/// One client of the benchmark.
#[derive(Debug)]
pub(super) struct AsdbClient {
    number: usize,
    random: Pcg64,
    sizes: Sizes,
    /// The request drawn last.
    drawn: Option<(TransactionKind, Request)>,
    /// What rows are stamped with: a clock that moves 10 ms with each request, whatever the speed of the database.
    clock_us: i64,
    /// The title or the text that the request writes.
    text: String,
    buffers: Buffers,
    audit: Arc<Audit>,
}

impl AsdbClient {
    pub(super) fn new(seed: u64, sizes: Sizes, number: usize, audit: Arc<Audit>) -> Self {
        // No part of a table has a stream beyond 2^64, so none is a client's.
        let random = Pcg64::new(u128::from(seed), 1 << 127 | number as u128);
        let (text, buffers) = (String::new(), Buffers::default());
        AsdbClient { number, random, sizes, drawn: None, clock_us: RUN_TIME_US, text, buffers, audit }
    }

    /// The request drawn last.
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
        let (buffers, time, text) = (&mut self.buffers, self.clock_us, self.text.as_str());
        let mut deleted = 0;
        let outcome = match request {
            Request::ReadLite { account } => reads::read_lite(*account, session, buffers)?,
            Request::ReadMedium { branch, place } => reads::read_medium(*branch, *place, session, buffers)?,
            Request::ReadHeavy { topic } => reads::read_heavy(*topic, session, buffers)?,
            Request::UpdateLite { account, amount } => updates::update_lite(*account, *amount, session, buffers)?,
            Request::UpdateHeavy { documents } => updates::update_heavy(documents, time, text, session, buffers)?,
            Request::InsertLite(entries) => inserts::insert(entries, time, text, session, buffers)?,
            Request::InsertHeavy(entries) => inserts::insert(entries, time, text, session, buffers)?,
            Request::Delete(accounts) => {
                let outcome;
                (outcome, deleted) = inserts::delete(accounts, session, buffers)?;
                outcome
            }
            Request::CpuHeavy { addend } => reads::cpu_heavy(*addend, session, buffers)?,
        };
        self.audit.tally(self.number).completed(*kind, request, deleted);
        Ok(outcome)
    }
}
