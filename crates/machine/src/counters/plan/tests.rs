//! The groups that are planned on other machines than this.

use super::*;
use crate::host::fake::FakeHost;

/// An AMD processor's format of event codes.
fn amd() -> FakeHost {
    FakeHost::new(&[
        ("/sys/bus/event_source/devices/cpu/format/event", "config:0-7,32-35\n"),
        ("/sys/bus/event_source/devices/cpu/format/umask", "config:8-15\n"),
    ])
}

fn wishes_of(fake: &FakeHost, family: Option<Family>, with_top_down: bool) -> Vec<Wish> {
    let host = fake.host();
    wishes(&Processor { host: &host, family, is_amd: false }, with_top_down)
}

/// The groups wanted, the alternatives of a wish with `|` between, each with its number of events.
fn told(wishes: &[Wish]) -> Vec<String> {
    let one = |group: &WantedGroup| format!("{} {}", group.name, group.events().count());
    wishes.iter().map(|wish| wish.iter().map(one).collect::<Vec<_>>().join(" | ")).collect()
}

#[test]
fn the_groups_of_a_known_and_an_unknown_processor() {
    assert_eq!(
        told(&wishes_of(&amd(), Some(Family::Zen4), true)),
        [
            "caches 5",
            "top-down by dispatch slots 6 | top-down by dispatch slots, bad speculation as the rest 5",
            "levels 5",
            "code 4",
            "memory reads 3",
            "memory and core 3",
            "front end 2",
            "loads 5",
            "last level 4",
            "branches and pages 6",
            "kernel mode 3",
        ]
    );
    let empty = FakeHost::new(&[]);
    assert_eq!(
        told(&wishes_of(&empty, None, false)),
        ["caches 5", "loads 5", "last level 4", "branches and pages 6", "kernel mode 3"]
    );
    let skylake = wishes_of(&empty, Some(Family::Skylake), false);
    assert!(!told(&skylake).iter().any(|name| name.contains("top-down")), "refused with hyper-threads");
}

#[test]
fn groups_fit_the_counters_of_their_family() {
    for family in Family::ALL {
        // Six counters on AMD; on Arm six and one for cycles; on Intel four or eight, with cycles, instructions, slots and
        // its shares fixed.
        let most = match family {
            Family::Zen2 | Family::Zen3 | Family::Zen4 | Family::Zen5 => 6,
            Family::NeoverseN1 | Family::Neoverse => 7,
            Family::Skylake => 6,
            Family::IceLake => 9,
            // One more share is fixed.
            Family::SapphireRapids => 10,
        };
        for wish in wishes_of(&amd(), Some(family), true) {
            for group in wish {
                assert!(group.events().count() <= most, "{family}: {}", group.name);
                assert!(group.events().any(|event| event.key == "cycles"), "{family}: {}", group.name);
            }
        }
    }
}

#[test]
fn slots_lead_their_shares() {
    let wishes = wishes_of(&amd(), Some(Family::IceLake), true);
    let group = &wishes[1][0];
    assert_eq!(group.events().next().map(|event| event.key), Some("slots"));
    assert!(group.events().any(|event| event.key == "instructions"));
}

#[test]
fn each_processor_has_its_last_level_event() {
    let check = |fake: &FakeHost, family, is_amd: bool, expect: &[&str]| {
        let host = fake.host();
        let wanted = general(&Processor { host: &host, family, is_amd }, Event::LlcMisses);
        assert_eq!(wanted.sources.iter().map(Source::to_string).collect::<Vec<_>>(), expect);
    };
    check(&amd(), Some(Family::Zen4), true, &["event 0x43, mask 0x48"]);
    let formats_hidden = FakeHost::new(&[]);
    check(&formats_hidden, Some(Family::Zen3), true, &[]);
    check(&formats_hidden, None, true, &["LLC-load-misses"]);
    check(&formats_hidden, None, false, &["LLC-load-misses", "cache-misses"]);
}

#[test]
fn slots_of_a_cycle_are_told_on_arm() {
    let check = |text: &str, expect| {
        let fake = FakeHost::new(&[("/sys/bus/event_source/devices/armv8_pmuv3_0/caps/slots", text)]);
        assert_eq!(slots_per_cycle(&fake.host()), expect, "{text}");
    };
    check("0x00000005\n", Some(5));
    check("8\n", Some(8));
    check("0x0\n", None);
    assert_eq!(slots_per_cycle(&amd().host()), None);
    assert!(why_no_top_down(Family::Neoverse, 1, None).is_some());
    assert!(why_no_top_down(Family::Neoverse, 1, Some(8)).is_none());
    assert!(why_no_top_down(Family::Skylake, 2, None).is_some_and(|why| why.contains("smt/control")));
    assert!(why_no_top_down(Family::Skylake, 1, None).is_none());
}
