//! Why a cluster cannot be opened.

use std::path::PathBuf;

use plimsoll_export::ManifestError;
use plimsoll_machine::groups::{GroupError, OwnGroupError};
use plimsoll_workload::database::DatabaseError;

/// Why a cluster cannot be opened, or a worker not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterError {
    /// A folder or file cannot be used.
    #[error("cannot use {path}: {error}", path = path.display())]
    Path {
        /// Which.
        path: PathBuf,
        /// The system's error.
        error: std::io::Error,
    },
    /// A folder has no export.
    #[error("{} has no manifest.json, so it is no export; make one: plimsoll export", .0.display())]
    NoExport(PathBuf),
    /// The manifest.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// There is no secret.
    #[error(
        "workers that others can reach ask for a secret: set {} to 16 characters or more, the same for all, or name a file \
         that has it",
        crate::secret::SECRET
    )]
    NoSecret,
    /// The secret can be guessed, or cannot be in a header.
    #[error(
        "the secret must be 16 letters, digits and signs or more, without spaces, and has {0}; make one: openssl rand -hex 32"
    )]
    BadSecret(usize),
    /// A worker's process did not start.
    #[error("worker {number} cannot be started: {reason}")]
    Start {
        /// Its number, from 1.
        number: usize,
        /// Why.
        reason: String,
    },
    /// Its cores cannot be limited.
    #[error("cores={cores}: the cores of a worker cannot be limited: {reason}; leave the option out")]
    Limit {
        /// As asked.
        cores: f64,
        /// Why.
        reason: String,
    },
    /// A worker does not answer.
    #[error(
        "the worker at {address} does not answer ({reason}); start it there: plimsoll worker --listen {address} --data DIR"
    )]
    Unreachable {
        /// Where.
        address: String,
        /// The last error.
        reason: String,
    },
    /// Certificates or a key cannot be used.
    #[error("{}: {reason}", .path.display())]
    Certificates {
        /// The file.
        path: PathBuf,
        /// Why, with the remedy.
        reason: String,
    },
    /// A worker's certificate does not pass.
    #[error("the worker at {address} is not trusted, and gets no secret: {reason}; {remedy}")]
    Untrusted {
        /// Where.
        address: String,
        /// What is wrong with the certificate.
        reason: String,
        /// What to do.
        remedy: &'static str,
    },
    /// A worker wants TLS, and this process has no authority to trust.
    #[error(
        "the worker at {0} encrypts its connections; name the file of the authority that has signed its certificate: \
         ?tls_ca=FILE, and `--tls-ca FILE` for workers"
    )]
    Encrypted(String),
    /// This process wants TLS, and a worker has none.
    #[error(
        "the worker at {0} does not encrypt its connections, so it gets no secret; start it with --tls-cert, --tls-key and \
         --tls-ca, or leave them and tls_ca out everywhere"
    )]
    Plain(String),
    /// A worker has another secret.
    #[error("the worker at {0} has another secret; set {secret} to the same for all", secret = crate::secret::SECRET)]
    Refused(String),
    /// A worker is of another version.
    #[error(
        "the worker at {address} is {found}, and this program is {own}; plans are only understood by the same version"
    )]
    Version {
        /// Where.
        address: String,
        /// Its version.
        found: String,
        /// Ours.
        own: String,
    },
    /// A worker has other data.
    #[error("the worker at {address} has {found}, and the export here has {own}; copy the same export to all of them")]
    OtherData {
        /// Where.
        address: String,
        /// What its manifest is.
        found: String,
        /// What ours is.
        own: String,
    },
    /// The threads of the coordinator.
    #[error("cannot start threads: {0}")]
    Threads(std::io::Error),
    /// An error of the engine in words.
    #[error("{0}")]
    Engine(String),
}

impl From<OwnGroupError> for ClusterError {
    fn from(error: OwnGroupError) -> Self {
        ClusterError::Engine(error.to_string())
    }
}

impl From<GroupError> for ClusterError {
    fn from(error: GroupError) -> Self {
        ClusterError::Engine(error.to_string())
    }
}

/// What the user of the database sees of another error.
pub(crate) fn failed(why: impl std::fmt::Display) -> DatabaseError {
    DatabaseError::Failed(why.to_string())
}
