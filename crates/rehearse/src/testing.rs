//! Captures for tests, written as tables.
//!
//! A line is `SESSION | BEGIN-END | STATE | SQL | COLUMN@TABLE=VALUE, …`, in the order in which units ended. Times are
//! milliseconds. A session whose number has a `+` has no beginning in the capture. The state is that of `ReadyForQuery`.

use std::collections::BTreeSet;

use plimsoll_capture::RowChecksum;
use plimsoll_capture::event::{Answer, Event, Opened, Unit};

use crate::message::testing::{data_row, row_description};
use crate::message::{messages, query};

/// The events of a table.
pub(crate) fn events(table: &str) -> Vec<Event> {
    let mut opened = BTreeSet::new();
    let mut events = Vec::new();
    for line in table.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let fields: Vec<&str> = line.split(" | ").map(str::trim).collect();
        let [session, times, state, sql, rest @ ..] = &fields[..] else { panic!("{line}") };
        let is_whole = !session.ends_with('+');
        let session: u64 = session.trim_end_matches('+').parse().expect("a session");
        let (begin, end) = times.split_once('-').expect("two times");
        let [begin, end] = [begin, end].map(|time| time.parse::<u64>().expect("milliseconds") * 1_000);
        if is_whole && opened.insert(session) {
            events.push(open(session, begin));
        }
        let answer = answer(state, sql, rest.first().copied().unwrap_or(""));
        events.push(unit(session, begin, end - begin, query(sql), answer));
    }
    events
}

pub(crate) fn open(session: u64, at_us: u64) -> Event {
    let (user, database) = ("ann".to_owned(), "shop".to_owned());
    Event::Opened(Opened { session, at_us, user, database, parameters: Vec::new() })
}

pub(crate) fn unit(session: u64, at_us: u64, took_us: u64, request: Vec<u8>, answer: Answer) -> Event {
    Event::Unit(Unit { session, at_us, took_us, request, answer })
}

/// An answer of one row in text; integers are `bigint`, other values are text or UUIDs.
pub(crate) fn answer(state: &str, sql: &str, row: &str) -> Answer {
    let mut answer = Answer { state: state.as_bytes()[0], ..Answer::default() };
    if let Some(code) = row.strip_prefix("error ") {
        answer.error = Some(code.to_owned());
        return answer;
    }
    let cells: Vec<(&str, u32, &str)> = row.split(", ").filter(|cell| !cell.is_empty()).map(cell).collect();
    let word = sql.split_whitespace().next().unwrap_or("").to_uppercase();
    let rows = u64::from(!cells.is_empty());
    answer.tags = vec![match word.as_str() {
        "INSERT" => "INSERT 0 1".to_owned(),
        "SELECT" | "UPDATE" | "DELETE" => format!("{word} {}", if word == "SELECT" { rows } else { 1 }),
        _ => word,
    }];
    if !cells.is_empty() {
        let type_of = |value: &str| match () {
            () if value.parse::<i64>().is_ok() => 20,
            () if value.len() == 36 => 2950,
            () => 25,
        };
        let columns: Vec<(&str, u32, u32)> =
            cells.iter().map(|(name, table, value)| (*name, *table, type_of(value))).collect();
        let values: Vec<&[u8]> = cells.iter().map(|(_, _, value)| value.as_bytes()).collect();
        answer.rows = 1;
        answer.begin = [row_description(&columns, 0), data_row(&values)].concat();
        let rows = messages(&answer.begin).filter(|it| it.tag == b'D');
        answer.checksum = rows.map(|it| RowChecksum::of(it.body)).sum();
    }
    answer
}

/// `name@table=value`.
fn cell(text: &str) -> (&str, u32, &str) {
    let (column, value) = text.split_once('=').expect("a value");
    let (name, table) = column.split_once('@').unwrap_or((column, "0"));
    (name, table.parse().expect("a number"), value)
}
