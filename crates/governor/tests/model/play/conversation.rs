//! Sending units, and reading the answer to each.

use std::io;

use super::super::script::{Request, Unit, expanded};
use super::super::wire::{self, Client, Message};
use super::units::completes;

/// The bytes of a unit, sent all at once.
pub fn bytes(unit: &Unit) -> Vec<u8> {
    match unit {
        Unit::Query(statements) => wire::query(&expanded(&statements.join("; "))),
        Unit::Extended(requests) => {
            let requests = requests.iter().flat_map(Request::bytes);
            requests.chain(wire::tagged(b'S', &[])).collect()
        }
        Unit::Copy { sql, .. } => wire::query(sql),
        Unit::Leave(_) => Vec::new(),
    }
}

/// Sends units, and reads the answer to each.
pub fn converse(client: &mut Client, units: &[&Unit]) -> io::Result<Vec<Vec<Message>>> {
    match units {
        [Unit::Extended(requests)] if requests.contains(&Request::Flush) => Ok(vec![flushing(client, requests)?]),
        [Unit::Copy { sql, lines, fails }] => Ok(vec![copying(client, sql, lines, *fails)?]),
        _ => {
            let all: Vec<u8> = units.iter().flat_map(|unit| bytes(unit)).collect();
            client.send(&all)?;
            units.iter().map(|_| until_ready(client, Vec::new())).collect()
        }
    }
}

pub fn until_ready(client: &mut Client, mut answer: Vec<Message>) -> io::Result<Vec<Message>> {
    while answer.last().is_none_or(|last| last.tag != b'Z') {
        answer.push(client.message()?);
    }
    Ok(answer)
}

/// Waits for the answers to each `Flush`.
pub fn flushing(client: &mut Client, requests: &[Request]) -> io::Result<Vec<Message>> {
    let extended = Unit::Extended(Vec::new());
    let (mut answer, mut expected, mut has_failed) = (Vec::new(), 0, false);
    for request in requests {
        client.send(&request.bytes())?;
        if *request != Request::Flush {
            expected += 1;
            continue;
        }
        while expected > 0 && !has_failed {
            let message = client.message()?;
            has_failed = message.tag == b'E';
            expected -= usize::from(completes(&extended, message.tag));
            answer.push(message);
        }
    }
    client.send(&wire::tagged(b'S', &[]))?;
    until_ready(client, answer)
}

/// Sends lines when the server wants them.
pub fn copying(client: &mut Client, sql: &str, lines: &[String], fails: bool) -> io::Result<Vec<Message>> {
    client.send(&wire::query(sql))?;
    let mut answer = vec![client.message()?];
    while !matches!(answer.last().expect("there is one").tag, b'G' | b'Z') {
        answer.push(client.message()?);
    }
    if answer.last().expect("there is one").tag == b'G' {
        for line in lines {
            client.send(&wire::tagged(b'd', format!("{line}\n").as_bytes()))?;
        }
        client.send(&if fails { wire::tagged(b'f', &wire::text("no more")) } else { wire::tagged(b'c', &[]) })?;
        answer.push(client.message()?);
    }
    until_ready(client, answer)
}
