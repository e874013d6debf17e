//! Parts of the PostgreSQL protocol that only scripts use, and those shared with other tests.

pub use super::client::{
    Client, Destination, Failure, Message, PASSWORD, PATIENCE, fields, message as tagged, take_message,
};
pub use super::requests::{parse, query, text};

/// A `Bind` with everything as text.
pub fn bind(portal: &str, statement: &str, values: &[Option<String>]) -> Vec<u8> {
    let mut body = [text(portal), text(statement), vec![0, 0]].concat();
    body.extend_from_slice(&(values.len() as u16).to_be_bytes());
    for value in values {
        match value {
            None => body.extend_from_slice(&(-1_i32).to_be_bytes()),
            Some(value) => {
                body.extend_from_slice(&(value.len() as i32).to_be_bytes());
                body.extend_from_slice(value.as_bytes());
            }
        }
    }
    body.extend_from_slice(&[0, 0]);
    tagged(b'B', &body)
}

/// A `Describe` or a `Close`, of a statement (`S`) or a portal (`P`).
pub fn named(tag: u8, kind: u8, name: &str) -> Vec<u8> {
    tagged(tag, &[&[kind][..], &text(name)].concat())
}

/// An `Execute`; 0 rows means all.
pub fn execute(portal: &str, rows: u32) -> Vec<u8> {
    tagged(b'E', &[&text(portal)[..], &rows.to_be_bytes()].concat())
}

/// A `FunctionCall` with one number, everything as text.
pub fn call(function: u32, value: i32) -> Vec<u8> {
    let value = value.to_string();
    let length = (value.len() as i32).to_be_bytes();
    let number = function.to_be_bytes();
    tagged(b'F', &[&number[..], &[0, 0], &[0, 1], &length, value.as_bytes(), &[0, 0]].concat())
}
