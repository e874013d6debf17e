//! The values of a row, cut out of its message.

/// The values of a row one after the other; `None` is null.
#[derive(Debug, Clone, Copy)]
pub struct Fields<'a> {
    rest: &'a [u8],
    left: u16,
}

impl<'a> Fields<'a> {
    pub(crate) fn of(body: &'a [u8]) -> Result<Self, String> {
        let (count, rest) = body.split_first_chunk().ok_or("a row without a count of values")?;
        Ok(Fields { rest, left: u16::from_be_bytes(*count) })
    }

    fn take(&mut self) -> Result<Option<&'a [u8]>, String> {
        let (length, rest) = self.rest.split_first_chunk().ok_or("a row that ends before its last value")?;
        let Ok(length) = usize::try_from(i32::from_be_bytes(*length)) else {
            self.rest = rest;
            return Ok(None);
        };
        let (value, rest) = rest.split_at_checked(length).ok_or("a value that is longer than its row")?;
        self.rest = rest;
        Ok(Some(value))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<Option<&'a [u8]>, String>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            let is_whole = self.rest.is_empty();
            self.rest = &[];
            return (!is_whole).then(|| Err("a row that is longer than its values".to_owned()));
        }
        self.left -= 1;
        Some(self.take())
    }
}
