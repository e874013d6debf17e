//! [`MachineFacts`] in words, for people with a terminal of 80 columns.

use std::fmt::Write;

use crate::counters::{CounterReading, CountersUnavailable, Event};
use crate::facts::{Cache, Capability, MachineFacts};
use crate::top_down::TopDown;

/// The widest line, except for words that are wider.
const WIDTH: usize = 80;

/// Describes a machine: what it is, then every capability with its reason and remedy, then what the counters showed in a
/// short piece of work, as [`probe`](crate::counters::probe) does it.
pub fn describe(facts: &MachineFacts, counters: &Result<CounterReading, CountersUnavailable>) -> String {
    let mut text = String::from("Machine\n");
    for (name, value) in summary(facts) {
        write_item(&mut text, &format!("  {name:<11} "), &value);
    }
    text.push_str("\nWhat can be measured and limited here\n");
    for capability in &facts.capabilities {
        write_capability(&mut text, capability);
    }
    text.push_str("\nCounters during a test of random loads (this thread, user mode)\n");
    match counters {
        Ok(reading) => write_reading(&mut text, reading),
        Err(unavailable) => write_item(&mut text, "  none: ", &unavailable.to_string()),
    }
    text
}

fn summary(facts: &MachineFacts) -> Vec<(String, String)> {
    let row = |name: &str, value: String| (name.to_owned(), value);
    let mut rows = vec![
        row("processor", format!("{} ({})", facts.cpu_model, facts.cpu_id)),
        row(
            "cores",
            format!(
                "{} usable of {} online; {}, {} per core",
                facts.cores_usable,
                facts.cores_online,
                count(facts.sockets, "socket"),
                count(facts.threads_per_core, "hardware thread")
            ),
        ),
    ];
    rows.extend(facts.caches.iter().map(|cache| row(&cache_name(cache), describe_cache(cache))));
    if facts.caches.is_empty() {
        rows.push(row("caches", "unknown: /sys/devices/system/cpu shows none".to_owned()));
    }
    let memory = if facts.memory_bytes == 0 { "unknown".to_owned() } else { bytes(facts.memory_bytes) };
    let limit =
        facts.memory_limit_bytes.map_or_else(String::new, |limit| format!(", {} by cgroup limit", bytes(limit)));
    rows.push(row("memory", memory + &limit));
    rows.push(row("kernel", format!("Linux {}", facts.kernel)));
    rows.push(row("guest of", facts.virtualised.clone().unwrap_or_else(|| "nobody, as far as can be seen".to_owned())));
    rows
}

fn cache_name(cache: &Cache) -> String {
    match cache.kind.as_str() {
        "data" => format!("L{}d cache", cache.level),
        "instruction" => format!("L{}i cache", cache.level),
        _ => format!("L{} cache", cache.level),
    }
}

fn describe_cache(cache: &Cache) -> String {
    let ways = cache.ways.map_or_else(|| "ways unknown".to_owned(), |ways| format!("{ways} ways"));
    let sharing = match cache.shared_by {
        1 => "own of each logical core".to_owned(),
        cores => format!("shared by {cores} logical cores"),
    };
    format!("{}, {ways}, {sharing}; {} in all", bytes(cache.size_bytes), cache.count)
}

fn write_capability(text: &mut String, capability: &Capability) {
    let answer = if capability.available { "yes" } else { "no" };
    let _ = writeln!(text, "  {answer:<4} {}", capability.name);
    write_item(text, "       ", &capability.reason);
    if let Some(remedy) = &capability.remedy {
        write_item(text, "       remedy: ", remedy);
    }
}

fn write_reading(text: &mut String, reading: &CounterReading) {
    let summary = reading.summary();
    let _ = writeln!(text, "  {:<31}{:>15}{:>10}", "", "estimate", "coverage");
    for event in Event::HARDWARE {
        let (count, coverage) = match summary.figures.get(&event) {
            Some(figure) => (grouped(figure.count), format!("{:.0} %", figure.coverage * 100.0)),
            None => ("-".to_owned(), String::new()),
        };
        let _ = writeln!(text, "{}", format!("  {:<31}{count:>15}{coverage:>10}", event.to_string()).trim_end());
    }
    if let Some(ratio) = summary.instructions_per_cycle {
        let _ = writeln!(text, "  {:<31}{ratio:>15.2}", "instructions per cycle");
    }
    if let Some(read) = &summary.memory_read {
        let _ = writeln!(text, "  {:<31}{:>15}", "read from memory", bytes(read.bytes));
    }
    if let Some(top_down) = &summary.top_down {
        write_top_down(text, top_down);
    }
    for note in summary.notes.iter().chain(summary.top_down.iter().flat_map(|top_down| &top_down.notes)) {
        write_item(text, "  note: ", note);
    }
}

fn write_top_down(text: &mut String, top_down: &TopDown) {
    let badge = if top_down.approximate { ", approximate" } else { "" };
    write_item(text, "  top-down: ", &format!("{} by {}{badge}", top_down.family, top_down.method));
    for (name, share) in [
        ("retiring", top_down.retiring),
        ("bad speculation", top_down.bad_speculation),
        ("frontend", top_down.frontend),
        ("backend", top_down.backend),
        ("  memory", top_down.memory),
        ("  core", top_down.core),
        ("SMT contention", top_down.smt_contention),
    ] {
        if let Some(share) = share {
            let _ = writeln!(text, "    {name:<29}{:>13.1} %", share * 100.0);
        }
    }
}

/// Writes `value` behind `lead`, on as many lines as it takes; those after the first are indented by the width of `lead`.
fn write_item(text: &mut String, lead: &str, value: &str) {
    let indent = " ".repeat(lead.chars().count());
    let mut line = lead.to_owned();
    let mut width = indent.len();
    let mut is_first_word = true;
    for word in value.split_whitespace() {
        let word_width = word.chars().count();
        if !is_first_word && width + 1 + word_width > WIDTH {
            text.push_str(&line);
            text.push('\n');
            line.clone_from(&indent);
            width = indent.len();
            is_first_word = true;
        }
        if !is_first_word {
            line.push(' ');
            width += 1;
        }
        line.push_str(word);
        width += word_width;
        is_first_word = false;
    }
    text.push_str(&line);
    text.push('\n');
}

/// `1 socket`, `2 sockets`.
fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// `32 KiB`, `23.5 GiB`: one decimal if there is something behind the point.
fn bytes(bytes: u64) -> String {
    let (unit, name) = [(1u64 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")]
        .into_iter()
        .find(|unit| bytes >= unit.0)
        .unwrap_or((1, "B"));
    if bytes.is_multiple_of(unit) {
        return format!("{} {name}", bytes / unit);
    }
    format!("{:.1} {name}", bytes as f64 / unit as f64)
}

/// `12,345,678`.
fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests;
