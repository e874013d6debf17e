//! Judges a claim by the figures of each block: holds, fails, or undecided.
//!
//! A comparison has a distance in every block: the logarithm of left over right, or left minus right if a side is not above 0.
//! [`plimsoll_model::statistics::verdict`] decides by the distances, and joins the parts of a claim. This module defines the
//! distances and how verdicts are shown.

use std::collections::BTreeMap;

use plimsoll_model::statistics::verdict::{Levels, Margin, Verdict};

use super::Claim;
use super::evaluate::{Evaluator, KneeEnd, ROUNDING, is_true, none_meets, shown_comparison};
use super::figures::{Cell, Figures, Metric};
use super::formula::{Condition, Figure, Formula, MeasuredFigure};
use super::syntax::Operator;
use crate::plan::{Axis, Plan};
use crate::results::{ClaimInterval, IntervalOf};
use plimsoll_display as units;

/// The figures by which a claim is judged.
pub struct Evidence<'a> {
    /// Figures of all runs together: the numbers that people are shown.
    pub all: &'a dyn Figures,
    /// Figures of each block by itself: the spread.
    pub blocks: Vec<&'a dyn Figures>,
    /// The second runs of each of these blocks, of settings that ran twice (A/A).
    pub again: Vec<&'a dyn Figures>,
    /// How often each end of an interval may err.
    pub levels: Levels,
}

/// The result of judging a claim.
#[derive(Debug, Clone, PartialEq)]
pub struct ClaimJudgement {
    /// `None` if it could not be judged.
    pub verdict: Option<Verdict>,
    /// Both sides of the comparison that decided, or would, as numbers for people. For a `for all`, the worst case and
    /// its place: `0.92 >= 0.9 at dop=4`. Of all runs together.
    pub value: Option<String>,
    /// The 95 % interval of that comparison; `None` if several comparisons decided together.
    pub interval: Option<ClaimInterval>,
    /// How many further blocks would likely decide it; 0 if it is decided, `None` if blocks do not help or too many would
    /// be needed.
    pub blocks_more: Option<u32>,
    /// Why it could not be judged, or why a difference beyond noise is not enough.
    pub why_not: Option<String>,
}

impl Claim {
    /// Judges it. The plan is the one it was bound to.
    pub fn judge(&self, plan: &Plan, evidence: &Evidence<'_>) -> ClaimJudgement {
        let not_judged =
            |why| ClaimJudgement { verdict: None, value: None, interval: None, blocks_more: None, why_not: Some(why) };
        let condition = match &self.condition {
            Ok(condition) => condition,
            Err(why) => return not_judged(why.clone()),
        };
        let mut judge = Judge { plan, evidence, at: Vec::new(), floors: BTreeMap::new() };
        let part = judge.part(condition, evidence.levels);
        let verdict = part.margin.verdict();
        match part.missing {
            Some(why) if verdict == Verdict::Undecided => not_judged(why),
            _ => ClaimJudgement {
                verdict: Some(verdict),
                value: Some(part.shown),
                interval: part.interval,
                blocks_more: part.margin.blocks_more,
                why_not: part.doubt.filter(|_| verdict == Verdict::Undecided),
            },
        }
    }
}

/// A part of a claim, judged.
#[derive(Debug, Clone)]
struct PartJudgement {
    margin: Margin,
    shown: String,
    interval: Option<ClaimInterval>,
    /// Why a figure was not measured. The part may be undecided without it.
    missing: Option<String>,
    /// Why the part is undecided, other than noise.
    doubt: Option<String>,
}

impl PartJudgement {
    fn new(margin: Margin, shown: String) -> Self {
        PartJudgement { margin, shown, interval: None, missing: None, doubt: None }
    }

    fn missing(why: String) -> Self {
        PartJudgement { missing: Some(why), ..PartJudgement::new(Margin::unknown(), String::new()) }
    }
}

/// The two sides of a comparison.
#[derive(Clone, Copy)]
struct Sides<'a> {
    operator: Operator,
    left: &'a Formula,
    right: &'a Formula,
}

struct Judge<'a> {
    plan: &'a Plan,
    evidence: &'a Evidence<'a>,
    /// As in [`Evaluator`].
    at: Vec<(usize, usize)>,
    /// How far the setting that ran twice is from itself, in logarithms.
    floors: BTreeMap<(Cell, Metric), f64>,
}

impl<'a> Judge<'a> {
    fn part(&mut self, condition: &Condition, levels: Levels) -> PartJudgement {
        match condition {
            Condition::Compare(operator, left, right) => {
                self.compare(Sides { operator: *operator, left, right }, levels)
            }
            Condition::Not(inner) => {
                let inner = self.part(inner, levels.negated());
                PartJudgement { margin: inner.margin.negated(), shown: format!("not ({})", inner.shown), ..inner }
            }
            Condition::And(..) | Condition::Or(..) => {
                let is_or = matches!(condition, Condition::Or(..));
                let mut conditions = Vec::new();
                flatten(condition, is_or, &mut conditions);
                let levels = if is_or { levels.of_any(conditions.len()) } else { levels.of_each(conditions.len()) };
                joined(conditions.into_iter().map(|condition| self.part(condition, levels)).collect(), is_or)
            }
            Condition::ForAll { axis, condition, body } => self.for_all(*axis, condition.as_deref(), body, levels),
        }
    }

    /// The figures of all runs decide which values count.
    fn for_all(
        &mut self,
        axis: usize,
        condition: Option<&Condition>,
        body: &Condition,
        levels: Levels,
    ) -> PartJudgement {
        let plan = self.plan;
        let Axis { key, values, .. } = &plan.axes[axis];
        let (mut positions, mut missing) = (Vec::new(), None);
        for position in 0..values.len() {
            self.at.push((axis, position));
            match condition.map_or(Ok(true), |condition| self.evaluator(self.evidence.all).is_true(condition)) {
                Ok(true) => positions.push(position),
                Ok(false) => {}
                Err(why) => missing = missing.or(Some(why)),
            }
            self.at.pop();
        }
        if positions.is_empty() {
            return PartJudgement::missing(missing.unwrap_or_else(|| none_meets(key)));
        }
        let levels = levels.of_each(positions.len());
        let mut cases: Vec<PartJudgement> = Vec::new();
        for position in positions {
            self.at.push((axis, position));
            let mut case = self.part(body, levels);
            self.at.pop();
            let joint = if case.shown.contains(" at ") { "," } else { " at" };
            case.shown = format!("{}{joint} {key}={}", case.shown, units::value(&values[position]));
            cases.push(case);
        }
        cases.extend(missing.map(PartJudgement::missing));
        worst(cases)
    }

    fn evaluator(&self, figures: &'a dyn Figures) -> Evaluator<'a> {
        Evaluator::new(self.plan, figures, self.at.clone())
    }

    fn compare(&mut self, sides: Sides<'_>, levels: Levels) -> PartJudgement {
        let (left, right) = match self.evaluator(self.evidence.all).both(sides.left, sides.right) {
            Ok(both) => both,
            Err(why) => return PartJudgement::missing(why),
        };
        let shown = shown_comparison(sides.operator, left, right);
        let (mut measured, mut of_right) = (Vec::new(), Vec::new());
        sides.left.figures(&mut measured);
        sides.right.figures(&mut of_right);
        let is_right_constant = of_right.is_empty();
        measured.extend(of_right);
        if measured.is_empty() {
            return PartJudgement::new(Margin::certain(is_true(sides.operator, left, right)), shown);
        }
        let is_knee = |one: &&MeasuredFigure| matches!(one.figure, Figure::Knee(..));
        if measured.iter().any(is_knee) {
            if !measured.iter().all(is_knee) {
                let doubt = Some("a knee is not judged together with other figures".to_owned());
                return PartJudgement { doubt, ..PartJudgement::new(Margin::unknown(), shown) };
            }
            return self.compare_knees(sides, left, levels, shown);
        }
        let (mut pairs, mut why, mut resolution) = (Vec::new(), None, 0.0_f64);
        for block in &self.evidence.blocks {
            let mut evaluator = self.evaluator(*block);
            match evaluator.both(sides.left, sides.right) {
                Ok(pair) => pairs.push(pair),
                Err(one) => why = why.or(Some(one)),
            }
            resolution = resolution.max(evaluator.resolution());
        }
        if pairs.is_empty() {
            return PartJudgement::missing(why.unwrap_or_else(|| "no block was measured".to_owned()));
        }
        if matches!(sides.left, Formula::Measured(_)) && is_right_constant && is_above_a_bound_of_0(&pairs) {
            return PartJudgement::new(Margin::certain(is_true(sides.operator, left, right)), shown);
        }
        let floor = measured.iter().map(|one| self.floor(one)).fold(0.0, f64::max);
        let scale = Scale::of(&pairs);
        let least = floor.max(resolution) * scale.per_relative;
        let distances: Vec<f64> = pairs.iter().map(|(left, right)| scale.distance(*left, *right)).collect();
        let part = judged_blocks(sides.operator, &distances, levels, least, shown);
        let interval = scale.interval(part.1, is_right_constant.then_some(pairs[0].1));
        let doubt = match distances.len() {
            1 => Some("one block has no spread; at least two are needed".to_owned()),
            _ if sides.operator == Operator::Equal => {
                Some("that figures with noise are equal cannot be shown".to_owned())
            }
            _ if floor > 0.0 && part.1.value.abs() <= floor * scale.per_relative => {
                Some(format!("the setting that ran twice differs from itself by {}", units::percent(floor.exp_m1())))
            }
            _ => None,
        };
        PartJudgement { interval: Some(interval), doubt, ..part.0 }
    }

    /// A knee has an interval of its own, of 95 %. Where a claim of several parts asks for more, that end is unknown.
    /// `found` is the left side by the knees themselves.
    fn compare_knees(&self, sides: Sides<'_>, found: f64, levels: Levels, shown: String) -> PartJudgement {
        let ends = [KneeEnd::Low, KneeEnd::High].map(|end| {
            let mut evaluator = self.evaluator(self.evidence.all);
            evaluator.knees = end;
            evaluator.both(sides.left, sides.right)
        });
        let (one, other) = match ends {
            [Ok(one), Ok(other)] => (one, other),
            [Err(why), _] | [_, Err(why)] => {
                return PartJudgement { doubt: Some(why), ..PartJudgement::new(Margin::unknown(), shown) };
            }
        };
        let (left, right) = ([one.0.min(other.0), one.0.max(other.0)], [one.1.min(other.1), one.1.max(other.1)]);
        let scale = Scale::of(&[(left[0], right[0])]);
        let whole = Levels::of_looks(1);
        let bound = |level: f64, whole: f64, end: f64, otherwise: f64| if level >= whole { end } else { otherwise };
        let (low, high) = (scale.distance(left[0], right[1]), scale.distance(left[1], right[0]));
        let levels = if is_reversed(sides.operator) { levels.negated() } else { levels };
        let margin = Margin::within(
            f64::midpoint(low, high),
            bound(levels.low, whole.low, low, f64::NEG_INFINITY),
            bound(levels.high, whole.high, high, f64::INFINITY),
        );
        let part = PartJudgement::new(oriented(sides.operator, margin), shown);
        let is_constant = right[0] == right[1];
        let interval = ClaimInterval { of: IntervalOf::Left, value: found, low: Some(left[0]), high: Some(left[1]) };
        PartJudgement { interval: is_constant.then_some(interval), ..part }
    }

    /// How far the second runs of the first setting lie from its first runs, by the mean over blocks, in logarithms: a
    /// smaller difference between two settings is not significant. 0 if no setting ran twice.
    fn floor(&mut self, measured: &MeasuredFigure) -> f64 {
        let metric = match measured.figure {
            Figure::Metric(metric) => metric,
            Figure::Gain(_) | Figure::Penalty(_) => Metric::MeanLatency,
            Figure::Knee(..) => return 0.0,
        };
        let cell = Cell { setting: 0, arm: measured.arm, workload: measured.workload, part: measured.part.clone() };
        let evidence = self.evidence;
        *self.floors.entry((cell, metric)).or_insert_with_key(|(cell, metric)| {
            let pairs = evidence.blocks.iter().zip(&evidence.again).filter_map(|(first, again)| {
                let (first, again) = (first.figure(cell, *metric).ok()?, again.figure(cell, *metric).ok()?);
                (first > 0.0 && again > 0.0).then(|| (again / first).ln())
            });
            let pairs: Vec<f64> = pairs.collect();
            (pairs.iter().sum::<f64>() / pairs.len().max(1) as f64).abs()
        })
    }
}

/// Whether a figure, which cannot be below 0, was above 0 in every block while the bound is not. Noise cannot change
/// that.
fn is_above_a_bound_of_0(pairs: &[(f64, f64)]) -> bool {
    pairs.iter().all(|(figure, bound)| *figure > 0.0 && *bound <= 0.0)
}

/// How two sides are compared in every block.
#[derive(Clone, Copy)]
struct Scale {
    is_ratio: bool,
    /// The size of a small relative difference on this scale.
    per_relative: f64,
}

impl Scale {
    fn of(pairs: &[(f64, f64)]) -> Self {
        let is_ratio = pairs.iter().all(|(left, right)| *left > 0.0 && *right > 0.0);
        let larger = pairs.iter().map(|(left, right)| left.abs().max(right.abs())).fold(0.0, f64::max);
        Scale { is_ratio, per_relative: if is_ratio { 1.0 } else { larger } }
    }

    /// Above 0 if the left side is larger. Differences by rounding count as equal.
    fn distance(self, left: f64, right: f64) -> f64 {
        match self.is_ratio {
            _ if (left - right).abs() < ROUNDING * left.abs().max(right.abs()) => 0.0,
            true => (left / right).ln(),
            false => left - right,
        }
    }

    /// The interval of distances, converted to the left side if the right one is a constant, else to the ratio or the
    /// difference.
    fn interval(self, margin: Margin, right: Option<f64>) -> ClaimInterval {
        let (of, number): (_, Box<dyn Fn(f64) -> f64>) = match (right, self.is_ratio) {
            (Some(right), true) => (IntervalOf::Left, Box::new(move |distance: f64| right * distance.exp())),
            (Some(right), false) => (IntervalOf::Left, Box::new(move |distance: f64| right + distance)),
            (None, true) => (IntervalOf::Ratio, Box::new(f64::exp)),
            (None, false) => (IntervalOf::Difference, Box::new(|distance| distance)),
        };
        let end = |end: f64| end.is_finite().then(|| number(end)).filter(|end| end.is_finite());
        ClaimInterval { of, value: number(margin.value), low: end(margin.low), high: end(margin.high) }
    }
}

/// The part that follows from distances of left and right, and the margin of left over right.
fn judged_blocks(
    operator: Operator,
    distances: &[f64],
    levels: Levels,
    least: f64,
    shown: String,
) -> (PartJudgement, Margin) {
    let levels = match operator {
        Operator::Less | Operator::LessOrEqual => levels.negated(),
        Operator::Equal => levels.of_equality(),
        Operator::NotEqual => levels.negated().of_equality(),
        _ => levels,
    };
    let margin = Margin::of_blocks(distances, levels, least);
    (PartJudgement::new(oriented(operator, margin), shown), margin)
}

fn is_reversed(operator: Operator) -> bool {
    matches!(operator, Operator::Less | Operator::LessOrEqual)
}

/// The margin of a comparison, from that of the left side over the right one.
fn oriented(operator: Operator, margin: Margin) -> Margin {
    if margin.is_exact() {
        return Margin::certain(is_true(operator, margin.value, 0.0));
    }
    match operator {
        Operator::Equal => margin.equality(),
        Operator::NotEqual => margin.equality().negated(),
        _ if is_reversed(operator) => margin.negated(),
        _ => margin,
    }
}

/// The parts of `a and b and c`, or of `a or b or c`.
fn flatten<'a>(condition: &'a Condition, is_or: bool, parts: &mut Vec<&'a Condition>) {
    match condition {
        Condition::And(left, right) if !is_or => [left, right].into_iter().for_each(|one| flatten(one, is_or, parts)),
        Condition::Or(left, right) if is_or => [left, right].into_iter().for_each(|one| flatten(one, is_or, parts)),
        other => parts.push(other),
    }
}

/// Joins several parts by `and` or `or`. Shows the parts that decided, or that may still decide.
fn joined(parts: Vec<PartJudgement>, is_or: bool) -> PartJudgement {
    let join = if is_or { Margin::or } else { Margin::and };
    let margin = parts.iter().map(|part| part.margin).reduce(join).expect("there are two sides at least");
    let decisive = if is_or { Verdict::Holds } else { Verdict::Fails };
    let missing = parts.iter().find_map(|part| part.missing.clone());
    let is_shown = |part: &&PartJudgement| match margin.verdict() {
        verdict if verdict == decisive => part.margin.verdict() == decisive,
        Verdict::Undecided => part.margin.verdict() == Verdict::Undecided && part.missing.is_none(),
        _ => true,
    };
    let shown: Vec<&PartJudgement> = parts.iter().filter(is_shown).collect();
    let interval = if let [one] = &shown[..] { one.interval } else { None };
    let doubt = shown.iter().find_map(|part| part.doubt.clone());
    let texts: Vec<&str> = shown.iter().map(|part| part.shown.as_str()).collect();
    PartJudgement { interval, missing, doubt, ..PartJudgement::new(margin, texts.join(" and ")) }
}

/// All of several cases, showing the one that is most likely to be a counterexample.
fn worst(cases: Vec<PartJudgement>) -> PartJudgement {
    let margin = cases.iter().map(|case| case.margin).reduce(Margin::and).expect("there is a case");
    let missing = cases.iter().find_map(|case| case.missing.clone());
    let is_worse = |a: &&PartJudgement, b: &&PartJudgement| {
        let key = |part: &PartJudgement| match margin.verdict() {
            Verdict::Fails => (part.margin.high, part.margin.value),
            _ => (part.margin.low, part.margin.value),
        };
        let ((a, a_value), (b, b_value)) = (key(a), key(b));
        a.total_cmp(&b).then(a_value.total_cmp(&b_value))
    };
    let known = cases.iter().filter(|case| case.missing.is_none());
    match known.min_by(is_worse).cloned() {
        Some(worst) => PartJudgement { margin, missing: worst.missing.clone().or(missing), ..worst },
        None => PartJudgement::missing(missing.expect("a case that is not known says why")),
    }
}
