//! Parameters: a value in the format of its type on the server.

use std::fmt::Write;

use bytes::{BufMut, BytesMut};
use postgres_protocol::{IsNull, Oid};

use super::{DAYS_TO_2000, MICROSECONDS_TO_2000, Value, numeric, oid};

/// The format in which a value is sent: 1 binary, 0 text.
pub(crate) fn format(value: Value<'_>, of: Oid) -> i16 {
    // For an unknown type the server reads the number's text.
    i16::from(matches!(value, Value::Int(_)) && of != oid::TEXT && oid::known(of).is_some())
}

/// Writes a value, or says why the type cannot hold it.
pub(crate) fn write(value: Value<'_>, of: Oid, out: &mut BytesMut) -> Result<IsNull, String> {
    match value {
        Value::Null => return Ok(IsNull::Yes),
        Value::Text(text) => out.put_slice(text.as_bytes()),
        Value::Int(number) => write_integer(number, of, out)?,
    }
    Ok(IsNull::No)
}

fn write_integer(number: i64, of: Oid, out: &mut BytesMut) -> Result<(), String> {
    let no_such = || format!("{number} is out of the range of {}", oid::name(of));
    match of {
        oid::INT4 => out.put_i32(i32::try_from(number).map_err(|_| no_such())?),
        oid::INT8 => out.put_i64(number),
        oid::INT2 => out.put_i16(i16::try_from(number).map_err(|_| no_such())?),
        oid::NUMERIC => numeric::write_whole(number, out),
        oid::FLOAT8 => out.put_f64(number as f64),
        oid::FLOAT4 => out.put_f32(number as f32),
        oid::BOOL => out.put_u8(u8::try_from(number).ok().filter(|bit| *bit <= 1).ok_or_else(no_such)?),
        oid::DATE => {
            let days = number.checked_sub(DAYS_TO_2000).and_then(|days| i32::try_from(days).ok());
            // The outermost two mean infinity.
            out.put_i32(days.filter(|days| *days != i32::MAX && *days != i32::MIN).ok_or_else(no_such)?);
        }
        oid::TIMESTAMP | oid::TIMESTAMPTZ => {
            let microseconds = number.checked_sub(MICROSECONDS_TO_2000);
            out.put_i64(microseconds.filter(|time| *time != i64::MIN).ok_or_else(no_such)?);
        }
        // The server parses the text as the type that it expects.
        _ => write!(out, "{number}").map_err(|error| error.to_string())?,
    }
    Ok(())
}
