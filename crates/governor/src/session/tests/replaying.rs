//! Transactions that are rolled back for others.

use super::*;

const BEGUN: &str = "> Q:begin => S[Q:begin]
     < C:BEGIN Z:T => C[C:BEGIN Z:T]
     > Q:select_a => S[Q:select_a]
     < D:1 C:SELECT Z:T => C[D:1 C:SELECT Z:T]
     > Q:update => S[Q:update]";

/// `BEGUN`, its last unit cancelled, up to the answer of ROLLBACK.
fn rolled_back() -> String {
    format!(
        "{BEGUN}
         ! aim =>
         < E:57014 Z:E =>
         ! arrived => S[Q:ROLLBACK]
         < C:ROLLBACK Z:I => S[Q:begin]"
    )
}

fn verified(story: &Story) -> u64 {
    let statistics = story.governor.statistics.class(story.session.session_class);
    statistics.replays_verified.load(Ordering::Relaxed)
}

#[test]
fn a_transaction_is_run_again_and_nobody_notices() {
    check(
        "low_user",
        &format!(
            "{}
             < C:BEGIN Z:T => S[Q:select_a]
             < D:1 C:SELECT Z:T => S[Q:update]
             < C:UPDATE Z:T => C[C:UPDATE Z:T]
             > Q:commit => S[Q:commit]
             ! no_aim =>
             < C:COMMIT Z:I => C[C:COMMIT Z:I]",
            rolled_back()
        ),
    );
}

#[test]
fn what_the_client_sends_meanwhile_waits() {
    check(
        "low_user",
        &format!(
            "{BEGUN}
             ! aim =>
             > Q:commit =>
             < E:57014 Z:E =>
             ! arrived => S[Q:ROLLBACK]
             < C:ROLLBACK Z:I => S[Q:begin]
             < C:BEGIN Z:T => S[Q:select_a]
             < N:00000 D:1 C:SELECT Z:T => S[Q:update Q:commit]
             < C:UPDATE Z:T C:COMMIT Z:I => C[C:UPDATE Z:T C:COMMIT Z:I]",
        ),
    );
}

#[test]
fn a_cancel_that_comes_too_late_meets_nothing() {
    check(
        "low_user",
        &format!(
            "{BEGUN}
             ! aim =>
             < C:UPDATE Z:T => C[C:UPDATE Z:T]
             > Q:commit =>
             ! arrived => S[Q:commit]
             < C:COMMIT Z:I => C[C:COMMIT Z:I]",
        ),
    );
}

#[test]
fn a_cancel_that_was_not_sent_leaves_errors_alone() {
    check(
        "low_user",
        &format!(
            "{BEGUN}
             ! aim =>
             ! lost =>
             < E:57014 Z:E => C[E:57014 Z:E]
             > Q:rollback => S[Q:rollback]
             < C:ROLLBACK Z:I => C[C:ROLLBACK Z:I]",
        ),
    );
}

#[test]
fn the_clients_own_cancel_is_its_own() {
    check(
        "low_user",
        &format!(
            "{BEGUN}
             ! aim =>
             ! cancel =>
             ! client_arrived =>
             < E:57014 Z:E => C[E:57014 Z:E]
             > Q:rollback =>
             ! arrived => S[Q:rollback]",
        ),
    );
    // While it is run again the client cancels: the replay is given up, and the client hears of its own cancel.
    check(
        "low_user",
        &format!(
            "{}
             < C:BEGIN Z:T => S[Q:select_a]
             ! cancel =>
             < D:1 C:SELECT Z:T =>
             ! client_arrived => S[Q:ROLLBACK_TO_SAVEPOINT_preempted%by%plimsoll]
             < E:3B001 Z:E => C[E:57014 Z:E]",
            rolled_back()
        ),
    );
}

#[test]
fn an_answer_that_differs_is_told_and_the_transaction_has_failed() {
    check(
        "low_user",
        &format!(
            "{}
             < C:BEGIN Z:T => S[Q:select_a]
             < D:2 C:SELECT Z:T => S[Q:ROLLBACK_TO_SAVEPOINT_preempted%by%plimsoll]
             < E:3B001 Z:E => C[E:40001 Z:E]
             > Q:rollback => S[Q:rollback]
             < C:ROLLBACK Z:I => C[C:ROLLBACK Z:I]",
            rolled_back()
        ),
    );
    // One that fails the second time has failed already.
    check(
        "low_user",
        &format!(
            "{}
             < C:BEGIN Z:T => S[Q:select_a]
             < E:40P01 Z:E => C[E:40001 Z:E]",
            rolled_back()
        ),
    );
}

#[test]
fn of_the_unit_in_flight_the_client_gets_only_what_is_new() {
    let halfway = "> P::update B:: E S => S[P::update B:: E S]
         < 1 2 D:one => C[1 2 D:one]
         ! aim =>
         < E:57014 Z:I =>
         ! arrived => S[P::update B:: E S]";
    check("low_user", &format!("{halfway}\n< 1 2 D:one D:two C:UPDATE Z:I => C[D:two C:UPDATE Z:I]"));
    check("low_user", &format!("{halfway}\n< 1 2 D:uno D:two C:UPDATE Z:I => C[E:40001 Z:I]"));
    check("low_user", &format!("{halfway}\n< 1 2 C:UPDATE Z:I => C[E:40001 Z:I]"));
    check("low_user", &format!("{halfway}\n< 1 E:42P01 Z:I => C[E:40001 Z:I]"));
}

#[test]
fn statements_prepared_on_the_way_are_closed_before() {
    check(
        "low_user",
        "> Q:begin => S[Q:begin]
         < C:BEGIN Z:T => C[C:BEGIN Z:T]
         > P:s:update B::s E S => S[P:s:update B::s E S]
         < 1 2 => C[1 2]
         ! aim =>
         < E:57014 Z:E =>
         ! arrived => S[Q:ROLLBACK]
         < C:ROLLBACK Z:I => S[C:s S]
         < 3 Z:I => S[Q:begin]
         < C:BEGIN Z:T => S[P:s:update B::s E S]
         < 1 2 C:UPDATE Z:T => C[C:UPDATE Z:T]",
    );
}

/// The driver goes on to use what it has prepared in a transaction that failed: asyncpg keeps names across transactions.
#[test]
fn statements_prepared_on_the_way_are_there_again_after_a_replay_that_failed() {
    check(
        "low_user",
        "> Q:begin => S[Q:begin]
         < C:BEGIN Z:T => C[C:BEGIN Z:T]
         > P:a:select B::a E S => S[P:a:select B::a E S]
         < 1 2 D:1 Z:T => C[1 2 D:1 Z:T]
         > P:b:update B::b E S => S[P:b:update B::b E S]
         ! aim =>
         < E:57014 Z:E =>
         ! arrived => S[Q:ROLLBACK]
         < C:ROLLBACK Z:I => S[C:a C:b S]
         < 3 3 Z:I => S[Q:begin]
         < C:BEGIN Z:T => S[P:a:select B::a E S]
         < 1 2 D:2 Z:T => S[Q:ROLLBACK]
         < C:ROLLBACK Z:I => S[C:a P:a:select S C:b P:b:update S]
         < 3 1 Z:I =>
         < 3 1 Z:I => S[Q:BEGIN;_ROLLBACK_TO_SAVEPOINT_preempted%by%plimsoll]
         < C:BEGIN E:3B001 Z:E => C[E:40001 Z:E]
         > Q:rollback => S[Q:rollback]",
    );
}

#[test]
fn what_is_not_safe_to_run_again_is_told() {
    for statement in ["listen_x", "create_temp_table_t_(a_int)", "select_pg%advisory%lock(1)", "deallocate_s"] {
        check(
            "low_user",
            &format!(
                "> Q:begin => S[Q:begin]
                 < C:BEGIN Z:T => C[C:BEGIN Z:T]
                 > Q:{statement} => S[Q:{statement}]
                 ! aim =>
                 < E:57014 Z:E => C[E:40001 Z:E]
                 > Q:rollback =>
                 ! arrived => S[Q:rollback]",
            ),
        );
    }
}

#[test]
fn what_may_have_committed_is_no_victim() {
    for statement in ["commit", "update;_commit", "prepare_transaction_'x'", "call_p()", "do_$$_begin_end_$$"] {
        check("low_user", &format!("> Q:{statement} => S[Q:{statement}]\n! no_aim =>"));
    }
    // A COMMIT that was prepared long ago.
    check(
        "low_user",
        "> P:c:commit S => S[P:c:commit S]
         < 1 Z:I => C[1 Z:I]
         > Q:begin => S[Q:begin]
         < C:BEGIN Z:T => C[C:BEGIN Z:T]
         > B::c E S => S[B::c E S]
         ! no_aim =>",
    );
    // One unit upon the other.
    check("low_user", "> Q:update Q:update => S[Q:update Q:update]\n! no_aim =>");
}

#[test]
fn who_thinks_is_rolled_back_at_once_and_run_again_when_he_speaks() {
    let thinking = "> Q:begin => S[Q:begin]
         < C:BEGIN Z:T => C[C:BEGIN Z:T]
         > Q:update => S[Q:update]
         < C:UPDATE Z:T => C[C:UPDATE Z:T]
         ! idle_before =>
         ! idle => S[Q:ROLLBACK]";
    check(
        "low_user",
        &format!(
            "{thinking}
             < C:ROLLBACK Z:I =>
             > Q:commit => S[Q:begin]
             < C:BEGIN Z:T => S[Q:update]
             < C:UPDATE Z:T => S[Q:commit]
             < C:COMMIT Z:I => C[C:COMMIT Z:I]",
        ),
    );
    check(
        "low_user",
        &format!(
            "{thinking}
             > Q:select =>
             < C:ROLLBACK Z:I => S[Q:begin]
             < C:BEGIN Z:T => S[Q:update]
             < C:UPDATE_2 Z:T => S[Q:ROLLBACK_TO_SAVEPOINT_preempted%by%plimsoll]
             < E:3B001 Z:E => C[E:40001 Z:E]
             > Q:rollback => S[Q:rollback]",
        ),
    );
    // A COMMIT that fails leaves no transaction behind.
    check(
        "low_user",
        &format!(
            "{thinking}
             > Q:commit =>
             < C:ROLLBACK Z:I => S[Q:begin]
             < C:BEGIN Z:T => S[Q:update]
             < C:UPDATE_2 Z:T => S[Q:ROLLBACK]
             < C:ROLLBACK Z:I => C[E:40001 Z:I]
             > Q:select => S[Q:select]",
        ),
    );
    // For a ROLLBACK nothing is run again.
    check(
        "low_user",
        &format!(
            "{thinking}
             < C:ROLLBACK Z:I =>
             > P::rollback B:: E S => S[Q:BEGIN]
             < C:BEGIN Z:T => S[P::rollback B:: E S]
             < 1 2 C:ROLLBACK Z:I => C[1 2 C:ROLLBACK Z:I]",
        ),
    );
    // The unit that meets the failure is dropped to its end.
    check(
        "low_user",
        "> Q:begin => S[Q:begin]
         < C:BEGIN Z:T => C[C:BEGIN Z:T]
         > Q:listen_x => S[Q:listen_x]
         < C:LISTEN Z:T => C[C:LISTEN Z:T]
         ! idle => S[Q:ROLLBACK]
         < C:ROLLBACK Z:I =>
         > P::select B:: => S[Q:BEGIN;_ROLLBACK_TO_SAVEPOINT_preempted%by%plimsoll]
         < C:BEGIN E:3B001 Z:E => C[E:40001]
         > E S => C[Z:E]
         > Q:rollback => S[Q:rollback]",
    );
}

/// Nothing has to be asked of the server for that, so nothing but the client's message brings the answer about.
#[test]
fn who_thinks_and_cannot_be_run_again_hears_of_it_upon_his_commit() {
    check(
        "low_user",
        "> Q:begin => S[Q:begin]
         < C:BEGIN Z:T => C[C:BEGIN Z:T]
         > Q:listen_x => S[Q:listen_x]
         < C:LISTEN Z:T => C[C:LISTEN Z:T]
         ! idle => S[Q:ROLLBACK]
         < C:ROLLBACK Z:I =>
         > P::commit B:: E S => C[E:40001 Z:I]
         > Q:select => S[Q:select]",
    );
}

/// The fifth rollback is the last one, after which it is promoted: its replay is as good as those before.
#[test]
fn who_thinks_is_run_again_as_often_as_he_may_be_rolled_back() {
    let mut story = Story::new("low_user");
    story.play(
        "> Q:begin => S[Q:begin]
         < C:BEGIN Z:T => C[C:BEGIN Z:T]
         > Q:update => S[Q:update]
         < C:UPDATE Z:T => C[C:UPDATE Z:T]",
    );
    for before in 0..5 {
        story.play(
            "! idle => S[Q:ROLLBACK]
             < C:ROLLBACK Z:I =>
             > Q:select => S[Q:begin]
             < C:BEGIN Z:T => S[Q:update]
             < C:UPDATE Z:T => S[Q:select]",
        );
        (0..before).for_each(|_| story.play("< C:SELECT Z:T => S[Q:select]"));
        story.play("< C:SELECT Z:T => C[C:SELECT Z:T]");
    }
    assert_eq!((story.session.card.state().rollbacks, verified(&story)), (5, 5));
}

#[test]
fn a_replay_may_be_preempted_in_its_turn_until_it_is_promoted() {
    let mut story = Story::new("low_user");
    story.play(&rolled_back());
    for _ in 0..3 {
        story.play(
            "< C:BEGIN Z:T => S[Q:select_a]
             ! aim =>
             ! arrived =>
             < E:57014 Z:E => S[Q:ROLLBACK]
             < C:ROLLBACK Z:I => S[Q:begin]",
        );
    }
    assert_eq!(story.session.card.state().rollbacks, 4);
    story.play(
        "< C:BEGIN Z:T => S[Q:select_a]
         < D:1 C:SELECT Z:T => S[Q:update]
         < C:UPDATE Z:T => C[C:UPDATE Z:T]",
    );
    assert_eq!(verified(&story), 1);
}

#[test]
fn transactions_of_importance_are_neither_recorded_nor_victims() {
    let mut story = Story::new("high_user");
    story.play("> Q:update => S[Q:update]\n! no_aim =>");
    assert!(story.session.recording.is_none());
}
