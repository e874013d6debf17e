//! Judges a claim by figures.

use super::Claim;
use super::figures::{Cell, Figures, Metric};
use super::formula::{Condition, Figure, Formula, MeasuredFigure, Pin};
use super::syntax::{Mean, Operator};
use crate::plan::{Axis, Plan, positions};
use plimsoll_display as units;
use plimsoll_model::fairness::jain_index;

/// The result of evaluating a claim.
#[derive(Debug, Clone, PartialEq)]
pub struct Evaluation {
    /// Whether it holds; `None` if it could not be judged.
    pub holds: Option<bool>,
    /// Both sides of the deciding comparison, as numbers for people: `5.60 >= 5.18`. For a `for all`, the worst case
    /// and its place: `0.92 >= 0.9 at dop=4`.
    pub value: Option<String>,
    /// The left side of that comparison; `None` if two comparisons decided together.
    pub left: Option<f64>,
    /// Why it could not be judged.
    pub why_not: Option<String>,
}

impl Claim {
    /// Judges it. The plan is the one it was bound to.
    pub fn evaluate(&self, plan: &Plan, figures: &dyn Figures) -> Evaluation {
        let judgement = match &self.condition {
            Ok(condition) => Evaluator::new(plan, figures, Vec::new()).judge(condition),
            Err(why) => Err(why.clone()),
        };
        match judgement {
            Ok(Judgement { holds, left, shown, .. }) => {
                Evaluation { holds: Some(holds), value: Some(shown), left, why_not: None }
            }
            Err(why) => Evaluation { holds: None, value: None, left: None, why_not: Some(why) },
        }
    }
}

/// The value of a formula, or why a part of it was not measured.
pub(super) fn number(formula: &Formula, plan: &Plan, figures: &dyn Figures) -> Measurement<f64> {
    Evaluator::new(plan, figures, Vec::new()).number(formula)
}

/// A condition that was decided.
#[derive(Debug, Clone)]
struct Judgement {
    holds: bool,
    /// How far it is from being decided otherwise: the difference of the two sides relative to the larger one.
    margin: f64,
    /// The left side of the comparison; `None` if two comparisons decided together.
    left: Option<f64>,
    shown: String,
}

/// Why something was not measured.
pub(super) type Measurement<T> = Result<T, String>;

/// The number that represents a knee.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum KneeEnd {
    Knee,
    Low,
    High,
}

pub(super) struct Evaluator<'a> {
    plan: &'a Plan,
    figures: &'a dyn Figures,
    /// The current value of each `for all` and average around, outermost first: axis and position.
    at: Vec<(usize, usize)>,
    pub(super) knees: KneeEnd,
    /// The coarsest [`Figures::resolution`] of the figures read so far.
    resolution: std::cell::Cell<f64>,
}

impl<'a> Evaluator<'a> {
    pub(super) fn new(plan: &'a Plan, figures: &'a dyn Figures, at: Vec<(usize, usize)>) -> Self {
        Evaluator { plan, figures, at, knees: KneeEnd::Knee, resolution: std::cell::Cell::new(0.0) }
    }

    /// Both sides of a comparison.
    pub(super) fn both(&mut self, left: &Formula, right: &Formula) -> Measurement<(f64, f64)> {
        Ok((self.number(left)?, self.number(right)?))
    }

    pub(super) fn is_true(&mut self, condition: &Condition) -> Measurement<bool> {
        Ok(self.judge(condition)?.holds)
    }

    pub(super) fn resolution(&self) -> f64 {
        self.resolution.get()
    }

    fn judge(&mut self, condition: &Condition) -> Measurement<Judgement> {
        match condition {
            Condition::Compare(operator, left, right) => {
                Ok(compare(*operator, self.number(left)?, self.number(right)?))
            }
            Condition::Not(inner) => {
                let inner = self.judge(inner)?;
                Ok(Judgement { holds: !inner.holds, shown: format!("not ({})", inner.shown), ..inner })
            }
            Condition::And(left, right) => joined(self.judge(left), self.judge(right), false),
            Condition::Or(left, right) => joined(self.judge(left), self.judge(right), true),
            Condition::ForAll { axis, condition, body } => self.judge_all(*axis, condition.as_deref(), body),
        }
    }

    /// The worst case: the clearest of those that fail, or else the closest of those that hold.
    fn judge_all(&mut self, axis: usize, condition: Option<&Condition>, body: &Condition) -> Measurement<Judgement> {
        let plan = self.plan;
        let Axis { key, values, .. } = &plan.axes[axis];
        let (mut worst, mut unknown): (Option<Judgement>, Option<String>) = (None, None);
        for (position, value) in values.iter().enumerate() {
            self.at.push((axis, position));
            let counts = condition.map_or(Ok(true), |condition| Ok(self.judge(condition)?.holds));
            let judged = counts.and_then(|counts| counts.then(|| self.judge(body)).transpose());
            self.at.pop();
            match judged {
                Ok(None) => {}
                Ok(Some(mut judged)) => {
                    let joint = if judged.shown.contains(" at ") { "," } else { " at" };
                    judged.shown = format!("{}{joint} {key}={}", judged.shown, units::value(value));
                    worst = Some(worst.filter(|worst| worst.severity() >= judged.severity()).unwrap_or(judged));
                }
                Err(why) => unknown = unknown.or(Some(why)),
            }
        }
        match (worst, unknown) {
            (Some(worst), _) if !worst.holds => Ok(worst),
            (_, Some(why)) => Err(why),
            (Some(worst), None) => Ok(worst),
            (None, None) => Err(none_meets(key)),
        }
    }

    fn number(&mut self, formula: &Formula) -> Measurement<f64> {
        let number = match formula {
            Formula::Number(number) => *number,
            Formula::Variable(depth) => {
                let (axis, position) = self.at[*depth];
                self.plan.axes[axis].values[position].as_f64().expect("bound only where all values are numbers")
            }
            Formula::Negative(inner) => -self.number(inner)?,
            Formula::Arithmetic(operator, left, right) => {
                let (left, right) = (self.number(left)?, self.number(right)?);
                match operator {
                    Operator::Add => left + right,
                    Operator::Subtract => left - right,
                    Operator::Multiply => left * right,
                    _ if right == 0.0 => return Err(format!("{} cannot be divided by 0", shown(left, 3))),
                    _ => left / right,
                }
            }
            Formula::Minimum(parts) => self.fold(parts, f64::min)?,
            Formula::Maximum(parts) => self.fold(parts, f64::max)?,
            Formula::Absolute(inner) => self.number(inner)?.abs(),
            Formula::Fairness(parts) => self.fairness(parts)?,
            Formula::Average { mean, axis, condition, body } => {
                self.average(*mean, *axis, condition.as_deref(), body)?
            }
            Formula::Measured(measured) => self.measured(measured)?,
        };
        if number.is_finite() { Ok(number) } else { Err(format!("a part of it is {number}, which is not finite")) }
    }

    /// Not measured if any of the selected values is not: a mean of the others would pass for the mean of all.
    fn average(&mut self, mean: Mean, axis: usize, condition: Option<&Condition>, body: &Formula) -> Measurement<f64> {
        let plan = self.plan;
        let Axis { key, values, .. } = &plan.axes[axis];
        let (mut sum, mut count) = (0.0, 0);
        for position in 0..values.len() {
            self.at.push((axis, position));
            let counts = condition.map_or(Ok(true), |condition| Ok(self.judge(condition)?.holds));
            let number = counts.and_then(|counts| counts.then(|| self.number(body)).transpose());
            self.at.pop();
            match (number?, mean) {
                (None, _) => continue,
                (Some(number), Mean::Arithmetic) => sum += number,
                (Some(number), Mean::Geometric) if number > 0.0 => sum += number.ln(),
                (Some(number), Mean::Geometric) => {
                    return Err(format!("{} has no geometric mean with others", shown(number, 3)));
                }
            }
            count += 1;
        }
        match mean {
            _ if count == 0 => Err(none_meets(key)),
            Mean::Arithmetic => Ok(sum / f64::from(count)),
            Mean::Geometric => Ok((sum / f64::from(count)).exp()),
        }
    }

    fn numbers(&mut self, parts: &[Formula]) -> Measurement<Vec<f64>> {
        parts.iter().map(|part| self.number(part)).collect()
    }

    fn fold(&mut self, parts: &[Formula], join: fn(f64, f64) -> f64) -> Measurement<f64> {
        Ok(self.numbers(parts)?.into_iter().reduce(join).expect("the parser asks for one at least"))
    }

    fn fairness(&mut self, parts: &[Formula]) -> Measurement<f64> {
        let shares = self.numbers(parts)?;
        if let Some(below) = shares.iter().find(|share| **share < 0.0) {
            return Err(format!("{} is no share", shown(*below, 3)));
        }
        jain_index(&shares).ok_or_else(|| "all shares are 0".to_owned())
    }

    fn measured(&self, measured: &MeasuredFigure) -> Measurement<f64> {
        let plan = self.plan;
        let mut chosen: Vec<Option<usize>> = measured.pins.iter().map(|pin| self.position(*pin)).collect();
        if let Figure::Knee(axis, _) = measured.figure {
            // One figure of all its values.
            chosen[axis] = Some(0);
        }
        let open: Vec<usize> = chosen
            .iter()
            .zip(&plan.axes)
            .map(|(chosen, axis)| if chosen.is_some() { 1 } else { axis.values.len() })
            .collect();
        let chosen: Vec<usize> = chosen.into_iter().map(|chosen| chosen.unwrap_or(0)).collect();
        let is_ratio = matches!(
            measured.figure,
            Figure::Gain(_) | Figure::Penalty(_) | Figure::Metric(Metric::ThroughputRelativeToAlone)
        );
        let (count, mut sum, mut last) = (open.iter().product::<usize>(), 0.0, 0.0);
        for number in 0..count {
            let mut positions = positions(number, &open);
            positions.iter_mut().zip(&chosen).for_each(|(position, chosen)| *position += chosen);
            last = self.at_setting(measured, &positions)?;
            sum += if is_ratio { last.ln() } else { last };
        }
        let mean = sum / count as f64;
        // A single figure is returned unchanged, without the rounding of a logarithm.
        Ok(if count == 1 {
            last
        } else if is_ratio {
            mean.exp()
        } else {
            mean
        })
    }

    fn position(&self, pin: Pin) -> Option<usize> {
        match pin {
            Pin::Each => None,
            Pin::At(position) => Some(position),
            Pin::Variable(depth) => Some(self.at[depth].1),
        }
    }

    /// The figure at the setting with these values; of a knee, all along its axis.
    fn at_setting(&self, measured: &MeasuredFigure, positions: &[usize]) -> Measurement<f64> {
        let at = |positions: &[usize]| Cell {
            setting: self.plan.setting_number(positions),
            arm: measured.arm,
            workload: measured.workload,
            part: measured.part.clone(),
        };
        let cell = at(positions);
        let figure = |cell: &Cell, metric| {
            self.resolution.set(self.resolution.get().max(self.figures.resolution(cell, metric)));
            self.figures.figure(cell, metric).map_err(|why| self.located(cell, &why))
        };
        let gain = |axis: usize| {
            let mut first = positions.to_vec();
            first[axis] = 0;
            let (before, after) = (figure(&at(&first), Metric::MeanLatency)?, figure(&cell, Metric::MeanLatency)?);
            if before > 0.0 && after > 0.0 { Ok(before / after) } else { Err(self.located(&cell, "latency is 0")) }
        };
        match measured.figure {
            Figure::Metric(metric) => figure(&cell, metric),
            Figure::Gain(axis) => gain(axis),
            Figure::Penalty(axis) => Ok(1.0 / gain(axis)?),
            Figure::Knee(axis, share) => {
                let found = match self.knees {
                    KneeEnd::Knee => self.figures.knee(axis, share, &cell),
                    KneeEnd::Low => self.figures.knee_bounds(axis, share, &cell).map(|[low, _]| low),
                    KneeEnd::High => self.figures.knee_bounds(axis, share, &cell).map(|[_, high]| high),
                };
                found.map_err(|why| self.located(&cell, &why))
            }
        }
    }

    /// A reason with the cell to which it applies in front.
    fn located(&self, cell: &Cell, why: &str) -> String {
        let (workload, arm) = (&self.plan.base.workloads[cell.workload].name, &self.plan.arms[cell.arm].name);
        let swept: Vec<String> = positions(cell.setting, &self.plan.axis_lengths())
            .iter()
            .zip(&self.plan.axes)
            .map(|(position, axis)| format!("{}={}", axis.key, units::value(&axis.values[*position])))
            .collect();
        let place = if swept.is_empty() { String::new() } else { format!(" at {}", swept.join(", ")) };
        format!("{} of `{workload}` in `{arm}`{place}: {why}", cell.part)
    }
}

pub(super) fn none_meets(key: &str) -> String {
    format!("no value of `{key}` meets the condition behind `where`")
}

impl Judgement {
    /// The severity of a case: above 0 if it fails.
    fn severity(&self) -> f64 {
        if self.holds { -self.margin } else { self.margin }
    }
}

/// Joins two conditions by `or` or, if not, by `and`. One that is decided may decide alone.
fn joined(left: Measurement<Judgement>, right: Measurement<Judgement>, is_or: bool) -> Measurement<Judgement> {
    match (left, right) {
        (Ok(left), Ok(right)) if left.holds == right.holds => {
            let (close, clear) = if left.margin < right.margin { (&left, &right) } else { (&right, &left) };
            let margin = if left.holds == is_or { clear.margin } else { close.margin };
            let shown = format!("{} and {}", left.shown, right.shown);
            Ok(Judgement { holds: left.holds, margin, left: None, shown })
        }
        (Ok(decisive), _) | (_, Ok(decisive)) if decisive.holds == is_or => Ok(decisive),
        (Ok(_), Ok(decisive)) => Ok(decisive),
        (Err(why), _) | (_, Err(why)) => Err(why),
    }
}

/// Numbers that differ by less than this, relatively, are equal: they differ by rounding only.
pub(super) const ROUNDING: f64 = 1e-9;

fn compare(operator: Operator, left: f64, right: f64) -> Judgement {
    let holds = is_true(operator, left, right);
    Judgement { holds, margin: margin(left, right), left: Some(left), shown: shown_comparison(operator, left, right) }
}

/// The difference relative to the larger.
fn margin(left: f64, right: f64) -> f64 {
    let scale = left.abs().max(right.abs());
    if scale == 0.0 { 0.0 } else { (left - right).abs() / scale }
}

/// Whether the comparison of two numbers is true.
pub(super) fn is_true(operator: Operator, left: f64, right: f64) -> bool {
    let is_equal = margin(left, right) < ROUNDING;
    match operator {
        Operator::Less => left < right && !is_equal,
        Operator::LessOrEqual => left < right || is_equal,
        Operator::Greater => left > right && !is_equal,
        Operator::GreaterOrEqual => left > right || is_equal,
        Operator::Equal => is_equal,
        _ => !is_equal,
    }
}

/// A comparison with as many digits as distinguish both sides.
pub(super) fn shown_comparison(operator: Operator, left: f64, right: f64) -> String {
    let texts = |digits| [shown(left, digits), shown(right, digits)];
    let is_equal = margin(left, right) < ROUNDING;
    let digits = [3, 6, 9].into_iter().find(|digits| is_equal || texts(*digits)[0] != texts(*digits)[1]);
    let [left, right] = texts(digits.unwrap_or(12));
    format!("{left} {} {right}", operator.symbol())
}

/// A number with this many significant digits, all digits before the point, and no zeros at the end: `5.6`, `0.95`, `12000`. From ten
/// million up, which are hard to read at a glance, in millions or billions: `23.3 G`.
pub(crate) fn shown(number: f64, digits: i32) -> String {
    match number.abs() {
        large if large >= 1e9 => return format!("{} G", shown(number / 1e9, digits)),
        large if large >= 1e7 => return format!("{} M", shown(number / 1e6, digits)),
        _ => {}
    }
    let before = if number == 0.0 { 1 } else { number.abs().log10().floor() as i32 + 1 };
    let text = format!("{number:.*}", (digits - before).clamp(0, 20) as usize);
    if !text.contains('.') {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
