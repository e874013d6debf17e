//! Transactions that the server aborts, or that are in a cycle of waiters.

use plimsoll_policy::{NoReplay, PreemptionPolicy, Unsafe};

use super::replaying::BEGUN;
use super::*;
use crate::statistics::{AbortCause, AbortOutcome};

/// How often an aborted transaction is replayed in these stories.
const RETRY_ABORTED: u32 = 3;

/// A session of `user`, with changed settings.
fn story(user: &str, change: impl FnOnce(&mut Settings)) -> Story {
    Story::with(user, |settings| {
        settings.classes.iter_mut().for_each(|class| class.retry_aborted = RETRY_ABORTED);
        change(settings);
    })
}

/// Plays a story for a session of class high, which is never preempted, and of class low; whole and byte by byte.
/// Returns the counts.
fn check(lines: &str) -> Vec<(AbortCause, AbortOutcome, u64)> {
    let mut counts = Vec::new();
    for (user, step) in [("high_user", usize::MAX), ("high_user", 1), ("low_user", usize::MAX), ("low_user", 3)] {
        let mut story = story(user, |_| {});
        story.step = step;
        story.play(lines);
        counts.push(counted(&story));
    }
    assert!(counts.iter().all(|one| *one == counts[0]), "{counts:?}");
    counts.remove(0)
}

fn counted(story: &Story) -> Vec<(AbortCause, AbortOutcome, u64)> {
    let class = story.session.identity.class;
    story.governor.statistics.class(class).aborts.counted().collect()
}

fn not_replayed(cause: AbortCause, why: NoReplay) -> Vec<(AbortCause, AbortOutcome, u64)> {
    vec![(cause, AbortOutcome::NotReplayed(why), 1)]
}

/// `BEGUN`, its last unit the victim of a deadlock, up to the answer of ROLLBACK.
fn aborted() -> String {
    format!(
        "{BEGUN}
         < E:40P01 Z:E => rolled-back S[Q:begin]"
    )
}

/// `BEGUN`, its last unit cancelled to break a cycle, up to the replay of the first statement.
fn broken() -> String {
    format!(
        "{BEGUN}
         ! broken => rolled-back S[Q:begin]
         < C:BEGIN Z:T => S[Q:select_a]"
    )
}

#[test]
fn a_victim_of_a_deadlock_is_run_again_and_nobody_notices() {
    let counts = check(&format!(
        "{}
         < C:BEGIN Z:T => S[Q:select_a]
         < D:1 C:SELECT Z:T => S[Q:update]
         < C:UPDATE Z:T => C[C:UPDATE Z:T]
         = Q:commit => C:COMMIT Z:I",
        aborted()
    ));
    assert_eq!(counts, [(AbortCause::Deadlock, AbortOutcome::Replayed, 1)]);
}

#[test]
fn an_answer_that_differs_leaves_the_servers_error_to_the_client() {
    let counts = check(&format!(
        "{}
         < C:BEGIN Z:T => S[Q:select_a]
         < D:2 C:SELECT Z:T => chained-and-failed C[E:40P01 Z:E]
         = Q:rollback => C:ROLLBACK Z:I
         > Q:select_1 => S[Q:select_1]",
        aborted()
    ));
    assert_eq!(counts, [(AbortCause::Deadlock, AbortOutcome::Differed, 1)]);
}

/// The client receives the server's error text unchanged, because applications parse it.
#[test]
fn the_servers_error_is_handed_over_byte_for_byte() {
    let error = |words: &str| [&b"SERROR\0VERROR\0C40P01\0M"[..], words.as_bytes(), b"\0D\0\0"].concat();
    let body = error("Process 1 waits for ShareLock");
    assert_eq!(answers::error_with_body(&body)[5..], body);
    assert_eq!(answers::error_with_body(&body)[0], b'E');
}

#[test]
fn what_is_aborted_while_it_is_run_again_is_run_once_more() {
    let counts = check(&format!(
        "{}
         < C:BEGIN Z:T => S[Q:select_a]
         < E:40P01 Z:E => rolled-back S[Q:begin]
         < C:BEGIN Z:T => S[Q:select_a]
         < D:1 C:SELECT Z:T => S[Q:update]
         < E:40001 Z:E => rolled-back S[Q:begin]
         < C:BEGIN Z:T => S[Q:select_a]
         < D:1 C:SELECT Z:T => S[Q:update]
         < C:UPDATE Z:T => C[C:UPDATE Z:T]",
        aborted()
    ));
    // The second abort came in the replay of the first, the third when the replay was complete.
    let expect = [
        (AbortCause::Deadlock, AbortOutcome::Replayed, 1),
        (AbortCause::Deadlock, AbortOutcome::Again, 1),
        (AbortCause::Serialization, AbortOutcome::Replayed, 1),
    ];
    assert_eq!(counts, expect);
}

#[test]
fn after_as_many_attempts_as_the_class_says_the_client_is_told() {
    let again = "< E:40P01 Z:E => rolled-back S[Q:begin]
                 < C:BEGIN Z:T => S[Q:select_a]
                 < D:1 C:SELECT Z:T => S[Q:update]\n";
    let counts = check(&format!("{BEGUN}\n{}< E:40P01 Z:E => C[E:40P01 Z:E]", again.repeat(RETRY_ABORTED as usize)));
    let expect = [
        (AbortCause::Deadlock, AbortOutcome::Replayed, RETRY_ABORTED.into()),
        (AbortCause::Deadlock, AbortOutcome::NotReplayed(NoReplay::TooOften), 1),
    ];
    assert_eq!(counts, expect);
    // And in a replay, where the answer to the aborted statement differs.
    check(&format!(
        "{}
         < C:BEGIN Z:T => S[Q:select_a]
         < E:40P01 Z:E => rolled-back S[Q:begin]
         < C:BEGIN Z:T => S[Q:select_a]
         < E:40P01 Z:E => rolled-back S[Q:begin]
         < C:BEGIN Z:T => S[Q:select_a]
         < E:40P01 Z:E => chained-and-failed C[E:40P01 Z:E]",
        aborted()
    ));
}

const BEFORE_COMMIT: &str = "= Q:begin => C:BEGIN Z:T
     = Q:update => C:UPDATE Z:T
     > Q:commit => S[Q:commit]";

#[test]
fn a_commit_that_could_not_be_serialized_is_run_again_with_all_before_it() {
    let again = "< E:40001 Z:I => S[Q:begin]
                 < C:BEGIN Z:T => S[Q:update]
                 < C:UPDATE Z:T => S[Q:commit]
                 ! no_aim_at_cycle =>\n";
    let counts = check(&format!("{BEFORE_COMMIT}\n{again}{again}< C:COMMIT Z:I => C[C:COMMIT Z:I]\n> Q:x => S[Q:x]"));
    assert_eq!(counts, [(AbortCause::Serialization, AbortOutcome::Replayed, 2)]);
}

#[test]
fn a_commit_whose_replay_differs_has_failed_with_the_servers_error() {
    let counts = check(&format!(
        "{BEFORE_COMMIT}
         < E:40001 Z:I => S[Q:begin]
         < C:BEGIN Z:T => S[Q:update]
         < C:UPDATE%2 Z:T => rolled-back C[E:40001 Z:I]
         > Q:select_1 => S[Q:select_1]"
    ));
    assert_eq!(counts, [(AbortCause::Serialization, AbortOutcome::Differed, 1)]);
}

/// No server answers so. If one did, an error that invites a retry would make the client run the transaction twice.
#[test]
fn a_commit_that_is_carried_out_and_answered_otherwise_ends_the_session() {
    check(
        "= Q:begin => C:BEGIN Z:T
         > P::commit B:: E S => S[P::commit B:: E S]
         < 1 2 E:40001 Z:I => S[Q:begin] C[1 2]
         < C:BEGIN Z:T => S[P::commit B:: E S]
         < 1 3 C:COMMIT Z:I => C[E:08007]",
    );
}

/// Only an idle server has confirmed that nothing remains.
#[test]
fn a_commit_that_the_server_does_not_confirm_to_have_failed_is_left_alone() {
    let counts = check(&format!(
        "{BEFORE_COMMIT}
         < E:40001 Z:E => C[E:40001 Z:E]
         = Q:rollback => C:ROLLBACK Z:I"
    ));
    assert_eq!(counts, [(AbortCause::Serialization, AbortOutcome::Unconfirmed, 1)]);
}

#[test]
fn what_may_have_been_committed_is_not_run_again() {
    let head = "= Q:begin => C:BEGIN Z:T
                = Q:update => C:UPDATE Z:T\n";
    // A text with more than the end, an end that is not a COMMIT, an end that is not recognized.
    for text in ["commit;_select_1", "prepare_transaction_\'a\'", "select_1;_commit"] {
        let counts = check(&format!("{head}= Q:{text} => E:40001 Z:I"));
        assert_eq!(counts, not_replayed(AbortCause::Serialization, NoReplay::CommitSent), "{text}");
    }
    // A statement after it, in the same unit.
    let unit = "P::commit B:: E P::select B:: E S";
    let counts = check(&format!("{head}= {unit} => 1 2 E:40001 Z:I"));
    assert_eq!(counts, not_replayed(AbortCause::Serialization, NoReplay::CommitSent));
    // A hostile or unknown server: it has already sent COMMIT.
    let counts = check(&format!("{BEFORE_COMMIT}\n< C:COMMIT E:40001 Z:I => C[C:COMMIT E:40001 Z:I]"));
    assert_eq!(counts, not_replayed(AbortCause::Serialization, NoReplay::CommitSent));
}

#[test]
fn a_commit_by_the_extended_protocol_is_run_again_as_any_other() {
    check(
        "= Q:begin => C:BEGIN Z:T
         = P::update B:: E S => 1 2 C:UPDATE Z:T
         > P::commit B:: E S => S[P::commit B:: E S]
         < 1 2 E:40001 Z:I => S[Q:begin] C[1 2]
         < C:BEGIN Z:T => S[P::update B:: E S]
         < 1 2 C:UPDATE Z:T => S[P::commit B:: E S]
         < 1 2 C:COMMIT Z:I => C[C:COMMIT Z:I]",
    );
}

/// After the server's own error a client may continue from a savepoint; an attempt would destroy it.
#[test]
fn nothing_is_attempted_where_a_client_may_go_on_from_a_savepoint() {
    let counts = check(
        "= Q:begin => C:BEGIN Z:T
         = Q:savepoint_a => C:SAVEPOINT Z:T
         = Q:update => E:40P01 Z:E
         = Q:rollback_to_a => C:ROLLBACK Z:T",
    );
    assert_eq!(counts, not_replayed(AbortCause::Deadlock, NoReplay::Savepoint));
}

#[test]
fn a_statement_by_itself_is_run_again_if_its_client_has_seen_nothing() {
    check(
        "> Q:update => S[Q:update]
         < E:40P01 Z:I => S[Q:update]
         < C:UPDATE Z:I => C[C:UPDATE Z:I]",
    );
    // The server commits at the Sync, after it has answered the statement.
    check(
        "> P::update B:: E S => S[P::update B:: E S]
         < 1 2 C:UPDATE E:40001 Z:I => S[P::update B:: E S]
         < 1 2 C:UPDATE Z:I => C[1 2 C:UPDATE Z:I]",
    );
    // A text that begins a block.
    check(
        "> Q:begin;_update => S[Q:begin;_update]
         < C:BEGIN E:40P01 Z:E => rolled-back S[Q:begin;_update]
         < C:BEGIN E:40P01 Z:E => rolled-back S[Q:begin;_update]
         < C:BEGIN C:UPDATE Z:T => C[C:BEGIN C:UPDATE Z:T]",
    );
}

#[test]
fn what_must_not_be_run_twice_is_not() {
    let counts = check(
        "= Q:begin => C:BEGIN Z:T
         = Q:listen_a => C:LISTEN Z:T
         = Q:update => E:40P01 Z:E",
    );
    assert_eq!(counts, not_replayed(AbortCause::Deadlock, NoReplay::Unsafe(Unsafe::Listen)));
    // A client that has pipelined more cannot tell which answer it would get.
    let counts = check(
        "= Q:begin => C:BEGIN Z:T
         = Q:update Q:select => E:40P01 Z:E E:25P02 Z:E",
    );
    assert_eq!(counts, not_replayed(AbortCause::Deadlock, NoReplay::Pipeline));
    // It waits for an answer without having ended its unit.
    let counts = check(
        "= Q:begin => C:BEGIN Z:T
         = P::update B:: E H => 1 2 E:40P01
         = S => Z:E",
    );
    assert_eq!(counts, not_replayed(AbortCause::Deadlock, NoReplay::Pipeline));
}

#[test]
fn where_it_is_switched_off_errors_are_the_clients() {
    let lines = format!("{BEGUN}\n< E:40P01 Z:E => C[E:40P01 Z:E]");
    let off: [fn(&mut Settings); 3] = [
        |settings| settings.classes.iter_mut().for_each(|class| class.retry_aborted = 0),
        |settings| settings.classes.iter_mut().for_each(|class| class.replay = false),
        // The policy `track` changes nothing.
        |settings| settings.preemption.policy = PreemptionPolicy::parse("track").expect("a policy"),
    ];
    for off in off {
        let mut story = story("high_user", off);
        story.play(&lines);
        assert_eq!(counted(&story), not_replayed(AbortCause::Deadlock, NoReplay::Off));
    }
    let mut story = story("high_user", |settings| {
        settings.preemption.policy = PreemptionPolicy::parse("never").expect("a policy");
    });
    story.play(&aborted());
}

#[test]
fn other_errors_are_the_clients() {
    assert_eq!(check(&format!("{BEGUN}\n< E:23505 Z:E => C[E:23505 Z:E]")), []);
    assert_eq!(check(&format!("{BEGUN}\n< E:57014 Z:E => C[E:57014 Z:E]")), []);
}

#[test]
fn a_client_that_cancels_meanwhile_hears_of_its_cancel() {
    let counts = check(&format!(
        "{}
         < C:BEGIN Z:T => S[Q:select_a]
         ! cancel =>
         < D:1 C:SELECT Z:T =>
         ! client_arrived => chained-and-failed C[E:57014 Z:E]",
        aborted()
    ));
    assert_eq!(counts, [(AbortCause::Deadlock, AbortOutcome::Abandoned, 1)]);
}

#[test]
fn who_leaves_meanwhile_is_counted() {
    let mut story = story("high_user", |_| {});
    story.play(&aborted());
    story.session.close(story.now);
    assert_eq!(counted(&story), [(AbortCause::Deadlock, AbortOutcome::Abandoned, 1)]);
}

/// Class high is not `preemptible`, but a cycle needs a victim.
#[test]
fn a_cycle_is_broken_without_its_victims_noticing() {
    let counts = check(&format!(
        "{}
         ! broken => rolled-back S[Q:begin]
         < C:BEGIN Z:T => S[Q:select_a]
         < D:1 C:SELECT Z:T => S[Q:update]
         < C:UPDATE Z:T => C[C:UPDATE Z:T]",
        broken()
    ));
    assert_eq!(counts, [(AbortCause::Cycle, AbortOutcome::Replayed, 1), (AbortCause::Cycle, AbortOutcome::Again, 1)]);
    let mut high = story("high_user", |_| {});
    high.play(BEGUN);
    high.play("! no_aim =>");
}

#[test]
fn a_victim_of_a_cycle_whose_replay_differs_is_told_of_a_deadlock() {
    let counts = check(&format!(
        "{}
         < D:2 C:SELECT Z:T => chained-and-failed C[E:40P01 Z:E]",
        broken()
    ));
    assert_eq!(counts, [(AbortCause::Cycle, AbortOutcome::Differed, 1)]);
}

#[test]
fn whose_client_would_notice_is_no_victim_of_a_cycle_unless_its_class_retries() {
    let lines = "= Q:begin => C:BEGIN Z:T
                 = Q:savepoint_a => C:SAVEPOINT Z:T
                 > Q:update => S[Q:update]\n";
    let mut high = story("high_user", |_| {});
    high.play(&format!("{lines}! no_aim_at_cycle =>"));
    let mut low = story("low_user", |settings| settings.classes[1].retries = false);
    low.play(&format!("{lines}! no_aim_at_cycle =>"));
    let mut low = story("low_user", |_| {});
    low.play(&format!(
        "{lines}
         ! broken => chained-and-failed C[E:40P01 Z:E]"
    ));
    assert_eq!(counted(&low), not_replayed(AbortCause::Cycle, NoReplay::Savepoint));
    // A session is in no cycle of waiters while its client thinks.
    let mut low = story("low_user", |_| {});
    low.play("= Q:begin => C:BEGIN Z:T\n! no_aim_at_cycle =>");
}

/// The number of aborts belongs to one transaction.
#[test]
fn the_next_transaction_begins_without_aborts() {
    let mut story = story("high_user", |_| {});
    story.play(&format!(
        "{}
         < C:BEGIN Z:T => S[Q:select_a]
         < D:1 C:SELECT Z:T => S[Q:update]
         < C:UPDATE Z:T => C[C:UPDATE Z:T]
         > Q:commit => S[Q:commit]",
        aborted()
    ));
    assert_eq!(story.session.card.state().aborts, 1);
    story.play("< C:COMMIT Z:I => C[C:COMMIT Z:I]\n> Q:select_2 => S[Q:select_2]");
    assert_eq!(story.session.card.state().aborts, 0);
}

/// Work that is aborted again and again was once run 21 times without a pause.
#[test]
fn replays_pause_when_the_conflict_comes_back() {
    let again =
        |pause: &str| format!("< E:40P01 Z:E => {pause}rolled-back S[Q:begin]\n< C:BEGIN Z:T => S[Q:select_a]\n");
    let mut story =
        story("high_user", |settings| settings.classes.iter_mut().for_each(|class| class.retry_aborted = 9));
    story.play(BEGUN);
    (0..3).for_each(|_| story.play(&again("")));
    for milliseconds in [1, 2, 4] {
        story.play("< E:40P01 Z:E =>\n! time =>");
        assert_eq!(story.session.wakes_at(), Some(story.now + Duration::from_millis(milliseconds)));
        story.play("! pause => rolled-back S[Q:begin]\n< C:BEGIN Z:T => S[Q:select_a]");
    }
    // Its client need not wait for the end of the pause.
    story.play("< E:40P01 Z:E =>\n! cancel =>\n! client_arrived => chained-and-failed C[E:57014 Z:E]");
}

/// A function raised 40001 by itself, to tell its client to try again: that is no conflict which a replay could avoid.
#[test]
fn an_error_that_an_application_raises_is_its_own() {
    let mut story = story("high_user", |_| {});
    story.play(BEGUN);
    let raised = b"SERROR\0VERROR\0C40001\0Mtry again\0Fpl_exec.c\0L3911\0Rexec_stmt_raise\0\0";
    let mut sent = super::story::Sent::default();
    let error = super::story::framed(b'E', raised);
    story.session.on_server(&error, story.now, &mut sent).expect("the protocol is kept");
    assert_eq!(sent.client, error);
    story.play("< Z:E => C[Z:E]");
    assert_eq!(counted(&story), []);
}
