//! The controls as others use them: by a host, and by the limiter with its restore journal.

use super::*;
use crate::control::{Amount, Control, Limits, Verdict, Window};
use crate::control::{llc_ways, memory_bandwidth};
use crate::host::fake::FakeHost;
use crate::limiter::Limiter;

fn limits(limits: &[(&str, f64)]) -> Limits {
    limits.iter().map(|(key, number)| ((*key).to_owned(), Amount::Number(*number))).collect()
}

/// The mask and the limit of bandwidth of the subject's group in domain 1.
fn in_force(world: &World) -> Option<(u32, u64)> {
    let schemata = world.resctrl().find(&subject::group_name(&world.subject))?.schemata().unwrap();
    Some((schemata.masks("L3")[&1].0, schemata.numbers("MB")[&1]))
}

#[test]
fn the_limiter_sets_verifies_lifts_and_restores() {
    let world = world(Shape::intel());
    let (host, mirror) = world.mounted();
    let before = world.kernel.snapshot();
    let state = tempfile::tempdir().unwrap();
    let mut limiter = Limiter::begin(host, world.subject.clone(), state.path()).unwrap();
    limiter.set(&limits(&[("llc_ways", 2.0), ("memory_bandwidth", 50.0)])).unwrap();
    assert_eq!(in_force(&world), Some((0x3, 50)));

    let group = subject::group_name(&world.subject);
    world.kernel.set_counter(&group, 0, "llc_occupancy", 5 << 18);
    mirror.show();
    let window = limiter.observe();
    let verdicts = limiter.verify(&window);
    assert_eq!(verdicts["llc_ways"], Verdict { achieved: Some(Amount::Number(1.0)), why_not: None });
    assert_eq!(verdicts["memory_bandwidth"].why_not, None);
    assert!(verdicts["memory_bandwidth"].achieved.is_some());

    let error = limiter.set(&limits(&[("llc_ways", 4.0), ("memory_bandwidth", 55.0)])).unwrap_err().to_string();
    assert!(error.contains("round it up to 60 %"), "{error}");
    assert_eq!(in_force(&world), Some((0x3, 50)), "the limits from before");
    limiter.set(&limits(&[("memory_bandwidth", 20.0)])).unwrap();
    assert_eq!(in_force(&world), Some((0x7ff, 20)), "the ways are lifted alone");
    limiter.set(&limits(&[("llc_ways", 3.0)])).unwrap();
    assert_eq!(in_force(&world), Some((0x7, 100)), "so is the bandwidth");
    limiter.set(&Limits::new()).unwrap();
    assert_eq!(world.kernel.snapshot(), before);

    limiter.set(&limits(&[("llc_ways", 1.0)])).unwrap();
    drop(limiter);
    assert_eq!(world.kernel.snapshot(), before);
}

#[test]
fn controls_tell_what_a_mount_offers_and_what_stands_in_the_way() {
    let world = world(Shape::intel());
    let (host, _) = world.mounted();
    let (ways, bandwidth) = (llc_ways::CONTROL.probe(&host), memory_bandwidth::CONTROL.probe(&host));
    assert!(ways.available && ways.reason.contains("11 ways of 1.25 MiB"), "{ways:?}");
    assert!(bandwidth.available && bandwidth.reason.contains("in % "), "{bandwidth:?}");
    assert!(llc_ways::CONTROL.check(&host, &Amount::Number(11.0)).is_ok());
    assert!(llc_ways::CONTROL.check(&host, &Amount::Number(12.0)).is_err());
    let rival = host.path("/proc/4242");
    std::fs::create_dir_all(&rival).unwrap();
    std::fs::write(rival.join("comm"), "pcm-memory\n").unwrap();
    for probed in [llc_ways::CONTROL.probe(&host), memory_bandwidth::CONTROL.probe(&host)] {
        assert!(!probed.available && probed.reason.contains("pcm-memory (process 4242)"), "{probed:?}");
    }
}

#[test]
fn without_resctrl_there_is_a_reason_for_everything() {
    let none = FakeHost::new(&[]);
    let subject = Subject { processes: vec![1], ..Subject::default() };
    for control in [&llc_ways::CONTROL as &dyn Control, &memory_bandwidth::CONTROL] {
        let probed = control.probe(&none.host());
        assert!(!probed.available && probed.remedy.is_some(), "{probed:?}");
        let amount = Amount::Number(4.0);
        let error = control.check(&none.host(), &amount).unwrap_err().to_string();
        assert!(error.contains(&probed.reason), "{error}");
        let (host, earlier) = (none.host(), control.observe(&none.host(), &subject));
        let length = Duration::from_secs(1);
        let window = Window { host: &host, subject: &subject, amount: &amount, earlier: &earlier, length };
        let why = Verdict::from(control.verify(&window).unwrap_err()).why_not;
        assert!(why.is_some_and(|why| why.contains(&probed.reason)));
    }
}
