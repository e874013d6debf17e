//! A published figure beside ours.

use serde::{Deserialize, Serialize};

use crate::claim::grade::{Grade, Published, Scale};
use crate::claim::shown;

/// The mark of a claim that was changed after its first result.
pub(crate) const CHANGED: &str = "changed after its first result";

/// A published figure and ours.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NearResult {
    /// The expression for our figure, as written.
    pub expression: String,
    /// The published figure.
    pub published: Published,
    /// How many times ours may be larger or smaller and still be a match.
    pub factor: f64,
    /// The value that the figure would have without an effect.
    pub no_effect: f64,
    /// Our figure, from all runs; `None` if it was not measured.
    pub ours: Option<f64>,
    /// The interval of `ours`; `None` if no spread is known.
    pub interval: Option<[f64; 2]>,
    /// Why our figure was not measured, or is not graded.
    pub why_not: Option<String>,
}

impl NearResult {
    /// How close our figure is; `None` if it was not measured, or if noise or an end of the sweep could have made it.
    pub fn grade(&self) -> Option<Grade> {
        let &NearResult { published, factor, no_effect, ours, .. } = self;
        let ours = ours.filter(|_| self.why_not.is_none())?;
        Some(Scale { published, factor, no_effect }.grade(ours))
    }

    /// The grade with the numbers: `match: 3.4 (3.1 to 3.8) beside 3.7, within 1.5 times`; without a grade, why there
    /// is none.
    pub fn told(&self) -> String {
        let published = self.published.told();
        let Some((ours, grade)) = self.ours.zip(self.grade()) else {
            return format!("not graded: {}", self.why_not.as_deref().unwrap_or("ours was not measured"));
        };
        let interval = self.interval.map(|[low, high]| format!(" ({} to {})", shown(low, 3), shown(high, 3)));
        let (name, ours, interval) = (grade.name(), shown(ours, 3), interval.unwrap_or_default());
        let why = match grade {
            Grade::Match => format!("within {} times", shown(self.factor, 3)),
            Grade::Direction => "of another size".to_owned(),
            Grade::Contrary => format!("not on the same side of {}", shown(self.no_effect, 3)),
        };
        format!("{name}: {ours}{interval} beside {published}, {why}")
    }
}
