//! Who owns a schema: we do if it carries our mark; any other is left alone.

use plimsoll_pg::connection::{Connection, WireError};
use plimsoll_pg::url::ServerUrl;
use plimsoll_workload::benchmark::Writes;
use plimsoll_workload::database::{DatabaseError, LoadedData};
use plimsoll_workload::schema::Schema;
use postgres_protocol::escape::escape_literal;

use super::schema_sql::{self, MARK, quoted_name, schema_name};
use crate::failure::database_error;

enum Present {
    Nothing,
    /// Ours, with the note behind the mark.
    Ours(String),
    /// It has another owner.
    Foreign,
}

fn present(connection: &mut Connection, schema: &Schema) -> Result<Present, WireError> {
    let name = escape_literal(&schema_name(schema));
    let sql =
        format!("SELECT coalesce(obj_description(oid, 'pg_namespace'), '') FROM pg_namespace WHERE nspname = {name}");
    let Some(comment) = connection.text(&sql)? else { return Ok(Present::Nothing) };
    Ok(comment.strip_prefix(MARK).map_or(Present::Foreign, |noted| Present::Ours(noted.to_owned())))
}

fn foreign(schema: &Schema) -> DatabaseError {
    let name = schema_name(schema);
    DatabaseError::Failed(format!(
        "the schema {name} exists and was not made by Plimsoll; rename it (ALTER SCHEMA {name} RENAME TO …), or use another \
         database"
    ))
}

/// Whether our schema exists; one of another owner is an error.
fn is_there(connection: &mut Connection, schema: &Schema) -> Result<bool, DatabaseError> {
    match present(connection, schema).map_err(database_error)? {
        Present::Nothing => Ok(false),
        Present::Ours(_) => Ok(true),
        Present::Foreign => Err(foreign(schema)),
    }
}

pub(super) fn create(connection: &mut Connection, schema: &Schema, url: &ServerUrl) -> Result<(), DatabaseError> {
    if is_there(connection, schema)? {
        return Err(DatabaseError::Failed(format!("the tables of {} exist already", schema.name)));
    }
    connection.run(&schema_sql::create(schema)).map_err(|error| match error.server() {
        Some(server) if server.code == "42501" => {
            let (user, database) = (&url.user, &url.database);
            DatabaseError::Failed(format!(
                "the role {user} may not make schemas in the database {database}; its owner can allow it: GRANT CREATE ON \
                 DATABASE {database} TO {user}"
            ))
        }
        _ => database_error(error),
    })
}

/// Drops the schema and its tables if they are ours; not an error if there are none.
pub(super) fn drop(connection: &mut Connection, schema: &Schema) -> Result<(), DatabaseError> {
    if !is_there(connection, schema)? {
        return Ok(());
    }
    // A NOTICE would list every object that is dropped with it.
    let name = quoted_name(schema);
    let sql = format!("SET client_min_messages = warning; DROP SCHEMA {name} CASCADE");
    let Err(error) = connection.run(&sql) else { return Ok(()) };
    if error.server().is_some_and(|server| server.code == "42501") {
        let of = escape_literal(&schema_name(schema));
        let owner = format!("SELECT quote_ident(pg_get_userbyid(nspowner)) FROM pg_namespace WHERE nspname = {of}");
        if let Some(owner) = connection.text(&owner).map_err(database_error)? {
            return Err(DatabaseError::Failed(format!(
                "the tables of {} are in the schema {name}, which belongs to the role {owner}: drop it as that role (DROP SCHEMA \
                 {name} CASCADE), or use another database",
                schema.name
            )));
        }
    }
    Err(database_error(error))
}

pub(super) fn check_present(connection: &mut Connection, schema: &Schema) -> Result<(), DatabaseError> {
    if is_there(connection, schema)? {
        return Ok(());
    }
    Err(DatabaseError::Failed(format!("the tables of {} do not exist; load them first", schema.name)))
}

/// Notes behind the mark which data the tables hold. Nothing is written without a schema of ours, as for tables that
/// users have made.
pub(super) fn note(connection: &mut Connection, schema: &Schema, data: &LoadedData) -> Result<(), DatabaseError> {
    let Present::Ours(_) = present(connection, schema).map_err(database_error)? else { return Ok(()) };
    let comment = escape_literal(&format!("{MARK}; data={}; written={}", data.data, data.written.name()));
    connection.run(&format!("COMMENT ON SCHEMA {} IS {comment}", quoted_name(schema))).map_err(database_error)
}

/// Which data the tables hold, if that was noted.
pub(super) fn noted(connection: &mut Connection, schema: &Schema) -> Result<Option<LoadedData>, DatabaseError> {
    let Present::Ours(noted) = present(connection, schema).map_err(database_error)? else { return Ok(None) };
    let Some((data, written)) = noted.strip_prefix("; data=").and_then(|noted| noted.rsplit_once("; written=")) else {
        return Ok(None);
    };
    let written = Writes::ALL.into_iter().find(|writes| writes.name() == written);
    Ok(written.map(|written| LoadedData { data: data.to_owned(), written }))
}
