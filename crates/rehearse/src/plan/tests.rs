//! Captures as tables, and the links that their plans have.

use super::*;
use crate::message::testing::{bind, data_row, describe_portal, execute, parse, row_description, sync};
use crate::testing::{answer, events, open, unit};

/// What a plan links: for each unit that uses values, `SESSION.UNIT: VALUE from SESSION.UNIT; waits for …`.
fn links(plan: &Plan) -> String {
    let name = |wanted: &dyn Fn(&Planned) -> bool| {
        let found = plan
            .sessions
            .iter()
            .find_map(|script| script.units.iter().position(wanted).map(|at| format!("{}.{at}", script.session)));
        found.expect("a unit of the plan")
    };
    let mut lines = Vec::new();
    for script in &plan.sessions {
        for (at, planned) in script.units.iter().enumerate() {
            if planned.uses.is_empty() && planned.waits.is_empty() {
                continue;
            }
            let used = planned.uses.iter().map(|one| {
                let from = name(&|unit: &Planned| unit.makes.iter().any(|made| made.slot == one.slot));
                format!("{} from {from}", String::from_utf8_lossy(&planned.request[one.range.clone()]))
            });
            let waits = planned.waits.iter().map(|number| name(&|unit: &Planned| unit.awaited == Some(*number)));
            let (used, waits): (Vec<String>, Vec<String>) = (used.collect(), waits.collect());
            let waits = if waits.is_empty() { String::new() } else { format!("; waits for {}", waits.join(" ")) };
            lines.push(format!("{}.{at}: {}{waits}", script.session, used.join(", ")));
        }
    }
    lines.join("\n")
}

#[track_caller]
fn check(table: &str, expect: &str) {
    let plan = Plan::of(events(table), &Selection::ALL);
    let expect: Vec<&str> = expect.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    assert_eq!(links(&plan), expect.join("\n"), "{table}");
}

#[test]
fn identities_are_mapped_within_a_session_and_to_others() {
    check(
        "1 | 0-10 | I | insert into orders (customer) values (3) returning id | id@7=57
         1 | 20-30 | I | insert into lines (order_id, item, n) values (57, 57, 2)
         2 | 40-50 | I | select * from orders where id = 57
         2 | 60-70 | I | select * from customers where id = 57",
        "1.1: 57 from 1.0
         2.0: 57 from 1.0; waits for 1.1",
    );
}

#[test]
fn a_later_unit_waits_for_the_end_of_the_transaction() {
    check(
        "1 | 0-1 | T | begin
         1 | 2-4 | T | insert into orders (customer) values (3) returning id | id@7=57
         1 | 5-9 | I | commit
         2 | 20-30 | I | select * from orders where id = 57",
        "2.0: 57 from 1.1; waits for 1.2",
    );
    // Another client that knew it before the commit waits for the unit alone, or it would wait forever.
    check(
        "1 | 0-1 | T | begin
         1 | 2-4 | T | insert into orders (customer) values (3) returning id | id@7=57
         2 | 6-8 | I | select * from orders where id = 57
         1 | 20-21 | I | commit",
        "2.0: 57 from 1.1; waits for 1.1",
    );
    // One that began before the answer cannot have known it.
    check(
        "1 | 2-8 | I | insert into orders (customer) values (3) returning id | id@7=57
         2 | 6-9 | I | select * from orders where id = 57",
        "",
    );
}

#[test]
fn changes_of_a_new_row_keep_their_order() {
    check(
        "1 | 0-1 | I | insert into orders (customer) values (3) returning id | id@7=57
         2 | 2-3 | I | update orders set state = 'paid' where id = 57
         3 | 4-5 | I | update orders set state = 'sent' where id = 57
         2 | 6-7 | I | delete from orders where id = 57",
        "2.0: 57 from 1.0; waits for 1.0
         2.1: 57 from 1.0; waits for 1.0 3.0
         3.0: 57 from 1.0; waits for 1.0 2.0",
    );
}

#[test]
fn sequences_defaults_and_unmistakable_values_are_sources() {
    check(
        "1 | 0-1 | I | select nextval('orders_id_seq') | nextval=900
         1 | 2-3 | I | insert into orders (id, customer) values (900, 3)
         1 | 4-5 | I | insert into parts (name) values ('bolt')
         1 | 6-7 | I | select id, stock from parts where name = 'bolt' | id@8=41, stock@8=7
         1 | 8-9 | I | update parts set stock = 7 - 1 where id = 41 and shelf = 41
         1 | 10-11 | I | select gen_random_uuid() as token | token=0b1f7d1e-1fd4-4b4f-9b2c-6a9f3c1d2e4f
         1 | 12-13 | I | select check_token('0b1f7d1e-1fd4-4b4f-9b2c-6a9f3c1d2e4f')",
        "1.1: 900 from 1.0
         1.4: 41 from 1.3
         1.6: '0b1f7d1e-1fd4-4b4f-9b2c-6a9f3c1d2e4f' from 1.5",
    );
}

#[test]
fn amounts_and_values_of_unchanged_rows_are_not_mapped() {
    check(
        "1 | 0-1 | I | insert into orders (customer) values (3) returning id | id@7=10
         1 | 2-3 | I | select id from orders where state = 'new' limit 10 | id@7=9
         1 | 4-5 | I | update items set stock = stock - 10 where kind = 10
         1 | 6-7 | I | select id from customers where name = 'x' | id@9=33
         1 | 8-9 | I | select * from customers where id = 33",
        "",
    );
}

/// A prepared statement whose parameters and result travel in binary, described once.
#[test]
fn values_of_prepared_statements_are_mapped() {
    let insert = "insert into orders (customer) values ($1) returning id";
    let made = |id: i32| {
        let mut answer = answer("I", "insert", "");
        answer.rows = 1;
        answer.begin = data_row(&[&id.to_be_bytes()]);
        answer
    };
    let mut first = made(57);
    first.begin = [row_description(&[("id", 7, 23)], 1), data_row(&[&57_i32.to_be_bytes()])].concat();
    let prepare =
        [parse("s1", insert, &[23]), bind("s1", 1, &[&[0, 0, 0, 3]], 1), describe_portal(), execute(), sync()];
    let again = [bind("s1", 1, &[&[0, 0, 0, 4]], 1), execute(), sync()];
    let lines = "insert into lines (order_id) values ($1)";
    let uses = [parse("", lines, &[20]), bind("", 1, &[&58_i64.to_be_bytes()], 1), execute(), sync()];
    let all = vec![
        open(1, 0),
        unit(1, 0, 10, prepare.concat(), first),
        unit(1, 20, 10, again.concat(), made(58)),
        unit(1, 40, 10, uses.concat(), answer("I", "insert", "")),
    ];
    let plan = Plan::of(all, &Selection::ALL);
    let [_, second, third] = &plan.sessions[0].units[..] else { panic!("{plan:?}") };
    assert_eq!((third.uses.len(), second.makes.len()), (1, 1));
    assert_eq!((second.makes[0].slot, second.makes[0].format), (third.uses[0].slot, 1));
    assert_eq!(plan.shapes[third.shape].text, "insert into lines(order_id) values (?)");
}

#[test]
fn what_is_left_out_is_counted_with_its_reason() {
    let copy = "1 | 0-1 | I | listen jobs
                1 | 2-3 | I | copy t from stdin
                1 | 4-5 | I | alter role ann password '<secret>'
                1 | 6-7 | I | select 1";
    let mut all = events(copy);
    let bound = [bind("old", 0, &[b"1"], 0), execute(), sync()].concat();
    all.push(unit(2, 9_000, 10, bound, answer("I", "select", "")));
    all.push(unit(2, 9_100, 10, vec![b'Q', 0, 0, 1], answer("I", "select", "")));
    let plan = Plan::of(all, &Selection::ALL);
    let counts: Vec<(Reason, u64)> = plan.skipped().into_iter().collect();
    let expect = [Reason::Malformed, Reason::Notification, Reason::Secret, Reason::CopyData, Reason::UnknownStatement];
    assert_eq!(counts, expect.map(|reason| (reason, 1)));
    assert_eq!((plan.facts.unopened, plan.facts.units), (1, 6));
}

#[test]
fn a_part_of_a_capture_begins_with_what_its_sessions_had() {
    let table = "1 | 0-1 | I | set search_path = shop
                 1 | 2-3 | T | begin
                 1 | 20-21 | T | update t set a = 1
                 1 | 22-23 | I | commit
                 1 | 30-31 | I | select 1
                 1 | 50-51 | I | select 2
                 2 | 52-53 | I | select 3";
    let selection = Selection { from_us: 10_000, until_us: 40_000, database: None };
    let plan = Plan::of(events(table), &selection);
    let [script] = &plan.sessions[..] else { panic!("{plan:?}") };
    assert_eq!(script.prelude, [crate::message::query("set search_path = shop")]);
    let skips: Vec<Option<Reason>> = script.units.iter().map(|unit| unit.skip).collect();
    assert_eq!(skips, [Some(Reason::CutTransaction), Some(Reason::CutTransaction), None]);
    assert_eq!(script.units[2].at_us, 20_000);
}

#[test]
fn shapes_know_which_answers_can_be_compared() {
    let table = "1 | 0-1 | I | select name from items where id = 1 | name@5=a
                 1 | 2-3 | I | select name from items where id = 1 | name@5=a
                 1 | 4-5 | I | select name from events where id = 1 | name@6=a
                 1 | 6-7 | I | select name from events where id = 1 | name@6=b
                 1 | 8-9 | I | select now() | now=2026-01-01
                 1 | 10-11 | I | select a from t where b = 1 | a@4=3
                 2 | 12-13 | I | update t set a = 1";
    let plan = Plan::of(events(table), &Selection::ALL);
    let known: Vec<Option<NotCompared>> = plan.shapes.iter().map(|shape| shape.not_compared).collect();
    let expect = [
        None,
        Some(NotCompared::Varies),
        Some(NotCompared::Volatile),
        Some(NotCompared::Written),
        Some(NotCompared::Writes),
    ];
    assert_eq!(known, expect);
    assert!(plan.writes() && plan.probes.len() == 5 && plan.sessions_at_once() == 2);
}

#[test]
fn times_that_go_back_are_counted() {
    let plan = Plan::of(events("1 | 50-60 | I | select 1\n1 | 10-20 | I | select 2"), &Selection::ALL);
    assert_eq!((plan.facts.clock_jumps, plan.sessions[0].units[1].at_us), (1, 50_000));
}
