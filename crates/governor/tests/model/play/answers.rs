//! The parts of an answer that are compared.

use std::collections::BTreeSet;

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

/// The notices that a client received. A replay may repeat them.
pub fn notices(answer: &[Message]) -> BTreeSet<String> {
    let notices = answer.iter().filter(|message| message.tag == b'N');
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

pub fn is_generated(value: &str) -> bool {
    let mut letters = value.bytes();
    letters.next() == Some(b'g') && letters.next().is_some_and(|digit| digit.is_ascii_digit())
}
