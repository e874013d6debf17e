//! `plimsoll capture`: a governor that only relays and records.

use std::fmt::Write as _;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use plimsoll_capture::format::DESCRIPTION;
use plimsoll_capture::recorder::Progress;
use plimsoll_capture::storage::Folder;
use plimsoll_pg::url::ServerUrl;
use serde_json::Value;

use super::start;
use crate::config::{Surroundings, parse};
use crate::governor::Governor;
use crate::relay;
use crate::settings::{Capture, Settings};

/// How often progress is shown, and the end is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How long sessions have to end their transactions when recording ends.
const DRAIN_WITHIN: Duration = Duration::from_secs(5);

/// What to record.
#[derive(Debug, Clone)]
pub struct OwnRelay {
    /// Where clients connect.
    pub listen: SocketAddr,
    /// The server's URL.
    pub server: String,
    /// Whether clients are let in that the server admits without a password.
    pub trust_clients: bool,
    /// The folder, and what is kept.
    pub capture: Capture,
}

/// Why nothing was recorded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OwnRelayError {
    /// The server's URL is wrong.
    #[error("{0}")]
    Server(String),
    /// The folder is taken.
    #[error("cannot record to {path}: {1}", path = .0.display())]
    Folder(PathBuf, #[source] io::Error),
    /// The address cannot be used, or the system lacks something.
    #[error("{0}")]
    Relay(#[from] relay::StartError),
}

/// What was recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    /// How far it came.
    pub progress: Progress,
    /// Whether all of it is written; otherwise the disk did not answer in time.
    pub is_written: bool,
}

/// Relays and records until `stop` is set, or for that long. `show` receives the time so far, the number of sessions and the progress.
pub fn record(
    asked: &OwnRelay,
    seconds: Option<Duration>,
    stop: &AtomicBool,
    show: &mut dyn FnMut(Duration, usize, &Progress),
) -> Result<Recorded, OwnRelayError> {
    let settings = settings(asked)?;
    let capture = settings.capture.clone();
    let folder = capture.to.clone().unwrap_or_default();
    let wrong = |error| OwnRelayError::Folder(folder.clone(), error);
    let began = Instant::now();
    let governor = Arc::new(Governor::new(settings, began));
    // Before clients come, so that nothing of theirs is missing.
    let recording = Folder::create(&folder).and_then(|made| start(made, &capture)).map_err(wrong)?;
    let recorder = recording.recorder.clone();
    governor.capture.record(recording);
    let running = relay::start(Arc::clone(&governor)).inspect_err(|_| {
        governor.capture.finish();
        remove_empty(&folder);
    })?;
    while !stop.load(Ordering::Relaxed) && seconds.is_none_or(|seconds| began.elapsed() < seconds) {
        std::thread::sleep(LOOK_EVERY);
        show(began.elapsed(), governor.registry.relayed(), &recorder.progress());
    }
    // Sessions end between transactions, if they do in time, and the capture has their ends.
    running.drain();
    let until = Instant::now() + DRAIN_WITHIN;
    while governor.registry.relayed() > 0 && Instant::now() < until {
        std::thread::sleep(LOOK_EVERY);
    }
    running.stop();
    running.join();
    let is_written = governor.capture.finish();
    Ok(Recorded { progress: recorder.progress(), is_written })
}

/// Removes the folder of a capture that has not begun, so that the next attempt finds it free.
fn remove_empty(folder: &Path) {
    // If it cannot be removed, the next attempt names it.
    let _ = std::fs::remove_file(folder.join(DESCRIPTION)).and_then(|()| std::fs::remove_dir(folder));
}

/// Settings with everything off but the capture.
fn settings(asked: &OwnRelay) -> Result<Settings, OwnRelayError> {
    // Clients bring their own user, so the URL need not name one.
    let environment = |name: &str| std::env::var(name).ok().or_else(|| (name == "PGUSER").then(|| "nobody".to_owned()));
    ServerUrl::parse_in(&asked.server, &environment).map_err(|error| OwnRelayError::Server(error.to_string()))?;
    let mut text = String::new();
    let OwnRelay { listen, server, trust_clients, .. } = asked;
    let _ = write!(
        text,
        "server = {}\ntrust_clients = {trust_clients}\nannounce_class = false\n\
         [listen]\naddresses = [\"{listen}\"]\nclients_max = 10000\n\
         [[class]]\nname = \"all\"\npriority = \"high\"\nreplay = false\nretry_aborted = 0\n\
         [admin]\ndatabase = \"plimsoll-capture-has-no-console\"\n",
        Value::from(server.as_str())
    );
    text += "[preemption]\npolicy = \"never\"\n[cpu]\nshares = false\ninheritance = false\n";
    text += "[disk]\nlimits = false\n[http]\naddress = \"off\"\n";
    let surroundings = Surroundings { folder: Path::new(""), environment: &environment, classes: &[] };
    let parsed = parse(&text, "the relay's settings", &surroundings);
    let mut settings = parsed.map_err(|error| OwnRelayError::Server(error.to_string()))?.settings;
    settings.capture = asked.capture.clone();
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relay_of_its_own_does_nothing_but_record() {
        let asked = OwnRelay {
            listen: ([127, 0, 0, 1], 0).into(),
            server: "postgres://db.example:5433".to_owned(),
            trust_clients: true,
            capture: Capture { to: Some("x".into()), redact: true, size_max: 1 << 20 },
        };
        let settings = settings(&asked).expect("they are right");
        assert_eq!(settings.server.port, 5433);
        assert!(!settings.preemption.policy.watches() && settings.control.is_none() && settings.http.is_none());
        assert!(settings.passing_on.trust_clients && !settings.passing_on.announce_class);
        assert_eq!((settings.classes.len(), settings.capture.redact), (1, true));
        assert!(settings.classes[0].limits.mpl.is_none() && settings.classes[0].retry_aborted == 0);
    }

    #[test]
    fn a_wrong_server_is_named() {
        let capture = Capture { to: Some("x".into()), redact: false, size_max: 1 << 20 };
        let asked = OwnRelay {
            listen: ([127, 0, 0, 1], 0).into(),
            server: "mysql://db".to_owned(),
            trust_clients: false,
            capture,
        };
        let error = record(&asked, None, &AtomicBool::new(true), &mut |_, _, _| {}).expect_err("no such server");
        assert!(error.to_string().starts_with("a server's URL begins with `postgres://`"), "{error}");
    }
}
