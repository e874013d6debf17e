//! Reports of the amount that a hog really achieved.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{HogKind, HogSpec};

/// The minimum share of the strength that counts as reached.
const REACHED_MIN: f64 = 0.95;

/// The amount that a hog achieved in a window, by its own measurement.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Achieved {
    /// In the unit of its strength; `None` if it could not be measured, and a note says why.
    pub amount: Option<f64>,
    /// Between which values that lies, with 95 % confidence, where it is an estimate.
    pub interval: Option<[f64; 2]>,
    /// Further figures, by names with units: `iterations_per_s`.
    pub figures: BTreeMap<String, f64>,
    /// Caveats for the reader.
    pub notes: Vec<String>,
}

/// The amount wanted from a hog in a window, and the amount achieved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HogReport {
    /// The hog, as typed.
    pub hog: HogSpec,
    /// How long the window was, seconds.
    pub window_s: f64,
    /// The unit of `wanted` and `achieved`; empty for no hog.
    pub unit: String,
    /// Its strength.
    pub wanted: f64,
    /// The amount achieved; `None` if it could not be measured, and `notes` say why.
    pub achieved: Option<f64>,
    /// Between which values that lies, with 95 % confidence, where it is an estimate.
    pub interval: Option<[f64; 2]>,
    /// Whether it achieved the wanted amount, within 5 %; `None` if unknown.
    pub reached: Option<bool>,
    /// Further figures, by names with units: `iterations_per_s`, `misses_per_load`.
    pub figures: BTreeMap<String, f64>,
    /// Why the strength was not reached or not measured, and other caveats.
    pub notes: Vec<String>,
}

impl HogReport {
    /// Compares the amount achieved with the amount wanted.
    pub fn judge(spec: HogSpec, window: Duration, achieved: Achieved) -> HogReport {
        let Achieved { amount, interval, figures, mut notes } = achieved;
        let (kind, wanted) = (spec.kind(), spec.strength());
        let achieved = amount.filter(|_| kind.is_some());
        let reached = achieved.map(|amount| amount >= wanted * REACHED_MIN);
        if let Some(kind) = kind.filter(|_| reached == Some(false)) {
            notes.insert(0, format!("{spec} was not reached: {}", kind.shortfall()));
        }
        let unit = kind.map_or("", HogKind::unit).to_owned();
        HogReport {
            hog: spec,
            window_s: window.as_secs_f64(),
            unit,
            wanted,
            achieved,
            interval,
            reached,
            figures,
            notes,
        }
    }
}

/// `held 7.2 of 8 MiB (6.8 to 7.6)`.
impl fmt::Display for HogReport {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(kind) = self.hog.kind() else { return out.write_str("no hog") };
        match self.achieved {
            Some(achieved) => write!(out, "{} {} of {} {}", kind.verb(), short(achieved), self.wanted, self.unit)?,
            None => write!(out, "{} an unknown part of {} {}", kind.verb(), self.wanted, self.unit)?,
        }
        if let Some([low, high]) = self.interval {
            write!(out, " ({} to {})", short(low), short(high))?;
        }
        Ok(())
    }
}

/// A number with three significant digits.
fn short(number: f64) -> String {
    match number.abs() {
        magnitude if magnitude >= 100.0 => format!("{number:.0}"),
        magnitude if magnitude >= 1.0 => format!("{number:.1}"),
        _ => format!("{number:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(spec: &str, amount: Option<f64>, interval: Option<[f64; 2]>) -> HogReport {
        let achieved = Achieved { amount, interval, ..Achieved::default() };
        HogReport::judge(spec.parse().unwrap(), Duration::from_secs(2), achieved)
    }

    #[test]
    fn in_words() {
        let check = |report: HogReport, expect: &str| assert_eq!(report.to_string(), expect);
        check(judge("llc:8", Some(7.2), Some([6.8, 7.6])), "held 7.2 of 8 MiB (6.8 to 7.6)");
        check(judge("bandwidth:4000", Some(3123.4), None), "reached 3123 of 4000 MB/s");
        check(judge("llc:8", None, None), "held an unknown part of 8 MiB");
        check(judge("none", None, None), "no hog");
    }

    #[test]
    fn reached_within_a_twentieth() {
        let check = |amount, expect| assert_eq!(judge("disk:100", amount, None).reached, expect);
        check(Some(100.0), Some(true));
        check(Some(95.0), Some(true));
        check(Some(94.9), Some(false));
        check(None, None);
        let short = judge("disk:100", Some(50.0), None);
        assert!(short.notes[0].starts_with("disk:100 was not reached: "), "{short:?}");
        let json = serde_json::to_string(&short).unwrap();
        assert_eq!(serde_json::from_str::<HogReport>(&json).unwrap(), short);
    }
}
