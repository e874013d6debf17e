//! A stream of queries.

use std::sync::Arc;

use rand::seq::SliceRandom;
use rand_pcg::Pcg64;

use super::queries::QUERIES;
use crate::benchmark::{Client, Outcome};
use crate::database::{DatabaseError, Session};

/// A client that runs the chosen queries in a random order of its own, then again in another, each time with parameters
/// drawn anew. Every query comes once a round, as in the streams of TPC-H 5.3.5.
#[derive(Debug)]
pub struct QueryClient {
    random: Pcg64,
    scale: f64,
    /// The queries of a round, as positions in [`QUERIES`].
    chosen: Arc<[usize]>,
    /// What is left of this round, last first.
    round: Vec<usize>,
    /// The text of the query drawn last.
    sql: String,
    /// Rows received in all.
    rows: u64,
}

impl QueryClient {
    /// The client of that number; equal seeds and numbers give equal streams.
    pub fn new(seed: u64, number: usize, scale: f64, chosen: Arc<[usize]>) -> Self {
        let random = Pcg64::new(u128::from(seed), number as u128);
        QueryClient { random, scale, chosen, round: Vec::new(), sql: String::new(), rows: 0 }
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
        if self.round.is_empty() {
            self.round.extend_from_slice(&self.chosen);
            self.round.shuffle(&mut self.random);
        }
        let number = self.round.pop().expect("a round was begun if the last had ended");
        let query = &QUERIES[number];
        let parameters = (query.draw)(&mut self.random);
        self.sql = query.sql_with(&parameters, self.scale);
        number
    }

    fn run(&mut self, session: &mut dyn Session) -> Result<Outcome, DatabaseError> {
        let answer = session.query(&self.sql)?;
        self.rows += answer.batches.iter().map(|batch| batch.num_rows() as u64).sum::<u64>();
        Ok(Outcome::Committed)
    }
}
