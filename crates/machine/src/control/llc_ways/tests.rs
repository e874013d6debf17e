//! Ways of the cache limited, verified and given back on a fake kernel.

use std::time::Duration;

use super::*;
use crate::control::resctrl::{judge, limit, observed};
use crate::control::{ControlError, Observation};
use crate::groups::resctrl::BandwidthUnit;
use crate::groups::resctrl::fake::Shape;
use crate::groups::resctrl::fake::world::World;

const WAY: u64 = 5 << 18;

/// The group of the subject of [`World`].
fn group() -> String {
    format!("plimsoll-{}-100", std::process::id())
}

fn world(shape: Shape) -> World {
    World::new(shape, BandwidthUnit::Percent)
}

fn ways(number: f64) -> Amount {
    Amount::Number(number)
}

fn apply(world: &mut World, amount: &Amount) -> Result<(), ControlError> {
    let resctrl = world.resctrl();
    limit::<CacheControl>(&resctrl, &mut world.context(), amount)
}

fn verdict(world: &World, amount: &Amount, earlier: &Observation) -> Verdict {
    let window = Window { host: &world.host, subject: &world.subject, amount, earlier, length: Duration::ZERO };
    judge::<CacheControl>(&world.resctrl(), &window).unwrap_or_else(Verdict::from)
}

fn hold(world: &World, domain: u32, bytes: impl ToString) {
    world.kernel.set_counter(&group(), domain, "llc_occupancy", bytes);
}

#[test]
fn amounts_and_their_masks() {
    let resctrl = world(Shape::intel()).resctrl();
    let cache = resctrl.capabilities().last_level().unwrap();
    let check = |amount: Amount, expect: Result<u32, &str>| match (mask(cache, &amount), expect) {
        (Ok(found), Ok(expect)) => assert_eq!(found, CacheMask(expect), "{amount}"),
        (Err(error), Err(expect)) => assert_eq!(error, expect, "{amount}"),
        (found, expect) => panic!("{amount}: {found:?} is not {expect:?}"),
    };
    let text = |text: &str| Amount::Text(text.to_owned());
    check(ways(1.0), Ok(0x1));
    check(ways(9.0), Ok(0x1ff));
    check(ways(11.0), Ok(0x7ff));
    check(text("0xf0"), Ok(0xf0));
    check(text("unlimited"), Ok(0x7ff));
    check(ways(0.0), Err("it has no way, and must have 1 way at least"));
    check(ways(12.0), Err("it must be a whole number from 1 to 11"));
    check(ways(2.5), Err("it must be a whole number from 1 to 11"));
    check(ways(f64::NAN), Err("it must be a whole number from 1 to 11"));
    check(text("0x5"), Err("it has holes, and this processor takes neighbouring ways only; 0x7 would do"));
    check(text("0x800"), Err("the bits 0x800 lie beyond the 11 ways of the cache (0x7ff)"));
    check(text("0x0"), Err("it has no way, and must have 1 way at least"));
    check(text("half"), Err("it is neither a number of ways, nor a mask such as 0x7ff, nor \"unlimited\""));
}

#[test]
fn a_limit_from_beginning_to_end() {
    for code_and_data in [false, true] {
        let mut world = world(Shape { code_and_data, ..Shape::intel() });
        let before = world.kernel.snapshot();
        apply(&mut world, &ways(2.0)).unwrap();
        let limited = world.resctrl().find(&group()).unwrap();
        assert_eq!(limited.tasks().unwrap().into_iter().collect::<Vec<_>>(), [100, 101, 102, 200]);
        hold(&world, 0, WAY + WAY / 2);
        hold(&world, 1, 0);
        let earlier = observed::<CacheControl>(&world.resctrl(), &world.subject);
        assert_eq!(earlier["occupancy_bytes.0"], (WAY + WAY / 2) as f64);
        // A thread of a member is a member.
        world.fork(101, 100, 103);
        assert_eq!(verdict(&world, &ways(2.0), &earlier), Verdict { achieved: Some(ways(1.5)), why_not: None });
        apply(&mut world, &ways(4.0)).unwrap();
        assert_eq!(world.notes.undo.len(), 2, "one group, one mask: {:?}", world.notes);
        assert_eq!(verdict(&world, &ways(4.0), &earlier).why_not, None);
        world.end(100, 103);
        world.undo();
        assert_eq!(world.kernel.snapshot(), before);
    }
}

#[test]
fn what_keeps_a_limit_from_biting() {
    let check = |prepare: &dyn Fn(&mut World), earlier: u64, expect: &str| {
        let mut world = world(Shape::intel());
        apply(&mut world, &ways(2.0)).unwrap();
        hold(&world, 0, WAY);
        prepare(&mut world);
        let earlier = Observation::from([("occupancy_bytes.0".to_owned(), earlier as f64)]);
        let why = verdict(&world, &ways(2.0), &earlier).why_not.unwrap_or_else(|| panic!("no fault: {expect}"));
        assert!(why.contains(expect), "{why}");
    };
    let write = |world: &World, file: &str, text: &str| {
        use crate::groups::resctrl::ResctrlFiles;
        world.kernel.write(file, text).unwrap();
    };
    let other = |world: &mut World| write(world, &format!("{}/schemata", group()), "L3:1=f\n");
    check(&other, 0, &format!("L3 in domain 1 of /sys/fs/resctrl/{} is 0xf and not 0x3", group()));
    let left = |world: &mut World| write(world, "tasks", "101\n");
    check(&left, 0, &format!("1 of 4 threads are not in /sys/fs/resctrl/{}, thread 101 for one", group()));
    let full = |world: &mut World| hold(world, 0, 3 * WAY);
    check(&full, 0, "hold 3.75 MiB in domain 0, where their ways 0x3 have 2.50 MiB");
    check(&full, 4 * WAY, "it was 5.00 MiB at the beginning: lines from before the mask stay");
    let silent = |world: &mut World| hold(world, 1, "Unavailable");
    check(
        &silent,
        0,
        &format!("its effect cannot be measured: {}/mon_data/mon_L3_01/llc_occupancy reads Unavailable", group()),
    );
    let gone = |world: &mut World| world.undo();
    check(&gone, 0, &format!("there is no group {}", group()));
    let ended = |world: &mut World| {
        [(100, 100), (100, 101), (100, 102), (200, 200)].iter().for_each(|(p, t)| world.end(*p, *t))
    };
    check(&ended, 0, "no process of 100 is running");
}

#[test]
fn a_little_more_than_the_mask_is_the_counter() {
    let mut world = world(Shape::intel());
    apply(&mut world, &ways(2.0)).unwrap();
    hold(&world, 0, 2 * WAY * 104 / 100 + 65536);
    assert_eq!(verdict(&world, &ways(2.0), &Observation::new()).why_not, None);
}

#[test]
fn what_cannot_be_measured_has_no_figure() {
    let mut world = world(Shape { monitoring: None, ..Shape::intel() });
    apply(&mut world, &ways(2.0)).unwrap();
    let verdict = verdict(&world, &ways(2.0), &Observation::new());
    assert_eq!(verdict.achieved, None);
    assert!(verdict.why_not.unwrap().starts_with("the limit is in force; its effect cannot be measured"));
}

#[test]
fn where_it_cannot_be_applied() {
    let mut none = world(Shape { l3: None, ..Shape::intel() });
    let words = apply(&mut none, &ways(2.0)).unwrap_err().to_string();
    assert!(words.contains("without allocation of the level 3 cache"), "{words}");

    let mut ended = world(Shape::intel());
    ended.subject.processes = vec![4711];
    let words = apply(&mut ended, &ways(2.0)).unwrap_err().to_string();
    assert_eq!(words, "llc_ways cannot be limited here: no process of 4711 is running");

    let mut full = world(Shape { bandwidth: Some([10, 10, 100, 1]), ..Shape::intel() });
    let words = apply(&mut full, &ways(2.0)).unwrap_err().to_string();
    assert!(words.ends_with("(Out of CLOSIDs)"), "{words}");

    let mut many = world(Shape::intel());
    let before = many.kernel.snapshot();
    let words = apply(&mut many, &ways(12.0)).unwrap_err().to_string();
    assert_eq!(words, "llc_ways cannot be 12: it must be a whole number from 1 to 11");
    assert_eq!((many.kernel.snapshot(), many.notes.undo.len()), (before, 0), "nothing was tried");
}

#[test]
fn threads_go_back_to_the_group_they_came_from() {
    use crate::groups::resctrl::ResctrlFiles;
    let mut world = world(Shape::intel());
    world.kernel.make_group("db").unwrap();
    world.kernel.write("db/tasks", "100,101,102\n").unwrap();
    let words = apply(&mut world, &ways(2.0)).unwrap_err().to_string();
    assert!(words.contains("in several groups (/sys/fs/resctrl/db and others)"), "{words}");
    world.kernel.write("db/tasks", "200\n").unwrap();
    let before = world.kernel.snapshot();
    apply(&mut world, &ways(2.0)).unwrap();
    assert_ne!(world.kernel.snapshot(), before);
    world.undo();
    assert_eq!(world.kernel.snapshot(), before);
}

#[test]
fn the_group_of_another_plimsoll_is_left_alone() {
    use crate::groups::resctrl::ResctrlFiles;
    let mut world = world(Shape::intel());
    world.kernel.make_group("plimsoll-1-100").unwrap();
    world.kernel.write("plimsoll-1-100/tasks", "100,101,102,200\n").unwrap();
    let before = world.kernel.snapshot();
    let words = apply(&mut world, &ways(2.0)).unwrap_err().to_string();
    assert!(words.contains("/sys/fs/resctrl/plimsoll-1-100, which another Plimsoll uses or left behind"), "{words}");
    assert!(words.contains("plimsoll machine --restore"), "{words}");
    assert_eq!((world.kernel.snapshot(), world.notes.undo.len()), (before, 0));
}
