//! `/state.json`: the state of the governor, for the live page, for `plimsoll top` and for scripts.
//!
//! `docs/governor-state.schema.json` describes every field. Times are in seconds, rates per second, moments in UTC (RFC 3339). A
//! value that is unknown, or about an event that has not happened, is null.

mod activity;
mod counts;
mod targets;

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant, SystemTime};

use jiff::Timestamp;
use plimsoll_policy::ClassIndex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::governor::{Governor, Outcome, PreemptionEvent};
use crate::history;
use crate::own_process::OwnProcess;
use crate::registry::{Phase, SessionCard, SessionId};
use crate::statistics::ClassStatistics;

pub use activity::{ActivityState, RunningStatement};
pub use counts::{Times, Totals, WindowState};
pub use targets::{TargetLever, TargetMove, TargetState, TargetsState};

/// The maximum number of preemptions shown, latest first.
const PREEMPTIONS_MAX: usize = 20;
/// The maximum number of queued transactions shown, next first.
const QUEUE_MAX: usize = 50;
/// The short window.
const SHORT: Duration = Duration::from_secs(10);
/// The long window.
const LONG: Duration = Duration::from_secs(60);

/// Everything.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct State {
    /// The version of Plimsoll.
    pub version: String,
    /// When this was.
    pub at: String,
    /// For how long the governor has been running.
    pub uptime_s: f64,
    /// The server behind.
    pub server: String,
    /// Whether the governor works beside the server: then it sees sessions, and neither counts nor times transactions.
    pub is_beside: bool,
    /// Whether the governor waits for its sessions to end.
    pub is_draining: bool,
    /// The governor's own connection to the server.
    pub control: Control,
    /// Sessions, of all classes.
    pub sessions: u64,
    /// How many there may be; null beside a server, where it is the server's to say.
    pub sessions_max: Option<u32>,
    /// How many transactions may be inside, of all classes together.
    pub mpl: Option<u32>,
    /// The preemption policy.
    pub policy: String,
    /// Memory of this process, bytes.
    pub resident_bytes: Option<u64>,
    /// Time on processors of this process since it began.
    pub cpu_s: f64,
    /// The classes, in the order of the settings.
    pub classes: Vec<ClassState>,
    /// Transactions that wait to be let in, next first, 50 at most.
    pub queue: Vec<Queued>,
    /// Units that wait for locks, longest first, 20 at most: who holds them up, as the last look has shown it.
    #[serde(default)]
    pub blocked: Vec<BlockedUnit>,
    /// The last preemptions, latest first, 20 at most.
    pub preemptions: Vec<Preempted>,
    /// Statements that are governed from the console, in the order of their beginning.
    #[serde(default)]
    pub governed: Vec<GovernedStatement>,
    /// What took the server's time in the last minute.
    #[serde(default)]
    pub activity: ActivityState,
    /// What works of the governor, and why not.
    pub levers: Vec<Lever>,
    /// Targets, and what is moved for them.
    pub targets: TargetsState,
}

/// The governor's own connection to the server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Control {
    /// Whether one is set.
    pub is_set: bool,
    /// Since when it is up; null while it is not.
    pub up_since: Option<String>,
    /// Why it is not.
    pub error: Option<String>,
}

/// A class.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClassState {
    /// Its name.
    pub name: String,
    /// `high`, `low`, `level2` to `level254`.
    pub priority: String,
    /// A number for that: the higher the more urgent.
    pub priority_level: u8,
    /// How many of its transactions may be inside at once; null for any number.
    pub mpl: Option<u32>,
    /// Whether an operator holds its transactions up.
    pub is_paused: bool,
    /// Transactions that are inside now.
    pub inside: u64,
    /// Transactions that wait to be let in.
    pub queued: u64,
    /// Its sessions.
    pub sessions: u64,
    /// Its sessions by what they do: `idle`, `active`, `idle in transaction`, `queued`, `preempted`, `starting`.
    pub phases: std::collections::BTreeMap<String, u64>,
    /// The last 10 seconds; null beside a server.
    pub last_10_s: Option<WindowState>,
    /// The last minute; null beside a server.
    pub last_60_s: Option<WindowState>,
    /// Since the governor began.
    pub totals: Totals,
    /// What preemption would have done to the class; null unless the policy is `track`.
    pub tracked: Option<Tracked>,
    /// Transactions per second, for each of the last 120 seconds at most, oldest first.
    pub chart_transactions_per_s: Vec<f64>,
    /// The 95th percentile of their times, second by second; null for seconds without any.
    pub chart_p95_s: Vec<Option<f64>>,
}

/// What preemption would have done to a class, seen while the policy is `track`. It covers the last 200 preemptions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Tracked {
    /// Transactions of the class that would have been rolled back.
    pub victims: u64,
    /// Those of them whose clients would have received 40001, because a replay would not have been safe.
    pub errors_40001: u64,
    /// Waiting that preemption would have saved transactions of the class since the governor began.
    pub saved_s: Option<f64>,
}

/// A statement that is governed from the console.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GovernedStatement {
    /// Its fingerprint, 16 hexadecimal digits.
    pub fingerprint: String,
    /// Its class.
    pub class: String,
    /// The limits of its own class; empty if it has joined a class of the settings file.
    pub limits: String,
    /// Transactions of its own class that ended in the last 60 seconds; null without one.
    pub transactions_60_s: Option<u64>,
    /// Transactions beyond its rate, which have waited, or would have while the class only warns; null likewise.
    pub beyond_rate: Option<u64>,
    /// Statements that exceeded a limit, and were ended, or would have been; null likewise.
    pub runaways: Option<u64>,
}

/// A transaction that waits to be let in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Queued {
    /// Its session.
    pub session: u64,
    /// Its user; null if it has just gone.
    pub user: Option<String>,
    /// Its database.
    pub database: Option<String>,
    /// Its class.
    pub class: String,
    /// For how long it has waited.
    pub waited_s: f64,
    /// What it waits for.
    pub why: String,
}

/// A unit that waits for a lock.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BlockedUnit {
    /// Its session.
    pub waiter: u64,
    /// Its class.
    pub waiter_class: String,
    /// For how long the unit has been in flight.
    pub waited_s: f64,
    /// The session that it waits for in the end; null if the governor does not know it.
    pub holder: Option<u64>,
    /// The server process of that; 0 for a prepared transaction.
    pub holder_process: i32,
    /// Its class.
    pub holder_class: Option<String>,
    /// What it was doing.
    pub holder_was: String,
    /// Why it is left alone, and which setting would change that; null if it is not, or if the unit is not important.
    pub left_alone: Option<String>,
}

/// A preemption.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Preempted {
    /// When.
    pub at: String,
    /// The session that was rolled back, or left alone; 0 if the governor does not know it.
    pub victim: u64,
    /// Its class.
    pub victim_class: String,
    /// What it was doing.
    pub victim_was: String,
    /// The session for which it was rolled back.
    pub waiter: u64,
    /// Its class.
    pub waiter_class: String,
    /// For how long that one had waited.
    pub waited_s: f64,
    /// The policy that chose the victim.
    pub lever: String,
    /// What was done: `cancelled`, `rolled back`, `tracked`, `too late`.
    pub done: String,
    /// What became of the victim: `replayed`, or `40001: …` with the reason.
    pub outcome: String,
    /// The victim's work that was thrown away; null where nothing was weighed.
    #[serde(default)]
    pub lost_s: Option<f64>,
    /// The waiting of more important transactions that was saved, as expected; null while too little is known.
    #[serde(default)]
    pub won_s: Option<f64>,
}

/// Something the governor can do, and whether it can.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Lever {
    /// Its name.
    pub name: String,
    /// Whether it works.
    pub works: bool,
    /// `works`, `off` if the settings do not ask for it, or `failing`.
    #[serde(default)]
    pub state: String,
    /// Why not and what to do, or how.
    pub why: String,
}

impl State {
    /// The governor's present state.
    pub fn of(governor: &Governor, now: Instant) -> Self {
        let settings = governor.settings();
        let health = governor.health.lock().clone();
        let own = OwnProcess::read();
        let sessions = governor.registry.all();
        let levers = governor.levers().into_iter().map(|lever| Lever {
            name: lever.name.to_owned(),
            works: lever.is_on,
            state: lever.state().to_owned(),
            why: lever.why,
        });
        State {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            at: moment(SystemTime::now()),
            uptime_s: seconds(governor.clock(now)),
            server: settings.server.address(),
            is_beside: settings.is_beside,
            is_draining: governor.is_draining.load(Relaxed),
            control: Control {
                is_set: settings.control.is_some(),
                up_since: health.control_up.map(moment),
                error: health.control_error,
            },
            sessions: sessions.len() as u64,
            sessions_max: (!settings.is_beside).then_some(settings.listen.clients_max),
            mpl: settings.total_mpl,
            policy: settings.preemption.policy.to_string(),
            resident_bytes: own.resident_bytes,
            cpu_s: seconds(own.cpu),
            classes: classes(governor, &sessions),
            queue: queue(governor, now),
            blocked: blocked(governor, now),
            preemptions: preemptions(governor),
            governed: governed(governor),
            activity: ActivityState::of(governor, now),
            levers: levers.collect(),
            targets: TargetsState::of(governor, now),
        }
    }
}

fn classes(governor: &Governor, sessions: &[std::sync::Arc<SessionCard>]) -> Vec<ClassState> {
    let settings = governor.settings();
    let states: Vec<(ClassIndex, Phase)> = sessions
        .iter()
        .map(|card| {
            let state = card.state();
            (state.class, state.phase)
        })
        .collect();
    let waiting = governor.waiting();
    let tracks = settings.preemption.policy.only_tracks();
    let events = if tracks { governor.events() } else { Vec::new() };
    let history = governor.history.lock();
    // Transactions that do not pass through the governor are not timed.
    let window = |place: usize, length: Duration| {
        let window = (!settings.is_beside).then(|| history.window(place, length)).flatten()?;
        Some(WindowState::of(&window))
    };
    let of_class = |(index, class): (ClassIndex, &crate::settings::ClassSettings)| {
        let place = usize::from(index.0);
        let mut phases = std::collections::BTreeMap::new();
        for (_, phase) in states.iter().filter(|(of, _)| *of == index) {
            *phases.entry(phase.name().to_owned()).or_default() += 1;
        }
        let points = if settings.is_beside { 0 } else { history::POINTS };
        let of_points = || history.points().take(points).map(|point| point.get(place).copied().unwrap_or((0.0, None)));
        ClassState {
            name: class.name.clone(),
            priority: class.limits.priority.to_string(),
            priority_level: class.limits.priority.level(),
            mpl: class.mpl_in_force(),
            is_paused: class.is_paused,
            inside: governor.statistics.class(index).inside.load(Relaxed),
            queued: waiting.iter().filter(|waiting| waiting.class == index).count() as u64,
            sessions: phases.values().sum(),
            phases,
            last_10_s: window(place, SHORT),
            last_60_s: window(place, LONG),
            totals: Totals::of(governor.statistics.class(index)),
            tracked: tracks.then(|| Tracked::of(governor.statistics.class(index), &events)),
            chart_transactions_per_s: of_points().map(|(rate, _)| rate).collect(),
            chart_p95_s: of_points().map(|(_, p95)| p95).collect(),
        }
    };
    settings.indexed().map(of_class).collect()
}

fn queue(governor: &Governor, now: Instant) -> Vec<Queued> {
    let settings = governor.settings();
    let now = governor.clock(now);
    let row = |waiting: plimsoll_policy::Waiting| {
        let card = governor.registry.get(SessionId(waiting.ticket.0));
        let class = settings.class(waiting.class);
        Queued {
            session: waiting.ticket.0,
            user: card.as_ref().map(|card| card.login.user.clone()),
            database: card.as_ref().map(|card| card.login.database.clone()),
            class: class.name.clone(),
            waited_s: seconds(now.saturating_sub(waiting.since)),
            why: if class.is_paused { "the class is paused".to_owned() } else { waiting.why.to_string() },
        }
    };
    governor.waiting().into_iter().take(QUEUE_MAX).map(row).collect()
}

fn blocked(governor: &Governor, now: Instant) -> Vec<BlockedUnit> {
    let mut blocked = governor.blocked();
    blocked.sort_by_key(|blocked| blocked.since);
    let row = |blocked: crate::governor::Blocked| BlockedUnit {
        waiter: blocked.waiter.0,
        waiter_class: blocked.waiter_class,
        waited_s: seconds(now.saturating_duration_since(blocked.since)),
        holder: blocked.holder.map(|holder| holder.0),
        holder_process: blocked.holder_process,
        holder_class: blocked.holder_class,
        holder_was: blocked.holder_was.to_owned(),
        left_alone: blocked.why.map(|why| why.to_string()),
    };
    blocked.into_iter().take(PREEMPTIONS_MAX).map(row).collect()
}

fn governed(governor: &Governor) -> Vec<GovernedStatement> {
    let settings = governor.settings();
    let row = |statement: plimsoll_settings::governed::Governed| {
        let counts = governor.counts_of(&statement, &settings);
        GovernedStatement {
            fingerprint: format!("{:016x}", statement.fingerprint),
            limits: statement.limits(),
            class: statement.class,
            transactions_60_s: counts.map(|counts| counts.transactions),
            beyond_rate: counts.map(|counts| counts.beyond_rate),
            runaways: counts.map(|counts| counts.runaways),
        }
    };
    governor.governed().into_iter().map(row).collect()
}

fn preemptions(governor: &Governor) -> Vec<Preempted> {
    let row = |event: PreemptionEvent| Preempted {
        at: moment(event.at),
        outcome: event.told(),
        lever: event.lever,
        victim: event.victim.0.0,
        victim_class: event.victim_class,
        victim_was: event.victim_was.to_owned(),
        waiter: event.waiter.0.0,
        waiter_class: event.waiter_class,
        waited_s: seconds(event.waited),
        done: event.done.to_owned(),
        lost_s: event.stake.map(|stake| seconds(stake.lost)),
        won_s: event.stake.and_then(|stake| stake.won).map(seconds),
    };
    governor.events().into_iter().rev().take(PREEMPTIONS_MAX).map(row).collect()
}

impl Tracked {
    fn of(class: &ClassStatistics, events: &[PreemptionEvent]) -> Self {
        let of_class = events.iter().filter(|event| event.victim_class == class.name);
        let (mut victims, mut errors_40001) = (0, 0);
        for event in of_class {
            victims += u64::from(matches!(event.outcome, Outcome::Tracked(_) | Outcome::TrackedBeside));
            errors_40001 += u64::from(matches!(event.outcome, Outcome::Tracked(Err(_))));
        }
        Tracked {
            victims,
            errors_40001,
            saved_s: Some(seconds(Duration::from_nanos(class.tracked_saved_nanos.load(Relaxed)))),
        }
    }
}

fn seconds(length: Duration) -> f64 {
    length.as_micros() as f64 / 1e6
}

fn moment(at: SystemTime) -> String {
    Timestamp::try_from(at).map_or_else(|_| String::new(), |at| format!("{at:.3}"))
}
