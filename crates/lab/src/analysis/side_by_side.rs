//! The work that workloads do together, compared with taking turns.

use plimsoll_model::statistics::{Samples, estimate};

use super::cells::{Cell, Cells};
use super::noise::WorkloadNoise;
use crate::others;
use crate::results::{Interval, SideBySide};

/// A workload of an arm: its row together and its row alone among its samples.
type Member<'a, 'b> = (&'a WorkloadNoise<'b>, usize, usize);

/// For each arm of several workloads at each setting where all of them also ran alone.
pub(super) fn of(cells: &Cells<'_>, noises: &[WorkloadNoise<'_>], cores: usize) -> Vec<SideBySide> {
    let mut out: Vec<SideBySide> = Vec::new();
    for noise in noises {
        for cell in cells.of_workload(noise.workload()).filter(|cell| !cell.arm.starts_with("alone:")) {
            let known = |one: &SideBySide| one.arm == cell.arm && one.setting == *cell.setting;
            if !out.iter().any(known) {
                out.extend(of_arm(cells, noises, cell, cores));
            }
        }
    }
    out
}

fn of_arm(cells: &Cells<'_>, noises: &[WorkloadNoise<'_>], place: &Cell<'_>, cores: usize) -> Option<SideBySide> {
    let member = |noise| -> Option<Option<Member<'_, '_>>> {
        let noise: &WorkloadNoise<'_> = noise;
        let own: Vec<&Cell<'_>> = cells.of_workload(noise.workload()).collect();
        let find = |arm: &str| own.iter().position(|cell| cell.arm == arm && cell.setting == place.setting);
        let Some(together) = find(place.arm) else { return Some(None) };
        Some(Some((noise, together, find(&format!("alone:{}", noise.workload()))?)))
    };
    let members: Vec<Member<'_, '_>> =
        noises.iter().map(member).collect::<Option<Vec<_>>>()?.into_iter().flatten().collect();
    if members.len() < 2 {
        return None;
    }
    let blocks = members.iter().map(|(noise, ..)| noise.speed.blocks()).max()?;
    // The ratios of workloads that took turns would add up to 1, however the time is divided.
    let of_block = |block: usize| {
        let ratio = |(noise, together, alone): &Member<'_, '_>| {
            let (together, alone) = (noise.speed.value(*together, block)?, noise.speed.value(*alone, block)?);
            (alone > 0.0).then_some(together / alone)
        };
        members.iter().map(ratio).sum::<Option<f64>>()
    };
    let work = over_blocks((0..blocks).map(of_block).collect())?;
    let by = members.iter().map(|(noise, together, alone)| {
        let own: Vec<&Cell<'_>> = cells.of_workload(noise.workload()).collect();
        others::uncertainty(&cells.points_of(own[*alone]), &cells.points_of(own[*together]), cores)
    });
    let work = others::widened(work, by.fold(0.0, f64::max));
    Some(SideBySide { setting: place.setting.clone(), arm: place.arm.to_owned(), work })
}

/// The mean of one figure of each block, with Student's 95 % interval by its own spread; `None` if no block has one.
pub(crate) fn over_blocks(blocks: Vec<Option<f64>>) -> Option<Interval> {
    let samples = Samples::new(vec![blocks]);
    estimate(&samples, 0).map(Into::into)
}
