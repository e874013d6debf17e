//! Experiments on a database in memory, from the plan to the files.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use plimsoll_workload::database::Database;
use plimsoll_workload::memory::MemoryDatabase;
use tempfile::{TempDir, tempdir};

use super::*;
use crate::program::{Build, Reporter};
use crate::targets::Target;

/// One workload, two short runs, and a claim that holds.
pub(crate) const SMALL: &str = "name = \"small\"\n[target]\nurl = \"memory:\"\n\
    [[workload]]\nname = \"w\"\nkind = \"rows\"\nscale = 0.001\nparameters = { rows = 1, updates = 0 }\n\
    [run]\nwarmup = \"0s\"\nmeasure = \"20ms\"\nrepeats = 2\nothers_max = 1000\n\
    [[claim]]\ntext = \"it runs\"\nholds = \"throughput(w) > 0\"\n";

/// The sources of the program of tests.
pub(crate) static SOURCES: [(&str, &str); 3] = [("lab/runner", "1"), ("workload/driver", "2"), ("workload/rows", "3")];

/// A database in this process for every URL.
struct Memory;

impl Targets for Memory {
    fn target(&self, _: &str, _: &BTreeMap<String, String>) -> Result<Box<dyn Target>, String> {
        Ok(Box::new(Memory))
    }

    fn option_names(&self, _: &str) -> Vec<&'static str> {
        Vec::new()
    }
}

impl Target for Memory {
    fn open(&self) -> Result<Box<dyn Database>, String> {
        Ok(Box::new(MemoryDatabase::new()))
    }
}

/// A program that notes its messages, and whose user presses Ctrl-C as soon as run `stop_in` is under way.
#[derive(Default)]
pub(crate) struct TestProgram {
    stop: AtomicBool,
    stop_in: Option<usize>,
    told: Mutex<Vec<String>>,
}

impl TestProgram {
    pub(crate) fn stopping_in(run: usize) -> Self {
        TestProgram { stop_in: Some(run), ..TestProgram::default() }
    }

    pub(crate) fn program(&self) -> Program<'_> {
        self.built(Build { version: "1", commit: Some("first"), sources: &SOURCES })
    }

    fn built(&self, build: Build) -> Program<'_> {
        let (hog, counting, state_folder) = (Vec::new(), Vec::new(), None);
        Program { targets: &Memory, build, hog, counting, state_folder, stop: &self.stop, reporter: self }
    }

    pub(crate) fn told(&self) -> String {
        self.told.lock().expect("no thread panicked").join("\n")
    }
}

impl Reporter for TestProgram {
    fn step(&self, step: RunProgress<'_>, _: &Plan) {
        if let RunProgress::Running { done, .. } = step
            && self.stop_in == Some(done)
        {
            self.stop.store(true, Ordering::Relaxed);
        }
    }

    fn activity(&self, _: &str) {}

    fn clear(&self) {}

    fn tell(&self, message: &str) {
        self.told.lock().expect("no thread panicked").push(message.to_owned());
    }
}

fn execution(text: &str, request: Request) -> Result<Execution, ExecutionError> {
    Execution::of_file(&parse(text, "small.toml")?, request, &Memory)
}

fn small() -> Execution {
    execution(SMALL, Request::default()).unwrap_or_else(|error| panic!("{error}"))
}

/// The folder of an experiment of which one of two runs is done.
fn half_done() -> TempDir {
    let folder = tempdir().expect("a folder");
    let stopped = small().begin(folder.path(), &TestProgram::stopping_in(0).program());
    let stopped = stopped.unwrap_or_else(|error| panic!("{error}"));
    assert!(stopped.stopped && stopped.results.runs_left == 1, "{:?}", stopped.results.warnings);
    folder
}

#[test]
fn an_experiment_is_announced_run_and_written() {
    let (folder, user) = (tempdir().expect("a folder"), TestProgram::default());
    let done = small().begin(folder.path(), &user.program()).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((done.results.points.len(), done.stopped, done.has_failed()), (2, false, false));
    assert_eq!(done.results.commit.as_deref(), Some("first"));
    assert!(done.files.iter().all(|file| file.is_file()), "{:?}", done.files);
    assert_eq!(user.told(), "small: 2 runs, about 0 s without loading");
    let again = small().begin(folder.path(), &user.program()).expect_err("the folder is not empty");
    assert_eq!(again.fault(), Fault::Caller);
    assert!(again.to_string().contains("is not empty; name another folder with --out"), "{again}");
}

#[test]
fn a_stopped_experiment_is_continued_by_another_build() {
    let folder = half_done();
    let (user, build) = (TestProgram::default(), Build { version: "2", commit: Some("second"), sources: &SOURCES });
    let done = resume(folder.path(), &user.built(build)).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((done.results.points.len(), done.results.runs_left), (2, 0));
    let warnings = done.results.warnings.join("\n");
    let builds = "the first 1 runs were made by another build (first) than the rest (second)";
    assert!(warnings.contains("resumed after 1 runs") && warnings.contains(builds), "{warnings}");
    // With nothing left to run, the results stay those of the build that began them.
    let judged = resume(folder.path(), &user.built(build)).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(judged.results.commit.as_deref(), Some("first"));
}

#[test]
fn what_was_changed_is_not_continued() {
    let folder = half_done();
    let refused = |file: &str, from: &str, to: &str| {
        let path = folder.path().join(file);
        let before = fs::read_to_string(&path).expect("it was written");
        fs::write(&path, before.replacen(from, to, 1)).expect("it is ours");
        let error = resume(folder.path(), &TestProgram::default().program()).expect_err("it was changed");
        assert_eq!(error.fault(), Fault::Caller);
        fs::write(&path, before).expect("it is ours");
        error.to_string()
    };
    let settings = refused("experiment.toml", "20ms", "30ms");
    assert!(settings.contains("its experiment.toml was changed after the start"), "{settings}");
    let machine = refused("journal.jsonl", "\"machine_fingerprint\":\"", "\"machine_fingerprint\":\"other ");
    assert!(machine.contains("it was started on another machine"), "{machine}");
    assert!(resume(folder.path(), &TestProgram::default().program()).is_ok(), "as it was");
}

#[test]
fn nothing_is_left_of_an_experiment_that_was_stopped_at_once() {
    let folder = tempdir().expect("a folder");
    let (place, user) = (folder.path().join("out"), TestProgram::default());
    user.stop.store(true, Ordering::Relaxed);
    let error = small().begin(&place, &user.program()).expect_err("it was stopped");
    assert_eq!((error.fault(), place.exists()), (Fault::Interruption, false));
}

#[test]
fn requests_that_make_no_sense_are_refused_before_a_folder_is_made() {
    let folder = tempdir().expect("a folder");
    let place = folder.path().join("out");
    let check = |request: Request, text: &str, expect: &str| {
        let ended = execution(text, request)
            .and_then(|execution| execution.begin(&place, &TestProgram::default().program()).map(drop));
        let error = ended.expect_err(expect);
        assert_eq!((error.fault(), place.exists()), (Fault::Caller, false));
        assert!(error.to_string().contains(expect), "{error}");
    };
    let usual = Request::default;
    check(Request { only: Some("together".to_owned()), ..usual() }, SMALL, "--only together: there is no such point");
    check(Request { cores: Some(100_000), ..usual() }, SMALL, "--cores: an experiment can be sized for 1 to ");
    let until_decided = Some(until_decided::Limit::Blocks(1));
    check(Request { until_decided, ..usual() }, SMALL, "--until-decided: 1 blocks are fewer than the 2");
    check(usual(), &SMALL.replace("20ms", "7h"), "about 14.0 hours without loading; use --yes to run it anyway");
}
