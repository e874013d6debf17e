//! `\if`, `\elif`, `\else`, `\endif` as jumps.

use std::ops::Range;

use crate::file::expression::Expression;
use crate::file::problem::Problem;
use crate::file::program::ProgramStep;

/// The open conditions, innermost last.
#[derive(Debug, Default)]
pub(super) struct Flow(Vec<OpenIf>);

#[derive(Debug)]
struct OpenIf {
    /// The place of the `\if`.
    span: Range<usize>,
    /// The jump past the current branch, taken if its condition does not hold; `None` in `\else`.
    pending: Option<usize>,
    /// The jumps from the ends of branches to `\endif`.
    ends: Vec<usize>,
}

impl Flow {
    /// `\if`.
    pub(super) fn begin(
        &mut self,
        steps: &mut Vec<ProgramStep>,
        condition: Expression,
        place: String,
        span: Range<usize>,
    ) {
        self.0.push(OpenIf { span, pending: Some(steps.len()), ends: Vec::new() });
        steps.push(ProgramStep::JumpUnless { condition, to: usize::MAX, place });
    }

    /// `\elif`, or `\else` if there is no condition.
    pub(super) fn otherwise(
        &mut self,
        steps: &mut Vec<ProgramStep>,
        condition: Option<(Expression, String)>,
        span: Range<usize>,
    ) -> Result<(), Problem> {
        let open = self.0.last_mut().ok_or_else(|| Problem::new(span.clone(), "there is no \\if before this"))?;
        let Some(pending) = open.pending.take() else {
            return Err(Problem::new(span, "nothing but \\endif can follow \\else"));
        };
        open.ends.push(steps.len());
        steps.push(ProgramStep::Jump { to: usize::MAX });
        land(steps, pending);
        if let Some((condition, place)) = condition {
            open.pending = Some(steps.len());
            steps.push(ProgramStep::JumpUnless { condition, to: usize::MAX, place });
        }
        Ok(())
    }

    /// `\endif`.
    pub(super) fn end(&mut self, steps: &mut [ProgramStep], span: Range<usize>) -> Result<(), Problem> {
        let open = self.0.pop().ok_or_else(|| Problem::new(span, "there is no \\if before this"))?;
        open.ends.into_iter().chain(open.pending).for_each(|jump| land(steps, jump));
        Ok(())
    }

    /// Fails with an `\if` that does not end.
    pub(super) fn check_closed(&self) -> Result<(), Problem> {
        match self.0.last() {
            Some(open) => Err(Problem::new(open.span.clone(), "this \\if has no \\endif")),
            None => Ok(()),
        }
    }
}

/// Makes a jump lead to the next step to be added.
fn land(steps: &mut [ProgramStep], jump: usize) {
    let next = steps.len();
    match &mut steps[jump] {
        ProgramStep::JumpUnless { to, .. } | ProgramStep::Jump { to } => *to = next,
        other => unreachable!("{other:?} is no jump"),
    }
}
