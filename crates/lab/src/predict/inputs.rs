//! What a run has measured of each workload alone, and what mixes have shown of slowing each other down.

use std::collections::BTreeMap;

use plimsoll_model::demand::{Alone, Block, Figure};
use plimsoll_model::idd::{Calibration, Disk, LOCK_SHARE_MAX, Machine, Member, Mix, Slowdown};
use plimsoll_workload::driver::Delay;
use serde_json::Value;

use super::PredictError;
use super::points::{Asked, AskedMember};
use crate::analysis::cells::{Cell, Cells};
use crate::results::{Point, Results, WorkloadResult};

/// Swept settings.
pub(super) type Setting = BTreeMap<String, Value>;

/// A run, as the model's input.
pub(super) struct Inputs<'a> {
    pub(super) results: &'a Results,
    pub(super) cells: Cells<'a>,
}

impl<'a> Inputs<'a> {
    pub(super) fn of(results: &'a Results) -> Self {
        Inputs { results, cells: Cells::of(&results.points) }
    }

    /// The swept settings that are not loads, each once, in the order in which they ran.
    pub(super) fn bases(&self) -> Vec<Setting> {
        let mut bases: Vec<Setting> = Vec::new();
        for point in &self.results.points {
            let base = base_of(&point.setting);
            if !bases.contains(&base) {
                bases.push(base);
            }
        }
        bases
    }

    /// The cells of a workload alone at these settings, valid runs or not.
    fn alone_cells(&self, base: &Setting, workload: &str) -> Vec<&Cell<'a>> {
        let arm = format!("alone:{workload}");
        self.cells.of_workload(workload).filter(|cell| cell.arm == arm && base_of(cell.setting) == *base).collect()
    }

    /// The clients that a workload had in these runs.
    pub(super) fn clients(&self, cell: &Cell<'_>) -> Option<u32> {
        cell.runs.first().map(|run| self.cells.result(cell, *run).clients as u32)
    }

    /// The clients that the experiment gives a workload where they are not swept; 1 where they are.
    pub(super) fn usual_clients(&self, workload: &str) -> u32 {
        let fixed = self.results.experiment.settings.get(&format!("{workload}.clients"));
        fixed.and_then(Value::as_u64).map_or(1, |clients| clients as u32)
    }

    /// Whether a number of clients lies within what the workload was measured with alone.
    pub(super) fn covers(&self, base: &Setting, workload: &str, clients: u32) -> bool {
        let cells = self.alone_cells(base, workload);
        let measured = || cells.iter().filter_map(|cell| self.clients(cell));
        clients == 0 || measured().any(|least| least <= clients) && measured().any(|most| most >= clients)
    }

    /// The valid runs of a workload alone whose number of clients is nearest to the wanted one, as a ratio.
    pub(super) fn nearest_alone(
        &self,
        base: &Setting,
        workload: &str,
        clients: u32,
    ) -> Result<&Cell<'a>, PredictError> {
        let cells = self.alone_cells(base, workload);
        let at = || match base.is_empty() {
            true => String::new(),
            false => {
                let parts: Vec<String> = base.iter().map(|(key, value)| format!("{key}={value}")).collect();
                format!(" at {}", parts.join(", "))
            }
        };
        if cells.is_empty() {
            return Err(PredictError::NotAlone { workload: workload.to_owned(), at: at() });
        }
        let distance = |cell: &&Cell<'_>| {
            let measured = self.clients(cell).unwrap_or(1).max(1);
            (f64::from(measured) / f64::from(clients.max(1))).ln().abs()
        };
        let valid = cells.into_iter().filter(|cell| !cell.runs.is_empty());
        let nearest = valid.min_by(|a, b| distance(a).total_cmp(&distance(b)));
        nearest.ok_or_else(|| PredictError::Invalid { workload: workload.to_owned(), at: at() })
    }

    fn alone(&self, cell: &Cell<'_>) -> Alone {
        let block_count = cell.runs.iter().map(|run| self.cells.block(*run) + 1).max().unwrap_or(0);
        let mut blocks = vec![None; block_count];
        for run in &cell.runs {
            let point = &self.results.points[*run];
            blocks[self.cells.block(*run)] =
                block(point, self.cells.result(cell, *run), self.cores(point), self.is_in_memory());
        }
        Alone { name: cell.workload.to_owned(), population: self.clients(cell).unwrap_or(0), blocks }
    }

    /// Whether the database in this process was told to use no disk at all.
    fn is_in_memory(&self) -> bool {
        let is =
            |key: &str, value: &str| self.results.experiment.settings.get(key).and_then(Value::as_str) == Some(value);
        is("target.url", "embedded:")
            && is("target.durability", "none")
            && is("target.column_store", "memory")
            && is("target.memory_grant_mib", "unlimited")
    }

    /// The mix that is asked for. With `adjusted`, demands follow what arms with several workloads have shown, if there are any.
    pub(super) fn mix(&self, asked: &Asked, adjusted: bool) -> Result<Mix, PredictError> {
        let mut members = Vec::new();
        for member in &asked.members {
            let alone = self.alone(self.nearest_alone(&asked.base, &member.name, member.clients)?);
            members.push(Member { alone, population: member.clients, think_s: member.think_s });
        }
        let points: Vec<Vec<Calibration>> =
            asked.members.iter().map(|member| self.calibrations(asked, member)).collect();
        let is_known = adjusted && points.iter().any(|points| !points.is_empty());
        let slowdown = if is_known { Slowdown::Calibrated(points) } else { Slowdown::None };
        Ok(Mix { tables_shared: self.shares_tables(asked, &members), members, slowdown })
    }

    /// That queries of the embedded engine wait for its threads, not only for cores, if they do in this mix.
    pub(super) fn threads_shared(&self, asked: &Asked) -> Option<String> {
        let setting = |key: &str| self.results.experiment.settings.get(key);
        let is_analytical = |member: &&AskedMember| {
            let mut results = self.results.points.iter().flat_map(|point| &point.workloads);
            results.any(|result| result.name == member.name && result.analytical)
        };
        let queries: u32 = asked.members.iter().filter(is_analytical).map(|member| member.clients).sum();
        let is_embedded = setting("target.url").and_then(Value::as_str) == Some("embedded:");
        // Runs of before the option had as many as `dop`.
        let threads = setting("target.workers").or_else(|| setting("target.dop"));
        let threads = threads.and_then(Value::as_u64).unwrap_or(1);
        (is_embedded && u64::from(queries) > threads).then(|| {
            "queries of several clients share the engine's threads for queries, which are not in the model; their \
             responses are too short"
                .to_owned()
        })
    }

    /// Whether locks decide: two workloads on the same tables, or one that waits for its own clients' locks with another
    /// number of them than it was measured with.
    fn shares_tables(&self, asked: &Asked, members: &[Member]) -> bool {
        let tables = |member: &AskedMember| {
            let setting = |key: &str| self.setting(&asked.base, &member.name, key).map(Value::to_string);
            (setting("kind"), setting("scale"), setting("instance"))
        };
        let mut seen: Vec<_> = asked.members.iter().map(tables).collect();
        seen.sort();
        let shared = seen.windows(2).any(|pair| pair[0] == pair[1]);
        let among_own = |member: &Member| {
            let share = member.alone.demand(None).ok().and_then(|demand| Some(demand.lock_s.ok()? / demand.response_s));
            member.population != member.alone.population && share.is_some_and(|share| share > LOCK_SHARE_MAX)
        };
        shared || members.iter().any(among_own)
    }

    /// A setting of a workload: swept for it or for all, or fixed.
    pub(super) fn setting(&self, swept: &'a Setting, workload: &str, key: &str) -> Option<&'a Value> {
        let own = format!("{workload}.{key}");
        let is_it = |name: &str| name.split('+').any(|part| part == own || part == key);
        let swept = swept.iter().find(|(name, _)| is_it(name)).map(|(_, value)| value);
        swept.or_else(|| self.results.experiment.settings.get(&own))
    }

    /// Mean seconds that clients of a workload think between requests.
    pub(super) fn think_s(&self, swept: &'a Setting, workload: &str) -> f64 {
        let text = self.setting(swept, workload, "think").and_then(Value::as_str);
        text.and_then(|text| text.parse::<Delay>().ok()).map_or(0.0, |delay| delay.mean().as_secs_f64())
    }

    /// The cores that a run could use.
    fn cores(&self, point: &Point) -> u32 {
        self.cores_at(&point.setting)
    }

    /// Whether the runs at these settings had that many cores.
    pub(super) fn ran_on(&self, base: &Setting, cores: u32) -> bool {
        self.cores_at(base) == cores
    }

    fn cores_at(&self, swept: &Setting) -> u32 {
        let limited = swept.get("cores").or_else(|| self.results.experiment.settings.get("machine.cores"));
        let usable = self.results.machine.cores_usable as u32;
        limited.and_then(Value::as_u64).map_or(usable, |cores| cores as u32)
    }

    /// What the workloads share.
    pub(super) fn machine(&self, asked: &Asked) -> Machine {
        Machine { cores: asked.cores.unwrap_or_else(|| self.cores_at(&asked.base)), disk: Disk::Busy }
    }

    /// What each arm of this run with several workloads has shown of one of them: its CPU seconds beside alone, over the share
    /// of all cores that the others used.
    fn calibrations(&self, asked: &Asked, member: &AskedMember) -> Vec<Calibration> {
        let cells = self.cells.of_workload(&member.name);
        let mixes = cells.filter(|cell| !cell.arm.starts_with("alone:") && base_of(cell.setting) == asked.base);
        mixes.filter_map(|cell| self.calibration(asked, cell)).collect()
    }

    fn calibration(&self, asked: &Asked, cell: &Cell<'a>) -> Option<Calibration> {
        let alone = self.nearest_alone(&asked.base, cell.workload, self.clients(cell)?).ok()?;
        let per_request = |cell: &Cell<'_>| {
            let (mut cpu_s, mut requests) = (0.0, 0.0);
            for run in &cell.runs {
                let (own, count) = own_cpu_s(&self.results.points[*run], self.cells.result(cell, *run))?;
                cpu_s += own;
                requests += count;
            }
            (requests >= 1.0).then(|| cpu_s / requests)
        };
        let (mut others_s, mut available_s) = (0.0, 0.0);
        for run in &cell.runs {
            let point = &self.results.points[*run];
            available_s += point.window_s * f64::from(self.cores(point));
            for other in point.workloads.iter().filter(|other| other.name != cell.workload) {
                others_s += own_cpu_s(point, other)?.0;
            }
        }
        let others = (others_s / available_s).min(1.0);
        let factor = per_request(cell)? / per_request(alone)?;
        (others > 0.0 && factor.is_finite() && factor > 0.0).then_some(Calibration { others, factor })
    }
}

/// Swept settings without those that say how much load there is.
pub(super) fn base_of(setting: &Setting) -> Setting {
    let is_load =
        |key: &str| key.split('+').all(|part| matches!(part.rsplit('.').next().unwrap_or(part), "clients" | "think"));
    setting.iter().filter(|(key, _)| !is_load(key)).map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// What a window of a workload alone has shown. CPU seconds and the disk's are all that the machine spent on it, upkeep and our own clients
/// included: where nobody else runs, all of it is for this workload.
fn block(point: &Point, result: &WorkloadResult, cores: u32, is_in_memory: bool) -> Option<Block> {
    // Requests that began or ended outside of the window count by their part in it.
    let within = result.all.throughput_per_s * point.window_s;
    let latency = result.all.latency_us?;
    (within > 0.0 && result.all.completed > 0).then(|| {
        let completed = result.all.completed as f64;
        let response_s = latency.mean * 1e-6 * completed;
        let sum = |rate: Option<f64>, sensor: &str| -> Figure {
            rate.map(|rate| rate * point.window_s * completed / within).ok_or_else(|| why_missing(point, sensor))
        };
        let device = &point.device;
        let operations = device.reads_per_s.zip(device.writes_per_s).map(|(reads, writes)| reads + writes);
        let lock_s = result.lock_wait.map(|wait| wait.wait_s);
        let lock_s = lock_s.or_else(|| Some(result.all.time_share?.lock? * response_s));
        let unknown = |figure: &str| Err(format!("{figure} are not measured by workload"));
        Block {
            requests: result.all.completed,
            response_s,
            cpu_s: sum(device.cpu_busy.map(|busy| busy * f64::from(cores)), "cpu_time"),
            disk_busy_s: if is_in_memory { Ok(0.0) } else { sum(device.io_busy, "devices") },
            disk_operations: sum(operations, "devices"),
            log_s: unknown("waits for the log"),
            lock_s: lock_s.ok_or_else(|| "the target does not tell lock waits".to_owned()),
            instructions: unknown("instructions in kernel mode"),
            spin_instructions: unknown("spin instructions"),
        }
    })
}

fn why_missing(point: &Point, sensor: &str) -> String {
    point.unmeasured.get(sensor).map_or_else(|| "not measured in this run".to_owned(), |why| why.reason.clone())
}

/// CPU seconds that a run spent on one of its workloads and can tell from the others', and its requests.
fn own_cpu_s(point: &Point, result: &WorkloadResult) -> Option<(f64, f64)> {
    match &result.server {
        Some(server) => {
            let workers = server.workers.as_ref().map_or(Some(0.0), |workers| workers.cpu_run_s)?;
            let cpu_s = server.cpu_run_s? + server.clients_cpu_run_s? + workers;
            Some((cpu_s, result.all.throughput_per_s * point.window_s))
        }
        None => {
            let completed = result.all.completed as f64;
            let response_s = result.all.latency_us?.mean * 1e-6 * completed;
            Some((result.all.time_share?.cpu_run? * response_s, completed))
        }
    }
}
