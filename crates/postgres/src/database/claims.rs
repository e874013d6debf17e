//! Which process may change the tables of a benchmark on a server that several processes use.
//!
//! Everyone who uses the tables shares an advisory lock, and a process that loads them again has it alone. A second process therefore works
//! beside the first while the data suits both, and is refused, rather than waiting or taking the tables away, if it does not.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use plimsoll_pg::connection::{Connection, WireError};
use plimsoll_workload::database::DatabaseError;
use plimsoll_workload::schema::Schema;
use postgres_protocol::escape::escape_literal;

use super::schema_sql::schema_name;
use crate::failure::database_error;

/// The claims of this process, by schema.
#[derive(Debug, Default)]
pub(super) struct Claims(Mutex<BTreeMap<String, Claim>>);

/// The session that holds the lock of a schema.
#[derive(Debug)]
struct Claim {
    connection: Connection,
    is_alone: bool,
}

type Open<'a> = &'a dyn Fn() -> Result<Connection, WireError>;

impl Claims {
    /// Uses a schema's tables beside others.
    pub fn share(&self, schema: &Schema, open: Open<'_>) -> Result<(), DatabaseError> {
        self.with(schema, open, |_, _| Ok(()))
    }

    /// Has a schema's tables alone, to load them again.
    pub fn have_alone(&self, schema: &Schema, open: Open<'_>) -> Result<(), DatabaseError> {
        self.with(schema, open, |claim, name| {
            if !claim.is_alone {
                lock(&mut claim.connection, name, "pg_try_advisory_lock")?;
                claim.is_alone = true;
            }
            Ok(())
        })
    }

    /// Lets others use the tables again. The share of this process remains.
    pub fn end_alone(&self, schema: &Schema, open: Open<'_>) -> Result<(), DatabaseError> {
        self.with(schema, open, |claim, name| {
            if std::mem::take(&mut claim.is_alone) {
                claim.connection.text(&format!("SELECT pg_advisory_unlock({})", key(name))).map_err(database_error)?;
            }
            Ok(())
        })
    }

    fn with(
        &self,
        schema: &Schema,
        open: Open<'_>,
        act: impl FnOnce(&mut Claim, &str) -> Result<(), DatabaseError>,
    ) -> Result<(), DatabaseError> {
        let name = schema_name(schema);
        let mut claims = self.0.lock();
        // A server that was restarted has forgotten its locks.
        claims.retain(|_, claim| claim.connection.lost().is_none());
        if !claims.contains_key(&name) {
            let mut connection = open().map_err(database_error)?;
            lock(&mut connection, &name, "pg_try_advisory_lock_shared")?;
            claims.insert(name.clone(), Claim { connection, is_alone: false });
        }
        act(claims.get_mut(&name).expect("it was just made"), &name)
    }
}

/// The two numbers of the lock of a schema.
fn key(name: &str) -> String {
    format!("hashtext('plimsoll'), hashtext({})", escape_literal(name))
}

fn lock(connection: &mut Connection, name: &str, function: &str) -> Result<(), DatabaseError> {
    let key = key(name);
    if connection.text(&format!("SELECT {function}({key})")).map_err(database_error)?.as_deref() == Some("t") {
        return Ok(());
    }
    let holder = format!(
        "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 2 AND pid <> pg_backend_pid() \
         AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) \
         AND (classid, objid) = (SELECT a::oid, b::oid FROM (VALUES ({key})) AS of(i, j), \
         LATERAL (SELECT i::bigint & 4294967295, j::bigint & 4294967295) AS at(a, b)) LIMIT 1"
    );
    let by = connection
        .text(&holder)
        .map_err(database_error)?
        .map_or_else(String::new, |pid| format!(" (the server's process {pid} holds them)"));
    Err(DatabaseError::Failed(format!(
        "another plimsoll uses the tables in {name} of this database{by}, and they would have to be loaded again; wait until it has ended, \
         or use another database"
    )))
}
