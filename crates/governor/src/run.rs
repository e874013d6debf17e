//! `plimsoll govern`: starts everything, and ends it on request.

mod log;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::Instant;

use sd_notify::NotifyState;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::config;
use crate::governor::{Governor, MainCommand, WorkerCommand};
use crate::handover::{Inherited, giving};
use crate::page::Page;
use crate::{page, relay, watch};

/// Why a governor could not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GovernError {
    /// The settings have faults.
    #[error("{0}")]
    Config(#[from] config::ConfigError),
    /// A resource of the system is not available.
    #[error("{0}")]
    System(String),
}

/// An event that the main thread waits for.
enum Heard {
    Signal(i32),
    Command(MainCommand),
    /// Another governor is active now.
    HandedOver,
    /// Every worker has ended.
    Ended,
}

/// How a governor ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It was asked to end, or another governor took over, and every session has ended.
    Drained,
    /// It was asked to end at once.
    Stopped,
}

/// Runs a governor until it is asked to end. With `is_beside`, it works beside its server, regardless of `[mode]` in
/// the file. SIGHUP reads the settings again; SIGTERM and SIGINT wait until each session is between transactions; a
/// second SIGINT and SIGQUIT end at once.
pub fn govern(config_file: &Path, is_beside: bool) -> Result<End, GovernError> {
    let system = |what: &str, error: &dyn std::fmt::Display| GovernError::System(format!("{what}: {error}"));
    let config = config::read_for(config_file, &[], is_beside)?;
    log::start(config.settings.log);
    let (sender, heard) = mpsc::channel();
    // Before anything else, so that a signal during start-up cannot end the process without clean-up.
    let signals =
        Signals::new([SIGHUP, SIGINT, SIGQUIT, SIGTERM]).map_err(|error| system("signals cannot be heard", &error))?;
    let governor = Arc::new(Governor::new(config.settings, Instant::now()));
    let file = std::path::absolute(config_file).unwrap_or_else(|_| config_file.to_owned());
    governor.config_file.set(file).expect("the governor is new");
    governor.is_beside_asked.set(is_beside).expect("the governor is new");
    governor.main.set(commands(&sender)).expect("the governor is new");
    hear(signals, sender.clone());
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    // If it fails, the governor does its work all the same; the log and SHOW CAPTURE have the reason.
    let _ = governor.capture.apply(&governor.settings().capture);
    let mut inherited = inherit(&governor)?;
    let mut page =
        page::start_with(&governor, &mut inherited).map_err(|error| GovernError::System(error.to_string()))?;
    let watcher = watch::start(Arc::clone(&governor));
    watcher.wait_until_asked();
    let mut running = relay::start_with(Arc::clone(&governor), &mut inherited)
        .map_err(|error| GovernError::System(error.to_string()))?;
    let is_beside = governor.settings().is_beside;
    if is_beside {
        tracing::info!(server = %governor.settings().server.address(), "beside the server: no client comes through this governor");
    }
    for address in running.addresses() {
        tracing::info!("{} at {address}", if is_beside { "the console is" } else { "clients come in" });
    }
    if let Some(address) = page.address() {
        tracing::info!("the live page is at http://{address}/");
    }
    take_over(&governor, inherited, &mut running, &mut page, &sender);
    tell_systemd(&[NotifyState::Ready]);
    let end = attend(&governor, &heard, &sender, running, &mut page);
    tell_systemd(&[NotifyState::Stopping]);
    drop(watcher);
    if !governor.capture.finish() {
        tracing::warn!("the end of the capture could not be written in time");
    }
    drop(page);
    tracing::info!(?end, "ended");
    Ok(end)
}

/// The sockets that the active governor hands over, if one exists.
fn inherit(governor: &Governor) -> Result<Inherited, GovernError> {
    let settings = governor.settings();
    let Some(file) = &settings.listen.handover else { return Ok(Inherited::default()) };
    let wrong =
        |error| GovernError::System(format!("the governor at {} cannot be taken over from: {error}", file.display()));
    Inherited::ask(file).map_err(wrong)
}

/// This governor serves: the previous one lets go, and a successor may ask this one from now on.
fn take_over(
    governor: &Arc<Governor>,
    inherited: Inherited,
    running: &mut relay::Running,
    page: &mut Page,
    sender: &Sender<Heard>,
) {
    let owns_files = running.owns_files();
    let predecessors = inherited.confirm();
    if !predecessors.is_empty() {
        tracing::info!("new clients connect here; the previous governor serves its clients until they leave");
    }
    *governor.predecessors.lock() = predecessors;
    owns_files.store(true, Ordering::Relaxed);
    let Some(file) = governor.settings().listen.handover.clone() else { return };
    let places = running.take_places().into_iter().chain(page.take_place()).collect();
    let sender = sender.clone();
    let retire = move || {
        owns_files.store(false, Ordering::Relaxed);
        // If no thread receives this, the main thread has ended.
        let _ = sender.send(Heard::HandedOver);
    };
    if let Err(error) = giving::start(&file, Arc::clone(governor), places, retire) {
        tracing::error!("no successor can take over at {}: {error}", file.display());
    }
}

/// Handles events until every worker has ended.
fn attend(
    governor: &Arc<Governor>,
    heard: &mpsc::Receiver<Heard>,
    sender: &Sender<Heard>,
    running: relay::Running,
    page: &mut Page,
) -> End {
    // Joining takes a thread, because this one has to receive events.
    let ended = sender.clone();
    let joiner = thread::spawn(move || {
        running.join();
        // If no thread receives this, the main thread has ended.
        let _ = ended.send(Heard::Ended);
    });
    let mut end = End::Drained;
    let mut interrupted = false;
    for heard in heard {
        match heard {
            Heard::Signal(SIGHUP) => reload(governor),
            Heard::Signal(SIGINT) if interrupted => end = stop(governor, "a second interrupt"),
            Heard::Signal(SIGINT) => {
                interrupted = true;
                drain(governor, "an interrupt; a second interrupt ends the governor at once");
            }
            Heard::Signal(SIGTERM) => drain(governor, "a signal to terminate"),
            Heard::Signal(_) => end = stop(governor, "a signal to quit"),
            Heard::Command(MainCommand::Drain) => drain(governor, "the console"),
            Heard::Command(MainCommand::Stop) => end = stop(governor, "the console"),
            Heard::HandedOver => {
                let sessions = governor.registry.relayed();
                tracing::info!(sessions, "another governor takes clients now; this one ends with its last session");
                page.retire();
                governor.tell_all(|| WorkerCommand::CloseDoor);
            }
            Heard::Ended => break,
        }
    }
    // It has sent its last message.
    let _ = joiner.join();
    end
}

/// Sends systemd a notification (`sd_notify(3)`) if it has asked for them: `Type=notify` or `notify-reload`.
fn tell_systemd(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!("systemd cannot be told: {error}");
    }
}

/// Reads the settings again. The log has the changes, or the reason why there are none.
fn reload(governor: &Arc<Governor>) {
    let now = NotifyState::monotonic_usec_now().into_iter();
    tell_systemd(&[NotifyState::Reloading].into_iter().chain(now).collect::<Vec<_>>());
    let _ = governor.reload_file();
    tell_systemd(&[NotifyState::Ready]);
}

fn drain(governor: &Arc<Governor>, why: &str) {
    if governor.is_draining.swap(true, Ordering::Relaxed) {
        return;
    }
    tell_systemd(&[NotifyState::Stopping]);
    let (all, sessions) = (governor.registry.len(), governor.registry.relayed());
    match governor.settings().is_beside {
        true => tracing::info!(sessions = all, "ends, and sessions at the server go on as they were before: {why}"),
        false => tracing::info!(sessions, "no more clients are taken, and sessions end when idle: {why}"),
    }
    governor.tell_all(|| WorkerCommand::Drain);
}

fn stop(governor: &Arc<Governor>, why: &str) -> End {
    governor.is_draining.store(true, Ordering::Relaxed);
    tracing::warn!(sessions = governor.registry.relayed(), "sessions are ended at once: {why}");
    governor.tell_all(|| WorkerCommand::Stop);
    End::Stopped
}

/// A sender of commands that arrive among the main thread's events.
fn commands(heard: &Sender<Heard>) -> Sender<MainCommand> {
    let (sender, commands) = mpsc::channel();
    let heard = heard.clone();
    thread::spawn(move || {
        for command in commands {
            if heard.send(Heard::Command(command)).is_err() {
                return;
            }
        }
    });
    sender
}

fn hear(mut signals: Signals, heard: Sender<Heard>) {
    thread::spawn(move || {
        for signal in signals.forever() {
            if heard.send(Heard::Signal(signal)).is_err() {
                return;
            }
        }
    });
}
