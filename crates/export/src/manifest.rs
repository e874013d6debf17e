//! `manifest.json`: which state an export has, and its files.

use std::collections::BTreeMap;

use arrow::datatypes::{DataType, Schema, TimeUnit};
use serde::{Deserialize, Serialize};

use crate::source::SourceError;

/// The version of the format that this program writes and reads.
pub const FORMAT: u32 = 1;

/// The manifest's name.
pub const MANIFEST: &str = "manifest.json";

/// Why a manifest cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ManifestError {
    /// It is cut or is a different kind of file.
    #[error(
        "{place} is cut or is not the manifest of an export ({reason}); export to another folder, or remove this one"
    )]
    Damaged {
        /// Where it is.
        place: String,
        /// The parser's reason.
        reason: String,
    },
    /// Another version of the program wrote it.
    #[error(
        "{place} has format {found}, and this program knows format {FORMAT}; use the program that wrote it, \
         or export to another folder"
    )]
    Version {
        /// Where it is.
        place: String,
        /// Its format.
        found: u64,
    },
}

/// The state that an export has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AsOf {
    /// Of an engine in the process that exported: exactly the first so many commits since its tables were loaded.
    Commit(u64),
    /// Of a data folder: all commits in its log up to this place.
    LogPosition(u64),
    /// Of a PostgreSQL server.
    Server {
        /// The exported snapshot, as `txid_current_snapshot()` writes it.
        snapshot: String,
        /// The place in the write-ahead log at that time, for people: commits beside it may or may not be included.
        wal_lsn: String,
    },
}

impl AsOf {
    /// The number that `--as-of` can ask for; `None` if states have none.
    pub fn number(&self) -> Option<u64> {
        match self {
            AsOf::Commit(number) | AsOf::LogPosition(number) => Some(*number),
            AsOf::Server { .. } => None,
        }
    }
}

impl std::fmt::Display for AsOf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            AsOf::Commit(number) => write!(f, "commit {number}"),
            AsOf::LogPosition(number) => write!(f, "log position {number}"),
            AsOf::Server { snapshot, .. } => write!(f, "snapshot {snapshot}"),
        }
    }
}

/// The contents of an export.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// [`FORMAT`].
    pub format: u32,
    /// The program and its version.
    pub made_by: String,
    /// The database.
    pub origin: String,
    /// Its state.
    pub as_of: AsOf,
    /// Which workload's data a schema has, such as `tpch:0.1`, where that is known.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub data: BTreeMap<String, String>,
    /// Its tables.
    pub tables: Vec<ExportedTable>,
}

/// An exported table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExportedTable {
    /// The name of its schema or benchmark.
    pub schema: String,
    /// Its name.
    pub name: String,
    /// Its columns in order.
    pub columns: Vec<ExportedColumn>,
    /// The number of its rows.
    pub rows: u64,
    /// Its files, at least one: a table without rows has a file without rows.
    pub files: Vec<ExportedFile>,
}

/// A column of an exported table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExportedColumn {
    /// Its name.
    pub name: String,
    /// Its type in SQL's words: `bigint`, `decimal(12,2)`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Whether it may be null.
    pub nullable: bool,
}

/// A Parquet file of an export.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExportedFile {
    /// Its path below the manifest's folder.
    pub path: String,
    /// The number of its rows.
    pub rows: u64,
    /// Its length.
    pub bytes: u64,
    /// The SHA-256 of its bytes, in hexadecimal digits.
    pub sha256: String,
}

impl Manifest {
    /// That of an export which this program makes.
    pub fn new(origin: String, as_of: AsOf, data: BTreeMap<String, String>, tables: Vec<ExportedTable>) -> Manifest {
        // All crates have one version.
        let made_by = format!("plimsoll {}", env!("CARGO_PKG_VERSION"));
        Manifest { format: FORMAT, made_by, origin, as_of, data, tables }
    }

    /// Reads a manifest; `place` is its path, for messages.
    pub fn parse(bytes: &[u8], place: &str) -> Result<Manifest, ManifestError> {
        let damaged = |reason: String| ManifestError::Damaged { place: place.to_owned(), reason };
        let value: serde_json::Value = serde_json::from_slice(bytes).map_err(|error| damaged(error.to_string()))?;
        match value.get("format").and_then(serde_json::Value::as_u64) {
            Some(found) if found == u64::from(FORMAT) => {}
            Some(found) => return Err(ManifestError::Version { place: place.to_owned(), found }),
            None => return Err(damaged("it has no format number".to_owned())),
        }
        serde_json::from_value(value).map_err(|error| damaged(error.to_string()))
    }

    /// Its bytes in `manifest.json`.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec_pretty(self).expect("a manifest has only texts and numbers");
        bytes.push(b'\n');
        bytes
    }

    /// All of its files.
    pub fn files(&self) -> impl Iterator<Item = &ExportedFile> {
        self.tables.iter().flat_map(|table| &table.files)
    }

    /// The rows of all tables.
    pub fn rows(&self) -> u64 {
        self.tables.iter().map(|table| table.rows).sum()
    }
}

/// The columns of a table as a manifest describes them.
pub(crate) fn columns(schema: &Schema) -> Result<Vec<ExportedColumn>, SourceError> {
    let column = |field: &arrow::datatypes::FieldRef| {
        let kind = type_name(field.data_type())
            .ok_or_else(|| SourceError(format!("column {} has type {}", field.name(), field.data_type())))?;
        Ok(ExportedColumn { name: field.name().clone(), kind, nullable: field.is_nullable() })
    };
    schema.fields().iter().map(column).collect()
}

/// A type in SQL's words; `None` if it is not exported.
fn type_name(kind: &DataType) -> Option<String> {
    let name = match kind {
        DataType::Boolean => "boolean",
        DataType::Int32 => "integer",
        DataType::Int64 => "bigint",
        DataType::Float32 => "real",
        DataType::Float64 => "double precision",
        DataType::Decimal128(precision, scale) => return Some(format!("decimal({precision},{scale})")),
        DataType::Utf8 | DataType::Utf8View => "text",
        DataType::Binary => "bytea",
        DataType::Date32 => "date",
        DataType::Timestamp(TimeUnit::Microsecond, None) => "timestamp",
        DataType::Timestamp(TimeUnit::Microsecond, Some(_)) => "timestamp with time zone",
        _ => return None,
    };
    Some(name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manifests_that_are_cut_foreign_or_of_another_version_are_refused_with_the_remedy() {
        let manifest = Manifest {
            format: FORMAT,
            made_by: "plimsoll".to_owned(),
            origin: "a test".to_owned(),
            as_of: AsOf::Commit(7),
            data: BTreeMap::from([("shop".to_owned(), "shop:1".to_owned())]),
            tables: Vec::new(),
        };
        let bytes = manifest.to_bytes();
        assert_eq!(Manifest::parse(&bytes, "here"), Ok(manifest));
        for end in 0..bytes.len() - 2 {
            let error = Manifest::parse(&bytes[..end], "out/manifest.json").unwrap_err().to_string();
            assert!(error.starts_with("out/manifest.json is cut or is not the manifest"), "{error}");
        }
        let error = Manifest::parse(br#"{"format": 2, "tables": 3}"#, "here").unwrap_err().to_string();
        assert!(error.starts_with("here has format 2, and this program knows format 1; use the program"), "{error}");
        let error = Manifest::parse(br#"{"name": "web-app"}"#, "here").unwrap_err().to_string();
        assert!(error.contains("it has no format number") && error.contains("another folder"), "{error}");
    }
}
