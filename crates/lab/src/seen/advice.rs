//! The load that keeps a promise, from an observation.
//!
//! An observation has means, and no percentiles. Those that are predicted assume requests whose needs are exponentially distributed. A promise
//! as a multiple of the percentile alone compares two of them; one in milliseconds gets an interval that is wider by [`SHAPE_DOUBT`].

use plimsoll_policy::TargetLimit;

use super::{Observation, SeenError, Taught, words};
use crate::advise::{Advice, Promised, Request, advice_of, percentile};
use crate::predict::{Model, PredictedMix, Vary};
use plimsoll_display::distinct;

/// How far percentiles may be from those of exponential needs, in logarithms: the median, p95 and p99 of log-normal times with a coefficient of
/// variation from 0.3 to 3 lie within a factor of 2.4 of those of exponential times with the same mean.
const SHAPE_DOUBT: f64 = 0.875;

/// Values of the default key at most.
const VALUES_MAX: u32 = 50;

/// Finds the value that keeps the promise and gives the class to maximise the highest throughput.
pub fn advise(observation: &Observation, request: &Request) -> Result<Advice, SeenError> {
    let taught = Taught::of(observation)?;
    let own = &request.slo.workload;
    let place = taught.class(own)?;
    // One class alone puts its promise at risk by its own sessions.
    let other = taught.names().iter().rev().find(|name| *name != own).unwrap_or(own);
    let varied = request.vary.as_ref().and_then(|vary| vary.key.strip_suffix(".clients"));
    let maximise = request.maximise.as_deref().or(varied).unwrap_or(other).to_owned();
    let most = taught.class(&maximise).map(|at| {
        let seen = taught.lessons.mixes().iter().map(|mix| mix.sessions[at]).max().unwrap_or(1);
        (2 * seen).clamp(2, VALUES_MAX)
    })?;
    let vary = request.vary.clone().unwrap_or_else(|| Vary {
        key: format!("{maximise}.clients"),
        values: (u32::from(maximise == *own)..=most).collect(),
    });
    let asked = taught.asked(&vary, &[])?;
    let name = percentile(&request.slo).expect("checked when it was read");
    let (limit_ms, doubt) = match request.slo.target.limit {
        TargetLimit::Length(length) => (length.as_secs_f64() * 1e3, SHAPE_DOUBT),
        TargetLimit::HundredthsOfAlone(factor) => {
            let alone = alone_ms(&taught, place, name)?;
            (f64::from(factor) / 100.0 * alone, 0.0)
        }
    };
    let mut mixes: Vec<PredictedMix> = asked.iter().map(|asked| taught.mix(asked, Model::Des)).collect();
    for mix in &mut mixes {
        // The value says it; the mix of a run is its setting.
        mix.setting.clear();
    }
    let mut cautions = words::of_all(observation, taught.lessons.cautions());
    cautions.extend(mixes.iter().flat_map(|mix| &mix.cautions).cloned());
    if doubt > 0.0 {
        cautions.push(
            "an observation shows means: percentiles are those of exponentially distributed needs, and their intervals a factor of 2.4 wider; \
             a promise as a multiple of the percentile alone (`p95 < 1.3 x alone`) is free of that"
                .to_owned(),
        );
    }
    let promised = Promised { workload: own, percentile: name, factor: 1.0, limit_ms, doubt };
    let advice = advice_of(&mixes, &vary, &promised, &maximise);
    Ok(Advice { slo: request.slo.to_string(), cautions: distinct(cautions), ..advice })
}

/// A class's percentile without the others.
fn alone_ms(taught: &Taught<'_>, class: usize, name: &'static str) -> Result<f64, SeenError> {
    let sessions = (0..taught.names().len()).map(|at| if at == class { None } else { Some(0) }).collect();
    let asked = plimsoll_model::seen::Asked { sessions, cores: None };
    let mix = taught.mix(&asked, Model::Des);
    let found = mix.workloads.first().and_then(|own| *own.percentiles_ms.as_ref()?.get(name)?);
    found.map(|percentile| percentile.value).ok_or_else(|| SeenError::NotVisible {
        what: "what the promised class does alone",
        verb: "is",
        why: mix.refused.map_or_else(String::new, |why| format!(": {why}")),
        remedy: "promise a time, as in `p95 < 20ms`".to_owned(),
    })
}
