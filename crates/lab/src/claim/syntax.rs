//! A claim as typed: its syntax tree, with the place of every part, and its printed form.

use std::fmt;
use std::ops::Range;

use crate::figures::{self, FigureSource};
use plimsoll_display::distinct;

/// Bytes of the expression.
pub type Span = Range<usize>;

/// A part of a claim. Equality does not look at places.
#[derive(Debug, Clone)]
pub struct Expression {
    pub span: Span,
    pub form: Form,
}

/// The kind of a part of a claim, with its operands.
#[derive(Debug, Clone, PartialEq)]
pub enum Form {
    /// A number, its unit multiplied in: 5ms is 5000, 95% is 0.95.
    Number(f64),
    /// The variable of a `for all` or an `average`.
    Variable(String),
    /// `-a`
    Negative(Box<Expression>),
    /// `not a`
    Not(Box<Expression>),
    /// `a + b`, `a < b`, `a and b`. A chain `a < b < c` is `a < b and b < c`.
    Binary(Operator, Box<Expression>, Box<Expression>),
    /// `min(a, b)`
    Calculation(Calculation, Vec<Expression>),
    /// `p95(together, new_order)`
    Figure(Call),
    /// `for all x in dop where x > 1: …`
    ForAll(Box<Quantifier>),
    /// `average(x in dop where x > 1: …)`, `geomean(x in dop: …)`
    Average(Mean, Box<Quantifier>),
}

/// `x in dop where x > 1: …`
#[derive(Debug, Clone, PartialEq)]
pub struct Quantifier {
    /// The name of the current value.
    pub variable: Word,
    pub axis: Word,
    /// Selects the values that count; `None` for all.
    pub condition: Option<Expression>,
    /// The condition of a `for all`, or the averaged number.
    pub body: Expression,
}

/// A function of measurements with its arguments.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    pub function: Function,
    /// The argument of a function that [takes one](Function::takes_subject): the part of response time of `share`, the
    /// sweep key of `knee`, the number of times of `waited`; `None` for all other functions.
    pub subject: Option<Word>,
    /// The share of `knee`; `None` for all other functions.
    pub level: Option<f64>,
    pub selectors: Vec<Selector>,
}

/// `together`, `pow`, or `dop=2`.
#[derive(Debug, Clone, PartialEq)]
pub struct Selector {
    /// The sweep key, or one of the words `workload`, `arm`, `class`, `transaction`.
    pub key: Option<Word>,
    pub value: Word,
}

/// A name or a value. Equality does not look at places.
#[derive(Debug, Clone)]
pub struct Word {
    /// Where it stands, quotes included.
    pub span: Span,
    /// Without quotes.
    pub text: String,
    /// Whether it stood in quotes; then it is never a variable.
    pub is_quoted: bool,
}

/// An operator with two operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is what its name says")]
pub enum Operator {
    Or,
    And,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Equal,
    NotEqual,
    Add,
    Subtract,
    Multiply,
    Divide,
}

/// A function of numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Calculation {
    Minimum,
    Maximum,
    Absolute,
    /// Jain's index.
    Fairness,
}

/// A function of measurements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Function {
    /// Gives figures of the [list](crate::figures), by its name in [`Figure::claim`](crate::figures::Figure::claim).
    Figure(&'static str),
    /// Throughput over that alone.
    Ratio,
    /// Mean latency at the first value of an axis over that at another (MW tab. 3.3).
    Gain,
    /// The inverse of gain (MW tab. 3.3).
    Penalty,
    /// The smallest sufficient value of an axis.
    Knee,
}

/// Every function of measurements: those of figures in the order of their list, then those that compare cells.
pub fn functions() -> Vec<Function> {
    let asked = figures::figures().filter_map(|figure| figure.claim);
    let mut all = distinct(asked.map(|asked| Function::Figure(asked.function)));
    all.extend([Function::Ratio, Function::Gain, Function::Penalty, Function::Knee]);
    all
}

/// A mean of a number over the values of a sweep key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mean {
    Arithmetic,
    /// Of numbers above 0: the n-th root of the product of n numbers.
    Geometric,
}

impl Mean {
    pub const ALL: [Mean; 2] = [Mean::Arithmetic, Mean::Geometric];

    /// The name of its function.
    pub fn name(self) -> &'static str {
        match self {
            Mean::Arithmetic => "average",
            Mean::Geometric => "geomean",
        }
    }
}

/// Every function of numbers, by name.
pub(crate) static CALCULATIONS: [(&str, Calculation); 4] = [
    ("min", Calculation::Minimum),
    ("max", Calculation::Maximum),
    ("abs", Calculation::Absolute),
    ("jain", Calculation::Fairness),
];

impl Function {
    /// How it is written.
    pub fn name(self) -> &'static str {
        match self {
            Function::Figure(name) => name,
            Function::Ratio => "ratio",
            Function::Gain => "gain",
            Function::Penalty => "penalty",
            Function::Knee => "knee",
        }
    }

    /// Its first argument, in words; `None` for a function that takes selectors only.
    fn subject(self) -> Option<&'static str> {
        let Function::Figure(name) = self else { return (self == Function::Knee).then_some("SWEEP KEY, SHARE") };
        let first = figures::given_by(name).next()?;
        match first.read {
            FigureSource::OfTimes(_) => Some("TIMES"),
            FigureSource::OfLimit(_) => Some("LIMIT"),
            FigureSource::Plain(_) | FigureSource::OfDevice(_) => first.claim?.subject.map(|_| match name {
                "per_request" => "EVENT",
                "device" => "FIGURE",
                "aborted" => "CAUSE",
                _ => "PART",
            }),
        }
    }

    /// Whether its first argument names the figure that it gives.
    pub fn takes_subject(self) -> bool {
        self.subject().is_some()
    }

    /// Its arguments: `share(FIGURE, SELECTOR, …)`.
    pub fn usage(self) -> String {
        match (self, self.subject()) {
            (Function::Gain | Function::Penalty, _) => format!("{}(SWEPT VALUE, SELECTOR, …)", self.name()),
            (_, Some(subject)) => format!("{}({subject}, SELECTOR, …)", self.name()),
            (_, None) => format!("{}(SELECTOR, …)", self.name()),
        }
    }
}

impl Operator {
    /// How it is written.
    pub fn symbol(self) -> &'static str {
        match self {
            Operator::Or => "or",
            Operator::And => "and",
            Operator::Less => "<",
            Operator::LessOrEqual => "<=",
            Operator::Greater => ">",
            Operator::GreaterOrEqual => ">=",
            Operator::Equal => "==",
            Operator::NotEqual => "!=",
            Operator::Add => "+",
            Operator::Subtract => "-",
            Operator::Multiply => "*",
            Operator::Divide => "/",
        }
    }

    /// How tightly it binds; `not` lies between 2 and 3, a sign binds tightest.
    fn level(self) -> u8 {
        match self {
            Operator::Or => 1,
            Operator::And => 2,
            Operator::Add | Operator::Subtract => 5,
            Operator::Multiply | Operator::Divide => 6,
            _ => 4,
        }
    }
}

impl PartialEq for Expression {
    fn eq(&self, other: &Self) -> bool {
        self.form == other.form
    }
}

impl PartialEq for Word {
    fn eq(&self, other: &Self) -> bool {
        (&self.text, self.is_quoted) == (&other.text, other.is_quoted)
    }
}

impl Expression {
    /// How tightly its outermost operator binds.
    fn level(&self) -> u8 {
        match &self.form {
            Form::ForAll(_) => 0,
            Form::Binary(operator, ..) => operator.level(),
            Form::Not(_) => 3,
            Form::Negative(_) => 7,
            _ => 8,
        }
    }

    /// Prints it, in parentheses if it binds less tightly than `level`.
    fn print(&self, level: u8, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.level() >= level {
            return fmt::Display::fmt(self, f);
        }
        write!(f, "({self})")
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.form {
            Form::Number(number) => write!(f, "{number}"),
            Form::Variable(name) => f.write_str(name),
            Form::Negative(inner) => {
                f.write_str("-")?;
                inner.print(7, f)
            }
            Form::Not(inner) => {
                f.write_str("not ")?;
                inner.print(3, f)
            }
            Form::Binary(operator, left, right) => {
                let level = operator.level();
                // A comparison of comparisons would read as a chain.
                left.print(if level == 4 { 5 } else { level }, f)?;
                write!(f, " {} ", operator.symbol())?;
                right.print(level + 1, f)
            }
            Form::Calculation(calculation, arguments) => {
                let (name, _) = CALCULATIONS.iter().find(|(_, known)| known == calculation).expect("all are listed");
                write!(f, "{name}({})", joined(arguments))
            }
            Form::Figure(call) => call.fmt(f),
            Form::ForAll(over) => write!(f, "for all {over}"),
            Form::Average(mean, over) => write!(f, "{}({over})", mean.name()),
        }
    }
}

impl fmt::Display for Quantifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in {}", self.variable, self.axis)?;
        if let Some(condition) = &self.condition {
            f.write_str(" where ")?;
            condition.print(1, f)?;
        }
        write!(f, ": {}", self.body)
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let subject = self.subject.iter().map(Word::to_string);
        let level = self.level.iter().map(f64::to_string);
        let selectors = self.selectors.iter().map(Selector::to_string);
        let arguments: Vec<_> = subject.chain(level).chain(selectors).collect();
        write!(f, "{}({})", self.function.name(), arguments.join(", "))
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(key) = &self.key {
            write!(f, "{key}=")?;
        }
        self.value.fmt(f)
    }
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quote = if self.text.contains('"') { '\'' } else { '"' };
        if self.is_quoted { write!(f, "{quote}{}{quote}", self.text) } else { f.write_str(&self.text) }
    }
}

fn joined(parts: &[Expression]) -> String {
    parts.iter().map(Expression::to_string).collect::<Vec<_>>().join(", ")
}
