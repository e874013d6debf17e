//! Sessions as text: the input of each peer, and the resulting output to both.

use std::sync::Arc;
use std::time::{Duration, Instant};

use plimsoll_policy::Login;

use super::*;
use crate::governor::Heard;
use crate::registry::{BackendKey, EventId, SessionId};
use crate::settings::for_tests;

mod aborting;
mod classes;
mod damage;
mod ending;
mod failing;
mod foresight;
mod migrating;
mod odd;
mod relaying;
mod replaying;
mod residue;
mod story;
mod thinking;
mod workers;

use story::{Story, check, check_as, check_each};

fn session(governor: &Arc<Governor>, user: &str, now: Instant) -> Session {
    let login = Login { user: user.to_owned(), database: "shop".to_owned(), application_name: "test".to_owned() };
    let class = governor.settings().rules.of_login(&login).class;
    let id = governor.registry.next_id();
    let card = Arc::new(SessionCard::new(id, 0, "test".to_owned(), login, class, now));
    card.key.set(BackendKey { process: 1000 + id.0 as i32, secret: Box::new([0; 4]) }).expect("set once");
    governor.registry.insert(card.clone());
    Session::new(governor.clone(), card, Reported::default(), now)
}

/// The current transaction and unit of a session.
fn place(card: &SessionCard) -> (u64, u64) {
    let state = card.state();
    (state.transaction, state.unit)
}

#[test]
fn a_transaction_that_waits_is_told_after_a_while_and_leaves_the_queue_with_its_client() {
    let mut first = Story::new("low_user");
    let mut second = first.beside("low_user");
    first.play("> Q:begin => S[Q:begin]");
    second.play("> Q:begin => ");
    assert_eq!(second.session.wakes_at(), Some(second.now + QUEUE_NOTICE_AFTER));
    second.now += Duration::from_secs(5);
    second.play("! time => C[N:00000]");
    second.play("! time => ");
    assert_eq!(second.governor.waiting().len(), 1);
    second.session.close(second.now);
    assert_eq!(second.governor.waiting().len(), 0);
    first.play("< C:BEGIN Z:T => C[C:BEGIN Z:T]\n= Q:commit => C:COMMIT Z:I");
    assert_eq!(first.governor.inside(first.session.identity.class), 0);
}

#[test]
fn a_client_that_thinks_for_too_long_is_ended() {
    let mut story = Story::new("low_user");
    story.play("= Q:begin => C:BEGIN Z:T");
    story.now += Duration::from_secs(60);
    story.play("! time => C[E:25P03]");
    assert!(story.session.has_ended());
}

#[test]
fn the_watcher_hears_of_urgent_units_only_when_they_are_late() {
    let mut story = Story::new("high_user");
    let mut low = story.beside("low_user");
    low.play("= Q:begin => C:BEGIN Z:T\n> Q:update => S[Q:update]");
    let low_wakes_at = low.session.wakes_at();
    assert!(low_wakes_at.is_none_or(|at| at > low.now + Duration::from_secs(1)), "nobody is less important than low");
    story.play("> Q:select => S[Q:select]");
    let due = story.session.wakes_at().expect("it may be late");
    assert_eq!(due - story.now, Duration::from_millis(2));
    assert_eq!(story.governor.bell.wait(Duration::ZERO), Heard::Nothing);
    story.now = due;
    story.play("! time => ");
    assert_eq!(story.governor.bell.wait(Duration::ZERO), Heard::Late);
    assert_eq!(story.session.wakes_at(), None);
}

#[test]
fn while_nobody_less_important_is_inside_it_is_only_seen_now_and_then_whether_somebody_has_come() {
    let mut story = Story::new("high_user");
    let mut low = story.beside("low_user");
    story.play("> Q:select => S[Q:select]");
    for round in 1..=2 {
        let due = story.session.wakes_at().expect("somebody may come");
        assert_eq!(due - story.now, LATE_WITH_NOBODY_BELOW, "round {round}");
        story.now = due;
        story.play("! time => ");
        assert_eq!(story.governor.bell.wait(Duration::ZERO), Heard::Nothing);
    }
    low.play("> Q:begin => S[Q:begin]");
    story.now = story.session.wakes_at().expect("somebody may come");
    story.play("! time => ");
    assert_eq!(story.governor.bell.wait(Duration::ZERO), Heard::Late);
    assert_eq!(story.session.wakes_at(), None);
    story.play("< C:SELECT Z:I => C[C:SELECT Z:I]");
    assert_eq!(story.session.wakes_at(), None);
}

/// A pool's sessions log in with the same user, and each transaction carries a tag with its class. They once returned
/// to the share of their login, low, whenever no transaction was open, and got the share of the next transaction up to
/// 50 ms after it had begun.
#[test]
fn the_share_of_the_cores_stays_that_of_the_last_transaction_and_changes_with_the_next() {
    let mut story = Story::with("high_user", |settings| {
        (settings.cpu.shares, settings.classes[1].cpu) = (true, crate::settings::CpuShare::Idle);
    });
    let changes = |story: &Story| (story.session.card.state().served.0, story.governor.take_changed_shares());
    story.play("= Q:select => C:SELECT Z:I");
    assert_eq!(changes(&story), (0, false));
    story.play("= Q:select_1_/*class='low'*/ => C:SELECT Z:I");
    assert_eq!(changes(&story), (1, true));
    story.play("= Q:select_2_/*class='low'*/ => C:SELECT Z:I");
    assert_eq!(changes(&story), (1, false));
    story.play("> Q:select_3 => S[Q:select_3]");
    assert_eq!(changes(&story), (0, true));
}

#[test]
fn ids_are_never_used_twice() {
    let governor = Governor::new(for_tests(), Instant::now());
    let ids: Vec<SessionId> = (0..3).map(|_| governor.registry.next_id()).collect();
    assert_eq!(ids, [1, 2, 3].map(SessionId));
}
