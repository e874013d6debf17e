//! A PostgreSQL server whose clients log in by SCRAM.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use plimsoll_pg::connection::Connection;
use plimsoll_pg::url::ServerUrl;
use plimsoll_postgres::server::{PrivateServer, ServerSettings};

pub use super::client::PASSWORD;

/// Roles; those of class high begin with it.
pub const ROLES: [&str; 4] = ["low", "low_other", "high", "high_other"];

/// Authentication rules: the server's own role without a password.
const RULES: &str = "local all plimsoll trust\nlocal all all scram-sha-256\n";

/// A server, and its address without a governor.
pub struct Server {
    own: PrivateServer,
}

impl Server {
    /// A separate server. Nothing waits for the disk: crashes of the machine are not tested.
    pub fn start() -> Server {
        Server::of(None)
    }

    /// The same with the programs in that folder instead of the installed version's.
    pub fn of(programs: Option<&Path>) -> Server {
        let mut settings = ServerSettings::for_this_machine();
        if let Some(programs) = programs {
            settings.set("bin_folder", programs.to_str().unwrap()).unwrap();
        }
        for (name, value) in [("shared_buffers", "64MB"), ("fsync", "off"), ("max_wal_size", "256MB")] {
            settings.set(name, value).unwrap();
        }
        settings.set("deadlock_timeout", "50ms").unwrap();
        settings.set("max_connections", "100").unwrap();
        let own = PrivateServer::start(settings)
            .unwrap_or_else(|error| panic!("these tests need a PostgreSQL server: {error}"));
        let server = Server { own };
        let mut connection = server.connection();
        for role in ROLES {
            // Before PostgreSQL 14 the default is md5.
            let encryption = "SET password_encryption = 'scram-sha-256'";
            connection.run(&format!("{encryption}; CREATE ROLE {role} LOGIN PASSWORD '{PASSWORD}'")).unwrap();
        }
        connection
            .run(
                "GRANT CREATE ON SCHEMA public TO public;
                 CREATE TABLE hot (id int PRIMARY KEY, low bigint NOT NULL DEFAULT 0, high bigint NOT NULL DEFAULT 0);
                 INSERT INTO hot SELECT generate_series(1, 3);
                 GRANT ALL ON hot TO public",
            )
            .unwrap();
        std::fs::write(server.own.data_folder().join("pg_hba.conf"), RULES).unwrap();
        connection.run("SELECT pg_reload_conf()").unwrap();
        server
    }

    /// The server shared by tests that leave it unchanged; it ends with the last of them.
    pub fn shared() -> Arc<Server> {
        static SHARED: Mutex<Weak<Server>> = Mutex::new(Weak::new());
        // A test that fails while it starts the server fails alone; the next one tries again.
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        shared.upgrade().unwrap_or_else(|| {
            let server = Arc::new(Server::start());
            *shared = Arc::downgrade(&server);
            server
        })
    }

    /// Restarts it with another value of a parameter that requires it.
    pub fn restart_with(&mut self, parameter: &str, value: &str) {
        self.connection().run(&format!("ALTER SYSTEM SET {parameter} = {value}")).unwrap();
        self.restart();
    }

    /// Starts it again, with its data, even if it has ended in any way.
    pub fn restart(&mut self) {
        self.own.restart().unwrap();
    }

    pub fn own(&self) -> &PrivateServer {
        &self.own
    }

    /// A connection of its own role, not through a governor.
    pub fn connection(&self) -> Connection {
        let own = &self.own;
        let url = ServerUrl::of_socket(own.socket_folder(), own.port(), own.user(), own.database());
        Connection::open(&url).unwrap()
    }

    /// Writes a users file with the verifiers of its roles.
    pub fn users_file(&self) -> PathBuf {
        let sql = r#"SELECT string_agg(format('"%s" "%s"', rolname, rolpassword), E'\n') || E'\n'
                     FROM pg_authid WHERE rolpassword IS NOT NULL"#;
        let file = self.own.data_folder().join("users.txt");
        std::fs::write(&file, self.value(sql)).unwrap();
        file
    }

    pub fn socket(&self) -> PathBuf {
        self.own.socket_folder().join(format!(".s.PGSQL.{}", self.own.port()))
    }

    /// One value, asked without a governor.
    pub fn value(&self, sql: &str) -> String {
        self.connection().text(sql).unwrap().expect("asked for a value")
    }

    pub fn database(&self) -> &str {
        self.own.database()
    }
}
