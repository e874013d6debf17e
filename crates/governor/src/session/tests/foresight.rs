//! What is known before a rollback, and how sessions learn it.

use plimsoll_policy::{CycleLoss, NoReplay, Unsafe};

use super::*;
use crate::effects::{Outlook, Safe};

const EQUAL: Outlook = Outlook::EQUAL;
const GENERATES: Outlook = Outlook::Safe(VALUES, false);
const ANSWERS_VALUES: Outlook = Outlook::Safe(VALUES, true);
const PLAIN: Safe =
    Safe { generates: false, writes: false, reads_own: false, arranges: false, reads_much: false, catches: false };
const VALUES: Safe = Safe { generates: true, writes: true, ..PLAIN };
const WRITES: Outlook = Outlook::Safe(Safe { generates: false, ..VALUES }, false);

/// A session of a class whose clients do not retry, which knows nothing.
fn without_retries() -> Story {
    let mut story = Story::with("low_user", |settings| {
        (settings.classes[1].retries, settings.classes[1].retry_aborted) = (false, 3);
    });
    story.is_known = false;
    story
}

/// The same, knowing that of the texts.
fn knowing(texts: &[(&str, Outlook)]) -> Story {
    let mut story = without_retries();
    for (text, outlook) in texts {
        story.play(&format!("> Q:{text} => S[Q:{text}]"));
        story.knows(*outlook);
        story.play("< C:OK Z:I => C[C:OK Z:I]");
    }
    story
}

fn forecast(story: &Story) -> Result<(), NoReplay> {
    story.session.card.state().replayable
}

/// The first transactions of a new application were once rolled back to find out whether they could be replayed, and their
/// clients, which do not retry, got 40001.
#[test]
fn a_text_that_nobody_knows_is_left_alone_until_its_session_has_asked() {
    let mut story = without_retries();
    story.play("= Q:begin => C:BEGIN Z:T\n> Q:update => S[Q:update]\n! no_aim =>");
    assert_eq!(forecast(&story), Err(NoReplay::Unknown));
    story.play("< C:UPDATE Z:T => C[C:UPDATE Z:T]\n> Q:commit => S[Q:commit]");
    story.learns("< C:COMMIT Z:I");
    // Another value, and a session that knows it from this one.
    let mut other = story.beside("low_user");
    story.play("= Q:begin => C:BEGIN Z:T\n= Q:commit => C:COMMIT Z:I");
    other.is_known = false;
    other.play("= Q:begin => C:BEGIN Z:T\n> Q:UPDATE => S[Q:UPDATE]");
    assert_ne!(forecast(&other), Err(NoReplay::Unknown));
}

#[test]
fn what_is_known_to_run_again_is_rolled_back_and_run_again() {
    let mut story = knowing(&[("select_a", EQUAL), ("update", EQUAL)]);
    story.is_known = true;
    story.play(&format!(
        "{}
         < C:BEGIN Z:T => S[Q:select_a]
         < D:1 C:SELECT Z:T => S[Q:update]
         < C:UPDATE Z:T => C[C:UPDATE Z:T]",
        super::replaying::rolled_back()
    ));
}

/// INSERT … RETURNING id, as object-relational mappers write it: a replay takes the next number, and its client has the
/// first.
#[test]
fn a_client_that_has_received_generated_values_is_left_alone() {
    let mut story = knowing(&[("insert_returning", ANSWERS_VALUES), ("update", EQUAL)]);
    story.play("= Q:begin => C:BEGIN Z:T\n> Q:insert_returning => S[Q:insert_returning]\n! no_aim =>");
    assert_eq!(forecast(&story), Err(NoReplay::Values), "a row may come at any moment");
    story.play("< D:1 C:INSERT Z:T => C[D:1 C:INSERT Z:T]\n> Q:update => S[Q:update]\n! no_aim =>");
    assert_eq!(forecast(&story), Err(NoReplay::Values));
    assert_eq!(story.session.card.state().cycle_loss, None);
    // The next transaction begins anew.
    story.play("< C:UPDATE Z:T => C[C:UPDATE Z:T]\n= Q:commit => C:COMMIT Z:I");
    story.play("= Q:begin => C:BEGIN Z:T\n> Q:update => S[Q:update]\n! aim =>");
}

/// A column with a default of now() or a serial number that its client does not read.
#[test]
fn generated_values_that_no_row_has_shown_do_no_harm_until_one_may() {
    let mut story = knowing(&[("insert", GENERATES), ("update", EQUAL), ("select", EQUAL)]);
    story.play("= Q:begin => C:BEGIN Z:T\n> Q:insert => S[Q:insert]\n! aim =>\n! lost =>");
    story.play("< C:INSERT Z:T => C[C:INSERT Z:T]\n> Q:select => S[Q:select]\n! no_aim =>");
    assert_eq!(forecast(&story), Err(NoReplay::Values), "it may select the inserted row");
    // A rule returns rows where the text shows none.
    let mut story = knowing(&[("insert", GENERATES)]);
    story.play("= Q:begin => C:BEGIN Z:T\n= Q:insert => D:1 C:INSERT Z:T\n> Q:insert => S[Q:insert]\n! no_aim =>");
    assert_eq!(forecast(&story), Err(NoReplay::Values));
    // A text that begins the block itself has been withheld until its end.
    let mut story = knowing(&[("begin;_select", ANSWERS_VALUES), ("update", EQUAL)]);
    story.play("= Q:begin;_select => C:BEGIN D:1 C:SELECT Z:T\n> Q:update => S[Q:update]\n! no_aim =>");
    assert_eq!(forecast(&story), Err(NoReplay::Values));
}

/// A replay finds other places for the rows that it writes. What it reads of them has no certain order, and an application that
/// has received another order was told 40001 although nothing had changed.
#[test]
fn rows_in_an_order_that_a_replay_may_change_are_values() {
    let answers = |safe| Outlook::Safe(safe, true);
    let array = answers(Safe { arranges: true, ..PLAIN });
    let own = answers(Safe { writes: true, reads_own: true, ..PLAIN });
    let much = answers(Safe { reads_much: true, ..PLAIN });
    let sum = answers(Safe { arranges: true, reads_much: true, ..PLAIN });
    let all = [
        ("select", EQUAL),
        ("update", WRITES),
        ("select_array", array),
        ("select_own", own),
        ("select_much", much),
        ("select_sum", sum),
    ];
    let known = || knowing(&all);
    let check = |acts: &[&str], expect: Result<(), NoReplay>| {
        let mut story = known();
        story.play("= Q:begin => C:BEGIN Z:T");
        acts.iter().for_each(|act| story.play(&format!("= {act}")));
        assert_eq!(forecast(&story), expect, "{acts:?}");
    };
    let (one, two) = ("Q:select => D:1 C:SELECT Z:T", "Q:select => D:1 D:2 C:SELECT Z:T");
    let (update, array) = ("Q:update => C:UPDATE Z:T", "Q:select_array => D:1 C:SELECT Z:T");
    check(&[two, array, update], Ok(()));
    check(&[update, one, one, update], Ok(()));
    check(&[update, two], Err(NoReplay::Values));
    check(&[update, array], Err(NoReplay::Values));
    // A function that writes and reads.
    check(&["Q:select_own => D:1 C:SELECT Z:T"], Ok(()));
    check(&["Q:select_own => D:1 D:2 C:SELECT Z:T"], Err(NoReplay::Values));
    // Parallel workers.
    check(&["Q:select_much => D:1 C:SELECT Z:T", one], Ok(()));
    check(&["Q:select_much => D:1 D:2 C:SELECT Z:T"], Err(NoReplay::Values));
    check(&["Q:select_sum => D:1 C:SELECT Z:T"], Err(NoReplay::Values));
    // A portal that returns its rows one by one.
    check(&[update, "P::select B:: E S => 1 2 D:1 s Z:T"], Err(NoReplay::Values));
    // While the rows of the unit in flight arrive.
    let mut story = known();
    story.play(&format!(
        "= Q:begin => C:BEGIN Z:T\n= {update}\n> Q:select => S[Q:select]\n< D:1 => C[D:1]\n! aim =>\n! lost =>"
    ));
    story.play("< D:2 => C[D:2]\n! no_aim =>");
}

/// One text was known by the other, from which only its value differs.
#[test]
fn the_word_now_is_not_a_value_like_others() {
    let mut story = knowing(&[("select_date_'then'", EQUAL), ("select_date_'now'", ANSWERS_VALUES)]);
    story.play("= Q:begin => C:BEGIN Z:T\n= Q:select_date_'never' => D:1 C:SELECT Z:T");
    assert_eq!(forecast(&story), Ok(()));
    story.play("= Q:select_date_'now' => D:1 C:SELECT Z:T");
    assert_eq!(forecast(&story), Err(NoReplay::Values));
}

#[test]
fn a_unit_that_commits_by_itself_may_generate_what_it_wants() {
    let mut story = knowing(&[("select_now()", ANSWERS_VALUES)]);
    story.play("> Q:select_now() => S[Q:select_now()]\n! aim =>");
}

/// A writing transaction that stays open anywhere keeps the horizon back. The inquiry after the rollback cannot show then that
/// the code is what has run, and a client that does not retry got 40001.
#[test]
fn code_that_is_younger_than_the_horizon_is_known_before_the_rollback() {
    for (newest, expect) in [(99, Ok(())), (100, Err(NoReplay::Unsafe(Unsafe::ChangedCode)))] {
        let mut story = without_retries();
        story.newest = newest;
        story.play("> Q:update => S[Q:update]");
        story.knows(WRITES);
        story.play("< C:UPDATE Z:I => C[C:UPDATE Z:I]");
        story.play("= Q:begin => C:BEGIN Z:T\n> Q:update => S[Q:update]");
        assert_eq!(forecast(&story), expect);
        story.play(if expect.is_ok() { "! aim =>" } else { "! no_aim =>" });
    }
    // Nobody knows a horizon.
    let mut story = knowing(&[("update", WRITES)]);
    story.governor.horizon.set(None);
    story.play("= Q:begin => C:BEGIN Z:T\n> Q:update => S[Q:update]\n! no_aim =>");
}

/// A trigger that calls dblink was once found after the rollback only.
#[test]
fn a_text_that_must_not_run_twice_is_left_alone_from_its_second_time() {
    let mut story = knowing(&[("insert", Outlook::Unsafe(Unsafe::OutsideEffect))]);
    story.play("= Q:begin => C:BEGIN Z:T\n> Q:insert => S[Q:insert]\n! no_aim =>");
    assert_eq!(forecast(&story), Err(NoReplay::Unsafe(Unsafe::OutsideEffect)));
    assert_eq!(story.session.card.state().cycle_loss, None);
}

/// A statement outside a block writes to a foreign table: the wrapper commits at the other server before this one decides, and a
/// cancel in between left the row there, while its client received 40001, "nothing of it remains".
#[test]
fn what_commits_by_itself_and_may_act_elsewhere_is_left_alone() {
    for (outlook, is_victim) in
        [(Some(Outlook::Unsafe(Unsafe::OutsideEffect)), false), (None, false), (Some(EQUAL), true)]
    {
        let mut story = Story::new("low_user");
        story.is_known = false;
        if let Some(outlook) = outlook {
            story.play("> Q:update => S[Q:update]");
            story.knows(outlook);
            story.play("< C:UPDATE Z:I => C[C:UPDATE Z:I]");
        }
        let aim = if is_victim { "aim" } else { "no_aim" };
        story.play(&format!("> Q:update => S[Q:update]\n! {aim} =>"));
    }
}

/// In a class that retries, everything that blocks others is rolled back, and only the forecast changes.
#[test]
fn a_class_that_retries_is_rolled_back_whatever_is_known() {
    let mut story = Story::with("low_user", |settings| settings.classes[1].retry_aborted = 3);
    story.is_known = false;
    story.play("= Q:begin => C:BEGIN Z:T\n> Q:update => S[Q:update]\n! aim =>\n! lost =>");
    assert_eq!(forecast(&story), Err(NoReplay::Unknown));
    assert_eq!(story.session.card.state().cycle_loss, Some(CycleLoss::Unnoticed), "the server would abort one anyway");
}

#[test]
fn prepared_statements_are_known_by_their_texts() {
    let mut story = knowing(&[("update", EQUAL), ("insert", ANSWERS_VALUES)]);
    story.play(
        "= P:u:UPDATE S => 1 Z:I
         = P:i:insert S => 1 Z:I
         = P:b:begin S => 1 Z:I
         = B::b E S => 2 C:BEGIN Z:T
         > B::u E S => S[B::u E S]
         ! aim =>
         ! lost =>
         < 2 C:UPDATE Z:T => C[2 C:UPDATE Z:T]
         > B::i E S => S[B::i E S]
         ! no_aim =>",
    );
    assert_eq!(forecast(&story), Err(NoReplay::Values));
    story.play("< 2 D:1 C:INSERT Z:T => C[2 D:1 C:INSERT Z:T]\n= Q:rollback => C:ROLLBACK Z:I");
    // The unnamed one, and one that no message has prepared.
    story.play("= Q:begin => C:BEGIN Z:T\n> P::update B:: E S => S[P::update B:: E S]\n! aim =>\n! lost =>");
    story.play("< 1 2 C:UPDATE Z:T => C[1 2 C:UPDATE Z:T]\n> B::x E S => S[B::x E S]\n! no_aim =>");
    assert_eq!(forecast(&story), Err(NoReplay::Unknown));
}

/// The inquiry after a rollback reads every text that was prepared. Units that prepared one that must not run twice, and did not
/// run it, were rolled back, and then told.
#[test]
fn what_is_only_prepared_counts_as_well() {
    let known =
        || knowing(&[("insert", Outlook::Unsafe(Unsafe::OutsideEffect)), ("update", EQUAL), ("select", GENERATES)]);
    for (text, expect) in [
        ("update", Ok(())),
        ("select", Ok(())),
        ("deallocate_s", Err(NoReplay::Unsafe(Unsafe::PreparedStatement))),
        ("insert", Err(NoReplay::Unsafe(Unsafe::OutsideEffect))),
        ("delete", Err(NoReplay::Unknown)),
    ] {
        let mut story = known();
        story.play(&format!("> P::{text} S => S[P::{text} S]"));
        assert_eq!(forecast(&story), expect, "{text}");
        story.play(if expect.is_ok() { "! aim =>" } else { "! no_aim =>" });
    }
}

/// A table of that name in another schema may have triggers.
#[test]
fn after_a_change_of_the_search_path_every_text_is_another_one() {
    let mut story = knowing(&[("update", EQUAL), ("set_search%path_=_b", EQUAL), ("select", EQUAL)]);
    let update = "= Q:begin => C:BEGIN Z:T\n> Q:update => S[Q:update]";
    let end = "< C:UPDATE Z:T => C[C:UPDATE Z:T]\n= Q:rollback => C:ROLLBACK Z:I";
    story.play(update);
    assert_eq!(forecast(&story), Err(NoReplay::Unknown));
    story.knows(EQUAL);
    story.play(end);
    // Another session with that path knows it.
    let mut other = story.beside("low_user");
    other.is_known = false;
    other.play(&format!("= Q:set_search%path_=_b => C:SET Z:I\n{update}\n! aim =>\n! lost =>\n{end}"));
    // Within a transaction only.
    story.play("= Q:begin => C:BEGIN Z:T\n= Q:set_local_search%path_=_c => C:SET Z:T\n> Q:update => S[Q:update]");
    assert_eq!(forecast(&story), Err(NoReplay::Unknown));
    while story.session.texts.next_unknown().is_some() {}
    story.play(end);
    story.play(&format!("{update}\n! aim =>"));
}

#[test]
fn while_a_session_asks_its_clients_next_message_waits_and_notifications_pass() {
    let mut story = without_retries();
    story.play("> Q:update => S[Q:update]");
    let sent = story.act("< C:UPDATE Z:I");
    assert!(!sent.server.is_empty() && !sent.client.is_empty());
    story.play("> Q:select =>\n< A => C[A]\n< 3 1 2 N:00000 R:X => ");
    assert!(story.session.card.aim_client_cancel().is_none(), "its client has nothing that it could cancel");
    assert_eq!(story.session.card.state().phase, Phase::Idle);
    // The question has failed: the role may not read the catalogs.
    story.play("< E:42501 Z:I => S[Q:select]");
    // Nothing is asked for a while, and nothing of this role is rolled back.
    story.play("< C:SELECT Z:I => C[C:SELECT Z:I]\n= Q:begin => C:BEGIN Z:T\n> Q:update => S[Q:update]\n! no_aim =>");
    assert_eq!(forecast(&story), Err(NoReplay::Unknown));
}

/// The server has been told that its client sends nothing more.
#[test]
fn after_its_client_has_left_a_session_asks_nothing() {
    let mut story = without_retries();
    story.play("> Q:update => S[Q:update]");
    assert!(story.session.end_client());
    story.play("< C:UPDATE Z:I => C[C:UPDATE Z:I]");
}

/// The code was changed between the forecast and the rollback: one client receives 40001, and the next transaction is left alone.
#[test]
fn what_proves_wrong_after_a_rollback_is_forgotten() {
    let mut story = knowing(&[("select_a", EQUAL), ("update", EQUAL)]);
    story.play(super::replaying::BEGUN);
    story.play("! aim =>\n< E:57014 Z:E =>");
    // The server rolls back, but refuses to answer questions.
    for act in ["! arrived", "< C:ROLLBACK Z:T", "< E:42501 Z:E"] {
        story.act(act);
    }
    story.play("< C:ROLLBACK E:42601 Z:E => C[E:40001 Z:E]");
    story.play("= Q:rollback => C:ROLLBACK Z:I\n= Q:begin => C:BEGIN Z:T\n> Q:update => S[Q:update]\n! no_aim =>");
    assert_eq!(forecast(&story), Err(NoReplay::Unknown));
}
