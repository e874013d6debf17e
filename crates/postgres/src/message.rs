//! Messages of the protocol as bytes, for what a typed client does not send: recorded requests, and statements of a file.

/// A message, as bytes.
///
/// # Panics
/// If its body is longer than the protocol can say, 4 GiB.
pub fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).expect("a message is shorter than 4 GiB");
    [&[tag], length.to_be_bytes().as_slice(), body].concat()
}

/// A text with its closing zero as a `Query`.
pub fn query(sql: &str) -> Vec<u8> {
    message(b'Q', &[sql.as_bytes(), b"\0"].concat())
}

/// A field of an `ErrorResponse`, such as `M`, its message.
pub fn field(body: &[u8], kind: u8) -> Option<String> {
    let mut fields = body.split(|byte| *byte == 0).filter(|field| !field.is_empty());
    let found = fields.find(|field| field[0] == kind)?;
    Some(String::from_utf8_lossy(&found[1..]).into_owned())
}
