//! Which sessions are seen to wait for which, and the consequences.

use std::collections::BTreeMap;

use plimsoll_policy::{Activity, NoReplay, Unsafe};

use super::stage::{Client, HIGH, LOW, Stage};
use crate::governor::{LeftAlone, Outcome, SessionCommand};
use crate::registry::{EventId, Immunity, SessionId};
use crate::watch::graph::Links;
use crate::watch::late::cards_of;
use crate::watch::look::{Looked, look};

/// Looks beginning with one client.
fn seen_by(stage: &mut Stage, client: &Client) -> Looked {
    let up = stage.control.connection().unwrap();
    look(up, &[client.process()]).unwrap()
}

/// The command to a session whose transaction is to be rolled back while its client thinks.
fn is_to_roll_back(client: &Client, event: u64) -> (SessionId, SessionCommand) {
    let (transaction, unit) = client.place();
    (client.card.id, SessionCommand::RollBackIdle { transaction, unit, event: EventId(event) })
}

/// All sessions in a look with their activities.
fn activities(stage: &Stage, looked: &Looked) -> Vec<(i32, Activity)> {
    let settings = stage.governor.settings();
    let cards = cards_of(&stage.governor, &looked.processes());
    let now = std::time::Instant::now();
    let scene = Links::default().scene(looked, cards, &settings, now, stage.governor.clock(now));
    let activity = scene.graph.transactions.iter().map(|transaction| transaction.activity);
    scene.nodes.iter().map(|node| node.process).zip(activity).collect()
}

#[test]
fn chains_are_followed_to_their_ends() {
    let mut stage = Stage::new("pow");
    let (high, middle, end) = (stage.client(HIGH), stage.client(LOW), stage.client(LOW));
    end.run("begin; select pg_advisory_xact_lock(101)");
    middle.run("begin; select pg_advisory_xact_lock(102)");
    assert_eq!(seen_by(&mut stage, &high), Looked::default(), "nobody waits");
    middle.send("select pg_advisory_xact_lock(101)");
    stage.until_it_waits(&middle);
    high.send("select pg_advisory_xact_lock(102)");
    stage.until_it_waits(&high);
    let looked = seen_by(&mut stage, &high);
    let expect = [(high.process(), vec![middle.process()]), (middle.process(), vec![end.process()])];
    assert_eq!(looked.waits, BTreeMap::from(expect));
    assert!(looked.at > 1.7e9, "the server tells its clock: {}", looked.at);
    let activities = activities(&stage, &looked);
    for (client, activity) in
        [(&high, Activity::WaitsForLock), (&middle, Activity::WaitsForLock), (&end, Activity::WaitsForClient)]
    {
        assert!(activities.contains(&(client.process(), activity)), "{activities:?}");
    }
    end.run("rollback");
    middle.outcome().unwrap();
    middle.run("rollback");
    high.outcome().unwrap();
}

#[test]
fn the_queue_for_a_row_is_seen_in_its_order() {
    let mut stage = Stage::new("pow");
    let (holder, first, high) = (stage.client(LOW), stage.client(LOW), stage.client(HIGH));
    holder.run("create table queued (id int primary key, n int); insert into queued values (1, 0)");
    let update = "begin; update queued set n = n + 1 where id = 1";
    holder.run(update);
    // The first waiter for a row holds its tuple lock and waits for the holder; the next waits for the first.
    first.send(update);
    stage.until_it_waits(&first);
    high.send(update);
    stage.until_it_waits(&high);
    let looked = seen_by(&mut stage, &high);
    let expect = [(high.process(), vec![first.process()]), (first.process(), vec![holder.process()])];
    assert_eq!(looked.waits, BTreeMap::from(expect));
    // The first waiter is rolled back; the holder, whose client thinks, is asked to roll back, too.
    let seen = stage.round().unwrap();
    assert!(seen.changed && seen.blocked);
    assert_eq!(first.failure(), "57014");
    first.run("rollback");
    assert!(stage.told().contains(&(first.card.id, SessionCommand::CancelArrived)));
    stage.until_it_waits(&high);
    stage.round().unwrap();
    assert!(stage.told().contains(&is_to_roll_back(&holder, 2)));
    stage.round().unwrap();
    assert_eq!(stage.told(), [], "it is asked once");
    holder.run("rollback");
    high.outcome().unwrap();
    high.run("rollback");
    high.run("drop table queued");
    assert_eq!(stage.counts(), [0, 0]);
}

#[test]
fn prepared_transactions_and_strangers_are_seen_and_left_alone() {
    let mut stage = Stage::new("pabort");
    let (high, preparer, stranger, low) = (stage.client(HIGH), stage.client(LOW), stage.stranger(), stage.client(LOW));
    preparer.run("create table shared_by_all (id int)");
    preparer.run("begin; lock table shared_by_all in share mode; prepare transaction 'watched'");
    high.send("begin; lock table shared_by_all");
    stage.until_it_waits(&high);
    let looked = seen_by(&mut stage, &high);
    assert_eq!(looked.waits, BTreeMap::from([(high.process(), vec![0])]));
    assert_eq!(activities(&stage, &looked), [(0, Activity::Prepared), (high.process(), Activity::WaitsForLock)]);
    stage.round().unwrap();
    assert_eq!(stage.governor.events().pop().unwrap().outcome, Outcome::LeftAlone(LeftAlone::Prepared));
    preparer.run("rollback prepared 'watched'");
    high.outcome().unwrap();
    high.run("rollback; drop table shared_by_all");

    // A stranger is never touched, but a session of ours that blocks the stranger is.
    low.run("create table held_by_low (id int)");
    low.run("begin; lock table held_by_low");
    stranger.run("begin; select pg_advisory_xact_lock(112)");
    stranger.send("lock table held_by_low");
    stage.until_it_waits(&stranger);
    high.send("select pg_advisory_lock(112)");
    stage.until_it_waits(&high);
    let looked = seen_by(&mut stage, &high);
    assert!(activities(&stage, &looked).contains(&(stranger.process(), Activity::Foreign)));
    stage.told();
    stage.round().unwrap();
    assert_eq!(stage.told(), [is_to_roll_back(&low, 2)]);
    low.run("rollback");
    stranger.outcome().unwrap();
    stranger.run("rollback; drop table held_by_low");
    high.outcome().unwrap();
    assert_eq!(stage.counts(), [0, 0]);
}

#[test]
fn parallel_workers_are_their_leader() {
    let mut stage = Stage::new("pabort");
    let (high, low) = (stage.client(HIGH), stage.client(LOW));
    low.run("create table scanned as select g from generate_series(1, 20000) g");
    low.run("set min_parallel_table_scan_size = 0; set parallel_setup_cost = 0; set parallel_tuple_cost = 0");
    low.run("begin");
    low.send("select count(*) from scanned where pg_sleep(0.01)::text = 'never'");
    let leader = low.process();
    let workers = format!("select count(*) > 0 from pg_stat_activity where leader_pid = {leader} and pid <> {leader}");
    stage.until("there are workers", &workers);
    high.send("begin; lock table scanned");
    stage.until_it_waits(&high);
    let looked = seen_by(&mut stage, &high);
    assert_eq!(looked.waits, BTreeMap::from([(high.process(), vec![leader])]), "each once");
    // It runs, and the policy rolls back the sessions that block it.
    stage.round().unwrap();
    assert_eq!(low.failure(), "57014");
    assert!(!low.card.state().cancels.was_waiting && stage.governor.events()[0].victim_was == "ran");
    low.run("rollback");
    high.outcome().unwrap();
    high.run("drop table scanned; commit");
    assert_eq!(stage.counts(), [0, 0]);
}

/// A low transaction whose client thinks while a high one waits for its table, after a round.
fn idle_in_the_way(stage: &mut Stage, table: &str, before: &str) -> (Client, Client) {
    let (low, high) = (stage.client(LOW), stage.client(HIGH));
    low.run(&format!("create table {table} (id int)"));
    low.run(&format!("begin; {before}lock table {table}"));
    high.send(&format!("begin; lock table {table}"));
    stage.until_it_waits(&high);
    stage.round().unwrap();
    (low, high)
}

fn end_idle((low, high): (Client, Client), table: &str) {
    low.run("rollback");
    high.outcome().unwrap();
    high.run(&format!("rollback; drop table {table}"));
}

/// A report held an advisory lock that meant "this month is being closed" while its client was copying files. It was
/// rolled back because its client was thinking, another session took the lock, and two clients copied the same files.
#[test]
fn a_holder_of_an_advisory_lock_is_left_alone_while_its_client_thinks() {
    for (table, lock) in [("guarded", "pg_advisory_xact_lock(121)"), ("watched_over", "pg_advisory_lock_shared(122)")] {
        let mut stage = Stage::new("pow");
        let parties = idle_in_the_way(&mut stage, table, &format!("select {lock}; "));
        assert_eq!(stage.told(), [], "{lock}");
        let events = stage.governor.events();
        assert_eq!(events[0].outcome, Outcome::Spared(NoReplay::Unsafe(Unsafe::AdvisoryLock)));
        assert_eq!((events[0].victim_was, events[0].done), ("waited for its client", "left alone"));
        stage.round().unwrap();
        assert_eq!((stage.governor.events().len(), stage.told()), (1, vec![]), "it is said once for each unit");
        // Once it waits itself, it can be cancelled: its client gets an error, and knows that its lock is gone.
        let stranger = stage.stranger();
        stranger.run("begin; select pg_advisory_xact_lock(123)");
        parties.0.send("select pg_advisory_xact_lock(123)");
        stage.until_it_waits(&parties.0);
        stage.round().unwrap();
        assert_eq!(parties.0.failure(), "57014");
        stranger.run("rollback");
        end_idle(parties, table);
    }
}

/// The reason that spares one holder must not hide the next one behind it.
#[test]
fn others_in_the_way_are_rolled_back_although_one_is_spared() {
    let mut stage = Stage::new("pow");
    let (guard, low, high) = (stage.client(LOW), stage.client(LOW), stage.client(HIGH));
    guard.run("create table shared_by_two (id int)");
    guard.run("begin; select pg_advisory_xact_lock(124); lock table shared_by_two in share mode");
    low.run("begin; lock table shared_by_two in share mode");
    high.send("begin; lock table shared_by_two");
    stage.until_it_waits(&high);
    stage.round().unwrap();
    let (transaction, unit) = low.place();
    let told = stage.told();
    assert!(
        matches!(&told[..], [(id, SessionCommand::RollBackIdle { transaction: t, unit: u, .. })]
            if (*id, *t, *u) == (low.card.id, transaction, unit)),
        "{told:?}"
    );
    let mut outcomes: Vec<_> = stage.governor.events().iter().map(|event| event.outcome.to_string()).collect();
    outcomes.sort();
    assert_eq!(outcomes, ["pending", "spared (advisory-lock)"]);
    guard.run("rollback");
    low.run("rollback");
    high.outcome().unwrap();
    high.run("rollback; drop table shared_by_two");
}

/// CALL outside of a block may commit midway, so it is never cancelled. A session that blocks it can be, if it also
/// blocks a more important one.
#[test]
fn a_call_is_left_alone_and_the_chain_goes_on_behind_it() {
    let mut stage = Stage::new("pow");
    let (high, caller, low) = (stage.client(HIGH), stage.client(LOW), stage.client(LOW));
    caller.run(
        "create table called (id int); create table behind (id int); create procedure lock_two() language plpgsql as \
         'begin lock table called; lock table behind; end'",
    );
    low.run("begin; lock table behind");
    caller.send("call lock_two()");
    // The session sets this for a CALL outside of a block.
    caller.card.state().preemptible = false;
    stage.until_it_waits(&caller);
    high.send("begin; lock table called");
    stage.until_it_waits(&high);
    stage.round().unwrap();
    assert_eq!(stage.told(), [is_to_roll_back(&low, 1)]);
    low.run("rollback");
    caller.outcome().unwrap();
    high.outcome().unwrap();
    high.run("rollback; drop procedure lock_two; drop table called, behind");
}

/// The saving that `track` counts is the time from the decision until the wait ended.
#[test]
fn track_counts_what_it_would_have_saved() {
    let mut stage = Stage::new("track");
    let saved = |stage: &Stage| {
        stage.governor.statistics.class(HIGH).tracked_saved_nanos.load(std::sync::atomic::Ordering::Relaxed)
    };
    let began = std::time::Instant::now();
    let parties = idle_in_the_way(&mut stage, "tracked", "");
    let events = stage.governor.events();
    assert_eq!((events[0].outcome, events[0].lever.as_str()), (Outcome::Tracked(Ok(())), "track"));
    stage.round().unwrap();
    assert_eq!(saved(&stage), 0, "it still waits");
    parties.0.run("rollback");
    parties.1.outcome().unwrap();
    parties.1.card.state().since = std::time::Instant::now();
    stage.round.forget();
    let counted = std::time::Duration::from_nanos(saved(&stage));
    assert!(!counted.is_zero() && counted <= began.elapsed(), "{counted:?}");
    parties.1.run("rollback; drop table tracked");
}

/// With `track` clients waited for seconds, and neither `SHOW PREEMPTIONS` nor the page named anybody: the commonest
/// holder, whose client thinks and whose class has the defaults, was nobody's victim.
#[test]
fn a_holder_that_is_left_alone_is_named_with_the_setting_that_would_help() {
    let no_retry = Some(Immunity::NoRetry);
    for (place, preemptible, immune, why) in
        [(0, true, no_retry, LeftAlone::NoRetry), (1, false, None, LeftAlone::NotPreemptible)]
    {
        let mut stage = Stage::with("track", |settings| settings.classes[1].preemptible = preemptible);
        let (high, holder) = (stage.client(HIGH), stage.client(LOW));
        let key = 160 + place;
        let lock = format!("select pg_advisory_xact_lock({key})");
        holder.run(&format!("begin; {lock}"));
        (holder.card.state().preemptible, holder.card.state().immune) = (false, immune);
        high.send(&lock);
        stage.until_it_waits(&high);
        for _ in 0..2 {
            stage.round().unwrap();
        }
        let blocked = stage.governor.blocked();
        let [blocked] = &blocked[..] else { panic!("{blocked:?}") };
        assert_eq!((blocked.waiter, blocked.holder), (high.card.id, Some(holder.card.id)));
        assert_eq!((blocked.holder_was, blocked.why), ("waited for its client", Some(why)));
        let events = stage.governor.events();
        let [event] = &events[..] else { panic!("it is recorded once: {events:?}") };
        assert_eq!((event.victim.0, event.waiter.0), (holder.card.id, high.card.id));
        assert_eq!((event.done, event.outcome), ("left alone", Outcome::LeftAlone(why)));
        let told = event.told();
        assert!(told.contains(if preemptible { "retries = true" } else { "preemptible = true" }), "{told}");
        holder.run("rollback");
        high.outcome().unwrap();
        assert_eq!(stage.governor.blocked(), [], "it does not wait any more");
    }
}

/// A session that the governor does not know held up important work while less important work went on.
#[test]
fn a_strangers_process_is_named() {
    let mut stage = Stage::new("pow");
    let (high, stranger, other) = (stage.client(HIGH), stage.stranger(), stage.client(LOW));
    stranger.run("begin; select pg_advisory_xact_lock(170)");
    other.run("begin");
    high.send("select pg_advisory_xact_lock(170)");
    stage.until_it_waits(&high);
    stage.round().unwrap();
    let event = stage.governor.events().pop().expect("it is recorded");
    assert_eq!(
        (event.victim, event.outcome),
        ((SessionId(0), stranger.process()), Outcome::LeftAlone(LeftAlone::Foreign))
    );
    stranger.run("rollback");
    high.outcome().unwrap();
}
