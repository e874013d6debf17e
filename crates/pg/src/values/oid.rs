//! The numbers of the types that are handled specially (pg_type.dat; they never change).

use postgres_protocol::Oid;

/// `boolean`.
pub const BOOL: Oid = 16;
/// `bigint`.
pub const INT8: Oid = 20;
/// `smallint`.
pub const INT2: Oid = 21;
/// `integer`.
pub const INT4: Oid = 23;
/// `text`.
pub const TEXT: Oid = 25;
/// `real`.
pub const FLOAT4: Oid = 700;
/// `double precision`.
pub const FLOAT8: Oid = 701;
/// `date`.
pub const DATE: Oid = 1082;
/// `timestamp`.
pub const TIMESTAMP: Oid = 1114;
/// `timestamp with time zone`.
pub const TIMESTAMPTZ: Oid = 1184;
/// `numeric`.
pub const NUMERIC: Oid = 1700;

/// The name of a type that is handled specially.
pub(crate) fn known(oid: Oid) -> Option<&'static str> {
    Some(match oid {
        BOOL => "boolean",
        INT8 => "bigint",
        INT2 => "smallint",
        INT4 => "integer",
        TEXT => "text",
        FLOAT4 => "real",
        FLOAT8 => "double precision",
        DATE => "date",
        TIMESTAMP => "timestamp",
        TIMESTAMPTZ => "timestamp with time zone",
        NUMERIC => "numeric",
        _ => return None,
    })
}

pub(crate) fn name(oid: Oid) -> String {
    known(oid).map_or_else(|| format!("type {oid}"), str::to_owned)
}
