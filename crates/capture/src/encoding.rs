//! Events as bytes, within a block. `docs/capture.md` has the layout for readers of other programs.
//!
//! Numbers are unsigned LEB128. A text or a sequence of bytes is its length and its bytes.

use crate::event::{Answer, Closed, Event, Lost, Opened, Unit, WhyLost};

const OPENED: u8 = 1;
const UNIT: u8 = 2;
const CLOSED: u8 = 3;
const LOST: u8 = 4;

/// Why the bytes of a block are no events.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The bytes end within an event.
    #[error("an event ends too early")]
    Short,
    /// A number has more than 64 bits.
    #[error("a number is too long")]
    Number,
    /// A text is not UTF-8.
    #[error("a text is not UTF-8")]
    Text,
    /// There is no such kind of event, or no such reason for a loss.
    #[error("there is no {0} with the code {1}")]
    Code(&'static str, u8),
}

/// Appends an event.
pub fn encode(event: &Event, to: &mut Vec<u8>) {
    match event {
        Event::Opened(opened) => encode_opened(opened, to),
        Event::Unit(unit) => encode_unit(unit, to),
        Event::Closed(closed) => {
            to.push(CLOSED);
            numbers(&[closed.session, closed.at_us], to);
        }
        Event::Lost(lost) => {
            to.push(LOST);
            numbers(&[lost.at_us, lost.units], to);
            let code = WhyLost::ALL.iter().position(|why| *why == lost.why).expect("all are listed");
            to.push(code as u8 + 1);
        }
    }
}

fn encode_opened(opened: &Opened, to: &mut Vec<u8>) {
    to.push(OPENED);
    numbers(&[opened.session, opened.at_us], to);
    bytes(opened.user.as_bytes(), to);
    bytes(opened.database.as_bytes(), to);
    number(opened.parameters.len() as u64, to);
    for (name, value) in &opened.parameters {
        bytes(name.as_bytes(), to);
        bytes(value.as_bytes(), to);
    }
}

fn encode_unit(unit: &Unit, to: &mut Vec<u8>) {
    let answer = &unit.answer;
    to.push(UNIT);
    numbers(&[unit.session, unit.at_us, unit.took_us], to);
    bytes(&unit.request, to);
    to.push(answer.state);
    number(answer.tags.len() as u64, to);
    answer.tags.iter().for_each(|tag| bytes(tag.as_bytes(), to));
    bytes(answer.error.as_deref().unwrap_or_default().as_bytes(), to);
    numbers(&[answer.rows, answer.bytes], to);
    to.extend_from_slice(&answer.checksum.to_le_bytes());
    bytes(&answer.begin, to);
}

fn numbers(numbers: &[u64], to: &mut Vec<u8>) {
    numbers.iter().for_each(|one| number(*one, to));
}

fn number(mut number: u64, to: &mut Vec<u8>) {
    while number >= 0x80 {
        to.push(number as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

fn bytes(bytes: &[u8], to: &mut Vec<u8>) {
    number(bytes.len() as u64, to);
    to.extend_from_slice(bytes);
}

/// Reads the event at the start of `from`, and leaves the rest there.
pub fn decode(from: &mut &[u8]) -> Result<Event, DecodeError> {
    let mut read = Fields(from);
    let event = match read.byte()? {
        OPENED => Event::Opened(read.opened()?),
        UNIT => Event::Unit(read.unit()?),
        CLOSED => Event::Closed(Closed { session: read.number()?, at_us: read.number()? }),
        LOST => Event::Lost(Lost { at_us: read.number()?, units: read.number()?, why: read.why()? }),
        code => return Err(DecodeError::Code("event", code)),
    };
    *from = read.0;
    Ok(event)
}

/// The bytes that have not been read.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn byte(&mut self) -> Result<u8, DecodeError> {
        Ok(self.take(1)?[0])
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], DecodeError> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(DecodeError::Short)?;
        self.0 = rest;
        Ok(taken)
    }

    fn number(&mut self) -> Result<u64, DecodeError> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let part = u64::from(byte & 0x7f);
            if part << shift >> shift != part {
                return Err(DecodeError::Number);
            }
            number |= part << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(DecodeError::Number)
    }

    fn bytes(&mut self) -> Result<&'a [u8], DecodeError> {
        let length = usize::try_from(self.number()?).map_err(|_| DecodeError::Short)?;
        self.take(length)
    }

    fn text(&mut self) -> Result<String, DecodeError> {
        String::from_utf8(self.bytes()?.to_vec()).map_err(|_| DecodeError::Text)
    }

    /// A list, each of whose items has at least one byte.
    fn list<T>(&mut self, item: fn(&mut Self) -> Result<T, DecodeError>) -> Result<Vec<T>, DecodeError> {
        let count = self.number()?;
        if count > self.0.len() as u64 {
            return Err(DecodeError::Short);
        }
        (0..count).map(|_| item(self)).collect()
    }

    fn opened(&mut self) -> Result<Opened, DecodeError> {
        Ok(Opened {
            session: self.number()?,
            at_us: self.number()?,
            user: self.text()?,
            database: self.text()?,
            parameters: self.list(|read| Ok((read.text()?, read.text()?)))?,
        })
    }

    fn unit(&mut self) -> Result<Unit, DecodeError> {
        let (session, at_us, took_us) = (self.number()?, self.number()?, self.number()?);
        let request = self.bytes()?.to_vec();
        let answer = Answer {
            state: self.byte()?,
            tags: self.list(Fields::text)?,
            error: Some(self.text()?).filter(|error| !error.is_empty()),
            rows: self.number()?,
            bytes: self.number()?,
            checksum: u64::from_le_bytes(self.take(8)?.try_into().expect("eight bytes")),
            begin: self.bytes()?.to_vec(),
        };
        Ok(Unit { session, at_us, took_us, request, answer })
    }

    fn why(&mut self) -> Result<WhyLost, DecodeError> {
        let code = self.byte()?;
        let place = usize::from(code).wrapping_sub(1);
        WhyLost::ALL.get(place).copied().ok_or(DecodeError::Code("reason for a loss", code))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::any_event;

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(events in proptest::collection::vec(any_event(), 0..20)) {
            let mut bytes = Vec::new();
            events.iter().for_each(|event| encode(event, &mut bytes));
            let mut rest = &bytes[..];
            for event in &events {
                prop_assert_eq!(&decode(&mut rest).expect("an event"), event);
            }
            prop_assert!(rest.is_empty());
        }

        #[test]
        fn a_shortened_event_is_no_event(event in any_event(), cut in any::<prop::sample::Index>()) {
            let mut bytes = Vec::new();
            encode(&event, &mut bytes);
            let cut = cut.index(bytes.len());
            prop_assert_eq!(decode(&mut &bytes[..cut]), Err(DecodeError::Short));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(&mut &bytes[..]);
        }
    }

    #[test]
    fn the_layout_is_the_documented_one() {
        let mut bytes = Vec::new();
        encode(&Event::Lost(Lost { at_us: 300, units: 2, why: WhyLost::Size }), &mut bytes);
        assert_eq!(bytes, [4, 0xac, 0x02, 2, 3]);
        let mut bytes = Vec::new();
        encode(&Event::Closed(Closed { session: 7, at_us: 1 }), &mut bytes);
        assert_eq!(bytes, [3, 7, 1]);
        let endless = [3, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f];
        assert_eq!(decode(&mut &endless[..]), Err(DecodeError::Number));
        assert_eq!(decode(&mut &[9, 0][..]), Err(DecodeError::Code("event", 9)));
    }
}
