//! Properties of a unit that are known before it is sent.

use super::super::interposer::{with_failing, with_failing_commit};
use super::super::script::{Request, ScriptStep, Unit};
use super::super::wire::Message;

/// How many units are sent together.
pub fn group_length(steps: &[ScriptStep]) -> usize {
    let can_follow = |step: &ScriptStep| matches!(step.unit, Unit::Query(_) | Unit::Extended(_));
    let pairs = steps.iter().zip(&steps[1..]);
    pairs.take_while(|(step, next)| step.ahead && can_follow(step) && can_follow(next)).count() + 1
}

/// A ROLLBACK by the same protocol as a unit; the extended one leaves the unnamed statement alone.
pub fn rollback_like(unit: &Unit) -> Unit {
    if !matches!(unit, Unit::Extended(_)) {
        return Unit::Query(vec!["ROLLBACK".to_owned()]);
    }
    let name = "rollback".to_owned();
    Unit::Extended(vec![
        Request::CloseStatement(name.clone()),
        Request::Parse { name: name.clone(), sql: "ROLLBACK".to_owned() },
        Request::Bind { portal: String::new(), statement: name, values: Vec::new() },
        Request::Execute { portal: String::new(), rows: 0 },
    ])
}

/// The messages that prepare a statement and run it.
pub fn one_shot(name: &str, sql: &str) -> [Request; 3] {
    [
        Request::Parse { name: name.to_owned(), sql: sql.to_owned() },
        Request::Bind { portal: String::new(), statement: name.to_owned(), values: Vec::new() },
        Request::Execute { portal: String::new(), rows: 0 },
    ]
}

/// Whether a message says that a statement, or a message, was executed.
pub fn completes(unit: &Unit, tag: u8) -> bool {
    match unit {
        Unit::Extended(_) | Unit::Copy { name: Some(_), .. } => {
            matches!(tag, b'1' | b'2' | b'3' | b'T' | b'n' | b'C' | b'I' | b's')
        }
        _ => matches!(tag, b'C' | b'I'),
    }
}

/// Whether a unit may run a statement that ends a transaction.
pub fn may_end(unit: &Unit) -> bool {
    let ends = |sql: &str| ["COMMIT", "END", "CALL", "/* @long@ */ COMMIT"].iter().any(|word| sql.starts_with(word));
    match unit {
        Unit::Query(statements) => statements.iter().any(|sql| ends(sql)),
        Unit::Extended(requests) => {
            let executes = requests.iter().any(|request| matches!(request, Request::Execute { .. }));
            // Only statements that end or begin transactions have such names; one without a Parse may be older.
            let ends = |request: &Request| match request {
                Request::Parse { sql, .. } => ends(sql),
                Request::Bind { statement, .. } => statement.starts_with(['e', 'k']) || statement.is_empty(),
                _ => false,
            };
            executes && requests.iter().any(ends)
        }
        Unit::Copy { .. } | Unit::Call(_) | Unit::Leave(_) | Unit::Finish(_) => false,
    }
}

/// Whether a unit runs a statement that rolls a transaction back. Statements that are only prepared do not count.
pub fn rolls_back(unit: &Unit) -> bool {
    let does = |sql: &str| sql.contains("ABORT") || sql.contains("ROLLBACK") && !sql.contains("ROLLBACK TO");
    match unit {
        Unit::Extended(requests) => requests.iter().enumerate().any(|(place, request)| {
            let Request::Parse { name, sql } = request else { return false };
            let mut later = requests[place + 1..].iter();
            // Another text may take its name.
            let next = later.find(|request| match request {
                Request::Bind { statement, .. } => statement == name,
                Request::Parse { name: other, .. } => other == name,
                _ => false,
            });
            let is_bound = matches!(next, Some(Request::Bind { .. }));
            does(sql) && is_bound && later.any(|request| matches!(request, Request::Execute { .. }))
        }),
        _ => does(&unit.to_string()),
    }
}

/// Whether a unit has the same effect when repeated after a rollback, so that it can be repeated on the plain side.
pub fn can_be_redone(unit: &Unit) -> bool {
    const CANNOT: &str = "PREPARE DEALLOCATE EXECUTE FETCH MOVE CLOSE DISCARD advisory CHAIN COMMIT END ROLLBACK numbers \
        close- mail remote beyond orders items lastval currval shape";
    let text = unit.to_string();
    let is_older =
        |request: &Request| matches!(request, Request::Bind { statement, .. } if statement.starts_with(['e', 'k']));
    let binds_older = matches!(unit, Unit::Extended(requests) if requests.iter().any(is_older));
    !binds_older
        && !matches!(unit, Unit::Copy { .. } | Unit::Call(_))
        && CANNOT.split(' ').all(|word| !text.contains(word))
}

/// The names of the statements that a unit has prepared.
pub fn parsed_names(unit: &Unit, answer: &[Message]) -> Vec<String> {
    let Unit::Extended(requests) = unit else { return Vec::new() };
    let done = answer.iter().filter(|message| completes(unit, message.tag)).count();
    let requests = requests.iter().filter(|request| **request != Request::Flush).take(done);
    let names = requests.filter_map(|request| match request {
        Request::Parse { name, .. } if !name.is_empty() => Some(name.clone()),
        _ => None,
    });
    names.collect()
}

/// The unit, with a failure at that place, or at the commit at its end.
pub fn failing_at(unit: &Unit, at: usize, at_commit: bool) -> Unit {
    match unit {
        Unit::Query(statements) if at_commit => Unit::Query(vec![with_failing_commit(&statements.join("; "))]),
        Unit::Query(statements) => Unit::Query(vec![with_failing(&statements[..at.min(statements.len())])]),
        Unit::Extended(requests) => {
            let mut left = at;
            let mut kept: Vec<Request> = Vec::new();
            for request in requests {
                if *request != Request::Flush {
                    if left == 0 {
                        break;
                    }
                    left -= 1;
                }
                kept.push(request.clone());
            }
            // A named statement, so that the unnamed one stays.
            kept.push(Request::Parse { name: "failing".to_owned(), sql: "this fails".to_owned() });
            Unit::Extended(kept)
        }
        Unit::Copy { sql, name: Some(name), .. } => {
            failing_at(&Unit::Extended(one_shot(name, sql).into()), at.min(2), false)
        }
        Unit::Copy { .. } | Unit::Call(_) | Unit::Leave(_) | Unit::Finish(_) => Unit::Query(vec![with_failing(&[])]),
    }
}
