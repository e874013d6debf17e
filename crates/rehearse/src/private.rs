//! A private server with the data that the capture's statements need.
//!
//! The data is loaded once, into the server's own database. Each replay gets a database of its own that is copied from
//! that one, so that every replay begins with the same rows, sequences and statistics.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use plimsoll_pg::connection::{Connection, WireError};
use plimsoll_pg::url::{ServerHost, ServerUrl, UrlError};
use plimsoll_postgres::server::{Installation, PrivateServer, ServerError, ServerSettings};

use crate::load::{LoadError, execute, load};

/// The database of a replay.
const REHEARSAL: &str = "rehearsal";

/// Where a private server's data comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Data {
    /// A file of SQL.
    Setup(PathBuf),
    /// A database that is dumped.
    CopyOf(Box<ServerUrl>),
}

impl Data {
    /// A copy of the database of a URL.
    pub fn copy_of(url: &str) -> Result<Data, UrlError> {
        Ok(Data::CopyOf(Box::new(ServerUrl::parse(url)?)))
    }
}

/// Why a private server could not be prepared.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PrivateError {
    /// It did not start.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// Its version is not a number.
    #[error("option `version` cannot be `{0}`; it can be a major version, such as 18")]
    Version(String),
    /// The file cannot be read.
    #[error("cannot read {}: {why}", file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// The system's reason.
        why: std::io::Error,
    },
    /// A statement of the data failed.
    #[error("the data cannot be loaded: {origin}, {why}")]
    Load {
        /// The file or the database.
        origin: String,
        /// The place and the reason.
        why: LoadError,
    },
    /// There is no program to dump a database with.
    #[error("{0}")]
    NoDump(String),
    /// The dump failed.
    #[error("{program} failed: {why}", program = program.display())]
    Dump {
        /// The program.
        program: PathBuf,
        /// What it said.
        why: String,
    },
    /// The server refused.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// A replay's database cannot be made.
    #[error("cannot make the database of a replay: {0}")]
    Copy(LoadError),
}

/// The settings of a private server by the options after `postgres:?`; `version=18` chooses an installation.
pub fn settings(options: &str) -> Result<ServerSettings, PrivateError> {
    let mut settings = ServerSettings::for_this_machine();
    for option in options.split('&').filter(|option| !option.is_empty()) {
        match option.split_once('=').unwrap_or((option, "")) {
            ("version", version) => {
                let major = version.parse().map_err(|_| PrivateError::Version(version.to_owned()))?;
                let found = Installation::of_version(major)?;
                settings.set("bin_folder", &found.bin_folder.to_string_lossy())?;
            }
            (name, value) => settings.set(name, value)?,
        }
    }
    Ok(settings)
}

/// A running private server with data.
#[derive(Debug)]
pub struct PrivateTarget {
    server: PrivateServer,
}

impl PrivateTarget {
    /// Starts a server and loads its data.
    pub fn start(settings: ServerSettings, data: &Data) -> Result<Self, PrivateError> {
        let server = PrivateServer::start(settings)?;
        let target = PrivateTarget { server };
        let mut connection = Connection::open(&target.url(target.server.database()))?;
        match data {
            Data::Setup(file) => {
                let opened = File::open(file).map_err(|why| PrivateError::File { file: file.clone(), why })?;
                let origin = file.display().to_string();
                load(&mut connection, BufReader::new(opened)).map_err(|why| PrivateError::Load { origin, why })?;
            }
            Data::CopyOf(url) => target.copy(url, &mut connection)?,
        }
        // What the dump or the file has set for its session ends with it, such as an empty search path.
        drop(connection);
        let mut connection = Connection::open(&target.url(target.server.database()))?;
        execute(&mut connection, "VACUUM (ANALYZE)").map_err(PrivateError::Copy)?;
        Ok(target)
    }

    /// The server's version.
    pub fn version(&self) -> String {
        self.server.version().to_string()
    }

    /// The database with the data as loaded, for looking at it before the run.
    pub fn loaded(&self) -> ServerUrl {
        self.url(self.server.database())
    }

    /// A new copy of the data, in place of the one before.
    pub fn fresh(&self) -> Result<ServerUrl, PrivateError> {
        let mut connection = Connection::open(&self.url("postgres"))?;
        let template = self.server.database();
        for sql in [
            format!("DROP DATABASE IF EXISTS {REHEARSAL} WITH (FORCE)"),
            format!("CREATE DATABASE {REHEARSAL} TEMPLATE {template}"),
            "CHECKPOINT".to_owned(),
        ] {
            execute(&mut connection, &sql).map_err(PrivateError::Copy)?;
        }
        Ok(self.url(REHEARSAL))
    }

    fn url(&self, database: &str) -> ServerUrl {
        ServerUrl::of_socket(self.server.socket_folder(), self.server.port(), self.server.user(), database)
    }

    fn copy(&self, url: &ServerUrl, connection: &mut Connection) -> Result<(), PrivateError> {
        let major = Connection::open(url)?.server_version_num() / 10_000;
        let program = dump_program(self.server.installation(), major)?;
        let failed = |why: String| PrivateError::Dump { program: program.clone(), why };
        let mut dump = dump_command(&program, url);
        let mut child =
            dump.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(|why| failed(why.to_string()))?;
        let output = child.stdout.take().expect("piped above");
        // Its messages are few; a pipe has room for them until it has ended.
        let loaded = load(connection, BufReader::new(output));
        // A load that ends early closes the pipe, which ends the dump: then the load has the reason.
        let loaded = loaded.map_err(|why| PrivateError::Load { origin: url.to_string(), why });
        let ended = child.wait_with_output().map_err(|why| failed(why.to_string()))?;
        loaded?;
        if !ended.status.success() {
            let said = String::from_utf8_lossy(&ended.stderr).trim().to_owned();
            return Err(failed(if said.is_empty() { ended.status.to_string() } else { said }));
        }
        Ok(())
    }
}

/// A `pg_dump` that is at least as new as the server that is dumped: the target's own if it has one.
fn dump_program(target: &Installation, major: u32) -> Result<PathBuf, PrivateError> {
    let mut all = vec![target.clone()];
    all.extend(Installation::all());
    let fits = |one: &&Installation| one.version.major >= major && one.program("pg_dump").is_file();
    // The nearest version writes what the target most likely understands.
    let found = all.iter().filter(fits).min_by_key(|one| one.version.major.abs_diff(target.version.major));
    found.map(|one| one.program("pg_dump")).ok_or_else(|| {
        PrivateError::NoDump(format!(
            "there is no pg_dump of version {major} or newer here to copy the data with; install one (apt install \
             postgresql-client-{major}), or dump the database elsewhere and load it with --setup FILE.sql"
        ))
    })
}

fn dump_command(program: &Path, url: &ServerUrl) -> Command {
    let mut dump = Command::new(program);
    dump.args(["--format=plain", "--no-owner", "--no-privileges", "--no-publications", "--no-subscriptions"]);
    dump.args(["--username", &url.user, "--port", &url.port.to_string(), "--no-password"]);
    match &url.host {
        ServerHost::Tcp(host) => dump.args(["--host", host]),
        ServerHost::Socket(folder) => dump.arg("--host").arg(folder),
    };
    dump.args(["--dbname", &url.database]).env("PGSSLMODE", url.ssl_mode.name()).stdin(Stdio::null());
    if let Some(password) = &url.password {
        dump.env("PGPASSWORD", String::from_utf8_lossy(password.bytes()).as_ref());
    }
    if let Some(file) = &url.ssl_root_certificate {
        dump.env("PGSSLROOTCERT", file);
    }
    if let Some(certificate) = &url.ssl_certificate {
        dump.env("PGSSLCERT", &certificate.certificate).env("PGSSLKEY", &certificate.key);
    }
    dump
}
