//! The workers that are started for a run: processes of this program.
//!
//! A worker ends when its input ends, which the kernel sees to however this process ends. What it spills has no names, and
//! all processes of the run remove its folder.

use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use plimsoll_machine::groups::{GroupFolder, OwnGroup, quota};
use plimsoll_machine::host::Host;
use plimsoll_machine::limiter::default_state_folder;
use plimsoll_machine::process_identity::ProcessIdentity;
use serde::{Deserialize, Serialize};
use url::Url;

use crate::error::ClusterError;
use crate::options::ClusterOptions;
use crate::secret::{SECRET, Secret};

/// How long a worker may take to end after its input has, in steps of [`END_STEP`].
const END_STEPS: usize = 200;
const END_STEP: Duration = Duration::from_millis(10);

/// The line that a worker writes when it listens, or cannot.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkerLine {
    /// It answers.
    Ready {
        /// At this address.
        address: String,
        /// The kernel's numbers of the threads that run its parts of plans.
        threads: Vec<i32>,
    },
    /// Why it does not.
    Failed(String),
}

/// How workers are started.
#[derive(Debug)]
pub struct Starter {
    /// This program, which has the command `worker`.
    program: PathBuf,
    options: ClusterOptions,
    /// The folder below which plans name files.
    store: PathBuf,
    /// The folder that the last of us removes; `None` if the run has none.
    remove: Option<PathBuf>,
    secret: Secret,
}

/// A worker that was started. Dropping it ends it.
#[derive(Debug)]
pub struct Process {
    child: Child,
    /// Its input, whose end ends it.
    input: Option<ChildStdin>,
    /// Where it answers.
    pub url: Url,
    /// The kernel's numbers of the threads that run its parts of plans.
    pub threads: Vec<i32>,
    /// Its group, if its cores are limited.
    group: Option<OwnGroup>,
}

impl Starter {
    pub fn new(
        program: &Path,
        options: &ClusterOptions,
        store: &Path,
        remove: Option<&Path>,
        secret: Secret,
    ) -> Starter {
        let (program, store, remove) = (program.to_owned(), store.to_owned(), remove.map(Path::to_owned));
        Starter { program, options: options.clone(), store, remove, secret }
    }

    /// Starts the worker of this number, from 0, and waits until it listens.
    pub fn start(&self, number: usize) -> Result<Process, ClusterError> {
        let failed = |reason: String| ClusterError::Start { number: number + 1, reason };
        let mut child = self.spawn().map_err(|error| failed(error.to_string()))?;
        let (input, output) = (child.stdin.take(), child.stdout.take().expect("it was piped"));
        // From here on the process is ended by dropping it.
        let mut process = Process {
            child,
            input,
            url: Url::parse("http://127.0.0.1").expect("it is one"),
            threads: Vec::new(),
            group: None,
        };
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line).map_err(|error| failed(error.to_string()))?;
        process.url = match serde_json::from_str(&line) {
            Ok(WorkerLine::Ready { address, threads }) => {
                process.threads = threads;
                Url::parse(&format!("http://{address}")).map_err(|error| failed(format!("{address}: {error}")))?
            }
            Ok(WorkerLine::Failed(reason)) => return Err(failed(reason)),
            Err(_) => return Err(failed("it has ended without a message".to_owned())),
        };
        if let Some(cores) = self.options.cores {
            process.group = Some(limit(&process, number, cores)?);
        }
        Ok(process)
    }

    /// A process has the share of the thread that starts it. A thread cannot take a larger one again, so it is one of its own.
    fn spawn(&self) -> io::Result<Child> {
        let start = || self.options.query_share.give_to_own_thread().and_then(|()| self.command().spawn());
        thread::scope(|scope| scope.spawn(start).join().expect("it does not panic"))
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(["worker", "--until-input-ends", "--listen", "127.0.0.1:0"]);
        command.arg("--data").arg(&self.store).arg("--folder").arg(&self.options.folder);
        command.args(["--dop", &self.options.dop.to_string()]);
        if let Some(mebibytes) = self.options.memory_mib {
            command.args(["--memory-mib", &mebibytes.to_string()]);
        }
        if let Some(folder) = &self.remove {
            command.arg("--remove").arg(folder);
        }
        command.env(SECRET, self.secret.text()).stdin(Stdio::piped()).stdout(Stdio::piped());
        command
    }
}

/// Puts a worker into a group with a quota.
fn limit(process: &Process, number: usize, cores: f64) -> Result<OwnGroup, ClusterError> {
    let limited = || -> Result<OwnGroup, ClusterError> {
        let host = Host::real();
        let name = format!("worker-{number}");
        let group = quota::make(&host, &default_state_folder(), ProcessIdentity::own(), &name, cores)?;
        let id = process.id();
        let worker = ProcessIdentity::of(&host, id).ok_or(plimsoll_machine::groups::GroupError::Ended(id))?;
        GroupFolder::at(&host, group.folder())?.take(&host, worker)?;
        Ok(group)
    };
    limited().map_err(|error| ClusterError::Limit { cores, reason: error.to_string() })
}

impl Process {
    /// Its number in the kernel.
    pub fn id(&self) -> i32 {
        self.child.id().cast_signed()
    }

    /// Ends it at once, for it answers no more.
    pub fn kill(&mut self) {
        // One that has ended cannot be killed, which is as well.
        let _ = self.child.kill();
    }

    /// How it ended; `None` if it runs.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.input = None;
        for _ in 0..END_STEPS {
            match self.child.try_wait() {
                Ok(None) => thread::sleep(END_STEP),
                _ => return,
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
