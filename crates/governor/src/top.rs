//! The state of a governor as a table for a terminal of 80 columns: `plimsoll top`.

use std::fmt::Write;

use crate::page::state::{ClassState, State, Times};

/// Rows of the queue and of preemptions that are shown.
const ROWS: usize = 8;
/// As wide as a terminal is at least.
const WIDTH: usize = 80;

/// The table; no line is longer than 80 characters.
pub fn table(state: &State) -> String {
    let mut text = String::new();
    let mut line = |line: String| {
        let cut: String = line.chars().take(WIDTH).collect();
        writeln!(text, "{}", cut.trim_end()).expect("writing to memory does not fail");
    };
    let control = match (&state.control.up_since, &state.control.error) {
        (Some(_), _) => format!("policy {}", state.policy),
        (None, _) if !state.control.is_set => "no control connection is set".to_owned(),
        (None, why) => format!("control connection down: {}", why.as_deref().unwrap_or("not tried yet")),
    };
    let draining = if state.is_draining { ", draining" } else { "" };
    let up = length(Some(state.uptime_s));
    line(format!("plimsoll {} in front of {}, up {up}{draining}", state.version, state.server));
    line(format!("{} of at most {} sessions; {control}", state.sessions, state.sessions_max));
    line(String::new());
    line("last 10 s          tx/s      p50      p95      p99   1 min p95  in  wait  sess".to_owned());
    state.classes.iter().for_each(|class| line(class_line(class)));
    line(String::new());
    line("since the start    preempted  replayed  not replayed  too late  tracked  refused".to_owned());
    for class in &state.classes {
        let totals = &class.totals;
        line(format!(
            "{:<18}{:>10}{:>10}{:>14}{:>10}{:>9}{:>9}",
            shortened(&class.name, 17),
            totals.preempted_waiting + totals.preempted_running + totals.preempted_idle,
            totals.replays_verified,
            totals.replays_differed + totals.replays_unsafe,
            totals.preempted_too_late,
            totals.preemptions_tracked,
            totals.refused_full + totals.refused_timeout,
        ));
    }
    for waiting in state.queue.iter().take(ROWS) {
        let user = waiting.user.as_deref().unwrap_or("-");
        let waited = length(Some(waiting.waited_s));
        line(format!("waits  {:>6} {} of {} for {waited}: {}", waiting.session, user, waiting.class, waiting.why));
    }
    for one in state.preemptions.iter().take(ROWS) {
        let at = one.at.get(11..19).unwrap_or("-");
        let waited = length(Some(one.waited_s));
        line(format!(
            "{at}  {} {} ({}) for {} {}, which had waited {waited}: {}",
            one.victim_class, one.victim, one.victim_was, one.waiter_class, one.waiter, one.done
        ));
    }
    for lever in state.levers.iter().filter(|lever| !lever.works) {
        line(format!("off: {}: {}", lever.name, lever.why));
    }
    text
}

fn class_line(class: &ClassState) -> String {
    let name = if class.is_paused { format!("{} (paused)", class.name) } else { class.name.clone() };
    let short = class.last_10_s.as_ref();
    let of = |pick: fn(&Times) -> Option<f64>| length(short.and_then(|window| pick(&window.transaction)));
    let rate = short.map_or("-".to_owned(), |window| format!("{:.1}", window.transactions_per_s));
    format!(
        "{:<14}{rate:>9}{:>9}{:>9}{:>9}{:>12}{:>4}{:>6}{:>6}",
        shortened(&name, 13),
        of(|times| times.p50_s),
        of(|times| times.p95_s),
        of(|times| times.p99_s),
        length(class.last_60_s.as_ref().and_then(|window| window.transaction.p95_s)),
        class.inside,
        class.queued,
        class.sessions,
    )
}

fn shortened(name: &str, most: usize) -> String {
    if name.chars().count() <= most { name.to_owned() } else { name.chars().take(most - 1).chain(['…']).collect() }
}

/// A length of time with three digits.
fn length(seconds: Option<f64>) -> String {
    let Some(seconds) = seconds else { return "-".to_owned() };
    let (number, unit) = match seconds {
        s if s >= 7200.0 => (s / 3600.0, "h"),
        s if s >= 120.0 => (s / 60.0, "min"),
        s if s >= 1.0 => (s, "s"),
        s => (s * 1e3, "ms"),
    };
    let digits = if number >= 99.95 {
        0
    } else if number >= 9.995 {
        1
    } else {
        2
    };
    format!("{number:.digits$} {unit}")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use plimsoll_policy::ClassIndex;

    use super::*;
    use crate::governor::Governor;
    use crate::settings::for_tests;
    use crate::statistics::count;

    #[test]
    fn no_line_is_longer_than_a_terminal() {
        let start = Instant::now();
        let governor = Arc::new(Governor::new(for_tests(), start));
        governor.history.lock().take(&governor.statistics, start);
        for _ in 0..100 {
            count(&governor.statistics.class(ClassIndex(0)).transactions);
            governor.statistics.class(ClassIndex(0)).times.transaction.record(Duration::from_millis(3));
        }
        governor.history.lock().take(&governor.statistics, start + Duration::from_secs(10));
        let mut state = State::of(&governor, start);
        state.server = "a-host-with-a-name-that-is-long.and-a-domain.example:5432".to_owned();
        state.classes[1].name = "a_class_with_a_long_name".to_owned();
        state.classes[1].is_paused = true;
        let table = table(&state);
        assert!(table.lines().all(|line| line.chars().count() <= WIDTH), "{table}");
        let high = table.lines().find(|line| line.starts_with("high")).expect("a line of the class");
        let cells: Vec<&str> = high.split_whitespace().collect();
        assert_eq!(cells[..3], ["high", "10.0", "3.01"], "{table}");
        assert!(table.contains("a_class_with…"), "{table}");
    }

    #[test]
    fn lengths_have_three_digits() {
        for (seconds, expect) in [
            (0.00012, "0.12 ms"),
            (0.0123, "12.3 ms"),
            (0.5, "500 ms"),
            (1.5, "1.50 s"),
            (600.0, "10.0 min"),
            (7200.0, "2.00 h"),
        ] {
            assert_eq!(length(Some(seconds)), expect);
        }
        assert_eq!(length(None), "-");
    }
}
