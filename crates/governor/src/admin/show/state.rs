//! `SHOW STATE`.

use std::sync::atomic::Ordering::Relaxed;

use jiff::Timestamp;

use crate::admin::answer::{Answer, Cell, Column, Refusal, text};
use crate::admin::command::Call;
use crate::governor::waits_for;

pub const COLUMNS: &[Column] = &[text("key"), text("value")];

pub fn run(call: &Call<'_>) -> Result<Answer, Refusal> {
    let governor = call.governor;
    let settings = governor.settings();
    let health = governor.health.lock().clone();
    let paused = settings.names_of(|class| class.is_paused);
    let control = match (health.control_up, health.control_error) {
        (Some(since), _) => Timestamp::try_from(since).map_or("up".to_owned(), |since| format!("up since {since:.0}")),
        (None, Some(why)) => format!("down: {why}"),
        (None, None) if settings.control.is_none() => "none is set".to_owned(),
        (None, None) => "not tried yet".to_owned(),
    };
    let is_draining = governor.is_draining.load(Relaxed);
    let waits_for =
        if is_draining && !settings.is_beside { waits_for(governor, call.now) } else { "nothing".to_owned() };
    let watch = governor.history.lock().watch();
    let [looks, look_ms, look_share, watch_cpu] = watch.map_or_else(Default::default, watched);
    let takes = governor.statistics.rollback_takes();
    let is_paused = settings.classes.iter().all(|class| class.is_paused);
    let yes = |is: bool| if is { "yes" } else { "no" }.to_owned();
    let lines = [
        // pgbouncer's rows.
        ("active", yes(!is_paused)),
        ("paused", yes(is_paused)),
        ("suspended", yes(false)),
        ("state", if is_draining { "draining" } else { "active" }.to_owned()),
        ("waits_for", waits_for),
        ("version", env!("CARGO_PKG_VERSION").to_owned()),
        ("process", std::process::id().to_string()),
        ("uptime_s", governor.clock(call.now).as_secs().to_string()),
        ("mode", settings.place().to_owned()),
        ("server", settings.server.address()),
        ("control", control),
        ("pgbouncer", if health.poolers.is_empty() { "none is set".to_owned() } else { health.poolers.join("; ") }),
        ("paused_classes", if paused.is_empty() { "none".to_owned() } else { paused }),
        ("clients", governor.registry.len().to_string()),
        ("looks_per_s", looks),
        ("look_ms", look_ms),
        ("look_percent", look_share),
        ("watch_cpu_percent", watch_cpu),
        (
            "rollback_ms",
            takes.map_or_else(|| "unknown".to_owned(), |takes| format!("{:.2}", takes.as_secs_f64() * 1e3)),
        ),
        ("config_file", governor.config_file.get().map_or("none".to_owned(), |file| file.display().to_string())),
        ("reloads", governor.statistics.reloads.load(Relaxed).to_string()),
        ("reloads_failed", governor.statistics.reloads_failed.load(Relaxed).to_string()),
    ];
    Ok(Answer::of(lines.into_iter().map(|(key, value)| vec![Cell::from(key), value.into()]).collect()))
}

/// Figures of the last minute: looks per second, mean length of a look, the share of the time that looks take, and the
/// CPU time of the watcher's thread, in percent of a core.
fn watched((length, counts): (std::time::Duration, crate::history::WatchCounts)) -> [String; 4] {
    let seconds = length.as_secs_f64();
    let percent = |time: std::time::Duration| format!("{:.2}", time.as_secs_f64() / seconds * 100.0);
    let each = counts.look_time.as_secs_f64() * 1e3 / counts.looks.max(1) as f64;
    let each = if counts.looks == 0 { "none".to_owned() } else { format!("{each:.2}") };
    [format!("{:.1}", counts.looks as f64 / seconds), each, percent(counts.look_time), percent(counts.cpu)]
}
