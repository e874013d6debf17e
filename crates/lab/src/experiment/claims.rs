//! Turns claims as written into claims with every name known.

use plimsoll_notation::{At, Problem};

use super::typed::{TypedClaim, TypedNear, TypedPublished};
use crate::claim::grade::{FACTOR, NO_EFFECT, Published, Scale};
use crate::claim::{Claim, ClaimError, Names};

/// The claim bound to names; an error comes with its expression.
pub(super) fn claim<'a>(typed: &'a TypedClaim, names: &Names<'_>) -> Result<Claim, (&'a At<String>, ClaimError)> {
    let claim = Claim::new(typed.text.clone(), typed.holds.value(), typed.published.clone(), names);
    let claim = claim.map_err(|error| (&typed.holds, error))?;
    match &typed.near {
        Some(near) => claim.near(near.ours.value(), scale(near), names).map_err(|error| (&near.ours, error)),
        None => Ok(claim),
    }
}

fn scale(near: &TypedNear) -> Scale {
    let published = match *near.published.value() {
        TypedPublished::One(figure) => Published::one(figure),
        TypedPublished::Several([low, high]) => Published { low, high: (high != f64::INFINITY).then_some(high) },
    };
    let (factor, no_effect) = (near.factor.unwrap_or(FACTOR), near.no_effect.unwrap_or(NO_EFFECT));
    Scale { published, factor, no_effect }
}

/// The fault of a published figure that cannot grade anything.
pub(super) fn near_problem(typed: &TypedClaim) -> Result<(), Problem> {
    let problem = typed.near.as_ref().and_then(|near| Some((near, scale(near).problem()?)));
    problem.map_or(Ok(()), |(near, why)| Err(Problem::new(near.published.span(), why)))
}
