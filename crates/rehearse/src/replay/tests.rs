//! Replays against a server that gives identities of its own: by tables, and by random sessions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicI64;

use proptest::prelude::*;

use super::*;
use crate::message::testing::data_row;
use crate::message::{ask, message, messages};
use crate::plan::Selection;
use crate::testing::events;

/// Identities of this run begin here, far from all recorded ones.
const FIRST: i64 = 5_000_000;

/// A server that gives identities of its own, and refuses those it has not given.
#[derive(Default)]
struct FakeServer {
    next: AtomicI64,
    /// Identities that are committed, for everyone to see.
    given: Mutex<BTreeSet<i64>>,
    /// What each session has sent, with `#` for identities.
    seen: Mutex<BTreeMap<u64, Vec<String>>>,
    /// Texts that fail.
    failing: Vec<&'static str>,
}

struct FakePeer {
    server: Arc<FakeServer>,
    session: u64,
    /// Identities of the open transaction.
    own: Vec<i64>,
    is_open: bool,
}

/// Its sessions share it.
struct Shared(Arc<FakeServer>);

impl Server for Shared {
    fn open(&self, script: &Script) -> Result<Box<dyn Peer>, String> {
        Ok(Box::new(FakePeer { server: self.0.clone(), session: script.session, own: Vec::new(), is_open: false }))
    }

    fn cancel_all(&self) {}
}

impl Exchange for FakePeer {
    fn exchange(&mut self, request: &[u8], on: &mut dyn FnMut(u8, &[u8])) -> Result<(), String> {
        let first = messages(request).next().expect("a message");
        let Some(crate::message::Ask::Query { text, .. }) = ask(&first) else { panic!("only queries here") };
        let text = String::from_utf8_lossy(text).into_owned();
        let mut failed = self.server.failing.iter().any(|word| text.contains(word));
        let mut shape = Vec::new();
        for word in text.split(' ') {
            let number = word.trim_matches(['(', ')', ',']).parse::<i64>();
            shape.push(if number.is_ok() { "#" } else { word });
            // Numbers below 100 are amounts in these tests.
            let Some(number) = number.ok().filter(|number| *number >= 100) else { continue };
            failed |= !self.own.contains(&number) && !self.server.given.lock().contains(&number);
        }
        self.server.seen.lock().entry(self.session).or_default().push(shape.join(" "));
        match text.as_str() {
            "begin" => self.is_open = true,
            "commit" | "ROLLBACK" => self.is_open = false,
            _ => {}
        }
        if failed {
            on(b'E', b"SERROR\0C23503\0Mno such row\0\0");
        } else {
            if text.contains("returning") {
                let id = FIRST + self.server.next.fetch_add(1, Ordering::Relaxed);
                self.own.push(id);
                on(b'D', &data_row(&[id.to_string().as_bytes()])[5..]);
            }
            on(b'C', b"INSERT 0 1\0");
        }
        if !self.is_open {
            let own = std::mem::take(&mut self.own);
            self.server.given.lock().extend(own);
        }
        on(b'Z', &message(b'Z', b"I")[5..]);
        Ok(())
    }
}

impl Peer for FakePeer {
    fn is_idle(&self) -> bool {
        !self.is_open
    }
}

fn pace(copies: usize) -> Pace {
    Pace { speed: Speed::Max, copies, patience: Duration::from_secs(20) }
}

/// Runs a table of units against the fake server.
fn run(table: &str, failing: Vec<&'static str>, pace: Pace) -> (Plan, Run, Arc<FakeServer>) {
    let plan = Plan::of(events(table), &Selection::ALL);
    let server = Arc::new(FakeServer { failing, ..FakeServer::default() });
    let run = replay(&plan, &Shared(server.clone()), pace, &AtomicBool::new(false));
    (plan, run, server)
}

fn outcomes(run: &Run) -> Vec<String> {
    let mut done = run.done.clone();
    done.sort_by_key(|done| (done.session, done.unit));
    let shown = |done: &Done| match &done.outcome {
        Outcome::Skipped(reason) => format!("{}.{} {}", done.session, done.unit, reason.key()),
        Outcome::Ran(ran) if ran.answered.error.is_some() => format!("{}.{} failed", done.session, done.unit),
        Outcome::Ran(_) => format!("{}.{} ran", done.session, done.unit),
    };
    done.iter().map(shown).collect()
}

#[test]
fn copies_of_a_session_have_values_of_their_own() {
    let table = "1 | 0-1 | I | insert into orders (customer) values (3) returning id | id@7=157
                 1 | 2-3 | I | update orders set state = 'x' where id = 157
                 2 | 9-10 | I | select * from orders where id = 157";
    let (_, run, server) = run(table, Vec::new(), pace(4));
    assert_eq!((run.done.len(), server.next.load(Ordering::Relaxed)), (12, 4));
    assert!(outcomes(&run).iter().all(|line| line.ends_with("ran")), "{:?}", outcomes(&run));
}

#[test]
fn what_depends_on_a_failed_unit_is_not_sent() {
    let table = "1 | 0-1 | T | begin
                 1 | 2-3 | T | insert into orders (customer) values (3) returning id | id@7=157
                 1 | 4-5 | T | insert into lines (order_id) values ( 157 )
                 1 | 6-7 | I | commit
                 1 | 8-9 | I | select 1
                 2 | 20-21 | I | select * from orders where id = 157
                 2 | 22-23 | I | select 2";
    let (_, run, server) = run(table, vec!["into orders"], pace(1));
    let expect = [
        "0.0 ran",
        "0.1 failed",
        "0.2 transaction_given_up",
        "0.3 transaction_given_up",
        "0.4 ran",
        "1.0 value_missing",
        "1.1 ran",
    ];
    assert_eq!(outcomes(&run), expect);
    let seen = server.seen.lock();
    assert_eq!(seen[&1], ["begin", "insert into orders (customer) values # returning id", "ROLLBACK", "select #"]);
}

#[test]
fn an_error_of_the_recording_changes_nothing() {
    let table = "1 | 0-1 | T | begin
                 1 | 2-3 | E | insert into bad (x) values (3) | error 23505
                 1 | 4-5 | E | select 1 | error 25P02
                 1 | 6-7 | I | rollback";
    let (_, run, _) = run(table, vec!["into bad"], pace(1));
    assert_eq!(outcomes(&run), ["0.0 ran", "0.1 failed", "0.2 ran", "0.3 ran"]);
}

#[test]
fn units_keep_their_times_and_a_stop_ends_them() {
    let table = "1 | 0-1 | I | select 1\n1 | 60-61 | I | select 2";
    let half = Pace { speed: Speed::Times(2.0), ..pace(1) };
    let (_, timed, _) = run(table, Vec::new(), half);
    assert!(timed.elapsed >= Duration::from_millis(30), "{:?}", timed.elapsed);
    let plan = Plan::of(events(table), &Selection::ALL);
    let stopped = replay(&plan, &Shared(Arc::default()), half, &AtomicBool::new(true));
    assert_eq!(outcomes(&stopped), ["0.0 ended", "0.1 ended"]);
}

/// One step of a session: what it does, and which of the known identities it uses.
#[derive(Debug, Clone)]
enum Step {
    Make,
    Use(usize),
    Chain(usize),
    Begin,
    Commit,
}

fn steps() -> impl Strategy<Value = Vec<(u64, Step)>> {
    let step = prop_oneof![
        3 => Just(Step::Make),
        3 => (0_usize..50).prop_map(Step::Use),
        2 => (0_usize..50).prop_map(Step::Chain),
        1 => Just(Step::Begin),
        1 => Just(Step::Commit),
    ];
    prop::collection::vec((1_u64..5, step), 1..60)
}

/// A recording of steps one after the other. Only committed identities, or a session's own, are known.
fn recorded(steps: &[(u64, Step)]) -> String {
    let (mut next, mut lines) = (100, Vec::new());
    let mut known: Vec<(i64, u64, bool)> = Vec::new();
    let mut open: BTreeSet<u64> = BTreeSet::new();
    for (at, (session, step)) in steps.iter().enumerate() {
        let visible: Vec<i64> =
            known.iter().filter(|(_, of, committed)| *committed || of == session).map(|(id, _, _)| *id).collect();
        let chosen = |which: &usize| visible.get(which % visible.len().max(1)).copied();
        let mut make = || {
            next += 1;
            known.push((next, *session, !open.contains(session)));
            format!("| id@7={next}")
        };
        let sql = match step {
            Step::Make => format!("insert into orders (customer) values (3) returning id {}", make()),
            Step::Use(which) => match chosen(which) {
                Some(id) => format!("update orders set state = 'x' where id = {id}"),
                None => "select 7".to_owned(),
            },
            Step::Chain(which) => match chosen(which) {
                Some(id) => {
                    let made = make();
                    format!("insert into orders (parent_order_id) values ( {id} ) returning id {made}")
                }
                None => "select 8".to_owned(),
            },
            Step::Begin => {
                open.insert(*session);
                "begin".to_owned()
            }
            Step::Commit => {
                open.remove(session);
                known.iter_mut().filter(|(_, of, _)| of == session).for_each(|one| one.2 = true);
                "commit".to_owned()
            }
        };
        let state = if open.contains(session) { 'T' } else { 'I' };
        let (sql, rest) = sql.split_once(" | ").map_or((sql.as_str(), ""), |(sql, rest)| (sql, rest));
        lines.push(format!("{session} | {}-{} | {state} | {sql} | {rest}", 2 * at, 2 * at + 1));
    }
    lines.join("\n")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Whatever the threads do: every session sends its units in order, and the server never sees an identity that it has
    /// not given and committed before.
    #[test]
    fn order_is_kept_and_no_value_is_sent_unmapped(steps in steps()) {
        let table = recorded(&steps);
        let (plan, run, server) = run(&table, Vec::new(), pace(1));
        for line in outcomes(&run) {
            prop_assert!(line.ends_with("ran"), "{line}\n{table}\n{:?}", server.seen.lock());
        }
        let seen = server.seen.lock();
        for script in &plan.sessions {
            let sent: Vec<&str> = seen[&script.session].iter().map(|text| text.split(' ').next().unwrap_or("")).collect();
            let words = |unit: &crate::plan::Planned| {
                String::from_utf8_lossy(&unit.request[5..]).split([' ', '\0']).next().unwrap_or("").to_owned()
            };
            let planned: Vec<String> = script.units.iter().map(words).collect();
            prop_assert_eq!(sent.iter().filter(|word| **word != "ROLLBACK").count(), planned.len());
            prop_assert!(planned.iter().zip(&sent).all(|(one, other)| one == other), "{planned:?} {sent:?}");
        }
    }
}
