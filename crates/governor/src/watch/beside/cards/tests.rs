//! Cards that looks create, without a server.

use plimsoll_policy::{Login, PreemptionPolicy};

use super::super::links::Pooled;
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
        self.look(sight, Span::at(Instant::now()))
    }

    fn look(&mut self, sight: Sight, look: Span) -> Noticed {
        self.cards.see(&sight, &self.governor.settings(), 1, |_| true, look)
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

/// Server processes of a pooler.
struct Pool {
    world: World,
    start: Instant,
}

impl Pool {
    fn new() -> Pool {
        let mut world = World::new(|settings| {
            settings.preemption.policy = PreemptionPolicy::parse("pow").expect("a policy");
            settings.classes[1].retries = true;
        });
        world.cards.show_links(vec![None], true);
        Pool { world, start: Instant::now() }
    }

    fn moment(&self, ms: u64) -> Instant {
        self.start + Duration::from_millis(ms)
    }

    /// A look at that millisecond: process 7, by its server's user `app`, works for a transaction that began then.
    fn look(&mut self, ms: u64, transaction: i64, waits_for_lock: bool) -> Noticed {
        let row = Row { waits_for_lock, ..active(7, "app", transaction, "update t set a = 1") };
        self.see(ms, vec![row])
    }

    fn see(&mut self, ms: u64, rows: Vec<Row>) -> Noticed {
        let at = 100 * SECOND;
        self.world.look(Sight { rows, at, commits_wait: false }, Span::at(self.moment(ms)))
    }

    /// The pooler was asked for that long, and process 7 served that client; `others` are connected, too.
    fn shown(&mut self, (began, ended): (u64, u64), client: Option<&str>, others: &[&str]) {
        let login = |user: &str| Login { user: user.to_owned(), database: "shop".to_owned(), ..Login::default() };
        let pooled = Pooled { client: client.map(login), database: "shop".to_owned() };
        let clients = client.iter().chain(others).map(|user| login(user)).collect();
        let links = Links {
            span: Span { began: self.moment(began), ended: self.moment(ended) },
            pooled: BTreeMap::from([((7, None), pooled)]),
            clients: BTreeMap::from([("shop".to_owned(), clients)]),
        };
        self.world.cards.show_links(vec![Some(Arc::new(links))], false);
    }

    /// Class, whether it is certain, whether the transaction may be rolled back, and the class of the CPU share.
    fn judged(&self) -> (ClassIndex, bool, bool, ClassIndex) {
        let state = self.world.state(7);
        (state.class, state.is_class_certain, state.preemptible, state.served)
    }
}

#[test]
fn a_poolers_transaction_has_the_class_of_its_client_once_that_is_certain() {
    let mut pool = Pool::new();
    pool.look(0, 50, false);
    assert_eq!(pool.judged(), (LOW, false, false, LOW), "nobody knows yet who uses the process");
    pool.shown((1, 2), Some("report"), &["high"]);
    pool.look(3, 50, false);
    assert_eq!(pool.judged(), (LOW, true, true, LOW), "the transaction was there before and after");
    // The answer was about the last transaction, not about this one.
    pool.look(4, 60, false);
    assert_eq!(pool.judged(), (HIGH, false, false, HIGH), "until then it may be anybody's");
    pool.look(5, 60, false);
    assert!(!pool.judged().1, "however often one looks");
    pool.shown((6, 7), Some("high"), &["report"]);
    assert!(pool.look(8, 60, true).is_anybody_late);
    assert_eq!(pool.judged(), (HIGH, true, false, HIGH));
    pool.shown((9, 10), Some("report"), &["high"]);
    pool.look(11, 60, false);
    assert_eq!(pool.judged(), (HIGH, true, false, HIGH), "a transaction never changes its client");
    pool.see(12, vec![Row::idle(7, "app")]);
    assert_eq!(pool.judged(), (HIGH, false, false, HIGH), "whoever comes next");
}

/// An answer that was given while the transaction was not yet known, or after a look, says nothing about it.
#[test]
fn a_stale_link_hits_nobody() {
    for (first, asked, second) in [(5, (4, 6), 7), (5, (1, 2), 6), (5, (6, 9), 8), (5, (4, 4), 5)] {
        let mut pool = Pool::new();
        pool.shown((0, 0), None, &["report"]);
        pool.look(first, 50, false);
        pool.shown(asked, Some("report"), &[]);
        pool.look(second, 50, true);
        let (_, is_certain, preemptible, _) = pool.judged();
        assert!(!is_certain && !preemptible, "{first} {asked:?} {second}");
    }
    let mut pool = Pool::new();
    pool.shown((0, 0), None, &["report"]);
    pool.look(5, 50, false);
    pool.shown((6, 7), Some("report"), &[]);
    pool.look(8, 50, true);
    assert_eq!(pool.judged(), (LOW, true, true, LOW), "the canary: in order, it does");
}

#[test]
fn nothing_is_done_for_a_waiter_whose_client_is_not_certain() {
    let mut pool = Pool::new();
    pool.shown((0, 0), Some("high"), &[]);
    assert!(!pool.look(1, 50, true).is_anybody_late);
    pool.shown((2, 3), Some("high"), &[]);
    assert!(pool.look(4, 50, true).is_anybody_late);
}

#[test]
fn applications_beside_a_pooler_are_known_once_it_has_shown_its_connections() {
    let mut pool = Pool::new();
    let rows = || vec![active(8, "high", 50, "select 1")];
    pool.see(1, rows());
    assert!(!pool.world.state(8).is_class_certain, "it may be a connection of the pooler");
    pool.shown((0, 1), None, &[]);
    pool.see(2, rows());
    assert!(!pool.world.state(8).is_class_certain, "the pooler was asked before");
    pool.shown((3, 4), None, &[]);
    pool.see(5, rows());
    assert!(pool.world.state(8).is_class_certain);
    // The pooler is lost: what is known of its processes is not, and they are nobody's.
    let both = || vec![active(7, "app", 60, "select 1"), active(8, "high", 50, "select 1")];
    pool.see(6, both());
    pool.world.cards.show_links(vec![None], false);
    pool.see(7, both());
    assert!(pool.world.state(8).is_class_certain && !pool.world.state(7).is_class_certain);
}

#[test]
fn a_poolers_client_that_breaks_the_glass_is_left_alone() {
    let mut pool = Pool::new();
    let mut settings = (*pool.world.governor.settings()).clone();
    settings.break_glass = vec!["root".to_owned()];
    pool.world.governor.reload(settings).unwrap();
    pool.shown((0, 0), None, &[]);
    pool.look(1, 50, false);
    pool.shown((2, 3), Some("root"), &[]);
    pool.look(4, 50, true);
    assert_eq!((pool.judged().1, pool.judged().2), (false, false));
}
