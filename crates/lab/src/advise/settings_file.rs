//! Settings for a governor from advice, with the reason for each line.

use super::Advice;
use plimsoll_display::significant;

/// The text of `plimsoll.toml`. `None` if there is no best value, or if a governor cannot set the varied key: it is
/// neither the clients of another workload nor the degree of queries.
pub fn settings_file(advice: &Advice) -> Option<String> {
    let best = &advice.tried[advice.best?];
    let is_degree = advice.key == "dop";
    let low = if is_degree { advice.maximise.as_str() } else { advice.key.strip_suffix(".clients")? };
    let high = Some(advice.slo.split('.').next()?).filter(|high| *high != low)?;
    let percentile = best.percentile_ms.map_or_else(String::new, |ms| format!(" ({} ms)", significant(ms.value)));
    // If the advice is to run no client of the lower class, the limit is 1, the governor's smallest.
    let (mpl, none) = match best.value {
        0 => (1, "\n# Even one of them is predicted to break it; 1 is the least that a class can have."),
        value => (value, ""),
    };
    // A query of degree n has n - 1 workers beside its own process.
    let lever = match is_degree {
        true => format!(
            "# At a degree of {mpl} {} is predicted to be kept{percentile}.\nworkers_max = {}",
            advice.slo,
            mpl - 1
        ),
        false => format!("# With {mpl} at once {} is predicted to be kept{percentile}.{none}\nmpl = {mpl}", advice.slo),
    };
    Some(format!(
        r#"# Proposed by plimsoll advise, to keep {slo}.
# Read it, edit the lines below "EDIT", then: plimsoll govern --check --connect --config FILE. docs/governor-settings.md explains every key.

# EDIT: the server, and the role that asks who waits for whom.
server = "postgres://127.0.0.1:5432"
control = "postgres://plimsoll@127.0.0.1:5432/postgres"
# Sessions that no rule names are not made to wait.
default_class = "high"

[[class]]
name = "high"
priority = "high"

[[class]]
name = "low"
priority = "low"
{lever}

# EDIT: how the sessions of `{high}` and `{low}` are known; here by application_name.
[[rule]]
class = "high"
application_name = "{high}*"

[[rule]]
class = "low"
application_name = "{low}*"

[preemption]
# track: decide which transactions to roll back and count them, but roll back nothing.
policy = "track"
"#,
        slo = advice.slo,
    ))
}
