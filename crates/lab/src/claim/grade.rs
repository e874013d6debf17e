//! Grades: how close our figure is to the one that a study has published.
//!
//! A verdict says whether the shape of a result is confirmed; a grade says whether its size is. The published figure is
//! data of the claim, beside the expression for ours. Both are compared as numbers, however they were measured.
//!
//! A grade has two bounds. The *factor* bounds how far ours may be from the published figure and still match: 1.5, unless there
//! is a reason. *No effect* is the value that the figure would have without an effect: 1 for a ratio. Ours has at least the
//! direction if it is on the published side of it. A factor whose band would include it is refused, so a match always has the
//! right direction.

use serde::{Deserialize, Serialize};

use super::figures::Figures;
use super::formula::Formula;
use super::{ClaimError, Names, bind, evaluate, parse};
use crate::plan::Plan;

/// How far ours may be from the published figure and still be a match, unless a claim says otherwise.
pub(crate) const FACTOR: f64 = 1.5;

/// The value of a figure if there is no effect, unless a claim says otherwise: most published figures are ratios.
pub(crate) const NO_EFFECT: f64 = 1.0;

/// A published figure.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Published {
    /// The figure, or the lowest of several.
    pub low: f64,
    /// The highest of several; equal to `low` for a single figure, `None` without an upper bound.
    pub high: Option<f64>,
}

/// The scale by which a claim is graded.
#[derive(Debug, Clone, PartialEq)]
pub struct Scale {
    /// The published figure.
    pub published: Published,
    /// How many times ours may be larger or smaller and still be a match, above 1.
    pub factor: f64,
    /// The value that the figure would have without an effect.
    pub no_effect: f64,
}

/// How close our figure is to the published one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Grade {
    /// Within the factor.
    Match,
    /// On the same side of no effect, of another size.
    Direction,
    /// On the other side, or an effect although the study has none.
    Contrary,
}

impl Grade {
    /// Every grade, best first.
    pub const ALL: [Grade; 3] = [Grade::Match, Grade::Direction, Grade::Contrary];

    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Grade::Match => "match",
            Grade::Direction => "direction",
            Grade::Contrary => "contrary",
        }
    }
}

/// The published figure of a claim, bound to an experiment.
#[derive(Debug, Clone)]
pub(super) struct Near {
    /// The expression for our figure, as written.
    pub(super) expression: String,
    pub(super) scale: Scale,
    /// The same expression bound to the plan, or why it does not exist in this plan.
    pub(super) ours: Result<Formula, String>,
}

impl Near {
    pub(super) fn new(expression: &str, scale: Scale, names: &Names<'_>) -> Result<Self, ClaimError> {
        let ours = bind::bind_number(&parse(expression)?, names)?;
        Ok(Near { expression: expression.to_owned(), scale, ours: Ok(ours) })
    }

    /// Our figure, or why it was not measured.
    pub(super) fn ours(&self, plan: &Plan, figures: &dyn Figures) -> Result<f64, String> {
        evaluate::number(self.ours.as_ref()?, plan, figures)
    }
}

impl Published {
    /// One figure.
    pub fn one(figure: f64) -> Self {
        Published { low: figure, high: Some(figure) }
    }

    /// For people: `3.7`, `0.4 to 0.5`, `50 or more`.
    pub fn told(&self) -> String {
        let told = |number| super::shown(number, 3);
        match self.high {
            Some(high) if high <= self.low => told(self.low),
            Some(high) => format!("{} to {}", told(self.low), told(high)),
            None => format!("{} or more", told(self.low)),
        }
    }

    fn high(&self) -> f64 {
        self.high.unwrap_or(f64::INFINITY)
    }
}

impl Scale {
    /// The grade of a figure.
    pub fn grade(&self, ours: f64) -> Grade {
        let [low, high] = self.band();
        match () {
            () if (low..=high).contains(&ours) => Grade::Match,
            () if self.side() != 0 && side_of(ours, self.no_effect) == self.side() => Grade::Direction,
            () => Grade::Contrary,
        }
    }

    /// The fault of the scale, if it has one.
    pub fn problem(&self) -> Option<String> {
        let Scale { published, factor, no_effect } = self;
        if !(published.low.is_finite() && published.low <= published.high()) {
            return Some("`published` is a number or two, the lower one first".to_owned());
        }
        if !(*factor > 1.0 && factor.is_finite()) {
            return Some(format!("`factor` is how many times ours may differ, so it is above 1, not {factor}"));
        }
        let [low, high] = self.band();
        if self.side() != 0 && low <= *no_effect && *no_effect <= high {
            let [low, high] = [low, high].map(|bound| super::shown(bound, 3));
            return Some(format!(
                "with `factor` {factor} a match is {low} to {high}, and {no_effect} among it is no effect; choose a smaller factor"
            ));
        }
        None
    }

    /// The bounds within which our figure is a match. A negative figure is multiplied as a positive one is.
    fn band(&self) -> [f64; 2] {
        let widened =
            |bound: f64, outwards: f64| if bound * outwards >= 0.0 { bound * self.factor } else { bound / self.factor };
        [widened(self.published.low, -1.0), widened(self.published.high(), 1.0)]
    }

    /// The side of no effect on which the published figure lies; 0 if it equals no effect.
    fn side(&self) -> i8 {
        let (low, high) = (side_of(self.published.low, self.no_effect), side_of(self.published.high(), self.no_effect));
        if low == high { low } else { 0 }
    }
}

fn side_of(figure: f64, no_effect: f64) -> i8 {
    i8::from(figure > no_effect) - i8::from(figure < no_effect)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scale(low: f64, high: Option<f64>, factor: f64, no_effect: f64) -> Scale {
        Scale { published: Published { low, high }, factor, no_effect }
    }

    fn check(scale: &Scale, expect: &[(f64, Grade)]) {
        assert_eq!(scale.problem(), None, "{scale:?}");
        for (ours, grade) in expect {
            assert_eq!(scale.grade(*ours), *grade, "{ours} against {scale:?}");
        }
    }

    #[test]
    fn a_figure_is_graded_by_factor_and_side() {
        use Grade::{Contrary, Direction, Match};
        let gain = scale(3.7, Some(3.7), 1.5, 1.0);
        check(&gain, &[(3.7, Match), (2.5, Match), (5.5, Match), (2.4, Direction), (9.0, Direction), (0.9, Contrary)]);
        let loss = scale(0.66, Some(0.66), 1.5, 1.0);
        check(&loss, &[(0.45, Match), (0.98, Match), (0.4, Direction), (1.0, Contrary), (1.2, Contrary)]);
        let difference = scale(-0.2, Some(-0.2), 1.5, 0.0);
        check(&difference, &[(-0.3, Match), (-0.14, Match), (-0.1, Direction), (0.2, Contrary)]);
        let several = scale(0.4, Some(0.5), 1.5, 0.0);
        check(&several, &[(0.3, Match), (0.7, Match), (0.1, Direction), (-0.1, Contrary)]);
        check(&scale(50.0, None, 1.5, 0.0), &[(1e9, Match), (34.0, Match), (20.0, Direction)]);
        // Where the study has no effect, an effect is contrary.
        check(&scale(1.0, Some(1.0), 1.1, 1.0), &[(1.05, Match), (0.95, Match), (1.2, Contrary), (0.8, Contrary)]);
    }

    #[test]
    fn a_scale_that_cannot_tell_sides_is_refused() {
        let refused = |scale: Scale, expect: &str| {
            let problem = scale.problem().unwrap_or_default();
            assert!(problem.contains(expect), "{scale:?}: {problem}");
        };
        refused(scale(1.16, Some(1.16), 1.5, 1.0), "a match is 0.773 to 1.74");
        refused(scale(2.0, Some(2.0), 1.0, 1.0), "above 1");
        refused(scale(2.0, Some(1.0), 1.5, 0.0), "the lower one first");
        refused(scale(f64::NAN, None, 1.5, 0.0), "the lower one first");
    }
}
