//! What a reader must know of predictions from an observation, in sentences.

use plimsoll_display::{duration_us, significant};
use plimsoll_model::idd;
use plimsoll_model::seen::Caution;

use super::Observation;
use crate::predict::{PredictedMix, Vary};

/// Cautions about all mixes.
pub(super) fn of_all(observation: &Observation, cautions: &[Caution]) -> Vec<String> {
    let mut told: Vec<String> = cautions.iter().map(|caution| of_one(observation, caution)).collect();
    if !observation.small.is_empty() {
        told.push(format!("too small to be predicted, and counted with others: {}", observation.small.join(", ")));
    }
    told
}

fn of_one(observation: &Observation, caution: &Caution) -> String {
    match caution {
        Caution::Collinear { classes: (class, Some(other)), resource } => format!(
            "`{class}` and `{other}` always rose together: whose the {resource} is cannot be told; observe while only one of them runs"
        ),
        Caution::Collinear { classes: (class, None), resource } => format!(
            "`{class}` did the same all the time: what of the {resource} is its own cannot be told from others'; observe while it runs less"
        ),
        Caution::OneMix => {
            "only one mix was seen: how classes slow each other down follows from it alone; observe while one of them runs more or less"
                .to_owned()
        }
        Caution::NeverAlone(class) => {
            format!("`{class}` was never seen without others: its needs are those beside the least of them")
        }
        Caution::Little { class, factor } => format!(
            "the server counted {} times as much time for `{class}` as its sessions were seen in requests (Little's law): its intervals are \
             wider for it",
            significant(*factor)
        ),
        Caution::DiskUnknown => "how busy the disk was is not known: waits for it are taken as they were".to_owned(),
        Caution::Others(cores) => {
            let named: Vec<String> =
                observation.others.iter().take(3).map(|(name, cores)| format!("{name} {}", significant(*cores))).collect();
            let named = if named.is_empty() { String::new() } else { format!(" ({})", named.join(", ")) };
            let more = if *cores > 1.0 { "; the model knows one core of it at most" } else { "" };
            format!(
                "other programs{named} kept {} cores busy whatever the classes did, and are assumed to go on{more}",
                significant(*cores)
            )
        }
        other => format!("{other:?}"),
    }
}

/// Cautions about one mix. Those that are about measurements alone do not apply.
pub(super) fn of_mix(cautions: &[idd::Caution]) -> Vec<String> {
    let told = |caution: &idd::Caution| match caution {
        idd::Caution::BeyondCalibration { class } => {
            Some(format!("others use more of the cores beside `{class}` than in any mix that was seen"))
        }
        idd::Caution::Parallel { class } => Some(format!(
            "requests of `{class}` run on several cores at once, which the model does not know; responses are too long"
        )),
        _ => None,
    };
    cautions.iter().filter_map(told).collect()
}

/// `With 5 reports at once shop goes from 12 ms to 31 ms (24 ms to 40 ms).`: the largest value that is predicted, for each class.
pub(super) fn sentences(observation: &Observation, vary: &Vary, mixes: &[PredictedMix]) -> Vec<String> {
    let largest =
        mixes.iter().zip(&vary.values).filter(|(mix, _)| mix.refused.is_none()).max_by_key(|(_, value)| **value);
    let Some((mix, value)) = largest else { return Vec::new() };
    let varied = vary.key.strip_suffix(".clients");
    let with = match varied {
        Some(name) => format!("With {value} {name} at once"),
        None => format!("On {value} cores"),
    };
    let windows = &observation.seen.windows;
    let as_seen = |at: usize| {
        let of = |of: fn(&plimsoll_model::seen::Activity) -> f64| {
            windows.iter().map(|window| of(&window.classes[at])).sum::<f64>()
        };
        of(|class| class.active_s) / of(|class| class.requests)
    };
    let ms = |ms: f64| duration_us(ms * 1e3);
    let sentence = |(at, name): (usize, &String)| {
        let response = mix.workloads.iter().find(|one| one.name == *name)?.response_ms?;
        let range = response
            .low
            .zip(response.high)
            .map_or(String::new(), |(low, high)| format!(" ({} to {})", ms(low), ms(high)));
        Some(format!("{with} {name} goes from {}, as seen, to {}{range}.", ms(as_seen(at) * 1e3), ms(response.value)))
    };
    let classes = observation.seen.classes.iter().enumerate();
    let others: Vec<String> =
        classes.clone().filter(|(_, name)| Some(name.as_str()) != varied).filter_map(sentence).collect();
    if others.is_empty() { classes.filter_map(sentence).collect() } else { others }
}
