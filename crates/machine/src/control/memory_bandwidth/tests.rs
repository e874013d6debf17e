//! Memory bandwidth limited, verified and given back on a fake kernel.

use super::*;
use crate::control::resctrl::{judge, limit, observed};
use crate::control::{ControlError, Undo};
use crate::groups::resctrl::fake::Shape;
use crate::groups::resctrl::fake::world::World;
use crate::groups::resctrl::{BandwidthUnit, ResctrlFiles};

const SECOND: Duration = Duration::from_secs(1);

/// The group of the subject of [`World`].
fn group() -> String {
    format!("plimsoll-{}-100", std::process::id())
}

fn percent() -> World {
    World::new(Shape::intel(), BandwidthUnit::Percent)
}

fn megabytes() -> World {
    World::new(Shape { megabytes: true, ..Shape::intel() }, BandwidthUnit::MebibytesPerSecond)
}

fn number(number: f64) -> Amount {
    Amount::Number(number)
}

fn apply(world: &mut World, amount: &Amount) -> Result<(), ControlError> {
    let resctrl = world.resctrl();
    limit::<BandwidthControl>(&resctrl, &mut world.context(), amount)
}

/// The verdict after one second in which `moved` bytes were transferred in the domains 0 and 1.
fn after(world: &World, amount: &Amount, event: &str, moved: [u64; 2]) -> Verdict {
    let count = |bytes: [u64; 2]| {
        for (domain, bytes) in [0, 1].into_iter().zip(bytes) {
            world.kernel.set_counter(&group(), domain, event, bytes);
        }
    };
    count([1000, 1000]);
    let earlier = observed::<BandwidthControl>(&world.resctrl(), &world.subject);
    count(moved.map(|bytes| bytes + 1000));
    verdict(world, amount, &earlier, SECOND)
}

fn verdict(world: &World, amount: &Amount, earlier: &Observation, length: Duration) -> Verdict {
    let window = Window { host: &world.host, subject: &world.subject, amount, earlier, length };
    judge::<BandwidthControl>(&world.resctrl(), &window).unwrap_or_else(Verdict::from)
}

#[test]
fn megabytes_are_compared_with_what_was_moved() {
    let mut world = megabytes();
    let before = world.kernel.snapshot();
    apply(&mut world, &number(1000.0)).unwrap();
    let mib = |number: u64| number << 20;
    let verdict = after(&world, &number(1000.0), "mbm_local_bytes", [mib(900), mib(100)]);
    assert_eq!(verdict, Verdict { achieved: Some(number(900.0)), why_not: None });
    let verdict = after(&world, &number(1000.0), "mbm_local_bytes", [mib(100), mib(1040)]);
    assert_eq!(verdict.why_not, None, "the loop of the kernel may be late");
    let verdict = after(&world, &number(1000.0), "mbm_local_bytes", [mib(100), mib(2000)]);
    assert_eq!(verdict.achieved, Some(number(2000.0)));
    assert_eq!(verdict.why_not.as_deref(), Some("domain 1 moves 2000.0 MiB/s where 1000 MiB/s are allowed"));
    apply(&mut world, &Amount::Text("unlimited".to_owned())).unwrap();
    let verdict = after(&world, &Amount::Text("unlimited".to_owned()), "mbm_local_bytes", [mib(100), mib(90_000)]);
    assert_eq!(verdict.why_not, None);
    world.undo();
    assert_eq!(world.kernel.snapshot(), before);
}

#[test]
fn a_percentage_is_read_back_and_its_rate_is_told() {
    let mut world = percent();
    apply(&mut world, &number(50.0)).unwrap();
    let verdict = after(&world, &number(50.0), "mbm_total_bytes", [3_000_000_000, 2_000_000_000]);
    let told = "5000 MB/s at 50 %, to be compared with the rate at 100 %";
    assert_eq!(verdict, Verdict { achieved: Some(Amount::Text(told.to_owned())), why_not: None });
    let verdict = after(&world, &number(60.0), "mbm_total_bytes", [1, 1]);
    assert_eq!(
        verdict.why_not.as_deref(),
        Some(&*format!("MB in domain 0 of /sys/fs/resctrl/{} is 50 and not 60", group()))
    );
}

#[test]
fn eighths_of_a_gigabyte() {
    let mut world = World::new(Shape::amd(), BandwidthUnit::EighthGigabytes);
    apply(&mut world, &number(16.0)).unwrap();
    let verdict = after(&world, &number(16.0), "mbm_total_bytes", [2 << 30, 0]);
    assert_eq!(verdict, Verdict { achieved: Some(number(16.0)), why_not: None });
    let verdict = after(&world, &number(16.0), "mbm_total_bytes", [4 << 30, 0]);
    assert!(verdict.why_not.unwrap().starts_with("domain 0 moves 32.0"));
}

#[test]
fn what_cannot_be_measured_has_no_figure() {
    let mut world = megabytes();
    apply(&mut world, &number(1000.0)).unwrap();
    let check = |earlier: &Observation, window: Duration, expect: &str| {
        let verdict = verdict(&world, &number(1000.0), earlier, window);
        assert_eq!(verdict.achieved, None);
        let why = verdict.why_not.unwrap();
        assert!(why.starts_with("the limit is in force") && why.contains(expect), "{why}");
    };
    let full = observed::<BandwidthControl>(&world.resctrl(), &world.subject);
    check(&Observation::new(), SECOND, "no reading from the beginning");
    check(&full, Duration::ZERO, "the window is empty");
    check(&full.keys().map(|key| (key.clone(), 5.0)).collect(), SECOND, "was reset");
    world.kernel.set_counter(&group(), 0, "mbm_local_bytes", "Unavailable");
    check(&full, SECOND, "reads Unavailable");

    let mut blind = World::new(Shape { monitoring: None, ..Shape::intel() }, BandwidthUnit::Percent);
    apply(&mut blind, &number(50.0)).unwrap();
    let verdict = after(&blind, &number(50.0), "mbm_total_bytes", [1, 1]);
    assert!(verdict.why_not.unwrap().ends_with("the processor does not count bytes (no mbm_total_bytes)"));
}

#[test]
fn amounts_that_make_no_sense() {
    let mut world = percent();
    let before = world.kernel.snapshot();
    let mut check = |amount: Amount, expect: &str| {
        let words = apply(&mut world, &amount).unwrap_err().to_string();
        assert_eq!(words, format!("memory_bandwidth cannot be {amount}: {expect}"));
    };
    check(number(35.0), "limits go in steps of 10; the kernel would round it up to 40 %");
    check(number(0.0), "the smallest limit is 10 %");
    check(number(200.0), "more than 100 % cannot be");
    check(Amount::Text("fast".to_owned()), "it is neither a number of % nor \"unlimited\"");
    assert_eq!(world.kernel.snapshot(), before);
    let mut none = World::new(Shape { bandwidth: None, ..Shape::intel() }, BandwidthUnit::Percent);
    let words = apply(&mut none, &number(50.0)).unwrap_err().to_string();
    assert!(words.contains("without limits of memory bandwidth"), "{words}");
}

#[test]
fn it_shares_the_group_with_the_ways() {
    let mut world = percent();
    let before = world.kernel.snapshot();
    apply(&mut world, &number(50.0)).unwrap();
    let resctrl = world.resctrl();
    let group = resctrl.find(&self::group()).unwrap();
    let cache = resctrl.capabilities().last_level().unwrap();
    group.set(&cache.lines(crate::groups::resctrl::CacheMask(0x3))).unwrap();
    apply(&mut world, &number(20.0)).unwrap();
    assert_eq!(resctrl.group_names(), [self::group()]);
    let schemata = group.schemata().unwrap();
    assert_eq!((schemata.masks("L3")[&0].0, schemata.numbers("MB")[&0]), (0x3, 20));
    // Lifted alone, the limit goes and the mask stays.
    let text = "MB:0=100;1=100\n".to_owned();
    let undo = Undo::WriteFile { path: format!("{}/schemata", group.folder()), text: text.clone() };
    assert_eq!(world.notes.undo.last(), Some(&undo));
    world.kernel.write(&format!("{}/schemata", self::group()), &text).unwrap();
    let schemata = group.schemata().unwrap();
    assert_eq!((schemata.masks("L3")[&0].0, schemata.numbers("MB")[&0]), (0x3, 100));
    world.undo();
    assert_eq!(world.kernel.snapshot(), before);
}
