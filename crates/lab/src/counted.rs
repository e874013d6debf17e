//! Runs whose requests are counted on a simulated processor, where the real one shows no counters.
//!
//! Each run is a process of its own, [`count`]: it opens the database, loads the data and runs a number of requests of one
//! client, of which instructions, misses and mispredictions are counted. The embedded database is in that process, which
//! therefore runs under the [`Simulator`] as a whole. A private PostgreSQL server is started again under it once its data
//! are loaded. `run` starts the process and makes the record of the run. Times are those under the simulator, and mean
//! nothing: figures of speed are missing, and claims about them are not judged.

mod child;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use plimsoll_machine::MachineFacts;
use plimsoll_machine::simulated_counters::{Counting, SimulatedCounts, Simulator, folder};
use plimsoll_workload::database::Login;
use plimsoll_workload::driver::ClientOptions;
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::plan::{Arm, Plan, PlannedWorkload, Setting};
use crate::record::{RunId, RunRecord};
use crate::results::{Counters, Part, Point, WorkloadMeasurement, WorkloadResult};
use crate::targets::{Targets, own_options};
pub use child::count;

/// The caution on every result.
pub(crate) const CAUTION: &str = "counted on a simulated processor, not measured: a simple model of two levels of caches and of branch prediction, without prefetching, one process by itself; times and throughput are those under the simulator and mean nothing (docs/machine.md)";

/// Why figures of speed are missing.
pub(crate) const NO_SPEED: &str = "the processor is simulated, and has no speed";

/// What the process is to count.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CountRequest {
    /// The simulator.
    pub simulator: Simulator,
    /// The folder for its pipes and counts.
    pub folder: std::path::PathBuf,
    /// The target's URL.
    pub url: String,
    /// Its options.
    pub options: BTreeMap<String, String>,
    /// The benchmark, its scale and its parameters.
    pub kind: String,
    /// Its scale.
    pub scale: f64,
    /// Its parameters beyond its scale.
    pub parameters: BTreeMap<String, Value>,
    /// The seed of the data.
    pub data_seed: u64,
    /// The seed of the requests.
    pub seed: u64,
    /// How many requests are counted at least.
    pub requests: u64,
}

/// What it counted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CountReport {
    /// The counts of all counted requests together.
    pub counts: SimulatedCounts,
    /// Counted requests by kind.
    pub completed: BTreeMap<String, u64>,
    /// Seconds that they took under the simulator.
    pub elapsed_s: f64,
    /// What a reader should know.
    pub notes: Vec<String>,
}

/// Why requests cannot be counted by this plan; `None` if they can. A plan that measures has no fault.
pub(crate) fn fault(plan: &Plan) -> Option<String> {
    plan.run.simulated_requests?;
    if plan.arms.iter().any(|arm| arm.members.len() != 1) {
        let why = "counts of several workloads at once cannot be told apart on a simulated processor; give arms = [\"alone\"]";
        return Some(why.to_owned());
    }
    plan.settings().take(SETTINGS_MAX).find_map(|setting| fault_of(&setting))
}

/// The number of settings that are checked.
const SETTINGS_MAX: usize = 10_000;

fn fault_of(setting: &Setting) -> Option<String> {
    let Setting { url, limits, workloads, .. } = setting;
    if !url.starts_with("embedded:") && (!url.starts_with("postgres:") || url.starts_with("postgres://")) {
        return Some(
            "requests are counted in programs that Plimsoll starts; use the target `embedded:` or `postgres:`"
                .to_owned(),
        );
    }
    if !limits.is_empty() {
        return Some("a simulated processor has no limits; leave out [machine]".to_owned());
    }
    let is_other = |clients: &ClientOptions| clients.clients != 1 || clients.login() != Login::default();
    let name = &workloads.iter().find(|workload| is_other(&workload.clients))?.name;
    Some(format!(
        "{name}: requests are counted of one client without a name of its own; set clients = 1, no user and no application"
    ))
}

/// The program that counts, and what it is started with.
#[derive(Debug, Clone)]
pub(crate) struct CountedRun<'a> {
    pub id: RunId,
    pub setting: &'a Setting,
    pub arm: &'a Arm,
    /// When it begins, seconds since the experiment did.
    pub at_s: f64,
    /// The program and its first argument.
    pub program: &'a [OsString],
}

/// Counts the requests of one run; `None` if it was stopped.
pub(crate) fn run(
    plan: &Plan,
    run: &CountedRun<'_>,
    targets: &dyn Targets,
    stop: &AtomicBool,
    waiting: &mut dyn FnMut(),
) -> Result<Option<RunRecord>, String> {
    let workload = &run.setting.workloads[run.arm.members[0]];
    let simulator = Simulator::find(&MachineFacts::read().caches).map_err(|error| error.to_string())?;
    let folder = folder().map_err(|error| error.to_string())?;
    let request = CountRequest {
        folder: folder.path().to_owned(),
        url: run.setting.url.clone(),
        options: own_options(targets, run.setting),
        kind: workload.kind.clone(),
        scale: workload.scale,
        parameters: workload.parameters.clone(),
        data_seed: plan.run.seed,
        seed: plan.run.seed_of_block(run.id.repeat),
        requests: plan.run.simulated_requests.expect("the caller looked"),
        simulator,
    };
    let is_within = request.url.starts_with("embedded:");
    let wrapper = if is_within { request.simulator.command(folder.path(), Counting::Switched) } else { Vec::new() };
    if run.program.is_empty() {
        return Err("this program cannot count requests: it was built without the command".to_owned());
    }
    let mut words = wrapper.iter().chain(run.program);
    let mut command = Command::new(words.next().expect("a program has a name"));
    let report = converse(command.args(words), &request, stop, waiting)?;
    Ok(report.map(|report| record(run, workload, &request.simulator, &report)))
}

/// Starts the process, and waits for its report; `None` if it was stopped.
fn converse(
    command: &mut Command,
    request: &CountRequest,
    stop: &AtomicBool,
    waiting: &mut dyn FnMut(),
) -> Result<Option<CountReport>, String> {
    let begun = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = begun.map_err(|error| format!("the process that counts does not start: {error}"))?;
    let mut input = child.stdin.take().expect("piped above");
    let asked = serde_json::to_vec(request).expect("plain data");
    // An error here is one of the process, which tells it itself.
    let _ = input.write_all(&asked);
    drop(input);
    // Read beside each other, so that neither pipe fills up.
    let (out, err) = (reader(child.stdout.take()), reader(child.stderr.take()));
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if stop.load(Ordering::Relaxed) => {
                end(&mut child);
                return Ok(None);
            }
            Ok(None) => waiting(),
            Err(error) => return Err(format!("the process that counts is lost: {error}")),
        }
        thread::sleep(LOOK_EVERY);
    };
    let text = |thread: thread::JoinHandle<String>| thread.join().expect("it only reads");
    let (out, err) = (text(out), text(err));
    if stop.load(Ordering::Relaxed) {
        return Ok(None);
    }
    let last = |text: &str| text.lines().rfind(|line| !line.trim().is_empty()).map(str::to_owned);
    let ended = || last(&err).unwrap_or_else(|| format!("the process that counts ended with {status}"));
    serde_json::from_str::<Result<CountReport, String>>(last(&out).as_deref().unwrap_or_default())
        .unwrap_or_else(|_| Err(ended()))
        .map(Some)
}

/// How often Ctrl-C is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// How long a process that is asked to end may take: a server of its own has to be stopped.
const ENDS_WITHIN: Duration = Duration::from_secs(10);

fn end(child: &mut Child) {
    let _ = kill_process(Pid::from_child(child), Signal::TERM);
    for _ in 0..ENDS_WITHIN.as_millis() / LOOK_EVERY.as_millis() {
        if !matches!(child.try_wait(), Ok(None)) {
            return;
        }
        thread::sleep(LOOK_EVERY);
    }
    let _ = child.kill();
    let _ = child.wait();
}

fn reader(pipe: Option<impl Read + Send + 'static>) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut text = Vec::new();
        // What was read until an error is all that there is.
        let _ = pipe.map(|mut pipe| pipe.read_to_end(&mut text));
        String::from_utf8_lossy(&text).into_owned()
    })
}

/// The record of a run.
fn record(run: &CountedRun<'_>, workload: &PlannedWorkload, simulator: &Simulator, report: &CountReport) -> RunRecord {
    let CountReport { counts, completed, elapsed_s, notes } = report;
    let part = |completed: u64| Part {
        completed,
        throughput_per_s: completed as f64 / elapsed_s.max(f64::MIN_POSITIVE),
        ..Part::default()
    };
    let (name, kind) = (workload.name.clone(), workload.kind.clone());
    let driven = WorkloadMeasurement {
        name,
        kind,
        clients: 1,
        all: part(completed.values().sum()),
        transactions: completed.iter().map(|(kind, count)| (kind.clone(), part(*count))).collect(),
        ..WorkloadMeasurement::default()
    };
    let counters = Counters {
        instructions: Some(counts.instructions),
        l1d_misses: Some(counts.read_misses),
        llc_misses: Some(counts.last_level_misses),
        branches: Some(counts.branches()),
        branch_misses: Some(counts.mispredictions()),
        coverage: 1.0,
        is_simulated: true,
        ..Counters::default()
    };
    let result = WorkloadResult { driven, counters: Some(counters), ..WorkloadResult::default() };
    let point = Point {
        valid: true,
        window_s: *elapsed_s,
        workloads: vec![result],
        counters: Some(counters),
        ..Point::new(run.id, run.setting, run.arm, run.at_s)
    };
    let notes = simulator.caches.notes.iter().chain(notes).cloned().collect();
    RunRecord { id: run.id, point, histograms: Vec::new(), samples: Vec::new(), warnings: Vec::new(), notes }
}
