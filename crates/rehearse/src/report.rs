//! A rehearsal as text for a terminal.

use plimsoll_display::{
    MISSING, count, cut, duration_us, latency_told, one_line, ratio, seconds, wrap, write_item, write_table,
};

use crate::latency::{Estimate, Latencies, Latency};
use crate::result::{Comparison, Rehearsal, ServerResult, StatementResult};

/// Kinds of units that are listed; `--json` has all.
const STATEMENTS_MAX: usize = 15;
/// The longest text of a statement that is shown.
const TEXT_MAX: usize = 200;

/// The text.
pub fn render(rehearsal: &Rehearsal) -> String {
    let mut text = String::new();
    let (capture, facts) = (&rehearsal.capture, &rehearsal.capture.facts);
    let copies =
        if rehearsal.copies > 1 { format!(", each session {} times", rehearsal.copies) } else { String::new() };
    let speed = match rehearsal.speed {
        None => "as fast as possible".to_owned(),
        Some(1.0) => "at its own speed".to_owned(),
        Some(times) => format!("at {} times its speed", plimsoll_display::plain(times)),
    };
    let version = capture
        .server_version
        .map_or_else(String::new, |number| format!(", recorded on PostgreSQL {}.{}", number / 10_000, number % 10_000));
    let title = format!(
        "{}{version}: {} in {}, replayed {speed}{copies}",
        one_line(&capture.folder),
        units_of(facts.units),
        seconds(facts.span_us as f64 / 1e6)
    );
    lines(&mut text, &title, "", "");
    if let Some(comparison) = &rehearsal.comparison {
        write_comparison(&mut text, rehearsal, comparison);
    }
    for server in &rehearsal.servers {
        write_server(&mut text, server);
    }
    if !rehearsal.notes.is_empty() {
        text.push('\n');
        rehearsal.notes.iter().for_each(|note| lines(&mut text, note, "note: ", "      "));
    }
    if !rehearsal.invalid.is_empty() {
        text.push('\n');
        rehearsal.invalid.iter().for_each(|why| lines(&mut text, why, "not valid: ", "           "));
    }
    text
}

fn lines(text: &mut String, what: &str, first: &str, rest: &str) {
    for line in wrap(what, first, rest) {
        text.push_str(&line);
        text.push('\n');
    }
}

/// `1 unit`, `12 345 units`.
fn units_of(units: u64) -> String {
    format!("{} unit{}", count(units), if units == 1 { "" } else { "s" })
}

/// A figure with its interval: `1.12 (1.05 to 1.19)`.
fn with_interval(estimate: &Estimate, write: fn(f64) -> String) -> String {
    match (estimate.low, estimate.high) {
        (Some(low), Some(high)) => format!("{} ({} to {})", write(estimate.value), write(low), write(high)),
        _ => write(estimate.value),
    }
}

fn write_comparison(text: &mut String, rehearsal: &Rehearsal, comparison: &Comparison) {
    let [ours, others] = &rehearsal.servers[..] else { return };
    text.push('\n');
    // Versions name servers best, unless they are equal.
    let versions_differ = ours.check.version != others.check.version;
    let name = |server: &ServerResult| match versions_differ {
        true => format!("PostgreSQL {}", server.check.version),
        false => server.url.clone(),
    };
    let sentence = match &comparison.times_as_fast {
        Some(times) => format!(
            "{} is {} times as fast as {} on this traffic ({} turns each).",
            name(ours),
            with_interval(times, ratio),
            name(others),
            comparison.turns
        ),
        None => "The servers could not be compared: no turn of both was complete.".to_owned(),
    };
    lines(text, &sentence, "", "");
    let slower = comparison.slower.len();
    let counts = format!(
        "{slower} kinds of statements are slower, {} are faster, and {} show no difference.",
        comparison.faster, comparison.alike
    );
    lines(text, &counts, "", "");
    for one in &comparison.slower {
        let times = with_interval(&one.times_as_fast, ratio);
        lines(text, &format!("{times} times as fast: {}", cut(&one_line(&one.text), TEXT_MAX)), "  - ", "    ");
        if one.plan_before.plan.is_some() && one.plan_before == one.plan_now {
            text.push_str("    the plan is the same\n");
            continue;
        }
        for (when, shown) in [("on the other server", &one.plan_before), ("on the target", &one.plan_now)] {
            text.push_str(&format!("    its plan {when}:\n"));
            let lines = shown.plan.iter().chain(&shown.why_not).flat_map(|plan| plan.lines());
            lines.for_each(|line| text.push_str(&format!("      {}\n", one_line(line))));
        }
    }
}

fn write_server(text: &mut String, server: &ServerResult) {
    text.push('\n');
    let total: f64 = server.seconds.iter().sum();
    let title = format!("{}: {} sent in {}", one_line(&server.url), units_of(server.sent), seconds(total));
    lines(text, &title, "", "");
    for (units, why) in &server.skipped_words {
        lines(text, &format!("{} not sent: {why}", units_of(*units)), "  ", "    ");
    }
    let failures = &server.check.failures;
    if !failures.is_empty() {
        let title = format!("{} of {} statements cannot run there:", failures.len(), server.check.statements);
        lines(text, &title, "  ", "    ");
        for failure in failures {
            let statement = cut(&one_line(&failure.statement), TEXT_MAX);
            lines(text, &format!("{}: {statement} ({})", failure.message, units_of(failure.units)), "    - ", "      ");
        }
    }
    let answers = format!(
        "{} failed and had not failed in the recording, {} of the recorded errors came out otherwise, {} had another \
         number of rows, and {} of {} compared answers differ",
        units_of(server.failed),
        count(server.failed_otherwise),
        units_of(server.rows_differ),
        count(server.answers_differ),
        count(server.compared)
    );
    lines(text, &answers, "  ", "    ");
    server.lost.iter().for_each(|why| lines(text, &format!("a session was lost: {}", one_line(why)), "  ", "    "));
    if let Some(latency) = &server.latency {
        text.push('\n');
        write_latency(text, latency);
    }
    if let (Some(p50), Some(p95), Some(max)) = (server.lag.p50_us, server.lag.p95_us, server.lag.max_us) {
        let told = |us: u64| latency_told(us as f64);
        let lag =
            format!("units began {} (p50), {} (p95), at most {} after their time", told(p50), told(p95), told(max));
        lines(text, &lag, "  ", "    ");
    }
    if !server.statements.is_empty() {
        text.push('\n');
        write_statements(text, &server.statements);
    }
}

fn write_latency(text: &mut String, latency: &Latencies) {
    type Part = fn(&Latency) -> &Estimate;
    let parts: [(&str, Part, &Estimate); 3] = [
        ("mean", |it| &it.mean_us, &latency.mean_ratio),
        ("p50", |it| &it.p50_us, &latency.p50_ratio),
        ("p95", |it| &it.p95_us, &latency.p95_ratio),
    ];
    let row = |(name, part, times): (&str, Part, &Estimate)| {
        let side = |side: &Latency| latency_told(part(side).value);
        [name.to_owned(), side(&latency.recorded), side(&latency.now), with_interval(times, ratio)]
    };
    write_table(text, &["latency", "then", "now", "now/then"], &parts.into_iter().map(row).collect());
}

fn write_statements(text: &mut String, statements: &[StatementResult]) {
    let row = |one: &StatementResult| {
        let p50 = |part: fn(&Latencies) -> &Latency| {
            one.latency.as_ref().map_or_else(|| MISSING.to_owned(), |it| latency_told(part(it).p50_us.value))
        };
        let times = one.latency.as_ref().map_or_else(|| MISSING.to_owned(), |it| with_interval(&it.mean_ratio, ratio));
        let mut about = cut(&one_line(&one.text), TEXT_MAX);
        for (what, units) in &one.errors_differ {
            about.push_str(&format!(" [errors {what}: {}]", count(*units)));
        }
        if one.rows_differ > 0 {
            about.push_str(&format!(" [other row counts: {}]", count(one.rows_differ)));
        }
        if one.answers_differ > 0 {
            about.push_str(&format!(" [other answers: {} of {}]", count(one.answers_differ), count(one.compared)));
        }
        [count(one.calls), p50(|it| &it.recorded), p50(|it| &it.now), times, about]
    };
    let rows: Vec<[String; 5]> = statements.iter().take(STATEMENTS_MAX).map(row).collect();
    write_table(text, &["calls", "p50 then", "p50 now", "mean now/then", "statement"], &rows);
    if statements.len() > STATEMENTS_MAX {
        let rest: f64 = statements[STATEMENTS_MAX..]
            .iter()
            .filter_map(|one| one.latency.map(|it| it.recorded.mean_us.value * it.calls as f64))
            .sum();
        let more = statements.len() - STATEMENTS_MAX;
        write_item(
            text,
            "  ",
            &format!("and {more} more, {} of recorded time together; --json has them", duration_us(rest)),
        );
    }
}

#[cfg(test)]
mod tests;
