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
         ! arrived => S[!ROLLBACK S]
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
             ! arrived => S[!ROLLBACK S]
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
             ! client_arrived => S[!ROLLBACK_AND_CHAIN !fail S]
             < C:ROLLBACK E:42601 Z:E => C[E:57014 Z:E]",
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
             < D:2 C:SELECT Z:T => S[!ROLLBACK_AND_CHAIN !fail S]
             < C:ROLLBACK E:42601 Z:E => C[E:40001 Z:E]
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
             < E:40P01 Z:E => S[!ROLLBACK_AND_CHAIN !fail S]
             < C:ROLLBACK E:42601 Z:E => C[E:40001 Z:E]",
            rolled_back()
        ),
    );
}

#[test]
fn of_the_unit_in_flight_the_client_gets_only_what_is_new() {
    let halfway = "> Q:begin => S[Q:begin]
         < C:BEGIN Z:T => C[C:BEGIN Z:T]
         > P::update B:: E S => S[P::update B:: E S]
         < 1 2 D:one => C[1 2 D:one]
         ! aim =>
         < E:57014 Z:E =>
         ! arrived => S[!ROLLBACK S]
         < C:ROLLBACK Z:I => S[Q:begin]
         < C:BEGIN Z:T => S[P::update B:: E S]";
    let fails = "S[!ROLLBACK_AND_CHAIN !fail S]\n< C:ROLLBACK E:42601 Z:E => C[E:40001 Z:E]";
    check("low_user", &format!("{halfway}\n< 1 2 D:one D:two C:UPDATE Z:T => C[D:two C:UPDATE Z:T]"));
    check("low_user", &format!("{halfway}\n< 1 2 D:uno D:two C:UPDATE Z:T => {fails}"));
    check("low_user", &format!("{halfway}\n< 1 2 C:UPDATE Z:T => {fails}"));
    check("low_user", &format!("{halfway}\n< 1 E:42P01 Z:E => {fails}"));
}

/// A transfer of money in one unit outside of a block, of which the first half was answered when the second half was
/// cancelled. Once it was sent again as a whole, the server committed it, the answer differed, and the client got 40001 and made the
/// transfer again. Now nothing is told before the unit's end, unless it is too much to be held back; and what its client has seen
/// the beginning of is not run again.
#[test]
fn a_unit_that_commits_by_itself_is_run_again_only_if_its_client_has_seen_nothing() {
    for (unit, first) in
        [("P::update B:: E P::update_b B:: E S", "1 2 C:UPDATE 1 2"), ("Q:update;update_b", "C:UPDATE")]
    {
        check(
            "low_user",
            &format!(
                "> {unit} => S[{unit}]
                 < {first} =>
                 ! aim =>
                 < E:57014 Z:I =>
                 ! arrived => S[{unit}]
                 < {first} C:UPDATE%2 Z:I => C[{first} C:UPDATE%2 Z:I]"
            ),
        );
    }
    let row = format!("D:{}", "x".repeat(5000));
    check(
        "low_user",
        &format!(
            "> Q:select;update => S[Q:select;update]
             < {row} =>
             < {row} => C[{row} {row}]
             ! aim =>
             < E:57014 Z:I =>
             ! arrived => C[E:40001 Z:I]
             > Q:select;update => S[Q:select;update]"
        ),
    );
    // Its client asks for the answers so far.
    check(
        "low_user",
        "> P::update B:: E H => S[P::update B:: E H]
         < 1 2 C:UPDATE => C[1 2 C:UPDATE]
         > S => S[S]
         ! aim =>
         < E:57014 Z:I =>
         ! arrived => C[E:40001 Z:I]",
    );
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
         ! arrived => S[!ROLLBACK S]
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
         < 1 2 E:57014 Z:E => C[1 2]
         ! arrived => S[!ROLLBACK S]
         < C:ROLLBACK Z:I => S[C:a C:b S]
         < 3 3 Z:I => S[Q:begin]
         < C:BEGIN Z:T => S[P:a:select B::a E S]
         < 1 2 D:2 Z:T => S[!ROLLBACK S]
         < C:ROLLBACK Z:I => S[C:a P:a:select S C:b P:b:update S]
         < 3 1 Z:I =>
         < 3 1 Z:I => S[!BEGIN !fail S]
         < C:BEGIN E:42601 Z:E => C[E:40001 Z:E]
         > Q:rollback => S[Q:rollback]",
    );
}

/// `s` was a SELECT. In a savepoint its client prepared a DELETE under the same name, which the server refused, and went back. Once
/// the replay closed `s` first, so that the DELETE was prepared after all, and ran for the SELECT.
#[test]
fn a_statement_that_was_not_prepared_is_not_closed_for_the_replay() {
    check(
        "low_user",
        "> P:s:select S => S[P:s:select S]
         < 1 Z:I => C[1 Z:I]
         > Q:begin => S[Q:begin]
         < C:BEGIN Z:T => C[C:BEGIN Z:T]
         > Q:savepoint_a => S[Q:savepoint_a]
         < C:SAVEPOINT Z:T => C[C:SAVEPOINT Z:T]
         > P:s:delete_from_t S => S[P:s:delete_from_t S]
         < E:42P05 Z:E => C[E:42P05 Z:E]
         > Q:rollback_to_a => S[Q:rollback_to_a]
         < C:ROLLBACK Z:T => C[C:ROLLBACK Z:T]
         > Q:update => S[Q:update]
         ! aim =>
         < E:57014 Z:E =>
         ! arrived => S[!ROLLBACK S]
         < C:ROLLBACK Z:I => S[Q:begin]
         < C:BEGIN Z:T => S[Q:savepoint_a]
         < C:SAVEPOINT Z:T => S[P:s:delete_from_t S]
         < E:42P05 Z:E => S[Q:rollback_to_a]
         < C:ROLLBACK Z:T => S[Q:update]
         < C:UPDATE Z:T => C[C:UPDATE Z:T]",
    );
}

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
        check(
            "low_user",
            &format!(
                "> Q:begin => S[Q:begin]
                 < C:BEGIN Z:T => C[C:BEGIN Z:T]
                 > Q:{statement} => S[Q:{statement}]
                 ! aim =>
                 < E:57014 Z:E =>
                 > Q:rollback =>
                 ! arrived => S[!ROLLBACK_AND_CHAIN !fail S]
                 < C:ROLLBACK E:42601 Z:E => S[Q:rollback] C[E:40001 Z:E]",
            ),
        );
    }
}

/// A lock that was taken before a savepoint stays while what came after it has failed. Once a victim in a savepoint got 40001 and kept
/// what the more important transaction waited for until its client had rolled back; and the client's way back to the
/// savepoint must not be an error of another kind, for it looks for 40001.
#[test]
fn a_victim_gives_up_what_it_has_done_before_its_savepoint_too() {
    check(
        "low_user",
        "> Q:begin => S[Q:begin]
         < C:BEGIN Z:T => C[C:BEGIN Z:T]
         > Q:listen_x => S[Q:listen_x]
         < C:LISTEN Z:T => C[C:LISTEN Z:T]
         > Q:savepoint_a => S[Q:savepoint_a]
         < C:SAVEPOINT Z:T => C[C:SAVEPOINT Z:T]
         > Q:update => S[Q:update]
         ! aim =>
         < E:57014 Z:E =>
         ! arrived => S[!ROLLBACK_AND_CHAIN !fail S]
         < C:ROLLBACK E:42601 Z:E => C[E:40001 Z:E]
         > Q:rollback_to_a => C[E:40001 Z:E]
         > Q:select => S[Q:select]
         < E:25P02 Z:E => C[E:25P02 Z:E]
         > P::release_a B:: E S => C[E:40001 Z:E]
         > Q:rollback => S[Q:rollback]
         < C:ROLLBACK Z:I => C[C:ROLLBACK Z:I]",
    );
}

/// Our own way to make a transaction fail once went back to a savepoint that does not exist, unless a client had called one so: then the
/// session went round in circles.
#[test]
fn no_savepoint_of_a_client_keeps_its_transaction_from_failing() {
    check(
        "low_user",
        "> Q:begin => S[Q:begin]
         < C:BEGIN Z:T => C[C:BEGIN Z:T]
         > Q:savepoint_preempted%by%plimsoll => S[Q:savepoint_preempted%by%plimsoll]
         < C:SAVEPOINT Z:T => C[C:SAVEPOINT Z:T]
         > Q:listen_x => S[Q:listen_x]
         ! aim =>
         < E:57014 Z:E =>
         ! arrived => S[!ROLLBACK_AND_CHAIN !fail S]
         < C:ROLLBACK E:42601 Z:E => C[E:40001 Z:E]",
    );
    // A server that will not let it fail ends the session, and nothing goes on for ever.
    let mut story = Story::new("low_user");
    story.play(
        "> Q:begin => S[Q:begin]
         < C:BEGIN Z:T => C[C:BEGIN Z:T]
         > Q:listen_x => S[Q:listen_x]
         ! aim =>
         < E:57014 Z:E =>
         ! arrived => S[!ROLLBACK_AND_CHAIN !fail S]",
    );
    (0..9).for_each(|_| story.play("< C:ROLLBACK Z:T => S[!ROLLBACK_AND_CHAIN !fail S]"));
    story.play("< C:ROLLBACK Z:T => C[E:08P01]");
    assert!(story.session.has_ended());
}

/// An error with a context of more than 64 KiB is not read whole; once it was passed on, though we had made it.
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

/// The server is shut down while a victim is being rolled back: the client is to know why its connection ends.
#[test]
fn the_end_of_a_session_is_told_in_the_middle_of_a_rollback_too() {
    check(
        "low_user",
        &format!(
            "{BEGUN}
             ! aim =>
             < E:57014 Z:E =>
             ! arrived => S[!ROLLBACK S]
             < F:57P01 => C[F:57P01]"
        ),
    );
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
         ! idle => S[!ROLLBACK_AND_CHAIN S]";
    check(
        "low_user",
        &format!(
            "{thinking}
             < C:ROLLBACK Z:T =>
             > Q:commit => S[!ROLLBACK S]
             < C:ROLLBACK Z:I => S[Q:begin]
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
             < C:UPDATE_2 Z:T => S[!ROLLBACK_AND_CHAIN !fail S]
             < C:ROLLBACK E:42601 Z:E => C[E:40001 Z:E]
             > Q:rollback => S[Q:rollback]",
        ),
    );
    // A COMMIT that fails leaves no transaction behind.
    check(
        "low_user",
        &format!(
            "{thinking}
             > Q:commit =>
             < C:ROLLBACK Z:T => S[!ROLLBACK S]
             < C:ROLLBACK Z:I => S[Q:begin]
             < C:BEGIN Z:T => S[Q:update]
             < C:UPDATE_2 Z:T => S[!ROLLBACK S]
             < C:ROLLBACK Z:I => C[E:40001 Z:I]
             > Q:select => S[Q:select]",
        ),
    );
    // For a ROLLBACK nothing is run again; nor for one that goes on with a transaction like it.
    for rollback in ["P::rollback B:: E S", "Q:rollback", "Q:rollback_and_chain"] {
        check("low_user", &format!("{thinking}\n< C:ROLLBACK Z:T =>\n> {rollback} => S[{rollback}]"));
    }
    // The unit that meets the failure is dropped to its end.
    check(
        "low_user",
        "> Q:begin => S[Q:begin]
         < C:BEGIN Z:T => C[C:BEGIN Z:T]
         > Q:listen_x => S[Q:listen_x]
         < C:LISTEN Z:T => C[C:LISTEN Z:T]
         ! idle => S[!ROLLBACK_AND_CHAIN S]
         < C:ROLLBACK Z:T =>
         > P::select B:: H => S[!ROLLBACK_AND_CHAIN !fail S]
         < C:ROLLBACK E:42601 Z:E => C[E:40001]
         > E S => C[Z:E]
         > Q:rollback => S[Q:rollback]",
    );
}

/// A driver prepares its ROLLBACK in one unit and runs it in another. Once preparing it was taken for the ROLLBACK itself: nothing was
/// run again, and the COMMIT that came instead succeeded without the work.
#[test]
fn preparing_a_rollback_is_none() {
    let thinking = "> Q:begin => S[Q:begin]
         < C:BEGIN Z:T => C[C:BEGIN Z:T]
         > Q:update => S[Q:update]
         < C:UPDATE Z:T => C[C:UPDATE Z:T]
         ! idle => S[!ROLLBACK_AND_CHAIN S]
         < C:ROLLBACK Z:T =>";
    for unit in ["P:r:rollback S", "P::rollback B:: S", "P::rollback B:: E B:: E S", "P::rollback D H"] {
        let rest = "< C:ROLLBACK Z:I => S[Q:begin]\n< C:BEGIN Z:T => S[Q:update]";
        check("low_user", &format!("{thinking}\n> {unit} => S[!ROLLBACK S]\n{rest}\n< C:UPDATE Z:T => S[{unit}]"));
    }
}

/// The client's next transaction is to be like the one that was rolled back, isolation level and all: a block that stood in for it
/// once had the server's defaults.
#[test]
fn what_is_chained_to_a_transaction_that_was_rolled_back_is_like_it() {
    check(
        "low_user",
        "> Q:begin_isolation_level_serializable => S[Q:begin_isolation_level_serializable]
         < C:BEGIN Z:T => C[C:BEGIN Z:T]
         > Q:update => S[Q:update]
         < C:UPDATE Z:T => C[C:UPDATE Z:T]
         ! idle => S[!ROLLBACK_AND_CHAIN S]
         < C:ROLLBACK Z:T =>
         > Q:rollback_and_chain => S[Q:rollback_and_chain]
         < C:ROLLBACK Z:T => C[C:ROLLBACK Z:T]
         > Q:update => S[Q:update]
         ! aim =>
         < E:57014 Z:E =>
         ! arrived => S[!ROLLBACK_AND_CHAIN S]
         < C:ROLLBACK Z:T => S[Q:update]
         < C:UPDATE Z:T => C[C:UPDATE Z:T]
         > Q:commit_and_chain => S[Q:commit_and_chain]
         ! no_aim =>
         < C:COMMIT Z:T => C[C:COMMIT Z:T]
         > Q:update => S[Q:update]
         ! aim =>
         < E:57014 Z:E =>
         ! arrived => S[!ROLLBACK_AND_CHAIN S]
         < C:ROLLBACK Z:T => S[Q:update]
         < C:UPDATE Z:T => C[C:UPDATE Z:T]",
    );
}

#[test]
fn who_thinks_and_cannot_be_run_again_hears_of_it_upon_his_commit() {
    check(
        "low_user",
        "> Q:begin => S[Q:begin]
         < C:BEGIN Z:T => C[C:BEGIN Z:T]
         > Q:listen_x => S[Q:listen_x]
         < C:LISTEN Z:T => C[C:LISTEN Z:T]
         ! idle => S[!ROLLBACK_AND_CHAIN S]
         < C:ROLLBACK Z:T =>
         > P::commit B:: E S => S[!ROLLBACK S]
         < C:ROLLBACK Z:I => C[E:40001 Z:I]
         > Q:select => S[Q:select]",
    );
}

/// A client cancelled, its cancel met nothing, and the mark of it stayed: the next rollback for another's sake was taken for the
/// client's, which got 57014 for a statement that it had not cancelled.
#[test]
fn a_clients_cancel_that_met_nothing_is_forgotten() {
    check(
        "low_user",
        "> Q:begin => S[Q:begin]
         < C:BEGIN Z:T => C[C:BEGIN Z:T]
         > Q:update => S[Q:update]
         ! cancel =>
         < C:UPDATE Z:T => C[C:UPDATE Z:T]
         ! client_arrived =>
         ! idle => S[!ROLLBACK_AND_CHAIN S]
         < C:ROLLBACK Z:T =>
         > Q:select => S[!ROLLBACK S]
         < C:ROLLBACK Z:I => S[Q:begin]",
    );
}

/// After a COPY that is over, and in a block that has failed behind a savepoint, a client that thinks holds locks like any other.
#[test]
fn who_thinks_after_a_copy_or_a_failure_is_no_more_immune_than_others() {
    check(
        "low_user",
        "> Q:begin => S[Q:begin]
         < C:BEGIN Z:T => C[C:BEGIN Z:T]
         > Q:copy_t_to_stdout => S[Q:copy_t_to_stdout]
         < H => C[H]
         ! no_aim =>
         < d c C:COPY Z:T => C[d c C:COPY Z:T]
         ! idle => S[!ROLLBACK_AND_CHAIN S]",
    );
    check(
        "low_user",
        "> Q:begin => S[Q:begin]
         < C:BEGIN Z:T => C[C:BEGIN Z:T]
         > Q:savepoint_a => S[Q:savepoint_a]
         < C:SAVEPOINT Z:T => C[C:SAVEPOINT Z:T]
         > Q:insert => S[Q:insert]
         < E:23505 Z:E => C[E:23505 Z:E]
         ! idle => S[!ROLLBACK_AND_CHAIN S]
         < C:ROLLBACK Z:T =>
         > Q:rollback_to_a => S[!ROLLBACK S]
         < C:ROLLBACK Z:I => S[Q:begin]
         < C:BEGIN Z:T => S[Q:savepoint_a]
         < C:SAVEPOINT Z:T => S[Q:insert]
         < E:23505 Z:E => S[Q:rollback_to_a]
         < C:ROLLBACK Z:T => C[C:ROLLBACK Z:T]",
    );
}

/// A transaction that lost five times, told of it each time, and was tried again each time, once began to count from nothing with each
/// try: it could starve for ever.
#[test]
fn who_tries_again_after_a_rollback_has_been_rolled_back_before() {
    let mut story = Story::new("low_user");
    for times in 1..=3 {
        story.play(
            "> Q:begin => S[Q:begin]
             < C:BEGIN Z:T => C[C:BEGIN Z:T]
             > Q:listen_x => S[Q:listen_x]
             ! aim =>
             < E:57014 Z:E =>
             ! arrived => S[!ROLLBACK_AND_CHAIN !fail S]
             < C:ROLLBACK E:42601 Z:E => C[E:40001 Z:E]
             > Q:rollback => S[Q:rollback]
             < C:ROLLBACK Z:I => C[C:ROLLBACK Z:I]",
        );
        assert_eq!(story.session.card.state().rollbacks, times);
    }
    story.play("> Q:update => S[Q:update]\n< C:UPDATE Z:I => C[C:UPDATE Z:I]");
    assert_eq!(story.session.card.state().rollbacks, 0, "it has come to its end");
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
            "! idle => S[!ROLLBACK_AND_CHAIN S]
             < C:ROLLBACK Z:T =>
             > Q:select => S[!ROLLBACK S]
             < C:ROLLBACK Z:I => S[Q:begin]
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
             < E:57014 Z:E => S[!ROLLBACK S]
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
    assert!(story.session.transaction.as_ref().is_some_and(|inside| inside.recording.is_none()));
}

/// Asks the server what a transaction calls, and says how it is found in the session's own words.
fn asks() -> Story {
    let mut story = Story::new("low_user");
    story.is_known = false;
    story.play(BEGUN);
    story.play("! aim =>\n< E:57014 Z:E =>\n! arrived => S[!ROLLBACK_AND_CHAIN S]");
    story
}

/// What a transaction calls is asked in a block of its own, which holds nothing of the client's, and forgotten with it.
#[test]
fn the_server_is_asked_what_a_transaction_calls_before_it_is_run_again() {
    let mut story = asks();
    let question = story.asked("< C:ROLLBACK Z:T");
    assert!(question.contains("pg%catalog.pg%proc"), "{question}");
    story.play(
        "< C:SELECT Z:T => S[!ROLLBACK S]
         < C:ROLLBACK Z:I => S[Q:begin]
         < C:BEGIN Z:T => S[Q:select_a]
         < D:1 C:SELECT Z:T => S[Q:update]
         < C:UPDATE Z:T => C[C:UPDATE Z:T]",
    );
    assert_eq!(verified(&story), 1);
}

#[test]
fn what_the_server_does_not_say_is_not_assumed() {
    for answer in ["E:42501 Z:E", "Z:T", "D:nonsense C:SELECT Z:T"] {
        let mut story = asks();
        story.asked("< C:ROLLBACK Z:T");
        story.play(&format!(
            "< {answer} => S[!ROLLBACK_AND_CHAIN !fail S]
             < C:ROLLBACK E:42601 Z:E => C[E:40001 Z:E]"
        ));
    }
}

/// A client cancelled while its transaction was being rolled back, and the cancel met our own ROLLBACK: the statement stayed, and every
/// later one of ours was refused for its name; or the client's locks stayed, though they were said to be free.
#[test]
fn a_cancel_that_meets_our_own_statement_does_no_harm() {
    let mut story = Story::new("low_user");
    story.play(BEGUN);
    story.play(
        "! aim =>
         < E:57014 Z:E =>
         ! arrived => S[!ROLLBACK S]
         ! cancel =>
         < E:57014 Z:E =>
         ! client_arrived => S[!ROLLBACK_AND_CHAIN !fail S]
         < C:ROLLBACK E:42601 Z:E => C[E:57014 Z:E]",
    );
    // While its client thinks the server is asked again, until it has rolled back.
    check(
        "low_user",
        "> Q:begin => S[Q:begin]
         < C:BEGIN Z:T => C[C:BEGIN Z:T]
         > Q:update => S[Q:update]
         < C:UPDATE Z:T => C[C:UPDATE Z:T]
         ! idle => S[!ROLLBACK_AND_CHAIN S]
         < E:57014 Z:E => S[!ROLLBACK_AND_CHAIN S]
         < C:ROLLBACK Z:T =>
         > Q:rollback => S[Q:rollback]",
    );
}

/// A client sent an empty unit and another one at once, after it had been rolled back: the answer to one of our own requests was taken for
/// that of the empty unit, and the client got it.
#[test]
fn what_comes_behind_a_unit_that_does_nothing_waits_for_its_answer() {
    check(
        "low_user",
        "> Q:begin => S[Q:begin]
         < C:BEGIN Z:T => C[C:BEGIN Z:T]
         ! idle => S[!ROLLBACK_AND_CHAIN S]
         < C:ROLLBACK Z:T =>
         > S P:e:commit S => S[S]
         < Z:T => S[!ROLLBACK S] C[Z:T]
         < C:ROLLBACK Z:I => S[Q:begin]
         < C:BEGIN Z:T => S[S]
         < Z:T => S[P:e:commit S]",
    );
}

/// A client had asked for more before the error of its cancelled unit came. The new unit was then taken for the one that was cancelled, the
/// error for nobody's, and the client got 57014 for a statement that it had not cancelled.
#[test]
fn a_unit_that_comes_between_a_cancel_and_its_error_waits() {
    check(
        "low_user",
        "> Q:update => S[Q:update]
         ! aim =>
         ! arrived =>
         > Q:select =>
         < E:57014 Z:I => S[Q:update]
         < C:UPDATE Z:I => S[Q:select] C[C:UPDATE Z:I]
         < C:SELECT Z:I => C[C:SELECT Z:I]",
    );
}
