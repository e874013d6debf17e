//! Whose a schema is: made by us and marked so, or somebody else's and left alone.

use plimsoll_workload::benchmark::Writes;
use plimsoll_workload::database::{DatabaseError, LoadedData};
use plimsoll_workload::schema::Schema;
use postgres_protocol::escape::escape_literal;

use super::schema_sql::{self, MARK, quoted_name, schema_name};
use crate::connection::{Connection, WireError};
use crate::url::ServerUrl;

/// What is there under a schema's name.
enum Present {
    Nothing,
    /// Ours, with its comment.
    Ours(String),
    /// Somebody else's, with its comment if it has one.
    Foreign,
}

fn present(connection: &mut Connection, schema: &Schema) -> Result<Present, WireError> {
    let name = escape_literal(&schema_name(schema));
    let sql =
        format!("SELECT coalesce(obj_description(oid, 'pg_namespace'), '') FROM pg_namespace WHERE nspname = {name}");
    Ok(match connection.text(&sql)? {
        None => Present::Nothing,
        Some(comment) if comment.starts_with(MARK) => Present::Ours(comment),
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
        Present::Ours(_) => {
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
        Present::Ours(_) => {
            // A NOTICE names everything that goes with it, of which nobody wants to hear.
            let name = quoted_name(schema);
            Ok(connection.run(&format!("SET client_min_messages = warning; DROP SCHEMA {name} CASCADE"))?)
        }
    }
}

/// What the comment says of the data, behind the mark.
const DATA: &str = "; data: ";
const WRITTEN: &str = "; written: ";

/// Which data was noted.
pub(super) fn data(connection: &mut Connection, schema: &Schema) -> Result<Option<LoadedData>, DatabaseError> {
    let Present::Ours(comment) = present(connection, schema)? else { return Ok(None) };
    Ok(read_note(&comment))
}

fn read_note(comment: &str) -> Option<LoadedData> {
    let (data, written) = comment.strip_prefix(MARK)?.strip_prefix(DATA)?.rsplit_once(WRITTEN)?;
    let written = Writes::ALL.into_iter().find(|writes| writes.name() == written)?;
    Some(LoadedData { data: data.to_owned(), written })
}

fn note(data: &LoadedData) -> String {
    format!("{MARK}{DATA}{}{WRITTEN}{}", data.data, data.written.name())
}

/// Notes which data there is. Not an error if there is no schema of ours, as for tables that users have made.
pub(super) fn note_data(connection: &mut Connection, schema: &Schema, data: &LoadedData) -> Result<(), DatabaseError> {
    let Present::Ours(_) = present(connection, schema)? else { return Ok(()) };
    let comment = escape_literal(&note(data));
    Ok(connection.run(&format!("COMMENT ON SCHEMA {} IS {comment}", quoted_name(schema)))?)
}

/// Fails where there are no tables to work with.
pub(super) fn check_present(connection: &mut Connection, schema: &Schema) -> Result<(), DatabaseError> {
    match present(connection, schema)? {
        Present::Ours(_) => Ok(()),
        Present::Foreign => Err(foreign(schema)),
        Present::Nothing => {
            Err(DatabaseError::Failed(format!("the tables of {} do not exist; load them first", schema.name)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_noted_is_read_back() {
        for written in Writes::ALL {
            let data = LoadedData { data: "file:a; written: b.toml".to_owned(), written };
            assert_eq!(read_note(&note(&data)), Some(data));
        }
        assert_eq!(read_note(MARK), None);
        assert_eq!(read_note("my own schema"), None);
    }
}
