//! Counts of a simulated processor, where the kernel sees no counters in the real one.
//!
//! Valgrind runs a program on a simulated processor, some 50 times slower. Its tool Callgrind passes every access to
//! memory through two levels of caches and every branch through a predictor, both as simple as those of Cachegrind. What it
//! counts is the same on every machine: instructions, misses and mispredictions, never cycles or slots. Speeds of a program
//! under it mean nothing.
//!
//! A [`Simulator`] gives the words that start a program under it. If counting begins [switched off](Counting::Switched),
//! loading data costs five times as long as without, not fifty; [`Simulator::switch`] turns it on and off, and
//! [`Simulator::take`] reads the counts. Copies of a process, as the sessions of a server are, cannot be told: they count
//! [from their start](Counting::FromStart), and leave their counts at their end ([`left_by`]). Caches are cold when counting
//! begins, so let some requests pass before those that are counted.

mod counts;
mod shape;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, io};

use serde::{Deserialize, Serialize};

use crate::facts::Cache;
pub use counts::SimulatedCounts;
pub use shape::{CacheShape, SimulatedCaches};

/// How to get the programs.
const REMEDY: &str = "install Valgrind (apt install valgrind)";

/// Seconds until a process has obeyed. One that waits in the kernel is woken, which takes milliseconds.
const OBEYS_WITHIN_S: u32 = 60;

/// Valgrind on this machine, with caches as large as the machine's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Simulator {
    /// Its version, such as `valgrind-3.19.0`.
    pub version: String,
    /// The simulated caches.
    pub caches: SimulatedCaches,
}

/// When counting begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counting {
    /// When it is [switched](Simulator::switch) on.
    Switched,
    /// With the process.
    FromStart,
}

/// What a process that is simulated can be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Switch {
    /// Caches and counts begin, empty.
    On,
    /// Counts begin again; caches stay as they are.
    Zero,
    /// Nothing is counted any more.
    Off,
}

impl Switch {
    fn words(self) -> &'static str {
        match self {
            Switch::On => "instrumentation on",
            Switch::Zero => "zero",
            Switch::Off => "instrumentation off",
        }
    }
}

/// Why nothing is simulated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SimulatorError {
    /// A program is missing.
    #[error("{program} cannot be run ({error}); {REMEDY}")]
    Program {
        /// Its name.
        program: &'static str,
        /// The system's words.
        error: io::Error,
    },
    /// The folder in which simulated processes are reached.
    #[error("{}: {error}", path.display())]
    Folder {
        /// The path.
        path: PathBuf,
        /// The system's words.
        error: io::Error,
    },
    /// A process did not obey.
    #[error("process {process} cannot be told \"{command}\": {said}")]
    Command {
        /// The process.
        process: i32,
        /// What it was told.
        command: String,
        /// What `vgdb` said.
        said: String,
    },
    /// Counts in an unknown form.
    #[error("{}: {why}", path.display())]
    Counts {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
}

impl Simulator {
    /// Looks for the programs, and takes the shapes of caches from those of the machine.
    pub fn find(caches: &[Cache]) -> Result<Simulator, SimulatorError> {
        let version = version_of("valgrind")?;
        version_of("vgdb")?;
        Ok(Simulator { version, caches: SimulatedCaches::like(caches) })
    }

    /// The words before a program and its arguments. `folder` is one of [`folder`].
    pub fn command(&self, folder: &Path, counting: Counting) -> Vec<OsString> {
        let SimulatedCaches { code, data, last, .. } = &self.caches;
        let path = |option: &str, file: &str| {
            let mut word = OsString::from(option);
            word.push(folder.join(file));
            word
        };
        let words = [
            "valgrind",
            "--tool=callgrind",
            "--quiet",
            "--cache-sim=yes",
            "--branch-sim=yes",
            match counting {
                Counting::Switched => "--instr-atstart=no",
                Counting::FromStart => "--instr-atstart=yes",
            },
            // Threads take turns fairly, so that one that waits by spinning does not keep the others from their work.
            "--fair-sched=try",
        ];
        let shapes = [format!("--I1={code}"), format!("--D1={data}"), format!("--LL={last}")];
        let paths = [path("--vgdb-prefix=", PIPES), path("--callgrind-out-file=", "counts.%p")];
        words.into_iter().map(OsString::from).chain(shapes.map(OsString::from)).chain(paths).collect()
    }

    /// Tells a process of this user, with the same environment.
    pub fn switch(&self, folder: &Path, process: i32, switch: Switch) -> Result<(), SimulatorError> {
        tell(folder, process, switch.words())
    }

    /// The counts of a process since they began, which then begin again.
    pub fn take(&self, folder: &Path, process: i32) -> Result<SimulatedCounts, SimulatorError> {
        tell(folder, process, "dump")?;
        let path = newest_dump(folder, process).map_err(|error| of_folder(folder, error))?;
        let text = fs::read_to_string(&path).map_err(|error| of_folder(&path, error))?;
        SimulatedCounts::parse(&text).map_err(|why| SimulatorError::Counts { path, why })
    }
}

/// The name before those of the pipes through which processes are told.
const PIPES: &str = "pipe";

/// A new folder in which simulated processes, of this user or of others, are told and leave their counts. It is removed
/// when dropped.
pub fn folder() -> Result<tempfile::TempDir, SimulatorError> {
    let folder = tempfile::tempdir().map_err(|error| of_folder(&std::env::temp_dir(), error))?;
    // As /tmp is: a server runs as another user, and has files of its own here.
    let open = fs::Permissions::from_mode(0o1777);
    fs::set_permissions(folder.path(), open).map_err(|error| of_folder(folder.path(), error))?;
    Ok(folder)
}

fn of_folder(path: &Path, error: io::Error) -> SimulatorError {
    SimulatorError::Folder { path: path.to_owned(), error }
}

fn version_of(program: &'static str) -> Result<String, SimulatorError> {
    let said = Command::new(program).arg("--version").stdin(Stdio::null()).output();
    let said = said.map_err(|error| SimulatorError::Program { program, error })?;
    Ok(String::from_utf8_lossy(&said.stdout).trim().to_owned())
}

/// How long a process that ends may take to write its counts.
const LEAVES_WITHIN: Duration = Duration::from_secs(60);

/// The counts that a process which counted from its start has left at its end. Waits for them.
pub fn left_by(folder: &Path, process: i32) -> Result<SimulatedCounts, SimulatorError> {
    let path = folder.join(format!("counts.{process}"));
    let began = Instant::now();
    loop {
        let found = fs::read_to_string(&path).map_err(|error| error.to_string());
        // A file that is not there yet, or has no sums yet, is being written.
        match found.and_then(|text| SimulatedCounts::parse(&text)) {
            Ok(counts) => return Ok(counts),
            Err(why) if began.elapsed() > LEAVES_WITHIN => return Err(SimulatorError::Counts { path, why }),
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}

fn tell(folder: &Path, process: i32, words: &str) -> Result<(), SimulatorError> {
    let mut prefix = OsString::from("--vgdb-prefix=");
    prefix.push(folder.join(PIPES));
    let mut vgdb = Command::new("vgdb");
    vgdb.arg(prefix).args([format!("--pid={process}"), format!("--cmd-time-out={OBEYS_WITHIN_S}")]);
    let said = vgdb.args(words.split(' ')).stdin(Stdio::null()).output();
    let said = said.map_err(|error| SimulatorError::Program { program: "vgdb", error })?;
    let text = String::from_utf8_lossy(&said.stdout) + String::from_utf8_lossy(&said.stderr);
    if said.status.success() && !text.contains("error") {
        return Ok(());
    }
    let said = text.lines().next().unwrap_or("it said nothing").to_owned();
    Err(SimulatorError::Command { process, command: words.to_owned(), said })
}

/// The file of the last dump of a process: `counts.PID.N` with the largest N.
fn newest_dump(folder: &Path, process: i32) -> io::Result<PathBuf> {
    let start = format!("counts.{process}.");
    let number = |name: &str| name.strip_prefix(&start)?.parse::<u32>().ok();
    let mut newest = None;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let found = entry.file_name().to_str().and_then(number);
        newest = newest.max(found.map(|number| (number, entry.path())));
    }
    newest.map(|(_, path)| path).ok_or_else(|| io::Error::other(format!("process {process} has left no counts here")))
}
