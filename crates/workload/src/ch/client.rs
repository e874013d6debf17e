//! A stream of queries.

use std::sync::Arc;

use rand::seq::SliceRandom;
use rand_pcg::Pcg64;

use crate::benchmark::{Client, Outcome};
use crate::database::{DatabaseError, Session};

/// A client that runs the chosen queries in a random order of its own, then again in another.
#[derive(Debug)]
pub(super) struct QueryClient {
    random: Pcg64,
    /// The texts of all queries, in order.
    texts: Arc<[String]>,
    /// The queries of a round, as positions in `texts`.
    chosen: Arc<[usize]>,
    /// What is left of this round, last first.
    round: Vec<usize>,
    /// The query drawn last.
    drawn: usize,
}

impl QueryClient {
    /// The client of that number; equal seeds and numbers give equal streams.
    pub(super) fn new(seed: u64, number: usize, texts: Arc<[String]>, chosen: Arc<[usize]>) -> Self {
        let random = Pcg64::new(u128::from(seed), number as u128);
        QueryClient { random, texts, chosen, round: Vec::new(), drawn: 0 }
    }
}

impl Client for QueryClient {
    fn draw(&mut self) -> usize {
        if self.round.is_empty() {
            self.round.extend_from_slice(&self.chosen);
            self.round.shuffle(&mut self.random);
        }
        self.drawn = self.round.pop().expect("a round was begun if the last had ended");
        self.drawn
    }

    fn run(&mut self, session: &mut dyn Session) -> Result<Outcome, DatabaseError> {
        session.query(&self.texts[self.drawn])?;
        Ok(Outcome::Committed)
    }
}
