//! Why a private server does not exist, or is not as requested.

use std::path::PathBuf;

use plimsoll_notation::meant_or_all;
use plimsoll_pg::connection::SUPPORTED;

use super::installation::Installation;
use super::options::known_options;
use crate::copy::CopyError;

/// Why a private server could not be created or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// There is no PostgreSQL on this machine, in these folders.
    #[error(
        "no PostgreSQL server was found (looked in {}); install one: apt install postgresql, \
         or name the folder of its programs with bin_folder=FOLDER",
        shown(.0)
    )]
    NotFound(Vec<PathBuf>),
    /// The folder that was named has no server.
    #[error("there is no PostgreSQL server in {bin_folder}: {why}; name the folder that has initdb and postgres", bin_folder = bin_folder.display())]
    NoServerIn {
        /// The folder.
        bin_folder: PathBuf,
        /// The reason.
        why: String,
    },
    /// Every installation found is older or newer than the supported versions.
    #[error(
        "PostgreSQL {} to {} are supported, but here is {}; install one of them, \
         or name the folder of its programs with bin_folder=FOLDER",
        SUPPORTED.start(),
        SUPPORTED.end(),
        .0.iter().map(|found| format!("{} in {}", found.version, found.bin_folder.display())).collect::<Vec<_>>().join(", ")
    )]
    Unsupported(Vec<Installation>),
    /// There is no installation of that major version.
    #[error(
        "there is no PostgreSQL {major} on this machine{}; install it (apt install postgresql-{major}), or name the folder \
         of its programs with bin_folder=FOLDER",
        if found.is_empty() { String::new() } else { format!(", only {}", versions(found)) }
    )]
    NoVersion {
        /// The version.
        major: u32,
        /// Those that there are.
        found: Vec<Installation>,
    },
    /// This process is root, and no other user exists to run the server as.
    #[error(
        "PostgreSQL refuses to run as root, and there is no user `postgres` or `nobody` to run it as; \
         make one: useradd --system postgres, or run plimsoll as an ordinary user"
    )]
    NoAccount,
    /// The data cannot be kept in this folder.
    #[error("the server's data cannot be kept in {folder}: {why}; name another folder with folder=FOLDER", folder = folder.display())]
    Folder {
        /// The folder below which the server's own would be.
        folder: PathBuf,
        /// Why not.
        why: String,
    },
    /// The folder is in memory.
    #[error(
        "{folder} is on a {kind}, which is memory and not a disk; name a folder on a disk with folder=FOLDER, \
         or, if that is what you want, say allow_tmpfs=on",
        folder = folder.display()
    )]
    InMemory {
        /// The folder.
        folder: PathBuf,
        /// The kind of file system.
        kind: &'static str,
    },
    /// The disk is too small.
    #[error(
        "the disk of {folder} has {} free, but {} are needed: {for_what}; free some, \
         or name a folder on another disk with folder=FOLDER",
        megabytes(*free_bytes),
        megabytes(*needed_bytes),
        folder = folder.display()
    )]
    DiskTooSmall {
        /// The folder.
        folder: PathBuf,
        /// Free space, bytes.
        free_bytes: u64,
        /// Required space, bytes.
        needed_bytes: u64,
        /// The purpose of the space, in words.
        for_what: String,
    },
    /// A program of the installation failed.
    #[error("{program} failed: {why}")]
    Program {
        /// Its path.
        program: PathBuf,
        /// The message of the program or of the system.
        why: String,
    },
    /// The server did not start.
    #[error("the PostgreSQL server did not start: {why}; the end of its log:\n{log}")]
    DidNotStart {
        /// The reason.
        why: String,
        /// The last lines of its log.
        log: String,
    },
    /// The server started, but not the standby that was requested.
    #[error("the standby could not be made: {0}; leave out standby=1 for a server without one")]
    Standby(String),
    /// The server did not take new settings.
    #[error("the PostgreSQL server did not take its new settings: {why}; the end of its log:\n{log}")]
    NotApplied {
        /// The reason.
        why: String,
        /// The last lines of its log.
        log: String,
    },
    /// It could not be made a copy of another.
    #[error("the server cannot begin as a copy: {0}")]
    Copy(#[from] Box<CopyError>),
    /// There is no such option.
    #[error("a PostgreSQL server has no option `{name}`{}", meant_or_all(nearest, known_options()))]
    NoSuchOption {
        /// The name given.
        name: String,
        /// The nearest existing name, if one is near.
        nearest: Option<&'static str>,
    },
    /// The option cannot have that value.
    #[error("option `{name}` cannot be `{value}`; it can be {possible}")]
    OptionValue {
        /// The option.
        name: &'static str,
        /// The value given.
        value: String,
        /// The possible values.
        possible: String,
    },
    /// The record for cleaning up after a kill could not be written, so nothing was begun.
    #[error("cannot use {path}: {error} (set PLIMSOLL_STATE to a folder of your own)", path = path.display())]
    State {
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        error: std::io::Error,
    },
}

fn versions(found: &[Installation]) -> String {
    let mut versions: Vec<String> = found.iter().map(|one| one.version.to_string()).collect();
    versions.sort();
    versions.dedup();
    versions.join(", ")
}

fn shown(folders: &[PathBuf]) -> String {
    let folders: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
    folders.join(", ")
}

/// Bytes for people: `4.2 GB`, `41 MB`, of 10^9 and 10^6.
pub(super) fn megabytes(bytes: u64) -> String {
    let bytes = bytes as f64;
    if bytes >= 1e9 { format!("{:.1} GB", bytes / 1e9) } else { format!("{:.0} MB", bytes / 1e6) }
}
