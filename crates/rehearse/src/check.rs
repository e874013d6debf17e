//! What a target lacks, found before the run: each distinct statement is prepared there, and nothing is executed.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_pg::connection::{Connection, WireError};
use plimsoll_pg::url::ServerUrl;
use serde::Serialize;

use crate::message::{field, message, query};
use crate::plan::{Plan, Probe};
use crate::server::startup;

/// Parameters of a startup message that decide what names mean.
const NAMING: [&str; 2] = ["options", "search_path"];

/// Types with higher numbers are of one database only.
const BUILT_IN_MAX: u32 = 16_383;

/// Errors of a statement whose parameters the client alone knows: it is not known whether it could run.
const UNDECIDED: [&str; 3] = ["42P18", "42725", "42P08"];

/// A server before the run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Check {
    /// Its version, as it reports it.
    pub version: String,
    /// Distinct statements that were prepared.
    pub statements: usize,
    /// Statements that cannot be prepared there.
    pub failures: Vec<Failure>,
    /// Statements that say nothing before the run, such as those on tables that the capture itself creates.
    pub unchecked: usize,
    /// How many more sessions it accepts; `None` if it does not tell.
    pub sessions_free: Option<u64>,
}

/// A statement that a server cannot prepare.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// The statement.
    pub statement: String,
    /// The SQLSTATE.
    pub code: String,
    /// The server's message.
    pub message: String,
    /// How many units have it.
    pub units: u64,
    /// The shapes that have it.
    #[serde(skip)]
    pub shapes: BTreeSet<usize>,
}

/// Parameters of a startup message.
pub(crate) type Parameters = Vec<(String, String)>;

/// Looks at a server.
pub fn check(plan: &Plan, url: &ServerUrl) -> Result<Check, WireError> {
    let mut connection = Connection::open(url)?;
    let version = connection.parameter("server_version").unwrap_or("unknown").to_owned();
    let sessions_free = sessions_free(&mut connection)?;
    let mut check = Check { version, sessions_free, ..Check::default() };
    for ((parameters, settings), probes) in groups(plan) {
        let mut connection = Connection::open_with(url, &startup(&parameters, true))?;
        for setting in settings {
            connection.relay(&query(setting), |_, _| {})?;
        }
        for probe in probes {
            prepare(|request, on| connection.relay(request, on), probe, plan, &mut check)?;
        }
    }
    check.sort();
    Ok(check)
}

impl Check {
    /// Puts the failures with most units first.
    pub(crate) fn sort(&mut self) {
        self.failures.sort_by(|one, other| other.units.cmp(&one.units).then(one.statement.cmp(&other.statement)));
    }
}

/// The statements to try, by what decides the meaning of their names: parameters and settings of their sessions.
pub(crate) fn groups(plan: &Plan) -> BTreeMap<(Parameters, &[String]), Vec<&Probe>> {
    let mut groups: BTreeMap<(Parameters, &[String]), Vec<&Probe>> = BTreeMap::new();
    for probe in &plan.probes {
        let naming = probe.parameters.iter().filter(|(name, _)| NAMING.contains(&name.as_str())).cloned().collect();
        groups.entry((naming, &probe.settings)).or_default().push(probe);
    }
    groups
}

fn sessions_free(connection: &mut Connection) -> Result<Option<u64>, WireError> {
    let free = "select current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int \
                - (select coalesce(sum(numbackends), 0)::int from pg_stat_database) + 1";
    Ok(connection.text(free)?.and_then(|text| text.parse::<i64>().ok()).map(|free| u64::try_from(free).unwrap_or(0)))
}

/// Receives the messages of an answer.
type On<'a> = &'a mut dyn FnMut(u8, &[u8]);

/// Prepares a statement on a server, to which `send` sends messages, and notes what came of it.
pub(crate) fn prepare<E>(
    send: impl FnOnce(&[u8], On<'_>) -> Result<(), E>,
    probe: &Probe,
    plan: &Plan,
    check: &mut Check,
) -> Result<(), E> {
    check.statements += 1;
    let known = |oid: &u32| if *oid > BUILT_IN_MAX { 0 } else { *oid };
    let mut body = [b"\0", probe.text.as_bytes(), b"\0"].concat();
    body.extend_from_slice(&u16::try_from(probe.types.len()).unwrap_or(0).to_be_bytes());
    probe.types.iter().map(known).for_each(|oid| body.extend_from_slice(&oid.to_be_bytes()));
    let mut error = None;
    send(&[message(b'P', &body), message(b'S', b"")].concat(), &mut |tag, body| {
        if tag == b'E' && error.is_none() {
            error = Some((field(body, b'C').unwrap_or_default(), field(body, b'M').unwrap_or_default()));
        }
    })?;
    let Some((code, message)) = error else { return Ok(()) };
    let is_made_by_the_capture = probe.tables.iter().any(|table| plan.facts.created.contains(table));
    if is_made_by_the_capture || UNDECIDED.contains(&code.as_str()) || probe.recorded_error.as_ref() == Some(&code) {
        check.unchecked += 1;
        return Ok(());
    }
    let has_it = |unit: &&crate::plan::Planned| unit.skip.is_none() && probe.shapes.contains(&unit.shape);
    let units = plan.units().filter(has_it).count() as u64;
    check.failures.push(Failure { statement: probe.text.clone(), code, message, units, shapes: probe.shapes.clone() });
    Ok(())
}
