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
