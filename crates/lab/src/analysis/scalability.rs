//! How throughput scales with clients or workers, along each sweep of their number.

use plimsoll_model::usl;

use super::cells::Cells;
use super::knees::curves;
use super::noise::WorkloadNoise;
use crate::amounts::Amounts;
use crate::results::{AxisRole, Interval, Scalability, SweptAxis};

/// The seed of resampling within the model; laws of equal points are equal.
const SEED: u64 = 7;

/// The option of targets that counts workers: threads, or processes of a cluster.
const WORKERS: &str = "workers";

/// Fewer numbers are not enough for a law with three parameters.
const COUNTS_MIN: usize = 4;

/// The laws of a workload along each axis of its clients or of workers.
pub(super) fn of(cells: &Cells<'_>, noise: &WorkloadNoise<'_>, sweep: &[SweptAxis]) -> Vec<Scalability> {
    let counts = |axis: &&SweptAxis| axis.role == AxisRole::Clients || axis.key == WORKERS;
    let axes = sweep.iter().filter(counts).filter(|axis| axis.values.len() >= COUNTS_MIN);
    let of_axis = |axis: &SweptAxis| {
        // This workload's throughput is not a function of another workload's clients.
        let is_own = axis.key.split_once('.').is_none_or(|(workload, _)| workload == noise.workload());
        let curves =
            if is_own { curves(cells, noise.workload(), &axis.key, &Amounts::of(&axis.values)) } else { Vec::new() };
        let laws = curves.into_iter().map(|curve| {
            let clients: Vec<f64> = curve.cells.iter().map(|(value, ..)| *value).collect();
            let samples = curve.samples(cells, noise.speed.blocks());
            let law = usl::scalability(&clients, &samples, noise.speed_noise.as_ref(), SEED);
            let told = |interval: plimsoll_model::statistics::Interval| Interval::from(interval);
            let law_told = law.as_ref().ok();
            Scalability {
                axis: axis.key.clone(),
                setting: curve.setting,
                arm: curve.arm.to_owned(),
                workload: noise.workload().to_owned(),
                gamma: law_told.map(|law| told(law.gamma)),
                sigma: law_told.map(|law| told(law.sigma)),
                kappa: law_told.map(|law| told(law.kappa)),
                peak_clients: law_told.and_then(|law| law.peak_clients).map(told),
                fit: law_told.map(|law| law.fit.clone()).unwrap_or_default(),
                why_not: law.err().map(|why| why.to_string()),
            }
        });
        laws.collect::<Vec<_>>()
    };
    axes.flat_map(of_axis).collect()
}
