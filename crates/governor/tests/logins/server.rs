//! A server whose roles log in in every way, and a login there without a client.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use plimsoll_governor::credentials::{LoginFailure, ServerCredentials, ServerLogin, ServerSession, Terms};
use plimsoll_pg::connection::Connection;
use plimsoll_pg::url::ServerUrl;
use plimsoll_postgres::server::{PrivateServer, ServerSettings};

/// The password of every role that has one.
pub const PASSWORD: &str = "schränk \"1\"";

/// A login that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(30);

/// How each role logs in.
pub const RULES: &str = "local all plimsoll trust
local all hashed md5
local all plain password
local all trusted trust
local all peered peer
local all all scram-sha-256
";

pub struct Server {
    pub own: PrivateServer,
}

impl Server {
    /// A server with the programs in that folder, or of the installed version.
    pub fn start(programs: Option<&Path>) -> Server {
        let mut settings = ServerSettings::for_this_machine();
        if let Some(programs) = programs {
            settings.set("bin_folder", programs.to_str().unwrap()).unwrap();
        }
        for (name, value) in [("shared_buffers", "64MB"), ("fsync", "off"), ("max_wal_size", "256MB")] {
            settings.set(name, value).unwrap();
        }
        let own = PrivateServer::start(settings)
            .unwrap_or_else(|error| panic!("these tests need a PostgreSQL server: {error}"));
        let server = Server { own };
        let mut roles = format!("SET password_encryption = 'md5'; CREATE ROLE hashed LOGIN PASSWORD '{PASSWORD}';");
        roles.push_str("SET password_encryption = 'scram-sha-256';");
        for role in ["scram", "other", "plain", "trusted", "peered"] {
            roles.push_str(&format!("CREATE ROLE {role} LOGIN PASSWORD '{PASSWORD}';"));
        }
        server.connection().run(&roles).unwrap();
        std::fs::write(server.own.data_folder().join("pg_hba.conf"), RULES).unwrap();
        server.connection().run("SELECT pg_reload_conf()").unwrap();
        server
    }

    pub fn url(&self) -> ServerUrl {
        let own = &self.own;
        ServerUrl::of_socket(own.socket_folder(), own.port(), own.user(), own.database())
    }

    /// A connection of its own role.
    pub fn connection(&self) -> Connection {
        Connection::open(&self.url()).unwrap()
    }

    pub fn socket(&self) -> PathBuf {
        self.url().socket().unwrap()
    }

    /// A users file as an operator makes it: the server's own verifiers and hashes.
    pub fn users(&self) -> String {
        let mut lines = String::new();
        let sql = "SELECT rolname, rolpassword FROM pg_authid WHERE rolpassword IS NOT NULL ORDER BY 1";
        self.connection()
            .text_rows(sql, &mut |row| lines.push_str(&format!("\"{}\" \"{}\"\n", row[0].unwrap(), row[1].unwrap())))
            .unwrap();
        lines
    }
}

/// Logs in at a server's socket.
pub fn log_in(
    socket: &Path,
    user: &str,
    database: &str,
    credentials: ServerCredentials,
    must_be_asked: bool,
) -> Result<(ServerSession, UnixStream), LoginFailure> {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let terms = Terms { is_private: true, must_be_asked };
    drive(&mut stream, user, database, credentials, terms).map(|session| (session, stream))
}

/// Logs in over a stream.
pub fn drive(
    stream: &mut (impl Read + Write),
    user: &str,
    database: &str,
    credentials: ServerCredentials,
    terms: Terms,
) -> Result<ServerSession, LoginFailure> {
    let mut out = Vec::new();
    let parameters = [("application_name", "logins"), ("client_encoding", "UTF8")];
    let mut login = ServerLogin::new(user, database, &parameters, credentials, terms, &mut out).unwrap();
    let (mut got, mut chunk) = (Vec::new(), [0; 4096]);
    loop {
        stream.write_all(&std::mem::take(&mut out)).unwrap();
        stream.flush().unwrap();
        let read = stream.read(&mut chunk).unwrap();
        assert!(read > 0, "the server has closed the connection");
        got.extend_from_slice(&chunk[..read]);
        let stepped = login.on_server(&got, &mut out)?;
        got.drain(..stepped.taken);
        if let Some(session) = stepped.session {
            assert!(got.is_empty());
            return Ok(session);
        }
    }
}
