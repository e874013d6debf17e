//! The scatter of the runs of one workload, pooled over all of its settings and arms.

use std::collections::BTreeMap;

use plimsoll_model::statistics::{self, Noise, Samples};

use super::cells::{Cell, Cells, key};
use crate::analysis::equal_mix::{Costs, speed};
use crate::results::{NoiseFloor, WorkloadResult};

/// One workload's runs as samples: a row for each cell, then a row for each cell that ran twice (A/A).
#[derive(Debug)]
pub(super) struct WorkloadNoise<'a> {
    workload: &'a str,
    /// Requests per second.
    pub throughput: Samples,
    /// The same in a unit in which arms can be compared: for analytical workloads at an equal mix of queries.
    pub speed: Samples,
    /// The noise of `speed`.
    pub speed_noise: Option<Noise>,
    /// Rows that are the same setting run twice.
    pairs: Vec<(usize, usize)>,
}

impl<'a> WorkloadNoise<'a> {
    pub(super) fn of(cells: &Cells<'a>, workload: &'a str) -> Self {
        let own: Vec<&Cell<'a>> = cells.of_workload(workload).collect();
        let blocks = own.iter().flat_map(|cell| cell.runs.iter().chain(&cell.again)).map(|run| cells.block(*run) + 1);
        let blocks = blocks.max().unwrap_or(0);
        let repeated = own.iter().enumerate().filter(|(_, cell)| !cell.again.is_empty());
        let repeated: Vec<usize> = repeated.map(|(row, _)| row).collect();
        let rows = |figure: &dyn Fn(usize, &WorkloadResult) -> f64| {
            let row = |position: usize, runs: &[usize]| {
                cells.row(own[position], runs, blocks, |result| Some(figure(position, result)))
            };
            let first = own.iter().enumerate().map(|(position, cell)| row(position, &cell.runs));
            let again = repeated.iter().map(|position| row(*position, &own[*position].again));
            Samples::new(first.chain(again).collect())
        };
        let costs = costs(cells, &own);
        let throughput = rows(&|_, result| result.all.throughput_per_s);
        let speed = rows(&|position, result| speed(result, costs[position].as_ref()));
        let pairs = repeated.iter().enumerate().map(|(number, first)| (*first, own.len() + number)).collect();
        let speed_noise = Noise::of(&speed);
        WorkloadNoise { workload, throughput, speed, speed_noise, pairs }
    }

    pub(super) fn workload(&self) -> &'a str {
        self.workload
    }

    /// The noise floor for `results.json`.
    pub(super) fn floor(&self) -> NoiseFloor {
        let floor = statistics::noise_floor(&self.speed, self.speed_noise.as_ref(), &self.pairs);
        NoiseFloor {
            floor: floor.floor,
            deviation: floor.deviation,
            degrees_of_freedom: floor.degrees_of_freedom,
            repeated_setting: floor.repeated_setting,
        }
    }
}

/// The cost of a request of each kind in each cell, from the workload alone at the same setting, or from the cell
/// itself if it did not run alone. `None` if some kind that ran at this setting, its second runs included, has no known
/// cost, or if kinds do not differ in cost: then plain throughput is compared.
fn costs(cells: &Cells<'_>, own: &[&Cell<'_>]) -> Vec<Option<Costs>> {
    let mut settings: BTreeMap<String, Vec<&Cell<'_>>> = BTreeMap::new();
    for cell in own {
        settings.entry(key(cell.setting)).or_default().push(cell);
    }
    let results = |runs: &[usize], cell: &Cell<'_>| runs.iter().map(|run| cells.result(cell, *run)).collect::<Vec<_>>();
    let costs = own.iter().map(|cell| {
        let siblings = &settings[&key(cell.setting)];
        let alone = siblings.iter().find(|other| other.arm == format!("alone:{}", cell.workload));
        let (base, compared) = alone.map_or((*cell, vec![*cell]), |alone| (*alone, siblings.clone()));
        let all = compared.iter().flat_map(|cell| [results(&cell.runs, cell), results(&cell.again, cell)]);
        Costs::of(&results(&base.runs, base), &all.flatten().collect::<Vec<_>>())
    });
    costs.collect()
}
