//! The class of a transaction, and the effect of requesting another.

use super::*;

fn class(story: &Story) -> String {
    story.governor.settings().class(story.session.card.state().class).name.clone()
}

fn immune(story: &Story) -> Option<&'static str> {
    story.session.card.state().immune.map(|immunity| immunity.name())
}

/// Within a block, a client set a class that does not exist. The error said that the block had ended, but the server
/// kept it open. The driver skipped the ROLLBACK, and the next COMMIT committed the abandoned work.
#[test]
fn a_setting_that_is_refused_fails_the_block_it_is_in() {
    for unit in ["Q:set_plimsoll.class='none'", "P::set_plimsoll.class='none' B:: E S"] {
        check(&format!(
            "= Q:begin => C:BEGIN Z:T
             = Q:savepoint_a => C:SAVEPOINT Z:T
             > {unit} => failed C[E:22023 Z:E]
             = Q:rollback_to_a => C:ROLLBACK Z:T
             > {unit} => failed C[E:22023 Z:E]
             = {unit} => E:25P02 Z:E
             = Q:commit => C:ROLLBACK Z:I"
        ));
    }
}

/// The block had failed because we refused a statement in it. It was rolled back while its client was thinking, and
/// replayed without that statement. The client's COMMIT then committed work that had been reported as lost.
#[test]
fn what_was_refused_is_not_forgotten_by_a_replay() {
    check(
        "= Q:begin => C:BEGIN Z:T
         > Q:set_plimsoll.class='none' => failed C[E:22023 Z:E]
         ! idle => chained
         > Q:commit => rolled-back C[E:40001 Z:I]",
    );
}

/// A setting that was sent before the answer to earlier messages once silently had no effect.
#[test]
fn a_setting_waits_for_its_turn() {
    let mut story = Story::new("high_user");
    story.play("> Q:select Q:set_plimsoll.class='low' => S[Q:select]");
    story.play("< C:SELECT Z:I => S[Q:set_plimsoll.class='low'] C[C:SELECT Z:I]\n< C:SET Z:I => C[C:SET Z:I]");
    assert_eq!(class(&story), "low");
}

/// The server undoes a setting with the transaction that made it; the session once did not.
#[test]
fn a_setting_is_rolled_back_with_its_transaction() {
    let begin = "= Q:begin => C:BEGIN Z:T
         = Q:set_plimsoll.class='low' => C:SET Z:T";
    for (end, tag, expect) in [("rollback", "ROLLBACK", "high"), ("commit", "COMMIT", "low")] {
        let mut story = Story::new("high_user");
        story.play(&format!("{begin}\n= Q:{end} => C:{tag} Z:I"));
        assert_eq!(class(&story), expect, "after {end}");
    }
}

/// Mappers and sqlcommenter write the tag into statements, while the driver sends a BEGIN without one: the tag once had
/// no effect.
#[test]
fn the_first_statement_after_a_begin_may_give_the_class() {
    let begin = "= Q:begin => C:BEGIN Z:T";
    for statement in ["Q:update_/*class='low'*/", "P::update_/*class='low'*/ B:: E S"] {
        let mut story = Story::new("high_user");
        story.play(&format!("{begin}\n> {statement} => S[{statement}]"));
        assert_eq!(class(&story), "low");
        // It can be rolled back and replayed, though its BEGIN belonged to another class.
        story.play(&format!(
            "! preempted => chained S[{statement}]
             < C:UPDATE Z:T => C[C:UPDATE Z:T]
             = Q:commit => C:COMMIT Z:I"
        ));
        assert_eq!((class(&story).as_str(), story.governor.inside(ClassIndex(1))), ("high", 0));
    }
    // After the first statement has run it is too late, and a tag on the BEGIN takes precedence.
    let mut story = Story::new("high_user");
    story.play(&format!(
        "{begin}
         = Q:select => C:SELECT Z:T
         > Q:update_/*class='low'*/ => S[Q:update_/*class='low'*/]"
    ));
    assert_eq!(class(&story), "high");
}

#[test]
fn a_class_that_is_asked_for_after_a_begin_is_waited_for_and_may_be_full() {
    let tagged = "Q:update_/*class='low'*/";
    let begin = "= Q:begin => C:BEGIN Z:T";
    let mut first = Story::new("low_user");
    first.play("> Q:select => S[Q:select]");
    let mut second = first.beside("high_user");
    second.play(&format!("{begin}\n> {tagged} =>"));
    assert_eq!(second.session.card.state().phase, Phase::Queued);
    let mut third = first.beside("high_user");
    third.play(&format!(
        "{begin}
         > {tagged} => failed C[E:53300 Z:E]
         = Q:rollback => C:ROLLBACK Z:I"
    ));
    first.play("< C:SELECT Z:I => C[C:SELECT Z:I]");
    second.play(&format!(
        "! admitted => S[{tagged}]
         < C:UPDATE Z:T => C[C:UPDATE Z:T]
         = Q:commit => C:COMMIT Z:I"
    ));
    let inside = |class| first.governor.statistics.class(ClassIndex(class)).inside.load(Ordering::Relaxed);
    assert_eq!((first.governor.inside(ClassIndex(1)), inside(0), inside(1)), (0, 0, 0));
}

#[test]
fn a_tag_without_effect_is_told_once_and_counted() {
    let mut story = Story::new("high_user");
    for notice in ["N:01000 ", ""] {
        let found = format!("S[Q:select_/*class='none'*/]{}", if notice.is_empty() { "" } else { " C[N:01000]" });
        story.play(&format!("> Q:select_/*class='none'*/ => {found}\n< C:SELECT Z:I => C[C:SELECT Z:I]"));
    }
    assert_eq!(story.governor.statistics.class(ClassIndex(0)).tags_refused.load(Ordering::Relaxed), 2);
}

/// An application without a retry loop must not get 40001 where that is avoidable.
#[test]
fn a_class_that_does_not_retry_loses_only_what_can_be_run_again() {
    let mut story = Story::with("low_user", |settings| settings.classes[1].retries = false);
    story.play("= Q:update => C:UPDATE Z:I");
    story.play("= Q:begin => C:BEGIN Z:T\n> Q:update => S[Q:update]\n! aim =>\n! lost =>");
    story.play("< C:UPDATE Z:T => C[C:UPDATE Z:T]");
    assert_eq!(immune(&story), Some("no-retry"), "its client thinks");
    story.play("! idle =>\n> Q:listen_x => S[Q:listen_x]\n! no_aim =>");
    assert_eq!(immune(&story), Some("no-retry"), "it could not be run again");
}

#[test]
fn it_is_told_why_a_transaction_is_left_alone() {
    let check = |lines: &str, expect: &str| {
        let mut story = Story::new("low_user");
        story.play(lines);
        assert_eq!(immune(&story), Some(expect), "{lines}");
        assert!(!story.session.card.state().preemptible);
    };
    check("> Q:commit => S[Q:commit]", "may-have-ended");
    check("> Q:call_p() => S[Q:call_p()]", "outside-block");
    check("= Q:copy_t_from_stdin => G", "copy");
    check("> P::select H => S[P::select H]", "unit-open");
    check("> Q:select Q:select => S[Q:select Q:select]", "pipeline");
    let begun = "= Q:begin => C:BEGIN Z:T";
    check(&format!("{begun}\n= Q:select_pg%advisory%xact%lock(1) => C:SELECT Z:T"), "advisory-lock");
    // A transaction with a session lock is immune, too, regardless of other effects.
    check(&format!("{begun}\n= Q:select_pg%advisory%lock(1) => C:SELECT Z:T"), "advisory-lock");
    check(
        &format!(
            "{begun}
             > Q:listen_x => S[Q:listen_x]
             ! preempted => chained-and-failed C[E:40001 Z:E]"
        ),
        "failed",
    );
}

/// A client disconnected at the moment when its time-out in the queue expired: its session returned an admission that
/// it never had, and from then on one transaction more than the mpl was admitted.
#[test]
fn who_leaves_as_his_time_is_up_gives_back_nothing() {
    let mut first =
        Story::with("low_user", |settings| settings.classes[1].limits.timeout = Some(Duration::from_secs(1)));
    let now = first.now;
    first.play("> Q:begin => S[Q:begin]");
    let mut second = first.beside("low_user");
    second.play("> Q:one =>");
    first.governor.expire_waiting(now + Duration::from_secs(2));
    second.session.close(now);
    assert_eq!(first.governor.inside(ClassIndex(1)), 1, "the first is inside");
    first.play("< C:BEGIN Z:I => C[C:BEGIN Z:I]");
    assert_eq!(first.governor.inside(ClassIndex(1)), 0);
}

/// Every counted error must have reached a client: replays once counted 1,018 errors that no client received.
#[test]
fn errors_are_counted_when_clients_get_them() {
    let mut story = Story::new("low_user");
    let errors = |story: &Story| story.governor.statistics.class(ClassIndex(1)).errors.load(Ordering::Relaxed);
    story.play(
        "> Q:update => S[Q:update]
         ! preempted => S[Q:update]
         < C:UPDATE Z:I => C[C:UPDATE Z:I]",
    );
    assert_eq!(errors(&story), 0);
    story.play(
        "= Q:begin => C:BEGIN Z:T
         > Q:listen_x => S[Q:listen_x]
         ! preempted => chained-and-failed C[E:40001 Z:E]
         = Q:select => E:25P02 Z:E",
    );
    assert_eq!(errors(&story), 2);
}

/// Only the first 64 KiB of a message are read: a long parameter makes no transaction immune, and a long statement does
/// only if more statements may follow.
#[test]
fn long_messages_are_read_from_their_beginning() {
    let long = "x".repeat(70 << 10);
    let begun = "= Q:begin => C:BEGIN Z:T";
    for (unit, shown) in [
        (format!("P::update:{long} B:: E S"), "P::update B:: E S"),
        (format!("P::update B:::{long} E S"), "P::update B:: E S"),
    ] {
        let mut story = Story::new("low_user");
        story.play(&format!("{begun}\n> {unit} => S[{shown}]\n! aim =>"));
    }
    let mut story = Story::new("low_user");
    story.play(begun);
    let query = format!("Q:update_{long}");
    story.play(&format!("> {query} => S[{query}]\n! no_aim =>"));
}

/// A COMMIT behind 64 KiB of comment was once prepared as a statement that does nothing.
#[test]
fn a_long_comment_hides_no_commit() {
    let comment = format!("/*{}*/", "x".repeat(70 << 10));
    let unit = format!("P::{comment}commit B:: E S");
    let mut story = Story::new("low_user");
    story.play(&format!("= Q:begin => C:BEGIN Z:T\n> {unit} => S[{unit}]\n! no_aim =>"));
}

/// A transaction with one Query of more than 64 KiB was once immune up to its end, although the server's answer to it
/// shows whether it was the end.
#[test]
fn an_answer_shows_that_a_text_which_was_not_read_was_no_end() {
    let query = format!("Q:update_{}", "x".repeat(70 << 10));
    let play = |answer: &str| {
        let mut story = Story::new("low_user");
        story.play(&format!("= Q:begin => C:BEGIN Z:T\n> {query} => S[{query}]\n! no_aim =>"));
        story.play(&format!("< {answer} => C[{answer}]\n> Q:update => S[Q:update]"));
        story
    };
    play("C:UPDATE C:UPDATE Z:T").play("! preempted => chained-and-failed C[E:40001 Z:E]");
    for ended in ["C:UPDATE C:COMMIT C:BEGIN C:UPDATE Z:T", "C:ROLLBACK Z:T", "C:PREPARE_TRANSACTION C:BEGIN Z:T"] {
        let story = play(ended);
        assert_eq!(immune(&story), Some("may-have-ended"), "{ended}");
    }
    // A setting for how long the server waits may be among its commands.
    let mut story = play("C:UPDATE C:SET Z:T");
    story.play("< C:UPDATE Z:T => C[C:UPDATE Z:T]");
    assert_eq!(immune(&story), Some("timeout"));
    // Until everything has been answered.
    let mut story = Story::new("low_user");
    story.play(&format!("= Q:begin => C:BEGIN Z:T\n> {query} {query} => S[{query} {query}]"));
    story.play("< C:UPDATE Z:T => C[C:UPDATE Z:T]\n! no_aim =>");
    story.play("< C:UPDATE Z:T => C[C:UPDATE Z:T]\n= Q:update => C:UPDATE Z:T");
    assert_eq!(immune(&story), None);
}

/// All transactions inside waited for the locks of a prepared transaction, and the COMMIT PREPARED that would have
/// released them waited for admission.
#[test]
fn the_end_of_a_prepared_transaction_is_not_queued() {
    for end in ["Q:commit_prepared_'a'", "Q:rollback_prepared_'a'", "P::commit_prepared_'a' B:: E S"] {
        let mut first = Story::new("low_user");
        first.play("> Q:select => S[Q:select]");
        first.beside("low_user").play(&format!("= {end} => C:COMMIT%PREPARED Z:I"));
        assert_eq!(first.governor.inside(ClassIndex(1)), 1);
    }
}
