//! Recording traffic: which capture is being written, and the sessions that are followed for it.
//!
//! A session is followed by what its client sends and receives (`follower`), not within the session's state machine: a
//! replay is then seen once, as the client sees it, and a refusal of ours as the answer that it is. [`Capturing`] begins
//! and ends captures as the settings say, and [`own_relay`] is a governor that does nothing else.

pub(crate) mod follower;
pub mod own_relay;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;
use plimsoll_capture::description::{Description, Values};
use plimsoll_capture::recorder::{Options, Progress, Recorder};
use plimsoll_capture::redact::Key;
use plimsoll_capture::storage::Folder;
use plimsoll_capture::writer::{Limits, State};

use crate::settings::Capture;

/// How long an operator waits to learn whether a capture has begun. A worker of the relay waits with them.
const BEGIN_WITHIN: Duration = Duration::from_millis(200);

/// The capture that is being written, if there is one.
#[derive(Debug, Default)]
pub struct Capturing(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// A number that changes with the capture, so that a session looks no further while it stays.
    generation: AtomicU64,
    now: Mutex<Now>,
}

#[derive(Debug, Default)]
struct Now {
    /// What the settings ask for.
    wanted: Option<Capture>,
    running: Option<Running>,
    /// Why there is none, although the settings ask for one.
    fault: Option<String>,
    /// The counts of captures that have ended.
    ended: Vec<Recorder>,
    before: Counts,
}

/// A capture that is being written.
#[derive(Debug, Clone)]
pub(crate) struct Running {
    pub(crate) recorder: Recorder,
    /// Its folder.
    pub(crate) folder: PathBuf,
}

/// Totals of all captures.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Units that were written.
    pub units: u64,
    /// Bytes that were written.
    pub bytes: u64,
    /// Units that were lost.
    pub lost: u64,
}

impl Counts {
    fn add(&mut self, progress: &Progress) {
        self.units += progress.units;
        self.bytes += progress.bytes;
        self.lost += progress.lost_units();
    }
}

/// What operators see of a capture.
#[derive(Debug, Clone, PartialEq)]
pub struct CaptureView {
    /// `off`, `recording`, `full`, `disk fails` or `failed`.
    pub state: &'static str,
    /// Why it does not record, if so.
    pub why: Option<String>,
    /// Its folder.
    pub folder: Option<PathBuf>,
    /// How long it has been recording.
    pub seconds: f64,
    /// Whether values are replaced by hashes.
    pub is_redacted: bool,
    /// What it has written and lost.
    pub counts: Counts,
}

impl Capturing {
    /// Begins, ends or changes the capture as the settings say. An error is kept for operators, and returned.
    pub(crate) fn apply(&self, wanted: &Capture) -> Result<(), String> {
        {
            let mut now = self.0.now.lock();
            if now.wanted.as_ref() == Some(wanted) && now.fault.is_none() {
                return Ok(());
            }
            (now.wanted, now.fault) = (Some(wanted.clone()), None);
            if let Some(running) = now.running.take() {
                running.recorder.stop();
                tracing::info!(folder = %running.folder.display(), "the capture has ended");
                now.ended.push(running.recorder);
            }
            self.0.changes();
        }
        if wanted.to.is_none() {
            return Ok(());
        }
        // The folder may be on a disk that does not answer, and traffic must not wait for it.
        let (sender, begun) = mpsc::channel();
        let (shared, wanted) = (Arc::clone(&self.0), wanted.clone());
        let begin = move || drop(sender.send(shared.begin(&wanted)));
        if let Err(error) = thread::Builder::new().name("capture-begin".to_owned()).spawn(begin) {
            return Err(format!("traffic is not recorded: {error}"));
        }
        let late = || Err("the folder does not answer yet; recording begins when it does".to_owned());
        begun.recv_timeout(BEGIN_WITHIN).unwrap_or_else(|_| late())
    }

    /// Records with that, whatever the settings say.
    pub(crate) fn record(&self, running: Running) {
        self.0.now.lock().running = Some(running);
        self.0.changes();
    }

    /// A number that changes with the capture.
    pub(crate) fn generation(&self) -> u64 {
        self.0.generation.load(Ordering::Acquire)
    }

    /// The capture that is being written.
    pub(crate) fn running(&self) -> Option<Running> {
        self.0.now.lock().running.clone()
    }

    /// Ends the capture, and waits until it is written. Returns whether it is.
    pub fn finish(&self) -> bool {
        let running = {
            let mut now = self.0.now.lock();
            (now.wanted, now.fault) = (None, None);
            now.running.take()
        };
        self.0.changes();
        let Some(running) = running else { return true };
        let is_written = running.recorder.finish();
        self.0.now.lock().ended.push(running.recorder);
        is_written
    }

    /// Totals of all captures since the governor began.
    pub fn totals(&self) -> Counts {
        let mut now = self.0.now.lock();
        let (over, ending): (Vec<_>, Vec<_>) =
            std::mem::take(&mut now.ended).into_iter().partition(|recorder| recorder.progress().state == State::Ended);
        over.iter().for_each(|recorder| now.before.add(&recorder.progress()));
        now.ended = ending;
        let mut totals = now.before;
        let open = now.ended.iter().chain(now.running.iter().map(|running| &running.recorder));
        open.for_each(|recorder| totals.add(&recorder.progress()));
        totals
    }

    /// What operators see.
    pub fn view(&self, moment: Instant) -> CaptureView {
        let now = self.0.now.lock();
        let off = CaptureView {
            state: "off",
            why: None,
            folder: None,
            seconds: 0.0,
            is_redacted: false,
            counts: Counts::default(),
        };
        let Some(running) = &now.running else {
            let state = if now.fault.is_some() { "failed" } else { off.state };
            return CaptureView { state, why: now.fault.clone(), ..off };
        };
        let progress = running.recorder.progress();
        let mut counts = Counts::default();
        counts.add(&progress);
        let (state, why) = match progress.state {
            State::Recording => ("recording", None),
            State::Full => ("full", Some("it has reached size_max".to_owned())),
            State::DiskFails(why) => ("disk fails", Some(why)),
            State::Ended => ("ended", None),
        };
        CaptureView {
            state,
            why,
            folder: Some(running.folder.clone()),
            seconds: moment.saturating_duration_since(running.recorder.began()).as_secs_f64(),
            is_redacted: running.recorder.values() == Values::Redacted,
            counts,
        }
    }
}

impl Shared {
    fn changes(&self) {
        // Release: a worker that sees the number takes the lock, and sees the rest.
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// Begins the capture, unless another is wanted by then.
    fn begin(&self, wanted: &Capture) -> Result<(), String> {
        let begun = begin(wanted);
        let mut now = self.now.lock();
        if now.wanted.as_ref() != Some(wanted) {
            if let Ok(running) = begun {
                running.recorder.stop();
                now.ended.push(running.recorder);
            }
            return Ok(());
        }
        match begun {
            Ok(running) => {
                tracing::info!(folder = %running.folder.display(), redact = wanted.redact, "traffic is recorded");
                now.running = Some(running);
                self.changes();
                Ok(())
            }
            Err(why) => {
                tracing::error!("traffic is not recorded: {why}");
                now.fault = Some(why.clone());
                Err(why)
            }
        }
    }
}

/// Begins a capture in the folder of the settings, or next to it if that is taken.
fn begin(wanted: &Capture) -> Result<Running, String> {
    let to = wanted.to.as_deref().unwrap_or(Path::new(""));
    let wrong = |error: io::Error| format!("cannot record to {}: {error}", to.display());
    let folder = Folder::create_next_to(to).map_err(wrong)?;
    start(folder, wanted).map_err(wrong)
}

/// Begins a capture in that folder.
fn start(folder: Folder, wanted: &Capture) -> io::Result<Running> {
    let path = folder.path().to_owned();
    let values = if wanted.redact { Values::Redacted } else { Values::Kept };
    let description = Description::new(SystemTime::now(), values);
    let limits = Limits { size_max: wanted.size_max as u64, ..Limits::default() };
    let options = Options { limits, key: Key::new(&rand::random()) };
    let recorder = Recorder::start(Box::new(folder), description, options, Instant::now())?;
    Ok(Running { recorder, folder: path })
}
