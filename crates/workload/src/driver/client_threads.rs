//! The threads of clients: how they begin, connect and end.

use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::Duration;

use super::client_loop::{ClientLoop, Team};
use super::clock::{Clock, Nanos};
use super::coordinator::{ConnectedClient, LOOK_EVERY, Run, nanos};
use super::pacing::{Pacing, Urgency};
use super::recorder::Recorder;
use super::round_trip::RoundTrips;
use super::streams::seed_of_requests;
use super::{Drive, DriveError, panic_message};

/// How often the coordinator looks whether all clients have ended.
const END_LOOK_EVERY: Duration = Duration::from_millis(2);

/// How often statements that are not wanted any more are cancelled.
const CANCEL_EVERY: Duration = Duration::from_millis(250);

/// A client's thread and the position of its workload.
pub(super) struct ClientThread<'scope> {
    pub workload: usize,
    pub handle: ScopedJoinHandle<'scope, Option<Recorder>>,
}

pub(super) fn spawn_clients<'scope, 'env: 'scope>(
    scope: &'scope Scope<'scope, 'env>,
    drives: &'env [Drive<'env>],
    teams: &'env [Team<'env>],
    run: &'env Run,
    connected: &Sender<ConnectedClient>,
) -> Vec<ClientThread<'scope>> {
    let mut clients = Vec::new();
    for (workload, (drive, team)) in drives.iter().zip(teams).enumerate() {
        for client in 0..team.clients {
            let connected = connected.clone();
            let work = move || client_thread(drive, team, run, workload, client, &connected);
            let name = format!("{}-{client}", team.workload);
            match thread::Builder::new().name(name).spawn_scoped(scope, work) {
                Ok(handle) => clients.push(ClientThread { workload, handle }),
                Err(error) => {
                    let workload = team.workload.to_owned();
                    run.fail(DriveError::NoThread { workload, client, reason: error.to_string() });
                    return clients;
                }
            }
        }
    }
    clients
}

/// Everything a client's thread does. `None` if the run has failed, or has ended before this client began.
fn client_thread(
    drive: &Drive<'_>,
    team: &Team<'_>,
    run: &Run,
    workload: usize,
    client: usize,
    connected: &Sender<ConnectedClient>,
) -> Option<Recorder> {
    let result = panic_message::catching(|| {
        let mut user = match drive.options.recorded {
            true => drive.benchmark.recorded_client(client),
            false => drive.benchmark.client(client, seed_of_requests(drive.options.seed, drive.name)),
        };
        let schema = drive.benchmark.schema();
        let login = drive.options.login();
        let session = match drive.benchmark.is_analytical() {
            true => drive.database.query_session(schema, login),
            false => drive.database.session_as(schema, login),
        };
        let mut session =
            session.map_err(|error| DriveError::NoSession { workload: drive.name.to_owned(), client, error })?;
        let urgency = Urgency::new(drive.options, drive.benchmark, drive.name, client);
        // Which process serves a session can depend on its priority.
        if let Some(priority) = urgency.of_all() {
            session.set_priority(priority);
        }
        let thread = rustix::thread::gettid().as_raw_nonzero().get();
        // The coordinator no longer receives once the run has failed; `halt` is then set instead of `begin`.
        let _ = connected.send(ConnectedClient { workload, client, thread, server: session.server_process() });
        let Some(begin) = wait_for_begin(run) else { return Ok(None) };
        let client_loop = ClientLoop {
            clock: &run.clock,
            signals: &run.signals,
            team,
            number: client,
            pacing: Pacing::new(drive.options, drive.name, client, begin, team.arrivals.as_ref()),
            urgency,
            past_end: false,
        };
        let mut session = RoundTrips::new(session, drive.options, drive.name, client, &run.clock, &run.signals);
        client_loop.run(&mut *user, &mut session, begin).map(Some)
    });
    let error = match result {
        Ok(Ok(recorder)) => return recorder,
        Ok(Err(error)) => error,
        Err(message) => DriveError::ClientPanicked { workload: drive.name.to_owned(), client, message },
    };
    run.fail(error);
    None
}

fn wait_for_begin(run: &Run) -> Option<Nanos> {
    loop {
        if run.signals.halted() {
            return None;
        }
        if let Some(begin) = run.begin.get() {
            return Some(*begin);
        }
        // Unparked at the beginning; the timeout covers a wake-up that the session's own code has consumed.
        thread::park_timeout(LOOK_EVERY);
    }
}

/// Waits for all clients to end and merges the records of each workload's clients.
pub(super) fn gather(teams: &[Team<'_>], clients: Vec<ClientThread<'_>>) -> Vec<Recorder> {
    let mut recorders: Vec<Recorder> = teams.iter().map(|_| Recorder::new()).collect();
    for client in clients {
        let recorder = client.handle.join().expect("panics are caught within the thread");
        if let Some(recorder) = recorder {
            recorders[client.workload].merge(&recorder);
        }
    }
    recorders
}

/// Tells every client to end, and waits until all have. While that is so, the statements of a run that is unwanted are cancelled
/// again and again, because a transaction may begin its next statement in the meantime.
pub(super) fn wait_until_ended(
    drives: &[Drive<'_>],
    clients: &[ClientThread<'_>],
    run: &Run,
    is_unwanted: &dyn Fn() -> bool,
) {
    run.signals.halt.store(true, Ordering::Relaxed);
    let mut cancel_at = Nanos::MIN;
    while clients.iter().any(|client| !client.handle.is_finished()) {
        clients.iter().for_each(|client| client.handle.thread().unpark());
        let now = run.clock.now();
        if now >= cancel_at && is_unwanted() {
            for (at, drive) in drives.iter().enumerate() {
                if is_first_of(drives, at, drive) {
                    drive.database.cancel_statements();
                }
            }
            cancel_at = run.clock.now() + nanos(CANCEL_EVERY);
        }
        run.clock.doze_until(now + nanos(END_LOOK_EVERY));
    }
}

/// Whether no workload before this one is at the same database.
fn is_first_of(drives: &[Drive<'_>], at: usize, drive: &Drive<'_>) -> bool {
    !drives[..at].iter().any(|other| std::ptr::addr_eq(other.database, drive.database))
}

/// The warning about requests that were cancelled after the window; `None` if none was.
pub(super) fn cut_warning(count: usize, after: Option<Duration>) -> Option<String> {
    let after = after.filter(|_| count > 0)?.as_secs_f64();
    let (requests, were) = if count == 1 { ("request", "was") } else { ("requests", "were") };
    Some(format!(
        "{count} {requests} under way at the end of the window {were} cancelled {after:.0} s after the beginning, as asked for: they count neither as completed nor as failed, so that the throughput of long requests is too low"
    ))
}
