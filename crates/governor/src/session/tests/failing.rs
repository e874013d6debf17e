//! Transactions that are rolled back and cannot be replayed, and those that must not be rolled back at all.

use std::time::Duration;

use super::replaying::{BEGUN, verified};
use super::*;
use crate::statement::patience::Timeouts;

#[test]
fn what_is_not_safe_to_run_again_is_told() {
    for statement in [
        "listen_x",
        "create_temp_table_t_(a_int)",
        "select_pg%advisory%lock(1)",
        "select_pg%advisory%xact%lock(1)",
        "deallocate_s",
        "fetch_c",
        "create_function_f()_returns_int_language_sql_as_'select_1'",
    ] {
        check(&format!(
            "= Q:begin => C:BEGIN Z:T
             > Q:{statement} => S[Q:{statement}]
             ! aim =>
             < E:57014 Z:E =>
             > Q:rollback =>
             ! arrived => chained-and-failed S[Q:rollback] C[E:40001 Z:E]",
        ));
    }
}

/// The server begins a timeout again with each run of a statement, so that a client whose statements may take a second waited for two
/// and more.
#[test]
fn a_timeout_of_which_more_than_a_tenth_is_used_does_not_begin_anew() {
    const TIMEOUT: Duration = Duration::from_secs(1);
    let set = |story: &mut Story| story.play("= Q:set_lock%timeout_=_'1s' => C:SET Z:I");
    let by_default = |story: &mut Story| {
        let timeouts = Timeouts { statement: Some(TIMEOUT), ..Timeouts::default() };
        story.session.card.state().default_timeouts = Some((timeouts, story.now));
    };
    for (limit, used, is_run) in [(set as fn(&mut Story), 100, true), (set, 101, false), (by_default, 101, false)] {
        let mut story = Story::new("low_user");
        limit(&mut story);
        story.play("= Q:begin => C:BEGIN Z:T\n> Q:update => S[Q:update]");
        story.now += Duration::from_millis(used);
        story.play(match is_run {
            true => "! preempted => rolled-back S[Q:begin]",
            false => "! aim =>\n< E:57014 Z:E =>\n! arrived => chained-and-failed C[E:40001 Z:E]",
        });
        if is_run {
            // It is run again from when its client has asked for it.
            story.play("< C:BEGIN Z:T => S[Q:update]");
            story.now += Duration::from_millis(1);
            story.play("! aim =>\n< E:57014 Z:E =>\n! arrived => chained-and-failed C[E:40001 Z:E]");
        }
        // An error of the server stays what it is.
        story.play("= Q:rollback => C:ROLLBACK Z:I\n= Q:begin => C:BEGIN Z:T\n> Q:update => S[Q:update]");
        story.now += Duration::from_millis(101);
        story.play("< E:40P01 Z:E => C[E:40P01 Z:E]");
    }
    // A client that does not retry is left alone.
    let mut story = Story::with("low_user", |settings| settings.classes[1].retries = false);
    set(&mut story);
    story.play("= Q:begin => C:BEGIN Z:T\n> Q:update => S[Q:update]");
    let immunity =
        |story: &Story, used| story.session.card.state().immunity(false, story.now + Duration::from_millis(used));
    assert_eq!((immunity(&story, 100), immunity(&story, 101)), (None, Some(crate::registry::Immunity::Timeout)));
}

/// A transaction that had to end within ten seconds was rolled back after eight, and then had ten more.
#[test]
fn a_timeout_of_the_transaction_begins_with_the_transaction() {
    let cases =
        [("transaction%timeout", 1000, true), ("transaction%timeout", 1001, false), ("statement%timeout", 1001, true)];
    for (setting, used, is_run) in cases {
        let mut story = Story::new("low_user");
        story.play(&format!("= Q:set_{setting}_=_'10s' => C:SET Z:I\n= Q:begin => C:BEGIN Z:T"));
        story.now += Duration::from_millis(used);
        story.play("> Q:update => S[Q:update]");
        story.play(match is_run {
            true => "! preempted => rolled-back S[Q:begin]",
            false => "! aim =>\n< E:57014 Z:E =>\n! arrived => chained-and-failed C[E:40001 Z:E]",
        });
    }
}

/// PostgreSQL 19 may have functions whose effects no rollback undoes and that our lists do not contain yet.
#[test]
fn nothing_is_replayed_on_a_server_that_is_newer_than_the_governor() {
    check(
        "= Q:begin => S:server%version=19.1 C:BEGIN Z:T
         > Q:update => S[Q:update]
         ! aim =>
         < E:57014 Z:E =>
         > Q:rollback =>
         ! arrived => chained-and-failed S[Q:rollback] C[E:40001 Z:E]",
    );
}

/// A lock that was taken before a savepoint is kept when a later statement fails. A victim in a savepoint once got
/// 40001 and kept the lock that the more important transaction waited for, until its client had rolled back. The error
/// for returning to the savepoint must also be 40001, because clients look for that.
#[test]
fn a_victim_gives_up_what_it_has_done_before_its_savepoint_too() {
    check(
        "= Q:begin => C:BEGIN Z:T
         = Q:listen_x => C:LISTEN Z:T
         = Q:savepoint_a => C:SAVEPOINT Z:T
         > Q:update => S[Q:update]
         ! preempted => chained-and-failed C[E:40001 Z:E]
         > Q:rollback_to_a => C[E:40001 Z:E]
         = Q:select => E:25P02 Z:E
         > P::release_a B:: E S => C[E:40001 Z:E]
         = Q:rollback => C:ROLLBACK Z:I",
    );
}

/// Our way of making a transaction fail was once to return to a savepoint that does not exist; if a client had created
/// one with that name, the session looped forever.
#[test]
fn no_savepoint_of_a_client_keeps_its_transaction_from_failing() {
    check(
        "= Q:begin => C:BEGIN Z:T
         = Q:savepoint_preempted%by%plimsoll => C:SAVEPOINT Z:T
         > Q:listen_x => S[Q:listen_x]
         ! preempted => chained-and-failed C[E:40001 Z:E]",
    );
    // If a server refuses to let it fail, the session ends, instead of looping forever.
    let mut story = Story::new("low_user");
    story.play(
        "= Q:begin => C:BEGIN Z:T
         > Q:listen_x => S[Q:listen_x]
         ! preempted => S[!ROLLBACK_AND_CHAIN !fail S]",
    );
    (0..9).for_each(|_| story.play("< C:ROLLBACK Z:T => S[!ROLLBACK_AND_CHAIN !fail S]"));
    story.play("< C:ROLLBACK Z:T => C[E:08P01]");
    assert!(story.session.has_ended());
}

/// An error with a context of more than 64 KiB is not read completely; once it was passed on, though it was of our
/// making.
#[test]
fn an_error_of_our_own_making_is_kept_from_the_client_however_long_it_is() {
    let long = "57014:".to_owned() + &"x".repeat(70 << 10);
    let mut story = Story::new("low_user");
    story.play(&format!(
        "{BEGUN}
         ! aim =>
         < E:{long} Z:E =>
         ! arrived => S[!ROLLBACK S]"
    ));
}

/// The server is shut down while a victim is being rolled back: the client must learn why its connection ends.
#[test]
fn the_end_of_a_session_is_told_in_the_middle_of_a_rollback_too() {
    check(&format!(
        "{BEGUN}
         ! preempted => S[!ROLLBACK S]
         < F:57P01 => C[F:57P01]"
    ));
}

#[test]
fn what_may_have_committed_is_no_victim() {
    for statement in ["commit", "update;_commit", "prepare_transaction_'x'", "call_p()", "do_$$_begin_end_$$"] {
        check(&format!("> Q:{statement} => S[Q:{statement}]\n! no_aim =>"));
    }
    // A COMMIT that was prepared long ago.
    check(
        "= P:c:commit S => 1 Z:I
         = Q:begin => C:BEGIN Z:T
         > B::c E S => S[B::c E S]
         ! no_aim =>",
    );
    // Two units at once.
    check("> Q:update Q:update => S[Q:update Q:update]\n! no_aim =>");
}

/// A transaction that was rolled back five times, and that its client retried each time, once counted from zero with
/// each retry: it could starve forever.
#[test]
fn who_tries_again_after_a_rollback_has_been_rolled_back_before() {
    let mut story = Story::new("low_user");
    for times in 1..=3 {
        story.play(
            "= Q:begin => C:BEGIN Z:T
             > Q:listen_x => S[Q:listen_x]
             ! preempted => chained-and-failed C[E:40001 Z:E]
             = Q:rollback => C:ROLLBACK Z:I",
        );
        assert_eq!(story.session.card.state().rollbacks, times);
    }
    story.play("= Q:update => C:UPDATE Z:I");
    assert_eq!(story.session.card.state().rollbacks, 0, "it has come to its end");
}

/// Plays the questions about a transaction's effects, in the session's own statements.
fn asks() -> Story {
    let mut story = Story::new("low_user");
    story.is_known = false;
    story.play(BEGUN);
    story.play("! preempted => S[!ROLLBACK_AND_CHAIN S]");
    story
}

/// The questions about a transaction's effects run in a block of their own, which holds none of the client's locks and
/// is rolled back.
#[test]
fn the_server_is_asked_what_a_transaction_calls_before_it_is_run_again() {
    let mut story = asks();
    let question = story.asked("< C:ROLLBACK Z:T");
    assert!(question.contains("pg%catalog.pg%proc"), "{question}");
    assert!(question.contains("set%config('statement%timeout'"), "it is bounded: {question}");
    story.play(
        "< C:SELECT R:g,,200,path,1,150 C:SELECT Z:T => rolled-back S[Q:begin]
         < C:BEGIN Z:T => S[Q:select_a]
         < D:1 C:SELECT Z:T => S[Q:update]
         < C:UPDATE Z:T => C[C:UPDATE Z:T]",
    );
    assert_eq!(verified(&story), 1);
}

#[test]
fn what_the_server_does_not_say_is_not_assumed() {
    for answer in [
        "E:42501 Z:E",
        "Z:T",
        "C:SELECT Z:T",
        "C:SELECT D:nonsense C:SELECT Z:T",
        // No ground; another server; a transaction number of another server; code that is newer than the transaction.
        "C:SELECT C:SELECT Z:T",
        "C:SELECT R:g,,200,path,2,150 C:SELECT Z:T",
        "C:SELECT R:g,,99,path,1,150 C:SELECT Z:T",
        "C:SELECT R:g,,200,path,1,150 R:x,100 C:SELECT Z:T",
    ] {
        let mut story = asks();
        story.asked("< C:ROLLBACK Z:T");
        story.play(&format!("< {answer} => chained-and-failed C[E:40001 Z:E]"));
    }
}

/// Another session has locked a catalog, or the server is busy. The client waits, and others may wait for what it does next.
#[test]
fn an_inquiry_that_takes_too_long_proves_nothing() {
    let mut story = asks();
    story.asked("< C:ROLLBACK Z:T");
    story.now += Duration::from_secs(4);
    story.play("< C:SELECT R:g,,200,path,1,150 C:SELECT Z:T => chained-and-failed C[E:40001 Z:E]");
}

/// A function was proved harmless and run again, and that run was rolled back in its turn. Meanwhile the function may have been
/// replaced by one that is not harmless.
#[test]
fn what_has_run_in_a_replay_is_asked_about_again() {
    let mut story = asks();
    story.asked("< C:ROLLBACK Z:T");
    story.play(
        "< C:SELECT R:g,,200,path,1,150 C:SELECT Z:T => rolled-back S[Q:begin]
         < C:BEGIN Z:T => S[Q:select_a]
         ! preempted => S[!ROLLBACK_AND_CHAIN S]",
    );
    // Whether all of it is unchanged; it is not, so what it is now.
    story.asked("< C:ROLLBACK Z:T");
    let question = story.asked("< C:SELECT R:g,,200,path,1,150 R:x,150 C:SELECT Z:T");
    assert!(question.contains("pg%catalog.pg%proc"), "{question}");
    story.play("< C:SELECT R:g,,200,path,1,150 R:x,150 C:SELECT Z:T => chained-and-failed C[E:40001 Z:E]");
}

/// A client cancelled while its transaction was being rolled back, and the cancel hit our own ROLLBACK. The statement
/// remained, and every later one of ours was refused for its name; or the client's locks remained, though they were
/// reported as released.
#[test]
fn a_cancel_that_meets_our_own_statement_does_no_harm() {
    let mut story = Story::new("low_user");
    story.play(BEGUN);
    story.play(
        "! preempted => S[!ROLLBACK S]
         ! cancel =>
         < E:57014 Z:E =>
         ! client_arrived => chained-and-failed C[E:57014 Z:E]",
    );
    // While its client thinks the request is repeated, until the server has rolled back.
    check(
        "= Q:begin => C:BEGIN Z:T
         = Q:update => C:UPDATE Z:T
         ! idle => S[!ROLLBACK_AND_CHAIN S]
         < E:57014 Z:E => chained
         > Q:rollback => S[Q:rollback]",
    );
}

/// The effects of a function that is called by its number are unknown: outside a block it is never cancelled, in a
/// block never replayed.
#[test]
fn a_call_by_number_is_not_run_again() {
    check("> F => S[F]\n! no_aim =>");
    check(
        "= Q:begin => C:BEGIN Z:T
         > F => S[F]
         ! preempted => chained-and-failed C[E:40001 Z:E]",
    );
}

/// The server began to wait for standbys in the moment in which a cancel was on its way, and the cancel ended the wait: the
/// client has its success and the warning, and operators a count.
#[test]
fn a_cancelled_wait_for_a_standby_is_counted() {
    let lines = "> Q:update => S[Q:update]
         ! aim =>
         < N:01000:\0RSyncRepWaitForLSN C:UPDATE Z:I => C[N:01000 C:UPDATE Z:I]
         ! arrived =>";
    for story in check_each(|| Story::new("low_user"), lines) {
        let low = story.governor.statistics.class(story.session.identity.class);
        assert_eq!(low.commit_waits_cancelled.load(Ordering::Relaxed), 1);
    }
}
