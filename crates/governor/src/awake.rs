//! Idle cores stay awake while important transactions are at work (`[cpu] awake`).
//!
//! A statement wakes the server's process, the client, and, on its way through the governor, a relay thread twice. If
//! cores sleep in between, waking them takes most of the time of a chain of short statements. The governor therefore
//! asks the kernel to let idle cores poll instead ([`IdleLatency`]). No process loses CPU time by that: an idle core is
//! available at once. It costs power, or the host of a virtual machine its idle time, so it is limited: each sign of
//! important work keeps cores awake for [`HOLD`]. During longer pauses of a client and longer statements they sleep.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use plimsoll_machine::host::Host;
use plimsoll_machine::idle_latency::IdleLatency;

use crate::settings::Settings;

/// How long a sign of important work keeps cores awake: longer than the pauses within a chain of statements.
pub(crate) const HOLD: Duration = Duration::from_millis(100);

/// The request to the kernel, which all threads share.
#[derive(Debug)]
pub struct Awake {
    host: Host,
    origin: Instant,
    /// Whether the setting is on and works.
    is_on: AtomicBool,
    is_held: AtomicBool,
    /// When the last sign of important work came, in milliseconds since `origin`.
    latest_ms: AtomicU64,
    request: Mutex<Request>,
}

#[derive(Debug, Default)]
struct Request {
    latency: Option<IdleLatency>,
    /// The setting for which the lever's state was last reported.
    told: Option<bool>,
    held_since: Option<Instant>,
    held: Duration,
}

impl Awake {
    pub(crate) fn new(now: Instant) -> Self {
        Awake::of(Host::real(), now)
    }

    fn of(host: Host, now: Instant) -> Self {
        let (is_on, is_held) = (AtomicBool::new(false), AtomicBool::new(false));
        Awake { host, origin: now, is_on, is_held, latest_ms: AtomicU64::new(0), request: Mutex::default() }
    }

    /// Whether signs of important work should be reported.
    pub(crate) fn is_on(&self) -> bool {
        // Relaxed here and below: a late or lost sign costs a chain a few microseconds, and the next one follows soon.
        self.is_on.load(Ordering::Relaxed)
    }

    /// An important transaction is active. The first thread to see one after a pause asks the kernel.
    pub(crate) fn touch(&self, now: Instant) {
        self.latest_ms.store(self.milliseconds(now), Ordering::Relaxed);
        if !self.is_held.load(Ordering::Relaxed) && self.is_on() {
            self.request.lock().hold(true, now, &self.is_held);
        }
    }

    /// The time until cores may sleep, unless there are more signs; `None` while they may.
    pub(crate) fn due(&self, now: Instant) -> Option<Duration> {
        self.is_held.load(Ordering::Relaxed).then(|| HOLD.saturating_sub(self.since_latest(now)))
    }

    /// Opens or closes the request according to the settings, and lets cores sleep after a while without important
    /// work. Returns how the lever works, or why it does not, if that has changed.
    pub(crate) fn tend(&self, settings: &Settings, now: Instant) -> Option<Result<String, String>> {
        let wanted = settings.cpu.awake;
        let is_over = self.is_held.load(Ordering::Relaxed) && self.since_latest(now) >= HOLD;
        let mut request = self.request.lock();
        if is_over {
            request.hold(false, now, &self.is_held);
        }
        if request.told.replace(wanted) == Some(wanted) {
            return None;
        }
        drop(request);
        let opened = match wanted {
            true => IdleLatency::open(&self.host).map_err(|why| {
                let remedy = why.remedy.as_ref().map(|remedy| format!("; {remedy}")).unwrap_or_default();
                format!("{}{remedy}", why.reason)
            }),
            false => Err("turned off in the settings ([cpu] awake)".to_owned()),
        };
        Some(self.use_request(opened, now))
    }

    /// Lets cores sleep for good, and says why. Must be called however the thread that calls `tend` ends, or cores would stay
    /// awake.
    pub(crate) fn end(&self, now: Instant) -> Result<String, String> {
        self.use_request(Err("the thread that watches has ended".to_owned()), now)
    }

    /// Lets cores sleep, and uses another request from now on, or none for this reason.
    fn use_request(&self, opened: Result<IdleLatency, String>, now: Instant) -> Result<String, String> {
        let mut request = self.request.lock();
        request.hold(false, now, &self.is_held);
        self.is_on.store(opened.is_ok(), Ordering::Relaxed);
        request.latency = None;
        opened.map(|latency| {
            request.latency = Some(latency);
            "idle cores poll while important transactions are at work".to_owned()
        })
    }

    /// How long cores have been kept awake so far.
    pub(crate) fn held(&self, now: Instant) -> Duration {
        let request = self.request.lock();
        request.held + request.held_since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }

    fn since_latest(&self, now: Instant) -> Duration {
        let since = self.milliseconds(now).saturating_sub(self.latest_ms.load(Ordering::Relaxed));
        Duration::from_millis(since)
    }

    fn milliseconds(&self, now: Instant) -> u64 {
        u64::try_from(now.saturating_duration_since(self.origin).as_millis()).unwrap_or(u64::MAX)
    }
}

impl Request {
    fn hold(&mut self, holds: bool, now: Instant, is_held: &AtomicBool) {
        let Some(latency) = self.latency.as_mut().filter(|_| self.held_since.is_some() != holds) else { return };
        if let Err(error) = latency.keep_awake(holds) {
            tracing::warn!("idle cores cannot be kept awake: {error}");
            // Closing the file ends the request.
            self.latency = None;
        }
        let is_so = holds && self.latency.is_some();
        if let Some(since) = self.held_since.take() {
            self.held += now.saturating_duration_since(since);
        }
        self.held_since = is_so.then_some(now);
        is_held.store(is_so, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;
    use crate::settings::for_tests;

    const FILE: &str = "dev/cpu_dma_latency";

    /// The files of a machine whose cores sleep, and the request on it.
    fn on_a_machine_with_idle_states() -> (TempDir, Awake) {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in [("sys/devices/system/cpu/cpuidle/current_driver", "haltpoll\n"), (FILE, "")] {
            std::fs::create_dir_all(folder.path().join(path).parent().unwrap()).unwrap();
            std::fs::write(folder.path().join(path), text).unwrap();
        }
        let awake = Awake::of(Host::at(folder.path()), Instant::now());
        (folder, awake)
    }

    /// The last request that was written; 2e9 means none.
    fn asked(folder: &TempDir) -> Option<i32> {
        let bytes = std::fs::read(folder.path().join(FILE)).unwrap();
        bytes.rchunks(4).next().map(|last| i32::from_ne_bytes(last.try_into().unwrap()))
    }

    #[test]
    fn cores_are_awake_for_a_while_after_each_sign() {
        let (folder, awake) = on_a_machine_with_idle_states();
        let mut settings = for_tests();
        let (asked, at) = (|| asked(&folder), |ms: u64| awake.origin + Duration::from_millis(ms));
        awake.touch(at(1));
        awake.tend(&settings, at(1));
        assert_eq!((asked(), awake.is_on(), awake.due(at(1))), (None, false, None), "off by default");
        settings.cpu.awake = true;
        assert!(matches!(awake.tend(&settings, at(2)), Some(Ok(_))));
        assert_eq!((asked(), awake.is_on()), (Some(2_000_000_000), true));
        awake.touch(at(10));
        assert_eq!((asked(), awake.due(at(30))), (Some(0), Some(Duration::from_millis(80))));
        awake.touch(at(60));
        assert_eq!(awake.tend(&settings, at(150)), None);
        assert_eq!(asked(), Some(0), "the second sign counts");
        awake.tend(&settings, at(160));
        assert_eq!((asked(), awake.due(at(160))), (Some(2_000_000_000), None));
        awake.touch(at(400));
        assert_eq!(asked(), Some(0));
        settings.cpu.awake = false;
        let works = awake.tend(&settings, at(450));
        assert_eq!(
            (asked(), awake.is_on(), awake.held(at(900))),
            (Some(2_000_000_000), false, Duration::from_millis(200))
        );
        assert!(matches!(&works, Some(Err(why)) if why.contains("turned off")), "{works:?}");
    }

    #[test]
    fn cores_sleep_when_nobody_watches() {
        let (folder, awake) = on_a_machine_with_idle_states();
        let mut settings = for_tests();
        let (asked, at) = (|| asked(&folder), |ms: u64| awake.origin + Duration::from_millis(ms));
        settings.cpu.awake = true;
        awake.tend(&settings, at(1));
        awake.touch(at(2));
        assert_eq!(asked(), Some(0));
        let works = awake.end(at(10));
        assert_eq!((asked(), awake.due(at(10))), (Some(2_000_000_000), None));
        awake.touch(at(20));
        assert_eq!((asked(), awake.held(at(50))), (Some(2_000_000_000), Duration::from_millis(8)));
        assert!(matches!(&works, Err(why) if why.contains("has ended")), "{works:?}");
    }

    #[test]
    fn a_host_without_idle_states_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let awake = Awake::of(Host::at(folder.path()), Instant::now());
        let mut settings = for_tests();
        settings.cpu.awake = true;
        let works = awake.tend(&settings, Instant::now());
        awake.touch(Instant::now());
        assert_eq!((awake.is_on(), awake.due(Instant::now())), (false, None));
        assert!(matches!(&works, Some(Err(why)) if why.contains("no driver for idle states")), "{works:?}");
    }
}
