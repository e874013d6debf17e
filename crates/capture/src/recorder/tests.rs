//! The queue and the thread.

use std::sync::mpsc;
use std::time::SystemTime;

use super::*;
use crate::event::Unit;
use crate::reader::Capture;
use crate::storage::{Folder, Segment};
use crate::summary::Summary;
use crate::testing::{Disk, opened, query};

fn start(storage: Box<dyn Storage>) -> Recorder {
    let options = Options { limits: Limits::default(), key: Key::new(&[1; 32]) };
    let description = Description::new(SystemTime::UNIX_EPOCH, Values::Kept);
    Recorder::start(storage, description, options, Instant::now()).expect("started")
}

fn record(recorder: &Recorder, event: Event) {
    recorder.record(event, TextRules::default());
}

#[test]
fn events_of_several_threads_are_on_disk_when_the_capture_has_finished() {
    let around = tempfile::tempdir().expect("a folder");
    let folder = around.path().join("traffic");
    let recorder = start(Box::new(Folder::create(&folder).expect("made")));
    thread::scope(|scope| {
        for session in 1..=4 {
            let recorder = recorder.clone();
            scope.spawn(move || {
                record(&recorder, Event::Opened(opened(session, 0)));
                (1..=1000).for_each(|at| record(&recorder, query(session, at, "select 1")));
            });
        }
    });
    assert!(recorder.finish() && recorder.has_stopped());
    record(&recorder, query(9, 9, "select 'too late'"));
    let capture = Capture::open(&folder).expect("a capture");
    let events: Vec<Event> = capture.events().collect::<Result<_, _>>().expect("read");
    assert_eq!((events.len(), recorder.progress().units), (4004, 4000));
    assert_eq!(recorder.progress().bytes, capture.bytes());
    for session in 1..=4 {
        let of_session = events.iter().filter_map(|event| match event {
            Event::Unit(unit) if unit.session == session => Some(unit.at_us),
            _ => None,
        });
        assert!(of_session.eq(1..=1000), "session {session}");
    }
    assert_eq!(Summary::of(&events).lost_units(), 0);
}

/// A disk that does not answer until it is told to.
struct Stuck(Disk, mpsc::Receiver<()>);

impl Storage for Stuck {
    fn describe(&mut self, text: &str) -> io::Result<()> {
        self.0.describe(text)
    }

    fn create(&mut self, number: u32) -> io::Result<Box<dyn Segment>> {
        let _ = self.1.recv();
        self.0.create(number)
    }
}

#[test]
fn a_disk_that_hangs_holds_nobody_up_and_bounds_the_memory() {
    let (free, until) = mpsc::channel();
    let disk = Disk::default();
    let recorder = start(Box::new(Stuck(disk.clone(), until)));
    let large = |at_us| {
        let Event::Unit(unit) = query(1, at_us, "select 1") else { unreachable!("a unit") };
        Event::Unit(Unit { request: vec![0; 1 << 20], ..unit })
    };
    (0..100).for_each(|at| record(&recorder, large(at)));
    assert!(recorder.shared.queue.lock().held <= HELD_MAX);
    assert!(!recorder.reserve(HELD_MAX));
    // There is still room for the ends of sessions.
    record(&recorder, Event::Opened(opened(2, 100)));
    free.send(()).expect("it waits");
    drop(free);
    assert!(recorder.finish());
    let progress = recorder.progress();
    assert_eq!(progress.units + progress.lost_units(), 100);
    assert!(progress.units >= 50 && progress.lost[0] >= 30, "{progress:?}");
    assert_eq!(recorder.shared.queue.lock().held, 0);
    let folder = tempfile::tempdir().expect("a folder");
    disk.save(folder.path());
    let events: Vec<Event> =
        Capture::open(folder.path()).expect("a capture").events().collect::<Result<_, _>>().expect("read");
    assert_eq!(Summary::of(&events).lost_units(), progress.lost_units());
    assert!(events.contains(&Event::Opened(opened(2, 100))));
}

#[test]
fn memory_is_given_back() {
    let recorder = start(Box::new(Disk::default()));
    assert!(recorder.reserve(HELD_MAX) && !recorder.reserve(1));
    recorder.release(HELD_MAX);
    assert!(recorder.reserve(1));
    recorder.release(1);
    assert!(recorder.finish());
}
