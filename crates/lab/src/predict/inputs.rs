//! The measurements of each workload alone, and of the slowdown of workloads in mixes.

use std::collections::BTreeMap;

use plimsoll_model::demand::Alone;
use plimsoll_model::idd::{
    Calibration, CoreSlice, Disk, LOCK_SHARE_MAX, Lesson, Machine, Member, Mix, Slowdown, Turns,
};
use plimsoll_model::statistics::{Noise, Samples};
use plimsoll_policy::Priority;
use serde_json::Value;

use super::PredictError;
use super::loads::{base_of, load_of};
use super::points::{RequestedMix, RequestedWorkload};
use super::window::{Clients, DISK_LIMITS, DiskModel, DiskRate, block, own_cpu_s, response};
use crate::analysis::cells::{Cell, Cells};
use crate::failed::invalid_runs;
use crate::results::{Point, Results, WorkloadResult};
use plimsoll_display::distinct;

/// The deviation from Little's law up to which the model learns from windows: twice the limit for claims, because it
/// averages them.
const LITTLES_DIFFERENCE_MAX: f64 = 0.1;

/// Swept settings.
pub(super) type Setting = BTreeMap<String, Value>;

/// A run, as the model's input.
pub(super) struct Inputs<'a> {
    pub(super) results: &'a Results,
    pub(super) cells: Cells<'a>,
    /// How much the mean responses of equal runs differ, over all cells; `None` without repeats.
    pub(super) noise: Option<Noise>,
}

impl<'a> Inputs<'a> {
    pub(super) fn of(results: &'a Results) -> Self {
        let cells = Cells::of(&results.points);
        let noise = noise(&cells);
        Inputs { results, cells, noise }
    }

    /// The swept settings that are not loads, each once, in the order in which they ran.
    pub(super) fn bases(&self) -> Vec<Setting> {
        distinct(self.results.points.iter().map(|point| base_of(&point.setting)))
    }

    /// The cells of a workload alone at these settings, valid runs or not.
    fn alone_cells(&self, base: &Setting, workload: &str) -> Vec<&Cell<'a>> {
        let arm = format!("alone:{workload}");
        self.cells.of_workload(workload).filter(|cell| cell.arm == arm && base_of(cell.setting) == *base).collect()
    }

    /// The valid runs of a workload alone whose load is nearest to the wanted one, as a ratio.
    pub(super) fn nearest_alone(&self, base: &Setting, wanted: &RequestedWorkload) -> Result<&Cell<'a>, PredictError> {
        let workload = wanted.name.as_str();
        let cells = self.alone_cells(base, workload);
        let at = || match base.is_empty() {
            true => String::new(),
            false => {
                let parts: Vec<String> = base.iter().map(|(key, value)| format!("{key}={value}")).collect();
                format!(" at {}", parts.join(", "))
            }
        };
        let distance = |cell: &&Cell<'_>| {
            let least = if wanted.rate.is_some() { f64::MIN_POSITIVE } else { 1.0 };
            let ratio = self.load(cell, wanted).unwrap_or(1.0).max(least) / load_of(wanted).max(least);
            ratio.ln().abs()
        };
        let valid: Vec<&Cell<'a>> = cells.into_iter().filter(|cell| !cell.runs.is_empty()).collect();
        // Windows in which few requests end do not show what a request needs; they serve only if no better ones exist.
        let steady = valid.iter().copied().filter(|cell| self.is_steady(cell));
        let nearest = steady.min_by(|a, b| distance(a).total_cmp(&distance(b)));
        let nearest = nearest.or_else(|| valid.into_iter().min_by(|a, b| distance(a).total_cmp(&distance(b))));
        nearest.ok_or_else(|| {
            let arm = format!("alone:{workload}");
            let of_it = |point: &&Point| point.arm == arm && base_of(&point.setting) == *base;
            let (workload, at) = (workload.to_owned(), at());
            // A run that was ended early has no figures of its workload.
            match invalid_runs(self.results.points.iter().filter(of_it)).first() {
                Some((why, _)) => PredictError::Invalid { workload, at, why: (*why).to_owned() },
                None => PredictError::NotAlone { workload, at },
            }
        })
    }

    /// Whether the windows of a cell are long enough for the model to learn from them.
    fn is_steady(&self, cell: &Cell<'_>) -> bool {
        let results = cell.runs.iter().map(|run| self.cells.result(cell, *run));
        WorkloadResult::littles_law(results)
            .difference()
            .is_none_or(|difference| difference.abs() <= LITTLES_DIFFERENCE_MAX)
    }

    fn alone(&self, cell: &Cell<'_>) -> Alone {
        let block_count = cell.runs.iter().map(|run| self.cells.block(*run) + 1).max().unwrap_or(0);
        let mut blocks = vec![None; block_count];
        // Windows that are too short for their requests see only the shorter requests.
        let is_steady =
            WorkloadResult::littles_law(cell.runs.iter().map(|run| self.cells.result(cell, *run))).doubt().is_none();
        let is_open = self.rate(cell.setting, cell.workload).is_some();
        let pauses = self.think_s(cell.setting, cell.workload) > 0.0 || is_open;
        for run in &cell.runs {
            let point = &self.results.points[*run];
            let clients = Clients {
                cores: self.cores(point),
                never_pause: is_steady && !pauses,
                round_trip_s: self.delay_s(cell.setting, cell.workload, "round_trip"),
            };
            let disk = self.disk(&base_of(cell.setting));
            blocks[self.cells.block(*run)] = block(point, self.cells.result(cell, *run), &clients, &disk);
        }
        Alone { name: cell.workload.to_owned(), population: self.clients(cell).unwrap_or(0), blocks }
    }

    /// Whether the options of the embedded database rule out any disk.
    fn is_in_memory(&self) -> bool {
        let is =
            |key: &str, value: &str| self.results.experiment.settings.get(key).and_then(Value::as_str) == Some(value);
        is("target.url", "embedded:")
            && is("target.durability", "none")
            && is("target.column_store", "memory")
            && is("target.memory_grant_mib", "unlimited")
    }

    /// The requested mix. With `turns`, learned from the lessons at its settings, demands are adjusted as far as the
    /// lessons show; without, they are as alone.
    pub(super) fn mix(&self, asked: &RequestedMix, turns: Option<&Turns>) -> Result<Mix, PredictError> {
        let mut members = Vec::new();
        for member in &asked.members {
            members.push(self.member(&asked.base, member)?);
        }
        let slowdown = if turns.is_some() { self.slowdown(&asked.base, &members) } else { Slowdown::None };
        Ok(Mix {
            tables_shared: self.shares_tables(asked, &members),
            members,
            slowdown,
            turns: turns.cloned().unwrap_or_default(),
            noise: self.noise.map(|noise| noise.run),
            doublings_beyond: self.doublings_beyond(asked),
        })
    }

    /// The requested mix as far as each workload alone shows it: demands by the instructions that each executes alone, if
    /// they were counted, and waits for cores by the kernel's slice, if the run says it.
    pub(super) fn isolated_mix(&self, asked: &RequestedMix) -> Result<Mix, PredictError> {
        let plain = self.mix(asked, None)?;
        let turns = self.core_slice().map(Turns::derived).unwrap_or_default();
        Ok(Mix { slowdown: counted_slowdown(&plain.members), turns, ..plain })
    }

    /// How the kernel cuts the time of a core; `None` if the run does not say it.
    pub(super) fn core_slice(&self) -> Option<CoreSlice> {
        let cut = self.results.machine.core_slice?;
        Some(CoreSlice { slice_s: cut.slice_us * 1e-6, tick_s: cut.tick_us * 1e-6 })
    }

    fn member(&self, base: &Setting, asked: &RequestedWorkload) -> Result<Member, PredictError> {
        Ok(Member {
            alone: self.alone(self.nearest_alone(base, asked)?),
            population: asked.clients,
            think_s: asked.think_s,
            arrivals_per_s: asked.rate,
            needs_thread: self.is_embedded() && self.is_analytical(&asked.name),
        })
    }

    /// How requests of these workloads slow each other down: as measured in arms with several workloads, or else as
    /// predicted from the instructions that each executes alone, if they were counted.
    fn slowdown(&self, base: &Setting, members: &[Member]) -> Slowdown {
        let points: Vec<_> = members.iter().map(|member| self.calibrations(base, &member.alone.name)).collect();
        if points.iter().any(|points| !points.is_empty()) {
            Slowdown::Calibrated(points)
        } else {
            counted_slowdown(members)
        }
    }

    /// Every arm with several workloads at these settings, as a lesson for the model.
    pub(super) fn lessons(&self, base: &Setting) -> Vec<Lesson> {
        let mut mixes: Vec<Vec<&Cell<'a>>> = Vec::new();
        for name in self.cells.workloads() {
            let cells = self.cells.of_workload(name);
            for cell in cells.filter(|cell| !cell.arm.starts_with("alone:") && base_of(cell.setting) == *base) {
                match mixes.iter_mut().find(|mix| mix[0].arm == cell.arm && mix[0].setting == cell.setting) {
                    Some(mix) => mix.push(cell),
                    None => mixes.push(vec![cell]),
                }
            }
        }
        mixes.iter().filter(|mix| mix.len() > 1).filter_map(|mix| self.lesson(base, mix)).collect()
    }

    fn lesson(&self, base: &Setting, cells: &[&Cell<'a>]) -> Option<Lesson> {
        let member =
            |cell: &&Cell<'a>| self.member(base, &self.asked(cell.setting, cell.workload, self.clients(cell)?)).ok();
        let members = cells.iter().map(member).collect::<Option<Vec<Member>>>()?;
        let responses = |cell: &&Cell<'a>| {
            let blocks = cell.runs.iter().map(|run| self.cells.block(*run) + 1).max().unwrap_or(0);
            // Windows that are too short for its responses teach nothing.
            let runs: &[usize] = if self.is_steady(cell) { &cell.runs } else { &[] };
            self.cells.row(cell, runs, blocks, response)
        };
        Some(Lesson {
            slowdown: self.slowdown(base, &members),
            members,
            responses: cells.iter().map(responses).collect(),
        })
    }

    fn is_embedded(&self) -> bool {
        self.results.experiment.settings.get("target.url").and_then(Value::as_str) == Some("embedded:")
    }

    fn is_analytical(&self, workload: &str) -> bool {
        let mut results = self.results.points.iter().flat_map(|point| &point.workloads);
        results.any(|result| result.name == workload && result.analytical)
    }

    /// An option of the target, swept or fixed.
    fn option<'b>(&'b self, base: &'b Setting, key: &str) -> Option<&'b Value> {
        base.get(key).or_else(|| self.results.experiment.settings.get(&format!("target.{key}")))
    }

    /// How many parallel workers all queries of our PostgreSQL servers share: those of one query, and at least as many as
    /// cores. `None` if unknown.
    fn workers_max(&self, base: &Setting) -> Option<u32> {
        let dop = self.option(base, "dop").and_then(Value::as_u64).filter(|_| !self.is_embedded())?;
        u32::try_from(dop.saturating_sub(1)).ok().map(|workers| workers.max(self.cores_at(base)))
    }

    /// How many queries the embedded engine runs at once: its threads for queries over the threads of each.
    fn queries_at_once(&self, base: &Setting) -> Option<u32> {
        let number = |key: &str| self.option(base, key).and_then(Value::as_u64).filter(|threads| *threads > 0);
        let dop = number("dop").unwrap_or(1);
        // Runs from before the option was introduced had as many as `dop`.
        let threads = number("workers").unwrap_or(dop);
        self.is_embedded().then(|| u32::try_from((threads / dop).max(1)).unwrap_or(u32::MAX))
    }

    /// The rank of each member at the cores, larger first; `None` if all are equal there. An error says what the model
    /// lacks.
    pub(super) fn ranks(&self, asked: &RequestedMix) -> Option<Result<Vec<u8>, String>> {
        let has_policy =
            self.option(&asked.base, "cpu_policy").and_then(Value::as_str).is_some_and(|policy| policy != "none");
        let text = |member: &RequestedWorkload| {
            let rule = self.setting(&asked.base, &member.name, "priority").and_then(Value::as_str);
            rule.unwrap_or("low").to_owned()
        };
        let texts: Vec<String> = asked.members.iter().map(text).collect();
        if !has_policy || texts.windows(2).all(|pair| pair[0] == pair[1]) {
            return None;
        }
        if self.is_embedded() && asked.members.iter().any(|member| self.is_analytical(&member.name)) {
            return Some(Err(
                "queries of the embedded engine have no CPU priority, and the model not theirs beside transactions"
                    .to_owned(),
            ));
        }
        let parsed: Option<Vec<Priority>> = texts.iter().map(|text| text.parse().ok()).collect();
        let Some(parsed) = parsed else {
            return Some(Err(
                "requests of one workload have several CPU priorities, which are not in the model".to_owned()
            ));
        };
        let mut order = parsed.clone();
        order.sort_unstable();
        order.dedup();
        let rank = |priority: &Priority| order.iter().position(|one| one == priority).unwrap_or(0) as u8;
        Some(Ok(parsed.iter().map(rank).collect()))
    }

    /// Whether locks determine the result: two workloads use the same tables, or one that waits for its own clients'
    /// locks has another load than it was measured with.
    fn shares_tables(&self, asked: &RequestedMix, members: &[Member]) -> bool {
        let tables = |member: &RequestedWorkload| {
            let setting = |key: &str| self.setting(&asked.base, &member.name, key).map(Value::to_string);
            (setting("kind"), setting("scale"), setting("instance"))
        };
        let mut seen: Vec<_> = asked.members.iter().map(tables).collect();
        seen.sort();
        let shared = seen.windows(2).any(|pair| pair[0] == pair[1]);
        let is_as_alone = |asked_member: &RequestedWorkload, member: &Member| match asked_member.rate {
            Some(_) => {
                let alone = self.nearest_alone(&asked.base, asked_member).ok();
                alone.and_then(|cell| self.rate(cell.setting, cell.workload)) == asked_member.rate
            }
            None => member.population == member.alone.population,
        };
        let among_own = |(asked_member, member): (&RequestedWorkload, &Member)| {
            let share = member.alone.demand(None).ok().and_then(|demand| Some(demand.lock_s.ok()? / demand.response_s));
            !is_as_alone(asked_member, member) && share.is_some_and(|share| share > LOCK_SHARE_MAX)
        };
        shared || asked.members.iter().zip(members).any(among_own)
    }

    /// A setting of a workload: swept for it or for all, or fixed.
    pub(super) fn setting<'b>(&'b self, swept: &'b Setting, workload: &str, key: &str) -> Option<&'b Value> {
        let own = format!("{workload}.{key}");
        let is_it = |name: &str| name.split('+').any(|part| part == own || part == key);
        let swept = swept.iter().find(|(name, _)| is_it(name)).map(|(_, value)| value);
        swept.or_else(|| self.results.experiment.settings.get(&own))
    }

    fn cores(&self, point: &Point) -> u32 {
        self.cores_at(&point.setting)
    }

    pub(super) fn cores_at(&self, swept: &Setting) -> u32 {
        let limited = swept.get("cores").or_else(|| self.results.experiment.settings.get("machine.cores"));
        let usable = self.results.machine.cores_usable as u32;
        limited.and_then(Value::as_u64).map_or(usable, |cores| cores as u32)
    }

    pub(super) fn machine(&self, asked: &RequestedMix) -> Machine {
        Machine { cores: asked.cores.unwrap_or_else(|| self.cores_at(&asked.base)), ..self.machine_of(&asked.base) }
    }

    /// The machine as it was in these runs.
    pub(super) fn machine_of(&self, base: &Setting) -> Machine {
        let disk = match self.disk(base) {
            DiskModel::Probed(disk) => Disk::Curve { rates: disk.rates() },
            DiskModel::None | DiskModel::Busy | DiskModel::Limited(_) => Disk::Busy,
        };
        Machine {
            cores: self.cores_at(base),
            disk,
            query_threads: self.queries_at_once(base),
            workers_max: self.workers_max(base),
        }
    }

    /// The disk model of these runs: its curve if it was probed, unless the machine has several disks, whose figures
    /// are summed.
    fn disk(&self, base: &Setting) -> DiskModel<'_> {
        if self.is_in_memory() {
            return DiskModel::None;
        }
        let limit = |(key, rate): (&str, DiskRate)| {
            let set = base.get(key).or_else(|| self.results.experiment.settings.get(&format!("machine.{key}")));
            set.and_then(Value::as_f64).map(|limit| (limit, rate))
        };
        let limits: Vec<(f64, DiskRate)> = DISK_LIMITS.into_iter().filter_map(limit).collect();
        if !limits.is_empty() {
            return DiskModel::Limited(limits);
        }
        let probed = self.results.memory_speed.as_ref().and_then(|kept| kept.disk.as_ref());
        probed.filter(|disk| disk.is_only).map_or(DiskModel::Busy, DiskModel::Probed)
    }

    /// The measurements of a workload in each of this run's arms with several workloads: its CPU seconds relative to
    /// alone, over the share of all cores that the others used.
    fn calibrations(&self, base: &Setting, workload: &str) -> Vec<Calibration> {
        let cells = self.cells.of_workload(workload);
        let mixes = cells.filter(|cell| !cell.arm.starts_with("alone:") && base_of(cell.setting) == *base);
        mixes.filter(|cell| self.is_steady(cell)).filter_map(|cell| self.calibration(base, cell)).collect()
    }

    fn calibration(&self, base: &Setting, cell: &Cell<'a>) -> Option<Calibration> {
        let wanted = self.asked(cell.setting, cell.workload, self.clients(cell)?);
        let alone = self.nearest_alone(base, &wanted).ok()?;
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

/// As predicted from the instructions that each workload executes alone, if they were counted.
fn counted_slowdown(members: &[Member]) -> Slowdown {
    let is_counted = |member: &Member| {
        let demand = member.alone.demand(None);
        demand.is_ok_and(|demand| demand.instructions.is_ok() && demand.spin_instructions.is_ok())
    };
    if members.iter().all(is_counted) { Slowdown::SharedRate } else { Slowdown::None }
}

/// The noise of mean responses, over all cells and their second runs.
fn noise(cells: &Cells<'_>) -> Option<Noise> {
    let all = cells.workloads().into_iter().flat_map(|name| cells.of_workload(name));
    let rows = all.flat_map(|cell| [(cell, &cell.runs), (cell, &cell.again)]).map(|(cell, runs)| {
        let blocks = runs.iter().map(|run| cells.block(*run) + 1).max().unwrap_or(0);
        cells.row(cell, runs, blocks, |result| response(result).map(|(seconds, requests)| seconds / requests))
    });
    Noise::of(&Samples::new(rows.collect()))
}
