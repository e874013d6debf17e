//! The folder of an experiment: the experiment, its state so far, and at the end its results.
//!
//! `experiment.toml`, `machine.json` and `journal.jsonl` are written first, so that a run that is killed can be
//! resumed. `samples.parquet`, `requests.hdr`, `report.html` and finally `results.json` get their names only when all
//! of them are complete and on disk, and an earlier `results.json` is removed first. A folder that has one therefore
//! has all files, of the runs that were done when it was written, even after a kill or a loss of power.

pub(crate) mod disk;

use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

use plimsoll_machine::MachineFacts;
use plimsoll_workload::file::WorkloadFile;
use serde::Serialize;

use crate::histograms::{LoggedRun, write_log};
use crate::journal::{Journal, JournalContents, JournalError, JournalHeader};
use crate::record::RunRecord;
use crate::report::{self, ReportInput};
use crate::results::{FORMAT, Results};
use crate::samples;
use disk::{Disk, Partials, RealDisk, StepError, sync_folder};

/// Names of the files that are written first.
pub(crate) const EXPERIMENT: &str = "experiment.toml";
const MACHINE: &str = "machine.json";
const JOURNAL: &str = "journal.jsonl";
/// The file that shows that all others are written.
const RESULTS: &str = "results.json";
const REPORT: &str = "report.html";
const SAMPLES: &str = "samples.parquet";
const REQUESTS: &str = "requests.hdr";

/// The folder into which an experiment is run.
#[derive(Debug)]
pub struct RunDirectory {
    place: PathBuf,
    journal: Journal,
    /// Whether it holds anything that a resumed run could use.
    is_worth_keeping: bool,
    /// Whether the folder itself was created for it.
    is_made: bool,
    /// The files of workloads in it, relative to the folder.
    kept: Vec<PathBuf>,
    disk: Box<dyn Disk>,
}

/// An experiment that was begun, as found in its folder.
#[derive(Debug)]
pub struct StoredExperiment {
    /// The directory, in which the experiment can continue.
    pub directory: RunDirectory,
    /// Its identity.
    pub header: JournalHeader,
    /// The experiment file.
    pub text: String,
    /// Finished runs, in the order they ran.
    pub records: Vec<RunRecord>,
    /// Warnings about the state in which it was found.
    pub warnings: Vec<String>,
}

/// Why results cannot be kept or found.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunDirectoryError {
    /// The folder exists and is not empty.
    #[error("{} exists and is not empty; name another folder with --out", .0.display())]
    Exists(PathBuf),
    /// The folder holds no experiment.
    #[error("{} is not a run directory: it has no {missing}", place.display())]
    NotARun {
        /// The folder.
        place: PathBuf,
        /// The file that is missing.
        missing: &'static str,
    },
    /// The journal cannot be read or written.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The results were not written by this program.
    #[error("{}: not the results of a run: {error}", place.display())]
    Results {
        /// The file.
        place: PathBuf,
        /// The message of the parser.
        error: String,
    },
    /// A later version wrote the results.
    #[error("{}: written in format {format}, and this program knows format {FORMAT}; use plimsoll {version} or later", place.display())]
    Newer {
        /// The file.
        place: PathBuf,
        /// Its format.
        format: u64,
        /// The version that wrote it.
        version: String,
    },
    /// An earlier version wrote the results.
    #[error("{}: written in format {format}, and this program reads format {FORMAT}; use plimsoll {version}, or run the experiment again", place.display())]
    Older {
        /// The file.
        place: PathBuf,
        /// Its format.
        format: u64,
        /// The version that wrote it.
        version: String,
    },
    /// An I/O error.
    #[error("{}: {error}", place.display())]
    Io {
        /// The file or folder.
        place: PathBuf,
        /// Why.
        error: io::Error,
    },
}

impl RunDirectoryError {
    /// Whether the disk was full, so that another folder on the same disk would not help.
    pub fn is_lack_of_room(&self) -> bool {
        let (RunDirectoryError::Io { error, .. } | RunDirectoryError::Journal(JournalError::Io { error, .. })) = self
        else {
            return false;
        };
        matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge)
    }
}

impl RunDirectory {
    /// Whether a folder for results can be made at `place`, for callers with long work to do before the first result.
    /// Creates at most its parent folders.
    pub fn check_place(place: &Path) -> Result<(), RunDirectoryError> {
        if is_missing(place)? {
            let made = fs::create_dir_all(place).and_then(|()| fs::remove_dir(place));
            made.map_err(|error| RunDirectoryError::Io { place: place.to_owned(), error })?;
        }
        Ok(())
    }

    /// Makes sure that results can be written to `place`, before anything is measured, and writes the experiment and
    /// the machine.
    pub fn create(
        place: &Path,
        text: &str,
        machine: &MachineFacts,
        header: &JournalHeader,
    ) -> Result<Self, RunDirectoryError> {
        let is_made = is_missing(place)?;
        let made = fs::create_dir_all(place).and_then(|()| place.parent().map_or(Ok(()), sync_folder));
        made.map_err(|error| RunDirectoryError::Io { place: place.to_owned(), error })?;
        let journal = Journal::create(&place.join(JOURNAL), header);
        let journal = journal.map_err(|error| match error {
            // Another process has just created it: the folder and its contents belong to that process.
            JournalError::Io { error, .. } if error.kind() == ErrorKind::AlreadyExists => {
                RunDirectoryError::Exists(place.to_owned())
            }
            error => {
                remove(place, is_made);
                error.into()
            }
        })?;
        let directory = RunDirectory::of(place, journal, is_made);
        write(place, EXPERIMENT, |file| file.write_all(text.as_bytes()))?;
        write(place, MACHINE, |file| write_json(file, machine))?;
        Ok(directory)
    }

    fn of(place: &Path, journal: Journal, is_made: bool) -> Self {
        let (place, disk) = (place.to_owned(), Box::new(RealDisk));
        RunDirectory { place, journal, is_worth_keeping: false, is_made, kept: Vec::new(), disk }
    }

    /// Keeps the files of workloads beside the experiment's text, so that it can be resumed and run again from here.
    pub fn keep_files(&mut self, files: &[WorkloadFile]) -> Result<(), RunDirectoryError> {
        for WorkloadFile { path, text } in files {
            let place = self.place.join(path);
            self.kept.push(path.clone());
            let folder = place.parent().unwrap_or(&self.place);
            let write = || {
                fs::create_dir_all(folder)?;
                let mut file = File::create(&place)?;
                file.write_all(text.as_bytes())?;
                file.sync_all()?;
                sync_folder(folder)
            };
            write().map_err(|error| RunDirectoryError::Io { place: place.clone(), error })?;
        }
        Ok(())
    }

    /// Finds an experiment that was begun.
    pub fn open(place: &Path) -> Result<StoredExperiment, RunDirectoryError> {
        for missing in [EXPERIMENT, JOURNAL] {
            if !place.join(missing).is_file() {
                return Err(RunDirectoryError::NotARun { place: place.to_owned(), missing });
            }
        }
        let experiment = place.join(EXPERIMENT);
        let text = fs::read_to_string(&experiment);
        let text = text.map_err(|error| RunDirectoryError::Io { place: experiment, error })?;
        // The results of a later version must not be overwritten.
        if let Err(error @ RunDirectoryError::Newer { .. }) = read_results(place) {
            return Err(error);
        }
        let JournalContents { journal, header, records, torn } = Journal::open(&place.join(JOURNAL))?;
        let mut warnings = Vec::new();
        if torn > 0 {
            warnings.push(format!("the last line of {JOURNAL} was torn ({torn} bytes); its run ran again"));
        }
        let mut directory = RunDirectory::of(place, journal, false);
        directory.is_worth_keeping = true;
        Ok(StoredExperiment { directory, header, text, records, warnings })
    }

    /// Whether it holds a finished run.
    pub fn has_runs(&self) -> bool {
        self.is_worth_keeping
    }

    /// The folder.
    pub fn place(&self) -> &Path {
        &self.place
    }

    /// Keeps a finished run; it is on disk when this returns.
    pub fn keep(&mut self, record: &RunRecord) -> Result<(), RunDirectoryError> {
        self.journal.append(record)?;
        self.is_worth_keeping = true;
        Ok(())
    }

    /// Writes the results. Returns the paths of the files, those for people first.
    pub fn finish(&mut self, results: &Results, records: &[RunRecord]) -> Result<Vec<PathBuf>, RunDirectoryError> {
        self.is_worth_keeping = true;
        let runs = records.iter().map(|record| LoggedRun {
            at_s: record.point.at_s,
            window_s: record.point.window_s,
            workloads: &record.histograms,
        });
        let runs = runs.collect::<Vec<_>>();
        // All are written before any is renamed, so that a full disk leaves the earlier files intact.
        let mut files = Partials::new(&*self.disk, &self.place);
        files.write(SAMPLES, |file| samples::write(file, results, records))?;
        files.write(REQUESTS, |file| write_log(file, &runs))?;
        files.write(REPORT, |file| file.write_all(report::render(ReportInput::new(results, records)).as_bytes()))?;
        files.write(RESULTS, |file| write_json(file, results))?;
        files.name_all(RESULTS)?;
        let names = [REPORT, RESULTS, SAMPLES, REQUESTS, MACHINE];
        Ok(names.iter().map(|name| self.place.join(name)).collect())
    }
}

impl From<StepError> for RunDirectoryError {
    fn from((place, error): StepError) -> Self {
        RunDirectoryError::Io { place, error }
    }
}

/// Whether the folder does not exist; a folder that is not empty is refused.
fn is_missing(place: &Path) -> Result<bool, RunDirectoryError> {
    match fs::read_dir(place).map(|mut entries| entries.next().is_some()) {
        Ok(true) => Err(RunDirectoryError::Exists(place.to_owned())),
        Ok(false) => Ok(false),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(true),
        Err(error) => Err(RunDirectoryError::Io { place: place.to_owned(), error }),
    }
}

/// Writes one file of a run's folder.
fn write(
    folder: &Path,
    name: &'static str,
    write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> Result<(), RunDirectoryError> {
    let mut file = Partials::new(&RealDisk, folder);
    file.write(name, write)?;
    Ok(file.name_all(name)?)
}

impl Drop for RunDirectory {
    fn drop(&mut self) {
        if !self.is_worth_keeping {
            for file in &self.kept {
                let _ = fs::remove_file(self.place.join(file));
                // The folders that contain it, from the inside out, as far as they are empty; the outermost is "".
                for folder in file.ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty()) {
                    let _ = fs::remove_dir(self.place.join(folder));
                }
            }
            remove(&self.place, self.is_made);
        }
    }
}

/// Removes a folder in which nothing was measured, unless it existed before. Nothing more can be done about a failure.
fn remove(place: &Path, is_made: bool) {
    for name in [EXPERIMENT, MACHINE, JOURNAL] {
        let _ = fs::remove_file(place.join(name));
    }
    if is_made {
        let _ = fs::remove_dir(place);
    }
}

/// The results in a run's folder.
pub fn read_results(place: &Path) -> Result<Results, RunDirectoryError> {
    let file = place.join(RESULTS);
    let text = match fs::read(&file) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Err(RunDirectoryError::NotARun { place: place.to_owned(), missing: RESULTS });
        }
        Err(error) => return Err(RunDirectoryError::Io { place: file, error }),
    };
    let bad = |error: serde_json::Error| RunDirectoryError::Results { place: file.clone(), error: error.to_string() };
    let anything: serde_json::Value = serde_json::from_slice(&text).map_err(bad)?;
    // A document without a format is refused for its missing keys.
    let format = anything["format"].as_u64().unwrap_or(u64::from(FORMAT));
    if format > u64::from(FORMAT) {
        let version = anything["plimsoll"].as_str().unwrap_or("of a later version").to_owned();
        return Err(RunDirectoryError::Newer { place: file, format, version });
    }
    if format < u64::from(FORMAT) {
        let version = anything["plimsoll"].as_str().unwrap_or("of an earlier version").to_owned();
        return Err(RunDirectoryError::Older { place: file, format, version });
    }
    serde_json::from_value(anything).map_err(bad)
}

/// The input of a report of a run's folder. If the folder has lost its journal, the report lacks the sections that need
/// the seconds of its runs.
pub fn read_report_input(place: &Path) -> Result<ReportInput<'static>, RunDirectoryError> {
    let results = read_results(place)?;
    let records = match Journal::read(&place.join(JOURNAL)) {
        Err(JournalError::Io { error, .. }) if error.kind() == ErrorKind::NotFound => Vec::new(),
        found => found?,
    };
    Ok(ReportInput::owned(results, records))
}

/// Writes the report again from a run's folder, and returns its path.
pub fn rewrite_report(place: &Path) -> Result<PathBuf, RunDirectoryError> {
    let source = read_report_input(place)?;
    write(place, REPORT, |file| file.write_all(report::render(&source).as_bytes()))?;
    Ok(place.join(REPORT))
}

/// Writes the results and their report again with additions that were made after they were complete. Both are written
/// before either is renamed, `results.json` last.
pub fn amend(place: &Path, results: &Results) -> Result<(), RunDirectoryError> {
    let records = read_report_input(place)?.records;
    let mut files = Partials::new(&RealDisk, place);
    files.write(REPORT, |file| file.write_all(report::render(ReportInput::new(results, &records)).as_bytes()))?;
    files.write(RESULTS, |file| write_json(file, results))?;
    Ok(files.name_all(RESULTS)?)
}

fn write_json(file: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer_pretty(file, value).map_err(io::Error::from)
}

#[cfg(test)]
mod tests;
