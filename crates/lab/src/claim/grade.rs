//! Grades: how close our figure is to the one that a study has published.
//!
//! A verdict says whether the shape of a result is confirmed; a grade says whether its size is. The published figure is
//! data of the claim, beside the expression for ours. Both are compared as numbers, however they were measured.
//!
//! A grade has two bounds. The *factor* bounds how far ours may be from the published figure and still match: 1.5, unless there
//! is a reason. *No effect* is the value that the figure would have without an effect: 1 for a ratio. Ours has at least the
//! direction if it is on the published side of it. A factor whose band would include it is refused, so a match always has the
//! right direction.
//!
//! The effect, which is the distance from no effect, must be as near as the figure. Of 0.66 that are kept, 0.95 are within 1.5
//! times; of the 0.34 that are lost, 0.05 are not.
//!
//! Nothing is graded that noise or a bound of the measurement could have made: a figure whose interval includes no effect or
//! reaches beyond the band, and a knee at the end of its sweep.

use serde::{Deserialize, Serialize};

use super::figures::{Figures, Metric};
use super::formula::{Condition, Figure, Formula};
use super::syntax::Operator;
use super::{ClaimError, Names, bind, evaluate, parse};
use crate::amounts::Amounts;
use crate::figures::Unit;
use crate::plan::Plan;

/// How far ours may be from the published figure and still be a match, unless a claim says otherwise.
pub(crate) const FACTOR: f64 = 1.5;

/// The least factor by which effects may differ: a factor for figures is small where no effect is near.
const EFFECT_FACTOR: f64 = 1.5;

/// A match that is more than this part of all that is possible with an effect would be no news.
const MATCH_MAX: f64 = 0.8;

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
    /// Within the factor, in the figure and in its distance from no effect.
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
        if let Some(message) = scale.is_met_by_chance(possible(&ours)) {
            return Err(ClaimError { span: 0..expression.len(), message });
        }
        Ok(Near { expression: expression.to_owned(), scale, ours: Ok(ours) })
    }

    /// The part of the published effect that a condition demands of our figure; `None` if it sets no bound on the effect.
    pub(super) fn demanded(&self, condition: &Condition) -> Option<f64> {
        let (ours, Scale { published, no_effect, .. }) = (self.ours.as_ref().ok()?, &self.scale);
        let side = f64::from(self.scale.side());
        let effect = (published.low - no_effect).abs().min((published.high() - no_effect).abs());
        let mut comparisons = Vec::new();
        condition.comparisons(&mut comparisons);
        let of = |(operator, left, right): (Operator, &Formula, &Formula)| {
            let is_least = matches!(operator, Operator::Greater | Operator::GreaterOrEqual);
            let is_most = matches!(operator, Operator::Less | Operator::LessOrEqual);
            let (bound, bounds_below) = match (left == ours, right == ours) {
                (true, _) => (right.constant()?, is_least),
                (_, true) => (left.constant()?, is_most),
                _ => return None,
            };
            let is_of_effect = (is_least || is_most) && side != 0.0 && bounds_below == (side > 0.0);
            is_of_effect.then(|| (bound - no_effect) * side / effect)
        };
        comparisons.into_iter().filter_map(of).reduce(f64::max)
    }

    /// That one of its knees is at an end of its sweep, if so: the knee may lie beyond.
    pub(super) fn knee_at_end(&self, plan: &Plan, figures: &dyn Figures) -> Option<String> {
        let mut measured = Vec::new();
        self.ours.as_ref().ok()?.figures(&mut measured);
        measured.into_iter().find_map(|one| {
            let Figure::Knee(axis, _) = one.figure else { return None };
            let knee = evaluate::number(&Formula::Measured(Box::new(one.clone())), plan, figures).ok()?;
            let amounts = Amounts::of(&plan.axes[axis].values);
            let beyond = |is: &dyn Fn(f64) -> bool| amounts.ascending().iter().any(|(amount, _)| is(*amount));
            let is_inside = beyond(&|amount| amount < knee) && beyond(&|amount| amount > knee);
            let key = &plan.axes[axis].key;
            let knee = super::shown(knee, 3);
            (!is_inside).then(|| format!("the knee {knee} is at the end of `{key}`, so that it may lie beyond"))
        })
    }

    /// Our figure, or why it was not measured.
    pub(super) fn ours(&self, plan: &Plan, figures: &dyn Figures) -> Result<f64, String> {
        evaluate::number(self.ours.as_ref()?, plan, figures)
    }
}

/// The least and the largest value that an expression can have, if it is a share.
fn possible(formula: &Formula) -> Option<[f64; 2]> {
    let Formula::Measured(measured) = formula else { return None };
    match measured.figure {
        Figure::Metric(Metric::Listed(figure, _)) if figure.unit == Unit::Share => Some([0.0, 1.0]),
        _ => None,
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
        let [low, high] = self.matching();
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

    /// Why a figure with that interval is not graded, if noise could have made it.
    pub fn doubt(&self, ours: f64, [low, high]: [f64; 2]) -> Option<String> {
        let told = |number| super::shown(number, 3);
        if self.side() != 0 && low <= self.no_effect && self.no_effect <= high {
            return Some(format!(
                "{} ({} to {}) may be no effect ({})",
                told(ours),
                told(low),
                told(high),
                told(self.no_effect)
            ));
        }
        let band = self.matching();
        let is_beyond = self.side() == 0 && (low < band[0] || band[1] < high);
        (is_beyond && (band[0]..=band[1]).contains(&ours)).then(|| {
            format!("{} ({} to {}) may be an effect, and the study has none", told(ours), told(low), told(high))
        })
    }

    /// That almost every effect would be a match, if so.
    fn is_met_by_chance(&self, possible: Option<[f64; 2]>) -> Option<String> {
        let [least, most] = possible?;
        let (from, to) = match self.side() {
            0 => return None,
            1 => (self.no_effect, most),
            _ => (least, self.no_effect),
        };
        let [low, high] = self.matching();
        let part = (high.min(to) - low.max(from)) / (to - from);
        let told = |number| super::shown(number, 3);
        (part > MATCH_MAX).then(|| {
            format!(
                "a match is {} to {}, almost all that is possible from {} to {}; choose a smaller factor",
                told(low),
                told(high),
                told(from),
                told(to)
            )
        })
    }

    /// The bounds within which our figure is a match: its own band, and that of the effect.
    fn matching(&self) -> [f64; 2] {
        let ([low, high], side) = (self.band(), f64::from(self.side()));
        if side == 0.0 {
            return [low, high];
        }
        let effects = [self.published.low, self.published.high()].map(|bound| (bound - self.no_effect).abs());
        let factor = self.factor.max(EFFECT_FACTOR);
        let (least, most) = (effects[0].min(effects[1]) / factor, effects[0].max(effects[1]) * factor);
        let [near, far] = [least, most].map(|effect| self.no_effect + side * effect);
        [low.max(near.min(far)), high.min(near.max(far))]
    }

    /// The bounds within which our figure is near the published one. A negative figure is multiplied as a positive one is.
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
    use proptest::prelude::*;

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
        check(&gain, &[(3.7, Match), (2.9, Match), (5.0, Match), (2.5, Direction), (9.0, Direction), (0.9, Contrary)]);
        // A twentieth lost is not nearly a third lost, though what is kept is within 1.5 times.
        let loss = scale(0.66, Some(0.66), 1.5, 1.0);
        check(
            &loss,
            &[(0.5, Match), (0.77, Match), (0.4, Direction), (0.95, Direction), (1.0, Contrary), (1.2, Contrary)],
        );
        let small_loss = scale(0.95, Some(0.96), 1.04, 1.0);
        check(&small_loss, &[(0.93, Match), (0.97, Match), (0.92, Direction), (0.98, Direction), (0.0, Direction)]);
        let difference = scale(-0.2, Some(-0.2), 1.5, 0.0);
        check(&difference, &[(-0.3, Match), (-0.14, Match), (-0.1, Direction), (0.2, Contrary)]);
        let several = scale(0.4, Some(0.5), 1.5, 0.0);
        check(&several, &[(0.3, Match), (0.7, Match), (0.1, Direction), (-0.1, Contrary)]);
        check(&scale(50.0, None, 1.5, 0.0), &[(1e9, Match), (34.0, Match), (20.0, Direction)]);
        // Where the study has no effect, an effect is contrary.
        check(&scale(1.0, Some(1.0), 1.1, 1.0), &[(1.05, Match), (0.95, Match), (1.2, Contrary), (0.8, Contrary)]);
    }

    #[test]
    fn what_noise_could_have_made_is_not_graded() {
        let gain = scale(3.7, Some(3.7), 1.5, 1.0);
        assert_eq!(gain.doubt(3.5, [2.0, 5.0]), None);
        assert_eq!(gain.doubt(1.2, [0.9, 1.5]).as_deref(), Some("1.2 (0.9 to 1.5) may be no effect (1)"));
        let none = scale(1.0, Some(1.0), 1.1, 1.0);
        assert_eq!(none.doubt(1.02, [0.95, 1.09]), None);
        assert!(none.doubt(1.02, [0.5, 2.0]).is_some_and(|why| why.contains("may be an effect")));
        assert_eq!(none.doubt(1.5, [1.3, 1.7]), None, "it is one, and the grade says so");
    }

    #[test]
    fn a_match_that_almost_everything_would_be_is_refused() {
        let share = Some([0.0, 1.0]);
        assert_eq!(scale(0.8, Some(1.0), 1.5, 0.5).is_met_by_chance(share), None);
        assert_eq!(scale(0.6, None, 1.5, 0.5).is_met_by_chance(None), None);
        let why = scale(0.2, Some(0.9), 1.5, 0.0).is_met_by_chance(share).expect("0.13 to 1 of 0 to 1");
        assert!(why.contains("almost all that is possible from 0 to 1"), "{why}");
    }

    proptest! {
        /// Whatever is published as an effect: no effect never matches, nor does a total loss, nor an effect of another sign.
        #[test]
        fn neither_a_flat_curve_nor_a_total_loss_matches(published in 0.02..20.0_f64, factor in 1.01..2.0_f64) {
            let scale = scale(published, Some(published), factor, 1.0);
            prop_assume!(scale.problem().is_none());
            prop_assert_eq!(scale.grade(1.0), Grade::Contrary);
            prop_assert_ne!(scale.grade(0.0), Grade::Match);
            prop_assert_eq!(scale.grade(1.0 + (1.0 - published)), Grade::Contrary);
            // A match has at least half of the published effect, and at most twice as much.
            for step in 0..400 {
                let ours = f64::from(step) * 0.1;
                let effect = (ours - 1.0) / (published - 1.0);
                prop_assert!(scale.grade(ours) != Grade::Match || (0.499..=2.001).contains(&effect), "{} {:?}", ours, scale);
            }
        }
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
