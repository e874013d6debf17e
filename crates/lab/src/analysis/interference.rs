//! Throughput beside others over throughput alone.

use plimsoll_model::statistics::{self, Finding as Shown};

use super::cells::{Cell, Cells, is_one_request};
use super::noise::WorkloadNoise;
use crate::others;
use crate::results::{Finding, Interference};

/// The interference of a workload at each setting, in each arm in which it was not alone.
pub(super) fn of(cells: &Cells<'_>, noise: &WorkloadNoise<'_>, cores: usize) -> Vec<Interference> {
    let own: Vec<&Cell<'_>> = cells.of_workload(noise.workload()).collect();
    let alone = format!("alone:{}", noise.workload());
    let shared = own.iter().enumerate().filter(|(_, cell)| cell.arm != alone);
    let ratios = shared.filter_map(|(row, cell)| {
        let base = own.iter().position(|other| other.arm == alone && other.setting == cell.setting)?;
        let comparison = statistics::compare_settings(&noise.speed, row, base, noise.speed_noise.as_ref());
        let by = others::uncertainty(&cells.points_of(own[base]), &cells.points_of(cell), cores);
        let ratio = others::widened(comparison.ratio?.into(), by);
        // What others took may explain the whole difference.
        let is_within = ratio.low.zip(ratio.high).is_none_or(|(low, high)| low <= 1.0 && 1.0 <= high);
        let completed_min = cells.completed_min(cell).min(cells.completed_min(own[base]));
        Some(Interference {
            setting: cell.setting.clone(),
            arm: cell.arm.to_owned(),
            workload: cell.workload.to_owned(),
            ratio,
            finding: match comparison.finding {
                Shown::NotDetermined => Finding::NotDetermined,
                _ if by > 0.0 && is_within => Finding::NotDetermined,
                _ if is_one_request(1.0 - ratio.value, completed_min) => Finding::NoDifference,
                shown => shown.into(),
            },
        })
    });
    ratios.collect()
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
