//! How far a further run may be from what is predicted for it: by the noise of measurements, and by the error of the model.
//!
//! Noise is in what a prediction is made from, which the jackknife over blocks shows, and in the further run itself. With two or three
//! blocks the jackknife has one or two degrees of freedom, and Student's t makes a factor of a thousand out of runs that differ by half.
//! So it is pooled with the noise of the responses of all cells of the experiment, each by its degrees of freedom. Cells may differ in
//! noise: the pooled interval still covers 95 % if one class is four times as noisy as the other, as tests show.

use super::isolated;
use super::mix::{self, Solved};
use super::{FACTOR_MAX, Machine, Mix, NORMAL_95, Refused, UNADJUSTED_ERROR};
use crate::demand::jackknife_error;
use crate::statistics::{CONFIDENCE, Deviation, Interval};

#[cfg(test)]
mod tests;

/// The uncertainty of a solved mix.
pub(super) struct Spread<'a> {
    whole: &'a Solved,
    /// Solved without each block; empty if that is impossible for one of them, whose part in the noise is then unknown.
    without: Vec<Solved>,
    /// Of a mean response over as many blocks as were measured.
    noise: Option<Deviation>,
    /// Half the width of the model's error interval, in logarithms.
    error: f64,
}

impl<'a> Spread<'a> {
    pub(super) fn of(mix: &Mix, machine: &Machine, whole: &'a Solved) -> Self {
        let blocks = mix.members.iter().map(|member| member.alone.blocks.len()).max().unwrap_or(0);
        // A block that no class has leaves nothing out.
        let is_there = |block: &usize| {
            mix.members.iter().any(|member| member.alone.blocks.get(*block).is_some_and(Option::is_some))
        };
        let blocks: Vec<usize> = (0..blocks).filter(is_there).collect();
        let without: Option<Vec<Solved>> =
            blocks.iter().map(|block| mix::solve(mix, machine, Some(*block)).ok()).collect();
        Spread {
            whole,
            without: without.unwrap_or_default(),
            noise: mix.noise.map(|noise| noise.of_share(1.0 / blocks.len().max(1) as f64)),
            error: model_error(mix),
        }
    }

    /// A figure with its interval, if an error of the response moves it by this part.
    pub(super) fn interval(&self, of: impl Fn(&Solved) -> f64, part: f64) -> Interval {
        let value = of(self.whole);
        let without: Vec<f64> = self.without.iter().map(of).collect();
        let own = jackknife_error(value, &without);
        let noise = match self.noise.map(|noise| noise.of_share(part * part)) {
            Some(run) => {
                let inputs = own.map_or(run, |own| own.pooled(run));
                Some(Deviation { relative: inputs.relative.hypot(run.relative), ..inputs })
            }
            None => own,
        };
        let noise = noise.map(|noise| noise.half_width(CONFIDENCE, 1.0));
        let error = self.error * part;
        if value <= 0.0 || noise.is_none() && error <= 0.0 {
            return Interval::without_spread(value);
        }
        let factor = noise.unwrap_or(0.0).hypot(error).exp();
        Interval { value, low: Some(value / factor), high: Some(value * factor) }
    }

    /// Refuses a response about which nothing is known.
    pub(super) fn check_known(&self, mix: &Mix, class: &str, response: Interval) -> Result<(), Refused> {
        let Some(factor) = response.high.map(|high| high / response.value).filter(|factor| *factor > FACTOR_MAX) else {
            return Ok(());
        };
        let is_noise = factor.ln() > std::f64::consts::SQRT_2 * self.error;
        let why = match mix.turns.error {
            _ if is_noise => {
                "measurements differ that much from block to block; measure more blocks (repeats), or on a quieter machine"
                    .to_owned()
            }
            Some(residual) => format!(
                "the model misses measured mixes by a factor of {:.1}; measure more of them, near this one",
                residual.deviation.exp()
            ),
            None => "it lies far beyond what was measured; measure nearer to it".to_owned(),
        };
        Err(Refused::Unknown { class: class.to_owned(), factor, why })
    }
}

/// Half the width of the model's error interval, in logarithms: the error that measured mixes leave unexplained, and
/// more beyond them. Without measured mixes it is the error that predictions of several workloads had so far, and the
/// distance beyond measurements.
fn model_error(mix: &Mix) -> f64 {
    let beyond = mix.doublings_beyond;
    match mix.turns.error {
        Some(residual) => residual.half_width() * (1.0 + beyond * beyond).sqrt(),
        None => {
            let isolated = if mix.is_shared() { isolated::half_width() } else { 0.0 };
            isolated.hypot(NORMAL_95 * UNADJUSTED_ERROR * beyond)
        }
    }
}
