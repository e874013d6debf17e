//! [`MachineFacts`] in words, for people with a terminal of 80 columns.

use std::fmt::Write;

use crate::counters::event::Event;
use crate::counters::{CounterReading, CountersUnavailable};
use crate::facts::{Cache, Capability, MachineFacts};

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
    let values = [reading.cycles, reading.instructions, reading.l1d_misses, reading.llc_misses, reading.branch_misses];
    for (event, value) in Event::ALL.into_iter().zip(values) {
        let value = value.map_or_else(|| "-".to_owned(), grouped);
        let _ = writeln!(text, "  {:<31}{value:>15}", event.to_string());
    }
    if let (Some(cycles @ 1..), Some(instructions)) = (reading.cycles, reading.instructions) {
        let _ = writeln!(text, "  {:<31}{:>15.2}", "instructions per cycle", instructions as f64 / cycles as f64);
    }
    let _ = writeln!(text, "  {:<31}{:>13.0} %", "coverage", reading.coverage * 100.0);
    for note in &reading.notes {
        write_item(text, "  note: ", note);
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
