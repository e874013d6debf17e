//! Claims: sentences with numbers that an experiment must confirm.
//!
//! A claim is written as an expression, `gain(pow, high) >= 0.95 * gain(pabort, high)`. [`parse`] reads it into a
//! syntax tree (`syntax`), and [`Claim::new`] binds every name in it to the experiment before anything runs, so that a
//! typing error does not cost an hour of measuring. [`Claim::evaluate`] determines whether the measured figures
//! (`figures`) make it true, and [`Claim::judge`] whether they do beyond noise.
//!
//! A figure that was not measured makes a claim neither true nor false, unless the other figures decide the claim alone (one
//! `and` that fails, one `or` that holds, one counterexample to a `for all`).
//!
//! A claim may carry the published figure; ours is then graded by it (`grade`), independently of the verdict.

mod bind;
mod evaluate;
pub(crate) mod figures;
pub mod first_result;
mod formula;
pub(crate) mod grade;
mod parse;
mod select;
pub(crate) mod syntax;
#[cfg(test)]
mod tests;
mod verdict;

pub use bind::Names;
pub use evaluate::Evaluation;
pub(crate) use evaluate::shown;
pub use figures::{Cell, Figures, Metric, RequestSubset};
pub use parse::parse;
pub use verdict::{ClaimJudgement, Evidence};

use formula::Condition;
use grade::{Near, Scale};
use syntax::Span;

use crate::fingerprint::text_hash;
use crate::plan::Plan;

/// A claim with every name known.
#[derive(Debug, Clone)]
pub struct Claim {
    /// The claim in words.
    pub text: String,
    /// The condition, as written.
    pub expression: String,
    /// The published result, as written.
    pub published: Option<String>,
    /// The condition, or why it cannot be judged in this plan.
    condition: Result<Condition, String>,
    /// The published figure that ours is graded by, if there is one.
    near: Option<Near>,
}

/// An expression that is not a claim about an experiment.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ClaimError {
    /// Where in the expression, in bytes.
    pub span: Span,
    /// The fault and its remedy.
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
        Ok(Claim {
            text: text.into(),
            expression: expression.to_owned(),
            published,
            condition: Ok(condition),
            near: None,
        })
    }

    /// The same claim with a published figure, and our expression, which is graded by it.
    pub fn near(mut self, expression: &str, scale: Scale, names: &Names<'_>) -> Result<Self, ClaimError> {
        self.near = Some(Near::new(expression, scale, names)?);
        Ok(self)
    }

    /// The expression for our figure as written, and the scale by which it is graded; `None` if the claim has no
    /// published figure.
    pub fn scale(&self) -> Option<(&str, &Scale)> {
        self.near.as_ref().map(|near| (near.expression.as_str(), &near.scale))
    }

    /// Our figure that is graded, or why it was not measured; `None` if the claim has no published figure. The plan is the one
    /// that the claim was bound to.
    pub fn ours(&self, plan: &Plan, figures: &dyn Figures) -> Option<Result<f64, String>> {
        self.near.as_ref().map(|near| near.ours(plan, figures))
    }

    /// The part of the published effect that the condition demands of our figure, if the figure is that of the grade; a bound
    /// that demands little is easy to meet.
    pub fn demanded(&self) -> Option<f64> {
        self.near.as_ref()?.demanded(self.condition.as_ref().ok()?)
    }

    /// Why our figure is not graded though it was measured: a knee in it is at an end of its sweep, or noise could have made
    /// it. `interval` is that of `ours`.
    pub fn ungraded(
        &self,
        ours: f64,
        interval: Option<[f64; 2]>,
        plan: &Plan,
        figures: &dyn Figures,
    ) -> Option<String> {
        let near = self.near.as_ref()?;
        let of_noise = || near.scale.doubt(ours, interval?);
        near.knee_at_end(plan, figures).or_else(of_noise)
    }

    /// A hash of the condition and the scale: equal for equal claims.
    pub fn hash(&self) -> String {
        let near =
            self.near.as_ref().map(|near| format!("+{}", text_hash(&format!("{} {:?}", near.expression, near.scale))));
        text_hash(&self.expression) + &near.unwrap_or_default()
    }

    /// Why the plan cannot judge the claim, independently of any measurement; `None` if it can.
    pub fn left_out(&self) -> Option<&str> {
        self.condition.as_ref().err().map(String::as_str)
    }

    /// The same claim in a plan that lacks its subject: it is neither judged nor graded, for the reason given.
    pub fn not_judged(mut self, why: String) -> Self {
        if let Some(near) = &mut self.near {
            near.ours = Err(why.clone());
        }
        self.condition = Err(why);
        self
    }
}
