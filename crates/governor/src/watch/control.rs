//! The connection over which the governor queries the server. While it is down, traffic flows and the governor's health
//! reports it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use plimsoll_pg::connection::{Connection, Prepared, WireError};
use plimsoll_pg::url::ServerUrl;

use super::beside::Observing;
use super::elsewhere::Elsewhere;
use super::{levers, statements};
use crate::agent::ServerHere;
use crate::effects::{Horizon, newer_version, self_test};
use crate::governor::Governor;
use crate::service::Service;
use crate::settings::Settings;
use crate::statement::patience::Timeouts;

/// How long a login or an answer of the server may take. A look that takes longer is of no use.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);

/// The time between two attempts to connect: at first, and at most.
const RETRY: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));

/// How often an idle connection is checked.
const TRY_OUT_EVERY: Duration = Duration::from_secs(2);

/// How often the horizon is read while transactions begin. Code that was changed later than this before a transaction may
/// count as changed within it.
const HORIZON_EVERY: Duration = Duration::from_millis(200);

/// How sessions that block others are cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Signals {
    /// By `pg_cancel_backend`.
    ByRight,
    /// By the key of each session, since the role may not signal.
    ByKey,
}

/// An established connection.
#[derive(Debug)]
pub(super) struct Up {
    pub connection: Connection,
    pub look: Prepared,
    pub cancel: Prepared,
    pub check: Prepared,
    pub advisory: Prepared,
    pub waited_for: Prepared,
    pub gives_up: Prepared,
    pub waiters: Prepared,
    pub thinking: Prepared,
    pub running: Prepared,
    pub cancel_waiter: Prepared,
    pub end_thinking: Prepared,
    pub default_timeouts: Prepared,
    /// When the server read its configuration, and the shortest timeouts there.
    pub timeouts: (String, Timeouts),
    pub signals: Signals,
    /// Users whose processes the role may not signal although it may signal others: superusers.
    pub unsignallable: BTreeSet<String>,
    /// The state that only a governor beside its server has.
    pub observing: Option<Observing>,
    /// What other databases are asked.
    pub elsewhere: Elsewhere,
    pub role: String,
    /// Whether commits of the server may wait for standbys, as was last reported.
    commits_wait: bool,
    used: Instant,
    /// When the horizon was read, and how many transactions had begun.
    horizon: Option<(Instant, u64)>,
}

/// The connection, up or down.
#[derive(Debug)]
pub(super) struct Control {
    governor: Arc<Governor>,
    up: Option<Up>,
    /// How the server's processes can be given shares, or why they cannot.
    pub(super) here: Result<ServerHere, String>,
    /// Whether the server's machine is out of reach, wherever the governor stands or as long as it stands here.
    pub(super) is_elsewhere: bool,
    next_try: Instant,
    retry: Duration,
    /// The URL that was tried last; a different URL is tried at once.
    tried: Option<ServerUrl>,
    /// The settings for which the levers' state was last reported.
    told_for: Option<Arc<Settings>>,
}

impl Control {
    pub(super) fn new(governor: Arc<Governor>) -> Self {
        let here = Err("the control connection has not been made yet".to_owned());
        let (next_try, retry) = (Instant::now(), RETRY.0);
        Control { governor, up: None, here, is_elsewhere: false, next_try, retry, tried: None, told_for: None }
    }

    pub(super) fn connection(&mut self) -> Option<&mut Up> {
        let up = self.up.as_mut()?;
        up.used = Instant::now();
        Some(up)
    }

    /// Connects if that is due, tests a connection that has been idle, and reads the horizon. Returns whether anything has
    /// changed.
    pub(super) fn tend(&mut self, settings: &Arc<Settings>, now: Instant) -> bool {
        let is_new = self.tend_connection(settings, now);
        if let Some(up) = &mut self.up {
            up.elsewhere.tend(now);
        }
        is_new | self.tend_horizon(settings, now)
    }

    /// Reads the horizon if transactions have begun since, and now and then while none does: tables may be made elsewhere.
    /// Without a connection it is not known: the next one may be to another server.
    fn tend_horizon(&mut self, settings: &Settings, now: Instant) -> bool {
        // Without a login of its own, sessions tell the governor what they see.
        if settings.control.is_none() || settings.is_beside {
            return false;
        }
        let Some(up) = &mut self.up else {
            self.governor.horizon.set(None);
            return false;
        };
        // Relaxed: counts.
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let classes = self.governor.statistics.classes();
        let begun = classes.map(|class| count(&class.transactions) + count(&class.inside)).sum();
        let is_due = |(at, before): (Instant, u64)| {
            let age = now.saturating_duration_since(at);
            age > HORIZON_EVERY && begun != before || age > TRY_OUT_EVERY
        };
        if !up.horizon.is_none_or(is_due) {
            return false;
        }
        up.horizon = Some((now, begun));
        match up.connection.text(statements::HORIZON) {
            Ok(text) => {
                self.governor.horizon.set(text.as_deref().and_then(Horizon::of_text));
                false
            }
            Err(error) => {
                self.governor.horizon.set(None);
                self.lost_or_refused(&error)
            }
        }
    }

    fn tend_connection(&mut self, settings: &Arc<Settings>, now: Instant) -> bool {
        let is_new = !self.told_for.as_ref().is_some_and(|told| Arc::ptr_eq(told, settings));
        if is_new {
            self.told_for = Some(settings.clone());
            if self.tried != settings.control {
                (self.up, self.next_try, self.retry) = (None, now, RETRY.0);
                self.tried = settings.control.clone();
            }
            self.tell_preemption();
            self.judge_version(settings);
        }
        let Some(url) = &settings.control else { return is_new && self.tell_none() };
        match &mut self.up {
            Some(up) if now.saturating_duration_since(up.used) > TRY_OUT_EVERY => {
                up.used = now;
                match up.connection.text(statements::TRY_OUT) {
                    Ok(commits_wait) => {
                        up.note_commits(&self.governor, commits_wait.as_deref() != Some("f"), now);
                        false
                    }
                    Err(error) => self.lost_or_refused(&error),
                }
            }
            Some(_) => false,
            None if now >= self.next_try => self.connect(url, now),
            None => false,
        }
    }

    /// Reports how the server's transactions are rolled back.
    pub(super) fn tell_preemption(&self) {
        if let Some(up) = &self.up {
            levers::preemption(&self.governor, up.signals, &up.role);
        }
    }

    fn tell_none(&mut self) -> bool {
        let why = "no control connection is set (control = \"postgres://…\")";
        self.here = Err(why.to_owned());
        let mut health = self.governor.health.lock();
        (health.control_up, health.control_error) = (None, Some(why.to_owned()));
        drop(health);
        levers::all_off(&self.governor, why);
        true
    }

    fn connect(&mut self, url: &ServerUrl, now: Instant) -> bool {
        match open(url, &self.governor.settings(), now) {
            Ok(mut up) => {
                tracing::info!(server = %url.address(), process = up.connection.process_id(), "control connection is up");
                up.note_commits(&self.governor, up.commits_wait, now);
                levers::preemption(&self.governor, up.signals, &up.role);
                let host = Host::of(&mut up.connection);
                let cores = std::thread::available_parallelism().ok().and_then(|cores| u32::try_from(cores.get()).ok());
                let mut health = self.governor.health.lock();
                (health.control_up, health.control_error) = (Some(SystemTime::now()), None);
                health.server_cores = cores.filter(|_| host.here.is_ok());
                drop(health);
                (self.here, self.is_elsewhere) = (host.here, host.is_elsewhere);
                (self.up, self.retry) = (Some(up), RETRY.0);
                let settings = self.governor.settings();
                self.judge_version(&settings);
                true
            }
            Err(error) => self.note_down(&error.to_string()),
        }
    }

    /// Decides whether transactions may be replayed on this version of the server. On one that is not known, they may if
    /// the operator allows it and the server answers the questions about its catalogs as known versions do.
    fn judge_version(&mut self, settings: &Settings) {
        let Some(up) = &mut self.up else { return self.governor.trust_version(None, None) };
        let major = up.connection.server_version_num() / 10_000;
        let (trusted, why) = match newer_version(major) {
            None => (None, None),
            Some(warning) if !settings.preemption.replay_on_unknown_versions => {
                tracing::warn!("{warning}");
                (None, Some(warning))
            }
            Some(_) => match self_test(&mut up.connection) {
                Ok(passed) => {
                    tracing::info!("PostgreSQL {major} is newer than this governor: {passed}");
                    (Some(major), None)
                }
                Err(error) => {
                    tracing::warn!(%error, "nothing is replayed on PostgreSQL {major}");
                    (None, Some(format!("PostgreSQL {major} is newer than this governor, and {error}")))
                }
            },
        };
        self.governor.trust_version(trusted, why);
    }

    /// Handles a failed statement: the statement alone may have failed, or the connection. Returns whether the
    /// connection is down now.
    pub(super) fn lost_or_refused(&mut self, error: &WireError) -> bool {
        let is_lost = self.up.as_ref().is_none_or(|up| up.connection.lost().is_some());
        if is_lost {
            return self.note_down(&error.to_string());
        }
        tracing::warn!(%error, "the server refuses what the governor asks");
        self.governor.health.lock().control_error = Some(error.to_string());
        false
    }

    fn note_down(&mut self, why: &str) -> bool {
        let was_up = self.up.take().is_some();
        self.governor.horizon.set(None);
        // The next server may be another one.
        self.governor.trust_version(None, None);
        self.next_try = Instant::now() + self.retry;
        self.retry = (self.retry * 2).min(RETRY.1);
        self.here = Err(format!("the control connection is down: {why}"));
        let mut health = self.governor.health.lock();
        let is_new = health.control_up.is_some() || health.control_error.as_deref() != Some(why);
        (health.control_up, health.control_error) = (None, Some(why.to_owned()));
        drop(health);
        if is_new {
            tracing::warn!(why, "control connection is down; traffic flows, and nothing is preempted");
            levers::all_off(&self.governor, &format!("the control connection is down: {why}"));
        }
        is_new || was_up
    }
}

/// The URL with a connection timeout that is shorter than clients need.
pub(super) fn impatient(url: &ServerUrl) -> ServerUrl {
    ServerUrl { connect_timeout: url.connect_timeout.min(PATIENCE), ..url.clone() }
}

/// The application name of the control connection, by which governors of one server recognize each other.
pub(super) const NAME: &str = "plimsoll governor";

/// The same beside a server.
pub(super) const NAME_BESIDE: &str = "plimsoll governor beside";

fn open(url: &ServerUrl, settings: &Settings, now: Instant) -> Result<Up, WireError> {
    let name = if settings.is_beside { NAME_BESIDE } else { NAME };
    let url = ServerUrl { application_name: name.to_owned(), ..impatient(url) };
    let mut up = Up::on(session(&url)?, now)?;
    up.elsewhere = Elsewhere::of(&url);
    if settings.observes() {
        up.observing = Some(Observing::on(&mut up.connection)?);
    }
    Ok(up)
}

impl Up {
    /// Takes note whether `synchronous_standby_names` is set; returns whether commits may wait for standbys, which limits
    /// what may be cancelled.
    pub(super) fn note_commits(&mut self, governor: &Governor, is_set: bool, now: Instant) -> bool {
        let may_wait = {
            let mut health = governor.health.lock();
            if is_set {
                health.standbys_seen = Some(now);
            }
            health.commits_may_wait(now)
        };
        if std::mem::replace(&mut self.commits_wait, may_wait) != may_wait {
            levers::preemption(governor, self.signals, &self.role);
        }
        may_wait
    }

    /// How many transactions the server has ended since its counts were reset, in all databases.
    pub(super) fn transactions_ended(&mut self) -> Result<i64, WireError> {
        let ended = self.connection.text(statements::TRANSACTIONS)?;
        Ok(ended.and_then(|ended| ended.parse().ok()).unwrap_or_default())
    }

    /// Prepares an isolated session for its work.
    pub(super) fn on(mut connection: Connection, now: Instant) -> Result<Up, WireError> {
        let commits_wait = connection.text(statements::TRY_OUT)?.as_deref() != Some("f");
        let waiters = match connection.server_version_num() >= 140_000 {
            true => statements::WAITERS_SINCE_14,
            false => statements::WAITERS,
        };
        let (mut role, mut may_signal) = (String::new(), false);
        connection.text_rows(statements::RIGHTS, &mut |row| {
            if let [Some(name), is_superuser, has_right] = row {
                (role, may_signal) = ((*name).to_owned(), [is_superuser, has_right].contains(&&Some("t")));
            }
        })?;
        Ok(Up {
            look: connection.prepare_text("look", statements::LOOK)?,
            cancel: connection.prepare_text("cancel", statements::CANCEL)?,
            check: connection.prepare_text("check", statements::CHECK)?,
            advisory: connection.prepare_text("advisory", statements::ADVISORY)?,
            waited_for: connection.prepare_text("waited_for", statements::WAITED_FOR)?,
            timeouts: (String::new(), Timeouts::default()),
            default_timeouts: connection.prepare_text("default_timeouts", statements::DEFAULT_TIMEOUTS)?,
            gives_up: connection.prepare_text("gives_up", statements::GIVES_UP)?,
            waiters: connection.prepare_text("waiters", waiters)?,
            thinking: connection.prepare_text("thinking", statements::THINKING)?,
            running: connection.prepare_text("running", statements::RUNNING)?,
            cancel_waiter: connection.prepare_text("cancel_waiter", statements::CANCEL_WAITER)?,
            end_thinking: connection.prepare_text("end_thinking", statements::END_OBSERVED)?,
            connection,
            signals: if may_signal { Signals::ByRight } else { Signals::ByKey },
            observing: None,
            elsewhere: Elsewhere::default(),
            role,
            commits_wait,
            unsignallable: BTreeSet::new(),
            used: now,
            horizon: None,
        })
    }
}

/// An isolated session with short timeouts.
pub(crate) fn session(url: &ServerUrl) -> Result<Connection, WireError> {
    let mut connection = Connection::open_isolated(url)?;
    connection.set_timeout(Some(PATIENCE))?;
    connection.run(statements::OPENING)?;
    if connection.server_version_num() >= 140_000 {
        connection.run(statements::OPENING_SINCE_14)?;
    }
    Ok(connection)
}

/// What the governor has of the server's machine.
#[derive(Debug)]
pub(crate) struct Host {
    /// The location of the server's processes, or why they cannot be found.
    pub(crate) here: Result<ServerHere, String>,
    /// Whether the machine is out of reach, wherever the governor stands or as long as it stands here.
    pub(crate) is_elsewhere: bool,
    /// The service that rents the server out, if it is recognised.
    pub(crate) service: Option<Service>,
}

impl Host {
    /// Asks the server.
    pub(crate) fn of(connection: &mut Connection) -> Host {
        let service = Service::of(connection);
        let rented = service.filter(|service| !service.shows_host());
        // The end of a tunnel is on this machine, and the server is not.
        let here = match rented {
            Some(service) => Err(format!("{} does not show the machine of its servers", service.name())),
            None => here(connection),
        };
        Host { here, is_elsewhere: rented.is_some() || !connection.is_local(), service }
    }
}

/// The location of the server's processes, if they are on this machine.
pub(super) fn here(connection: &mut Connection) -> Result<ServerHere, String> {
    if !connection.is_local() {
        return Err("the server is on another machine".to_owned());
    }
    let began = connection
        .text(statements::BACKEND_BEGAN)
        .map_err(|error| format!("the server does not report when a process began: {error}"))?;
    let backend_began = began.and_then(|began| began.parse().ok());
    let backend_began = backend_began.ok_or("the server does not report when a process began")?;
    Ok(ServerHere { backend: connection.process_id(), backend_began })
}
