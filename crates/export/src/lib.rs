//! Exports: one state of a database as Parquet files, with a manifest that names them.
//!
//! A [`Source`] has the tables of one snapshot in chunks, which several threads read. Each chunk becomes a Parquet file
//! whose name has a part of its SHA-256, so a chunk that has not changed since the last export has the same name and is
//! not written again. A process that exports again and again can avoid reading it, too ([`KnownChunks`]). `manifest.json` gets
//! its name last, in one step: an export that is interrupted at any moment leaves the one before complete. This crate
//! knows no database; sources are in the crates of databases.
//!
//! In reading order: [`source`] is what is exported, [`manifest`] describes the result, [`storage`] is where it lies,
//! `parquet_file` makes files of chunks, [`run`] and [`mod@verify`] are the two acts, and [`writer`]
//! makes an export without a source.

pub mod manifest;
mod parquet_file;
pub mod run;
pub mod source;
pub mod storage;
pub mod verify;
pub mod writer;

pub use manifest::{AsOf, Manifest, ManifestError};
pub use run::{ExportError, ExportOptions, ExportReport, KnownChunks, check, export};
pub use source::{ChunkIdentity, ChunkReader, Source, SourceError, TableShape};
pub use storage::{FolderStorage, Storage, StorageError};
pub use verify::verify;
pub use writer::Writer;
