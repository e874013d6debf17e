//! What is in a run's folder, and when.

use super::*;
use crate::record::RunId;
use crate::report::fixture;

fn header() -> JournalHeader {
    JournalHeader {
        format: FORMAT,
        plimsoll: "0.1.0".to_owned(),
        commit: None,
        settings_hash: "5e1f".to_owned(),
        machine_fingerprint: "41c6".to_owned(),
        started: "2026-03-14T09:26:53Z".to_owned(),
        quick: false,
        only: None,
        cores: None,
        claims: Default::default(),
        blocks_max: None,
    }
}

fn create(place: &Path) -> Result<RunDirectory, RunDirectoryError> {
    RunDirectory::create(place, "name = \"x\"", &fixture::study().machine, &header())
}

fn record() -> RunRecord {
    let id = RunId { setting: 0, arm: 0, repeat: 1, is_again: false };
    let point = fixture::study().points.swap_remove(0);
    RunRecord { id, point, histograms: vec![], samples: vec![], warnings: vec![] }
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
    directory.keep(&record()).expect("writable");
    directory.finish(&fixture::study(), &[record()]).expect("written");
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
    directory.keep(&record()).expect("writable");
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
    check(None, "is no run directory: it has no results.json");
    check(Some("{\"format\": 99, \"plimsoll\": \"7.0.0\"}"), "written in format 99, and this program knows format");
    check(
        Some("{\"format\": 2, \"plimsoll\": \"0.1.0\"}"),
        "written in format 2, and this program reads format 3; use plimsoll 0.1.0",
    );
    check(Some("{\"format\": 2"), "not the results of a run");
    check(Some("[]"), "not the results of a run");
}

/// Files of workloads stay with what was measured, and go where nothing was.
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
    directory.keep(&record()).expect("it can be kept");
    drop(directory);
    assert!(place.join("a.sql").is_file() && place.join("deep/er/b.sql").is_file());
}
