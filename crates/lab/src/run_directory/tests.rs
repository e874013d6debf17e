//! The contents of a run's folder, at each moment.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};

use super::*;
use crate::journal::tests::{header, record};
use crate::report::fixture;

fn create(place: &Path) -> Result<RunDirectory, RunDirectoryError> {
    RunDirectory::create(place, "name = \"x\"", &fixture::study().machine, &header())
}

fn names(place: &Path) -> Vec<String> {
    let entries = fs::read_dir(place).expect("a folder");
    let mut names: Vec<_> =
        entries.map(|entry| entry.expect("readable").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn a_finished_run_has_its_files_and_nothing_else() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let place = folder.path().join("a").join("run");
    let mut directory = create(&place).expect("writable");
    assert_eq!(names(&place), ["experiment.toml", "journal.jsonl", "machine.json"]);
    directory.keep(&record(0)).expect("writable");
    directory.finish(&fixture::study(), &[record(0)]).expect("written");
    drop(directory);
    let expect = [
        "experiment.toml",
        "journal.jsonl",
        "machine.json",
        "report.html",
        "requests.hdr",
        "results.json",
        "samples.parquet",
    ];
    assert_eq!(names(&place), expect);
    let read = read_results(&place).expect("it reads back");
    assert_eq!(read.points.len(), fixture::study().points.len());
    fs::remove_file(place.join("report.html")).expect("it was there");
    rewrite_report(&place).expect("from the results");
    assert_eq!(names(&place), expect);
}

#[test]
fn a_run_that_measured_nothing_leaves_nothing() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    drop(create(&folder.path().join("run")).expect("writable"));
    assert_eq!(names(folder.path()), [""; 0]);
    drop(create(folder.path()).expect("an empty folder will do"));
    assert_eq!(names(folder.path()), [""; 0], "and stays");
}

#[test]
fn what_was_begun_is_found_again() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let place = folder.path().join("run");
    let mut directory = create(&place).expect("writable");
    directory.keep(&record(0)).expect("writable");
    let error = RunDirectory::open(&place).expect_err("held").to_string();
    assert!(error.contains("in use by another plimsoll"), "{error}");
    drop(directory);
    let journal = place.join("journal.jsonl");
    let mut bytes = fs::read(&journal).expect("readable");
    bytes.extend(b"{\"id\":{\"sett");
    fs::write(&journal, bytes).expect("writable");
    let begun = RunDirectory::open(&place).expect("a torn end is no error");
    assert_eq!((begun.records.len(), begun.text.as_str(), begun.header), (1, "name = \"x\"", header()));
    assert!(begun.warnings[0].contains("torn (12 bytes)"), "{:?}", begun.warnings);
}

#[test]
fn what_is_in_the_way_is_named_before_anything_is_measured() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("thesis.tex"), "").expect("writable");
    let error = create(folder.path()).expect_err("not empty").to_string();
    assert!(error.contains("exists and is not empty; name another folder with --out"), "{error}");
    let below_a_file = folder.path().join("thesis.tex").join("run");
    assert!(create(&below_a_file).expect_err("below a file").to_string().contains("thesis.tex/run: "));
    for (place, expect) in [(folder.path(), "exists and is not empty"), (below_a_file.as_path(), "thesis.tex/run: ")] {
        assert!(RunDirectory::check_place(place).expect_err(expect).to_string().contains(expect));
    }
    RunDirectory::check_place(&folder.path().join("free")).expect("nothing is there");
    assert_eq!(names(folder.path()), ["thesis.tex"]);
}

#[test]
fn folders_that_cannot_be_read_say_why() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let check = |results: Option<&str>, expect: &str| {
        if let Some(text) = results {
            fs::write(folder.path().join("results.json"), text).expect("writable");
        }
        let error = read_results(folder.path()).expect_err(expect).to_string();
        assert!(error.contains(expect), "{error}");
    };
    check(None, "is not a run directory: it has no results.json");
    check(Some("{\"format\": 99, \"plimsoll\": \"7.0.0\"}"), "written in format 99, and this program knows format");
    check(
        Some("{\"format\": 2, \"plimsoll\": \"0.1.0\"}"),
        "written in format 2, and this program reads format 3; use plimsoll 0.1.0",
    );
    check(Some("{\"format\": 2"), "not the results of a run");
    check(Some("[]"), "not the results of a run");
}

/// Files of workloads are kept with measurements, and removed without any.
#[test]
fn files_of_workloads_are_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |path: &str| WorkloadFile { path: path.into(), text: "SELECT 1;".to_owned() };
    let files = [file("a.sql"), file("deep/er/b.sql")];
    let place = folder.path().join("run");
    let mut directory = create(&place).expect("it can be made");
    directory.keep_files(&files).expect("they can be written");
    assert_eq!(fs::read_to_string(place.join("deep/er/b.sql")).expect("a file"), "SELECT 1;");
    drop(directory);
    assert!(!place.exists(), "nothing was measured");
    let mut directory = create(&place).expect("it can be made");
    directory.keep_files(&files).expect("they can be written");
    directory.keep(&record(0)).expect("it can be kept");
    drop(directory);
    assert!(place.join("a.sql").is_file() && place.join("deep/er/b.sql").is_file());
}

/// A disk that ignores every operation from a chosen step on, as for a process that was killed. It may then lose its
/// power, and with it everything that was not synced.
#[derive(Debug, Clone)]
struct Killed {
    steps_left: Arc<AtomicUsize>,
    /// How to undo each change of names since the folder was last synced.
    unsynced: Arc<Mutex<Vec<Change>>>,
}

/// The unsynced changes of names that a loss of power undoes: a disk may keep some and not others.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Loss {
    None,
    One(usize),
    All,
}

/// A change of names, and the earlier contents of the place.
#[derive(Debug)]
struct Change {
    /// The former name of the file that is now at `place`.
    from: Option<PathBuf>,
    place: PathBuf,
    before: Option<Vec<u8>>,
}

impl Killed {
    fn after(steps: usize) -> Self {
        Killed { steps_left: Arc::new(AtomicUsize::new(steps)), unsynced: Arc::default() }
    }

    fn step(&self) -> io::Result<()> {
        let left = self.steps_left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1));
        left.map(drop).map_err(|_| io::Error::other("killed"))
    }

    fn note(&self, from: Option<&Path>, place: &Path) {
        let change = Change { from: from.map(Path::to_owned), place: place.to_owned(), before: fs::read(place).ok() };
        self.unsynced.lock().expect("no test panics with it").push(change);
    }

    /// Undoes changes of names, the last first. Returns how many there were.
    fn lose(&self, loss: Loss) -> usize {
        let changes = std::mem::take(&mut *self.unsynced.lock().expect("no test panics with it"));
        let count = changes.len();
        let is_lost = |number: usize| loss == Loss::All || loss == Loss::One(number);
        for (_, change) in changes.into_iter().enumerate().rev().filter(|(number, _)| is_lost(*number)) {
            if let Some(from) = &change.from {
                fs::rename(&change.place, from).expect("it was renamed");
            }
            if let Some(before) = &change.before {
                fs::write(&change.place, before).expect("writable");
            }
        }
        count
    }
}

impl Disk for Killed {
    fn create(&self, place: &Path) -> io::Result<File> {
        self.step()?;
        RealDisk.create(place)
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        // Half of it was written when the kill came, or had reached the disk when the power failed.
        self.step().inspect_err(|_| file.set_len(file.metadata().expect("open").len() / 2).expect("open"))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step()?;
        self.note(Some(from), to);
        RealDisk.rename(from, to)
    }

    fn remove(&self, place: &Path) -> io::Result<()> {
        self.step()?;
        self.note(None, place);
        RealDisk.remove(place)
    }

    fn sync_folder(&self, _: &Path) -> io::Result<()> {
        self.step()?;
        self.unsynced.lock().expect("no test panics with it").clear();
        Ok(())
    }
}

/// The files that `finish` writes, by name.
fn outcome(place: &Path) -> Option<Vec<Vec<u8>>> {
    let files = [RESULTS, REPORT, SAMPLES, REQUESTS];
    place.join(RESULTS).exists().then(|| files.map(|name| fs::read(place.join(name)).expect("vouched for")).to_vec())
}

/// An experiment was finished and continues with more runs. Its process is killed at each step of the second finish,
/// and the power may fail, too. The folder then has the files of the first finish, or of the second, or no results;
/// never some of each. The journal is whole, so that resuming it ends as if nothing had happened.
#[test]
fn a_kill_at_any_step_of_the_end_leaves_one_moment_or_none() {
    let (first, mut second) = (fixture::study(), fixture::study());
    second.experiment.title = Some("with more runs".to_owned());
    let records = [record(0), record(0)];
    let whole = {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let place = folder.path().join("run");
        let mut directory = create(&place).expect("writable");
        directory.finish(&second, &records).expect("written");
        outcome(&place)
    };
    let finished = |steps: usize, loss: Loss| {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let place = folder.path().join("run");
        let mut directory = create(&place).expect("writable");
        directory.keep(&records[0]).expect("writable");
        directory.finish(&first, &records[..1]).expect("written");
        let before = outcome(&place);
        directory.keep(&records[1]).expect("writable");
        let disk = Killed::after(steps);
        directory.disk = Box::new(disk.clone());
        let ended = directory.finish(&second, &records).is_ok();
        drop(directory);
        let unsynced = disk.lose(loss);
        let after = outcome(&place);
        assert!(after.is_none() || after == before || after == whole, "a mixture after {steps} steps, {loss:?}");
        assert!(!ended || after == whole, "it has ended well, {loss:?}");
        let mut found = RunDirectory::open(&place).expect("the journal is whole");
        assert_eq!(found.records.len(), 2);
        found.directory.finish(&second, &found.records).expect("written");
        assert_eq!(outcome(&place), whole, "finished again after {steps} steps, {loss:?}");
        assert!(names(&place).iter().all(|name| !name.starts_with('.')), "{:?}", names(&place));
        (ended, unsynced, after == before)
    };
    let mut kept = 0;
    for steps in 0.. {
        let (has_ended, unsynced, is_kept) = finished(steps, Loss::None);
        kept += usize::from(is_kept);
        let losses = (0..unsynced).map(Loss::One).chain((unsynced > 1).then_some(Loss::All));
        losses.for_each(|loss| {
            finished(steps, loss);
        });
        if has_ended {
            assert!(steps >= 14, "there are {steps} steps: four files are created and synced, and get their names");
            break;
        }
    }
    assert!(kept > 0, "nothing is taken away before all is written");
}
