//! The settings of runs: warm-ups, windows, repeats, and their changes with `--quick`.

use std::time::Duration;

use plimsoll_notation::{At, Problems};
use plimsoll_workload::driver::WarmUp;

use super::duration::{duration, warmup};
use super::typed::{TypedDisturbed, TypedQuick, TypedReload, TypedRun, TypedSearch, TypedServerLost};
use crate::plan::{CtrlC, Disturbed, FAILED_MAX, Reload, RunPlan, Search, ServerLost, SizingTerms};
use crate::size;

/// The seed that is used without one.
const SEED: u64 = 7;

/// The default of repeats, and the most in a quick run: the fewest from which an interval of some use follows.
pub(crate) const REPEATS: u32 = 5;

/// Warm-up and window without a length, as in `plimsoll study`.
const WARMUP: WarmUp = WarmUp::For(Duration::from_secs(2));
const MEASURE: Duration = Duration::from_secs(10);

/// The maximum of a quick run if `[quick]` does not say otherwise.
const QUICK_WARMUP: Duration = Duration::from_secs(1);
const QUICK_MEASURE: Duration = Duration::from_secs(2);

/// Cores that others may keep busy, per usable core. The kernel's own housekeeping takes less. An experiment can be off
/// by a tenth of the machine without a visible sign.
pub(crate) const OTHERS_MAX: f64 = 0.1;

/// Tries of a run while others are busy.
const TRIES: u32 = 3;

const NO_REPEATS: &str = "0 repeats run nothing; write 1 or, to know the noise, at least 2";
const NO_REQUESTS: &str = "`simulated_requests` is the number of requests that are counted; write 1 or more";
const NO_TRIES: &str = "0 tries run nothing; write 1, so that no run is repeated, or more";
const NO_SHARE: &str = "`failed_max` is the share of requests that may fail, from 0 to 1; write for example 0.05";
const NO_OTHERS: &str = "`others_max` is a number of cores above 0, for each that can be used; write for example 0.1";

/// How runs are run. `quick` is given if the experiment is to be quick.
pub(super) fn run_plan(run: &TypedRun, quick: Option<&TypedQuick>, problems: &mut Problems) -> RunPlan {
    let mut plan = RunPlan {
        warmup: read(&run.warmup, warmup, problems).unwrap_or(WARMUP),
        measure: read(&run.measure, window, problems).unwrap_or(MEASURE),
        repeats: above_0(&run.repeats, NO_REPEATS, problems).unwrap_or(REPEATS),
        seed: seed(run),
        reload: match run.reload {
            TypedReload::WhenGrown => Reload::WhenGrown,
            TypedReload::WhenWritten => Reload::WhenWritten,
            TypedReload::Never => Reload::Never,
        },
        looks: 1,
        server_lost: match run.server_lost {
            TypedServerLost::GoOn => ServerLost::GoOn,
            TypedServerLost::Stop => ServerLost::Stop,
        },
        others_max: above_0(&run.others_max, NO_OTHERS, problems).unwrap_or(OTHERS_MAX),
        tries: above_0(&run.tries, NO_TRIES, problems).unwrap_or(TRIES),
        disturbed: match run.disturbed {
            TypedDisturbed::Discard => Disturbed::Discard,
            TypedDisturbed::Keep => Disturbed::Keep,
        },
        again: run.again.unwrap_or(true),
        failed_max: share(&run.failed_max, problems).unwrap_or(FAILED_MAX),
        ctrl_c: CtrlC::AfterRun,
        cut_after: None,
        simulated_requests: above_0(&run.simulated_requests, NO_REQUESTS, problems),
        search: match run.search.as_ref().map(At::value) {
            None | Some(TypedSearch::Grid) => Search::Grid,
            Some(TypedSearch::Knee) => Search::Knee,
            Some(TypedSearch::Size) => Search::Size,
        },
        sizing: SizingTerms {
            budget: read(&run.budget, window, problems).unwrap_or(size::BUDGET),
            promise: read(&run.promise, size::promise, problems),
        },
    };
    if let Some(quick) = quick {
        let shorter = match plan.warmup {
            WarmUp::For(length) => WarmUp::For(length.min(QUICK_WARMUP)),
            WarmUp::UntilSteady { at_most: longest } => WarmUp::UntilSteady { at_most: longest.min(QUICK_WARMUP) },
        };
        plan.warmup = read(&quick.warmup, warmup, problems).unwrap_or(shorter);
        plan.measure = read(&quick.measure, window, problems).unwrap_or(plan.measure.min(QUICK_MEASURE));
        plan.simulated_requests = above_0(&quick.simulated_requests, NO_REQUESTS, problems).or(plan.simulated_requests);
        plan.repeats = above_0(&quick.repeats, NO_REPEATS, problems).unwrap_or(plan.repeats.min(REPEATS));
    }
    plan
}

/// The seed from which all random choices follow.
pub(super) fn seed(run: &TypedRun) -> u64 {
    run.seed.unwrap_or(SEED)
}

fn read<T>(text: &Option<At<String>>, read: fn(&str) -> Result<T, String>, problems: &mut Problems) -> Option<T> {
    let text = text.as_ref()?;
    problems.note_at(text.span(), read(text.value()))
}

fn window(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("a window of 0 s measures nothing; write a longer one, such as \"10s\"".to_owned()),
        length => Ok(length),
    }
}

/// A share from 0 to 1.
fn share(given: &Option<At<f64>>, problems: &mut Problems) -> Option<f64> {
    let given = given.as_ref()?;
    let value = Some(*given.value()).filter(|value| (0.0..=1.0).contains(value));
    if value.is_none() {
        problems.add(given.span(), NO_SHARE);
    }
    value
}

/// A number that must be above 0; `refusal` is the error for any other.
fn above_0<T: Copy + Default + PartialOrd>(given: &Option<At<T>>, refusal: &str, problems: &mut Problems) -> Option<T> {
    let given = given.as_ref()?;
    let value = Some(*given.value()).filter(|value| *value > T::default());
    if value.is_none() {
        problems.add(given.span(), refusal);
    }
    value
}
