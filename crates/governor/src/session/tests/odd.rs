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
