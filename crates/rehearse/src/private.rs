//! A private server with the data that the capture's statements need.
//!
//! The data is loaded once, into the server's own database. Each replay gets a database of its own that is copied from
//! that one, so that every replay begins with the same rows, sequences and statistics.

use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;

use plimsoll_pg::connection::{Connection, WireError};
use plimsoll_pg::url::{ServerUrl, UrlError};
use plimsoll_postgres::copy::{CopyError, copy, copy_into};
use plimsoll_postgres::load::{Exchange, LoadError, execute, load};
use plimsoll_postgres::server::{Installation, PrivateServer, ServerError, ServerSettings};

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
        /// The file.
        origin: String,
        /// The place and the reason.
        why: LoadError,
    },
    /// The database cannot be copied.
    #[error(transparent)]
    Dump(#[from] CopyError),
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
        if let Data::CopyOf(url) = data {
            copy(url, &target.loaded(), target.server.installation())?;
            return Ok(target);
        }
        load_data(data, &mut Connection::open(&target.loaded())?, Some(target.server.installation()))?;
        // What the file has set for its session has ended with it, such as an empty search path.
        let mut connection = Connection::open(&target.loaded())?;
        execute(&mut connection, "VACUUM (ANALYZE)").map_err(PrivateError::Copy)?;
        Ok(target)
    }

    /// The server's version.
    pub fn version(&self) -> String {
        self.server.version().to_string()
    }

    /// The database with the data as loaded, for looking at it before the run.
    pub fn loaded(&self) -> ServerUrl {
        self.server.url()
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
}

/// Loads data into the database of a session: of an installation if `target` is one whose programs fit.
pub(crate) fn load_data(
    data: &Data,
    session: &mut dyn Exchange,
    target: Option<&Installation>,
) -> Result<(), PrivateError> {
    match data {
        Data::Setup(file) => {
            let opened = File::open(file).map_err(|why| PrivateError::File { file: file.clone(), why })?;
            let origin = file.display().to_string();
            load(session, BufReader::new(opened)).map_err(|why| PrivateError::Load { origin, why })
        }
        Data::CopyOf(url) => Ok(copy_into(url, session, target)?),
    }
}
