//! How much longer a request computes beside others.

/// What slows requests down.
#[derive(Debug, Clone, PartialEq)]
pub enum Slowdown {
    /// Nothing: demands as alone. The baseline of a plain queueing model.
    None,
    /// All classes run at one instruction rate, that of the mix, and spin for each other's locks, as in the thesis. But
    /// the rate is of *busy* CPU seconds and weighted by shares of the CPU, not by clients. Needs instructions.
    SharedRate,
    /// Factors from mixes that were measured, by class. Works without counters.
    Calibrated(Vec<Vec<Calibration>>),
}

/// The result of one calibration mix for a class.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Calibration {
    /// Share of all cores that the others used, above 0.
    pub others: f64,
    /// CPU seconds of a request, relative to alone.
    pub factor: f64,
}

/// A class without the mix: its demands, per request.
pub(super) struct Own {
    pub(super) cpu_s: f64,
    pub(super) instructions: Option<f64>,
    pub(super) spin_instructions: Option<f64>,
}

impl Slowdown {
    /// Entries by class, if it has such; `None` where an entry is impossible.
    pub(super) fn entries(&self) -> Option<Option<usize>> {
        match self {
            Self::None | Self::SharedRate => Some(None),
            Self::Calibrated(classes) => {
                let is_sound = |point: &Calibration| {
                    point.others > 0.0 && point.others <= 1.0 && point.factor > 0.0 && point.factor.is_finite()
                };
                classes.iter().flatten().all(is_sound).then_some(Some(classes.len()))
            }
        }
    }

    /// CPU seconds of a request of each class in a mix with these throughputs; `cpu_s` are the CPU demands so far.
    pub(super) fn mixed_cpu_s(&self, classes: &[Own], throughputs: &[f64], cpu_s: &[f64], cores: f64) -> Vec<f64> {
        let alone = || classes.iter().map(|class| class.cpu_s);
        match self {
            Self::None => alone().collect(),
            Self::SharedRate => shared_rate(classes, throughputs),
            Self::Calibrated(points) => {
                let others = others_shares(throughputs, cpu_s, cores);
                alone()
                    .zip(points)
                    .zip(others)
                    .map(|((cpu_s, points), others)| cpu_s * factor(points, others))
                    .collect()
            }
        }
    }
}

/// Share of all cores that the others of each class use.
pub(super) fn others_shares(throughputs: &[f64], cpu_s: &[f64], cores: f64) -> Vec<f64> {
    let busy: Vec<f64> = throughputs.iter().zip(cpu_s).map(|(throughput, cpu_s)| throughput * cpu_s).collect();
    let all: f64 = busy.iter().sum();
    busy.iter().map(|own| ((all - own) / cores).clamp(0.0, 1.0)).collect()
}

/// With `I` instructions and `D` CPU seconds per request alone, a class runs `I / D` instructions per busy second. By
/// shares of the CPU, `X D` of each, the mix runs `sum X I / sum X D`. A request executes its own instructions and
/// spins as long as a request of each other class does alone, all at that rate.
fn shared_rate(classes: &[Own], throughputs: &[f64]) -> Vec<f64> {
    let instructions = |class: &Own| class.instructions.unwrap_or(0.0);
    let spins = |class: &Own| class.spin_instructions.unwrap_or(0.0);
    let sum = |of: &dyn Fn(&Own) -> f64| classes.iter().zip(throughputs).map(|(class, x)| x * of(class)).sum::<f64>();
    let (executed, busy_s) = (sum(&instructions), sum(&|class| class.cpu_s));
    if executed <= 0.0 {
        return classes.iter().map(|class| class.cpu_s).collect();
    }
    let others_spin = |at: usize| -> f64 {
        let others = classes.iter().zip(throughputs).enumerate().filter(|(other, (_, x))| *other != at && **x > 0.0);
        others.map(|(_, (class, _))| spins(class)).sum()
    };
    let seconds = |(at, class): (usize, &Own)| (instructions(class) + others_spin(at)) * busy_s / executed;
    classes.iter().enumerate().map(seconds).collect()
}

/// The line through factor 1 without others that fits calibration mixes best, at the share `others`.
fn factor(points: &[Calibration], others: f64) -> f64 {
    let squares: f64 = points.iter().map(|point| point.others.powi(2)).sum();
    if squares <= 0.0 {
        return 1.0;
    }
    let slope = points.iter().map(|point| point.others * (point.factor - 1.0)).sum::<f64>() / squares;
    // A request that needs less than half its CPU seconds in a mix would be a fault of the measurement.
    (1.0 + slope * others).max(0.5)
}
