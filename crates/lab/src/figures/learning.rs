//! The results of a target that learns degrees of parallelism itself.

use plimsoll_workload::parallelism::Learning;

use super::{Figure, Reading, Unit, known, of_run};

/// How to make missing figures known.
const NOT_SETTLED: &str = "no search has ended; give it a longer warm-up";

pub(super) const FIGURES: &[Figure] = &[
    of_run(
        "device.learning.settled",
        "searches_settled",
        Unit::Share,
        "part of the searches for degrees of parallelism, one for each query template and load, that had ended",
        |of| Ok(learning(of)?.settled),
    ),
    of_run(
        "device.learning.runs_to_best",
        "runs_to_best",
        Unit::Count,
        "the run in which the best degrees were first tried, since the search began or began again, mean over searches that had ended",
        |of| known(learning(of)?.runs_to_best, NOT_SETTLED),
    ),
    of_run(
        "device.learning.speed_up",
        "learned_speed_up",
        Unit::Ratio,
        "time of serial runs over that of the best degrees, geometric mean over searches that had ended",
        |of| known(learning(of)?.speed_up, NOT_SETTLED),
    ),
    of_run(
        "device.learning.regret",
        "regret",
        Unit::Share,
        "part of the time of all runs that the best degrees would have saved",
        |of| known(learning(of)?.regret, "no query has repeated"),
    ),
    of_run(
        "device.learning.reopened",
        "searches_reopened",
        Unit::Count,
        "how often a search began again because the times of its best degrees had changed, mean over searches",
        |of| Ok(learning(of)?.reopened),
    ),
];

fn learning<'a>(of: &'a Reading<'_>) -> Result<&'a Learning, String> {
    let none = || {
        "nothing is learned about degrees of parallelism; `embedded:` and `postgres:` do with `parallelism=adaptive`"
            .to_owned()
    };
    of.device.learning.as_ref().ok_or_else(none)
}
