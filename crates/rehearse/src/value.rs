//! Values that a server made up, such as identities: how they are recognised in any form, and written in any form.

use std::str;

/// `bytea`, `smallint`, … as numbers of pg_type, which never change.
const INTEGERS: [u32; 4] = [20, 21, 23, 26];
const UUID: u32 = 2950;
const MOMENTS: [u32; 2] = [1114, 1184];
const TEXTS: [u32; 3] = [25, 1042, 1043];

/// Texts shorter than this are words rather than keys, and are never mapped.
const TEXT_BYTES_MIN: usize = 16;

/// A value without its form: equal values are equal whether they travel as text or binary.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Value {
    Integer(i64),
    Uuid([u8; 16]),
    /// Only equal to itself in the same form, such as a moment or a key of letters.
    Bytes(u16, Vec<u8>),
}

/// How a value of a column is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Integer,
    Uuid,
    Bytes,
}

impl Kind {
    /// The kind of a type whose values a server may make up; `None` for the others.
    pub fn of(type_oid: u32) -> Option<Kind> {
        match type_oid {
            oid if INTEGERS.contains(&oid) => Some(Kind::Integer),
            UUID => Some(Kind::Uuid),
            oid if MOMENTS.contains(&oid) || TEXTS.contains(&oid) => Some(Kind::Bytes),
            _ => None,
        }
    }
}

impl Value {
    /// Reads a value of a result; `None` if it is not of that kind, or too short to be told from others.
    pub fn read(kind: Kind, format: u16, bytes: &[u8]) -> Option<Value> {
        match (kind, format) {
            (Kind::Integer, 0) => str::from_utf8(bytes).ok()?.parse().ok().map(Value::Integer),
            (Kind::Integer, _) => integer(bytes).map(Value::Integer),
            (Kind::Uuid, 0) => uuid(bytes).map(Value::Uuid),
            (Kind::Uuid, _) => bytes.try_into().ok().map(Value::Uuid),
            (Kind::Bytes, 0) => match uuid(bytes) {
                Some(uuid) => Some(Value::Uuid(uuid)),
                None => (bytes.len() >= TEXT_BYTES_MIN).then(|| Value::Bytes(format, bytes.to_vec())),
            },
            // A moment in binary has eight bytes.
            (Kind::Bytes, _) => (bytes.len() >= 8).then(|| Value::Bytes(format, bytes.to_vec())),
        }
    }

    /// The values that a parameter may be, the likeliest first.
    pub fn of_parameter(type_oid: Option<u32>, format: u16, bytes: &[u8]) -> Vec<Value> {
        let kinds: &[Kind] = match type_oid.filter(|oid| *oid != 0) {
            Some(oid) => match Kind::of(oid) {
                Some(Kind::Integer) => &[Kind::Integer],
                Some(Kind::Uuid) => &[Kind::Uuid],
                Some(Kind::Bytes) => &[Kind::Bytes],
                None => &[],
            },
            None => &[Kind::Integer, Kind::Uuid, Kind::Bytes],
        };
        kinds.iter().filter_map(|kind| Value::read(*kind, format, bytes)).collect()
    }

    /// The value of a number or a literal of a statement.
    pub fn of_token(text: &[u8]) -> Vec<Value> {
        let inner = text.strip_prefix(b"'").and_then(|text| text.strip_suffix(b"'")).unwrap_or(text);
        Value::of_parameter(None, 0, inner)
    }

    /// Whether another value can hardly equal it by chance.
    pub fn is_unmistakable(&self) -> bool {
        !matches!(self, Value::Integer(_))
    }

    /// Writes it as a parameter of that form, as long as the recorded one in binary; `None` if it has no room there.
    pub fn write(&self, format: u16, recorded_bytes: usize) -> Option<Vec<u8>> {
        match (self, format) {
            (Value::Integer(number), 0) => Some(number.to_string().into_bytes()),
            (Value::Integer(number), _) => match recorded_bytes {
                2 => i16::try_from(*number).ok().map(|number| number.to_be_bytes().to_vec()),
                4 => i32::try_from(*number).ok().map(|number| number.to_be_bytes().to_vec()),
                8 => Some(number.to_be_bytes().to_vec()),
                _ => None,
            },
            (Value::Uuid(bytes), 0) => Some(uuid_text(bytes)),
            (Value::Uuid(bytes), _) => Some(bytes.to_vec()),
            (Value::Bytes(of, bytes), _) => (*of == format).then(|| bytes.clone()),
        }
    }

    /// Writes it in place of a number or literal of a statement; `None` if it cannot stand there.
    pub fn write_token(&self, recorded: &[u8]) -> Option<Vec<u8>> {
        let text = self.write(0, 0)?;
        if !recorded.starts_with(b"'") {
            // A sign before a number could join an operator.
            return (!text.starts_with(b"-")).then_some(text);
        }
        let is_plain = !text.iter().any(|byte| matches!(byte, b'\'' | b'\\'));
        is_plain.then(|| [b"'", text.as_slice(), b"'"].concat())
    }
}

fn integer(bytes: &[u8]) -> Option<i64> {
    match *bytes {
        [a, b] => Some(i64::from(i16::from_be_bytes([a, b]))),
        [a, b, c, d] => Some(i64::from(i32::from_be_bytes([a, b, c, d]))),
        _ => bytes.try_into().ok().map(i64::from_be_bytes),
    }
}

/// The bytes of a UUID in its usual form, `8-4-4-4-12` digits.
fn uuid(text: &[u8]) -> Option<[u8; 16]> {
    const DASHES: [usize; 4] = [8, 13, 18, 23];
    if text.len() != 36 || DASHES.iter().any(|at| text[*at] != b'-') {
        return None;
    }
    let digits: Vec<u8> = text.iter().copied().filter(|byte| *byte != b'-').collect();
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let bytes: Option<Vec<u8>> =
        digits.chunks(2).map(|pair| Some(digit(pair[0])? << 4 | digit(*pair.get(1)?)?)).collect();
    bytes?.try_into().ok()
}

fn uuid_text(bytes: &[u8; 16]) -> Vec<u8> {
    let mut text = String::with_capacity(36);
    for (at, byte) in bytes.iter().enumerate() {
        if [4, 6, 8, 10].contains(&at) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    text.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_the_same_in_text_and_binary() {
        const ID: &[u8] = b"0b1f7d1e-1fd4-4b4f-9b2c-6a9f3c1d2e4f";
        let uuid = Value::read(Kind::Uuid, 0, ID).unwrap();
        let Value::Uuid(bytes) = uuid else { panic!("{uuid:?}") };
        assert_eq!(Value::read(Kind::Uuid, 1, &bytes), Some(uuid.clone()));
        assert_eq!(uuid.write(0, 36).as_deref(), Some(ID));
        assert_eq!(uuid.write(1, 16), Some(bytes.to_vec()));
        assert_eq!(Value::of_token(b"'0b1f7d1e-1fd4-4b4f-9b2c-6a9f3c1d2e4f'"), [uuid.clone(), uuid.clone()]);

        let number = Value::Integer(57);
        for (format, bytes) in [(0, &b"57"[..]), (1, &[0, 57]), (1, &[0, 0, 0, 57]), (1, &[0, 0, 0, 0, 0, 0, 0, 57])] {
            assert_eq!(Value::read(Kind::Integer, format, bytes), Some(number.clone()));
            assert_eq!(number.write(format, bytes.len()).as_deref(), Some(bytes));
        }
        assert_eq!(Value::of_token(b"57"), std::slice::from_ref(&number));
        assert_eq!(number.write_token(b"'12'").as_deref(), Some(&b"'57'"[..]));
    }

    #[test]
    fn a_value_without_room_is_not_written() {
        assert_eq!(Value::Integer(40_000).write(1, 2), None);
        assert_eq!(Value::Integer(-1).write_token(b"5"), None);
        assert_eq!(Value::Bytes(0, b"it's a long text".to_vec()).write_token(b"'x'"), None);
        assert_eq!(Value::read(Kind::Bytes, 0, b"new"), None);
        assert_eq!(Value::of_parameter(Some(701), 1, &[0; 8]), [], "a float is no identity");
    }
}
