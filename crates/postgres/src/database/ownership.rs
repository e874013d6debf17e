//! Whose a schema is: made by us and marked so, or somebody else's and left alone.

use plimsoll_workload::database::DatabaseError;
use plimsoll_workload::schema::Schema;
use postgres_protocol::escape::escape_literal;

use super::schema_sql::{self, MARK, quoted_name, schema_name};
use crate::connection::{Connection, WireError};
use crate::url::ServerUrl;

/// What is there under a schema's name.
enum Present {
    Nothing,
    Ours,
    /// Somebody else's, with its comment if it has one.
    Foreign,
}

fn present(connection: &mut Connection, schema: &Schema) -> Result<Present, WireError> {
    let name = escape_literal(&schema_name(schema));
    let sql =
        format!("SELECT coalesce(obj_description(oid, 'pg_namespace'), '') FROM pg_namespace WHERE nspname = {name}");
    Ok(match connection.text(&sql)? {
        None => Present::Nothing,
        Some(comment) if comment == MARK => Present::Ours,
        Some(_) => Present::Foreign,
    })
}

fn foreign(schema: &Schema) -> DatabaseError {
    let name = schema_name(schema);
    DatabaseError::Failed(format!(
        "the schema {name} exists and was not made by Plimsoll; rename it (ALTER SCHEMA {name} RENAME TO …), or use another \
         database"
    ))
}

/// Makes schema and tables, or says why not.
pub(super) fn create(connection: &mut Connection, schema: &Schema, url: &ServerUrl) -> Result<(), DatabaseError> {
    match present(connection, schema)? {
        Present::Nothing => {}
        Present::Ours => {
            return Err(DatabaseError::Failed(format!("the tables of {} exist already", schema.name)));
        }
        Present::Foreign => return Err(foreign(schema)),
    }
    connection.run(&schema_sql::create(schema)).map_err(|error| match error.server() {
        Some(server) if server.code == "42501" => {
            let (user, database) = (&url.user, &url.database);
            DatabaseError::Failed(format!(
                "the role {user} may not make schemas in the database {database}; its owner can allow it: GRANT CREATE ON \
                 DATABASE {database} TO {user}"
            ))
        }
        _ => DatabaseError::from(error),
    })
}

/// Drops schema and tables if they are ours; not an error if there are none.
pub(super) fn drop(connection: &mut Connection, schema: &Schema) -> Result<(), DatabaseError> {
    match present(connection, schema)? {
        Present::Nothing => Ok(()),
        Present::Foreign => Err(foreign(schema)),
        Present::Ours => {
            // A NOTICE names everything that goes with it, of which nobody wants to hear.
            let name = quoted_name(schema);
            Ok(connection.run(&format!("SET client_min_messages = warning; DROP SCHEMA {name} CASCADE"))?)
        }
    }
}

/// Fails where there are no tables to work with.
pub(super) fn check_present(connection: &mut Connection, schema: &Schema) -> Result<(), DatabaseError> {
    match present(connection, schema)? {
        Present::Ours => Ok(()),
        Present::Foreign => Err(foreign(schema)),
        Present::Nothing => {
            Err(DatabaseError::Failed(format!("the tables of {} do not exist; load them first", schema.name)))
        }
    }
}
