//! Settings for a governor from advice, with the reason for each line.

use plimsoll_settings::write::Writer;

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
    let mpl = best.value.max(1);
    // A query of degree n has n - 1 workers beside its own process.
    let (kept, key, bound) = match is_degree {
        true => (
            format!("At a degree of {mpl} {} is predicted to be kept{percentile}.", advice.slo),
            "workers_max",
            mpl - 1,
        ),
        false => (format!("With {mpl} at once {} is predicted to be kept{percentile}.", advice.slo), "mpl", mpl),
    };
    let mut file = Writer::default();
    file.comment(&format!("Proposed by plimsoll advise, to keep {}.", advice.slo))
        .comment(
            "Read it, edit the lines below \"EDIT\", then: plimsoll govern --check --connect --config FILE. \
             docs/governor-settings.md explains every key.",
        )
        .gap()
        .comment("EDIT: the server, and the role that asks who waits for whom.")
        .set("server", "postgres://127.0.0.1:5432")
        .set("control", "postgres://plimsoll@127.0.0.1:5432/postgres")
        .comment("Sessions that no rule names are not made to wait.")
        .set("default_class", "high");
    file.gap().table("class").set("name", "high").set("priority", "high");
    file.gap().table("class").set("name", "low").set("priority", "low").comment(&kept);
    if best.value == 0 && !is_degree {
        file.comment("Even one of them is predicted to break it; 1 is the least that a class can have.");
    }
    file.set(key, i64::from(bound))
        .gap()
        .comment(&format!("EDIT: how the sessions of `{high}` and `{low}` are known; here by application_name."));
    file.table("rule").set("class", "high").set("application_name", format!("{high}*"));
    file.gap().table("rule").set("class", "low").set("application_name", format!("{low}*"));
    file.gap()
        .table("preemption")
        .comment("track: decide which transactions to roll back and count them, but roll back nothing.")
        .set("policy", "track");
    Some(file.text().to_owned())
}
