//! Parallel workers are limited by class, and no client notices.

use super::replaying::verified;
use super::*;
use crate::settings::Held;

/// A story of a session in class low, whose workers are limited to 1.
fn limited() -> Story {
    Story::with("low_user", |settings| settings.classes[1].workers_max = Some(1))
}

/// Plays a story whole and byte by byte.
fn check(lines: &str) {
    check_each(limited, lines);
}

const SHOW: &str = "S[!SHOW_max%parallel%workers%per%gather S]";
const LOWER: &str = "S[!SET_LOCAL_max%parallel%workers%per%gather_=_1 S]";
const RAISE: &str = "S[!SET_LOCAL_max%parallel%workers%per%gather_TO_DEFAULT S]";
const LOWER_SESSION: &str = "S[!SET_max%parallel%workers%per%gather_=_1 S]";
const RESET: &str = "S[!RESET_max%parallel%workers%per%gather S]";

/// A block, up to its first statement, which was limited and is under way.
fn begun() -> String {
    format!(
        "= Q:begin => C:BEGIN Z:T
         > Q:select_a => {SHOW}
         < 3 1 2 R:2 C:SHOW Z:T => {LOWER}
         < 3 1 2 C:SET Z:T => S[Q:select_a]"
    )
}

#[test]
fn a_block_is_limited_before_its_first_statement_and_asked_once() {
    check(&format!(
        "{}
         < D:1 C:SELECT Z:T => C[D:1 C:SELECT Z:T]
         = Q:select_b => D:1 C:SELECT Z:T
         = Q:commit => C:COMMIT Z:I
         = Q:begin => C:BEGIN Z:T
         > P::select_b B:: E S => {LOWER}
         < 3 1 2 C:SET Z:T => S[P::select_b B:: E S]",
        begun()
    ));
}

/// A server with a lower value of its own must not get more workers than its administrator permits.
#[test]
fn a_lower_value_of_the_server_stays() {
    check(&format!(
        "= Q:begin => C:BEGIN Z:T
         > Q:select_a => {SHOW}
         < 3 1 2 R:0 C:SHOW Z:T => S[Q:select_a]"
    ));
}

#[test]
fn a_client_that_asks_finds_what_it_would_find_without_us_and_is_left_alone() {
    for question in ["Q:show_max%parallel%workers%per%gather", "Q:SHOW_ALL", "Q:select_current%setting('x')"] {
        check(&format!(
            "{}
             < D:1 C:SELECT Z:T => C[D:1 C:SELECT Z:T]
             > {question} => {RAISE}
             < 3 1 2 C:SET Z:T => S[{question}]
             < D:1 C:SHOW Z:T => C[D:1 C:SHOW Z:T]
             = Q:select_b => D:1 C:SELECT Z:T
             = Q:commit => C:COMMIT Z:I
             > Q:select_b => S[Q:select_b]",
            begun()
        ));
    }
}

/// The question is not the first message of its unit.
#[test]
fn a_unit_is_read_as_a_whole_before_any_of_it_passes() {
    let unit = "P::select_b B:: E P::show_max%parallel%workers%per%gather B:: E S";
    check(&format!(
        "{}
         < D:1 C:SELECT Z:T => C[D:1 C:SELECT Z:T]
         > {unit} => {RAISE}
         < 3 1 2 C:SET Z:T => S[{unit}]",
        begun()
    ));
}

#[test]
fn a_client_that_sets_its_own_value_keeps_it() {
    check(
        "= Q:set_max%parallel%workers%per%gather_=_4 => C:SET Z:I
         = Q:begin => C:BEGIN Z:T
         > Q:select_a => S[Q:select_a]",
    );
}

/// Rolling back to a savepoint restores the value that was set when it was created.
#[test]
fn a_limit_is_undone_before_the_first_savepoint() {
    check(&format!(
        "{}
         < D:1 C:SELECT Z:T => C[D:1 C:SELECT Z:T]
         > Q:savepoint_a => {RAISE}
         < 3 1 2 C:SET Z:T => S[Q:savepoint_a]
         < C:SAVEPOINT Z:T => C[C:SAVEPOINT Z:T]
         = Q:select_b => D:1 C:SELECT Z:T
         = Q:commit => C:COMMIT Z:I
         = Q:begin => C:BEGIN Z:T
         > Q:select_a => {LOWER}",
        begun()
    ));
}

#[test]
fn statements_that_commit_by_themselves_are_limited_until_something_else_comes() {
    let asked = format!(
        "> Q:select_a => {SHOW}
         < 3 1 2 R:2 C:SHOW Z:I => {LOWER_SESSION}
         < 3 1 2 C:SET Z:I => S[Q:select_a]
         < D:1 C:SELECT Z:I => C[D:1 C:SELECT Z:I]
         = P::select_b B:: E S => 1 2 D:1 C:SELECT Z:I"
    );
    for next in
        ["Q:begin", "Q:discard_all", "Q:show_max%parallel%workers%per%gather", "P::begin B:: E P::select B:: E S"]
    {
        check(&format!("{asked}\n> {next} => {RESET}\n< 3 1 2 C:RESET Z:I => S[{next}]"));
    }
}

/// Units are pipelined, and the last one reads the parameter.
#[test]
fn what_is_undone_waits_for_what_was_sent_before() {
    check(&format!(
        "> Q:select_a => {SHOW}
         < 3 1 2 R:2 C:SHOW Z:I => {LOWER_SESSION}
         < 3 1 2 C:SET Z:I => S[Q:select_a]
         > Q:show_all =>
         < D:1 C:SELECT Z:I => S[!RESET_max%parallel%workers%per%gather S] C[D:1 C:SELECT Z:I]
         < 3 1 2 C:RESET Z:I => S[Q:show_all]"
    ));
}

/// The client cancels while the server answers our unit. The client waits for its own statement, so that one is
/// cancelled.
#[test]
fn a_cancel_that_meets_our_unit_ends_the_clients() {
    check(&format!(
        "= Q:begin => C:BEGIN Z:T
         > Q:select_a => {SHOW}
         ! no_aim =>
         ! cancel =>
         < E:57014 Z:E => C[E:57014 Z:E]
         ! client_arrived =>
         = Q:select_b => E:25P02 Z:E
         = Q:rollback => C:ROLLBACK Z:I"
    ));
}

#[test]
fn a_replay_sets_the_limit_where_it_was_set() {
    let stories = check_each(
        limited,
        &format!(
            "{}
             < D:1 C:SELECT Z:T => C[D:1 C:SELECT Z:T]
             > Q:update => S[Q:update]
             ! preempted => rolled-back S[Q:begin]
             < C:BEGIN Z:T => {LOWER}
             < 3 1 2 C:SET Z:T => S[Q:select_a]
             < D:1 C:SELECT Z:T => S[Q:update]
             < C:UPDATE Z:T => C[C:UPDATE Z:T]",
            begun()
        ),
    );
    stories.iter().for_each(|story| assert_eq!(verified(story), 1));
}

/// A client may have set the parameter before a reload introduced the first limit.
#[test]
fn a_session_from_before_the_limit_is_left_alone() {
    let mut story = Story::new("low_user");
    let ask = "= Q:select_a => D:1 C:SELECT Z:I";
    story.play(ask);
    story.governor.change(|settings| settings.classes[1].workers_max = Some(1)).expect("it can be changed");
    story.play(ask);
    let mut young = story.beside("low_user");
    young.play(&format!("> Q:select_a => {SHOW}"));
}

/// A job that loads rows has long parameters; its texts can be read all the same.
#[test]
fn long_parameters_say_nothing() {
    let long = "x".repeat(40_000);
    let mut story = limited();
    story.play(&begun());
    story.play("< D:1 C:SELECT Z:T => C[D:1 C:SELECT Z:T]");
    story.play(&format!("> P::insert B:::{long} E S => S[P::insert B:: E S]"));
    // If only the beginning of a text has arrived, the rest may refer to the parameter.
    let mut story = limited();
    story.step = 70_000;
    story.play(&begun());
    story.play("< D:1 C:SELECT Z:T => C[D:1 C:SELECT Z:T]");
    let text = format!("Q:select_'{}'", "x".repeat(140_000));
    story.play(&format!("> {text} => {RAISE}"));
}

/// A target of a more important class lowers the limit. Running transactions keep theirs.
#[test]
fn what_a_target_leaves_holds_from_the_next_transaction_on() {
    let hold = |story: &Story, workers| {
        story.governor.hold(&[Held::default(), Held { workers: Some(workers), ..Held::default() }]);
    };
    let lower = "S[!SET_LOCAL_max%parallel%workers%per%gather_=_0 S]";
    let mut story = limited();
    story.play(&begun());
    hold(&story, 0);
    story.play(&format!(
        "< D:1 C:SELECT Z:T => C[D:1 C:SELECT Z:T]
         = Q:commit => C:COMMIT Z:I
         = Q:begin => C:BEGIN Z:T
         > Q:select_a => {lower}"
    ));
    // Between statements that commit by themselves, the old limit is undone first. A target never raises the limit
    // above the setting.
    let mut story = limited();
    story.play(&format!(
        "> Q:select_a => {SHOW}
         < 3 1 2 R:2 C:SHOW Z:I => {LOWER_SESSION}
         < 3 1 2 C:SET Z:I => S[Q:select_a]
         < D:1 C:SELECT Z:I => C[D:1 C:SELECT Z:I]"
    ));
    hold(&story, 5);
    story.play("= Q:select_a => D:1 C:SELECT Z:I");
    hold(&story, 0);
    story.play(&format!(
        "> Q:select_b => {RESET}
         < 3 1 2 C:RESET Z:I => {}
         < 3 1 2 C:SET Z:I => S[Q:select_b]",
        lower.replace("_LOCAL", "")
    ));
}
