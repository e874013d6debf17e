//! A claim with every name bound: only arithmetic on figures of cells remains.

use super::figures::{Metric, RequestSubset};
use super::syntax::{Mean, Operator};

/// Something that is true or false.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Condition {
    Compare(Operator, Formula, Formula),
    Not(Box<Condition>),
    And(Box<Condition>, Box<Condition>),
    Or(Box<Condition>, Box<Condition>),
    /// For every value of an axis that meets a condition.
    ForAll {
        /// Position of the axis in the plan.
        axis: usize,
        /// The values that count.
        condition: Option<Box<Condition>>,
        body: Box<Condition>,
    },
}

/// Something that is a number.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Formula {
    Number(f64),
    /// The current value of the `for all` or average at this depth, the outermost being 0. All values of its axis are numbers.
    Variable(usize),
    Negative(Box<Formula>),
    Arithmetic(Operator, Box<Formula>, Box<Formula>),
    Minimum(Vec<Formula>),
    Maximum(Vec<Formula>),
    Absolute(Box<Formula>),
    /// Jain's index.
    Fairness(Vec<Formula>),
    /// The mean over every value of an axis that meets a condition.
    Average {
        mean: Mean,
        /// Position of the axis in the plan.
        axis: usize,
        /// The values that count.
        condition: Option<Box<Condition>>,
        body: Box<Formula>,
    },
    Measured(Box<MeasuredFigure>),
}

impl Condition {
    /// The comparisons that all must hold.
    pub(super) fn comparisons<'a>(&'a self, found: &mut Vec<(Operator, &'a Formula, &'a Formula)>) {
        match self {
            Condition::Compare(operator, left, right) => found.push((*operator, left, right)),
            Condition::And(one, other) => [one, other].into_iter().for_each(|part| part.comparisons(found)),
            Condition::ForAll { body, .. } => body.comparisons(found),
            Condition::Not(_) | Condition::Or(..) => {}
        }
    }
}

impl Formula {
    /// Its value if nothing in it is measured.
    pub(super) fn constant(&self) -> Option<f64> {
        match self {
            Formula::Number(number) => Some(*number),
            Formula::Negative(inner) => Some(-inner.constant()?),
            Formula::Arithmetic(operator, left, right) => {
                let (left, right) = (left.constant()?, right.constant()?);
                Some(match operator {
                    Operator::Add => left + right,
                    Operator::Subtract => left - right,
                    Operator::Multiply => left * right,
                    _ => left / right,
                })
            }
            _ => None,
        }
    }

    /// Adds all that is measured in it.
    pub(super) fn figures<'a>(&'a self, found: &mut Vec<&'a MeasuredFigure>) {
        match self {
            Formula::Number(_) | Formula::Variable(_) => {}
            Formula::Negative(inner) | Formula::Absolute(inner) => inner.figures(found),
            Formula::Average { body, .. } => body.figures(found),
            Formula::Arithmetic(_, left, right) => [left, right].into_iter().for_each(|side| side.figures(found)),
            Formula::Minimum(parts) | Formula::Maximum(parts) | Formula::Fairness(parts) => {
                parts.iter().for_each(|part| part.figures(found));
            }
            Formula::Measured(measured) => found.push(measured),
        }
    }
}

/// Measurements and the number derived from them.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct MeasuredFigure {
    pub figure: Figure,
    /// The value of each axis, in the order of the plan.
    pub pins: Vec<Pin>,
    /// Position of the arm.
    pub arm: usize,
    /// Position of the workload.
    pub workload: usize,
    pub part: RequestSubset,
}

/// The number derived from measurements.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Figure {
    /// The mean of a metric over all settings left open; the geometric mean, if it is a ratio.
    Metric(Metric),
    /// Mean latency at the first value of this axis over that at the value pinned.
    Gain(usize),
    /// The inverse.
    Penalty(usize),
    /// The smallest value of this axis sufficient for a share.
    Knee(usize, f64),
}

/// A value of an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pin {
    Each,
    At(usize),
    /// The current value of the `for all` or average at this depth.
    Variable(usize),
}
