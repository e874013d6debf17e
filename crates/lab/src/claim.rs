//! Claims: sentences with numbers that an experiment must show.
//!
//! A claim is typed as an expression, `gain(pow, high) >= 0.95 * gain(pabort, high)`. [`parse`] reads it into a syntax tree
//! ([`syntax`]), [`Claim::new`] binds every name in it to the experiment, before anything runs, so that a slip of the pen
//! costs no hour of measuring. [`Claim::evaluate`] says whether the figures ([`figures`]) that were measured make it true, and
//! [`Claim::judge`] whether they do beyond noise.
//!
//! A figure that was not measured makes a claim neither true nor false. Where the rest decides alone (one `and` that fails,
//! one `or` that holds, one counterexample to a `for all`) it is decided all the same.

mod bind;
mod evaluate;
pub mod figures;
mod formula;
mod parse;
mod select;
pub mod syntax;
#[cfg(test)]
mod tests;
mod verdict;

pub use bind::Names;
pub use evaluate::Evaluation;
pub(crate) use evaluate::shown;
pub use figures::{Cell, Figures, Metric, Part};
pub use parse::parse;
pub use verdict::{Evidence, Judged};

use formula::Condition;
use syntax::Span;

/// A claim with every name known.
#[derive(Debug, Clone)]
pub struct Claim {
    /// What is claimed, in words.
    pub text: String,
    /// What must hold, as typed.
    pub expression: String,
    /// What was published, as typed.
    pub published: Option<String>,
    /// What must hold, or why it cannot be judged in this plan.
    condition: Result<Condition, String>,
}

/// An expression that is no claim about an experiment.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ClaimError {
    /// Where in the expression, in bytes.
    pub span: Span,
    /// What is wrong and what to do.
    pub message: String,
}

impl Claim {
    /// Binds an expression to an experiment.
    pub fn new(
        text: impl Into<String>,
        expression: &str,
        published: Option<String>,
        names: &Names<'_>,
    ) -> Result<Self, ClaimError> {
        let condition = bind::bind(&parse(expression)?, names)?;
        Ok(Claim { text: text.into(), expression: expression.to_owned(), published, condition: Ok(condition) })
    }

    /// The same claim in a plan that leaves out what it speaks of: it is never judged, for this reason.
    pub fn not_judged(mut self, why: String) -> Self {
        self.condition = Err(why);
        self
    }
}
