//! A client of a capture.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use plimsoll_postgres::load::Exchange;
use plimsoll_workload::benchmark::{Between, Client, Outcome};
use plimsoll_workload::database::{DatabaseError, Refusal, Session};
use rand::RngExt;
use rand_pcg::Pcg64;

use super::Work;
use super::peer::{SessionPeer, begin_session};
use super::values::{Run, Values};
use crate::message::{Ask, ask, field, message, messages, query};
use crate::plan::{Planned, Script};
use crate::replay::{Listener, Standing, rewritten};
use crate::skip::Reason;
use crate::sql::statements;

/// How long a unit waits for one of another client.
const PATIENCE: Duration = Duration::from_secs(10);

/// A client that finds nothing to send in this many times as many sessions as there are has nothing to send.
const ROUNDS_MAX: usize = 100;

/// A client.
pub(super) struct CaptureClient {
    work: Arc<Work>,
    run: Arc<Run>,
    course: Course,
    /// The place of its session in the plan; `None` before the first.
    session: Option<usize>,
    /// The place of the unit that is sent next.
    unit: usize,
    values: Values,
    standing: Standing,
    /// Whether the server's session must become that of the recording.
    must_begin: bool,
    /// Whether the server's session has been another one of the recording.
    is_used: bool,
    /// Whether a transaction is open.
    is_open: bool,
    request: Vec<u8>,
    fault: Option<DatabaseError>,
}

/// Which sessions it runs.
enum Course {
    /// Those of a client of the recording, at its pace.
    Recorded {
        lane: usize,
        /// The place of the next session in the lane.
        next: usize,
        /// How often it has been through the capture.
        round: u64,
        /// When its previous unit had ended, microseconds since the beginning of the first round.
        ended_us: u64,
    },
    /// Any.
    Drawn { random: Pcg64 },
}

impl CaptureClient {
    pub fn recorded(work: &Arc<Work>, run: &Arc<Run>, lane: usize) -> Self {
        let course = Course::Recorded { lane, next: 0, round: 0, ended_us: 0 };
        CaptureClient::new(work, run, course, Values::Recorded(run.board(0)))
    }

    pub fn drawn(work: &Arc<Work>, run: &Arc<Run>, number: usize, seed: u64) -> Self {
        let random = Pcg64::new(u128::from(seed), number as u128);
        CaptureClient::new(work, run, Course::Drawn { random }, Values::drawn())
    }

    fn new(work: &Arc<Work>, run: &Arc<Run>, course: Course, values: Values) -> Self {
        CaptureClient {
            work: Arc::clone(work),
            run: Arc::clone(run),
            course,
            session: None,
            unit: 0,
            values,
            standing: Standing::default(),
            must_begin: false,
            is_used: false,
            is_open: false,
            request: Vec::new(),
            fault: None,
        }
    }

    /// Goes to the next session. A client that draws begins its first one at any transaction, as the sessions of a server that
    /// works are somewhere in their course.
    fn next_session(&mut self) {
        let (work, run) = (&self.work, &self.run);
        let is_first = self.session.is_none();
        let (session, unit) = match &mut self.course {
            Course::Recorded { lane, next, round, .. } => {
                let lane = &work.lanes[*lane];
                if *next == lane.len() {
                    run.leave(*round);
                    (*next, *round) = (0, *round + 1);
                    self.values = Values::Recorded(run.board(*round));
                    run.tally.looped.store(true, Ordering::Relaxed);
                }
                *next += 1;
                (lane[*next - 1], 0)
            }
            Course::Drawn { random } => {
                self.values = Values::drawn();
                let session = work.sessions[random.random_range(0..work.sessions.len())];
                let may_begin_within = is_first && work.plan.facts.created.is_empty();
                (session, if may_begin_within { beginning(&work.plan.sessions[session], random) } else { 0 })
            }
        };
        (self.session, self.unit) = (Some(session), unit);
        (self.standing, self.must_begin) = (Standing::default(), true);
    }

    /// The unit that is sent next.
    fn planned<'a>(&self, work: &'a Work) -> Option<&'a Planned> {
        work.plan.sessions[self.session?].units.get(self.unit)
    }

    /// Finds the next unit that can be sent, and makes its request. Finds none when the run is over.
    fn find(&mut self, session: &mut dyn Session) -> Result<(), DatabaseError> {
        let work = Arc::clone(&self.work);
        let mut sessions_left = ROUNDS_MAX * work.plan.sessions.len();
        while !self.run.is_over() {
            let Some(planned) = self.planned(&work) else {
                sessions_left =
                    sessions_left.checked_sub(1).ok_or_else(|| DatabaseError::Failed(NOTHING_TO_SEND.to_owned()))?;
                self.next_session();
                continue;
            };
            let given_up = self.standing.gave_up.then_some(Reason::TransactionGivenUp);
            let left_out = self.run.left_out.contains(&planned.shape).then_some(Reason::CannotRun);
            if let Some(reason) = given_up.or(planned.skip).or(left_out) {
                self.with_peer(session, |standing, peer| standing.leave_out(peer, planned, reason))?;
                self.over(planned, Some(reason));
                continue;
            }
            if self.must_begin {
                self.begin(&work.plan.sessions[self.session.expect("it has a unit")], session)?;
            }
            if let Some(request) = self.request(planned) {
                self.request = request;
                return Ok(());
            }
            if !self.run.is_over() {
                self.with_peer(session, |standing, peer| standing.give_up(peer, planned))?;
                self.over(planned, Some(Reason::ValueMissing));
            }
        }
        Ok(())
    }

    /// The request of a unit with the values of this run; `None` if one does not come.
    fn request(&self, planned: &Planned) -> Option<Vec<u8>> {
        if let Values::Recorded(board) = &self.values {
            let until = Instant::now() + PATIENCE;
            if !planned.waits.iter().all(|awaited| board.wait(*awaited, until, &self.run.is_over)) {
                return None;
            }
        }
        let session = self.session?;
        let value = |slot| self.values.get(slot, session, &self.work, &self.run);
        rewritten(planned, &value).map(|request| request.into_owned())
    }

    /// Makes the server's session that of the recording.
    fn begin(&mut self, script: &Script, session: &mut dyn Session) -> Result<(), DatabaseError> {
        if self.is_open {
            self.with_peer(session, |standing, peer| standing.send_aside(peer, &query("ROLLBACK")))?;
        }
        if std::mem::replace(&mut self.is_used, true) {
            session.reset()?;
        }
        let (read_only, before) = (self.run.read_only, preparations(&script.units[..self.unit]));
        self.with_peer(session, |standing, peer| {
            // An error is also kept by the peer.
            let _ = begin_session(peer, &script.parameters, read_only);
            script.prelude.iter().chain(&before).for_each(|request| standing.send_aside(peer, request));
        })?;
        self.must_begin = false;
        Ok(())
    }

    /// Notes that a unit is over, or was passed over for a reason, and goes to the next one.
    fn over(&mut self, planned: &Planned, passed: Option<Reason>) {
        self.values.end(planned);
        self.unit += 1;
        let tally = &self.run.tally;
        if let Some(reason) = passed {
            // Units that are never sent are counted with the capture.
            if planned.skip.is_none() && reason != Reason::CannotRun {
                tally.pass(reason);
            }
            return;
        }
        tally.sent.fetch_add(1, Ordering::Relaxed);
        if let Course::Recorded { round, ended_us, .. } = &mut self.course {
            let until_us = planned.at_us + planned.took_us;
            *ended_us = *round * self.work.plan.facts.span_us + until_us;
            tally.reached_us.fetch_max(until_us, Ordering::Relaxed);
        }
    }

    /// Does something with the server's session. Fails if the session is lost.
    fn with_peer<T>(
        &mut self,
        session: &mut dyn Session,
        act: impl FnOnce(&mut Standing, &mut SessionPeer<'_>) -> T,
    ) -> Result<T, DatabaseError> {
        let mut peer = SessionPeer::new(session);
        peer.is_open = self.is_open;
        let done = act(&mut self.standing, &mut peer);
        self.is_open = peer.is_open;
        peer.error.map_or(Ok(done), Err)
    }
}

impl Client for CaptureClient {
    fn between(&mut self, session: &mut dyn Session) -> Between {
        self.fault = self.find(session).err();
        match (&self.course, self.planned(&self.work)) {
            (Course::Recorded { round, ended_us, .. }, Some(planned)) if self.fault.is_none() => {
                let due_us = *round * self.work.plan.facts.span_us + planned.at_us;
                Between::Paused(Duration::from_micros(due_us.saturating_sub(*ended_us)))
            }
            _ => Between::Worked,
        }
    }

    fn draw(&mut self) -> usize {
        self.planned(&self.work).map_or(0, |planned| self.work.classes.of_shape(planned.shape))
    }

    fn run(&mut self, session: &mut dyn Session) -> Result<Outcome, DatabaseError> {
        if let Some(fault) = self.fault.take() {
            return Err(fault);
        }
        let work = Arc::clone(&self.work);
        let Some(planned) = self.planned(&work) else {
            return Err(DatabaseError::Failed("the run is over".to_owned()));
        };
        let (mut listener, mut words) = (Listener::new(&planned.makes), None);
        let request = std::mem::take(&mut self.request);
        let _ = self.with_peer(session, |_, peer| {
            peer.exchange(&request, &mut |tag, body| {
                listener.hear(tag, body);
                if tag == b'E' && words.is_none() {
                    words = field(body, b'M');
                }
            })
        })?;
        for (slot, value) in std::mem::take(&mut listener.made) {
            self.values.put(slot, value);
        }
        let error = listener.answered.error;
        self.with_peer(session, |standing, peer| standing.settle(peer, planned, error.is_some()))?;
        if !self.is_open {
            self.values.end_transaction(error.is_some(), &self.run);
        }
        self.over(planned, None);
        match (error, planned.recorded.error) {
            (Some(code), None) => {
                self.run.tally.failed.fetch_add(1, Ordering::Relaxed);
                Err(refused(&work.classes.names[work.classes.of_shape(planned.shape)], &code, words))
            }
            (now, then) => {
                self.run.tally.recovered.fetch_add(u64::from(now.is_none() && then.is_some()), Ordering::Relaxed);
                Ok(Outcome::Committed)
            }
        }
    }
}

impl Drop for CaptureClient {
    /// All clients of a run end together.
    fn drop(&mut self) {
        self.run.is_over.store(true, Ordering::Relaxed);
    }
}

const NOTHING_TO_SEND: &str =
    "no unit of the capture can be sent: each needs values that do not come, or the target cannot run it";

/// The error of a unit that had not failed in the recording. It is not run again by itself: its transaction is over.
fn refused(class: &str, code: &[u8; 5], message: Option<String>) -> DatabaseError {
    let words = format!("{}: {}", String::from_utf8_lossy(code), message.unwrap_or_default());
    let code = Some(String::from_utf8_lossy(code).into_owned());
    Refusal { told: format!("{class}: {words}"), words, code, position: None }.into()
}

/// A transaction of a session, drawn: the place of its first unit.
fn beginning(script: &Script, random: &mut Pcg64) -> usize {
    let mut at = random.random_range(0..script.units.len());
    while at > 0 && script.units[at - 1].leaves_open {
        at -= 1;
    }
    at
}

/// Requests that prepare and set what units have prepared and set for their session.
fn preparations(units: &[Planned]) -> Vec<Vec<u8>> {
    let (mut prepared, mut settings) = (BTreeMap::new(), Vec::new());
    for unit in units.iter().filter(|unit| unit.recorded.error.is_none()) {
        let is_plain = unit.uses.iter().all(|one| one.format.is_some());
        for one in messages(&unit.request) {
            match ask(&one) {
                Some(Ask::Parse { name, .. }) if !name.is_empty() && is_plain => {
                    prepared.insert(name, [message(b'P', one.body), message(b'S', b"")].concat());
                }
                Some(Ask::Close { is_portal: false, name }) => drop(prepared.remove(name)),
                Some(Ask::Query { text, .. }) => {
                    let all = statements(text).into_iter().filter(|one| one.is_setting && one.unfit.is_none());
                    settings.extend(all.map(|one| query(&String::from_utf8_lossy(&text[one.range]))));
                }
                _ => {}
            }
        }
    }
    settings.into_iter().chain(prepared.into_values()).collect()
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;
    use crate::message::testing::{bind, execute, parse, sync};
    use crate::plan::{Plan, Selection};
    use crate::testing::{answer, events, open, unit};

    #[test]
    fn clients_begin_where_a_transaction_does_with_what_was_prepared_before() {
        let table = "1 | 0-1 | I | set work_mem = '1MB'
                     1 | 2-3 | T | begin
                     1 | 4-5 | T | select 1
                     1 | 6-7 | I | commit";
        let plan = Plan::of(events(table), &Selection::ALL);
        let mut random = Pcg64::seed_from_u64(7);
        let all: std::collections::BTreeSet<usize> =
            (0..100).map(|_| beginning(&plan.sessions[0], &mut random)).collect();
        assert_eq!(all, [0, 1].into());
        assert_eq!(preparations(&plan.sessions[0].units[..1]), [query("set work_mem = '1MB'")]);

        let request = [parse("s1", "select $1", &[23]), bind("s1", 0, &[b"1"], 0), execute(), sync()].concat();
        let close = [message(b'C', b"Ss1\0"), sync()].concat();
        let done = || answer("I", "select", "");
        let session = [open(1, 0), unit(1, 1, 1, request, done()), unit(1, 3, 1, close, done())];
        let plan = Plan::of(session.to_vec(), &Selection::ALL);
        let units = &plan.sessions[0].units;
        assert_eq!(preparations(&units[..1]), [[parse("s1", "select $1", &[23]), sync()].concat()]);
        assert!(preparations(units).is_empty(), "it was closed");
    }
}
