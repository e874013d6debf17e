//! A stream of queries.

use std::sync::Arc;

use crate::benchmark::{Client, Outcome};
use crate::database::{DatabaseError, Session};
use crate::tpch::client::Rounds;

/// A client that runs the chosen queries in a random order of its own, then again in another.
#[derive(Debug)]
pub(super) struct QueryClient {
    rounds: Rounds,
    /// The texts of all queries, in order.
    texts: Arc<[String]>,
    /// The query drawn last.
    drawn: usize,
}

impl QueryClient {
    /// The client of that number; equal seeds and numbers give equal streams.
    pub(super) fn new(seed: u64, number: usize, texts: Arc<[String]>, chosen: Arc<[usize]>) -> Self {
        QueryClient { rounds: Rounds::new(seed, number, chosen), texts, drawn: 0 }
    }
}

impl Client for QueryClient {
    fn draw(&mut self) -> usize {
        self.drawn = self.rounds.next();
        self.drawn
    }

    fn run(&mut self, session: &mut dyn Session) -> Result<Outcome, DatabaseError> {
        session.query(&self.texts[self.drawn])?;
        Ok(Outcome::Committed)
    }
}
