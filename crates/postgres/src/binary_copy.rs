//! Arrow batches as rows of COPY's binary format.

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{DataType, TimeUnit};
use arrow::datatypes::{Date32Type, Decimal128Type, Int32Type, Int64Type, TimestampMicrosecondType};
use bytes::{BufMut, BytesMut};
use plimsoll_pg::values::{DAYS_TO_2000, MICROSECONDS_TO_2000, numeric};

type WriteCell<'a> = Box<dyn Fn(usize, &mut BytesMut) -> Result<(), String> + 'a>;

pub(crate) struct Encoder<'a> {
    columns: Vec<(&'a dyn Array, WriteCell<'a>)>,
}

impl<'a> Encoder<'a> {
    pub(crate) fn new(batch: &'a RecordBatch) -> Result<Self, String> {
        let columns = batch.columns().iter();
        let columns = columns.map(|column| Ok((column.as_ref(), writer(column.as_ref())?)));
        Ok(Encoder { columns: columns.collect::<Result<_, String>>()? })
    }

    pub(crate) fn write(&self, row: usize, out: &mut BytesMut) -> Result<(), String> {
        out.put_u16(u16::try_from(self.columns.len()).map_err(|_| "too many columns".to_owned())?);
        for (column, write) in &self.columns {
            if column.is_null(row) {
                out.put_i32(-1);
                continue;
            }
            let start = out.len();
            out.put_i32(0);
            write(row, out)?;
            let length = (out.len() - start - 4) as u32;
            out[start..start + 4].copy_from_slice(&length.to_be_bytes());
        }
        Ok(())
    }
}

fn writer(column: &dyn Array) -> Result<WriteCell<'_>, String> {
    Ok(match column.data_type() {
        DataType::Int32 => {
            let values = column.as_primitive::<Int32Type>();
            Box::new(|row, out| {
                out.put_i32(values.value(row));
                Ok(())
            })
        }
        DataType::Int64 => {
            let values = column.as_primitive::<Int64Type>();
            Box::new(|row, out| {
                out.put_i64(values.value(row));
                Ok(())
            })
        }
        DataType::Decimal128(_, scale) => {
            let (values, scale) = (column.as_primitive::<Decimal128Type>(), *scale);
            Box::new(move |row, out| numeric::write_decimal(values.value(row), scale, out))
        }
        DataType::Utf8View => {
            let values = column.as_string_view();
            Box::new(|row, out| {
                out.put_slice(values.value(row).as_bytes());
                Ok(())
            })
        }
        DataType::Date32 => {
            let values = column.as_primitive::<Date32Type>();
            Box::new(|row, out| {
                let days = i64::from(values.value(row)) - DAYS_TO_2000;
                let days = i32::try_from(days).map_err(|_| format!("{days} days before 2000 are no date"))?;
                out.put_i32(days);
                Ok(())
            })
        }
        DataType::Timestamp(TimeUnit::Microsecond, None) => {
            let values = column.as_primitive::<TimestampMicrosecondType>();
            Box::new(|row, out| {
                let time = values.value(row).checked_sub(MICROSECONDS_TO_2000);
                out.put_i64(time.ok_or_else(|| format!("{} is no timestamp", values.value(row)))?);
                Ok(())
            })
        }
        other => return Err(format!("columns of type {other} cannot be loaded")),
    })
}
