//! A connection for queries, which keeps its statements prepared.

use std::collections::HashMap;

use plimsoll_pg::connection::{Connection, Prepared};
use plimsoll_workload::database::DatabaseError;

use super::Ask;
use crate::failure::{database_error, past_conflicts};

/// Queries over a connection of its own.
#[derive(Debug)]
pub struct Asker {
    connection: Connection,
    /// Statements by their text.
    prepared: HashMap<String, Prepared>,
}

impl Asker {
    /// Asks over this connection.
    pub fn new(connection: Connection) -> Self {
        Asker { connection, prepared: HashMap::new() }
    }

    /// The connection, for statements that need not be prepared.
    pub(crate) fn connection(&mut self) -> &mut Connection {
        &mut self.connection
    }
}

impl Ask for Asker {
    fn rows(&mut self, sql: &str, each: &mut dyn FnMut(&[Option<&str>])) -> Result<(), DatabaseError> {
        if !self.prepared.contains_key(sql) {
            let name = format!("a{}", self.prepared.len());
            let prepared = past_conflicts(|| self.connection.prepare_text(&name, sql).map_err(database_error))?;
            self.prepared.insert(sql.to_owned(), prepared);
        }
        let (prepared, connection, mut given) = (&self.prepared[sql], &mut self.connection, 0_u64);
        past_conflicts(|| {
            let asked = connection.prepared_text_rows(prepared, &[], &mut |row| {
                given += 1;
                each(row);
            });
            match asked.map_err(database_error) {
                // Rows that were already passed on cannot be taken back.
                Err(DatabaseError::Conflict(_)) if given > 0 => {
                    Err(DatabaseError::Failed("a standby's replay has cancelled a look at its sessions".to_owned()))
                }
                asked => asked,
            }
        })
    }

    fn server_process(&self) -> Option<i32> {
        self.connection.server_process()
    }

    fn major_version(&self) -> u32 {
        self.connection.server_version_num() / 10_000
    }
}
