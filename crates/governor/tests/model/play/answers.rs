//! The parts of an answer that are compared.

use std::collections::{BTreeMap, BTreeSet};

use super::super::script::Unit;
use super::super::wire::Message;
use super::units::completes;

/// The messages that are compared: those that do not come at arbitrary times.
pub fn seen(answer: &[Message]) -> Vec<Message> {
    answer.iter().filter(|message| !matches!(message.tag, b'N' | b'A' | b'S')).cloned().collect()
}

/// Removes the failed statement's messages and the error, but not the status.
pub fn cut(unit: &Unit, answer: &mut Vec<Message>) {
    let Some(error) = answer.iter().position(|message| message.tag == b'E') else { return };
    let done = answer[..error].iter().rposition(|message| completes(unit, message.tag)).map_or(0, |last| last + 1);
    answer.drain(done..=error);
}

/// The notices that a client received, without those about long names: a server sends them before it runs the first
/// statement of a text, also of one that the interposer has shortened.
pub fn notices(answer: &[Message]) -> BTreeSet<String> {
    let notices = answer.iter().filter(|message| message.tag == b'N' && message.field(b'C') != "42622");
    notices.map(|notice| format!("{} {}", notice.field(b'C'), notice.field(b'M'))).collect()
}

/// A `RowDescription` without the numbers of tables, which may be temporary ones.
pub fn without_tables(body: &[u8]) -> Vec<u8> {
    let (mut out, mut rest) = (body[..2].to_vec(), &body[2..]);
    while let Some(end) = rest.iter().position(|&byte| byte == 0) {
        let next = end + 1 + 18;
        out.extend_from_slice(&rest[..=end]);
        out.extend_from_slice(&rest[end + 5..next]);
        rest = &rest[next..];
    }
    out
}

/// For each message, the names of the columns of the rows that it may be one of; none if nobody has asked for them.
pub fn columns(answer: &[Message]) -> Vec<Vec<String>> {
    let mut names = Vec::new();
    let of = |message: &Message| {
        match message.tag {
            b'T' => names = names_in(&message.body),
            b'C' | b'I' | b's' | b'n' => names.clear(),
            _ => {}
        }
        names.clone()
    };
    answer.iter().map(of).collect()
}

/// The names in a `RowDescription`.
fn names_in(body: &[u8]) -> Vec<String> {
    let (mut names, mut rest) = (Vec::new(), &body[2..]);
    while let Some(end) = rest.iter().position(|&byte| byte == 0) {
        names.push(String::from_utf8_lossy(&rest[..end]).into_owned());
        rest = &rest[end + 1 + 18..];
    }
    names
}

/// Generated values, numbered in the order in which clients first saw them: on both sides equal values must appear at
/// the same places, whatever they are.
#[derive(Debug, Default)]
pub struct Generated {
    /// Of the governed side, and of the plain one.
    known: [BTreeMap<String, usize>; 2],
}

impl Generated {
    /// Whether two values are equal, or generated and known by the same number.
    pub fn are_equal(&mut self, column: &str, governed: &Option<String>, plain: &Option<String>) -> bool {
        let (Some(governed), Some(plain)) = (governed, plain) else { return governed == plain };
        match (generated(column, governed), generated(column, plain)) {
            (Some(governed), Some(plain)) => self.number(0, governed) == self.number(1, plain),
            _ => governed == plain,
        }
    }

    fn number(&mut self, side: usize, value: String) -> usize {
        let next = self.known[side].len();
        *self.known[side].entry(value).or_insert(next)
    }

    /// The rows of a side, sorted, with generated values as clients know them.
    pub fn known_in(&self, rows: Vec<Vec<Option<String>>>, side: usize) -> Vec<String> {
        let value = |value: Option<String>| match value {
            Some(text) => match generated("", &text) {
                Some(key) => self.known[side].get(&key).map_or("generated".to_owned(), |at| format!("generated {at}")),
                None => text,
            },
            None => "NULL".to_owned(),
        };
        let mut rows: Vec<String> =
            rows.into_iter().map(|row| row.into_iter().map(value).collect::<Vec<_>>().join(" ")).collect();
        rows.sort();
        rows
    }
}

/// The key of a generated value: one in a column with such a name, a text that begins with `g` and a digit, or, in
/// [the data](super::super::world), with the name of its column.
fn generated(column: &str, value: &str) -> Option<String> {
    let mut letters = value.bytes();
    let is_marked = letters.next() == Some(b'g') && letters.next().is_some_and(|digit| digit.is_ascii_digit());
    if is_marked || value.starts_with("gen_") {
        return Some(value.to_owned());
    }
    // `gen_note` and `gen_id` are texts that are marked by themselves.
    let is_named = column.starts_with("gen_") && !matches!(column, "gen_note" | "gen_id");
    is_named.then(|| format!("{column}={value}"))
}
