//! Recorded traffic of PostgreSQL clients: what they sent, when, and what the server answered.
//!
//! A capture is a folder with a description and segments. In reading order: [`event`] has what a segment holds. To record,
//! a [`tap`] follows the bytes of each session and makes events of them; the [`recorder`] takes these from all sessions
//! and writes them on a thread of its own, with a [`writer`] into a [`storage`]; [`redact`] removes secrets before. To
//! read, [`reader`] has the events of a folder, [`summary`] their figures, and [`told`] both for people and programs.
//! [`mod@format`] and [`encoding`] are the bytes on disk, and [`messages`] reads those of PostgreSQL's protocol. Rows are
//! compared by their [`RowChecksum`].
//!
//! ```
//! use std::time::{Instant, SystemTime};
//!
//! use plimsoll_capture::description::{Description, Values};
//! use plimsoll_capture::event::{Closed, Event};
//! use plimsoll_capture::reader::Capture;
//! use plimsoll_capture::recorder::{Options, Recorder};
//! use plimsoll_capture::redact::Key;
//! use plimsoll_capture::storage::Folder;
//! use plimsoll_capture::tap::Sink;
//! use plimsoll_capture::writer::Limits;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let place = tempfile::tempdir()?;
//! let folder = Box::new(Folder::create(&place.path().join("traffic"))?);
//! let description = Description::new(SystemTime::now(), Values::Kept);
//! let options = Options { limits: Limits::default(), key: Key::new(&[7; 32]) };
//! let recorder = Recorder::start(folder, description, options, Instant::now())?;
//! recorder.record(Event::Closed(Closed { session: 1, at_us: 5 }), Default::default());
//! assert!(recorder.finish());
//!
//! let capture = Capture::open(&place.path().join("traffic"))?;
//! let events = capture.events().collect::<Result<Vec<Event>, _>>()?;
//! assert_eq!(events, [Event::Closed(Closed { session: 1, at_us: 5 })]);
//! # Ok(())
//! # }
//! ```

pub mod description;
pub mod encoding;
pub mod event;
pub mod format;
pub mod messages;
pub mod reader;
pub mod recorder;
pub mod redact;
mod row_checksum;
pub mod storage;
pub mod summary;
pub mod tap;
#[cfg(test)]
mod testing;
pub mod told;
pub mod writer;

pub use row_checksum::RowChecksum;
