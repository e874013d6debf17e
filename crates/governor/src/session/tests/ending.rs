//! Clients that send nothing more, and sessions that wait in silence.

use super::replaying::BEGUN;
use super::*;

/// A client closed its connection while its statement ran. Once the server knows, nothing can be sent to it any more: a
/// rollback could not be followed by a replay, and the work would be lost.
#[test]
fn who_has_left_is_not_rolled_back() {
    let mut story = Story::new("low_user");
    story.play(BEGUN);
    assert!(story.session.leaves_nothing(b"") && story.session.end_client());
    story.play(
        "! no_aim =>
         < E:40P01 Z:E => C[E:40P01 Z:E]",
    );
    assert!(story.session.is_answered());
}

/// The rollback comes first: the replay still needs the server.
#[test]
fn who_leaves_during_a_rollback_is_still_replayed() {
    let mut story = Story::new("low_user");
    story.play(&format!("{BEGUN}\n! aim =>"));
    assert!(!story.session.end_client());
    story.play(
        "< E:57014 Z:E =>
         ! arrived => rolled-back S[Q:begin]",
    );
    assert!(!story.session.end_client());
    story.play(
        "< C:BEGIN Z:T => S[Q:select_a]
         < D:1 C:SELECT Z:T => S[Q:update]",
    );
    assert!(story.session.end_client());
    story.play("< C:UPDATE Z:T => C[C:UPDATE Z:T]");
}

#[test]
fn only_an_open_block_leaves_nothing() {
    let leaves = |lines: &str| {
        let mut story = Story::new("low_user");
        story.play(lines);
        story.session.leaves_nothing(b"")
    };
    assert!(leaves("= Q:begin => C:BEGIN Z:T\n> Q:update => S[Q:update]"));
    for lasting in ["> Q:update => S[Q:update]", "= Q:begin => C:BEGIN Z:T\n> Q:update;_commit => S[Q:update;_commit]"]
    {
        assert!(!leaves(lasting), "{lasting}");
    }
    // In the queue: what has arrived counts.
    let mut first = Story::new("low_user");
    first.play("> Q:begin => S[Q:begin]");
    let mut second = first.beside("low_user");
    second.play("> Q:begin => ");
    let message = |text: &str| story::write(text, true);
    let leaves =
        |waiting: &[&str]| second.session.leaves_nothing(&waiting.iter().flat_map(|m| message(m)).collect::<Vec<_>>());
    assert!(leaves(&["Q:begin"]) && leaves(&["Q:begin", "Q:update"]));
    assert!(!leaves(&["Q:begin", "Q:update", "Q:commit"]) && !leaves(&["Q:begin", "P::commit", "B", "E", "S"]));
    // A message that has not arrived completely does not run.
    let cut = message("Q:begin").into_iter().chain(message("Q:commit").into_iter().take(9)).collect::<Vec<_>>();
    assert!(second.session.leaves_nothing(&cut));
}

/// `idle_session_timeout` ended sessions whose clients waited for admission: 57P05 in place of an answer.
#[test]
fn a_session_that_waits_is_kept_alive_and_nobody_notices() {
    let mut first = Story::new("low_user");
    first.play("> Q:begin => S[Q:begin]");
    let mut second = first.beside("low_user");
    second.session.reported.version = 150_000;
    second.play("> Q:select => ");
    let wait = |story: &mut Story| {
        let before = std::mem::replace(&mut story.now, story.session.wakes_at().expect("it waits"));
        story.now - before
    };
    assert_eq!(wait(&mut second), KEEP_ALIVE_EVERY);
    second.play(
        "! time => S[S]
         ! time =>
         < A S:application%name=x Z:I => C[A S:application%name=x]",
    );
    // It is admitted before the server has answered: the answers keep their order.
    wait(&mut second);
    second.play(
        "! time => S[S]
         ! admitted => S[Q:select]
         < Z:I =>
         < C:SELECT Z:I => C[C:SELECT Z:I]",
    );
}
