//! Cards that looks create, without a server.

use plimsoll_policy::{Login, PreemptionPolicy};

use super::*;
use crate::registry::SessionId;
use crate::testing;

const HIGH: ClassIndex = ClassIndex(0);
const LOW: ClassIndex = ClassIndex(1);
const SECOND: i64 = 1_000_000;

struct World {
    governor: Arc<Governor>,
    cards: Cards,
    at: i64,
}

/// An active session of that user, whose statement began at that second.
fn active(process: i32, user: &str, second: i64, text: &str) -> Row {
    let began = Some(second * SECOND);
    let text = text.as_bytes().to_vec();
    let state_since = second * SECOND;
    Row {
        doing: Doing::Active,
        transaction_began: began,
        statement_began: began,
        state_since,
        text,
        ..Row::idle(process, user)
    }
}

impl World {
    fn new(change: impl FnOnce(&mut Settings)) -> World {
        let governor = testing::governor(|settings| {
            settings.is_beside = true;
            change(settings);
        });
        World { cards: Cards::new(governor.clone()), governor, at: 100 * SECOND }
    }

    fn see(&mut self, rows: Vec<Row>) -> Noticed {
        self.at += SECOND;
        let sight = Sight { rows, at: self.at, commits_wait: false };
        self.cards.see(&sight, &self.governor.settings(), 1, |_| true, Instant::now())
    }

    fn state(&self, process: i32) -> CardState {
        self.cards.known[&process].card.state().clone()
    }

    fn id(&self, process: i32) -> SessionId {
        self.cards.known[&process].card.id
    }
}

#[test]
fn sessions_come_change_and_go() {
    let mut world = World::new(|_| {});
    world.see(vec![Row::idle(1, "plimsoll"), Row::idle(5, "high"), Row::idle(6, "report")]);
    assert_eq!(world.governor.registry.len(), 2, "our own is none");
    assert_eq!((world.state(5).class, world.state(6).class), (HIGH, LOW));
    assert_eq!((world.state(5).phase, world.cards.known[&6].card.process()), (Phase::Idle, Some(6)));
    let first = world.id(6);
    // Another process with the same number, and a session that changes its application name.
    world.see(vec![Row { process_began: 2 * SECOND, ..Row::idle(6, "report") }]);
    let second = world.id(6);
    let login = Login { user: "report".to_owned(), application_name: "x".to_owned(), ..Login::default() };
    world.see(vec![Row { process_began: 2 * SECOND, login, ..Row::idle(6, "report") }]);
    assert!(first != second && second != world.id(6));
    assert_eq!(world.governor.registry.len(), 1);
    world.see(Vec::new());
    assert!(world.governor.registry.is_empty());
}

#[test]
fn transactions_and_statements_are_told_apart_by_their_beginnings() {
    let mut world = World::new(|_| {});
    let place = |world: &World| (world.state(6).transaction, world.state(6).unit);
    world.see(vec![active(6, "report", 50, "select 1")]);
    let first = place(&world);
    world.see(vec![active(6, "report", 50, "select 1")]);
    assert_eq!(place(&world), first, "nothing has changed");
    assert!(world.state(6).since.elapsed() >= Duration::from_secs(50), "since the server says so");
    world.see(vec![Row { transaction_began: Some(50 * SECOND), ..active(6, "report", 60, "select 2") }]);
    assert_eq!(place(&world), (first.0, first.1 + 1));
    let thinks = Row {
        doing: Doing::IdleInTransaction { has_failed: false },
        state_since: 61 * SECOND,
        ..active(6, "report", 60, "")
    };
    world.see(vec![Row { transaction_began: Some(50 * SECOND), ..thinks }]);
    assert_eq!(
        (place(&world).0, world.state(6).phase, world.state(6).preemptible),
        (first.0, Phase::IdleInTransaction, false)
    );
    world.see(vec![active(6, "report", 70, "select 1")]);
    assert_eq!(place(&world).0, first.0 + 1);
}

#[test]
fn the_first_statement_that_is_seen_decides_the_class() {
    let mut world = World::new(|_| {});
    let class = |world: &mut World, text: &str, second: i64| {
        world.see(vec![Row { transaction_began: Some(50 * SECOND), ..active(5, "high", second, text) }]);
        world.state(5).class
    };
    assert_eq!(class(&mut world, "begin", 50), HIGH);
    assert_eq!(class(&mut world, "select 1 /*class='low'*/", 51), LOW);
    assert_eq!(class(&mut world, "select 2", 52), LOW, "its transaction goes on");
    assert_eq!((world.state(5).chosen_by, world.state(5).served), (ChosenBy::Tag, LOW));
    world.see(vec![Row::idle(5, "high")]);
    assert_eq!((world.state(5).class, world.state(5).served), (HIGH, LOW), "its process keeps its share in between");
    // A tag cannot raise a session's own class.
    world.see(vec![active(6, "report", 60, "select 1 /*class='high'*/")]);
    assert_eq!(world.state(6).class, LOW);
}

#[test]
fn only_classes_that_opted_in_are_preempted_and_nothing_that_may_have_committed() {
    let judged = |policy: &str, retries: bool, text: &str| {
        let mut world = World::new(|settings| {
            settings.preemption.policy = PreemptionPolicy::parse(policy).expect("a policy");
            settings.classes[1].retries = retries;
        });
        world.see(vec![active(6, "report", 50, text)]);
        let state = world.state(6);
        (state.preemptible, state.observed.expect("it was seen").is_tracked)
    };
    assert_eq!(judged("pow", true, "update t set a = 1"), (true, true));
    assert_eq!(judged("pow", false, "update t set a = 1"), (false, true));
    assert_eq!(judged("track", false, "update t set a = 1"), (true, true));
    for text in ["commit", "call p()", "do 'begin end'", "vacuum t", "copy t from stdin", "prepare transaction 'x'"] {
        assert_eq!(judged("pow", true, text), (false, false), "{text}");
    }
}

#[test]
fn a_transaction_that_begins_again_after_a_cancel_has_lost_once_more() {
    let mut world = World::new(|_| {});
    for (second, expect) in [(50, 0), (60, 1), (70, 2)] {
        world.see(vec![active(6, "report", second, "update t set a = 1")]);
        assert_eq!(world.state(6).rollbacks, expect);
        let (card, place) = (world.cards.known[&6].card.clone(), (world.state(6).transaction, world.state(6).unit));
        assert!(card.aim_preemption(place.0, place.1));
        card.cancel_arrived(true, true);
    }
    world.see(vec![active(6, "report", 80, "select 1")]);
    world.see(vec![active(6, "report", 90, "select 1")]);
    assert_eq!(world.state(6).rollbacks, 0, "one has ended by itself");
}

#[test]
fn what_cannot_be_seen_is_listed_and_left_alone() {
    let mut world = World::new(|settings| settings.break_glass = vec!["root".to_owned()]);
    let unseen = Row { doing: Doing::Unseen, process_began: 0, ..Row::idle(6, "report") };
    let noticed = world.see(vec![unseen, Row::idle(7, "root")]);
    assert_eq!(noticed, Noticed { is_anybody_late: false, unseen: 1 });
    assert_eq!((world.state(6).phase, world.cards.known[&6].card.process()), (Phase::Ungoverned, None));
    assert!(!world.cards.known.contains_key(&7), "it breaks the glass");
    world.see(vec![Row::idle(6, "report")]);
    assert_eq!(world.cards.known[&6].card.process(), Some(6), "the right was granted");
}

#[test]
fn an_important_session_that_waits_for_a_lock_is_late() {
    let mut world = World::new(|_| {});
    let waits = |user: &str| Row { waits_for_lock: true, ..active(5, user, 50, "update t set a = 1") };
    assert!(world.see(vec![waits("high")]).is_anybody_late);
    assert!(!world.see(vec![waits("report")]).is_anybody_late);
    assert!(!world.see(vec![active(5, "high", 50, "update t set a = 1")]).is_anybody_late);
    let inside = |world: &World, class| world.governor.statistics.class(class).inside.load(Ordering::Relaxed);
    assert_eq!((inside(&world, HIGH), inside(&world, LOW)), (1, 0));
}
