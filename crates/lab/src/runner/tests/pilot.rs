//! The pilot of a study. Databases in memory answer no queries; the command line's tests run the pilot on ones that do.

use std::collections::BTreeMap;

use super::*;
use crate::study::{Sides, Study, run_pilot};

#[test]
fn a_pilot_ends_when_it_is_stopped() {
    let (options, targets, stop) = (BTreeMap::new(), Watched::default(), AtomicBool::new(true));
    let study = Study {
        url: "memory:",
        options: &options,
        cores: 1,
        free_memory: None,
        quick: true,
        seed: 7,
        sides: Sides::default(),
        line: None,
        budget: None,
    };
    let mut watch = Watch { progress: &mut |_| {}, keep: &mut |_| Ok(()), stop: &stop, elapsed_s: &|| 0.0 };
    let stopped = run_pilot(&study, "memory:", &targets, &mut NoLimits, &mut watch);
    assert!(stopped.unwrap_or_else(|error| panic!("{error}")).is_none());
}
