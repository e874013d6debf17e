//! Groups and their undoing, on the fake kernel, on a folder that looks like a mount, and on a real mount where there is one.

mod limits;

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use plimsoll_testing::{Need, skip};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use super::fake::world::{Busy, MOUNT, Notes, World};
use super::fake::{FakeKernel, Shape};
use super::*;
use crate::control::Subject;
use crate::limiter::undo::Undone;

fn world(shape: Shape) -> World {
    World::new(shape, BandwidthUnit::Percent)
}

fn text(error: ControlError) -> String {
    error.to_string()
}

/// The lines of `schemata` that give a group these ways.
fn ways(resctrl: &Resctrl, mask: u32) -> String {
    resctrl.capabilities().last_level().unwrap().lines(CacheMask(mask))
}

/// Those that give it this memory bandwidth.
fn bandwidth(resctrl: &Resctrl, limit: u32) -> String {
    resctrl.capabilities().bandwidth.as_ref().unwrap().lines(limit)
}

#[test]
fn capabilities_of_an_intel_server() {
    let resctrl = world(Shape::intel()).resctrl();
    let capabilities = resctrl.capabilities();
    let cache = capabilities.last_level().unwrap();
    assert_eq!((cache.full, cache.ways_min, cache.sparse), (CacheMask(0x7ff), 1, false));
    assert_eq!(
        (cache.shared, cache.way_bytes, cache.domains.as_slice()),
        (CacheMask(0x600), Some(5 << 18), &[0, 1][..])
    );
    let bandwidth = capabilities.bandwidth.as_ref().unwrap();
    assert_eq!((bandwidth.min, bandwidth.step, bandwidth.unlimited), (10, 10, 100));
    let monitoring = capabilities.monitoring.as_ref().unwrap();
    assert!(monitoring.occupancy && monitoring.total_bytes && monitoring.local_bytes);
    assert_eq!((monitoring.groups_max, monitoring.leftover_bytes), (32, 65536));
    assert_eq!(capabilities.groups_max(), Some(8), "bandwidth has the fewest ids");
}

#[test]
fn capabilities_that_are_not_there() {
    let none = Shape { l3: None, l2: None, bandwidth: None, monitoring: None, ..Shape::intel() };
    assert_eq!(*world(none).resctrl().capabilities(), Capabilities::default());
    let cdp = world(Shape { code_and_data: true, ..Shape::intel() }).resctrl();
    let cache = cdp.capabilities().last_level().unwrap();
    assert_eq!((cache.resources.join(" "), cache.groups_max), ("L3CODE L3DATA".to_owned(), 8));
    let amd = world(Shape::amd()).resctrl();
    let cache = amd.capabilities().last_level().unwrap();
    assert!(cache.sparse && cache.ways_min == 0 && cache.way_bytes == Some(2 << 20), "{cache:?}");
}

#[test]
fn a_group_from_beginning_to_end() {
    let mut world = world(Shape { code_and_data: true, ..Shape::intel() });
    let before = world.kernel.snapshot();
    let resctrl = world.resctrl();
    let shares = ways(&resctrl, 0x3) + &bandwidth(&resctrl, 50);
    let group = resctrl.group("plimsoll-pool", &shares, None, &mut world.notes).unwrap();
    assert_eq!(group.folder(), "/sys/fs/resctrl/plimsoll-pool");
    let schemata = group.schemata().unwrap();
    for resource in ["L3CODE", "L3DATA"] {
        assert_eq!(schemata.masks(resource), BTreeMap::from([(0, CacheMask(3)), (1, CacheMask(3))]), "{resource}");
    }
    assert_eq!(schemata.numbers("MB"), BTreeMap::from([(0, 50), (1, 50)]));
    assert_eq!(group.sizes().unwrap().numbers("L3DATA")[&0], 2 * (5 << 18));
    group.add_task(300).unwrap();
    assert!(!group.add_task_if_alive(4711).unwrap(), "a thread that ended");
    assert_eq!(group.tasks().unwrap().into_iter().collect::<Vec<_>>(), [300]);
    group.set(&ways(&resctrl, 0xf)).unwrap();

    world.kernel.set_counter(group.path(), 0, "llc_occupancy", 1000);
    world.kernel.set_counter(group.path(), 1, "llc_occupancy", 24);
    assert_eq!(group.occupancy().unwrap(), ByDomain::from([(0, 1000), (1, 24)]));
    world.undo();
    assert_eq!(world.kernel.snapshot(), before);
    assert!(resctrl.find("plimsoll-pool").is_none());
}

#[test]
fn counters_that_have_no_figure() {
    let mut world = world(Shape::intel());
    let group = world.resctrl().make("plimsoll-g", None, &mut world.notes).unwrap();
    for word in ["Unavailable", "Error", "Unassigned"] {
        world.kernel.set_counter("plimsoll-g", 1, "mbm_total_bytes", word);
        let error = group.memory_bytes(Traffic::Total).unwrap_err();
        assert_eq!(error.to_string(), format!("plimsoll-g/mon_data/mon_L3_01/mbm_total_bytes reads {word}"));
    }
    world.kernel.set_counter("plimsoll-g", 1, "mbm_total_bytes", "Unavailable|7");
    let read = group.memory_bytes(Traffic::Total).unwrap();
    assert_eq!(read, ByDomain::from([(0, 0), (1, 7)]), "the second reading counts");
    let mut shape = Shape::intel();
    shape.monitoring.as_mut().unwrap().events = vec!["llc_occupancy"];
    let mut world = self::world(shape);
    let group = world.resctrl().make("plimsoll-g", None, &mut world.notes).unwrap();
    let error = group.memory_bytes(Traffic::Local).unwrap_err();
    assert_eq!(error.to_string(), "there is no mbm_local_bytes in plimsoll-g/mon_data/mon_L3_00");
    assert_eq!(group.traffic_limited(), None);
    let none = self::world(Shape { monitoring: None, ..Shape::intel() });
    assert!(none.resctrl().default_group().occupancy().is_err());
}

#[test]
fn rates_between_two_readings() {
    let check = |earlier: &[(u32, u64)], later: &[(u32, u64)], seconds: u64, expect: Option<&[(u32, f64)]>| {
        let of = |values: &[(u32, u64)]| values.iter().copied().collect::<ByDomain>();
        let rate = Group::rate(&of(earlier), &of(later), Duration::from_secs(seconds));
        assert_eq!(rate, expect.map(|rates| rates.iter().copied().collect()), "{earlier:?} {later:?}");
    };
    check(&[(0, 100), (1, 0)], &[(0, 300), (1, 50)], 2, Some(&[(0, 100.0), (1, 25.0)]));
    check(&[(0, 300)], &[(0, 100)], 2, None);
    check(&[(0, 300)], &[(0, 300)], 0, None);
    check(&[], &[(0, 300)], 1, None);
}

#[test]
fn refusals_carry_the_words_of_the_kernel() {
    let mut shape = Shape::intel();
    shape.bandwidth = Some([10, 10, 100, 2]);
    let mut world = world(shape);
    let resctrl = world.resctrl();
    let group = resctrl.make("plimsoll-a", None, &mut world.notes).unwrap();
    let error = resctrl.make("plimsoll-b", None, &mut world.notes).unwrap_err();
    let words = text(error);
    assert!(words.starts_with("cannot make /sys/fs/resctrl/plimsoll-b: "), "{words}");
    assert!(words.ends_with("(Out of CLOSIDs)"), "{words}");
    let words = text(group.set(&ways(&resctrl, 0x5)).unwrap_err());
    assert!(words.starts_with("cannot write \"L3:0=5;1=5\" to /sys/fs/resctrl/plimsoll-a/schemata: "), "{words}");
    assert!(words.ends_with("(The mask 5 has non-consecutive 1-bits)"), "{words}");
    let words = text(group.add_task(4711).unwrap_err());
    assert!(words.ends_with("(No task 4711; Error while processing task 4711)"), "{words}");
    // A refused share leaves no group behind.
    world.undo();
    assert!(resctrl.group("plimsoll-c", &ways(&resctrl, 0), None, &mut world.notes).is_err());
    assert!(resctrl.group_names().is_empty());
    assert_eq!(world.notes.undo.len(), 1, "its removal was noted before it was made");
    world.undo();
}

#[test]
fn what_is_no_group_is_not_taken_back() {
    let world = world(Shape::intel());
    for folder in
        [MOUNT, "/sys/fs", "/etc", "/sys/fs/resctrl/db", "/sys/fs/resctrl/plimsoll-x/../db", "/sys/fs/resctrl/info"]
    {
        assert!(matches!(world.remove_group(folder, None), Undone::Failed(_)), "{folder}");
    }
    assert_eq!(world.remove_group("/sys/fs/resctrl/plimsoll-gone", Some("/sys/fs/resctrl/gone-too")), Undone::Nothing);
}

#[test]
fn the_group_of_somebody_else_is_never_noted() {
    let mut world = world(Shape::intel());
    world.kernel.make_group("plimsoll-db").unwrap();
    let before = world.kernel.snapshot();
    for (name, why) in [("db", "begin with plimsoll-"), ("info", "begin with plimsoll-"), ("plimsoll-db", "exists")] {
        let words = text(world.resctrl().make(name, None, &mut world.notes).unwrap_err());
        assert!(words.starts_with(&format!("cannot make /sys/fs/resctrl/{name}: ")) && words.contains(why), "{words}");
    }
    assert!(world.notes.undo.is_empty());
    assert_eq!(world.kernel.snapshot(), before);
}

#[test]
fn notes_that_fail_stop_everything() {
    struct Full;
    impl UndoNotes for Full {
        fn note(&mut self, _undo: Undo) -> Result<(), ControlError> {
            let (error, path) = (std::io::Error::other("disk full"), "journal".to_owned());
            Err(ControlError::Refused { doing: "write".to_owned(), path, error, told: None })
        }
    }
    let world = world(Shape::intel());
    let before = world.kernel.snapshot();
    assert!(world.resctrl().make("plimsoll-a", None, &mut Full).is_err());
    assert_eq!(world.kernel.snapshot(), before);
}

#[test]
fn threads_that_begin_while_others_are_moved_are_found() {
    let world = Arc::new(world(Shape::intel()));
    let busy = Arc::new(Busy { world: world.clone(), left: AtomicU32::new(20) });
    let resctrl = Resctrl::over(busy, MOUNT, BandwidthUnit::Percent);
    let group = resctrl.make("plimsoll-g", None, &mut Notes::default()).unwrap();
    subject::move_threads(&group, &world.host, &world.subject).unwrap();
    let tasks = group.tasks().unwrap();
    assert_eq!(tasks.len(), 24, "{tasks:?}");
    assert!(!tasks.contains(&300));
    assert_eq!(subject::why_outside(&group, &world.host, &world.subject), None);
}

#[test]
fn threads_without_end_are_an_error() {
    let world = Arc::new(world(Shape::intel()));
    let busy = Arc::new(Busy { world: world.clone(), left: AtomicU32::new(u32::MAX) });
    let resctrl = Resctrl::over(busy, MOUNT, BandwidthUnit::Percent);
    let group = resctrl.make("plimsoll-g", None, &mut Notes::default()).unwrap();
    // Each move makes a thread more, so that the number doubles nothing but never falls to none.
    let words = text(subject::move_threads(&group, &world.host, &world.subject).unwrap_err());
    assert!(words.contains("after 32 looks"), "{words}");
}

#[test]
fn threads_of_processes_and_descendants() {
    let world = world(Shape::intel());
    let threads = |processes: &[i32]| {
        let subject = Subject { processes: processes.to_vec(), ..Subject::default() };
        subject::threads(&world.host, &subject).into_iter().collect::<Vec<_>>()
    };
    assert_eq!(threads(&[100]), [100, 101, 102, 200]);
    assert_eq!(threads(&[200, 300]), [200, 300]);
    assert!(threads(&[999]).is_empty());
    assert!(threads(&[]).is_empty());
}

#[test]
fn a_folder_like_a_mount_is_read_and_refuses_what_it_cannot_do() {
    let world = world(Shape::intel());
    world.mounted();
    // The files without what makes them a kernel's.
    let resctrl = Resctrl::open(&world.host).unwrap();
    assert_eq!(resctrl.capabilities(), world.resctrl().capabilities());
    assert!(resctrl.group_names().is_empty());
    // In a folder that is no resctrl a group has no files: an error, and nothing is left.
    let words = text(resctrl.group("plimsoll-g", &ways(&resctrl, 0x3), None, &mut Notes::default()).unwrap_err());
    assert!(
        words.starts_with("cannot write \"L3:0=3;1=3\" to /sys/fs/resctrl/plimsoll-g/schemata: No such file"),
        "{words}"
    );
    assert!(resctrl.group_names().is_empty());
}

/// On a machine with resctrl and with the right to use it: a group is made, limited, read back and removed.
#[test]
fn a_real_mount_if_there_is_one() {
    let host = Host::real();
    let resctrl = match Resctrl::open(&host) {
        Ok(resctrl) => resctrl,
        Err(absent) => return skip(Need::Resctrl, absent),
    };
    let Some(cache) = resctrl.capabilities().last_level() else { return skip(Need::Resctrl, "no cache allocation") };
    let before = resctrl.group_names();
    let mut notes = Notes::default();
    let mask = cache.mask(cache.ways_min.max(1));
    let name = format!("plimsoll-test-{}", std::process::id());
    let made = resctrl.group(&name, &cache.lines(mask), None, &mut notes);
    let group = match made {
        Ok(group) => group,
        Err(error) => return skip(Need::Resctrl, format!("no group can be made: {error}")),
    };
    let masks = group.schemata().map(|schemata| schemata.masks(&cache.resources[0]));
    let removed = group.remove();
    assert!(masks.unwrap().values().all(|found| *found == mask));
    removed.unwrap();
    assert_eq!(resctrl.group_names(), before);
}

#[derive(Debug, Clone)]
enum Act {
    Make(u8, u32),
    Mask(u8, u32),
    Bandwidth(u8, u32),
    Task(u8, i32),
    Enter,
    Remove(u8),
    TakeBack(u8),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let task = prop_oneof![Just(100), Just(101), Just(102), Just(200), Just(4711)];
    let act = prop_oneof![
        (0u8..10, 0u32..0x1000).prop_map(|(name, mask)| Act::Make(name, mask)),
        (0u8..10, 0u32..0x1000).prop_map(|(name, mask)| Act::Mask(name, mask)),
        (0u8..10, 0u32..120).prop_map(|(name, limit)| Act::Bandwidth(name, limit)),
        (0u8..10, task).prop_map(|(name, task)| Act::Task(name, task)),
        Just(Act::Enter),
        (0u8..10).prop_map(Act::Remove),
        (0u8..10).prop_map(Act::TakeBack),
    ];
    prop::collection::vec(act, 0..40)
}

/// Does one thing; that it may fail is the point.
fn act(world: &mut World, home: Option<&str>, act: Act) {
    let resctrl = world.resctrl();
    let name = |name: u8| format!("plimsoll-g{name}");
    let find = |number: u8| resctrl.find(&name(number));
    let _ = match act {
        Act::Make(number, mask) => {
            resctrl.group(&name(number), &ways(&resctrl, mask), home.map(str::to_owned), &mut world.notes).map(|_| ())
        }
        Act::Mask(number, mask) => find(number).map_or(Ok(()), |group| group.set(&ways(&resctrl, mask))),
        Act::Bandwidth(number, limit) => find(number).map_or(Ok(()), |group| group.set(&bandwidth(&resctrl, limit))),
        Act::Task(number, task) => find(number).map_or(Ok(()), |group| group.add_task(task)),
        Act::Enter => {
            let entered = subject::enter(&resctrl, &mut world.context(), "llc_ways");
            entered.and_then(|group| subject::move_threads(&group, &world.host, &world.subject))
        }
        Act::Remove(number) => find(number).map_or(Ok(()), Group::remove),
        Act::TakeBack(number) => {
            if find(number).is_some() {
                world.remove_group(&format!("{MOUNT}/{}", name(number)), home);
            }
            Ok(())
        }
    };
}

/// After any changes in any order, refused or not, undoing restores the original state.
#[test]
fn undoing_leaves_everything_as_it_was() {
    let first = world(Shape::intel());
    let mut runner = TestRunner::new(ProptestConfig::with_cases(200));
    let outcome = runner.run(&(acts(), any::<bool>(), any::<bool>()), |(acts, has_home, code_and_data)| {
        let mut world = first.again(Shape { code_and_data, ..Shape::intel() });
        world.kernel.make_group("db").unwrap();
        let home = has_home.then_some("/sys/fs/resctrl/db");
        for task in [100, 101, 102, 200].into_iter().filter(|_| has_home) {
            world.kernel.write("db/tasks", &format!("{task}\n")).unwrap();
        }
        let before = world.kernel.snapshot();
        for one in acts {
            // A group that is removed by hand lets its tasks fall into the default group, which is not where they came from.
            if !(has_home && matches!(one, Act::Remove(_))) {
                act(&mut world, home, one);
            }
        }
        world.undo();
        prop_assert_eq!(world.kernel.snapshot(), before);
        Ok(())
    });
    outcome.unwrap();
}

/// What the kernel alone is asked needs no threads.
fn kernel_of(shape: Shape) -> Resctrl {
    Resctrl::over(Arc::new(FakeKernel::new(shape, [1])), MOUNT, BandwidthUnit::Percent)
}

proptest! {
    /// The kernel accepts masks that we call valid, and refuses those that we call invalid.
    #[test]
    fn masks_are_right_exactly_where_the_kernel_takes_them(
        mask in 0u32..0x1_0000, bits_min in 0u32..4, sparse in any::<bool>(), ways_all in 1u32..16,
    ) {
        let mut shape = Shape::intel();
        let cache = shape.l3.as_mut().unwrap();
        (cache.full, cache.bits_min, cache.sparse, cache.shareable) = ((1 << ways_all) - 1, bits_min.min(ways_all), sparse, 0);
        let resctrl = kernel_of(shape);
        let fault = resctrl.capabilities().last_level().unwrap().fault(CacheMask(mask));
        let taken = resctrl.default_group().set(&ways(&resctrl, mask));
        prop_assert_eq!(fault.is_none(), taken.is_ok(), "{:?} {:?}", fault, taken);
    }

    /// A limit that we call right is kept as it is; one that we call wrong is refused or rounded.
    #[test]
    fn limits_are_right_exactly_where_the_kernel_keeps_them(limit in 0u32..150, min in 1u32..20, step in 1u32..20) {
        let mut shape = Shape::intel();
        shape.bandwidth = Some([min, step, 100, 8]);
        let resctrl = kernel_of(shape);
        let ours = resctrl.capabilities().bandwidth.as_ref().unwrap().limit(f64::from(limit));
        let group = resctrl.default_group();
        let kept = group.set(&bandwidth(&resctrl, limit)).is_ok() && group.schemata().unwrap().numbers("MB")[&0] == u64::from(limit);
        prop_assert_eq!(ours.is_ok(), kept, "{:?}", ours);
    }
}
