//! The process that counts.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use plimsoll_machine::simulated_counters::{Counting, SimulatedCounts, Switch, left_by};
use plimsoll_workload::benchmark::{Benchmark, Client, LoadProgress, load_anew};
use plimsoll_workload::database::{Database, Login, OptionChange, Session};
use plimsoll_workload::registry::Catalog;

use super::{CountReport, CountRequest};
use crate::targets::Targets;

/// The option of a private server that has its program run by another one.
const WRAPPER: &str = "wrapper";

/// The option for the degree of parallelism. Processes that work for others are not counted, so queries have none.
const DOP: &str = "dop";

/// How often a request may be run again: one client meets no other.
const RETRY_MAX: usize = 10;

/// Loads the data, runs requests, and counts them.
pub fn count(request: &CountRequest, targets: &dyn Targets, stop: &AtomicBool) -> Result<CountReport, String> {
    let catalog = Catalog::with(request.data_seed, targets.kinds());
    let made = catalog.get(&request.kind, Some(request.scale), &request.parameters);
    let benchmark = made.map_err(|error| error.to_string())?.0;
    let is_server = !request.url.starts_with("embedded:");
    let mut options = request.options.clone();
    if is_server && options.entry(DOP.to_owned()).or_insert_with(|| "1".to_owned()) != "1" {
        return Err("processes that work for others are not counted; use dop = 1".to_owned());
    }
    let database = targets.target(&request.url, &options)?.open()?;
    let progress = LoadProgress { report: &|_, _, _| {}, stop };
    load_anew(&*benchmark, &*database, &progress).map_err(|error| error.to_string())?;
    let work = Work { benchmark: &*benchmark, database: &*database, request };
    work.prepare()?;
    if is_server { work.count_in_sessions() } else { work.count_here() }
}

struct Work<'a> {
    benchmark: &'a dyn Benchmark,
    database: &'a dyn Database,
    request: &'a CountRequest,
}

impl Work<'_> {
    fn prepare(&self) -> Result<(), String> {
        if self.benchmark.is_analytical() {
            self.database.refresh(self.benchmark.schema()).map_err(|error| error.words())?;
        }
        self.benchmark.prepare(self.database).map_err(|error| error.words())
    }

    fn session(&self) -> Result<Box<dyn Session>, String> {
        let schema = self.benchmark.schema();
        let session = match self.benchmark.is_analytical() {
            true => self.database.query_session(schema, Login::default()),
            false => self.database.session(schema),
        };
        session.map_err(|error| error.words())
    }

    /// How many requests run before, and how many are counted. Of queries, which differ much, whole rounds of all kinds.
    fn lengths(&self) -> (u64, u64) {
        let round = if self.benchmark.is_analytical() { self.benchmark.transactions().len() as u64 } else { 1 };
        let whole = |requests: u64| requests.max(1).div_ceil(round) * round;
        (whole(self.request.requests / 4), whole(self.request.requests))
    }

    /// Counts in this process, which is simulated.
    fn count_here(&self) -> Result<CountReport, String> {
        let CountRequest { simulator, folder, seed, .. } = self.request;
        let words = |error| format!("{error}");
        let process = std::process::id().cast_signed();
        let mut client = self.benchmark.client(0, *seed);
        let mut session = self.session()?;
        let (before, counted) = self.lengths();
        simulator.switch(folder, process, Switch::On).map_err(words)?;
        self.serve(&mut *client, &mut *session, before)?;
        simulator.switch(folder, process, Switch::Zero).map_err(words)?;
        let began = Instant::now();
        let completed = self.serve(&mut *client, &mut *session, counted)?;
        let elapsed_s = began.elapsed().as_secs_f64();
        let counts = simulator.take(folder, process).map_err(words)?;
        simulator.switch(folder, process, Switch::Off).map_err(words)?;
        Ok(CountReport { counts, completed, elapsed_s, notes: Vec::new() })
    }

    /// Counts in the server's processes of two sessions that differ in the number of their requests: login, caches that
    /// fill and the first use of each statement cost both the same.
    fn count_in_sessions(&self) -> Result<CountReport, String> {
        let words = self.request.simulator.command(&self.request.folder, Counting::FromStart);
        let words: Vec<String> = words.into_iter().map(|word| word.to_string_lossy().into_owned()).collect();
        let changed = self.database.set_option(WRAPPER, &words.join(" ")).map_err(|error| error.words())?;
        if changed != OptionChange::Applied {
            return Err("the server cannot be started again under the simulator".to_owned());
        }
        self.benchmark.prepare(self.database).map_err(|error| error.words())?;
        let (before, counted) = self.lengths();
        // The first session after a start makes what all later ones find: files of the catalog, pages in memory.
        self.session_of(0, before, 0)?;
        let short = self.session_of(1, before, 0)?;
        let long = self.session_of(2, before, counted)?;
        let counts = difference(&long.counts, &short.counts)
            .ok_or("a session with more requests cost less than one with fewer; count more requests")?;
        let note =
            format!("counts are the difference of two sessions, with {before} and {} requests", before + counted);
        Ok(CountReport { counts, notes: vec![note], ..long })
    }

    /// A session whose process leaves its counts: those of all requests, but only the last of them are reported as completed.
    fn session_of(&self, client: usize, before: u64, counted: u64) -> Result<CountReport, String> {
        let mut session = self.session()?;
        let process = session.server_process().ok_or("the server does not tell the process of a session")?;
        let mut client = self.benchmark.client(client, self.request.seed);
        self.serve(&mut *client, &mut *session, before)?;
        let began = Instant::now();
        let completed = self.serve(&mut *client, &mut *session, counted)?;
        let elapsed_s = began.elapsed().as_secs_f64();
        drop(session);
        let counts = left_by(&self.request.folder, process).map_err(|error| error.to_string())?;
        Ok(CountReport { counts, completed, elapsed_s, notes: Vec::new() })
    }

    fn serve(
        &self,
        client: &mut dyn Client,
        session: &mut dyn Session,
        requests: u64,
    ) -> Result<BTreeMap<String, u64>, String> {
        let kinds = self.benchmark.transactions();
        let mut completed = BTreeMap::new();
        for _ in 0..requests {
            // Pauses are of no concern here: what is counted is work.
            client.between(session);
            let kind = kinds[client.draw()];
            let mut tries = 0;
            while let Err(error) = client.run(session) {
                tries += 1;
                if !error.is_retryable() || tries > RETRY_MAX {
                    return Err(format!("{kind}: {}", error.words()));
                }
            }
            *completed.entry(kind.to_owned()).or_insert(0) += 1;
        }
        Ok(completed)
    }
}

/// Each count less the other's; `None` if there was less work. Misses and mispredictions of very few may be fewer: they are 0 then.
pub(super) fn difference(more: &SimulatedCounts, less: &SimulatedCounts) -> Option<SimulatedCounts> {
    Some(SimulatedCounts {
        instructions: more.instructions.checked_sub(less.instructions)?,
        code_misses: more.code_misses.saturating_sub(less.code_misses),
        reads: more.reads.checked_sub(less.reads)?,
        read_misses: more.read_misses.saturating_sub(less.read_misses),
        writes: more.writes.checked_sub(less.writes)?,
        write_misses: more.write_misses.saturating_sub(less.write_misses),
        last_level_misses: more.last_level_misses.saturating_sub(less.last_level_misses),
        conditional_branches: more.conditional_branches.checked_sub(less.conditional_branches)?,
        conditional_mispredictions: more.conditional_mispredictions.saturating_sub(less.conditional_mispredictions),
        indirect_branches: more.indirect_branches.saturating_sub(less.indirect_branches),
        indirect_mispredictions: more.indirect_mispredictions.saturating_sub(less.indirect_mispredictions),
    })
}
