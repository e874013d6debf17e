//! Groups of classes on the fake kernel: made, verified, changed, lost, and removed after a kill.

use super::*;
use crate::control::llc_ways;
use crate::control::{Amount, Control, Limits, Observation, Verdict, Window};
use crate::groups::make::own::state_of;
use crate::groups::resctrl::fake::Shape;
use crate::groups::resctrl::fake::world::World;
use crate::groups::resctrl::{BandwidthUnit, ResctrlFiles};
use crate::limiter::Limiter;

const NAMES: [&str; 3] = ["polluting", "depends", "sensitive"];

fn world(shape: Shape) -> World {
    World::new(shape, BandwidthUnit::Percent)
}

/// Classes of process 100 with these masks.
fn make(world: &World, host: &Host, state: &Path, masks: &[u32]) -> Result<ClassGroups, OwnGroupError> {
    let masks: Vec<CacheMask> = masks.iter().copied().map(CacheMask).collect();
    ClassGroups::make(host, state, own(world), &NAMES, |_| Ok(masks))
}

fn own(world: &World) -> ClassSubject {
    ClassSubject { subject: world.subject.clone(), is_server: false }
}

fn group(world: &World, class: &str) -> String {
    subject::class_group_name(&world.subject, class)
}

#[test]
fn threads_are_in_the_group_of_their_class_until_the_groups_are_dropped() {
    let (world, state) = (world(Shape::intel()), tempfile::tempdir().unwrap());
    let (host, _mirror) = world.mounted();
    let before = world.kernel.snapshot();
    let groups = make(&world, &host, state.path(), &[0x3, 0x7f, 0x7ff]).unwrap();
    for (class, thread) in [101, 102].into_iter().enumerate() {
        groups.put(thread, class).unwrap();
    }
    groups.put(4711, 0).expect("a thread that has ended is none of its business");
    let (resctrl, of) = (world.resctrl(), |class: &str| world.resctrl().find(&group(&world, class)).unwrap());
    assert_eq!(of("polluting").schemata().unwrap().masks("L3")[&1], CacheMask(0x3));
    assert!(of("polluting").tasks().unwrap().contains(&101) && of("depends").tasks().unwrap().contains(&102));
    assert!(resctrl.default_group().tasks().unwrap().contains(&100), "the others stay");
    assert_eq!(groups.fault(), None);
    drop(groups);
    assert_eq!(world.kernel.snapshot(), before);
    assert!(std::fs::read_dir(state.path()).unwrap().next().is_none(), "no folder of state is left");
}

#[test]
fn classes_with_equal_masks_share_a_group_and_too_many_are_refused_whole() {
    let (world, state) = (world(Shape::intel()), tempfile::tempdir().unwrap());
    let (host, _mirror) = world.mounted();
    let before = world.kernel.snapshot();
    let shared = make(&world, &host, state.path(), &[0x7ff, 0x7ff, 0x7ff]).unwrap();
    assert_eq!(world.resctrl().group_names().len(), 1);
    drop(shared);
    // Eight ids: the default group's, and six of others.
    for number in 0..6 {
        world.kernel.make_group(&format!("db{number}")).unwrap();
    }
    let full = world.kernel.snapshot();
    let error = make(&world, &host, state.path(), &[0x3, 0x7f, 0x7ff]).unwrap_err().to_string();
    assert!(error.contains("Out of CLOSIDs"), "{error}");
    assert_eq!(world.kernel.snapshot(), full, "the first group is gone again");
    let (_, home) = cache_home(&host, &world.resctrl(), &own(&world)).unwrap();
    assert_eq!((home.groups_free, home.mask), (1, CacheMask(0x7ff)));
    assert_ne!(world.kernel.snapshot(), before);
}

#[test]
fn a_mask_that_the_kernel_refuses_and_one_that_somebody_else_changes() {
    let (world, state) = (world(Shape::intel()), tempfile::tempdir().unwrap());
    let (host, mirror) = world.mounted();
    let error = make(&world, &host, state.path(), &[0x5, 0x7f, 0x7ff]).unwrap_err().to_string();
    assert!(error.contains("schemata"), "{error}");
    assert!(world.resctrl().group_names().is_empty(), "{:?}", world.resctrl().group_names());
    let mut groups = make(&world, &host, state.path(), &[0x3, 0x7f, 0x7ff]).unwrap();
    groups.set_masks(&[0x3, 0x1f, 0x3f].map(CacheMask)).unwrap();
    assert_eq!(groups.fault(), None);
    world.kernel.write(&format!("{}/schemata", group(&world, "depends")), "L3:0=f;1=f\n").unwrap();
    mirror.show();
    let fault = groups.fault().unwrap();
    assert!(fault.contains("is 0xf and not 0x1f"), "{fault}");
}

#[test]
fn more_cache_than_the_ways_have_is_told() {
    let (world, state) = (world(Shape::intel()), tempfile::tempdir().unwrap());
    let (host, mirror) = world.mounted();
    let groups = make(&world, &host, state.path(), &[0x3, 0x7f, 0x7ff]).unwrap();
    let hold = |bytes: u64| {
        world.kernel.set_counter(&group(&world, "polluting"), 0, "llc_occupancy", bytes);
        mirror.show();
        groups.fault()
    };
    assert_eq!(hold(2 * (5 << 18)), None);
    let fault = hold(4 * (5 << 18)).unwrap();
    assert!(fault.contains("hold 5.00 MiB in domain 0, where their ways 0x3 have 2.50 MiB"), "{fault}");
}

#[test]
fn a_group_that_vanishes_is_told_and_harms_nothing() {
    let (world, state) = (world(Shape::intel()), tempfile::tempdir().unwrap());
    let (host, mirror) = world.mounted();
    let before = world.kernel.snapshot();
    let groups = make(&world, &host, state.path(), &[0x3, 0x7f, 0x7ff]).unwrap();
    groups.put(101, 0).unwrap();
    world.kernel.remove_group(&group(&world, "polluting")).unwrap();
    mirror.show();
    let fault = groups.fault().unwrap();
    assert!(fault.contains("polluting is gone"), "{fault}");
    assert!(groups.put(102, 0).is_err());
    drop(groups);
    assert_eq!(world.kernel.snapshot(), before);
}

#[test]
fn what_a_kill_leaves_is_removed_at_the_next_start() {
    let (world, state) = (world(Shape::intel()), tempfile::tempdir().unwrap());
    let (host, mirror) = world.mounted();
    let before = world.kernel.snapshot();
    let groups = make(&world, &host, state.path(), &[0x3, 0x7f, 0x7ff]).unwrap();
    groups.put(101, 0).unwrap();
    let journal = state_of(state.path(), &format!("{NAME}-100")).join("restore.jsonl");
    let (text, after) = (std::fs::read(&journal).unwrap(), world.kernel.snapshot());
    assert!(restore_left_over(&host, state.path()).is_empty(), "its process runs");
    drop(groups);
    // As after a kill: the groups and the journal exist, and no process holds the lock.
    for class in NAMES {
        world.kernel.make_group(&group(&world, class)).unwrap();
    }
    world.kernel.write(&format!("{}/tasks", group(&world, "polluting")), "101\n").unwrap();
    mirror.show();
    assert_ne!(world.kernel.snapshot(), before);
    assert_ne!(after, before);
    std::fs::create_dir_all(journal.parent().unwrap()).unwrap();
    std::fs::write(&journal, text).unwrap();
    let restored = restore_left_over(&host, state.path());
    assert!(restored.len() == 1 && restored[0].as_ref().unwrap().undone.len() == 3, "{restored:?}");
    assert_eq!(world.kernel.snapshot(), before);
}

#[test]
fn ways_that_are_limited_hold_the_classes_and_their_threads_are_not_missed() {
    let (world, state) = (world(Shape::intel()), tempfile::tempdir().unwrap());
    let (host, mirror) = world.mounted();
    let before = world.kernel.snapshot();
    let mut groups = make(&world, &host, state.path(), &[0x3, 0x7f, 0x7ff]).unwrap();
    groups.put(101, 0).unwrap();
    mirror.show();
    let limits = tempfile::tempdir().unwrap();
    let mut limiter = Limiter::begin(host.clone(), world.subject.clone(), limits.path()).unwrap();
    let limit = |key: &str, number: f64| Limits::from([(key.to_owned(), Amount::Number(number))]);
    limiter.set(&limit("llc_ways", 4.0)).unwrap();
    mirror.show();
    let polluting = world.resctrl().find(&group(&world, "polluting")).unwrap();
    assert!(polluting.tasks().unwrap().contains(&101), "it stays where it was bound");
    assert_eq!(groups.home().unwrap().mask, CacheMask(0xf));

    let (amount, earlier, length) = (Amount::Number(4.0), Observation::new(), std::time::Duration::ZERO);
    let window = Window { host: &host, subject: &world.subject, amount: &amount, earlier: &earlier, length };
    let verify = || llc_ways::CONTROL.verify(&window).unwrap_or_else(Verdict::from);
    let why = verify().why_not.unwrap();
    assert!(why.contains("has ways outside of 0xf"), "{why}");
    groups.set_masks(&[0x3, 0x3, 0xf].map(CacheMask)).unwrap();
    mirror.show();
    assert_eq!(verify().why_not, None);
    world.kernel.set_counter(&group(&world, "sensitive"), 0, "llc_occupancy", 20 << 18);
    world.kernel.set_counter(&group(&world, "polluting"), 0, "llc_occupancy", 5 << 18);
    mirror.show();
    let why = verify().why_not.unwrap();
    assert!(why.contains("hold 6.25 MiB in domain 0"), "what classes hold counts: {why}");

    let error = limiter.set(&limit("memory_bandwidth", 50.0)).unwrap_err().to_string();
    assert!(error.contains("because of their cache class") && error.contains("cache_classes=off"), "{error}");
    drop((limiter, groups));
    assert_eq!(world.kernel.snapshot(), before);
}

#[test]
fn without_ways_to_give_out_there_is_a_reason() {
    let (world, state) = (world(Shape { l3: None, ..Shape::intel() }), tempfile::tempdir().unwrap());
    let (host, _mirror) = world.mounted();
    let home = |_: &CacheHome| -> Result<Vec<CacheMask>, OwnGroupError> { unreachable!("there is no cache") };
    let made = ClassGroups::make(&host, state.path(), own(&world), &NAMES, home);
    assert!(made.unwrap_err().to_string().contains("without allocation of the level 3 cache"));
}

/// The server is process 100, and 200 is a child of it.
#[test]
fn processes_of_a_server_are_moved_and_sent_back_to_its_group() {
    let (world, state) = (world(Shape::intel()), tempfile::tempdir().unwrap());
    let (host, mirror) = world.mounted();
    world.kernel.make_group("db").unwrap();
    world.kernel.write("db/schemata", "L3:0=3f;1=3f\n").unwrap();
    for task in [100, 101, 102, 200] {
        world.kernel.write("db/tasks", &format!("{task}\n")).unwrap();
    }
    mirror.show();
    let before = world.kernel.snapshot();
    let server = ClassSubject::server(100);
    let home = CacheHome::of(&host, &server).unwrap();
    assert_eq!((home.folder.as_str(), home.mask, home.groups_free), ("/sys/fs/resctrl/db", CacheMask(0x3f), 6));
    let chosen = |home: &CacheHome| -> Result<Vec<CacheMask>, OwnGroupError> {
        assert_eq!(home.mask, CacheMask(0x3f));
        Ok(vec![CacheMask(0x3)])
    };
    let groups = ClassGroups::make(&host, state.path(), server.clone(), &["polluting"], chosen).unwrap();
    let of_state = std::fs::read_dir(state.path()).unwrap().next().unwrap().unwrap().file_name();
    assert_eq!(of_state.to_string_lossy(), format!("governor-{}-cache-100", std::process::id()));
    groups.put_process(200, Some(0)).unwrap();
    assert_eq!(groups.members(0).unwrap(), BTreeSet::from([200]));
    assert_eq!(groups.home().unwrap(), home, "where its processes are does not matter");
    let strangers = groups.strangers();
    assert!(strangers.contains_key(&300) && !strangers.contains_key(&100) && !strangers.contains_key(&200));
    groups.put_process(200, None).unwrap();
    assert!(groups.members(0).unwrap().is_empty());

    groups.put_process(200, Some(0)).unwrap();
    world.kernel.remove_group(&group(&world, "polluting")).unwrap();
    mirror.show();
    assert!(groups.members(0).unwrap_err().is_gone() && groups.put_process(200, Some(0)).unwrap_err().is_gone());
    assert_eq!(groups.faults().len(), 1);
    groups.put_process(200, None).unwrap();
    drop(groups);
    assert_eq!(world.kernel.snapshot(), before, "where it was, and not in the default group");

    let groups = ClassGroups::make(&host, state.path(), server, &["polluting"], chosen).unwrap();
    world.kernel.remove_group("db").unwrap();
    mirror.show();
    groups.put_process(200, None).unwrap();
    assert_eq!(groups.home().unwrap().folder, "/sys/fs/resctrl");
}

#[test]
fn each_fault_is_told_and_where_bandwidth_is_limited_there_are_no_classes() {
    let (world, state) = (world(Shape::intel()), tempfile::tempdir().unwrap());
    let (host, mirror) = world.mounted();
    let groups = make(&world, &host, state.path(), &[0x3, 0x3, 0x7f]).unwrap();
    world.kernel.write(&format!("{}/schemata", group(&world, "polluting")), "L3:0=f;1=f\n").unwrap();
    world.kernel.remove_group(&group(&world, "sensitive")).unwrap();
    mirror.show();
    let faults = groups.faults();
    assert!(
        faults.len() == 2 && faults[0].contains("is 0xf and not 0x3") && faults[1].contains("is gone"),
        "{faults:?}"
    );
    drop(groups);
    world.kernel.write("schemata", "MB:1=50\n").unwrap();
    mirror.show();
    let check = |subject: &ClassSubject, expect: &str| {
        let why = CacheHome::of(&host, subject).unwrap_err().to_string();
        assert!(why.contains("/sys/fs/resctrl is limited (MB:1=50 of 100)") && why.contains(expect), "{why}");
    };
    check(&own(&world), "leave memory_bandwidth unlimited");
    check(&ClassSubject::server(100), "write MB:1=100 to /sys/fs/resctrl/schemata");
}
