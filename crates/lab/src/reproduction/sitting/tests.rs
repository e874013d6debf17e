//! Sittings in a folder, on a database in memory.

use std::fs;

use tempfile::tempdir;

use super::*;
use crate::execution::tests::TestProgram;
use crate::program::Build;
use crate::reproduction::folder::tests::collection;
use crate::reproduction::{KeptRuns, ReproductionRequest};

/// The sources of a later program, in which the driver of workloads is another one.
static LATER: [(&str, &str); 3] = [("lab/runner", "1"), ("workload/driver", "9"), ("workload/rows", "3")];

const ALL: Wanted = Wanted { stale: false, undecided: false };
const STALE: Wanted = Wanted { stale: true, undecided: false };

fn open(place: &Path, wanted: Wanted, user: &TestProgram, later: bool) -> Reproduction {
    let sitting = Some(SittingRequest { wanted, budget: Some(Duration::from_secs(60)) });
    let request = ReproductionRequest { sitting, ..ReproductionRequest::default() };
    let program = user.program();
    let build = if later { Build { sources: &LATER, ..program.build } } else { program.build };
    Reproduction::open(&collection(), request, place, program.targets, build).unwrap_or_else(|error| panic!("{error}"))
}

/// The exhibits that a sitting runs, by name: which comes first depends on how long they took before.
fn ran(reproduction: &mut Reproduction, user: &TestProgram) -> Vec<String> {
    let program = Program { build: reproduction.build, ..user.program() };
    let plan = reproduction.sitting_plan(program.targets).unwrap_or_else(|error| panic!("{error}"));
    let sitting = reproduction.sit(&plan, &program, &|| Duration::ZERO).unwrap_or_else(|error| panic!("{error}"));
    let mut names: Vec<String> = sitting.ran.into_iter().map(|ran| ran.name).collect();
    names.sort();
    names
}

fn names(place: &Path) -> Vec<String> {
    let entries = fs::read_dir(place).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn what_is_settled_is_not_run_again_until_its_code_changes() {
    let (folder, user) = (tempdir().expect("a folder"), TestProgram::default());
    let place = folder.path();
    let all = ["SR-other", "SR-small"];
    assert_eq!(ran(&mut open(place, ALL, &user, false), &user), all);
    assert_eq!(ran(&mut open(place, ALL, &user, false), &user), [""; 0], "its claims hold");
    assert_eq!(ran(&mut open(place, STALE, &user, false), &user), [""; 0]);
    let page = fs::read_to_string(place.join("reproduction.md")).expect("it was written");
    assert!(!page.contains("**stale**") && page.contains(", experiment "), "{page}");

    let mut later = open(place, STALE, &user, true);
    let stale: Vec<Option<String>> = later.requested().into_iter().map(|exhibit| exhibit.stale).collect();
    assert_eq!(stale, vec![Some("code has changed: workload/driver".to_owned()); 2]);
    assert_eq!(ran(&mut later, &user), all);
    let earlier = names(&place.join(EARLIER));
    assert!(earlier.len() == 2 && earlier[1].starts_with("SR-small-20"), "{earlier:?}");
    assert!(place.join(EARLIER).join(&earlier[1]).join("results.json").is_file(), "nothing is lost");
    assert_eq!(ran(&mut open(place, STALE, &user, true), &user), [""; 0]);
}

#[test]
fn an_interrupted_run_continues_in_the_next_sitting_and_the_page_keeps_the_earlier_one() {
    let (folder, user) = (tempdir().expect("a folder"), TestProgram::default());
    let place = folder.path();
    ran(&mut open(place, ALL, &user, false), &user);
    let finished = fs::read_to_string(place.join("runs.jsonl")).expect("it was written");
    let stopping = TestProgram::stopping_in(0);
    let stopped = ran(&mut open(place, STALE, &stopping, true), &stopping);
    let [stopped] = &stopped[..] else { panic!("Ctrl-C ends the sitting: {stopped:?}") };
    let runs = |text: &str| KeptRuns::parse(text).expect("our own");
    let after = runs(&fs::read_to_string(place.join("runs.jsonl")).expect("it was written"));
    assert_eq!(after.of(stopped), runs(&finished).of(stopped), "a finished run stays until another is finished");
    let next = TestProgram::default();
    assert_eq!(ran(&mut open(place, STALE, &next, true), &next), ["SR-other", "SR-small"]);
    assert!(next.told().contains(&format!("{stopped}: continues after 1 of 2 runs")), "{}", next.told());
    assert_eq!(names(&place.join(EARLIER)).len(), 2, "the interrupted run was not set aside");
}

#[test]
fn a_page_is_written_again_without_its_run_directories() {
    let (folder, user) = (tempdir().expect("a folder"), TestProgram::default());
    let place = folder.path();
    ran(&mut open(place, ALL, &user, false), &user);
    let page = fs::read_to_string(place.join("reproduction.md")).expect("it was written");
    fs::remove_dir_all(place.join("SR-small")).expect("it is ours");
    let again = open(place, ALL, &user, false);
    assert_eq!(again.page(), Some(page));
    fs::write(place.join("runs.jsonl"), "no JSON\n").expect("it is ours");
    let request = ReproductionRequest::default();
    let program = user.program();
    let error = Reproduction::open(&collection(), request, place, program.targets, program.build).expect_err("no JSON");
    assert!(error.to_string().contains("runs.jsonl: line 1: "), "{error}");
}

#[test]
fn a_program_without_sources_does_not_look_for_stale_runs() {
    let (folder, user) = (tempdir().expect("a folder"), TestProgram::default());
    let mut reproduction = open(folder.path(), STALE, &user, false);
    reproduction.build.sources = &[];
    let error = reproduction.sitting_plan(user.program().targets).expect_err("it cannot know");
    assert!(error.to_string().contains("--stale: this program was built without its sources"), "{error}");
}

#[test]
fn the_plan_is_told() {
    let (folder, user) = (tempdir().expect("a folder"), TestProgram::default());
    let plan = |budget| {
        let mut reproduction = open(folder.path(), ALL, &user, false);
        reproduction.request.sitting = Some(SittingRequest { wanted: ALL, budget });
        let plan = reproduction.sitting_plan(user.program().targets).unwrap_or_else(|error| panic!("{error}"));
        plan.told()
    };
    let told = plan(Some(Duration::from_secs(600)));
    assert!(
        told.starts_with("2 of 2 exhibits in 10 min:\n  SR-other: 1 claim in about 0.0 min, by its file (never run)"),
        "{told}"
    );
    let none = plan(Some(Duration::ZERO));
    assert!(none.starts_with("0 of 2 exhibits in 0 min:\n  2 do not fit; the shortest of them takes about "), "{none}");
    assert!(plan(None).starts_with("2 of 2 exhibits in all the time it takes:"));
}
