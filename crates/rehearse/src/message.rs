//! The messages of a recorded request, and those of the answer that were kept, with the places of their values.

use std::ops::Range;

pub(crate) use plimsoll_postgres::message::{field, message, query};

/// The bytes of tag and length before each message's body.
const HEAD_BYTES: usize = 5;

/// A message within a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Message<'a> {
    /// Where it begins.
    pub at: usize,
    pub tag: u8,
    pub body: &'a [u8],
}

/// Cuts bytes into whole messages. Ends at the first that is not whole.
pub(crate) fn messages(bytes: &[u8]) -> impl Iterator<Item = Message<'_>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let head = bytes.get(at..at + HEAD_BYTES)?;
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        let body = bytes.get(at + HEAD_BYTES..at.checked_add(length)?.checked_add(1)?)?;
        let message = Message { at, tag: head[0], body };
        at += length + 1;
        Some(message)
    })
}

/// Whether bytes are whole messages and nothing else.
pub(crate) fn are_whole(bytes: &[u8]) -> bool {
    messages(bytes).map(|message| HEAD_BYTES + message.body.len()).sum::<usize>() == bytes.len()
}

/// What a client's message asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ask<'a> {
    Query { text: &'a [u8], text_at: usize },
    Parse { name: &'a [u8], text: &'a [u8], text_at: usize, types: Vec<u32> },
    Bind(Bind<'a>),
    Describe { is_portal: bool, name: &'a [u8] },
    Execute { portal: &'a [u8] },
    Close { is_portal: bool, name: &'a [u8] },
    CopyEnd,
    FunctionCall,
    Other,
}

/// Parameters for a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bind<'a> {
    pub portal: &'a [u8],
    pub statement: &'a [u8],
    /// The formats of parameters: none for all text, one for all, or one each.
    formats: Vec<u16>,
    /// Where each value is in the request; `None` for null.
    pub values: Vec<Option<Range<usize>>>,
    result_formats: Vec<u16>,
}

impl Bind<'_> {
    /// The format of a parameter: 0 text, 1 binary.
    pub fn format(&self, parameter: usize) -> u16 {
        format_of(&self.formats, parameter)
    }

    /// The formats of the result's columns, in the same form.
    pub fn result_formats(&self) -> &[u16] {
        &self.result_formats
    }
}

/// The format of the value at a place, by the rule of the protocol: none given is text, one is for all.
pub(crate) fn format_of(formats: &[u16], place: usize) -> u16 {
    match formats {
        [] => 0,
        [all] => *all,
        each => each.get(place).copied().unwrap_or(0),
    }
}

/// Reads a client's message; `None` if it is malformed.
pub(crate) fn ask<'a>(message: &Message<'a>) -> Option<Ask<'a>> {
    let mut rest = Reader { bytes: message.body, at: 0, offset: message.at + HEAD_BYTES };
    Some(match message.tag {
        b'Q' => Ask::Query { text_at: rest.place(), text: rest.text()? },
        b'P' => {
            let name = rest.text()?;
            let text_at = rest.place();
            let text = rest.text()?;
            let count = rest.u16()?;
            let types = (0..count).map(|_| rest.u32()).collect::<Option<_>>()?;
            Ask::Parse { name, text, text_at, types }
        }
        b'B' => Ask::Bind(bind(&mut rest)?),
        b'D' => Ask::Describe { is_portal: rest.u8()? == b'P', name: rest.text()? },
        b'E' => Ask::Execute { portal: rest.text()? },
        b'C' => Ask::Close { is_portal: rest.u8()? == b'P', name: rest.text()? },
        b'c' | b'f' => Ask::CopyEnd,
        b'F' => Ask::FunctionCall,
        _ => Ask::Other,
    })
}

fn bind<'a>(rest: &mut Reader<'a>) -> Option<Bind<'a>> {
    let (portal, statement) = (rest.text()?, rest.text()?);
    let formats = rest.u16s()?;
    let count = rest.u16()?;
    let values = (0..count).map(|_| rest.value()).collect::<Option<_>>()?;
    Some(Bind { portal, statement, formats, values, result_formats: rest.u16s()? })
}

/// A column of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Column {
    pub name: String,
    /// The table that it comes from; 0 for none.
    pub table: u32,
    pub type_oid: u32,
    /// Text or binary, as the description says: that of a statement says text, whatever its portals will have.
    pub format: u16,
}

/// Reads a `RowDescription`.
pub(crate) fn columns(body: &[u8]) -> Option<Vec<Column>> {
    let mut rest = Reader { bytes: body, at: 0, offset: 0 };
    let count = rest.u16()?;
    let column = |rest: &mut Reader<'_>| {
        let name = String::from_utf8_lossy(rest.text()?).into_owned();
        let (table, _attribute, type_oid) = (rest.u32()?, rest.u16()?, rest.u32()?);
        let (_size, _modifier) = (rest.u16()?, rest.u32()?);
        Some(Column { name, table, type_oid, format: rest.u16()? })
    };
    (0..count).map(|_| column(&mut rest)).collect()
}

/// Reads a `ParameterDescription`.
pub(crate) fn parameter_types(body: &[u8]) -> Option<Vec<u32>> {
    let mut rest = Reader { bytes: body, at: 0, offset: 0 };
    let count = rest.u16()?;
    (0..count).map(|_| rest.u32()).collect()
}

/// Reads the values of a `DataRow`; `None` within is null.
pub(crate) fn row(body: &[u8]) -> Option<Vec<Option<&[u8]>>> {
    let mut rest = Reader { bytes: body, at: 0, offset: 0 };
    let count = rest.u16()?;
    (0..count).map(|_| rest.value().map(|range| range.map(|range| &body[range]))).collect()
}

/// The SQLSTATE of an `ErrorResponse`.
pub(crate) fn sqlstate(body: &[u8]) -> Option<String> {
    field(body, b'C')
}

/// Reads the parts of a message.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Where the bytes begin in the request.
    offset: usize,
}

impl<'a> Reader<'a> {
    fn place(&self) -> usize {
        self.offset + self.at
    }

    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let taken = self.bytes.get(self.at..self.at.checked_add(count)?)?;
        self.at += count;
        Some(taken)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    fn u16(&mut self) -> Option<u16> {
        self.take(2).map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    fn u32(&mut self) -> Option<u32> {
        self.take(4).map(|bytes| u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    fn u16s(&mut self) -> Option<Vec<u16>> {
        let count = self.u16()?;
        (0..count).map(|_| self.u16()).collect()
    }

    /// A text up to its closing zero.
    fn text(&mut self) -> Option<&'a [u8]> {
        let length = self.bytes.get(self.at..)?.iter().position(|byte| *byte == 0)?;
        let text = self.take(length);
        self.at += 1;
        text
    }

    /// The place of a value after its length; null has the length -1.
    fn value(&mut self) -> Option<Option<Range<usize>>> {
        let length = self.u32()?.cast_signed();
        let Ok(length) = usize::try_from(length) else { return Some(None) };
        let begin = self.place();
        self.take(length)?;
        Some(Some(begin..begin + length))
    }
}

/// A change of a request: the bytes of a value are replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Edit {
    pub range: Range<usize>,
    pub bytes: Vec<u8>,
    /// Whether the four bytes before the value are its length.
    pub has_length: bool,
}

/// The request with these changes, which are in order and do not overlap; lengths are adapted.
pub(crate) fn edited(request: &[u8], edits: &[Edit]) -> Vec<u8> {
    let mut done = Vec::with_capacity(request.len() + 8 * edits.len());
    let mut edits = edits.iter().peekable();
    for message in messages(request) {
        let begin = done.len();
        let end = message.at + HEAD_BYTES + message.body.len();
        let mut from = message.at;
        while let Some(edit) = edits.next_if(|edit| edit.range.end <= end) {
            done.extend_from_slice(&request[from..edit.range.start]);
            if edit.has_length {
                let length = i32::try_from(edit.bytes.len()).expect("a value is shorter than 2 GiB");
                let at = done.len() - 4;
                done[at..].copy_from_slice(&length.to_be_bytes());
            }
            done.extend_from_slice(&edit.bytes);
            from = edit.range.end;
        }
        done.extend_from_slice(&request[from..end]);
        let length = u32::try_from(done.len() - begin - 1).expect("a message is shorter than 4 GiB");
        done[begin + 1..begin + HEAD_BYTES].copy_from_slice(&length.to_be_bytes());
    }
    done
}

#[cfg(test)]
pub(crate) mod testing {
    //! Messages made by hand.

    use super::message;

    pub fn parse(name: &str, sql: &str, types: &[u32]) -> Vec<u8> {
        let mut body = [name.as_bytes(), b"\0", sql.as_bytes(), b"\0"].concat();
        body.extend_from_slice(&(types.len() as u16).to_be_bytes());
        types.iter().for_each(|oid| body.extend_from_slice(&oid.to_be_bytes()));
        message(b'P', &body)
    }

    /// Binds to the unnamed portal; the formats are for all parameters and all columns.
    pub fn bind(statement: &str, format: u16, values: &[&[u8]], result_format: u16) -> Vec<u8> {
        let mut body = [b"\0", statement.as_bytes(), b"\0"].concat();
        body.extend_from_slice(&[0, 1]);
        body.extend_from_slice(&format.to_be_bytes());
        body.extend_from_slice(&(values.len() as u16).to_be_bytes());
        for value in values {
            body.extend_from_slice(&(value.len() as u32).to_be_bytes());
            body.extend_from_slice(value);
        }
        body.extend_from_slice(&[0, 1]);
        body.extend_from_slice(&result_format.to_be_bytes());
        message(b'B', &body)
    }

    pub fn describe_portal() -> Vec<u8> {
        message(b'D', b"P\0")
    }

    pub fn execute() -> Vec<u8> {
        message(b'E', b"\0\0\0\0\0")
    }

    pub fn sync() -> Vec<u8> {
        message(b'S', b"")
    }

    /// Columns by name, table and type, in one format.
    pub fn row_description(columns: &[(&str, u32, u32)], format: u16) -> Vec<u8> {
        let mut body = (columns.len() as u16).to_be_bytes().to_vec();
        for (name, table, type_oid) in columns {
            body.extend_from_slice(&[name.as_bytes(), b"\0"].concat());
            body.extend_from_slice(&table.to_be_bytes());
            body.extend_from_slice(&[0, 1]);
            body.extend_from_slice(&type_oid.to_be_bytes());
            body.extend_from_slice(&[0, 8, 0xff, 0xff, 0xff, 0xff]);
            body.extend_from_slice(&format.to_be_bytes());
        }
        message(b'T', &body)
    }

    pub fn data_row(values: &[&[u8]]) -> Vec<u8> {
        let mut body = (values.len() as u16).to_be_bytes().to_vec();
        for value in values {
            body.extend_from_slice(&(value.len() as u32).to_be_bytes());
            body.extend_from_slice(value);
        }
        message(b'D', &body)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::testing::{bind, execute, parse, sync};
    use super::*;

    #[test]
    fn values_are_replaced_whatever_their_length() {
        let request = [bind("s1", 0, &[b"57", b"ann"], 1), execute(), sync()].concat();
        let all: Vec<Message<'_>> = messages(&request).collect();
        let Some(Ask::Bind(binding)) = ask(&all[0]) else { panic!("a Bind") };
        let place = binding.values[0].clone().expect("not null");
        assert_eq!((&request[place.clone()], binding.format(1), binding.result_formats()), (&b"57"[..], 0, &[1][..]));
        let edit = Edit { range: place, bytes: b"1234567".to_vec(), has_length: true };
        let expect = [bind("s1", 0, &[b"1234567", b"ann"], 1), execute(), sync()].concat();
        assert_eq!(edited(&request, &[edit]), expect);

        let request = query("select 57");
        let edit = Edit { range: 12..14, bytes: b"108".to_vec(), has_length: false };
        assert_eq!(edited(&request, &[edit]), query("select 108"));
    }

    #[test]
    fn a_message_that_is_cut_is_not_read() {
        let whole = parse("s", "select $1", &[23]);
        assert!(are_whole(&whole) && !are_whole(&whole[..whole.len() - 1]));
        let said = messages(&whole).next().and_then(|message| ask(&message));
        let expect = Ask::Parse { name: b"s", text: b"select $1", text_at: 7, types: vec![23] };
        assert_eq!(said, Some(expect));
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            for message in messages(&bytes) {
                let _ = (ask(&message), columns(message.body), row(message.body), parameter_types(message.body));
                let _ = sqlstate(message.body);
            }
        }
    }
}
