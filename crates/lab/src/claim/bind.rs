//! Binds the names in a claim to an experiment, and distinguishes numbers from conditions.

use plimsoll_model::knee::SHARES;
use plimsoll_notation::{choices, did_you_mean};
use plimsoll_workload::driver::PriorityRule;

use super::ClaimError;
use super::figures::{Metric, RequestSubset};
use super::formula::{Condition, Figure, Formula, MeasuredFigure, Pin};
use super::select::Selection;
use super::syntax::{Calculation, Call, Expression, Form, Function, Operator, Quantifier, Span, Word};
use crate::amounts::{AmountKind, Amounts};
use crate::figures::{Figure as Listed, FigureArgument, FigureSource, FigureSubject, Times, Unit, given_by};
use crate::plan::Plan;

/// The names that a claim may use.
#[derive(Debug, Clone, Copy)]
pub struct Names<'a> {
    /// The experiment; its claims are ignored.
    pub plan: &'a Plan,
    /// The kinds of transaction or query of each workload, in the order of the plan.
    pub transactions: &'a [Vec<String>],
    /// The priorities that these have by the definition of their workload, see
    /// [`Benchmark::priorities`](plimsoll_workload::benchmark::Benchmark::priorities).
    pub priorities: &'a [Vec<Option<PriorityRule>>],
}

/// A variable of a `for all` or an average, and the axis that it runs over. Its depth is its position in a list of these.
pub(super) type Variable = (String, usize);

pub(super) fn bind(expression: &Expression, names: &Names<'_>) -> Result<Condition, ClaimError> {
    Binder { names, variables: Vec::new() }.condition(expression)
}

pub(super) fn bind_number(expression: &Expression, names: &Names<'_>) -> Result<Formula, ClaimError> {
    Binder { names, variables: Vec::new() }.number(expression)
}

pub(super) fn error<T>(span: &Span, message: impl Into<String>) -> Result<T, ClaimError> {
    Err(ClaimError { span: span.clone(), message: message.into() })
}

struct Binder<'a> {
    names: &'a Names<'a>,
    variables: Vec<Variable>,
}

impl Binder<'_> {
    fn condition(&mut self, expression: &Expression) -> Result<Condition, ClaimError> {
        match &expression.form {
            Form::Not(inner) => Ok(Condition::Not(Box::new(self.condition(inner)?))),
            Form::Binary(Operator::And, left, right) => {
                Ok(Condition::And(Box::new(self.condition(left)?), Box::new(self.condition(right)?)))
            }
            Form::Binary(Operator::Or, left, right) => {
                Ok(Condition::Or(Box::new(self.condition(left)?), Box::new(self.condition(right)?)))
            }
            Form::Binary(operator, left, right) if !is_arithmetic(*operator) => {
                Ok(Condition::Compare(*operator, self.number(left)?, self.number(right)?))
            }
            Form::ForAll(all) => self.for_all(all),
            _ => error(
                &expression.span,
                format!("`{expression}` is a number, where something must hold; compare it, as in `{expression} >= 1`"),
            ),
        }
    }

    fn for_all(&mut self, all: &Quantifier) -> Result<Condition, ClaimError> {
        let (axis, condition, body) = self.over(all, Self::condition)?;
        Ok(Condition::ForAll { axis, condition, body: Box::new(body) })
    }

    /// The axis, the condition, and the body as `bind` reads it with the variable in scope.
    fn over<T>(
        &mut self,
        over: &Quantifier,
        bind: fn(&mut Self, &Expression) -> Result<T, ClaimError>,
    ) -> Result<(usize, Option<Box<Condition>>, T), ClaimError> {
        let axis = Selection::axis(self.names, &over.axis)?;
        let Quantifier { variable, .. } = over;
        if self.variables.iter().any(|(name, _)| *name == variable.text) {
            return error(
                &variable.span,
                format!("`{}` would stand for two values; choose another name", variable.text),
            );
        }
        if let Some(what) = Selection::known(self.names, &variable.text) {
            return error(
                &variable.span,
                format!("`{}` is already {what}; choose another name for the value, such as `x`", variable.text),
            );
        }
        self.variables.push((variable.text.clone(), axis));
        let condition = over.condition.as_ref().map(|condition| self.condition(condition)).transpose();
        let body = bind(self, &over.body);
        self.variables.pop();
        Ok((axis, condition?.map(Box::new), body?))
    }

    fn number(&mut self, expression: &Expression) -> Result<Formula, ClaimError> {
        let boxed = |formula: Result<Formula, ClaimError>| formula.map(Box::new);
        match &expression.form {
            Form::Number(number) => Ok(Formula::Number(*number)),
            Form::Variable(name) => self.variable(name, &expression.span),
            Form::Negative(inner) => Ok(Formula::Negative(boxed(self.number(inner))?)),
            Form::Binary(operator, left, right) if is_arithmetic(*operator) => {
                Ok(Formula::Arithmetic(*operator, boxed(self.number(left))?, boxed(self.number(right))?))
            }
            Form::Calculation(calculation, arguments) => {
                let mut parts =
                    arguments.iter().map(|argument| self.number(argument)).collect::<Result<Vec<_>, _>>()?;
                match calculation {
                    Calculation::Minimum => Ok(Formula::Minimum(parts)),
                    Calculation::Maximum => Ok(Formula::Maximum(parts)),
                    Calculation::Absolute if parts.len() == 1 => Ok(Formula::Absolute(Box::new(parts.remove(0)))),
                    Calculation::Fairness => Ok(Formula::Fairness(parts)),
                    Calculation::Absolute => error(&expression.span, "abs takes one number"),
                }
            }
            Form::Figure(call) => Ok(Formula::Measured(Box::new(self.measured(call, &expression.span)?))),
            Form::Average(mean, over) => {
                let (axis, condition, body) = self.over(over, Self::number)?;
                Ok(Formula::Average { mean: *mean, axis, condition, body: Box::new(body) })
            }
            Form::Not(_) | Form::Binary(..) | Form::ForAll(_) => {
                error(&expression.span, format!("`{expression}` is true or false, but a number is needed"))
            }
        }
    }

    fn variable(&self, name: &str, span: &Span) -> Result<Formula, ClaimError> {
        let Some(depth) = self.variables.iter().position(|(known, _)| known == name) else {
            let message = match Selection::known(self.names, name) {
                Some(what) => {
                    format!("`{name}` is {what}, not a number; write a figure of it, such as throughput({name})")
                }
                None => format!("`{name}` stands for nothing; name a value by `for all {name} in SWEEP-KEY: …`"),
            };
            return error(span, message);
        };
        let axis = &self.names.plan.axes[self.variables[depth].1];
        if axis.numbers().is_none() {
            let message =
                format!("`{name}` runs over `{}`, whose values are not numbers; use it in selectors only", axis.key);
            return error(span, message);
        }
        Ok(Formula::Variable(depth))
    }

    fn measured(&self, call: &Call, span: &Span) -> Result<MeasuredFigure, ClaimError> {
        let selection = Selection::new(self.names, &self.variables, &call.selectors)?;
        let figure = self.figure(call, &selection, span)?;
        let workload = selection.workload(span)?;
        let arm = match call.function {
            Function::Ratio => selection.arm_of_ratio(workload, span)?,
            _ => selection.arm(workload, span)?,
        };
        Ok(MeasuredFigure { figure, arm, workload, part: selection.part(), pins: selection.pins })
    }

    fn figure(&self, call: &Call, selection: &Selection<'_>, span: &Span) -> Result<Figure, ClaimError> {
        let subject = || call.subject.as_ref().expect("the parser asks for one where the function takes one");
        let compared = || match selection.first_axis {
            Some(axis) => Ok(axis),
            None => error(
                span,
                format!(
                    "{name} compares a swept value with the first value of its axis; name one, as in {name}(pow)",
                    name = call.function.name()
                ),
            ),
        };
        Ok(match call.function {
            Function::Ratio => Figure::Metric(Metric::ThroughputRelativeToAlone),
            Function::Gain => Figure::Gain(compared()?),
            Function::Penalty => Figure::Penalty(compared()?),
            Function::Knee => {
                is_known_of(FigureSubject::Workload, "a knee", selection, span)?;
                self.knee(subject(), call.level.expect("the parser asks for one"), selection, span)?
            }
            Function::Figure(name) => {
                let (figure, asking) = listed(name, call.subject.as_ref())?;
                is_known_of(figure.of, name, selection, span)?;
                Figure::Metric(match name {
                    "throughput" => Metric::Throughput,
                    "mean" => Metric::MeanLatency,
                    _ => Metric::Listed(figure, asking),
                })
            }
        })
    }

    fn knee(&self, key: &Word, share: f64, selection: &Selection<'_>, span: &Span) -> Result<Figure, ClaimError> {
        let position = Selection::axis(self.names, key)?;
        let axis = &self.names.plan.axes[position];
        let amounts = Amounts::of(&axis.values);
        if !amounts.are_all() || amounts.kind() != Some(AmountKind::Number) {
            return error(&key.span, format!("`{}` has no knee: its values are not numbers", axis.key));
        }
        if selection.pins[position] != Pin::Each {
            return error(span, format!("the knee lies along `{}`; do not select a value of it", axis.key));
        }
        match SHARES.into_iter().find(|known| (known - share).abs() < 1e-9) {
            Some(share) => Ok(Figure::Knee(position, share)),
            None => error(span, format!("knees are looked for at the shares {}; this is {share}", choices(SHARES))),
        }
    }
}

fn is_arithmetic(operator: Operator) -> bool {
    matches!(operator, Operator::Add | Operator::Subtract | Operator::Multiply | Operator::Divide)
}

/// Returns an error if the figure is not known for the selected requests.
fn is_known_of(of: FigureSubject, what: &str, selection: &Selection<'_>, span: &Span) -> Result<(), ClaimError> {
    match (of, selection.part()) {
        (_, RequestSubset::All) | (FigureSubject::Transaction, _) | (FigureSubject::Class, RequestSubset::Class(_)) => {
            Ok(())
        }
        (FigureSubject::Class, kind) => {
            error(span, format!("{what} is known of workloads and classes, not of {kind}; leave that out"))
        }
        (_, part) => error(span, format!("{what} is known of workloads, not of parts as {part}; leave that out")),
    }
}

/// The figure that a function gives, with its argument.
fn listed(function: &str, subject: Option<&Word>) -> Result<(&'static Listed, FigureArgument), ClaimError> {
    let figures: Vec<&'static Listed> = given_by(function).collect();
    let first = *figures.first().expect("functions are made of the list");
    let Some(word) = subject else { return Ok((first, FigureArgument::Nothing)) };
    let unknown = |names: Vec<&'static str>| {
        let meant = did_you_mean(&word.text, names.iter().copied());
        let message = format!("{function} gives no `{}`{meant}; it gives {}", word.text, choices(names));
        ClaimError { span: word.span.clone(), message }
    };
    match first.read {
        FigureSource::OfTimes(_) => Ok((first, FigureArgument::Times(times(first, word)?))),
        FigureSource::OfLimit(_) => {
            let limit = crate::limits::names().find(|name| *name == word.text);
            let limit = limit.ok_or_else(|| unknown(crate::limits::names().collect()))?;
            Ok((first, FigureArgument::Limit(limit)))
        }
        FigureSource::Plain(_) | FigureSource::OfDevice(_) => {
            let name = |figure: &&'static Listed| figure.claim.and_then(|asked| asked.subject);
            let found = figures.iter().find(|figure| name(figure) == Some(&word.text));
            let found = found.ok_or_else(|| unknown(figures.iter().filter_map(name).collect()))?;
            Ok((*found, FigureArgument::Nothing))
        }
    }
}

fn times(figure: &Listed, word: &Word) -> Result<Times, ClaimError> {
    let Some(times) = Times::of(&word.text) else {
        let message =
            format!("`{}` is not a number of times; write 0, 1, 2, … or, for at least that many, 1+, 2+, …", word.text);
        return error(&word.span, message);
    };
    // Latencies are kept only for a few numbers of times.
    if figure.unit == Unit::Microseconds && !times.has_latency() {
        let known = choices(["0", "1", "2", "3+", "1+", "2+"]);
        return error(&word.span, format!("latency is kept of requests that waited {known} times, not {times}"));
    }
    Ok(times)
}
