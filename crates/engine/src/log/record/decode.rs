//! The records of a unit, from its bytes.

use super::{
    COMMIT, CREATE_TABLE, DELETE, DROP_TABLE, INSERT, INT_32, INT_64, KEEP_SET, LoggedValue, NULL, Record, RowName,
    TEXT, UPDATE,
};
use crate::table::layout::TableSpec;
use crate::value::{ColumnSpec, ColumnType};

/// The records of a unit; `None` if it is not one.
pub(crate) fn decode(unit: &[u8]) -> Option<Vec<Record>> {
    let mut input = Input(unit);
    let mut records = Vec::new();
    loop {
        match input.u8()? {
            INSERT => {
                let (table, row) = (input.u32()?, input.u64()?);
                let values = input.list(Input::value)?;
                records.push(Record::Insert { table, row, values });
            }
            UPDATE => {
                let (table, row) = (input.u32()?, input.name()?);
                let columns = input.list(|input| Some((u16::from(input.u8()?), input.value()?)))?;
                records.push(Record::Update { table, row, columns });
            }
            CREATE_TABLE => records.push(Record::CreateTable { table: input.u32()?, spec: input.spec()? }),
            DROP_TABLE => records.push(Record::DropTable { table: input.u32()? }),
            KEEP_SET => records.push(Record::KeepSet { name: input.text()?, tables: input.list(Input::u32)? }),
            DELETE => records.push(Record::Delete { table: input.u32()?, row: input.name()? }),
            COMMIT => return (input.u32()? as usize == records.len() && input.0.is_empty()).then_some(records),
            _ => return None,
        }
    }
}

/// Bytes still to be read.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(bytes)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N)?.try_into().ok()
    }

    fn u8(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn list<T>(&mut self, read: impl Fn(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count = self.u8()?;
        (0..count).map(|_| read(self)).collect()
    }

    fn name(&mut self) -> Option<RowName> {
        let key = self.list(Input::value)?;
        if key.is_empty() { self.u64().map(RowName::Number) } else { Some(RowName::Key(key)) }
    }

    fn value(&mut self) -> Option<LoggedValue> {
        Some(match self.u8()? {
            NULL => LoggedValue::Null,
            INT_32 => LoggedValue::Int(i64::from(i32::from_le_bytes(self.array()?))),
            INT_64 => LoggedValue::Int(i64::from_le_bytes(self.array()?)),
            TEXT => LoggedValue::Text(self.text()?),
            _ => return None,
        })
    }

    fn text(&mut self) -> Option<String> {
        let length = u16::from_le_bytes(self.array()?);
        Some(std::str::from_utf8(self.bytes(usize::from(length))?).ok()?.to_owned())
    }

    fn positions(&mut self) -> Option<Vec<usize>> {
        self.list(|input| input.u8().map(usize::from))
    }

    fn spec(&mut self) -> Option<TableSpec> {
        let name = self.text()?;
        let columns = self.list(|input| {
            let name = input.text()?;
            let (kind, width) = (input.u8()?, u16::from_le_bytes(input.array()?));
            let kind = match kind {
                INT_32 => ColumnType::Int32,
                INT_64 => ColumnType::Int64,
                TEXT => ColumnType::Text(width),
                _ => return None,
            };
            Some(ColumnSpec { name, kind, nullable: input.u8()? == 1 })
        })?;
        let (primary_key, secondary) = (self.positions()?, self.list(Input::positions)?);
        let is_there = |column: &usize| *column < columns.len();
        let fits = primary_key.iter().chain(secondary.iter().flatten()).all(is_there);
        fits.then_some(TableSpec { name, columns, primary_key, secondary })
    }
}
