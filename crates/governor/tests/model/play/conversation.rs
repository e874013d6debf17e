//! Sending units, and reading the answer to each.

use std::io;
use std::time::{Duration, Instant};

use super::super::script::{CopyPart, Request, Unit, expanded};
use super::super::wire::{self, Client, Message};
use super::units::{completes, one_shot};

/// The bytes of a unit, sent all at once.
pub fn bytes(unit: &Unit) -> Vec<u8> {
    match unit {
        Unit::Query(statements) => wire::query(&expanded(&statements.join("; "))),
        Unit::Extended(requests) => {
            let requests = requests.iter().flat_map(Request::bytes);
            requests.chain(wire::tagged(b'S', &[])).collect()
        }
        Unit::Copy { sql, name: None, .. } => wire::query(sql),
        Unit::Copy { sql, name: Some(name), .. } => {
            let requests = one_shot(name, sql);
            requests.iter().chain([&Request::Flush]).flat_map(Request::bytes).collect()
        }
        Unit::Call(value) => wire::call(ABS, *value),
        Unit::Leave(_) | Unit::Finish(_) => Vec::new(),
    }
}

/// The number of the function `abs(integer)`, the same in every database.
const ABS: u32 = 1397;

/// The answers to some units, up to the `ReadyForQuery` of each.
#[derive(Debug, Default)]
pub struct Conversation {
    pub answers: Vec<Vec<Message>>,
    /// How long before the end each notice and each error arrived.
    pub told: Vec<Duration>,
}

/// Sends units, and reads the answer to each.
pub fn converse(client: &mut Client, units: &[&Unit]) -> io::Result<Conversation> {
    let mut listener = Listener { client, told: Vec::new() };
    let answers = match units {
        [Unit::Extended(requests)] if requests.contains(&Request::Flush) => vec![listener.flushing(requests)?],
        [unit @ Unit::Copy { name, parts, fails, .. }] => {
            vec![listener.copying(&bytes(unit), name.is_some(), parts, *fails)?]
        }
        _ => {
            let all: Vec<u8> = units.iter().flat_map(|unit| bytes(unit)).collect();
            listener.client.send(&all)?;
            units.iter().map(|_| listener.until_ready(Vec::new())).collect::<io::Result<_>>()?
        }
    };
    Ok(Conversation { answers, told: listener.told.iter().map(Instant::elapsed).collect() })
}

/// Sends a unit and the end of the connection, and reads all messages up to the server's end.
pub fn converse_to_the_end(client: &mut Client, unit: &Unit) -> io::Result<Vec<Message>> {
    client.send(&bytes(unit))?;
    client.close_sending()?;
    let mut answer = Vec::new();
    loop {
        match client.message() {
            Ok(message) => answer.push(message),
            Err(error) if matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset) => {
                return Ok(answer);
            }
            Err(error) => return Err(error),
        }
    }
}

/// A client that notes when it is told something.
struct Listener<'a> {
    client: &'a mut Client,
    told: Vec<Instant>,
}

impl Listener<'_> {
    fn message(&mut self) -> io::Result<Message> {
        let message = self.client.message()?;
        if matches!(message.tag, b'N' | b'E') {
            self.told.push(Instant::now());
        }
        Ok(message)
    }

    fn until_ready(&mut self, mut answer: Vec<Message>) -> io::Result<Vec<Message>> {
        while answer.last().is_none_or(|last| last.tag != b'Z') {
            answer.push(self.message()?);
        }
        Ok(answer)
    }

    /// Waits for the answers to each `Flush`.
    fn flushing(&mut self, requests: &[Request]) -> io::Result<Vec<Message>> {
        let extended = Unit::Extended(Vec::new());
        let (mut answer, mut expected, mut has_failed) = (Vec::new(), 0, false);
        for request in requests {
            self.client.send(&request.bytes())?;
            if *request != Request::Flush {
                expected += 1;
                continue;
            }
            while expected > 0 && !has_failed {
                let message = self.message()?;
                has_failed = message.tag == b'E';
                expected -= usize::from(completes(&extended, message.tag));
                answer.push(message);
            }
        }
        self.client.send(&wire::tagged(b'S', &[]))?;
        self.until_ready(answer)
    }

    /// Sends data when the server wants them, and other messages among them.
    fn copying(
        &mut self,
        begin: &[u8],
        is_extended: bool,
        parts: &[CopyPart],
        fails: bool,
    ) -> io::Result<Vec<Message>> {
        self.client.send(begin)?;
        let mut answer = vec![self.message()?];
        let ends: &[u8] = if is_extended { b"GEC" } else { b"GZ" };
        while !ends.contains(&answer.last().expect("there is one").tag) {
            answer.push(self.message()?);
        }
        if answer.last().expect("there is one").tag == b'G' {
            let data: Vec<u8> = parts.iter().flat_map(part).collect();
            let end = if fails { wire::tagged(b'f', &wire::text("no more")) } else { wire::tagged(b'c', &[]) };
            self.client.send(&[data, end].concat())?;
        }
        if is_extended {
            self.client.send(&wire::tagged(b'S', &[]))?;
        }
        self.until_ready(answer)
    }
}

fn part(part: &CopyPart) -> Vec<u8> {
    match part {
        CopyPart::Line(line) => wire::tagged(b'd', format!("{line}\n").as_bytes()),
        CopyPart::Sync => wire::tagged(b'S', &[]),
        CopyPart::Flush => wire::tagged(b'H', &[]),
    }
}
