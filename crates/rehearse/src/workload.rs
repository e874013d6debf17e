//! A capture as a workload of the lab: `capture:DIR`.
//!
//! Each unit of the capture is a request, and its class is the kind of its statements. There are two ways to replay it. As it was
//! recorded, sessions run on as many clients as were at work at once (`lanes`), with the recorded pauses. With a number of clients,
//! each draws one session after the other, from a seed, and makes no pauses. Values of the server are mapped as in a
//! rehearsal; `values` says where they come from. A capture that is over begins again.
//!
//! A request that fails, and had not failed in the recording, counts as failed; the rest of its transaction is passed over.

mod classes;
mod client;
mod data;
mod lanes;
mod peer;
#[cfg(test)]
mod tests;
mod values;

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::{Mutex, RwLock};
use plimsoll_display::{count, counted, cut, percent, seconds};
use plimsoll_postgres::load::Exchange;
use plimsoll_workload::benchmark::{Benchmark, CheckLine, Client, LoadError, LoadProgress, Writes};
use plimsoll_workload::captured::CaptureKind;
use plimsoll_workload::database::{Database, DatabaseError, NO_PROTOCOL};
use plimsoll_workload::registry::Kinds;
use plimsoll_workload::schema::Schema;

use crate::check::{Check, groups, prepare};
use crate::input::{Input, read};
use crate::message::query;
use crate::plan::{Plan, Selection};
use crate::skip::Reason;
use crate::sql::statements;
use classes::Classes;
use client::CaptureClient;
use data::Source;
use lanes::lanes;
use peer::{SessionPeer, begin_session};
use values::Run;

/// Statements that cannot run, of which an error names so many.
const NAMED_MAX: usize = 10;

/// The workloads of captures.
#[derive(Debug)]
pub struct Captures;

impl Kinds for Captures {
    fn make(&self, kind: &str, _seed: u64) -> Option<Result<Box<dyn Benchmark>, String>> {
        let made = |kind: CaptureKind| {
            if is_observation(&kind.folder) {
                return Err(OBSERVATION.to_owned());
            }
            let input = read(&kind.folder).map_err(|error| error.to_string())?;
            CaptureWorkload::new(kind, input)
        };
        Some(CaptureKind::parse(kind)?.and_then(made).map(|workload| Box::new(workload) as Box<dyn Benchmark>))
    }
}

/// What is said of the folder of an observation, which people may take for a capture.
const OBSERVATION: &str = "it is an observation, which has statements and their times but none of the values that clients sent, so it cannot be \
     replayed; take a sketch of it (sketch:DIR), predict from it (plimsoll predict DIR), or record traffic (plimsoll capture)";

fn is_observation(folder: &Path) -> bool {
    folder.join("windows.jsonl").is_file() && !folder.join("capture.toml").is_file()
}

/// What all clients of a capture share.
struct Work {
    plan: Plan,
    classes: Classes,
    /// The sessions of each recorded client.
    lanes: Vec<Vec<usize>>,
    /// The sessions that have something to send.
    sessions: Vec<usize>,
    /// The session that makes each value.
    makers: Vec<usize>,
}

/// A capture as a workload.
struct CaptureWorkload {
    kind: CaptureKind,
    name: String,
    schema: Schema,
    source: Option<Source>,
    /// Places where the capture is damaged.
    faults: Vec<String>,
    work: Arc<Work>,
    /// The run that was prepared last.
    run: RwLock<Arc<Run>>,
    /// What the target of that run cannot do.
    check: RwLock<Check>,
    /// The schemas that loading has made.
    loaded: Mutex<Vec<String>>,
}

impl fmt::Debug for CaptureWorkload {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("CaptureWorkload").field("kind", &self.kind).finish_non_exhaustive()
    }
}

impl CaptureWorkload {
    fn new(kind: CaptureKind, input: Input) -> Result<Self, String> {
        let Input { events, faults, redacted, .. } = input;
        if redacted && !kind.redacted_data {
            return Err(
                "the values of this capture are hashes (it was recorded with --redact): they fit only data that was \
                        hashed with the same key; add the option redacted_data if the target has such data"
                    .to_owned(),
            );
        }
        let source = kind.source.as_ref().map(Source::read).transpose()?;
        let plan = Plan::of(events, &Selection { database: kind.database.clone(), ..Selection::ALL });
        let has_work = |at: &usize| plan.sessions[*at].units.iter().any(|unit| unit.skip.is_none());
        let sessions: Vec<usize> = (0..plan.sessions.len()).filter(has_work).collect();
        if sessions.is_empty() {
            let of = kind.database.as_ref().map(|name| format!(" for the database `{name}`")).unwrap_or_default();
            let why: Vec<String> = skipped(&plan).collect();
            let why = if why.is_empty() { String::new() } else { format!(": {}", why.join("; ")) };
            return Err(format!(
                "the capture has no units to replay{of}{why}; `plimsoll capture --show DIR` tells what it has"
            ));
        }
        let mut makers = vec![0; plan.slot_count];
        for (session, script) in plan.sessions.iter().enumerate() {
            script.units.iter().flat_map(|unit| &unit.makes).for_each(|made| makers[made.slot] = session);
        }
        let (classes, lanes) = (Classes::of(&plan), lanes(&plan));
        let work = Work { plan, classes, lanes, sessions, makers };
        Ok(CaptureWorkload {
            name: name_of(&kind),
            // The tables of a capture are those of its database, wherever they are.
            schema: Schema { name: "capture".into(), tables: &[] },
            source,
            faults,
            run: RwLock::new(Arc::new(Run::new(&work, BTreeSet::new(), true))),
            work: Arc::new(work),
            check: RwLock::default(),
            loaded: Mutex::default(),
            kind,
        })
    }

    /// Tries all statements on the target; nothing is run.
    fn look(&self, database: &dyn Database) -> Result<Check, DatabaseError> {
        let mut session = database.session(&self.schema)?;
        let mut check = Check::default();
        for ((parameters, settings), probes) in groups(&self.work.plan) {
            session.reset()?;
            let mut peer = SessionPeer::new(&mut *session);
            begin_session(&mut peer, &parameters, true).map_err(|why| peer.error(why))?;
            for setting in settings {
                peer.exchange(&query(setting), &mut |_, _| {}).map_err(|why| peer.error(why))?;
            }
            for probe in probes {
                let prepared = prepare(|request, on| peer.exchange(request, on), probe, &self.work.plan, &mut check);
                prepared.map_err(|why| peer.error(why))?;
            }
        }
        check.sort();
        Ok(check)
    }

    /// Refuses a target that lacks something, unless that is to be left out.
    fn refuse_lacking(&self, check: &Check) -> Result<(), DatabaseError> {
        // Statements of which nothing is known before the run may all fail.
        let (count, all) = (check.failures.len(), check.statements);
        let can_some = count + check.unchecked < all;
        if count == 0 || self.kind.leave_out && can_some {
            return Ok(());
        }
        let mut told = format!("{count} of {all} statements of {} cannot run on this target:", self.kind);
        for failure in check.failures.iter().take(NAMED_MAX) {
            told += &format!("\n  {}", told_failure(failure));
        }
        if count > NAMED_MAX {
            told += &format!("\n  and {} more", count - NAMED_MAX);
        }
        told += match can_some {
            true => "\nload what it lacks, or add the option leave_out to run the others without them",
            false => {
                "\nload what it lacks: behind the folder of the capture, setup=FILE.sql or copy_from=URL for a private server"
            }
        };
        Err(DatabaseError::Failed(told))
    }

    /// Refuses to write to a server of the user's unasked.
    fn refuse_writes(&self, database: &dyn Database) -> Result<(), DatabaseError> {
        let plan = &self.work.plan;
        if !database.is_of_user() || self.kind.writes || !plan.writes() {
            return Ok(());
        }
        let mut tables: Vec<&str> = plan.facts.written.iter().map(String::as_str).take(5).collect();
        tables.extend((plan.facts.written.len() > 5).then_some("…"));
        let tables = if tables.is_empty() { "what its functions write".to_owned() } else { tables.join(", ") };
        Err(DatabaseError::Failed(format!(
            "the capture writes, to {tables}, and this server is yours: its data would be changed. Add the option writes if it may \
             be ('{}{}writes'), or use a private server: --target postgres: with the option copy_from=URL",
            self.kind,
            if self.kind.to_string().contains('?') { '&' } else { '?' }
        )))
    }
}

/// The name of a workload: that of the capture's folder.
fn name_of(kind: &CaptureKind) -> String {
    let stem = kind.folder.file_name().unwrap_or_default().to_string_lossy();
    let is_good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let name: String = stem.chars().map(|c| if is_good(c) { c } else { '_' }).take(40).collect();
    if name.starts_with(|first: char| first.is_ascii_alphabetic()) { name } else { format!("capture_{name}") }
}

fn told_failure(failure: &crate::check::Failure) -> String {
    let statement: String = failure.statement.split_whitespace().collect::<Vec<_>>().join(" ");
    format!("{} ({}; {})", failure.message, cut(&statement, 60), counted(failure.units as usize, "unit"))
}

/// What is never sent, by reason.
fn skipped(plan: &Plan) -> impl Iterator<Item = String> {
    let all = plan.units().count() as u64;
    plan.skipped()
        .into_iter()
        .map(move |(reason, units)| format!("{} of {} units are not replayed: {reason}", count(units), count(all)))
}

impl Benchmark for CaptureWorkload {
    fn name(&self) -> &str {
        &self.name
    }

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn data(&self) -> String {
        format!("{}:{}", self.schema.name, self.source.as_ref().map_or("given", |source| &source.identity))
    }

    fn writes(&self) -> Writes {
        if self.work.plan.writes() { Writes::Grows } else { Writes::Nothing }
    }

    fn transactions(&self) -> Vec<&str> {
        self.work.classes.names.iter().map(String::as_str).collect()
    }

    fn estimated_bytes(&self) -> u64 {
        self.source.as_ref().map_or(0, |source| source.bytes)
    }

    fn recorded_clients(&self) -> Option<usize> {
        Some(self.work.lanes.len())
    }

    fn recorded_client(&self, number: usize) -> Box<dyn Client> {
        Box::new(CaptureClient::recorded(&self.work, &self.run.read(), number))
    }

    fn client(&self, number: usize, seed: u64) -> Box<dyn Client> {
        Box::new(CaptureClient::drawn(&self.work, &self.run.read(), number, seed))
    }

    fn load(&self, database: &dyn Database, progress: &LoadProgress<'_>) -> Result<(), LoadError> {
        if !database.runs_sql() {
            return Err(DatabaseError::Unsupported(NO_PROTOCOL.to_owned()).into());
        }
        self.refuse_writes(database)?;
        match (&self.source, database.is_of_user()) {
            (None, true) => Ok(database.run_script(&self.schema, "SELECT 1")?),
            (Some(source), false) => {
                progress.step(0, 0, "the data of the capture")?;
                data::load(source, database, &self.schema, &mut self.loaded.lock())
            }
            (None, false) => Err(DatabaseError::Failed(format!(
                "a private server begins empty, and the capture's statements need its tables: name a file that makes them \
                 ('{}?setup=FILE.sql'), or a database to copy ('{}?copy_from=postgres://…')",
                self.kind, self.kind
            ))
            .into()),
            (Some(_), true) => Err(DatabaseError::Failed(
                "setup and copy_from are for a private server; a server of yours has its own data, so leave them out".to_owned(),
            )
            .into()),
        }
    }

    fn prepare(&self, database: &dyn Database) -> Result<(), DatabaseError> {
        self.refuse_writes(database)?;
        let check = self.look(database)?;
        self.refuse_lacking(&check)?;
        let left_out: BTreeSet<usize> = check.failures.iter().flat_map(|failure| failure.shapes.clone()).collect();
        // A write that no text shows, as within a function, fails on a server of the user's and changes nothing.
        let read_only = database.is_of_user() && !self.kind.writes;
        *self.run.write() = Arc::new(Run::new(&self.work, left_out, read_only));
        *self.check.write() = check;
        Ok(())
    }

    fn queries(&self) -> Vec<(String, String)> {
        let Work { plan, classes, .. } = &*self.work;
        let sample = |(name, shape): (&String, &usize)| {
            let shape = &plan.shapes[*shape];
            let text = shape.sample.as_ref().filter(|_| !shape.writes)?;
            let has_parameters =
                statements(text.as_bytes()).iter().flat_map(|one| &one.places).any(|it| it.parameter.is_some());
            (!has_parameters).then(|| (name.clone(), text.clone()))
        };
        classes.names.iter().zip(&classes.shapes).filter_map(sample).collect()
    }

    fn notes(&self) -> Vec<String> {
        let plan = &self.work.plan;
        let run = self.run.read();
        let tally = &run.tally;
        let mut notes = self.faults.clone();
        if plan.facts.lost > 0 {
            notes.push(format!(
                "the recording has lost {}, which the replay lacks",
                counted(plan.facts.lost as usize, "unit")
            ));
        }
        notes.extend(skipped(plan));
        notes.extend(self.check.read().failures.iter().map(|one| format!("left out: {}", told_failure(one))));
        if self.kind.writes && plan.writes() {
            notes.push(
                "what it writes stays in the tables, so that later runs find other data than earlier ones".to_owned(),
            );
        }
        let (reached, span) = (tally.reached_us.load(Ordering::Relaxed), plan.facts.span_us);
        if tally.looped.load(Ordering::Relaxed) {
            notes.push("the capture was over before the run, and began again on the data as they were then".to_owned());
        } else if reached > 0 {
            let [reached, span] = [reached, span].map(|us| seconds(us as f64 / 1e6));
            notes.push(format!("the clients of the recording came as far as {reached} of the {span} that it has"));
        }
        let passed = tally.passed.lock();
        let passed = passed.iter().filter(|(reason, _)| **reason != Reason::Ended);
        notes.extend(
            passed
                .map(|(reason, units)| format!("passed over: {}, because {reason}", counted(*units as usize, "unit"))),
        );
        let recovered = tally.recovered.load(Ordering::Relaxed);
        if recovered > 0 {
            notes.push(format!("{} succeeded and had failed in the recording", counted(recovered as usize, "unit")));
        }
        notes
    }

    fn check(&self, database: &dyn Database) -> Result<Vec<CheckLine>, DatabaseError> {
        let Work { plan, classes, .. } = &*self.work;
        let run = self.run.read();
        let tally = &run.tally;
        let check = self.look(database)?;
        let mut lines: Vec<CheckLine> = check
            .failures
            .iter()
            .map(|failure| CheckLine {
                what: format!("the target can run `{}`", cut(&failure.statement, 60)),
                holds: Some(false),
                found: told_failure(failure),
            })
            .collect();
        if lines.is_empty() {
            lines.push(CheckLine {
                what: format!("the target can run {}", counted(check.statements, "statement")),
                holds: Some(true),
                found: String::new(),
            });
        }
        let lacking: BTreeSet<usize> = check.failures.iter().flat_map(|failure| failure.shapes.clone()).collect();
        lines.extend(classes.told(plan).map(|(name, shapes, units, share, text)| CheckLine {
            what: format!("{name} ({}, {} of the time): {}", counted(units, "unit"), percent(share), cut(text, 60)),
            holds: Some(shapes.iter().all(|shape| !lacking.contains(shape))),
            found: "the target cannot run all of it".to_owned(),
        }));
        let (sent, failed) = (tally.sent.load(Ordering::Relaxed), tally.failed.load(Ordering::Relaxed));
        if sent > 0 {
            lines.push(CheckLine {
                what: "units fail only where they had failed in the recording".to_owned(),
                holds: Some(failed == 0),
                found: format!("{} of {} failed", count(failed), counted(sent as usize, "unit")),
            });
        }
        Ok(lines)
    }
}
