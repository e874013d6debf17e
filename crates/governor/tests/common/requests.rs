//! Messages of clients as bytes.

use super::client::message;

pub fn text(words: &str) -> Vec<u8> {
    [words.as_bytes(), b"\0"].concat()
}

pub fn query(sql: &str) -> Vec<u8> {
    message(b'Q', &text(sql))
}

pub fn parse(name: &str, sql: &str) -> Vec<u8> {
    message(b'P', &[text(name), text(sql), vec![0, 0]].concat())
}

/// The unnamed portal for a statement, with parameters as text.
pub fn bind(name: &str, values: &[&str]) -> Vec<u8> {
    let count = u16::try_from(values.len()).unwrap().to_be_bytes();
    let mut body = [&b"\0"[..], &text(name), &[0, 0], &count].concat();
    for value in values {
        body.extend(u32::try_from(value.len()).unwrap().to_be_bytes());
        body.extend(value.as_bytes());
    }
    message(b'B', &[&body[..], &[0, 0]].concat())
}

pub fn execute() -> Vec<u8> {
    message(b'E', &[0; 5])
}

/// A unit that runs one statement without parameters and without names.
pub fn unit(sql: &str) -> Vec<u8> {
    [parse("", sql), bind("", &[]), execute(), sync()].concat()
}

pub fn describe(name: &str) -> Vec<u8> {
    message(b'D', &[&b"S"[..], &text(name)].concat())
}

pub fn close(name: &str) -> Vec<u8> {
    message(b'C', &[&b"S"[..], &text(name)].concat())
}

pub fn sync() -> Vec<u8> {
    message(b'S', b"")
}

pub fn flush() -> Vec<u8> {
    message(b'H', b"")
}

pub fn copy_data(line: &str) -> Vec<u8> {
    message(b'd', line.as_bytes())
}

pub fn copy_done() -> Vec<u8> {
    message(b'c', b"")
}
