//! Cautions about predicted mixes, in words.

use plimsoll_model::idd::{Caution, Mix, Prediction, Slowdown};

use super::Model;

/// Whether others use more of the cores than in any measured mix.
pub(super) fn is_beyond_calibration(caution: &Caution) -> bool {
    matches!(caution, Caution::BeyondCalibration { .. })
}

/// The cautions about a mix.
pub(super) fn of(
    mix: &Mix,
    prediction: &Prediction,
    ranks: Option<&Result<Vec<u8>, String>>,
    (model, is_measured): (Model, bool),
) -> Vec<String> {
    // The model uses a little more of the cores than was measured, or less; a mix that was measured is beyond nothing.
    let is_told = |caution: &&Caution| !(is_measured && is_beyond_calibration(caution));
    let mut cautions: Vec<String> = prediction.cautions.iter().filter(is_told).filter_map(told).collect();
    if model != Model::Mva && !mix.is_adjusted() {
        let adjusted = match mix.slowdown {
            Slowdown::SharedRate => "demands are adjusted by instructions and spinning, as counted alone",
            _ => "demands are as alone",
        };
        let turns = match mix.turns.slice() {
            Some(_) => "waits for cores follow from the kernel's slice",
            None => super::accuracy::NO_SLICE,
        };
        let why = match model {
            Model::Isolated => "from each workload alone",
            _ => "no arm with several workloads has shown how they slow each other's requests down",
        };
        cautions.push(format!("{why}: {adjusted}, and {turns}"));
    }
    match ranks {
        None => {}
        Some(Err(why)) => cautions.push(why.clone()),
        Some(Ok(_)) if model == Model::Des => {
            cautions.push("CPU priorities are simulated as strict: lower ones get what higher ones leave".to_owned());
        }
        Some(Ok(_)) => cautions.push("CPU priorities are in effect, and only --model des knows them".to_owned()),
    }
    cautions
}

/// A caution in words; `None` if the mix's own fields express it.
fn told(caution: &Caution) -> Option<String> {
    Some(match caution {
        Caution::Population { .. } => return None,
        Caution::BeyondCalibration { class } => {
            format!("others use more of the cores beside `{class}` than in any mix that was measured")
        }
        Caution::Calibrated => {
            "calibrated: adjusted by mixes of this run, so that it does not follow from singles alone".to_owned()
        }
        Caution::Locks { class, share: Some(share) } => format!(
            "`{class}` waits for locks for {:.0} % of its response time alone; locks are not in the model",
            share * 100.0
        ),
        Caution::Locks { class, share: None } => {
            format!("how long `{class}` waits for locks was not measured; locks are not in the model")
        }
        // Waiting for the log counts here as waiting for the disk, whose busy time is measured.
        Caution::LogUnknown { .. } => return None,
        Caution::Parallel { class } => format!(
            "requests of `{class}` run on several cores at once, which the model does not know; responses are too long"
        ),
        other => format!("{other:?}"),
    })
}
