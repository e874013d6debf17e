//! Clients that do what few drivers do.

use super::*;

/// The server knows a prepared statement by 63 bytes of its name. A COMMIT that was prepared under one long name and
/// run under another was once not recognized: its client received 40001, "nothing remains", for a committed transaction.
#[test]
fn a_commit_is_recognized_by_the_part_of_its_name_that_the_server_keeps() {
    let name = "x".repeat(63);
    for (prepared, run) in [("1".to_owned(), "2"), ("éé".to_owned(), ""), (String::new(), "1")] {
        check(&format!(
            "= P:{name}{prepared}:commit S => 1 Z:I
             = Q:begin => C:BEGIN Z:T
             > B::{name}{run} E S => S[B::{name}{run} E S]
             ! no_aim =>"
        ));
    }
    // By SQL, and in the unit that prepares it, which is not confirmed.
    check(&format!(
        "= P:{name}1:commit S => 1 Z:I
         = Q:begin => C:BEGIN Z:T
         > Q:execute_{name}2 => S[Q:execute_{name}2]
         ! no_aim =>"
    ));
    check(&format!(
        "= Q:begin => C:BEGIN Z:T
         > P:{name}1:commit B::{name}2 E S => S[P:{name}1:commit B::{name}2 E S]
         ! no_aim =>"
    ));
}

/// A Flush behind a Query that copies once began a unit, which no Sync could end: the session was active for ever.
#[test]
fn a_flush_by_itself_begins_nothing() {
    let mut story = Story::new("low_user");
    story.play("> Q:copy H => S[Q:copy H]\n< G => C[G]\n> H c => S[H c]\n< C:COPY Z:I => C[C:COPY Z:I]");
    assert!(story.session.is_idle());
}

/// Where a server cuts a name depends on the encodings: any statement may be known by it.
#[test]
fn a_name_that_is_cut_nobody_knows_where_may_be_that_of_a_commit() {
    let name = "é".repeat(31);
    check(&format!(
        "= P:{name}1:select S => 1 Z:I
         = Q:begin => C:BEGIN Z:T
         > B::{name}2 E S => S[B::{name}2 E S]
         ! no_aim =>"
    ));
    // A statement that is prepared in the transaction: a replay could not close it first.
    check(&format!(
        "= Q:begin => C:BEGIN Z:T
         = P:{name}1:select S => 1 Z:T
         > Q:update => S[Q:update]
         ! preempted => chained-and-failed C[E:40001 Z:E]"
    ));
}

/// A transaction that was rolled back while its client was thinking: the end of its unit is seen before it is passed on.
#[test]
fn a_unit_is_read_by_the_names_that_the_server_keeps() {
    let name = "x".repeat(63);
    check(&format!(
        "= Q:begin => C:BEGIN Z:T
         = Q:listen_x => C:LISTEN Z:T
         ! idle => chained
         > P:{name}1:rollback B::{name}2 E S => S[P:{name}1:rollback B::{name}2 E S]"
    ));
}

/// A client behind the limit of its class sent a statement together with one that needs no admission, and went in with
/// it: a unit that only prepares, the end of a transaction that is not open, and messages behind either.
#[test]
fn nobody_goes_in_behind_a_unit_that_needs_no_admission() {
    for (first_unit, passes, answer) in [
        ("P:s:select D S", "P:s:select D S", "1 T Z:I"),
        ("Q:commit", "Q:commit", "N:25P01 C:COMMIT Z:I"),
        ("P::commit B:: E S", "P::commit B:: E S", "1 2 N:25P01 C:COMMIT Z:I"),
    ] {
        for next in ["Q:select_pg%sleep(9)", "B::s E S"] {
            let mut inside = Story::new("low_user");
            inside.play("> Q:select => S[Q:select]");
            for step in [usize::MAX, 1] {
                let mut second = inside.beside("low_user");
                second.step = step;
                second.play(&format!("> {first_unit} {next} => S[{passes}]\n< {answer} => C[{answer}]"));
                assert_eq!(second.session.card.state().phase, Phase::Queued, "{first_unit} {next}");
                second.session.close(second.now);
            }
        }
    }
    let mut inside = Story::new("low_user");
    inside.play("> Q:select => S[Q:select]");
    let mut second = inside.beside("low_user");
    second.play("> P::commit B:: E P::select_pg%sleep(9) B:: E S => ");
    assert_eq!(second.session.card.state().phase, Phase::Queued);
}

/// A statement that commits by itself, with a notice in the middle: the client once received it with the end.
#[test]
fn a_notice_is_passed_on_at_once_with_all_before_it() {
    check("> Q:do => S[Q:do]\n< N:00000 => C[N:00000]\n< C:DO Z:I => C[C:DO Z:I]");
    check(
        "> P::select_f() B:: E S => S[P::select_f() B:: E S]
         < 1 2 =>
         < N:00000 => C[1 2 N:00000]
         ! preempted => C[E:40001 Z:I]",
    );
}

/// A transaction was rolled back while a statement ran that had raised a notice, and the replay raised it again.
#[test]
fn a_notice_is_not_passed_on_twice() {
    check(
        "= Q:begin => C:BEGIN Z:T
         > Q:update => S[Q:update]
         < N:00001 N:00002 => C[N:00001 N:00002]
         ! preempted => rolled-back S[Q:begin]
         < C:BEGIN Z:T => S[Q:update]
         < N:00001 => 
         ! preempted => rolled-back S[Q:begin]
         < C:BEGIN Z:T => S[Q:update]
         < N:00001 N:00002 N:00003 C:UPDATE Z:T => C[N:00003 C:UPDATE Z:T]
         > Q:update => S[Q:update]
         < N:00001 => C[N:00001]",
    );
    // Also if it is replayed while part of its answer is known.
    check(
        "= Q:begin => C:BEGIN Z:T
         > Q:select => S[Q:select]
         < N:00001 D:1 N:00002 => C[N:00001 D:1 N:00002]
         ! preempted => rolled-back S[Q:begin]
         < C:BEGIN Z:T => S[Q:select]
         < N:00001 D:1 N:00002 N:00003 => C[N:00003]",
    );
}

/// A client may send its Sync only when it has seen the error.
#[test]
fn an_error_is_passed_on_before_the_sync() {
    check(
        "> P::select_1/0 B:: E => S[P::select_1/0 B:: E]
         < 1 2 E:22012 => C[1 2 E:22012]
         = S => Z:I
         > Q:select => S[Q:select]",
    );
}

/// A session that listens received a notification in the middle of its transaction: the server delivers them when none
/// is open, which is so for a moment while one is replayed.
#[test]
fn notifications_wait_for_the_end_of_a_transaction_that_is_replayed() {
    let mut story = Story::new("low_user");
    story.play(replaying::BEGUN);
    story.play(
        "! preempted => S[!ROLLBACK S]
         < C:ROLLBACK A:one Z:I => S[Q:begin]
         < C:BEGIN Z:T => S[Q:select_a]
         < D:1 C:SELECT Z:T => S[Q:update]
         < C:UPDATE Z:T => C[C:UPDATE Z:T]
         = Q:select => C:SELECT Z:T
         > Q:commit => S[Q:commit]
         < C:COMMIT Z:I => C[C:COMMIT A Z:I]
         = Q:select => C:SELECT Z:I",
    );
    // A statement that commits by itself.
    let mut story = Story::new("low_user");
    story.play("> Q:update => S[Q:update]\n! aim =>\n< E:57014 A:two Z:I =>\n! arrived => S[Q:update]");
    story.play("< C:UPDATE Z:I => C[C:UPDATE A Z:I]");
}

/// Too many to keep: the client receives the error that its transaction is gone.
#[test]
fn notifications_are_kept_up_to_a_bound() {
    let mut story = Story::new("low_user");
    story.play(replaying::BEGUN);
    story.play("! preempted => S[!ROLLBACK S]");
    let long = "x".repeat(60 << 10);
    (0..17).for_each(|_| story.play(&format!("< A:{long} =>")));
    let all = vec!["A"; 18].join(" ");
    story.play(&format!("< A:{long} => C[{all}]"));
    story.play("< C:ROLLBACK Z:I => S[!BEGIN !fail S]");
    story.play("< C:BEGIN E:42601 Z:E => C[E:40001 Z:E]");
}

/// A client had said that it would think for long; its transaction was rolled back while it did, and with it the setting:
/// the server ended the session.
#[test]
fn who_has_set_how_long_it_may_think_is_left_alone_while_it_thinks() {
    let mut story = Story::new("low_user");
    story.play(
        "= Q:begin => C:BEGIN Z:T
         = Q:set_local_idle%in%transaction%session%timeout_=_0 => C:SET Z:T
         ! idle =>",
    );
    assert_eq!(story.session.card.state().immune, Some(crate::registry::Immunity::Timeout));
    // While a statement runs it can be rolled back: the setting is made again before its client thinks.
    story.play("> Q:update => S[Q:update]\n! preempted => rolled-back S[Q:begin]");
}
