//! Why an experiment is not carried out, and whose fault that is.

use std::path::PathBuf;

use plimsoll_workload::database::DatabaseError;
use plimsoll_workload::driver::DriveError;
use plimsoll_workload::registry::BenchmarkError;

use crate::advise::verify::VerifyError;
use crate::capacity::DoesNotFit;
use crate::experiment::ExperimentError;
use crate::run_directory::RunDirectoryError;
use crate::runner::{RunError, SelectionError};

/// Whose fault an error is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The caller's: the request makes no sense, or asks for too much.
    Caller,
    /// The system's, the target's or a workload's.
    World,
    /// None: it was interrupted.
    Interruption,
}

/// Why an experiment is not carried out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExecutionError {
    /// The experiment file is wrong.
    #[error(transparent)]
    Experiment(#[from] ExperimentError),
    /// The requested part of it does not exist.
    #[error(transparent)]
    Selection(#[from] SelectionError),
    /// The requested workload does not exist.
    #[error(transparent)]
    Benchmark(#[from] BenchmarkError),
    /// The data is too large.
    #[error(transparent)]
    DoesNotFit(#[from] DoesNotFit),
    /// The advice cannot be verified.
    #[error(transparent)]
    Verify(#[from] VerifyError),
    /// Anything else that was requested and cannot be done.
    #[error("{0}")]
    Refused(String),
    /// The folder does not hold what it should.
    #[error(transparent)]
    Directory(#[from] RunDirectoryError),
    /// The folder for the results cannot be used.
    #[error("{0}; name another folder with --out")]
    Place(RunDirectoryError),
    /// The disk is full.
    #[error(transparent)]
    NoRoom(RunDirectoryError),
    /// A run failed, and nothing is kept.
    #[error(transparent)]
    Run(RunError),
    /// The results could not be checked.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// A run failed, or results could not be written, after some runs.
    #[error("{error}\nthe measurements are kept; when this is solved, continue with: plimsoll run --resume {}", place.display())]
    Resumable {
        /// What failed.
        error: String,
        /// The run directory.
        place: PathBuf,
    },
    /// Anything else that the system refused.
    #[error("{0}")]
    System(String),
    /// It was stopped by Ctrl-C.
    #[error("{0}")]
    Interrupted(String),
}

impl ExecutionError {
    /// Whose fault it is.
    pub fn fault(&self) -> Fault {
        match self {
            ExecutionError::Experiment(_)
            | ExecutionError::Selection(_)
            | ExecutionError::Benchmark(_)
            | ExecutionError::DoesNotFit(_)
            | ExecutionError::Verify(_)
            | ExecutionError::Refused(_)
            | ExecutionError::Directory(_)
            | ExecutionError::Place(_) => Fault::Caller,
            ExecutionError::Run(error) if is_wrong_request(error) => Fault::Caller,
            ExecutionError::Run(_)
            | ExecutionError::NoRoom(_)
            | ExecutionError::Database(_)
            | ExecutionError::Resumable { .. }
            | ExecutionError::System(_) => Fault::World,
            ExecutionError::Interrupted(_) => Fault::Interruption,
        }
    }

    /// Of a run that failed. `place` is the run directory, if it keeps the measurements so far.
    pub(crate) fn of_run(error: RunError, place: Option<PathBuf>) -> Self {
        match place {
            Some(place) if !is_wrong_request(&error) => ExecutionError::Resumable { error: error.to_string(), place },
            _ => ExecutionError::Run(error),
        }
    }

    /// Of a folder into which results were to be written: it is the wrong one, unless the disk is full.
    pub(crate) fn of_place(error: RunDirectoryError) -> Self {
        match error {
            lack if lack.is_lack_of_room() => ExecutionError::NoRoom(lack),
            exists @ RunDirectoryError::Exists(_) => ExecutionError::Directory(exists),
            other => ExecutionError::Place(other),
        }
    }
}

fn is_wrong_request(error: &RunError) -> bool {
    matches!(error, RunError::Run { error: DriveError::Options { .. }, .. })
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::path::Path;

    use super::*;

    #[test]
    fn a_folder_is_the_callers_fault_and_a_full_disk_the_worlds() {
        let check = |kind: io::ErrorKind, expect: (Fault, &str)| {
            let place = Path::new("out").to_owned();
            let error = ExecutionError::of_place(RunDirectoryError::Io { place, error: kind.into() });
            assert_eq!((error.fault(), error.to_string().as_str()), expect);
        };
        check(io::ErrorKind::StorageFull, (Fault::World, "out: no storage space"));
        let refused = "out: permission denied; name another folder with --out";
        check(io::ErrorKind::PermissionDenied, (Fault::Caller, refused));
        let exists = ExecutionError::of_place(RunDirectoryError::Exists(Path::new("out").to_owned()));
        assert_eq!(exists.fault(), Fault::Caller);
        assert_eq!(exists.to_string().matches("--out").count(), 1, "{exists}");
    }
}
