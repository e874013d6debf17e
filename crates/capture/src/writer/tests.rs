//! Disks that fill up, tear writes and fail.

use std::time::SystemTime;

use super::*;
use crate::description::Values;
use crate::event::Closed;
use crate::reader::{Capture, FaultKind};
use crate::redact::Key;
use crate::summary::Summary;
use crate::testing::{Disk, opened, query};

fn writer(disk: &Disk, limits: Limits) -> Writer {
    let redactor = Redactor::new(Key::new(&[1; 32]), Values::Kept);
    let description = Description::new(SystemTime::UNIX_EPOCH, Values::Kept);
    Writer::begin(Box::new(disk.clone()), description, limits, redactor).expect("described")
}

fn entry(event: Event) -> Entry {
    Entry { event, rules: TextRules::default() }
}

/// Events that do not compress well: a kilobyte each.
fn queries(from: u64, count: u64) -> Vec<Entry> {
    let text = |at: u64| {
        let mut state = at.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let letters = (0..1000).map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            char::from(b'!' + (state >> 58) as u8)
        });
        letters.collect::<String>()
    };
    (from..from + count).map(|at| entry(query(1, at, &text(at)))).collect()
}

fn read(disk: &Disk) -> (Vec<Event>, Vec<FaultKind>) {
    let folder = tempfile::tempdir().expect("a folder");
    disk.save(folder.path());
    let mut reader = Capture::open(folder.path()).expect("a capture").events();
    let events = reader.by_ref().collect::<Result<_, _>>().expect("read");
    (events, reader.faults().iter().map(|fault| fault.kind).collect())
}

/// The units that are there and those that are told to be missing.
fn counts(events: &[Event]) -> (u64, u64) {
    let summary = Summary::of(events);
    (summary.units, summary.lost_units())
}

#[test]
fn segments_follow_one_another_and_hold_everything_in_order() {
    let disk = Disk::default();
    let mut writer = writer(&disk, Limits { segment_bytes: 20_000, ..Limits::default() });
    for batch in 0..20 {
        writer.write(queries(batch * 10, 10), 0);
    }
    writer.is_served_by(170_002);
    writer.finish(0);
    let (events, faults) = read(&disk);
    assert_eq!(events.iter().map(Event::at_us).collect::<Vec<_>>(), (0..200).collect::<Vec<_>>());
    assert!(faults.is_empty(), "{faults:?}");
    assert!(disk.0.lock().files.len() > 5);
    assert_eq!(disk.bytes(), writer.written);
    assert_eq!(writer.units, 200);
    let description = String::from_utf8(disk.0.lock().files["capture.toml"].clone()).expect("text");
    assert!(description.contains("server_version = 170002"), "{description}");
}

#[test]
fn recording_stops_at_its_size_and_tells_what_is_missing() {
    let disk = Disk::default();
    let mut writer = writer(&disk, Limits { size_max: 100_000, segment_bytes: 30_000 });
    for batch in 0..50 {
        writer.write(queries(batch * 10, 10), 0);
    }
    assert_eq!(writer.state, State::Full);
    writer.finish(0);
    let (events, faults) = read(&disk);
    let (units, lost) = counts(&events);
    assert_eq!(units + lost, 500);
    assert!(units > 50 && lost > 200, "{units} {lost}");
    assert!(faults.is_empty() && disk.bytes() <= 100_000, "{} bytes", disk.bytes());
}

#[test]
fn a_full_disk_loses_units_and_no_session_and_is_tried_again_after_a_while() {
    for cannot_cut in [false, true] {
        let disk = Disk::default();
        let mut writer = writer(&disk, Limits::default());
        writer.write(queries(0, 10), 0);
        (disk.0.lock().room, disk.0.lock().cannot_cut) = (Some(500), cannot_cut);
        let opening = entry(Event::Opened(opened(7, 10)));
        writer.write([opening].into_iter().chain(queries(10, 10)), 100);
        assert!(matches!(&writer.state, State::DiskFails(_)), "{:?}", writer.state);
        disk.0.lock().room = None;
        // Too early: it is left alone.
        writer.write(queries(20, 10), 200);
        assert!(matches!(&writer.state, State::DiskFails(_)), "{:?}", writer.state);
        writer.write(queries(30, 10), 100 + RETRY_US);
        assert_eq!(writer.state, State::Recording);
        writer.finish(100 + RETRY_US);
        let (events, faults) = read(&disk);
        assert_eq!(counts(&events), (20, 20));
        assert!(events.contains(&Event::Opened(opened(7, 10))));
        assert!(events.contains(&Event::Lost(Lost { at_us: 10, units: 20, why: WhyLost::Disk })));
        assert_eq!(faults, if cannot_cut { vec![FaultKind::Cut] } else { Vec::new() });
    }
}

#[test]
fn wherever_the_disk_becomes_full_every_unit_is_there_or_told_to_be_missing() {
    let whole = {
        let disk = Disk::default();
        let mut writer = writer(&disk, Limits { segment_bytes: 3_000, ..Limits::default() });
        (0..6).for_each(|batch| writer.write(queries(batch * 2, 2), 0));
        disk.bytes() as usize
    };
    for room in 0..whole {
        let disk = Disk::default();
        let mut writer = writer(&disk, Limits { segment_bytes: 3_000, ..Limits::default() });
        disk.0.lock().room = Some(room);
        (0..6).for_each(|batch| writer.write(queries(batch * 2, 2), 0));
        disk.0.lock().room = None;
        writer.finish(0);
        let (units, lost) = counts(&read(&disk).0);
        assert_eq!(units + lost, 12, "room for {room} bytes");
    }
}

#[test]
fn losses_elsewhere_are_told_with_the_next_block() {
    let disk = Disk::default();
    let mut writer = writer(&disk, Limits::default());
    writer.add_lost(Lost { at_us: 5, units: 2, why: WhyLost::TooFast });
    writer.add_lost(Lost { at_us: 3, units: 1, why: WhyLost::TooFast });
    writer.write([entry(Event::Closed(Closed { session: 1, at_us: 9 }))], 0);
    writer.finish(0);
    let told = Event::Lost(Lost { at_us: 3, units: 3, why: WhyLost::TooFast });
    assert_eq!(read(&disk).0, [told, Event::Closed(Closed { session: 1, at_us: 9 })]);
    assert_eq!(writer.lost, [3, 0, 0, 0]);
}
