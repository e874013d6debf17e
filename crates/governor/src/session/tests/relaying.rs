//! Messages that pass, wait, or are refused.

use super::*;

#[test]
fn queries_and_prepared_statements_pass() {
    check_as(
        "high_user",
        "= Q:select_1 => D:row C:SELECT Z:I
         = P:s:select_1 B::s E S => 1 2 D:row C:SELECT Z:I
         > X => S[X]",
    );
}

#[test]
fn a_flush_without_a_sync_keeps_the_unit_open() {
    check_as(
        "high_user",
        "= P::select D H => 1
         = B:: E S => 2 C:SELECT Z:I",
    );
}

#[test]
fn copies_pass_both_ways_and_lost_syncs_are_not_missed() {
    let mut story = Story::new("low_user");
    story.play(
        "= P::copy_t_from_stdin B:: E S => 1 2 G
         = d d c S => C:COPY Z:I",
    );
    assert!(story.session.is_idle());
    assert_eq!(story.governor.inside(story.session.identity.class), 0);
}

#[test]
fn notifications_and_parameters_pass_at_any_time() {
    check_as("high_user", "< A:note S:TimeZone=UTC => C[A S:TimeZone=UTC]");
}

#[test]
fn one_too_many_waits_and_the_next_is_refused_at_the_end_of_its_unit() {
    let mut first = Story::new("low_user");
    let mut second = first.beside("low_user");
    let mut third = first.beside("low_user");
    first.play("> Q:select_1 => S[Q:select_1]");
    second.play("> P::select B:: E => \n> S => ");
    third.play(
        "> P::select B:: => C[E:53300]
         > E D H =>
         > S => C[Z:I]
         > Q:select => C[E:53300 Z:I]",
    );
    first.play("< C:SELECT Z:I => C[C:SELECT Z:I]");
    second.play("! admitted => S[P::select B:: E S]\n< 1 2 C:SELECT Z:I => C[1 2 C:SELECT Z:I]");
    assert_eq!(first.governor.inside(first.session.identity.class), 0);
}

#[test]
fn who_waits_too_long_or_cancels_gets_the_answer_in_its_place() {
    let mut first = Story::new("low_user");
    first.play("> Q:begin => S[Q:begin]");
    let mut second = first.beside("low_user");
    second.play("> Q:one Q:two => \n! timeout => C[E:53300 Z:I]");
    // The second query requests admission again.
    second.play("! cancelled => C[E:57014 Z:I]");
    assert!(second.session.is_idle() && second.governor.waiting().is_empty());
}

#[test]
fn an_admission_that_crosses_with_giving_up_is_given_back() {
    let mut first = Story::new("low_user");
    first.play("> Q:begin => S[Q:begin]");
    let mut second = first.beside("low_user");
    second.play("> Q:one => ");
    // The first session ends and the second is admitted, but its client disconnects before the command arrives.
    first.play("< C:BEGIN Z:I => C[C:BEGIN Z:I]");
    let low = first.session.identity.class;
    assert_eq!(first.governor.inside(low), 1);
    second.session.close(second.now);
    assert_eq!(first.governor.inside(low), 0);
}

#[test]
fn the_class_is_chosen_by_setting_and_tag_and_only_where_that_is_allowed() {
    let mut story = Story::new("high_user");
    let class = |story: &Story| story.governor.settings().class(story.session.card.state().class).name.clone();
    assert_eq!(class(&story), "high");
    story.play("> Q:select_1_/*class='low'*/ => S[Q:select_1_/*class='low'*/]");
    assert_eq!(class(&story), "low");
    story.play("< C:SELECT Z:I => C[C:SELECT Z:I]");
    assert_eq!(class(&story), "high");
    story.play("= Q:set_plimsoll.class_to_'low' => C:SET Z:I");
    assert_eq!(class(&story), "low");
    story.play("= Q:reset_plimsoll.class => C:RESET Z:I");
    assert_eq!(class(&story), "high");
    story.play("> Q:set_plimsoll.class='highest' => C[E:22023 Z:I]");
    let mut low = Story::new("low_user");
    low.play("> P::set_plimsoll.class='high' B:: E S => C[E:42501 Z:I]");
    low.play("> Q:select_1_/*class='high'*/ => S[Q:select_1_/*class='high'*/] C[N:01000]");
    assert_eq!(class(&low), "low");
}

#[test]
fn an_answer_that_nobody_asked_for_ends_governing_and_nothing_else() {
    let mut story = Story::new("low_user");
    story.play(
        "< Z:I => C[Z:I]
         = Q:begin => C:BEGIN Z:T",
    );
    assert_eq!(story.governor.inside(story.session.identity.class), 0);
    assert!(!story.session.card.state().preemptible);
}

/// A driver may send BEGIN and the statements of the block at once; without the block each would commit by itself.
#[test]
fn a_block_that_is_not_let_in_is_refused_as_a_whole() {
    let mut first = Story::new("low_user");
    first.play("> Q:select => S[Q:select]");
    let mut second = first.beside("low_user");
    second.play(
        "> Q:begin Q:update Q:commit =>
         ! cancelled => S[!BEGIN !fail S]
         < C:BEGIN E:42601 Z:E => S[Q:update Q:commit] C[E:57014 Z:E]
         < E:25P02 Z:E C:ROLLBACK Z:I => C[E:25P02 Z:E C:ROLLBACK Z:I]",
    );
    assert!(second.session.is_idle());
    first.play("< C:SELECT Z:I => C[C:SELECT Z:I]");
    assert_eq!(first.governor.inside(first.session.identity.class), 0);
}

/// tokio-postgres closes statements when they are dropped, and ignores the answers.
#[test]
fn who_only_closes_neither_waits_nor_is_refused() {
    let mut first = Story::new("low_user");
    first.play("> Q:select => S[Q:select]");
    first.beside("low_user").play("= C:s C:t S => 3 3 Z:I");
    // The next message waits: it may need admission, or an answer of ours.
    first.beside("low_user").play("> C:s S Q:select => S[C:s S]\n< 3 Z:I => C[3 Z:I]");
    // A client whose transaction was rolled back while it was thinking learns of that with its next statement.
    let closed = "= Q:begin => C:BEGIN Z:T
         = Q:listen_x => C:LISTEN Z:T
         ! idle => chained
         = C:s S => 3 Z:T";
    let failed = "=> chained-and-failed C[E:40001 Z:E]\n> Q:rollback => S[Q:rollback]";
    check(&format!("{closed}\n> P::select B:: E S {failed}"));
    let flushed = "=> chained-and-failed C[E:40001]\n> S => C[Z:E]";
    check(&format!("{closed}\n> P::select H {flushed}"));
    // After a COMMIT no transaction is open, and a ROLLBACK is always carried out.
    check(&format!("{closed}\n> Q:commit => rolled-back C[E:40001 Z:I]"));
    check(&format!("{closed}\n= Q:rollback => C:ROLLBACK Z:I"));
}
