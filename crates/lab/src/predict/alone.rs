//! A workload alone, measured and simulated: how far the simulation's distribution is from the real one.

use plimsoll_model::des;
use plimsoll_model::idd;

use super::inputs::Inputs;
use super::points::RequestedMix;
use super::{PredictError, SEED};
use crate::results::Results;

/// A percentile of a workload alone.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Anchor {
    /// As measured, milliseconds.
    pub(crate) measured_ms: f64,
    /// As simulated with exponential demands, milliseconds.
    pub(crate) simulated_ms: f64,
}

/// A percentile, `p50`, `p95` or `p99`, of a workload alone with the experiment's number of clients; `None` if too few
/// requests determine it.
pub(crate) fn percentile(results: &Results, workload: &str, name: &str) -> Result<Option<Anchor>, PredictError> {
    let inputs = Inputs::of(results);
    let Some(base) = inputs.bases().into_iter().next() else { return Ok(None) };
    let cell = inputs.nearest_alone(&base, &inputs.usual(workload))?;
    let member = inputs.asked(cell.setting, workload, inputs.clients(cell).unwrap_or(1));
    let asked = RequestedMix { base: base.clone(), members: vec![member], cores: None, is_calibration: false };
    let mix = inputs.mix(&asked, None)?;
    let measured = results.cell(cell.setting, cell.arm, workload).and_then(|cell| cell.measured.all.latency_us);
    let Some(measured) = measured else { return Ok(None) };
    let (place, measured_us) = match name {
        "p50" => (0, measured.p50),
        "p95" => (1, measured.p95),
        _ => (2, measured.p99),
    };
    let simulated = idd::predict(&mix, &inputs.machine(&asked)).ok().and_then(|prediction| {
        des::simulate(&prediction.network, &prediction.simulation(SEED)).ok()?.first()?.percentiles_s[place]
    });
    let anchor = |(measured_us, simulated): (u64, plimsoll_model::statistics::Interval)| Anchor {
        measured_ms: measured_us as f64 * 1e-3,
        simulated_ms: simulated.value * 1e3,
    };
    Ok(measured_us.zip(simulated).map(anchor))
}
