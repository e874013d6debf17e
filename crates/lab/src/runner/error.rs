//! Why runs cannot be made.

use plimsoll_workload::database::DatabaseError;
use plimsoll_workload::driver::DriveError;
use plimsoll_workload::registry::BenchmarkError;

use super::store::StoreError;
use crate::limits::LimitsError;

/// Why an experiment cannot continue. The caller has received the earlier runs.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// A run failed.
    #[error("{run}: {error}")]
    Run {
        /// Setting, arm and repeat.
        run: String,
        /// The error.
        error: DriveError,
    },
    /// The database could not show queries the changes of the run before.
    #[error("before {run}: {error}")]
    Refresh {
        /// Setting, arm and repeat.
        run: String,
        /// The error of the database.
        error: DatabaseError,
    },
    /// A limit of the machine could not be put in force, or not be lifted.
    #[error("before {run}: {error}")]
    Limits {
        /// Setting, arm and repeat.
        run: String,
        /// Why.
        error: LimitsError,
    },
    /// A setting cannot be simulated. Plans are checked, so this is an error in this program, unless a plan has too
    /// many settings to check.
    #[error("{run}: {why}")]
    Simulation {
        /// Setting, arm and repeat.
        run: String,
        /// Why.
        why: String,
    },
    /// The data could not be loaded.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The benchmark does not exist. Plans are checked, so this is an error in this program.
    #[error(transparent)]
    Benchmark(#[from] BenchmarkError),
    /// A finished run could not be kept.
    #[error("a finished run could not be kept: {0}")]
    Keep(String),
}

impl RunError {
    /// The error without the run's name, for the record of that run.
    pub(super) fn reason(&self) -> String {
        match self {
            RunError::Run { error, .. } => error.to_string(),
            RunError::Refresh { error, .. } => error.to_string(),
            RunError::Limits { error, .. } => error.to_string(),
            other => other.to_string(),
        }
    }

    /// Whether the server is gone or has ended a session, which is not the fault of the run.
    pub fn is_server_lost(&self) -> bool {
        match self {
            RunError::Run { error, .. } => error.is_server_lost(),
            RunError::Refresh { error, .. }
            | RunError::Store(StoreError::Load { error, .. } | StoreError::Option { error, .. }) => {
                error.is_server_lost()
            }
            _ => false,
        }
    }
}
