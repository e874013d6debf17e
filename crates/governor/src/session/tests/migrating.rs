//! Statements that need a strong lock step back, and no client notices.

use plimsoll_policy::{ClassIndex, GuardMode, NoReplay, Unsafe};

use super::*;
use crate::statistics::{AbortCause, AbortOutcome};

/// A story of a session in class high, which is never rolled back for others, with the guard.
fn guarded() -> Story {
    changed(|_| {})
}

fn changed(change: impl FnOnce(&mut Settings)) -> Story {
    Story::with("high_user", |settings| {
        settings.guards.migrations = GuardMode::Enforce;
        settings.guards.migrations_wait = Duration::from_millis(100);
        change(settings);
    })
}

/// Plays a story whole and byte by byte.
fn check(lines: &str) {
    check_each(guarded, lines);
}

fn counted(story: &Story) -> Vec<(AbortCause, AbortOutcome, u64)> {
    story.governor.statistics.class(ClassIndex(0)).aborts.counted().collect()
}

const ASK: &str = "S[!SHOW_lock%timeout !SHOW_statement%timeout S]";
const SET: &str = "S[!SET_lock%timeout_=_100 S]";
const SET_LOCAL: &str = "S[!SET_LOCAL_lock%timeout_=_100 S]";
const RESET: &str = "S[!RESET_lock%timeout S]";

/// The server's answers: the values of both timeouts, and that a statement of ours was carried out.
fn shown(lock: &str, statement: &str, status: char) -> String {
    format!("3 1 2 R:{lock} C:SHOW 3 1 2 R:{statement} C:SHOW Z:{status}")
}

/// `lock_timeout` is over.
fn over(status: char) -> String {
    format!("E:55P03:\0RProcessInterrupts Z:{status}")
}

/// A statement outside a block, which was bounded and is under way.
fn alone(statement: &str) -> String {
    format!(
        "> Q:{statement} => {ASK}
         < {} => {SET}
         < 3 1 2 C:SET Z:I => S[Q:{statement}]",
        shown("0", "0", 'I')
    )
}

#[test]
fn a_statement_is_bounded_and_the_earlier_value_is_back_before_anything_else() {
    check(&format!(
        "{}
         < C:ALTER Z:I => {RESET} C[C:ALTER Z:I]
         > Q:show_lock%timeout =>
         < 3 1 2 C:RESET Z:I => S[Q:show_lock%timeout]
         < D:0 C:SHOW Z:I => C[D:0 C:SHOW Z:I]",
        alone("alter_table_t_add_c_int")
    ));
}

#[test]
fn it_steps_back_until_it_gets_its_lock_and_nobody_notices() {
    // A change of code, too: it has changed nothing when it has failed.
    for statement in
        ["alter_table_t_add_c_int", "create_trigger_a_before_insert_on_t_execute_function_f()", "vacuum_full_t"]
    {
        let again = format!(
            "< {} =>
             ! pause => {SET}
             < 3 1 2 C:SET Z:I => S[Q:{statement}]\n",
            over('I')
        );
        let stories = check_each(
            guarded,
            &format!(
                "{}\n{again}{again}< C:DONE Z:I => {RESET} C[C:DONE Z:I]\n< 3 1 2 C:RESET Z:I =>",
                alone(statement)
            ),
        );
        for story in stories {
            assert_eq!(counted(&story), [(AbortCause::LockWait, AbortOutcome::Replayed, 2)], "{statement}");
            assert_eq!(story.session.attempts.aborts, 0, "it is no victim of others");
        }
    }
}

#[test]
fn in_a_block_the_whole_transaction_is_run_again_with_the_bound() {
    check(&format!(
        "= Q:begin => C:BEGIN Z:T
         = Q:insert_into_v_values_(1) => C:INSERT Z:T
         > Q:alter_table_t_add_c_int => {ASK}
         < {} => {SET_LOCAL}
         < 3 1 2 C:SET Z:T => S[Q:alter_table_t_add_c_int]
         < {} =>
         ! pause => rolled-back S[Q:begin]
         < C:BEGIN Z:T => {SET_LOCAL}
         < 3 1 2 C:SET Z:T => S[Q:insert_into_v_values_(1)]
         < C:INSERT Z:T => {SET_LOCAL}
         < 3 1 2 C:SET Z:T => S[Q:alter_table_t_add_c_int]
         < C:ALTER Z:T => S[!SET_LOCAL_lock%timeout_=_'0' S] C[C:ALTER Z:T]
         < 3 1 2 C:SET Z:T =>
         = Q:commit => C:COMMIT Z:I",
        shown("0", "0", 'T'),
        over('E')
    ));
}

/// What has changed code may not be run twice, so what comes after it has one longer try.
#[test]
fn after_a_change_of_code_in_its_block_a_statement_has_one_try() {
    let lines = format!(
        "= Q:begin => C:BEGIN Z:T
         > Q:drop_view_v => {ASK}
         < {} => {SET_LOCAL}
         < 3 1 2 C:SET Z:T => S[Q:drop_view_v]
         < C:DROP Z:T => S[!SET_LOCAL_lock%timeout_=_'5s' S] C[C:DROP Z:T]
         < 3 1 2 C:SET Z:T =>
         > Q:truncate_t => {ASK}
         < {} => S[!SET_LOCAL_lock%timeout_=_1000 S]
         < 3 1 2 C:SET Z:T => S[Q:truncate_t]
         < {} => C[E:55P03 Z:E]
         = Q:rollback => C:ROLLBACK Z:I",
        shown("5s", "0", 'T'),
        shown("5s", "0", 'T'),
        over('E')
    );
    for story in check_each(guarded, &lines) {
        let expect = AbortOutcome::NotReplayed(NoReplay::Unsafe(Unsafe::Function));
        assert_eq!(counted(&story), [(AbortCause::LockWait, expect, 1)]);
    }
}

#[test]
fn a_client_that_is_in_more_of_a_hurry_is_left_alone() {
    check(&format!(
        "> Q:alter_table_t_add_c_int => {ASK}
         < {} => S[Q:alter_table_t_add_c_int]
         < {} => C[E:55P03 Z:I]
         > Q:select_1 => S[Q:select_1]",
        shown("50ms", "0", 'I'),
        over('I')
    ));
}

/// Its own timeouts end it when they would have ended it without us, and with the same error.
#[test]
fn the_clients_own_timeouts_hold_over_all_tries() {
    for (lock, statement, state) in [("150ms", "0", "55P03"), ("0", "150ms", "57014"), ("1min", "150ms", "57014")] {
        let mut story = guarded();
        story.play(&format!(
            "= Q:set_lock%timeout_=_1 => C:SET Z:I
             > Q:truncate_t => {ASK}
             < {} => {SET}
             < 3 1 2 C:SET Z:I => S[Q:truncate_t]",
            shown(lock, statement, 'I')
        ));
        story.now += Duration::from_millis(100);
        story.play(&format!("< {} =>", over('I')));
        let ends = story.session.replays_at().expect("it pauses");
        assert_eq!(ends - story.now, Duration::from_millis(50), "{lock} {statement}");
        story.play(&format!(
            "! pause => S[!SET_lock%timeout_=_'{lock}' S] C[E:{state} Z:I]
             < 3 1 2 C:SET Z:I =>
             > Q:select_1 => S[Q:select_1]"
        ));
    }
}

#[test]
fn the_guard_loses_patience_if_it_is_told_to() {
    let mut story = changed(|settings| settings.guards.migrations_patience = Some(Duration::from_millis(100)));
    story.play(&alone("truncate_t"));
    story.now += Duration::from_millis(100);
    story.play(&format!("< {} => {RESET} C[E:55P03 Z:I]", over('I')));
}

/// NOWAIT, and what an application raises, have the same SQLSTATE.
#[test]
fn other_errors_are_the_clients() {
    check(&format!("{}\n< E:55P03 Z:I => {RESET} C[E:55P03 Z:I]", alone("truncate_t")));
    check(&format!("{}\n< E:42P01 Z:I => {RESET} C[E:42P01 Z:I]", alone("truncate_t")));
}

#[test]
fn a_client_that_cancels_while_it_pauses_hears_of_its_cancel() {
    check(&format!(
        "{}
         < {} =>
         ! cancel =>
         ! client_arrived => {RESET} C[E:57014 Z:I]
         < 3 1 2 C:RESET Z:I =>
         > Q:select_1 => S[Q:select_1]",
        alone("truncate_t"),
        over('I')
    ));
}

/// A cancel that comes late must not meet the unit that restores the value.
#[test]
fn nobody_can_cancel_the_restoring() {
    let mut story = guarded();
    story.play(&format!("{}\n< C:TRUNCATE Z:I => {RESET} C[C:TRUNCATE Z:I]", alone("truncate_t")));
    assert!(story.session.card.aim_client_cancel().is_none());
}

#[test]
fn a_client_that_waits_for_long_is_told_once() {
    let mut story = guarded();
    story.play(&alone("truncate_t"));
    let again = format!("! pause => {SET}\n< 3 1 2 C:SET Z:I => S[Q:truncate_t]");
    story.play(&format!("< {} =>\n{again}", over('I')));
    story.now += Duration::from_secs(5);
    story.play(&format!("< {} => C[N:00000]\n{again}\n< {} =>", over('I'), over('I')));
}

#[test]
fn the_extended_protocol_is_guarded_as_well() {
    check(&format!(
        "> P::truncate_t B:: E S => {ASK}
         < {} => {SET}
         < 3 1 2 C:SET Z:I => S[P::truncate_t B:: E S]
         < 1 2 {} =>
         ! pause => {SET}
         < 3 1 2 C:SET Z:I => S[P::truncate_t B:: E S]
         < 1 2 C:TRUNCATE Z:I => {RESET} C[1 2 C:TRUNCATE Z:I]",
        shown("0", "0", 'I'),
        over('I')
    ));
}

/// A pipelined unit waits until the value is back.
#[test]
fn what_is_pipelined_behind_it_waits() {
    check(&format!(
        "> Q:truncate_t Q:select_1 => {ASK}
         < {} => {SET}
         < 3 1 2 C:SET Z:I => S[Q:truncate_t]
         < C:TRUNCATE Z:I => {RESET} C[C:TRUNCATE Z:I]
         < 3 1 2 C:RESET Z:I => S[Q:select_1]",
        shown("0", "0", 'I')
    ));
}

#[test]
fn where_the_guard_only_warns_nothing_is_sent() {
    for mode in [GuardMode::Off, GuardMode::Warn] {
        let mut story = changed(|settings| settings.guards.migrations = mode);
        story.play("> Q:truncate_t => S[Q:truncate_t]");
    }
    // Nor for statements that nobody queues behind.
    check("> Q:select_1 => S[Q:select_1]");
    check("> Q:create_index_concurrently_on_t_(a) => S[Q:create_index_concurrently_on_t_(a)]");
}

/// A class without replay, a transaction with savepoints, one whose horizon is not known.
#[test]
fn what_cannot_be_run_again_has_one_try() {
    let once = format!(
        "> Q:truncate_t => {ASK}
         < {} => S[!SET_lock%timeout_=_1000 S]
         < 3 1 2 C:SET Z:I => S[Q:truncate_t]
         < {} => {RESET} C[E:55P03 Z:I]",
        shown("0", "0", 'I'),
        over('I')
    );
    changed(|settings| settings.classes[0].replay = false).play(&once);
    let unknown = guarded();
    unknown.governor.horizon.set(None);
    let mut unknown = unknown;
    unknown.play(&once);
    check(&format!(
        "= Q:begin => C:BEGIN Z:T
         = Q:savepoint_a => C:SAVEPOINT Z:T
         > Q:truncate_t => {ASK}
         < {} => S[!SET_LOCAL_lock%timeout_=_1000 S]",
        shown("0", "0", 'T')
    ));
}

#[test]
fn a_statement_whose_replay_is_not_proved_fails_with_a_clear_error() {
    let mut story = guarded();
    story.is_known = false;
    story.play(&alone("alter_table_t_add_c_int"));
    story.play(&format!("< {} =>", over('I')));
    // The server is asked, and answers nothing that would be a proof.
    story.now = story.session.replays_at().expect("it pauses");
    let asked = story.asked("! time");
    assert!(asked.starts_with("!select"), "{asked}");
    story.play(&format!("< E:57014 Z:I => {RESET} C[E:55P03 Z:I]"));
}

/// A runaway is ended with the limit in its error, and rows are counted where they pass.
#[test]
fn a_statement_that_exceeds_a_limit_is_told_which() {
    let mut story = Story::with("high_user", |settings| settings.classes[0].runaway.rows = Some(2));
    story.play("> Q:select_a => S[Q:select_a]\n< D:1 D:2 => C[D:1 D:2]");
    let (transaction, unit) = place(&story.session.card);
    assert_eq!(story.session.card.state().exceeds_rows, None);
    story.play("< D:3 => C[D:3]");
    assert_eq!(story.session.card.state().exceeds_rows, Some(unit));
    let limit = plimsoll_policy::Runaway::Rows(2);
    assert!(story.session.card.aim_at_runaway(transaction, unit, limit));
    assert!(!story.session.card.aim_at_runaway(transaction, unit, limit), "it is aimed at");
    story.play("< E:57014 => C[E:54000]");
    story.session.card.cancel_arrived(true, false);
    story.play("< Z:I => C[Z:I]\n> Q:select_b => S[Q:select_b]\n< D:1 D:2 C:SELECT Z:I => C[D:1 D:2 C:SELECT Z:I]");
    assert_eq!(story.session.card.state().cancels.runaway, None);
}
