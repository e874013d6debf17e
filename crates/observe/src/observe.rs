//! The observation itself: it has the clock and the connection, and passes the looks to the ledger.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use plimsoll_pg::connection::WireError;
use plimsoll_pg::url::ServerUrl;
use plimsoll_policy::Doing;
use rustix::time::{ClockId, clock_gettime};

use crate::counted::CounterHistory;
use crate::findings::{CALLS_MAX, Evidence, findings};
use crate::host::{HostWatch, elsewhere};
use crate::ledger::Ledger;
use crate::pace::{BOUND, Pace, window_length};
use crate::replication::ReplicationHistory;
use crate::results::{EndReason, MissingRight, Observation, ObservationCost};
pub use crate::server::ObserveError;
use crate::server::Server;
use crate::snapshot::Snapshot;
use crate::windows::{ControlStatements, Reading};

/// The default length of an observation, in seconds.
pub const SECONDS_DEFAULT: f64 = 300.0;

/// The longest sleep before `stop` is checked.
const NAP: Duration = Duration::from_millis(100);

/// Counters are read this often, and at both ends; changes of plans are detected between two readings.
const COUNTERS_EVERY: Duration = Duration::from_secs(30);

/// Consecutive looks that the server may refuse.
const REFUSALS_MAX: usize = 5;

/// Statements whose text is requested at the end.
const TEXTS_MAX: usize = 50;

/// The progress of an observation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// The elapsed time.
    pub elapsed: Duration,
    /// Looks so far.
    pub looks: usize,
    /// Sessions in progress at the last one.
    pub in_progress: usize,
}

/// Observes a server for a time, or until `stop` is set or the server is lost. Calls `progress` about once per second.
pub fn observe(
    url: &ServerUrl,
    time: Duration,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(Progress),
) -> Result<Observation, ObserveError> {
    let started = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let server = Server::open(url)?;
    let mut watcher = Watcher::new(server);
    let refused = |version, error| ObserveError::Look { version, error };
    watcher
        .counters()
        .and_then(|()| watcher.window())
        .and_then(|()| watcher.look())
        .map_err(|error| refused(watcher.server.version(), error))?;
    let ended = watcher.run(time, stop, progress);
    Ok(watcher.finish(url, started, ended))
}

/// A server and the observations of it.
#[derive(Debug)]
struct Watcher {
    server: Server,
    ledger: Ledger,
    counted: CounterHistory,
    pace: Pace,
    began: Instant,
    cost: Cost,
    counters_next: Duration,
    window_next: Duration,
    host: Option<HostWatch>,
    replication: ReplicationHistory,
    in_progress: usize,
}

impl Watcher {
    fn new(server: Server) -> Watcher {
        let cost = Cost::begin(&server);
        let host = server.own_process().and_then(|process| HostWatch::begin(process, Duration::ZERO));
        Watcher {
            server,
            ledger: Ledger::default(),
            counted: CounterHistory::default(),
            pace: Pace::default(),
            began: Instant::now(),
            cost,
            counters_next: Duration::ZERO,
            window_next: Duration::ZERO,
            host,
            replication: ReplicationHistory::default(),
            in_progress: 0,
        }
    }

    /// Looks until the end, and returns its reason.
    fn run(&mut self, time: Duration, stop: &AtomicBool, progress: &mut dyn FnMut(Progress)) -> EndReason {
        let (mut told, mut refusals) = (Duration::ZERO, 0);
        loop {
            if let Some(ended) = self.wait(time, stop) {
                // The final counts. A server that is lost at the last moment has shown enough.
                return match self.look().and_then(|()| self.window()).and_then(|()| self.counters()) {
                    Err(WireError::Lost(why)) => EndReason::ServerLost(why),
                    _ => ended,
                };
            }
            let due = self.began.elapsed() >= self.counters_next;
            let is_over = self.began.elapsed() >= self.window_next;
            let asked = self.look().and_then(|()| if is_over { self.window() } else { Ok(()) });
            let asked = asked.and_then(|()| if due { self.counters() } else { Ok(()) });
            match asked {
                Ok(()) => refusals = 0,
                Err(WireError::Lost(why)) => return EndReason::ServerLost(why),
                Err(error) => {
                    refusals += 1;
                    if refusals == REFUSALS_MAX {
                        return EndReason::ServerLost(format!("{REFUSALS_MAX} looks in a row were refused: {error}"));
                    }
                }
            }
            let elapsed = self.began.elapsed();
            if elapsed >= told + Duration::from_secs(1) {
                told = elapsed;
                progress(Progress { elapsed, looks: self.ledger.looks, in_progress: self.in_progress });
            }
        }
    }

    /// Waits until the next look is due; returns the reason if there is none.
    fn wait(&self, time: Duration, stop: &AtomicBool) -> Option<EndReason> {
        let began = self.began.elapsed();
        let due = began + self.pace.pause(began, self.cost.spent());
        loop {
            let now = self.began.elapsed();
            if stop.load(Ordering::Relaxed) {
                return Some(EndReason::Interrupted);
            }
            if now >= time {
                return Some(EndReason::InTime);
            }
            if now >= due {
                return None;
            }
            sleep((due.min(time) - now).min(NAP));
        }
    }

    /// One look; also at locks, if a session waits for one and locks may be read now.
    fn look(&mut self) -> Result<(), WireError> {
        let at = self.began.elapsed();
        let looked = self.server.look(at);
        let cost = self.cost.of(&self.server, at, self.began);
        self.pace.note_look(cost);
        let mut look: Snapshot = looked?;
        self.in_progress = look.sessions.iter().filter(|it| it.is_of_client && it.leader.is_none()).count();
        if look.sessions.iter().any(|session| session.doing == Doing::Lock) && self.pace.may_ask_for_locks(at) {
            let asked = self.began.elapsed();
            let locks = self.server.locks(&mut look);
            let cost = self.cost.of(&self.server, asked, self.began);
            self.pace.note_locks(self.began.elapsed(), cost);
            // After another error, the sessions were observed all the same.
            if let Err(WireError::Lost(why)) = locks {
                return Err(WireError::Lost(why));
            }
        }
        self.ledger.take(&look);
        Ok(())
    }

    /// Ends a window and begins the next.
    fn window(&mut self) -> Result<(), WireError> {
        let at = self.began.elapsed();
        let backends = self.server.backends()?;
        let statements = self.server.statements()?;
        let (busy, disk_busy) = self.host.as_mut().map_or((None, None), |host| host.read(at));
        self.ledger.close_window(Reading { at, backends, statements, busy, disk_busy });
        if let Some(row) = self.server.standby()? {
            self.replication.take_standby(at, row);
        }
        self.replication.take_senders(self.server.standbys()?);
        let cost = self.cost.of(&self.server, at, self.began);
        self.window_next = at + window_length(cost);
        if let Some(host) = self.host.as_mut().filter(|host| host.is_due(at)) {
            let asked = self.began.elapsed();
            host.read_names(asked);
            let cost = self.cost.of(&self.server, asked, self.began);
            host.note_cost(asked, cost);
        }
        Ok(())
    }

    fn counters(&mut self) -> Result<(), WireError> {
        let at = self.began.elapsed();
        let counters = self.server.counters(at)?;
        self.counted.take(counters);
        self.cost.of(&self.server, at, self.began);
        self.counters_next = at + COUNTERS_EVERY;
        Ok(())
    }

    fn finish(mut self, url: &ServerUrl, started: String, ended: EndReason) -> Observation {
        self.ledger.lock_waits.finish();
        let (elapsed, spent) = (self.began.elapsed(), self.cost);
        let is_lost = matches!(ended, EndReason::ServerLost(_));
        let texts = if is_lost { BTreeMap::new() } else { self.texts() };
        let mut control =
            if is_lost { ControlStatements::default() } else { self.server.control_statements().unwrap_or_default() };
        control.add_seen(self.ledger.identity.statements());
        let here = self.server.is_here();
        let looks = self.ledger.looks;
        let looking = ObservationCost {
            looks,
            lock_looks: self.ledger.lock_looks,
            interval_s: (looks > 1).then(|| self.ledger.elapsed.as_secs_f64() / (looks - 1) as f64),
            own_cpu_s: spent.own.as_secs_f64(),
            server_cpu_s: spent.server.as_secs_f64(),
            server_cpu_measured: here,
            share_of_a_core: spent.spent().as_secs_f64() / elapsed.as_secs_f64(),
            bound: BOUND,
            unseen_sessions: self.counted.unseen_sessions(),
        };
        let mut missing = self.server.missing();
        missing.extend((!here).then(own_cost));
        let host = self.host.map_or_else(elsewhere, |mut host| {
            // The names of processes of the last seconds.
            host.read_names(elapsed);
            host.finish(looking.own_cpu_s)
        });
        findings(Evidence {
            ledger: &self.ledger,
            counted: &self.counted,
            texts: &texts,
            control: &control,
            host,
            replication: self.replication.results(),
            started,
            ended,
            server: self.server.facts(url),
            missing,
            looking,
        })
    }

    /// Texts of the statements that took most time, and of those that were counted but observed in no session, or not with
    /// their text.
    fn texts(&mut self) -> BTreeMap<i64, Vec<u8>> {
        let has_text =
            |id: i64| self.ledger.identity.statement_of_query_id(id).is_some_and(|statement| statement.text.is_some());
        let of_sessions = self.ledger.identity.statements().iter().filter_map(|statement| statement.query_id);
        let of_changes = self.counted.changes().iter().map(|change| change.key.query_id);
        let mut wanted: Vec<i64> = of_changes.chain(of_sessions).filter(|id| !has_text(*id)).collect();
        wanted.truncate(TEXTS_MAX);
        let mut texts = self.server.statement_texts(&wanted).unwrap_or_default();
        texts.extend(self.server.more_statement_texts(&self.counted.longest(CALLS_MAX)).unwrap_or_default());
        texts
    }
}

fn own_cost() -> MissingRight {
    MissingRight {
        what: "the CPU time that the server spends on our questions".to_owned(),
        why: "its process is not visible on this machine".to_owned(),
        works: "the time until answers come is taken for it, which is more".to_owned(),
        remedy: None,
    }
}

/// The cost of looking so far.
#[derive(Debug, Clone, Copy)]
struct Cost {
    own: Duration,
    server: Duration,
    /// Readings at the last accounting.
    thread: Duration,
    process: Option<Duration>,
}

impl Cost {
    fn begin(server: &Server) -> Cost {
        let process = server.own_times().map(|times| times.run);
        Cost { own: Duration::ZERO, server: Duration::ZERO, thread: thread_cpu(), process }
    }

    fn spent(&self) -> Duration {
        self.own + self.server
    }

    /// The cost since the last accounting. If the server's part is not visible, the time since `asked` counts.
    fn of(&mut self, server: &Server, asked: Duration, began: Instant) -> Duration {
        let thread = thread_cpu();
        let own = thread.saturating_sub(self.thread);
        self.thread = thread;
        let process = server.own_times().map(|times| times.run);
        let of_server = match (process, self.process) {
            (Some(now), Some(then)) => now.saturating_sub(then),
            // A lost server has no further cost.
            (None, Some(_)) => Duration::ZERO,
            _ => began.elapsed().saturating_sub(asked),
        };
        self.process = process.or(self.process);
        self.own += own;
        self.server += of_server;
        own + of_server
    }
}

/// CPU time of this thread, which does all the work of an observation.
fn thread_cpu() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}
