//! A session whose client is an application: a round trip lies between two statements of a transaction.

use std::time::Duration;

use plimsoll_policy::Priority;
use rand_pcg::Pcg32;

use super::client_loop::Signals;
use super::clock::{Clock, Nanos};
use super::streams::{Purpose, stream};
use super::{ClientOptions, Delay};
use crate::database::{DatabaseError, LockWait, QueryAnswer, QueryPlan, Session, SessionUsage};
use crate::statement::{Rows, Statement, Value};

/// Sleeps after each successful statement, so that the locks of a transaction are held as long as with a client across
/// a network, which receives the answer before it sends the next statement.
///
/// There is no round trip before the first statement, when no locks are held yet, and none after the commit, when none
/// are held any more. Nor is there one after an error: a transaction that was rolled back runs again at once (MW 2.7).
///
/// The round trip's recorded length is that of the sleep, including a late wake-up. None of it is due to the database:
/// without a free core, an application does not read its answers sooner, either.
pub(super) struct RoundTrips<'a, C> {
    session: Box<dyn Session>,
    length: Delay,
    /// Draws the lengths. How many are drawn depends on how often transactions are run again; the sequence does not.
    random: Pcg32,
    clock: &'a C,
    signals: &'a Signals,
    slept: Nanos,
    /// Whether a transaction is open: a statement outside of one leaves no locks behind.
    is_open: bool,
}

impl<'a, C: Clock> RoundTrips<'a, C> {
    /// The session of client number `client`.
    pub(super) fn new(
        session: Box<dyn Session>,
        options: &ClientOptions,
        workload: &str,
        client: usize,
        clock: &'a C,
        signals: &'a Signals,
    ) -> Self {
        let random = stream(options.seed, workload, client, Purpose::RoundTrip);
        RoundTrips { session, length: options.round_trip, random, clock, signals, slept: 0, is_open: false }
    }

    /// How long the client has slept in all.
    pub(super) fn slept(&self) -> Duration {
        Duration::from_nanos(self.slept)
    }

    /// Sleeps for the next round trip, unless the run is over.
    fn travel(&mut self) {
        let length = self.length.draw(&mut self.random);
        if length == 0 {
            return;
        }
        let begin = self.clock.now();
        let mut now = begin;
        while now < begin + length && !self.signals.halted() {
            self.clock.doze_until(begin + length);
            now = self.clock.now();
        }
        self.slept += now - begin;
    }
}

impl<C: Clock> Session for RoundTrips<'_, C> {
    fn set_priority(&mut self, priority: Priority) {
        self.session.set_priority(priority);
    }

    fn begin(&mut self) -> Result<(), DatabaseError> {
        self.session.begin()?;
        self.is_open = true;
        Ok(())
    }

    fn execute(
        &mut self,
        statement: &Statement<'_>,
        parameters: &[Value<'_>],
        rows: &mut Rows,
    ) -> Result<(), DatabaseError> {
        let outcome = self.session.execute(statement, parameters, rows);
        self.is_open &= outcome.is_ok();
        if self.is_open {
            self.travel();
        }
        outcome
    }

    fn commit(&mut self) -> Result<(), DatabaseError> {
        self.is_open = false;
        self.session.commit()
    }

    fn rollback(&mut self) -> Result<(), DatabaseError> {
        self.is_open = false;
        self.session.rollback()
    }

    fn query(&mut self, sql: &str) -> Result<QueryAnswer, DatabaseError> {
        self.session.query(sql)
    }

    /// Between the messages of a recording are its own pauses.
    fn exchange(&mut self, request: &[u8], on: &mut dyn FnMut(u8, &[u8])) -> Result<bool, DatabaseError> {
        self.session.exchange(request, on)
    }

    fn reset(&mut self) -> Result<(), DatabaseError> {
        self.session.reset()
    }

    fn plan(&mut self, sql: &str) -> Result<Option<QueryPlan>, DatabaseError> {
        self.session.plan(sql)
    }

    fn server_process(&self) -> Option<i32> {
        self.session.server_process()
    }

    fn usage(&self) -> SessionUsage {
        self.session.usage()
    }

    fn take_lock_waits(&mut self, waits: &mut Vec<LockWait>) {
        self.session.take_lock_waits(waits);
    }
}

#[cfg(test)]
mod tests;
