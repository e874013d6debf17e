//! For tests: events of any kind, messages in words, and a storage that fails.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use proptest::prelude::*;

use crate::event::{Answer, Closed, Event, Lost, Opened, Unit, WhyLost};
use crate::format::{DESCRIPTION, segment_name};
use crate::messages::put;
use crate::storage::{Segment, Storage};

fn any_answer() -> impl Strategy<Value = Answer> {
    let tags = proptest::collection::vec("[A-Z ]{0,12}", 0..3);
    let error = proptest::option::of("[0-9A-Z]{5}");
    let begin = proptest::collection::vec(any::<u8>(), 0..60);
    (any::<u8>(), tags, error, any::<u64>(), any::<u64>(), any::<u64>(), begin).prop_map(
        |(state, tags, error, rows, bytes, checksum, begin)| Answer {
            state,
            tags,
            error,
            rows,
            bytes,
            checksum,
            begin,
        },
    )
}

/// Any event.
pub(crate) fn any_event() -> impl Strategy<Value = Event> {
    let parameters = proptest::collection::vec((".{0,8}", ".{0,8}"), 0..3);
    let opened = (any::<u64>(), any::<u64>(), ".{0,8}", ".{0,8}", parameters).prop_map(
        |(session, at_us, user, database, parameters)| {
            Event::Opened(Opened { session, at_us, user, database, parameters })
        },
    );
    let request = proptest::collection::vec(any::<u8>(), 0..200);
    let unit = (any::<u64>(), any::<u64>(), any::<u64>(), request, any_answer()).prop_map(
        |(session, at_us, took_us, request, answer)| Event::Unit(Unit { session, at_us, took_us, request, answer }),
    );
    let closed = (any::<u64>(), any::<u64>()).prop_map(|(session, at_us)| Event::Closed(Closed { session, at_us }));
    let why = proptest::sample::select(WhyLost::ALL.to_vec());
    let lost =
        (any::<u64>(), any::<u64>(), why).prop_map(|(at_us, units, why)| Event::Lost(Lost { at_us, units, why }));
    prop_oneof![1 => opened, 4 => unit, 1 => closed, 1 => lost]
}

/// A unit of that session with a simple query.
pub(crate) fn query(session: u64, at_us: u64, sql: &str) -> Event {
    let mut request = Vec::new();
    put(b'Q', &[sql.as_bytes(), b"\0"].concat(), &mut request);
    let answer = Answer { state: b'I', tags: vec!["SELECT 1".to_owned()], ..Answer::default() };
    Event::Unit(Unit { session, at_us, took_us: 10, request, answer })
}

/// The opening of a session.
pub(crate) fn opened(session: u64, at_us: u64) -> Opened {
    Opened { session, at_us, user: "shop".to_owned(), database: "shop".to_owned(), parameters: Vec::new() }
}

/// Files in memory, on a disk that can be made to fail.
#[derive(Debug, Clone, Default)]
pub(crate) struct Disk(pub(crate) Arc<Mutex<DiskState>>);

#[derive(Debug, Default)]
pub(crate) struct DiskState {
    pub(crate) files: BTreeMap<String, Vec<u8>>,
    /// How many more bytes there is room for; `None` without a limit. What does not fit is written in part.
    pub(crate) room: Option<usize>,
    /// Whether a torn end can be cut off.
    pub(crate) cannot_cut: bool,
}

impl Disk {
    /// Copies the files into a folder, where they can be read.
    pub(crate) fn save(&self, folder: &std::path::Path) {
        for (name, bytes) in &self.0.lock().files {
            std::fs::write(folder.join(name), bytes).expect("written");
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        let state = self.0.lock();
        state.files.iter().filter(|(name, _)| *name != DESCRIPTION).map(|(_, bytes)| bytes.len() as u64).sum()
    }
}

impl Storage for Disk {
    fn describe(&mut self, text: &str) -> io::Result<()> {
        self.0.lock().files.insert(DESCRIPTION.to_owned(), text.as_bytes().to_vec());
        Ok(())
    }

    fn create(&mut self, number: u32) -> io::Result<Box<dyn Segment>> {
        let name = segment_name(number);
        let before = self.0.lock().files.insert(name.clone(), Vec::new());
        assert!(before.is_none(), "{name} was written already");
        Ok(Box::new(DiskSegment { disk: self.clone(), name }))
    }
}

struct DiskSegment {
    disk: Disk,
    name: String,
}

impl Segment for DiskSegment {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let state = &mut *self.disk.0.lock();
        let fits = bytes.len().min(state.room.unwrap_or(usize::MAX));
        state.room = state.room.map(|room| room - fits);
        state.files.get_mut(&self.name).expect("created").extend_from_slice(&bytes[..fits]);
        if fits < bytes.len() { Err(io::Error::from(io::ErrorKind::StorageFull)) } else { Ok(()) }
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        let state = &mut *self.disk.0.lock();
        if state.cannot_cut {
            return Err(io::Error::other("it cannot be cut"));
        }
        let file = state.files.get_mut(&self.name).expect("created");
        state.room = state.room.map(|room| room + file.len() - length as usize);
        file.truncate(length as usize);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}
