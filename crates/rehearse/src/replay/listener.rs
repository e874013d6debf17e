//! An answer as it arrives: what is compared, and the values that are used later.

use plimsoll_capture::RowChecksum;

use crate::message::{row, sqlstate};
use crate::plan::{Answered, Made, counted};
use crate::value::Value;

#[derive(Debug)]
pub(crate) struct Listener<'a> {
    makes: &'a [Made],
    /// The command whose rows arrive.
    command: usize,
    row: usize,
    pub answered: Answered,
    pub made: Vec<(usize, Value)>,
}

impl<'a> Listener<'a> {
    pub fn new(makes: &'a [Made]) -> Self {
        Listener { makes, command: 0, row: 0, answered: Answered::default(), made: Vec::new() }
    }

    pub fn hear(&mut self, tag: u8, body: &[u8]) {
        match tag {
            b'D' => {
                self.answered.rows += 1;
                self.answered.checksum = self.answered.checksum.wrapping_add(RowChecksum::of(body));
                self.take_values(body);
                self.row += 1;
            }
            b'C' => {
                let tag = String::from_utf8_lossy(body.strip_suffix(b"\0").unwrap_or(body));
                self.answered.counted += counted(&tag);
                self.next_command();
            }
            // A portal that has more rows.
            b's' => self.next_command(),
            b'E' if self.answered.error.is_none() => {
                let code = sqlstate(body).and_then(|code| code.as_bytes().try_into().ok());
                self.answered.error = code.or(Some(*b"XX000"));
            }
            _ => {}
        }
    }

    fn next_command(&mut self) {
        self.command += 1;
        self.row = 0;
    }

    fn take_values(&mut self, body: &[u8]) {
        let here = (self.command, self.row);
        let mut wanted = self.makes.iter().filter(|made| (made.command, made.row) == here).peekable();
        if wanted.peek().is_none() {
            return;
        }
        let values = row(body).unwrap_or_default();
        for made in wanted {
            let bytes = values.get(made.column).copied().flatten();
            let value = bytes.and_then(|bytes| Value::read(made.kind, made.format, bytes));
            self.made.extend(value.map(|value| (made.slot, value)));
        }
    }
}
