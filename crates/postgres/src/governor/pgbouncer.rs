//! pgbouncer in a governor's place, pooling transactions: the peer of a governor that pools.
//!
//! What a session sets there stays with the server connection, and so reaches the next client of that connection. Our
//! sessions therefore set nothing themselves: pgbouncer runs their first statements when it opens a connection
//! (`connect_query`). Sessions with other first statements, or of another user, are clients of another database of
//! pgbouncer's, which has connections of its own.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::Command;

use parking_lot::Mutex;
use plimsoll_pg::connection::Connection;
use plimsoll_pg::url::{ServerHost, ServerUrl};

use super::configuration::{CLIENTS_MAX, PORT, READER};
use crate::server::account::Account;

/// The environment variable that names the program.
const PROGRAM: &str = "PGBOUNCER";

/// Its console's database.
pub(super) const CONSOLE: &str = "pgbouncer";

/// The list of users.
const USERS: &str = "users.txt";

/// The first version that follows prepared statements from connection to connection.
const VERSION_LEAST: (u32, u32) = (1, 21);

/// How many prepared statements a server connection keeps: the governor's default.
const PREPARED_MAX: u32 = 200;

/// How long a client may wait for a connection: an experiment must not refuse any. In seconds.
const WAIT_MAX_S: u32 = 3600;

/// Why pgbouncer cannot stand between clients and the server.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PeerError {
    /// The program cannot be run.
    #[error(
        "`{program}` cannot be run ({error}); install pgbouncer 1.21 or newer, or name its program in {PROGRAM}",
        program = program.display()
    )]
    Missing {
        /// The program.
        program: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// It loses prepared statements.
    #[error(
        "`{program}` is version {version}, which does not follow prepared statements from connection to connection; \
         install pgbouncer 1.21 or newer, or name its program in {PROGRAM}",
        program = program.display()
    )]
    TooOld {
        /// The program.
        program: PathBuf,
        /// Its version, as it says.
        version: String,
    },
    /// The server is not ours, so the way to it may need what pgbouncer is not told.
    #[error("it pools the connections of a server that Plimsoll starts only; use the target `postgres:`")]
    GivenServer,
}

/// A pgbouncer's files, and the databases that it has.
#[derive(Debug)]
pub(super) struct Pgbouncer {
    /// Of its configuration, its log and its socket.
    folder: PathBuf,
    server: ServerUrl,
    /// Server connections of each database.
    size: u32,
    databases: Mutex<Vec<PooledDatabase>>,
}

/// A database of pgbouncer's.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PooledDatabase {
    user: String,
    /// The first statements on each connection.
    opening: String,
}

impl Pgbouncer {
    /// Writes the configuration into a folder of its own.
    pub(super) fn prepare(server: &ServerUrl, size: u32, folder: &Path) -> io::Result<Self> {
        let made = Pgbouncer { folder: folder.to_owned(), server: server.clone(), size, databases: Mutex::default() };
        made.write(&[])?;
        Ok(made)
    }

    /// Writes its files. It lets in the users of its databases, and us at its console.
    fn write(&self, databases: &[PooledDatabase]) -> io::Result<()> {
        let users: BTreeSet<&str> = databases.iter().map(|database| database.user.as_str()).chain([READER]).collect();
        let users: String = users.into_iter().map(|user| format!("\"{}\" \"\"\n", user.replace('"', "\"\""))).collect();
        std::fs::write(self.folder.join(USERS), users)?;
        std::fs::write(self.file(), self.text(databases))
    }

    fn file(&self) -> PathBuf {
        self.folder.join("pgbouncer.ini")
    }

    /// The arguments of the program. It refuses to be root, and becomes the user that our servers run as, to whom this
    /// gives the folder.
    pub(super) fn arguments(&self) -> io::Result<Vec<OsString>> {
        let account = Account::choose().map_err(io::Error::other)?;
        let mut arguments = Vec::new();
        if let Some(account) = account {
            chown(&self.folder, Some(account.user), Some(account.group))?;
            arguments.extend(["-u".into(), account.name.into()]);
        }
        arguments.push(self.file().into());
        Ok(arguments)
    }

    /// The database for sessions of a user that begin with these statements. A new one is made known over the console.
    pub(super) fn database_of(&self, user: &str, opening: &str, console: &ServerUrl) -> Result<String, String> {
        let wanted = PooledDatabase { user: user.to_owned(), opening: opening.to_owned() };
        let mut databases = self.databases.lock();
        if let Some(position) = databases.iter().position(|known| *known == wanted) {
            return Ok(name_of(position));
        }
        databases.push(wanted);
        self.write(&databases).map_err(|error| error.to_string())?;
        let reloaded = Connection::open_console(console).and_then(|mut console| console.run("RELOAD"));
        reloaded.map_err(|error| error.to_string())?;
        Ok(name_of(databases.len() - 1))
    }

    fn text(&self, databases: &[PooledDatabase]) -> String {
        let ServerUrl { host, port, database, .. } = &self.server;
        let host = match host {
            ServerHost::Socket(folder) => folder.display().to_string(),
            ServerHost::Tcp(host) => host.clone(),
        };
        let mut text = "; Written by plimsoll.\n[databases]\n".to_owned();
        for (position, PooledDatabase { user, opening }) in databases.iter().enumerate() {
            let [host, database, user, opening] = [&host, database, user, opening].map(|value| quoted(value));
            let name = name_of(position);
            text +=
                &format!("{name} = host={host} port={port} dbname={database} user={user} connect_query={opening}\n");
        }
        let (folder, size) = (self.folder.display(), self.size);
        text + &format!(
            "[pgbouncer]\nlisten_port = {PORT}\nunix_socket_dir = {folder}\nauth_type = trust\n\
             auth_file = {folder}/{USERS}\nadmin_users = {READER}\npool_mode = transaction\n\
             default_pool_size = {size}\nmax_client_conn = {CLIENTS_MAX}\nmax_prepared_statements = {PREPARED_MAX}\n\
             query_wait_timeout = {WAIT_MAX_S}\nlog_connections = 0\nlog_disconnections = 0\nlog_stats = 0\n"
        )
    }
}

fn name_of(position: usize) -> String {
    format!("pooled_{position}")
}

/// A value of a connection string in a configuration of pgbouncer.
fn quoted(value: &str) -> String {
    format!("'{}'", value.replace('\'', "''"))
}

/// The program, if it is new enough.
pub(super) fn program() -> Result<PathBuf, PeerError> {
    checked(std::env::var_os(PROGRAM).map_or_else(|| "pgbouncer".into(), PathBuf::from))
}

fn checked(program: PathBuf) -> Result<PathBuf, PeerError> {
    let said = match Command::new(&program).arg("--version").output() {
        Ok(output) => String::from_utf8_lossy(&output.stdout).into_owned(),
        Err(error) => return Err(PeerError::Missing { program, error }),
    };
    let version = said.split_whitespace().nth(1).unwrap_or("unknown").to_owned();
    let mut numbers = version.split('.').map(|number| number.parse::<u32>().unwrap_or_default());
    match (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default()) >= VERSION_LEAST {
        true => Ok(program),
        false => Err(PeerError::TooOld { program, version }),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_program_that_is_missing_or_too_old_is_named_with_the_remedy() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("pgbouncer");
        let error = checked(program.clone()).unwrap_err().to_string();
        assert!(error.contains("pgbouncer` cannot be run") && error.contains("install pgbouncer 1.21"), "{error}");
        for (version, is_new_enough) in [("1.18.0", false), ("1.21.0", true), ("1.24.1", true), ("2.0", true)] {
            std::fs::write(&program, format!("#!/bin/sh\necho PgBouncer {version}\necho libevent 2.1\n")).unwrap();
            std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).unwrap();
            let found = checked(program.clone());
            assert_eq!(found.is_ok(), is_new_enough, "{version}");
            let error = found.map_or_else(|error| error.to_string(), |_| String::new());
            assert_eq!(error.contains(&format!("is version {version}, which")), !is_new_enough, "{error}");
        }
    }

    /// Story: a value with an apostrophe would end the connection string, and the rest would be settings.
    #[test]
    fn sessions_with_other_first_statements_have_another_database() {
        let folder = tempfile::tempdir().unwrap();
        let server = ServerUrl::of_socket("/tmp/a 'b'", 5433, "me", "shop");
        let pgbouncer = Pgbouncer::prepare(&server, 7, folder.path()).unwrap();
        let database = |opening: &str| PooledDatabase { user: "me".to_owned(), opening: opening.to_owned() };
        let text = pgbouncer.text(&[database("SET a = 'x'"), database("SET a = 'y'")]);
        let line = "pooled_1 = host='/tmp/a ''b''' port=5433 dbname='shop' user='me' connect_query='SET a = ''y'''\n";
        assert!(text.contains("pooled_0 = ") && text.contains(line), "{text}");
        assert!(text.contains("\npool_mode = transaction\ndefault_pool_size = 7\n"), "{text}");
    }
}
