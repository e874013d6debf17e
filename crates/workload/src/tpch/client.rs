//! A stream of queries.

use std::sync::Arc;

use rand::seq::SliceRandom;
use rand_pcg::Pcg64;

use super::queries::QUERIES;
use crate::benchmark::{Client, Outcome};
use crate::database::{DatabaseError, Session};

/// The order of a stream: the chosen queries in a random order, then again in another. Every query comes once a round, as in the
/// streams of TPC-H 5.3.5.
#[derive(Debug)]
pub(crate) struct Rounds {
    random: Pcg64,
    /// The queries of a round, as positions.
    chosen: Arc<[usize]>,
    /// The rest of this round, last first.
    left: Vec<usize>,
}

impl Rounds {
    /// Those of the client of that number; equal seeds and numbers give equal ones.
    pub(crate) fn new(seed: u64, number: usize, chosen: Arc<[usize]>) -> Self {
        Rounds { random: Pcg64::new(u128::from(seed), number as u128), chosen, left: Vec::new() }
    }

    pub(crate) fn next(&mut self) -> usize {
        if self.left.is_empty() {
            self.left.extend_from_slice(&self.chosen);
            self.left.shuffle(&mut self.random);
        }
        self.left.pop().expect("a round was begun if the last had ended")
    }
}

/// A client that runs queries in its own order, each time with newly drawn parameters.
#[derive(Debug)]
pub struct QueryClient {
    rounds: Rounds,
    scale: f64,
    /// The text of the query drawn last.
    sql: String,
    /// Rows received in all.
    rows: u64,
}

impl QueryClient {
    /// The client of that number; equal seeds and numbers give equal streams.
    pub fn new(seed: u64, number: usize, scale: f64, chosen: Arc<[usize]>) -> Self {
        QueryClient { rounds: Rounds::new(seed, number, chosen), scale, sql: String::new(), rows: 0 }
    }

    /// The text of the query drawn last; empty before the first.
    pub fn sql(&self) -> &str {
        &self.sql
    }

    /// How many rows all answers so far had together.
    pub fn rows(&self) -> u64 {
        self.rows
    }
}

impl Client for QueryClient {
    fn draw(&mut self) -> usize {
        let number = self.rounds.next();
        let query = &QUERIES[number];
        let parameters = (query.draw)(&mut self.rounds.random);
        self.sql = query.sql_with(&parameters, self.scale);
        number
    }

    fn run(&mut self, session: &mut dyn Session) -> Result<Outcome, DatabaseError> {
        let answer = session.query(&self.sql)?;
        self.rows += answer.batches.iter().map(|batch| batch.num_rows() as u64).sum::<u64>();
        Ok(Outcome::Committed)
    }
}
