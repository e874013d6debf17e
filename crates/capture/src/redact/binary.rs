//! The hash of a value in binary form, by its type.

use super::values::{self, BYTES, Key, Stream, hashed_text, hashed_uuid_bytes, is_readable};

const BOOL: u32 = 16;
const BYTEA: u32 = 17;
const INT8: u32 = 20;
const INT2: u32 = 21;
const INT4: u32 = 23;
const OID: u32 = 26;
const FLOAT4: u32 = 700;
const FLOAT8: u32 = 701;
const DATE: u32 = 1082;
const TIME: u32 = 1083;
const TIMESTAMP: u32 = 1114;
const TIMESTAMPTZ: u32 = 1184;
const NUMERIC: u32 = 1700;
const UUID: u32 = 2950;
const JSONB: u32 = 3802;
/// `char`, name, text, json, xml, `unknown`, bpchar, varchar.
const TEXTS: [u32; 8] = [18, 19, 25, 114, 142, 705, 1042, 1043];

const DAY_US: u64 = 86_400_000_000;

/// Whether values of a type are numbers, dates or truth values, and so no secrets.
pub(super) fn is_number(oid: u32) -> bool {
    matches!(oid, BOOL | INT2 | INT4 | INT8 | OID | FLOAT4 | FLOAT8 | NUMERIC | DATE | TIME | TIMESTAMP | TIMESTAMPTZ)
}

/// The hash of a value, of the same length. Integers, UUIDs and texts have the same hash as in text form. A value of
/// unknown type is taken for an integer if it has the length of one.
pub(super) fn hashed(value: &[u8], oid: u32, key: &Key) -> Vec<u8> {
    let stream = || key.stream(BYTES, value);
    match (oid, value.len()) {
        (BOOL, 1) => vec![stream().below(2) as u8],
        (INT2 | INT4 | INT8 | OID | 0, 2 | 4 | 8) => hashed_integer(value, key),
        (FLOAT4, 4) => hashed_float(f32::from_be_bytes(value.try_into().expect("four bytes")).into(), stream())
            .map_or_else(|| value.to_vec(), |float| (float as f32).to_be_bytes().to_vec()),
        (FLOAT8, 8) => hashed_float(f64::from_be_bytes(value.try_into().expect("eight bytes")), stream())
            .map_or_else(|| value.to_vec(), |float| float.to_be_bytes().to_vec()),
        (DATE, 4) => (stream().below(36_500) as u32).to_be_bytes().to_vec(),
        (TIME, 8) => stream().below(DAY_US).to_be_bytes().to_vec(),
        (TIMESTAMP | TIMESTAMPTZ, 8) => stream().below(36_500 * DAY_US).to_be_bytes().to_vec(),
        (NUMERIC, 8..) => hashed_numeric(value, stream()),
        (UUID, 16) => hashed_uuid_bytes(value, key),
        (JSONB, 1..) => [&value[..1], &hashed_text(&value[1..], key)].concat(),
        (BYTEA, _) => random(value.len(), stream()),
        (oid, _) if TEXTS.contains(&oid) || is_readable(value) => values::hashed(value, key),
        (_, length) => random(length, stream()),
    }
}

fn random(length: usize, mut stream: Stream<'_>) -> Vec<u8> {
    let mut bytes = vec![0; length];
    stream.fill(&mut bytes);
    bytes
}

/// The hash of the digits that it has in text form; it fits, see there.
fn hashed_integer(value: &[u8], key: &Key) -> Vec<u8> {
    let fill = if value[0] & 0x80 == 0 { 0 } else { 0xff };
    let mut wide = [fill; 8];
    wide[8 - value.len()..].copy_from_slice(value);
    let text = values::hashed(i64::from_be_bytes(wide).to_string().as_bytes(), key);
    let number: i64 = std::str::from_utf8(&text).ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    number.to_be_bytes()[8 - value.len()..].to_vec()
}

/// A number of the same order of magnitude; `None` for one that is none, or infinite.
fn hashed_float(float: f64, mut stream: Stream<'_>) -> Option<f64> {
    let mantissa = 1.0 + stream.below(1 << 20) as f64 / f64::from(1 << 20);
    let scale = 2f64.powi(float.abs().log2().floor() as i32);
    (float.is_normal()).then(|| mantissa * scale * float.signum())
}

/// A number of as many digits, each of four places.
fn hashed_numeric(value: &[u8], mut stream: Stream<'_>) -> Vec<u8> {
    let (head, digits) = value.split_at(8);
    let mut hashed = head.to_vec();
    for (place, digit) in digits.chunks_exact(2).enumerate() {
        let digit = u64::from(u16::from_be_bytes([digit[0], digit[1]]));
        // Of the first group, as many places as before.
        let (least, most) = match digit {
            _ if place > 0 => (0, 10_000),
            0..10 => (1, 10),
            10..100 => (10, 100),
            100..1000 => (100, 1000),
            _ => (1000, 10_000),
        };
        hashed.extend_from_slice(&((least + stream.below(most - least)) as u16).to_be_bytes());
    }
    hashed
}
