//! `static(n)`: the same degree for every pipeline, regardless of other load.

use std::borrow::Cow;
use std::sync::Arc;

use super::{Assigned, DEGREE_MAX, DegreeHistory, ParallelismFacts, ParallelismKind, ParallelismPolicy, uniform};

pub(super) const KIND: ParallelismKind = ParallelismKind {
    name: "static(n)",
    about: "n, whatever else runs",
    example: "static(2)",
    make: |name| {
        let degree = name.strip_prefix("static(")?.strip_suffix(')')?.parse().ok()?;
        (1..=DEGREE_MAX).contains(&degree).then(|| Arc::new(Static { degree }) as Arc<dyn ParallelismPolicy>)
    },
};

#[derive(Debug)]
struct Static {
    degree: u32,
}

impl ParallelismPolicy for Static {
    fn name(&self) -> Cow<'static, str> {
        format!("static({})", self.degree).into()
    }

    fn degree_max(&self, _: u32) -> u32 {
        self.degree
    }

    fn degrees(&self, facts: &ParallelismFacts<'_>, _: &mut DegreeHistory) -> Assigned {
        Assigned::fixed(uniform(facts, self.degree))
    }
}
