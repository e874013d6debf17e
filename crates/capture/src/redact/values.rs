//! The keyed hash of a value, in the same type and of the same length. Equal values have equal hashes.
//!
//! - A number becomes a number with as many digits at the same places; the sign and the exponent stay.
//! - A UUID becomes a UUID, a date or a time one that exists.
//! - Any other text becomes a text of the same length: letters are replaced by letters, digits by digits, and everything
//!   else that is not ASCII by letters. Other characters stay, so that arrays, JSON and patterns keep their form, and so do
//!   `true`, `false`, `null` and the units of intervals.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// The key of a capture's hashes. It is never written.
#[derive(Clone)]
pub struct Key(Hmac<Sha256>);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key")
    }
}

impl Key {
    /// A key made of random bytes.
    pub fn new(random: &[u8; 32]) -> Self {
        Key(Hmac::new_from_slice(random).expect("HMAC takes keys of any length"))
    }

    /// Bytes without end that only the value and the key determine.
    pub(super) fn stream(&self, kind: u8, value: &[u8]) -> Stream<'_> {
        let mut mac = self.0.clone();
        mac.update(&[kind]);
        mac.update(value);
        Stream { key: self, block: mac.finalize().into_bytes().into(), at: 0 }
    }
}

/// Pseudorandom bytes.
pub(super) struct Stream<'k> {
    key: &'k Key,
    block: [u8; 32],
    at: usize,
}

impl Stream<'_> {
    fn byte(&mut self) -> u8 {
        if self.at == self.block.len() {
            let mut mac = self.key.0.clone();
            mac.update(&self.block);
            (self.block, self.at) = (mac.finalize().into_bytes().into(), 0);
        }
        self.at += 1;
        self.block[self.at - 1]
    }

    pub(super) fn number(&mut self) -> u64 {
        (0..8).fold(0, |number, _| number << 8 | u64::from(self.byte()))
    }

    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.number() % bound
    }

    pub(super) fn fill(&mut self, bytes: &mut [u8]) {
        bytes.iter_mut().for_each(|byte| *byte = self.byte());
    }
}

/// The kinds of values, so that a number and a text of the same digits have different streams.
const NUMBER: u8 = 1;
const UUID: u8 = 2;
const MOMENT: u8 = 3;
const TEXT: u8 = 4;
pub(super) const BYTES: u8 = 5;

/// Words within texts that stay: they are units and constants, not data.
const KEPT_WORDS: [&str; 30] = [
    "true",
    "false",
    "null",
    "now",
    "today",
    "tomorrow",
    "yesterday",
    "infinity",
    "epoch",
    "year",
    "years",
    "month",
    "months",
    "mon",
    "mons",
    "week",
    "weeks",
    "day",
    "days",
    "hour",
    "hours",
    "minute",
    "minutes",
    "min",
    "mins",
    "second",
    "seconds",
    "sec",
    "secs",
    "ago",
];

/// The hash of a value in text form.
pub fn hashed(value: &[u8], key: &Key) -> Vec<u8> {
    if is_number(value) {
        hashed_number(value, key)
    } else if is_uuid(value) {
        hashed_uuid(value, key)
    } else if let Some(moment) = hashed_moment(value, key) {
        moment
    } else if let Some(hex) = value.strip_prefix(b"\\x").filter(|hex| hex.iter().all(u8::is_ascii_hexdigit)) {
        [&b"\\x"[..], &hashed_hex(hex, BYTES, key)].concat()
    } else {
        hashed_text(value, key)
    }
}

/// The hash of a literal with its quotes: its content is hashed as a value.
pub(super) fn hashed_literal(literal: &[u8], key: &Key) -> Vec<u8> {
    let Some(quote) = literal.iter().position(|byte| matches!(byte, b'\'' | b'$')) else {
        return hashed_text(literal, key);
    };
    let prefix = literal[..quote].to_ascii_lowercase();
    let (open, close) = match literal[quote] {
        b'\'' => (quote + 1, 1),
        _ => {
            let tag = literal[quote + 1..].iter().position(|byte| *byte == b'$').map_or(0, |at| at + 2);
            (quote + tag, tag)
        }
    };
    let close = if literal.ends_with(&literal[open - close..open]) { close } else { 0 };
    let end = literal.len() - close;
    let Some(content) = literal.get(open..end) else { return hashed_text(literal, key) };
    let content = match &prefix[..] {
        b"b" => content.iter().map(|byte| if byte.is_ascii_digit() { b'0' } else { *byte }).collect(),
        b"x" => hashed_hex(content, BYTES, key),
        b"e" | b"u&" => hashed_escaped(content, key),
        _ => hashed(content, key),
    };
    [&literal[..open], &content, &literal[end..]].concat()
}

/// The hash of a number as it stands in a statement.
pub(super) fn hashed_constant(number: &[u8], key: &Key) -> Vec<u8> {
    let prefix = number.get(..2).unwrap_or_default().to_ascii_lowercase();
    match &prefix[..] {
        b"0x" => [&number[..2], &hashed_hex(&number[2..], BYTES, key)].concat(),
        // Of other bases no digit but 0 is certain to exist.
        b"0o" | b"0b" => [&number[..2], &vec![b'0'; number.len() - 2][..]].concat(),
        _ => hashed(number, key),
    }
}

/// Whether a value is a text that people can read.
pub(super) fn is_readable(value: &[u8]) -> bool {
    std::str::from_utf8(value).is_ok_and(|text| !text.chars().any(|c| c.is_control() && !c.is_whitespace()))
}

fn is_number(value: &[u8]) -> bool {
    let unsigned = value.strip_prefix(b"-").or_else(|| value.strip_prefix(b"+")).unwrap_or(value);
    let digits = unsigned.iter().take_while(|byte| byte.is_ascii_digit() || **byte == b'.').count();
    let has_digit = unsigned[..digits].iter().any(u8::is_ascii_digit);
    let rest = &unsigned[digits..];
    let exponent = match rest {
        [b'e' | b'E', b'+' | b'-', exponent @ ..] | [b'e' | b'E', exponent @ ..] => Some(exponent),
        _ => None,
    };
    let is_exponent = |exponent: &[u8]| !exponent.is_empty() && exponent.iter().all(u8::is_ascii_digit);
    has_digit && (rest.is_empty() || exponent.is_some_and(is_exponent))
}

/// As many digits. The first is not 0 if there are others, and 1 where another might be beyond the range of an integer
/// of that many digits (32767, 2147483647, 9223372036854775807).
fn hashed_number(value: &[u8], key: &Key) -> Vec<u8> {
    let end = value.iter().position(|byte| byte.eq_ignore_ascii_case(&b'e')).unwrap_or(value.len());
    let digits: Vec<u8> = value[..end].iter().copied().filter(u8::is_ascii_digit).collect();
    let has_point = value[..end].contains(&b'.');
    let mut stream = key.stream(NUMBER, &digits);
    let mut is_first = true;
    let digit = |byte: &u8| {
        if !byte.is_ascii_digit() {
            return *byte;
        }
        let drawn = match digits.len() {
            5 | 10 | 19 if is_first && !has_point => 1,
            2.. if is_first && *byte != b'0' => 1 + stream.below(9) as u8,
            _ if is_first && digits.len() > 1 => 0,
            _ => stream.below(10) as u8,
        };
        is_first = false;
        b'0' + drawn
    };
    let hashed: Vec<u8> = value[..end].iter().map(digit).collect();
    [&hashed[..], &value[end..]].concat()
}

fn is_uuid(value: &[u8]) -> bool {
    value.len() == 36
        && value.iter().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

fn hashed_uuid(value: &[u8], key: &Key) -> Vec<u8> {
    let digits: Vec<u8> = value.iter().filter(|byte| **byte != b'-').map(u8::to_ascii_lowercase).collect();
    let mut hashed = hashed_hex(&digits, UUID, key).into_iter();
    value.iter().map(|byte| if *byte == b'-' { b'-' } else { hashed.next().expect("as many digits") }).collect()
}

/// The hash of 16 bytes of a UUID, equal to that of its text.
pub(super) fn hashed_uuid_bytes(value: &[u8], key: &Key) -> Vec<u8> {
    let digits: Vec<u8> = value.iter().flat_map(|byte| format!("{byte:02x}").into_bytes()).collect();
    let hashed = hashed_hex(&digits, UUID, key);
    let nibble = |byte: u8| char::from(byte).to_digit(16).expect("a digit") as u8;
    hashed.chunks(2).map(|pair| nibble(pair[0]) << 4 | nibble(pair[1])).collect()
}

/// Hexadecimal digits for hexadecimal digits.
fn hashed_hex(digits: &[u8], kind: u8, key: &Key) -> Vec<u8> {
    let mut stream = key.stream(kind, digits);
    let digit = |byte: &u8| match byte.is_ascii_hexdigit() {
        true => b"0123456789abcdef"[stream.below(16) as usize],
        false => *byte,
    };
    digits.iter().map(digit).collect()
}

/// A date, a time, or both, of the form that PostgreSQL writes: the digits of each field are replaced so that it exists.
fn hashed_moment(value: &[u8], key: &Key) -> Option<Vec<u8>> {
    let is_like = |pattern: &[u8]| {
        value.len() >= pattern.len()
            && pattern.iter().zip(value).all(|(pattern, byte)| match pattern {
                b'0' => byte.is_ascii_digit(),
                b' ' => matches!(byte, b' ' | b'T'),
                pattern => pattern == byte,
            })
    };
    let (is_day, is_time) = (is_like(b"0000-00-00"), is_like(b"00:00"));
    let has_time = is_like(b"0000-00-00 00:00");
    if !(is_day && (value.len() == 10 || has_time) || is_time) {
        return None;
    }
    let mut stream = key.stream(MOMENT, value);
    let mut hashed = value.to_vec();
    let mut field = |at: usize, first: u64, count: u64, width: usize| {
        let drawn = format!("{:0width$}", first + stream.below(count));
        if let Some(place) = hashed.get_mut(at..at + width).filter(|place| place.iter().all(u8::is_ascii_digit)) {
            place.copy_from_slice(drawn.as_bytes());
        }
    };
    let mut at = 0;
    if is_day {
        field(0, 1950, 100, 4);
        field(5, 1, 12, 2);
        field(8, 1, 28, 2);
        at = 11;
    }
    if has_time || is_time {
        field(at, 0, 24, 2);
        field(at + 3, 0, 60, 2);
        if value.get(at + 5) == Some(&b':') {
            field(at + 6, 0, 60, 2);
            let fraction =
                value.get(at + 9..).unwrap_or_default().iter().take_while(|byte| byte.is_ascii_digit()).count();
            if value.get(at + 8) == Some(&b'.') {
                (0..fraction).for_each(|digit| field(at + 9 + digit, 0, 10, 1));
            }
        }
    }
    Some(hashed)
}

/// The hash of an escaped text: the characters after backslashes stay.
fn hashed_escaped(value: &[u8], key: &Key) -> Vec<u8> {
    if !value.contains(&b'\\') {
        return hashed(value, key);
    }
    let mut hashed = hashed_text(value, key);
    let mut at = 0;
    while let Some(next) = memchr::memchr(b'\\', &value[at..]).map(|next| at + next) {
        let end = (next + 2).min(value.len());
        hashed[next..end].copy_from_slice(&value[next..end]);
        at = end;
    }
    hashed
}

/// The hash of a text, character by character.
pub(super) fn hashed_text(value: &[u8], key: &Key) -> Vec<u8> {
    let mut stream = key.stream(TEXT, value);
    let mut hashed = Vec::with_capacity(value.len());
    while let Some(first) = value.get(hashed.len()) {
        let rest = &value[hashed.len()..];
        let is_letter = |byte: &u8| byte.is_ascii_alphabetic() || *byte >= 0x80;
        if is_letter(first) {
            let word = &rest[..rest.iter().take_while(|byte| is_letter(byte)).count()];
            let is_kept = KEPT_WORDS.iter().any(|kept| word.eq_ignore_ascii_case(kept.as_bytes()));
            hashed.extend(word.iter().map(|byte| match byte {
                _ if is_kept => *byte,
                b'A'..=b'Z' => b'A' + stream.below(26) as u8,
                _ => b'a' + stream.below(26) as u8,
            }));
        } else if first.is_ascii_digit() {
            hashed.push(b'0' + stream.below(10) as u8);
        } else {
            hashed.push(*first);
        }
    }
    hashed
}
