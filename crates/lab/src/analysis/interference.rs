//! Throughput beside others over throughput alone.

use plimsoll_model::statistics::{self, Finding as Shown};

use super::cells::{Cell, Cells};
use super::noise::WorkloadNoise;
use crate::results::{Finding, Interference};

/// The interference of a workload at each setting, in each arm in which it was not alone.
pub(super) fn of(cells: &Cells<'_>, noise: &WorkloadNoise<'_>) -> Vec<Interference> {
    let own: Vec<&Cell<'_>> = cells.of_workload(noise.workload()).collect();
    let alone = format!("alone:{}", noise.workload());
    let shared = own.iter().enumerate().filter(|(_, cell)| cell.arm != alone);
    let ratios = shared.filter_map(|(row, cell)| {
        let base = own.iter().position(|other| other.arm == alone && other.setting == cell.setting)?;
        let comparison = statistics::compare_settings(&noise.speed, row, base, noise.speed_noise.as_ref());
        let ratio = comparison.ratio?;
        Some(Interference {
            setting: cell.setting.clone(),
            arm: cell.arm.to_owned(),
            workload: cell.workload.to_owned(),
            ratio: ratio.into(),
            finding: match comparison.finding {
                Shown::NotDetermined => Finding::NotDetermined,
                _ if is_one_request(cells, cell, own[base], ratio.value) => Finding::NoDifference,
                shown => shown.into(),
            },
        })
    });
    ratios.collect()
}

/// Whether one request more or less in a window makes as much as the difference seen.
fn is_one_request(cells: &Cells<'_>, a: &Cell<'_>, b: &Cell<'_>, ratio: f64) -> bool {
    let completed = |cell: &Cell<'_>| cell.runs.iter().map(|run| cells.result(cell, *run).completed).min();
    let fewest = completed(a).min(completed(b)).unwrap_or(0);
    (1.0 - ratio).abs() * fewest.max(1) as f64 <= 1.0
}

impl From<Shown> for Finding {
    fn from(shown: Shown) -> Self {
        match shown {
            Shown::Faster => Finding::Faster,
            Shown::Slower => Finding::Slower,
            Shown::NoDifference => Finding::NoDifference,
            Shown::NotDetermined => Finding::NotDetermined,
        }
    }
}
