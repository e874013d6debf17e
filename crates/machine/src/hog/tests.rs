//! Every hog starts, does work, reports it, and stops. The amount of work depends on the machine.

use plimsoll_testing::{Need, skip};

use super::*;

/// Takes reports until one has work in it, which takes longer on a busy machine.
fn first_work(hog: &mut HogHandle, has_worked: impl Fn(&HogReport) -> bool) -> HogReport {
    const TRIES: usize = 2000;
    for _ in 0..TRIES {
        let report = hog.report();
        if has_worked(&report) {
            return report;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("no work in {TRIES} reports of {hog:?}");
}

fn start(spec: &str, place: &HogPlace) -> HogHandle {
    spec.parse::<HogSpec>().unwrap().start(place).unwrap()
}

#[test]
fn loops_use_processors() {
    let mut hog = start("cpu:2", &HogPlace::default());
    // A thread records its iterations before its time, so a report may fall in between.
    let report = first_work(&mut hog, |report| report.achieved > Some(0.0));
    assert_eq!((report.wanted, report.unit.as_str()), (2.0, "threads"));
    first_work(&mut hog, |report| report.figures["iterations_per_s"] > 0.0);
    assert_eq!(hog.stop().hog.to_string(), "cpu:2");
}

/// Beside queries on the same cores, loops of a published experiment got less than a core each, and every run of it was
/// discarded as if the loops had not run.
#[test]
fn loops_that_wait_for_their_core_count_as_well() {
    let core =
        rustix::thread::sched_getaffinity(None).map(|set| (0..).find(|&core| set.is_set(core)).unwrap()).unwrap();
    let mut hog = start("cpu:4", &HogPlace { cores: vec![core], ..HogPlace::default() });
    first_work(&mut hog, |report| report.figures["iterations_per_s"] > 0.0);
    std::thread::sleep(Duration::from_secs(1));
    let report = hog.report();
    assert!(report.figures["cores_busy"] <= 1.1, "{report:?}");
    assert!(report.achieved > Some(2.5), "three of four wait at any time: {report:?}");
}

#[test]
fn no_hog_does_nothing() {
    let report = start("none", &HogPlace::default()).stop();
    assert_eq!((report.achieved, report.reached, report.to_string().as_str()), (None, None, "no hog"));
}

#[test]
fn memory_is_read() {
    let mut hog = start("bandwidth:50", &HogPlace::default());
    let report = first_work(&mut hog, |report| report.achieved > Some(0.0));
    assert_eq!(report.unit, "MB/s");
}

/// Either the amount held is known, or the reason why not.
#[test]
fn cache_is_held_or_the_reason_is_told() {
    let mut hog = start("llc:2", &HogPlace::default());
    let report = first_work(&mut hog, |report| report.figures["loads_per_s"] > 1e5);
    match (report.achieved, report.interval) {
        (Some(held), Some([low, high])) => {
            assert!(0.0 <= low && low <= held && held <= high && high <= 2.01, "{report:?}");
            assert!(report.notes.iter().any(|note| note.contains("ing its loads")), "{report:?}");
        }
        (None, None) => assert!(report.notes.iter().any(|note| note.contains("is not known: ")), "{report:?}"),
        _ => panic!("{report:?}"),
    }
}

/// It works as others do, and reports that it holds nothing.
#[test]
fn an_idle_pirate_keeps_its_core_busy_and_holds_nothing() {
    let mut hog = start("llc:0", &HogPlace::default());
    let report = first_work(&mut hog, |report| report.figures["loads_per_s"] > 1e5);
    assert_eq!((report.achieved, report.interval, report.reached), (Some(0.0), None, Some(true)));
}

#[test]
fn disks_are_used_and_nothing_is_left() {
    let folder = tempfile::tempdir_in(".").unwrap();
    let place = HogPlace { cores: Vec::new(), folder: folder.path().to_owned() };
    for spec in ["disk:5", "disk-read:5"] {
        let mut hog = match spec.parse::<HogSpec>().unwrap().start(&place) {
            Ok(hog) => hog,
            Err(error @ (HogError::Folder { .. } | HogError::DiskFull { .. })) => {
                skip(Need::Disk, format!("{spec}: {error}"));
                continue;
            }
            Err(error) => panic!("{error}"),
        };
        assert_eq!(folder.path().read_dir().unwrap().count(), 0, "the file has no name");
        let report = first_work(&mut hog, |report| report.achieved > Some(0.0));
        assert!(report.notes.iter().all(|note| !note.contains("cannot")), "{report:?}");
    }
}

#[test]
fn a_core_that_is_not_there() {
    let place = HogPlace { cores: vec![4000], ..HogPlace::default() };
    for spec in ["cpu:1", "bandwidth:1", "llc:1"] {
        let error = spec.parse::<HogSpec>().unwrap().start(&place).unwrap_err().to_string();
        assert!(error.contains("core 4000"), "{error}");
    }
}
