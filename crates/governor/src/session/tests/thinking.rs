//! Transactions that are rolled back while their clients think.

use super::replaying::verified;
use super::*;

#[test]
fn who_thinks_is_rolled_back_at_once_and_run_again_when_he_speaks() {
    let thinking = "= Q:begin => C:BEGIN Z:T
         = Q:update => C:UPDATE Z:T
         ! idle_before =>
         ! idle => S[!ROLLBACK_AND_CHAIN S]";
    check(&format!(
        "{thinking}
         < C:ROLLBACK Z:T =>
         > Q:commit => rolled-back S[Q:begin]
         < C:BEGIN Z:T => S[Q:update]
         < C:UPDATE Z:T => S[Q:commit]
         < C:COMMIT Z:I => C[C:COMMIT Z:I]",
    ));
    check(&format!(
        "{thinking}
         > Q:select =>
         < C:ROLLBACK Z:I => S[Q:begin]
         < C:BEGIN Z:T => S[Q:update]
         < C:UPDATE_2 Z:T => chained-and-failed C[E:40001 Z:E]
         > Q:rollback => S[Q:rollback]",
    ));
    // A COMMIT that fails leaves no transaction behind.
    check(&format!(
        "{thinking}
         > Q:commit =>
         < C:ROLLBACK Z:T => rolled-back S[Q:begin]
         < C:BEGIN Z:T => S[Q:update]
         < C:UPDATE_2 Z:T => rolled-back C[E:40001 Z:I]
         > Q:select => S[Q:select]",
    ));
    // A ROLLBACK causes no replay; nor does one that chains a similar transaction.
    for rollback in ["P::rollback B:: E S", "Q:rollback", "Q:rollback_and_chain"] {
        check(&format!("{thinking}\n< C:ROLLBACK Z:T =>\n> {rollback} => S[{rollback}]"));
    }
    // The unit that meets the failure is dropped to its end.
    check(
        "= Q:begin => C:BEGIN Z:T
         = Q:listen_x => C:LISTEN Z:T
         ! idle => chained
         > P::select B:: H => chained-and-failed C[E:40001]
         > E S => C[Z:E]
         > Q:rollback => S[Q:rollback]",
    );
}

/// A driver prepares its ROLLBACK in one unit and runs it in another. Preparing it was once mistaken for the ROLLBACK
/// itself: there was no replay, and a COMMIT that came instead succeeded without the work.
#[test]
fn preparing_a_rollback_is_none() {
    let thinking = "= Q:begin => C:BEGIN Z:T
         = Q:update => C:UPDATE Z:T
         ! idle => chained";
    for unit in ["P:r:rollback S", "P::rollback B:: S", "P::rollback B:: E B:: E S", "P::rollback D H"] {
        let rest = "< C:ROLLBACK Z:I => S[Q:begin]\n< C:BEGIN Z:T => S[Q:update]";
        check(&format!("{thinking}\n> {unit} => S[!ROLLBACK S]\n{rest}\n< C:UPDATE Z:T => S[{unit}]"));
    }
}

/// The client's next transaction must have the modes of the one that was rolled back, including the isolation level: a
/// block that replaced it once had the server's defaults.
#[test]
fn what_is_chained_to_a_transaction_that_was_rolled_back_is_like_it() {
    check(
        "= Q:begin_isolation_level_serializable => C:BEGIN Z:T
         = Q:update => C:UPDATE Z:T
         ! idle => chained
         = Q:rollback_and_chain => C:ROLLBACK Z:T
         > Q:update => S[Q:update]
         ! preempted => chained S[Q:update]
         < C:UPDATE Z:T => C[C:UPDATE Z:T]
         > Q:commit_and_chain => S[Q:commit_and_chain]
         ! no_aim =>
         < C:COMMIT Z:T => C[C:COMMIT Z:T]
         > Q:update => S[Q:update]
         ! preempted => chained S[Q:update]
         < C:UPDATE Z:T => C[C:UPDATE Z:T]",
    );
}

#[test]
fn who_thinks_and_cannot_be_run_again_hears_of_it_upon_his_commit() {
    check(
        "= Q:begin => C:BEGIN Z:T
         = Q:listen_x => C:LISTEN Z:T
         ! idle => chained
         > P::commit B:: E S => rolled-back C[E:40001 Z:I]
         > Q:select => S[Q:select]",
    );
}

/// A client's cancel hit nothing, and its record was kept: the next rollback for another transaction was attributed to
/// the client, which got 57014 for a statement that it had not cancelled.
#[test]
fn a_clients_cancel_that_met_nothing_is_forgotten() {
    check(
        "= Q:begin => C:BEGIN Z:T
         > Q:update => S[Q:update]
         ! cancel =>
         < C:UPDATE Z:T => C[C:UPDATE Z:T]
         ! client_arrived =>
         ! idle => chained
         > Q:select => rolled-back S[Q:begin]",
    );
}

/// After a completed COPY, and in a block that has failed behind a savepoint, a thinking client's transaction holds
/// locks like any other.
#[test]
fn who_thinks_after_a_copy_or_a_failure_is_no_more_immune_than_others() {
    check(
        "= Q:begin => C:BEGIN Z:T
         = Q:copy_t_to_stdout => H
         ! no_aim =>
         < d c C:COPY Z:T => C[d c C:COPY Z:T]
         ! idle => S[!ROLLBACK_AND_CHAIN S]",
    );
    check(
        "= Q:begin => C:BEGIN Z:T
         = Q:savepoint_a => C:SAVEPOINT Z:T
         = Q:insert => E:23505 Z:E
         ! idle => chained
         > Q:rollback_to_a => rolled-back S[Q:begin]
         < C:BEGIN Z:T => S[Q:savepoint_a]
         < C:SAVEPOINT Z:T => S[Q:insert]
         < E:23505 Z:E => S[Q:rollback_to_a]
         < C:ROLLBACK Z:T => C[C:ROLLBACK Z:T]",
    );
}

/// The fifth rollback is the last, because the transaction is then promoted: its replay works like the earlier ones.
#[test]
fn who_thinks_is_run_again_as_often_as_he_may_be_rolled_back() {
    let mut story = Story::new("low_user");
    story.play(
        "= Q:begin => C:BEGIN Z:T
         = Q:update => C:UPDATE Z:T",
    );
    for before in 0..5 {
        story.play(
            "! idle => chained
             > Q:select => rolled-back S[Q:begin]
             < C:BEGIN Z:T => S[Q:update]
             < C:UPDATE Z:T => S[Q:select]",
        );
        (0..before).for_each(|_| story.play("< C:SELECT Z:T => S[Q:select]"));
        story.play("< C:SELECT Z:T => C[C:SELECT Z:T]");
    }
    assert_eq!((story.session.card.state().rollbacks, verified(&story)), (5, 5));
}

/// After its transaction was rolled back, a client sent an empty unit and another one at once: the answer to a request
/// of ours was mistaken for that of the empty unit, and the client received it.
#[test]
fn what_comes_behind_a_unit_that_does_nothing_waits_for_its_answer() {
    check(
        "= Q:begin => C:BEGIN Z:T
         ! idle => chained
         > S P:e:commit S => S[S]
         < Z:T => S[!ROLLBACK S] C[Z:T]
         < C:ROLLBACK Z:I => S[Q:begin]
         < C:BEGIN Z:T => S[S]
         < Z:T => S[P:e:commit S]",
    );
}
