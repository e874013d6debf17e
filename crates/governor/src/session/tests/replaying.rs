//! Transactions that are rolled back for others.

use super::*;

pub(super) const BEGUN: &str = "= Q:begin => C:BEGIN Z:T
     = Q:select_a => D:1 C:SELECT Z:T
     > Q:update => S[Q:update]";

/// `BEGUN`, its last unit cancelled, up to the answer of ROLLBACK.
pub(super) fn rolled_back() -> String {
    format!(
        "{BEGUN}
         ! preempted => rolled-back S[Q:begin]"
    )
}

pub(super) fn verified(story: &Story) -> u64 {
    let statistics = story.governor.statistics.class(story.session.identity.class);
    statistics.replays_verified.load(Ordering::Relaxed)
}

#[test]
fn a_transaction_is_run_again_and_nobody_notices() {
    check(&format!(
        "{}
         < C:BEGIN Z:T => S[Q:select_a]
         < D:1 C:SELECT Z:T => S[Q:update]
         < C:UPDATE Z:T => C[C:UPDATE Z:T]
         > Q:commit => S[Q:commit]
         ! no_aim =>
         < C:COMMIT Z:I => C[C:COMMIT Z:I]",
        rolled_back()
    ));
}

/// PostgreSQL's JDBC driver sends BEGIN and the first statement without waiting for the answer to BEGIN. They overlapped, so no
/// transaction of a Java application was ever replayed.
#[test]
fn a_begin_that_is_sent_with_the_first_statement_is_answered_before_it() {
    check(
        "> Q:begin P::update B:: E S => S[Q:begin]
         < C:BEGIN Z:T => S[P::update B:: E S] C[C:BEGIN Z:T]
         < 1 2 C:UPDATE Z:T => C[1 2 C:UPDATE Z:T]
         > Q:select => S[Q:select]
         ! preempted => rolled-back S[Q:begin]
         < C:BEGIN Z:T => S[P::update B:: E S]
         < 1 2 C:UPDATE Z:T => S[Q:select]
         < C:SELECT Z:T => C[C:SELECT Z:T]",
    );
}

#[test]
fn what_the_client_sends_meanwhile_waits() {
    check(&format!(
        "{BEGUN}
         ! aim =>
         > Q:commit =>
         < E:57014 Z:E =>
         ! arrived => rolled-back S[Q:begin]
         < C:BEGIN Z:T => S[Q:select_a]
         < N:00000 D:1 C:SELECT Z:T => S[Q:update Q:commit]
         < C:UPDATE Z:T C:COMMIT Z:I => C[C:UPDATE Z:T C:COMMIT Z:I]",
    ));
}

#[test]
fn a_cancel_that_comes_too_late_meets_nothing() {
    check(&format!(
        "{BEGUN}
         ! aim =>
         < C:UPDATE Z:T => C[C:UPDATE Z:T]
         > Q:commit =>
         ! arrived => S[Q:commit]
         < C:COMMIT Z:I => C[C:COMMIT Z:I]",
    ));
}

#[test]
fn a_cancel_that_was_not_sent_leaves_errors_alone() {
    check(&format!(
        "{BEGUN}
         ! aim =>
         ! lost =>
         < E:57014 Z:E => C[E:57014 Z:E]
         = Q:rollback => C:ROLLBACK Z:I",
    ));
}

#[test]
fn the_clients_own_cancel_is_its_own() {
    check(&format!(
        "{BEGUN}
         ! aim =>
         ! cancel =>
         ! client_arrived =>
         < E:57014 Z:E => C[E:57014 Z:E]
         > Q:rollback =>
         ! arrived => S[Q:rollback]",
    ));
    // The client cancels during the replay: the replay is abandoned, and the client receives the error of its own
    // cancel.
    check(&format!(
        "{}
         < C:BEGIN Z:T => S[Q:select_a]
         ! cancel =>
         < D:1 C:SELECT Z:T =>
         ! client_arrived => chained-and-failed C[E:57014 Z:E]",
        rolled_back()
    ));
}

#[test]
fn an_answer_that_differs_is_told_and_the_transaction_has_failed() {
    check(&format!(
        "{}
         < C:BEGIN Z:T => S[Q:select_a]
         < D:2 C:SELECT Z:T => chained-and-failed C[E:40001 Z:E]
         = Q:rollback => C:ROLLBACK Z:I",
        rolled_back()
    ));
    // A statement that fails the second time failed the first time, too.
    check(&format!(
        "{}
         < C:BEGIN Z:T => S[Q:select_a]
         < E:40P01 Z:E => chained-and-failed C[E:40001 Z:E]",
        rolled_back()
    ));
}

#[test]
fn of_the_unit_in_flight_the_client_gets_only_what_is_new() {
    let halfway = "= Q:begin => C:BEGIN Z:T
         = P::update B:: E S => 1 2 D:one
         ! preempted => rolled-back S[Q:begin]
         < C:BEGIN Z:T => S[P::update B:: E S]";
    let fails = "S[!ROLLBACK_AND_CHAIN !fail S]\n< C:ROLLBACK E:42601 Z:E => C[E:40001 Z:E]";
    check(&format!("{halfway}\n< 1 2 D:one D:two C:UPDATE Z:T => C[D:two C:UPDATE Z:T]"));
    check(&format!("{halfway}\n< 1 2 D:uno D:two C:UPDATE Z:T => {fails}"));
    check(&format!("{halfway}\n< 1 2 C:UPDATE Z:T => {fails}"));
    check(&format!("{halfway}\n< 1 E:42P01 Z:E => {fails}"));
}

/// A transfer of money in one unit outside a block: its first half was answered when the second half was cancelled. The
/// unit was once sent again as a whole, the server committed it, the answer differed, and the client got 40001 and made
/// the transfer again. Now the answer is withheld until the unit's end, unless it is too long, and a unit whose answer
/// its client has partly seen is not replayed.
#[test]
fn a_unit_that_commits_by_itself_is_run_again_only_if_its_client_has_seen_nothing() {
    for (unit, first) in
        [("P::update B:: E P::update_b B:: E S", "1 2 C:UPDATE 1 2"), ("Q:update;update_b", "C:UPDATE")]
    {
        check(&format!(
            "> {unit} => S[{unit}]
             < {first} =>
             ! preempted => S[{unit}]
             < {first} C:UPDATE%2 Z:I => C[{first} C:UPDATE%2 Z:I]"
        ));
    }
    let row = format!("D:{}", "x".repeat(5000));
    check(&format!(
        "> Q:select;update => S[Q:select;update]
         < {row} =>
         < {row} => C[{row} {row}]
         ! preempted => C[E:40001 Z:I]
         > Q:select;update => S[Q:select;update]"
    ));
    // Its client asks for the answers so far.
    check(
        "= P::update B:: E H => 1 2 C:UPDATE
         > S => S[S]
         ! preempted => C[E:40001 Z:I]",
    );
}

/// A cancel was on its way when a long answer began to arrive. The client, whose class does not retry, got the answer's
/// beginning, and then 40001.
#[test]
fn a_client_that_does_not_retry_sees_nothing_while_a_cancel_is_on_its_way() {
    let row = format!("D:{}", "x".repeat(5000));
    let mut story = Story::with("low_user", |settings| settings.classes[1].retries = false);
    story.play(&format!(
        "> Q:select => S[Q:select]
         ! aim =>
         < {row} =>
         < {row} =>
         < E:57014 Z:I =>
         ! arrived => S[Q:select]
         < {row} {row} C:SELECT Z:I => C[{row} {row} C:SELECT Z:I]"
    ));
    // Nor a notice, such as that of a name that the server cuts.
    story.play(
        "> Q:select => S[Q:select]
         ! aim =>
         < N:00000 =>
         < E:57014 Z:I =>
         ! arrived => S[Q:select]
         < N:00000 => C[N:00000]
         < C:SELECT Z:I => C[C:SELECT Z:I]
         > Q:select => S[Q:select]
         ! aim =>
         < N:00000 =>
         < C:SELECT Z:I => C[N:00000 C:SELECT Z:I]
         ! arrived =>",
    );
    // One that retries gets what there is.
    check(&format!(
        "> Q:select => S[Q:select]
         ! aim =>
         < {row} =>
         < {row} => C[{row} {row}]"
    ));
}

#[test]
fn statements_prepared_on_the_way_are_closed_before() {
    check(
        "= Q:begin => C:BEGIN Z:T
         = P:s:update B::s E S => 1 2
         ! preempted => rolled-back S[C:s S]
         < 3 Z:I => S[Q:begin]
         < C:BEGIN Z:T => S[P:s:update B::s E S]
         < 1 2 C:UPDATE Z:T => C[C:UPDATE Z:T]",
    );
}

/// The driver continues to use statements that it prepared in a failed transaction: asyncpg keeps names across
/// transactions.
#[test]
fn statements_prepared_on_the_way_are_there_again_after_a_replay_that_failed() {
    check(
        "= Q:begin => C:BEGIN Z:T
         = P:a:select B::a E S => 1 2 D:1 Z:T
         > P:b:update B::b E S => S[P:b:update B::b E S]
         ! aim =>
         < 1 2 E:57014 Z:E => C[1 2]
         ! arrived => rolled-back S[C:a C:b S]
         < 3 3 Z:I => S[Q:begin]
         < C:BEGIN Z:T => S[P:a:select B::a E S]
         < 1 2 D:2 Z:T => rolled-back S[C:a P:a:select S C:b P:b:update S]
         < 3 1 Z:I =>
         < 3 1 Z:I => S[!BEGIN !fail S]
         < C:BEGIN E:42601 Z:E => C[E:40001 Z:E]
         > Q:rollback => S[Q:rollback]",
    );
}

/// `s` was a SELECT. In a savepoint its client prepared a DELETE under the same name, which the server refused, and
/// rolled back to the savepoint. The replay once closed `s` first, so the DELETE was prepared after all, and ran
/// instead of the SELECT.
#[test]
fn a_statement_that_was_not_prepared_is_not_closed_for_the_replay() {
    check(
        "= P:s:select S => 1 Z:I
         = Q:begin => C:BEGIN Z:T
         = Q:savepoint_a => C:SAVEPOINT Z:T
         = P:s:delete_from_t S => E:42P05 Z:E
         = Q:rollback_to_a => C:ROLLBACK Z:T
         > Q:update => S[Q:update]
         ! preempted => rolled-back S[Q:begin]
         < C:BEGIN Z:T => S[Q:savepoint_a]
         < C:SAVEPOINT Z:T => S[P:s:delete_from_t S]
         < E:42P05 Z:E => S[Q:rollback_to_a]
         < C:ROLLBACK Z:T => S[Q:update]
         < C:UPDATE Z:T => C[C:UPDATE Z:T]",
    );
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
             < E:57014 Z:E => rolled-back S[Q:begin]",
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
    assert!(story.session.transaction.as_ref().is_some_and(|inside| inside.recording.is_none()));
}

/// A client sent another unit before the error of its cancelled unit arrived. The new unit was then mistaken for the
/// cancelled one and the error attributed to no unit, and the client got 57014 for a statement that it had not
/// cancelled.
#[test]
fn a_unit_that_comes_between_a_cancel_and_its_error_waits() {
    check(
        "> Q:update => S[Q:update]
         ! aim =>
         ! arrived =>
         > Q:select =>
         < E:57014 Z:I => S[Q:update Q:select]
         < C:UPDATE Z:I C:SELECT Z:I => C[C:UPDATE Z:I C:SELECT Z:I]",
    );
}

/// A client pipelined two statements and cancelled, which ended the first. The record of that cancel was kept while
/// units were outstanding, so the error of our own cancel of the second was attributed to the client.
#[test]
fn a_clients_cancel_ends_one_statement() {
    check(
        "= Q:begin => C:BEGIN Z:T
         = Q:savepoint_a Q:select Q:update => C:SAVEPOINT Z:T
         ! cancel =>
         ! client_arrived =>
         < E:57014 Z:T => C[E:57014 Z:T]
         ! preempted => S[!ROLLBACK_AND_CHAIN !fail S]",
    );
}
