//! A server as a source of exports: all tables of a database as of one snapshot.
//!
//! One connection begins a transaction and exports its snapshot; each reader begins one with the same snapshot. A table
//! is read in chunks of neighbouring pages, by COPY in its binary format. Writers are not blocked. The tables are locked
//! against changes of their columns, as `pg_dump` does.

mod values;

use std::fmt;

use arrow::datatypes::{Field, Schema};
use arrow::record_batch::RecordBatch;
use parking_lot::Mutex;
use plimsoll_export::{AsOf, ChunkReader, Source, SourceError, TableShape};
use plimsoll_pg::connection::{Connection, WireError};
use plimsoll_pg::url::ServerUrl;
use postgres_protocol::escape::{escape_identifier, escape_literal};

use crate::message::{field, query};
use values::{ColumnKind, rows};

/// Pages of a chunk: 8 MiB of the usual pages.
const CHUNK_PAGES: u64 = 1024;

/// How a transaction begins that reads everything as of one moment. Without row security, which would leave rows out in
/// silence; a role that it concerns gets an error.
const BEGIN: &str = "SET row_security = off; SET lock_timeout = '30s'; SET datestyle = 'ISO'; \
                     BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

/// The tables of other schemas than the server's own.
const TABLES: &str = "SELECT n.nspname, c.relname, c.oid FROM pg_catalog.pg_class c \
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
    WHERE c.relkind = 'r' AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema' ORDER BY 1, 2";

/// A database of a server, as of one snapshot. The snapshot is held until this value is dropped.
pub struct ServerSource {
    url: ServerUrl,
    as_of: AsOf,
    /// The name by which other transactions take the snapshot.
    exported: String,
    shapes: Vec<TableShape>,
    tables: Vec<ServerTable>,
    /// Holds the snapshot and the locks.
    keeper: Mutex<Connection>,
}

/// How a table is read.
#[derive(Debug)]
struct ServerTable {
    /// `SELECT … FROM …`.
    select: String,
    kinds: Vec<ColumnKind>,
}

impl ServerSource {
    /// Takes a snapshot.
    pub fn open(url: &ServerUrl) -> Result<Self, WireError> {
        let mut keeper = Connection::open(url)?;
        keeper.run(BEGIN)?;
        let mut one = |sql: &str| Ok::<_, WireError>(keeper.text(sql)?.unwrap_or_default());
        let exported = one("SELECT pg_catalog.pg_export_snapshot()")?;
        let snapshot = one("SELECT pg_catalog.txid_current_snapshot()::text")?;
        let wal_lsn = one("SELECT CASE WHEN pg_catalog.pg_is_in_recovery() THEN pg_catalog.pg_last_wal_replay_lsn() \
                           ELSE pg_catalog.pg_current_wal_lsn() END::text")?;
        let mut names = Vec::new();
        keeper.text_rows(TABLES, &mut |row| names.push([0, 1, 2].map(|at| row[at].unwrap_or_default().to_owned())))?;
        let mut source = ServerSource {
            url: url.clone(),
            as_of: AsOf::Server { snapshot, wal_lsn },
            exported,
            shapes: Vec::new(),
            tables: Vec::new(),
            keeper: Mutex::new(keeper),
        };
        for [schema, name, oid] in names {
            source.add(schema, name, &oid)?;
        }
        Ok(source)
    }

    /// Locks a table and looks at its columns and its size. A table without columns is left out.
    fn add(&mut self, schema: String, name: String, oid: &str) -> Result<(), WireError> {
        let keeper = self.keeper.get_mut();
        let full = format!("{}.{}", escape_identifier(&schema), escape_identifier(&name));
        keeper.run(&format!("LOCK TABLE ONLY {full} IN ACCESS SHARE MODE"))?;
        let columns = format!(
            "SELECT attname, atttypid, atttypmod, attnotnull::int FROM pg_catalog.pg_attribute \
             WHERE attrelid = {oid} AND attnum > 0 AND NOT attisdropped ORDER BY attnum"
        );
        let (mut fields, mut kinds, mut texts) = (Vec::new(), Vec::new(), Vec::new());
        keeper.text_rows(&columns, &mut |row| {
            let number = |at: usize| row[at].and_then(|text| text.parse::<i64>().ok()).unwrap_or_default();
            let (column, kind) = (row[0].unwrap_or_default(), ColumnKind::of(number(1) as u32, number(2) as i32));
            fields.push(Field::new(column, kind.arrow(), number(3) == 0));
            texts.push(kind.select(&escape_identifier(column)));
            kinds.push(kind);
        })?;
        if fields.is_empty() {
            return Ok(());
        }
        let size = format!("SELECT pg_catalog.pg_relation_size({oid}) / current_setting('block_size')::bigint");
        let pages: u64 = keeper.text(&size)?.and_then(|text| text.parse().ok()).unwrap_or_default();
        let chunks = pages.div_ceil(CHUNK_PAGES).max(1) as usize;
        let columns = Schema::new(fields).into();
        self.shapes.push(TableShape { schema, name, columns, chunks });
        self.tables.push(ServerTable { select: format!("SELECT {} FROM ONLY {full}", texts.join(", ")), kinds });
        Ok(())
    }
}

impl fmt::Debug for ServerSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerSource").field("url", &self.url).field("as_of", &self.as_of).finish_non_exhaustive()
    }
}

impl Source for ServerSource {
    fn origin(&self) -> String {
        self.url.to_string()
    }

    fn as_of(&self) -> AsOf {
        self.as_of.clone()
    }

    fn tables(&self) -> &[TableShape] {
        &self.shapes
    }

    fn reader(&self) -> Result<Box<dyn ChunkReader + '_>, SourceError> {
        let failed = |error: WireError| SourceError(error.to_string());
        let mut connection = Connection::open(&self.url).map_err(failed)?;
        connection.run(BEGIN).map_err(failed)?;
        connection.run(&format!("SET TRANSACTION SNAPSHOT {}", escape_literal(&self.exported))).map_err(failed)?;
        Ok(Box::new(ServerReader { source: self, connection }))
    }
}

struct ServerReader<'a> {
    source: &'a ServerSource,
    connection: Connection,
}

impl ChunkReader for ServerReader<'_> {
    fn read(&mut self, table: usize, chunk: usize) -> Result<RecordBatch, SourceError> {
        let (table, shape) = (&self.source.tables[table], &self.source.shapes[table]);
        let first = chunk as u64 * CHUNK_PAGES;
        // The last chunk has no end: pages that were added since have no rows of this snapshot.
        let end = match chunk + 1 < shape.chunks {
            true => format!(" AND ctid < '({},0)'", first + CHUNK_PAGES),
            false => String::new(),
        };
        let sql = format!("COPY ({} WHERE ctid >= '({first},0)'{end}) TO STDOUT (FORMAT binary)", table.select);
        let (mut data, mut refused) = (Vec::new(), None);
        let on = |tag, body: &[u8]| match tag {
            b'd' => data.extend_from_slice(body),
            b'E' => refused = Some(field(body, b'M').unwrap_or_default()),
            _ => {}
        };
        self.connection.relay(&query(&sql), on).map_err(|error| SourceError(error.to_string()))?;
        match refused {
            Some(why) => Err(SourceError(why)),
            None => rows(&data, &table.kinds, &shape.columns).map_err(SourceError),
        }
    }
}

#[cfg(test)]
mod tests;
