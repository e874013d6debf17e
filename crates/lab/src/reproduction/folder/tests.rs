//! A reproduction on a database in memory.

use std::sync::LazyLock;

use tempfile::tempdir;

use super::*;
use crate::execution::tests::{SMALL, TestProgram};

static SMALL_TEXT: LazyLock<String> = LazyLock::new(|| {
    let named = SMALL.replace("\"small\"", "\"SR-small\"\nstudy = \"SR\"");
    format!("{named}[quick]\nmeasure = \"10ms\"\n")
});

static OTHER_TEXT: LazyLock<String> = LazyLock::new(|| SMALL_TEXT.replace("SR-small", "SR-other"));

static FILES: LazyLock<[CarriedFile; 2]> = LazyLock::new(|| {
    [
        CarriedFile { file: "experiments/SR/small.toml", text: &SMALL_TEXT },
        CarriedFile { file: "experiments/SR/other.toml", text: &OTHER_TEXT },
    ]
});

macro_rules! reads {
    ($id:literal) => {
        &[CarriedFile {
            file: "experiments/SR/own/reads.toml",
            text: concat!(
                "name = \"reads\"\nsetup = \"CREATE TABLE item (id integer PRIMARY KEY)\"\n[[transaction]]\n",
                "name = \"read\"\nstatements = [\"SELECT id FROM item WHERE id = ",
                $id,
                "\"]\n"
            ),
        }]
    };
}

/// Claims of `SR-small` that had results before.
const LOCKED: &str = "[\"SR-small\"]\n\"it runs\" = { date = \"2026-01-01\", hash = \"0\" }\n\"it flies\" = { date = \"2026-01-01\", hash = \"1\" }\n";

/// The experiments `SR-small` and `SR-other`.
pub(in crate::reproduction) fn collection() -> Collection {
    Collection { files: &*FILES, workload_files: &[], claims_lock: LOCKED, causes: "", runs: "" }
}

fn open(name: &str, place: &Path, quick: bool, user: &TestProgram) -> Result<Reproduction, ExecutionError> {
    let request = ReproductionRequest { name: Some(name.to_owned()), quick, ..ReproductionRequest::default() };
    let program = user.program();
    Reproduction::open(&collection(), request, place, program.targets, program.build)
}

const OWN: &[CarriedFile] = &[CarriedFile {
    file: "experiments/SR/own.toml",
    text: "name = \"SR-own\"\nstudy = \"SR\"\n[[workload]]\nkind = \"file:own/reads.toml\"\n",
}];

/// The file of `SR-own`'s workload, in two versions.
const READS: [&[CarriedFile]; 2] = [reads!("1"), reads!("2")];

/// Story: an experiment with a workload in a file could be run from its folder only, and not be carried.
#[test]
fn the_files_of_workloads_are_carried_and_their_change_makes_a_run_stale() {
    let (folder, user) = (tempdir().expect("a folder"), TestProgram::default());
    let program = user.program();
    let origins = READS.map(|workload_files| {
        let collection = Collection { files: OWN, workload_files, ..collection() };
        let request = ReproductionRequest::default();
        let opened = Reproduction::open(&collection, request, folder.path(), program.targets, program.build);
        let opened = opened.unwrap_or_else(|error| panic!("{error}"));
        let exhibit = &opened.exhibits[0];
        let kept: Vec<&Path> = exhibit.workload_files.iter().map(|file| file.path.as_path()).collect();
        assert_eq!(kept, [Path::new("own/reads.toml")], "it lies in the run directory, too");
        Origin::now(&exhibit.plan, exhibit.carried.text, false, program.build).experiment
    });
    assert_ne!(origins[0], origins[1]);
}

#[test]
fn an_exhibit_is_stopped_continued_and_kept() {
    let folder = tempdir().expect("a folder");
    let mut stops = Vec::new();
    let mut told = Vec::new();
    for user in [TestProgram::stopping_in(0), TestProgram::default(), TestProgram::default()] {
        let mut reproduction = open("sr-SMALL", folder.path(), false, &user).unwrap_or_else(|error| panic!("{error}"));
        stops.push(reproduction.measure(&user.program()).unwrap_or_else(|error| panic!("{error}")));
        assert!(reproduction.write().is_ok_and(|page| page == Some(folder.path().join(PAGE))));
        told.push(user.told());
    }
    assert_eq!(stops, [true, false, false]);
    assert!(told[0].starts_with("SR-small: 2 runs, "), "{told:?}");
    assert_eq!(told[1..], ["SR-small: continues after 1 of 2 runs", "SR-small: was run before, kept"]);
    let again = open("SR", folder.path(), false, &TestProgram::default()).unwrap_or_else(|error| panic!("{error}"));
    let [exhibit] = &again.requested()[..] else { panic!("the other was not run") };
    assert!(exhibit.claims[0].is_changed, "its hash is not that of its first result");
    assert_eq!(exhibit.withdrawn, ["it flies"]);
    let lock = fs::read_to_string(folder.path().join(LOCK)).expect("it was written");
    assert!(lock.contains("hash = \"0\""), "first results stay: {lock}");
    let mut quick = open("SR-small", folder.path(), true, &TestProgram::default()).unwrap_or_else(|e| panic!("{e}"));
    let error = quick.measure(&TestProgram::default().program()).expect_err("another form");
    assert!(error.to_string().contains("it was run with other settings"), "{error}");
}

#[test]
fn an_exhibit_that_cannot_be_run_does_not_keep_others_from_it() {
    let (folder, user) = (tempdir().expect("a folder"), TestProgram::default());
    // A folder that is not empty and not a run directory's.
    fs::create_dir_all(folder.path().join("SR-other/notes")).expect("a folder");
    let mut all = open("SR", folder.path(), false, &user).unwrap_or_else(|error| panic!("{error}"));
    assert!(!all.measure(&user.program()).unwrap_or_else(|error| panic!("{error}")));
    let why: Vec<Option<String>> = all.requested().into_iter().map(|exhibit| exhibit.why_not_run).collect();
    assert!(why[0].is_none() && why[1].as_ref().is_some_and(|why| why.contains("SR-other")), "{why:?}");
}

#[test]
fn unknown_names_are_told_with_what_there_is() {
    let folder = tempdir().expect("a folder");
    let refused = |name: &str| {
        let error = open(name, folder.path(), false, &TestProgram::default()).expect_err("unknown");
        assert_eq!(error.fault(), Fault::Caller);
        error.to_string()
    };
    assert!(refused("SR-smal").contains("did you mean `SR-small`?"));
    assert!(refused("SR-fig99").contains("that study has SR-small, SR-other"));
    assert!(refused("XY").contains("name a study (SR, SI, MW, GA, NO)"));
}
