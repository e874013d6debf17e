//! A claim as typed: its syntax tree, with the place of every part, and how it is printed.

use std::fmt;
use std::ops::Range;

use super::figures::Percentile;

/// Bytes of the expression.
pub type Span = Range<usize>;

/// A part of a claim. Equality does not look at places.
#[derive(Debug, Clone)]
pub struct Expression {
    /// Where it stands.
    pub span: Span,
    /// What it is.
    pub form: Form,
}

/// What a part of a claim is.
#[derive(Debug, Clone, PartialEq)]
pub enum Form {
    /// A number, its unit multiplied in: 5ms is 5000, 95% is 0.95.
    Number(f64),
    /// What a `for all` or an `average` runs over.
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
    ForAll(Box<Over>),
    /// `average(x in dop where x > 1: …)`
    Average(Box<Over>),
}

/// `x in dop where x > 1: …`
#[derive(Debug, Clone, PartialEq)]
pub struct Over {
    /// What stands for the value at hand.
    pub variable: Word,
    /// The sweep key.
    pub axis: Word,
    /// Which values count; all, if there is none.
    pub condition: Option<Expression>,
    /// What must hold, or what is averaged.
    pub body: Expression,
}

/// A function of measurements with what it is asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// The function.
    pub function: Function,
    /// What a function that [takes one](Function::takes_subject) is asked for: the part of response time of `share`, the sweep
    /// key of `knee`, the number of times of `waited`; for all other functions none.
    pub subject: Option<Word>,
    /// The share of `knee`; for all other functions none.
    pub level: Option<f64>,
    /// Which measurements.
    pub selectors: Vec<Selector>,
}

/// `together`, `pow`, or `dop=2`.
#[derive(Debug, Clone, PartialEq)]
pub struct Selector {
    /// The sweep key, or one of the words `workload`, `arm`, `class`, `transaction`.
    pub key: Option<Word>,
    /// The value.
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

/// What joins two parts.
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
    /// The least of several.
    Minimum,
    /// The greatest of several.
    Maximum,
    /// Without its sign.
    Absolute,
}

/// A function of measurements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Function {
    /// Requests per second.
    Throughput,
    /// Mean latency, microseconds.
    Mean,
    /// Percentile of latency, microseconds.
    Percentile(Percentile),
    /// A part of response time, 0 to 1.
    Share,
    /// Throughput over that alone.
    Ratio,
    /// Mean latency at the first value of an axis over that at another (MW tab. 3.3).
    Gain,
    /// The inverse of gain (MW tab. 3.3).
    Penalty,
    /// The smallest sufficient value of an axis.
    Knee,
    /// Hardware events per completed request.
    PerRequest,
    /// A share of the top-down breakdown, 0 to 1.
    TopDown,
    /// A share of the breakdown by cache misses.
    CacheMisses,
    /// What devices did.
    Device,
    /// What was reached of a limit of the machine.
    Achieved,
    /// Mean QueueTime of a lock wait, microseconds (MW 3.7, as all that follows).
    QueueTime,
    /// Mean WaitExcess of a lock wait, microseconds.
    WaitExcess,
    /// Mean WaitRemainder of a lock wait, microseconds.
    WaitRemainder,
    /// Lock waits per request.
    Waits,
    /// Share of response time in lock queues, 0 to 1.
    QueueShare,
    /// Share of requests that waited so many times, 0 to 1.
    Waited,
    /// Mean latency of requests that waited so many times, microseconds.
    MeanWaited,
    /// Attempts rolled back for another transaction, per request.
    Preemptions,
    /// Share of requests that were preempted so many times, 0 to 1.
    Preempted,
    /// Attempts rolled back for another transaction or as a deadlock's victim, per request.
    Rollbacks,
    /// Mean time that such a rollback took, microseconds.
    RollbackTime,
    /// Mean age of an attempt when it was preempted, over the mean length of attempts that got through.
    WorkLost,
}

/// A function as people write it.
#[derive(Debug)]
pub struct FunctionEntry {
    /// The function.
    pub function: Function,
    /// Its name.
    pub name: &'static str,
    /// What it takes.
    pub usage: &'static str,
}

/// Every function of measurements.
pub static FUNCTIONS: [FunctionEntry; 29] = [
    FunctionEntry { function: Function::Throughput, name: "throughput", usage: "throughput(SELECTOR, …)" },
    FunctionEntry { function: Function::Mean, name: "mean", usage: "mean(SELECTOR, …)" },
    FunctionEntry { function: Function::Percentile(Percentile::P50), name: "p50", usage: "p50(SELECTOR, …)" },
    FunctionEntry { function: Function::Percentile(Percentile::P90), name: "p90", usage: "p90(SELECTOR, …)" },
    FunctionEntry { function: Function::Percentile(Percentile::P95), name: "p95", usage: "p95(SELECTOR, …)" },
    FunctionEntry { function: Function::Percentile(Percentile::P99), name: "p99", usage: "p99(SELECTOR, …)" },
    FunctionEntry { function: Function::Percentile(Percentile::P999), name: "p999", usage: "p999(SELECTOR, …)" },
    FunctionEntry { function: Function::Share, name: "share", usage: "share(PART, SELECTOR, …)" },
    FunctionEntry { function: Function::Ratio, name: "ratio", usage: "ratio(SELECTOR, …)" },
    FunctionEntry { function: Function::Gain, name: "gain", usage: "gain(SWEPT VALUE, SELECTOR, …)" },
    FunctionEntry { function: Function::Penalty, name: "penalty", usage: "penalty(SWEPT VALUE, SELECTOR, …)" },
    FunctionEntry { function: Function::Knee, name: "knee", usage: "knee(SWEEP KEY, SHARE, SELECTOR, …)" },
    FunctionEntry { function: Function::PerRequest, name: "per_request", usage: "per_request(EVENT, SELECTOR, …)" },
    FunctionEntry { function: Function::TopDown, name: "top_down", usage: "top_down(PART, SELECTOR, …)" },
    FunctionEntry { function: Function::CacheMisses, name: "cache_misses", usage: "cache_misses(PART, SELECTOR, …)" },
    FunctionEntry { function: Function::Device, name: "device", usage: "device(FIGURE, SELECTOR, …)" },
    FunctionEntry { function: Function::Achieved, name: "achieved", usage: "achieved(LIMIT, SELECTOR, …)" },
    FunctionEntry { function: Function::QueueTime, name: "queue_time", usage: "queue_time(SELECTOR, …)" },
    FunctionEntry { function: Function::WaitExcess, name: "wait_excess", usage: "wait_excess(SELECTOR, …)" },
    FunctionEntry { function: Function::WaitRemainder, name: "wait_remainder", usage: "wait_remainder(SELECTOR, …)" },
    FunctionEntry { function: Function::Waits, name: "waits", usage: "waits(SELECTOR, …)" },
    FunctionEntry { function: Function::QueueShare, name: "queue_share", usage: "queue_share(SELECTOR, …)" },
    FunctionEntry { function: Function::Waited, name: "waited", usage: "waited(TIMES, SELECTOR, …)" },
    FunctionEntry { function: Function::MeanWaited, name: "mean_waited", usage: "mean_waited(TIMES, SELECTOR, …)" },
    FunctionEntry { function: Function::Preemptions, name: "preemptions", usage: "preemptions(SELECTOR, …)" },
    FunctionEntry { function: Function::Preempted, name: "preempted", usage: "preempted(TIMES, SELECTOR, …)" },
    FunctionEntry { function: Function::Rollbacks, name: "rollbacks", usage: "rollbacks(SELECTOR, …)" },
    FunctionEntry { function: Function::RollbackTime, name: "rollback_time", usage: "rollback_time(SELECTOR, …)" },
    FunctionEntry { function: Function::WorkLost, name: "work_lost", usage: "work_lost(SELECTOR, …)" },
];

/// The name of the function of a number for each value of a sweep key.
pub const AVERAGE: &str = "average";

/// Every function of numbers, by name.
pub static CALCULATIONS: [(&str, Calculation); 3] =
    [("min", Calculation::Minimum), ("max", Calculation::Maximum), ("abs", Calculation::Absolute)];

impl Function {
    /// Whether it is told first what it is to give.
    pub fn takes_subject(self) -> bool {
        matches!(
            self,
            Function::Share
                | Function::Knee
                | Function::PerRequest
                | Function::TopDown
                | Function::CacheMisses
                | Function::Device
                | Function::Achieved
                | Function::Waited
                | Function::MeanWaited
                | Function::Preempted
        )
    }

    /// How it is written.
    pub fn entry(self) -> &'static FunctionEntry {
        FUNCTIONS.iter().find(|entry| entry.function == self).expect("the list has every function")
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

    /// Prints it, in parentheses where it binds less tightly than `level`.
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
            Form::Average(over) => write!(f, "{AVERAGE}({over})"),
        }
    }
}

impl fmt::Display for Over {
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
        write!(f, "{}({})", self.function.entry().name, arguments.join(", "))
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
