//! A whole rehearsal: the plan, the look at the targets, the turns, the result.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use plimsoll_model::statistics::Finding;
use plimsoll_pg::connection::WireError;
use plimsoll_pg::url::{ServerUrl, UrlError};
use plimsoll_postgres::server::ServerSettings;

use crate::check::{Check, check};
use crate::explain;
use crate::input::Input;
use crate::latency::{Estimate, times_as_fast};
use crate::plan::{Plan, Selection};
use crate::private::{self, Data, PrivateError, PrivateTarget};
use crate::replay::{Pace, Run, Speed, replay};
use crate::result::{
    CaptureShown, Comparison, PlanShown, Rehearsal, ServerResult, StatementComparison, StatementResult, faults,
    server_result,
};
use crate::server::PostgresServer;

/// Statements whose plans are shown.
const PLANS_MAX: usize = 10;

/// A server to replay against.
#[derive(Debug, Clone)]
pub enum Target {
    /// A server that runs already.
    Server(Box<ServerUrl>),
    /// A private server.
    Private(Box<ServerSettings>),
}

impl Target {
    /// Reads `postgres://…` or `postgres:?version=18`.
    pub fn parse(text: &str) -> Result<Target, RehearseError> {
        if text.starts_with("postgres://") || text.starts_with("postgresql://") {
            return Ok(Target::Server(Box::new(ServerUrl::parse(text)?)));
        }
        match text.strip_prefix("postgres:") {
            Some(options) if options.is_empty() || options.starts_with('?') => {
                Ok(Target::Private(Box::new(private::settings(options.trim_start_matches('?'))?)))
            }
            _ => Err(RehearseError::NoSuchTarget(text.to_owned())),
        }
    }
}

/// What to rehearse.
#[derive(Debug, Clone)]
pub struct Request {
    /// The part of the capture.
    pub selection: Selection,
    /// Speed and copies.
    pub pace: Pace,
    /// The server.
    pub target: Target,
    /// Another one, which it is compared with.
    pub against: Option<Target>,
    /// How often each server runs.
    pub turns: usize,
    /// Whether servers that are not ours may be written.
    pub writes: bool,
    /// Whether the data has the hashes of a redacted capture in place of values.
    pub redacted_data: bool,
    /// Where the data of private servers comes from.
    pub data: Option<Data>,
}

/// Why there is no rehearsal.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the messages say it")]
pub enum RehearseError {
    #[error(
        "there is no target `{0}` for a replay; use `postgres://user@host:port/database` (a server of yours) or \
         `postgres:?version=18` (a private server, removed afterwards)"
    )]
    NoSuchTarget(String),
    #[error(transparent)]
    Url(#[from] UrlError),
    #[error("the capture has no units to replay{0}; `plimsoll capture --show DIR` tells what it has, and when")]
    Empty(String),
    #[error(
        "the values of this capture are hashes (it was recorded with --redact): they fit only data that was hashed with \
         the same key; say --redacted-data if the target has such data"
    )]
    Redacted,
    #[error(
        "the capture writes, to {tables}, and {url} is a server of yours: its data would be changed. Say --writes if it may be, \
         or replay against a private server: --target postgres:?version=18 --copy-from {url}"
    )]
    MayNotWrite { tables: String, url: String },
    #[error(
        "a private server begins empty, and the capture's statements need its tables: name a file that makes them with \
         --setup FILE.sql, or a database to copy with --copy-from postgres://…"
    )]
    NoData,
    #[error(
        "{url} accepts {free} more sessions, and the capture has {needed} at once; raise max_connections there, or replay less \
         of it (--sessions, --seconds)"
    )]
    TooFewConnections { url: String, free: u64, needed: u64 },
    #[error(transparent)]
    Private(#[from] PrivateError),
    #[error(transparent)]
    Wire(#[from] WireError),
}

impl RehearseError {
    /// Whether the request was at fault, not a server or this machine.
    pub fn is_input(&self) -> bool {
        !matches!(
            self,
            RehearseError::Wire(_) | RehearseError::Private(PrivateError::Server(_) | PrivateError::Wire(_))
        )
    }
}

/// A target that is ready.
enum Ready {
    Server(Box<ServerUrl>),
    Private(Box<PrivateTarget>),
}

impl Ready {
    fn make(target: &Target, data: Option<&Data>) -> Result<Ready, RehearseError> {
        Ok(match target {
            Target::Server(url) => Ready::Server(url.clone()),
            Target::Private(settings) => {
                let data = data.ok_or(RehearseError::NoData)?;
                Ready::Private(Box::new(PrivateTarget::start((**settings).clone(), data)?))
            }
        })
    }

    /// Where the statements can be tried.
    fn looked_at(&self) -> ServerUrl {
        match self {
            Ready::Server(url) => (**url).clone(),
            Ready::Private(target) => target.loaded(),
        }
    }

    /// Where a turn runs.
    fn turn(&self) -> Result<ServerUrl, RehearseError> {
        match self {
            Ready::Server(url) => Ok((**url).clone()),
            Ready::Private(target) => Ok(target.fresh()?),
        }
    }

    fn name(&self) -> String {
        match self {
            Ready::Server(url) => url.to_string(),
            Ready::Private(target) => format!("postgres: (private, {})", target.version()),
        }
    }
}

/// Rehearses. `tell` gets lines about the progress.
pub fn rehearse(
    input: Input,
    request: &Request,
    stop: &AtomicBool,
    tell: &dyn Fn(&str),
) -> Result<Rehearsal, RehearseError> {
    let Input { events, folder, began, server_version, redacted, faults } = input;
    let mut plan = Plan::of(events, &request.selection);
    refuse(&plan, redacted, request)?;
    let targets: Vec<&Target> = std::iter::once(&request.target).chain(&request.against).collect();
    let mut ready = Vec::new();
    for target in targets {
        if let Target::Private(_) = target {
            tell("starting a private server and loading its data");
        }
        ready.push(Ready::make(target, request.data.as_ref())?);
    }
    let checks: Vec<Check> = ready.iter().map(|one| look(&plan, one, request, tell)).collect::<Result<_, _>>()?;
    // What one server cannot run is left out on both: they are compared by the same units.
    let unfit: BTreeSet<usize> =
        checks.iter().flat_map(|check| &check.failures).flat_map(|one| one.shapes.clone()).collect();
    plan.leave_out(&unfit);
    let capture = CaptureShown { folder, began, server_version, redacted, faults, facts: plan.facts.clone() };
    let runs = turns(&plan, &ready, request, stop, tell)?;
    let servers: Vec<ServerResult> = ready
        .iter()
        .zip(checks)
        .zip(&runs)
        .map(|((one, check), runs)| server_result(one.name(), check, &plan, runs, request.pace))
        .collect();
    let comparison = match (&ready[..], &servers[..]) {
        ([target, against], [ours, others]) => Some(compare(&plan, (target, ours), (against, others), &runs)),
        _ => None,
    };
    let mut invalid: Vec<String> = servers.iter().flat_map(|server| self::faults(server, &plan)).collect();
    if stop.load(Ordering::Relaxed) {
        invalid.push("it was stopped before its end".to_owned());
    }
    let speed = match request.pace.speed {
        Speed::Times(times) => Some(times),
        Speed::Max => None,
    };
    let notes = notes(&plan, &capture, request);
    let plimsoll = env!("CARGO_PKG_VERSION");
    Ok(Rehearsal { plimsoll, capture, speed, copies: request.pace.copies, servers, comparison, notes, invalid })
}

/// Refuses what could only go wrong.
fn refuse(plan: &Plan, redacted: bool, request: &Request) -> Result<(), RehearseError> {
    if plan.units().next().is_none() {
        let of = request.selection.database.as_ref();
        return Err(RehearseError::Empty(of.map_or_else(String::new, |name| format!(" for the database `{name}`"))));
    }
    if redacted && !request.redacted_data {
        return Err(RehearseError::Redacted);
    }
    for target in std::iter::once(&request.target).chain(&request.against) {
        match target {
            Target::Server(url) if plan.writes() && !request.writes => {
                let mut tables: Vec<&str> = plan.facts.written.iter().map(String::as_str).take(5).collect();
                tables.extend((plan.facts.written.len() > 5).then_some("…"));
                let tables = if tables.is_empty() { "what its functions write".to_owned() } else { tables.join(", ") };
                return Err(RehearseError::MayNotWrite { tables, url: url.to_string() });
            }
            Target::Private(_) if request.data.is_none() => return Err(RehearseError::NoData),
            Target::Server(_) | Target::Private(_) => {}
        }
    }
    Ok(())
}

/// Looks at a server before the run, and tells what it lacks.
fn look(plan: &Plan, one: &Ready, request: &Request, tell: &dyn Fn(&str)) -> Result<Check, RehearseError> {
    let found = check(plan, &one.looked_at())?;
    let needed = (plan.sessions_at_once() * request.pace.copies) as u64;
    if let Some(free) = found.sessions_free.filter(|free| *free < needed) {
        return Err(RehearseError::TooFewConnections { url: one.name(), free, needed });
    }
    if found.failures.is_empty() {
        tell(&format!("{}: PostgreSQL {}, all {} statements can run", one.name(), found.version, found.statements));
    } else {
        let count = found.failures.len();
        tell(&format!(
            "{}: PostgreSQL {}, {count} of {} statements cannot run here:",
            one.name(),
            found.version,
            found.statements
        ));
        for failure in &found.failures {
            let statement: String = failure.statement.split_whitespace().collect::<Vec<_>>().join(" ");
            tell(&format!("  {} ({})", failure.message, plimsoll_display::cut(&statement, 60)));
        }
    }
    Ok(found)
}

/// Runs the servers in turns: A B, B A, A B, …, so that drift of the machine meets both alike.
fn turns(
    plan: &Plan,
    ready: &[Ready],
    request: &Request,
    stop: &AtomicBool,
    tell: &dyn Fn(&str),
) -> Result<Vec<Vec<Run>>, RehearseError> {
    let mut runs: Vec<Vec<Run>> = ready.iter().map(|_| Vec::new()).collect();
    for turn in 0..request.turns {
        let mut order: Vec<usize> = (0..ready.len()).collect();
        if turn % 2 == 1 {
            order.reverse();
        }
        for at in order {
            if stop.load(Ordering::Relaxed) {
                return Ok(runs);
            }
            let url = ready[at].turn()?;
            let span = request.pace.speed.due(plan.facts.span_us).as_secs_f64();
            let about = if span > 0.0 { format!(", about {}", plimsoll_display::seconds(span)) } else { String::new() };
            tell(&format!("turn {} of {}: {}{about}", turn + 1, request.turns, ready[at].name()));
            let server = PostgresServer::new(url, !plan.writes());
            runs[at].push(replay(plan, &server, request.pace, stop));
        }
    }
    Ok(runs)
}

/// The mean latency of each turn on two servers, over the kinds of units that both ran. Each kind counts as often as on the
/// first, so that a unit which one of them could not run does not make it look fast.
fn means(ours: &ServerResult, others: &ServerResult, turns: usize) -> (Vec<f64>, Vec<f64>) {
    let mean = |turn: usize| {
        let (mut calls, mut us) = (0.0, (0.0, 0.0));
        for one in &ours.statements {
            let other = others.statements.iter().find(|other| other.shape == one.shape);
            let other = other.and_then(|other| *other.turn_means.get(turn)?);
            let own = one.turn_means.get(turn).copied().flatten();
            if let (Some(own), Some(other)) = (own, other) {
                let weight = one.calls as f64;
                calls += weight;
                us = (us.0 + weight * own, us.1 + weight * other);
            }
        }
        (calls > 0.0).then_some((us.0 / calls, us.1 / calls))
    };
    (0..turns).filter_map(mean).unzip()
}

fn compare(
    plan: &Plan,
    ours: (&Ready, &ServerResult),
    others: (&Ready, &ServerResult),
    runs: &[Vec<Run>],
) -> Comparison {
    let turns = runs.iter().map(Vec::len).min().unwrap_or(0);
    let (own, other) = means(ours.1, others.1, turns);
    let total = times_as_fast(&own, &other).map(|(times, _)| times);
    let (mut slower, mut faster, mut alike): (Vec<(&StatementResult, Estimate)>, _, _) = (Vec::new(), 0, 0);
    for one in &ours.1.statements {
        let other = others.1.statements.iter().find(|other| other.shape == one.shape);
        match other.and_then(|other| statement_ratio(one, other)) {
            Some((ratio, Finding::Slower)) => slower.push((one, ratio)),
            Some((_, Finding::Faster)) => faster += 1,
            _ => alike += 1,
        }
    }
    let cost = |one: &StatementResult| one.latency.map_or(0.0, |it| it.now.mean_us.value * it.calls as f64);
    slower.sort_by(|one, other| cost(other.0).total_cmp(&cost(one.0)));
    let compared = |(at, (one, times_as_fast)): (usize, (&StatementResult, Estimate))| {
        let sample = plan.shapes[one.shape].sample.as_ref().filter(|_| at < PLANS_MAX);
        let plan_on = |ready: &Ready| match sample.map(|sample| explain::plan(&ready.looked_at(), sample)) {
            Some(Ok(plan)) => PlanShown { plan: Some(plan), why_not: None },
            Some(Err(why)) => PlanShown { plan: None, why_not: Some(why) },
            None => PlanShown { plan: None, why_not: Some("it has no plan, or is one of many".to_owned()) },
        };
        let text = one.text.clone();
        StatementComparison { text, times_as_fast, plan_before: plan_on(others.0), plan_now: plan_on(ours.0) }
    };
    let slower = slower.into_iter().enumerate().map(compared).collect();
    Comparison { times_as_fast: total, turns, slower, faster, alike }
}

fn statement_ratio(one: &StatementResult, other: &StatementResult) -> Option<(Estimate, Finding)> {
    let both: Vec<(f64, f64)> =
        one.turn_means.iter().zip(&other.turn_means).filter_map(|(one, other)| Some(((*one)?, (*other)?))).collect();
    let (ours, others): (Vec<f64>, Vec<f64>) = both.into_iter().unzip();
    times_as_fast(&ours, &others)
}

/// What a reader must know beside the figures.
fn notes(plan: &Plan, capture: &CaptureShown, request: &Request) -> Vec<String> {
    let mut notes = capture.faults.clone();
    if plan.facts.lost > 0 {
        notes.push(format!(
            "the recording has lost {}, which the replay lacks",
            plimsoll_display::counted(plan.facts.lost as usize, "unit")
        ));
    }
    if plan.facts.clock_jumps > 0 {
        notes.push(format!(
            "times went back {} times within sessions; their units follow each other at once",
            plan.facts.clock_jumps
        ));
    }
    if plan.facts.unopened > 0 {
        let sessions = plimsoll_display::counted(plan.facts.unopened as usize, "session");
        notes.push(format!(
            "{sessions} began before the capture: their settings and older prepared statements are not known"
        ));
    }
    if plan.facts.roles.len() > 1 {
        let roles: Vec<&str> = plan.facts.roles.iter().map(String::as_str).collect();
        notes.push(format!("all sessions log in as the target's role, those of {} too", roles.join(", ")));
    }
    if request.pace.speed == Speed::Max {
        notes.push("without the recorded times, latencies are those of another load than the recorded one".to_owned());
    }
    let is_server = |target: &Target| matches!(target, Target::Server(_));
    let has_servers = std::iter::once(&request.target).chain(&request.against).any(is_server);
    if has_servers && plan.writes() && request.turns > 1 {
        notes.push("servers of yours keep what each turn writes: later turns begin with other data".to_owned());
    }
    notes
}

#[cfg(test)]
mod tests;
