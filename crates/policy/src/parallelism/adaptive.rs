//! `adaptive`: learned from runs of the same template, one search for each level of load.

use std::borrow::Cow;
use std::sync::Arc;

use super::{Assigned, DegreeHistory, ParallelismFacts, ParallelismKind, ParallelismPolicy};

pub(super) const KIND: ParallelismKind = ParallelismKind {
    name: "adaptive",
    about: "learned from runs of the same template: another partition for the most expensive pipeline as long as that pays",
    example: "adaptive",
    make: |name| (name == "adaptive").then(|| Arc::new(Adaptive) as Arc<dyn ParallelismPolicy>),
};

#[derive(Debug)]
struct Adaptive;

impl ParallelismPolicy for Adaptive {
    fn name(&self) -> Cow<'static, str> {
        "adaptive".into()
    }

    fn degrees(&self, facts: &ParallelismFacts<'_>, history: &mut DegreeHistory) -> Assigned {
        history.next(facts)
    }

    fn learns(&self) -> bool {
        true
    }
}
