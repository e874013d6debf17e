//! A second server that follows the first: a streaming replica on the same machine, which answers queries.
//!
//! It is as private as the first one: a folder of its own, recorded before it is created ([`Home`]), and a watchdog of
//! its own that ends it if this process is killed ([`Running`]). It is created by `pg_basebackup` from the running
//! primary. A replication slot keeps the log that it has not yet received, as much as `max_wal_size` and at least 1 GB;
//! nothing is archived.
//!
//! It is never changed, only recreated: a restarted primary gets a new one.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use plimsoll_pg::connection::Connection;
use plimsoll_pg::url::ServerUrl;

use super::account::command;
use super::cluster::{DATABASE, USER};
use super::configuration::{PORT, SLOT};
use super::error::ServerError;
use super::home::Home;
use super::log;
use super::running::Running;
use super::{PrivateServer, write_configuration};

/// A running standby. Dropping it stops it and removes everything it had.
#[derive(Debug)]
pub(super) struct Standby {
    /// Dropped before the home, in which it lives.
    running: Running,
    home: Home,
}

impl Standby {
    /// Creates a standby of a running primary that has none, and waits until it answers queries.
    pub fn make(primary: &PrivateServer, state: &Path) -> Result<Standby, ServerError> {
        let made = Standby::try_make(primary, state);
        made.map_err(|error| ServerError::Standby(error.to_string()))
    }

    fn try_make(primary: &PrivateServer, state: &Path) -> Result<Standby, ServerError> {
        let (installation, account) = (&primary.installation, primary.account.as_ref());
        drop_slot(primary)?;
        let mut home = Home::make(&primary.settings, account, state)?;
        let program = installation.program("pg_basebackup");
        let mut backup = command(&program, account);
        backup.arg("--pgdata").arg(home.data()).arg("--host").arg(&primary.socket_folder);
        backup.args(["--port", &PORT.to_string(), "--username", USER, "--no-password"]);
        backup.args(["--wal-method=stream", "--checkpoint=fast", "--no-sync", "--write-recovery-conf"]);
        backup.args(["--create-slot", "--slot", SLOT]);
        // Cleaning up after a kill finds the process by its working directory.
        backup.current_dir(home.data()).stdin(Stdio::null());
        let failed = |why: String| ServerError::Program { program: program.clone(), why };
        let output = backup.output().map_err(|error| failed(error.to_string()))?;
        if !output.status.success() {
            return Err(failed(format!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim())));
        }
        write_configuration(&home, &primary.settings.on_standby(), primary.has_statement_statistics)?;
        let running = Running::start(&[], installation, &mut home, account, true)?;
        Ok(Standby { running, home })
    }

    pub fn socket_folder(&self) -> PathBuf {
        self.home.socket_folder()
    }

    pub fn running(&self) -> &Running {
        &self.running
    }

    pub fn home(&self) -> &Home {
        &self.home
    }

    pub fn is_alive(&self) -> bool {
        self.running.is_alive()
    }

    pub fn log_tail(&self) -> String {
        log::tail(&self.home.log())
    }
}

/// Drops the slot of the previous standby; the primary has been restarted since, so no process uses it.
fn drop_slot(primary: &PrivateServer) -> Result<(), ServerError> {
    let url = ServerUrl::of_socket(&primary.socket_folder, PORT, USER, DATABASE);
    let sql = format!(
        "SELECT pg_catalog.pg_drop_replication_slot(slot_name) FROM pg_catalog.pg_replication_slots \
         WHERE slot_name = '{SLOT}'"
    );
    let dropped = Connection::open(&url).and_then(|mut connection| connection.run(&sql));
    let program = primary.installation.program("postgres");
    dropped.map_err(|error| ServerError::Program { program, why: error.to_string() })
}
