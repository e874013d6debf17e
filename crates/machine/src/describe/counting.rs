//! The counts of hardware counters during a short piece of work, as text.

use std::fmt::Write;

use crate::counters::{CounterReading, Event};
use crate::top_down::TopDown;
use plimsoll_display::{bytes, write_item};

pub(super) fn write_reading(text: &mut String, reading: &CounterReading) {
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
    let levels = top_down.memory_levels;
    for (name, share) in [
        ("retiring", top_down.retiring),
        ("bad speculation", top_down.bad_speculation),
        ("frontend", top_down.frontend),
        ("  latency", top_down.front_end.latency),
        ("    icache", top_down.front_end.icache),
        ("    branch resteers", top_down.front_end.branch_resteers),
        ("  bandwidth", top_down.front_end.bandwidth),
        ("  decoding (SI)", top_down.front_end.decoding),
        ("backend", top_down.backend),
        ("  memory", top_down.memory),
        ("    l1", levels.map(|levels| levels.l1)),
        ("    l2", levels.map(|levels| levels.l2)),
        ("    l3", levels.map(|levels| levels.l3)),
        ("    dram", levels.map(|levels| levels.dram)),
        ("    store", levels.map(|levels| levels.store)),
        ("  core", top_down.core),
        ("SMT contention", top_down.smt_contention),
    ] {
        if let Some(share) = share {
            let _ = writeln!(text, "    {name:<29}{:>13.1} %", share * 100.0);
        }
    }
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
mod tests {
    use super::*;
    use crate::counters::reading::tests::reading_of;
    use crate::top_down::Family;

    #[test]
    fn a_reading_with_figures_missing() {
        let mut text = String::new();
        let first =
            [("cycles", 1_234_567_890), ("instructions", 617_283_945), ("l1d_misses", 12), ("branch_misses", 0)];
        let second = [
            ("cycles", 1_000_000),
            ("ex_ret_ops", 2_400_000),
            ("de_dis_uop_queue_empty_di0", 200_000),
            ("de_dis_dispatch_token_stalls1", 200_000),
            ("de_dis_dispatch_token_stalls2", 100_000),
        ];
        let mut reading = reading_of(&[(75, 75, &first), (25, 25, &second)]);
        reading.family = Some(Family::Zen3);
        reading.notes = vec![
            "last-level cache misses are not offered by this processor (LLC-load-misses: Invalid argument)".into(),
        ];
        write_reading(&mut text, &reading);
        assert_eq!(
            text,
            "                                        estimate  coverage
  cycles                           1,235,567,890     100 %
  instructions                       823,045,260      75 %
  instructions in kernel mode                  -
  instructions spent spinning                  -
  branches                                     -
  branch misses                                0      75 %
  first-level data cache loads                 -
  first-level data cache misses               16      75 %
  second-level cache misses                    -
  last-level cache loads                       -
  last-level cache misses                      -
  data TLB loads                               -
  data TLB misses                              -
  misses served by L2                          -
  misses served by L3                          -
  misses served by memory                      -
  lines of code from L2                        -
  lines of code from beyond L2                 -
  instructions per cycle                    0.50
  top-down: AMD Zen 3 by cycles of dispatch stalls, approximate
    retiring                              40.0 %
    bad speculation                       10.0 %
    frontend                              20.0 %
    backend                               30.0 %
  note: last-level cache misses are not offered by this processor
        (LLC-load-misses: Invalid argument)
  note: no memory reads: lines read from memory were not counted
  note: cycle-based approximation: retiring is in slots, frontend and backend
        are in cycles, the backend is an upper bound and bad speculation is the
        rest; not comparable with processors that count slots
  note: not counted on this processor: level 2 of the frontend (latency,
        bandwidth); level 3 of the frontend (icache, branch resteers, decoding);
        level 2 of the backend (memory, core); level 3 of the backend (l1, l2,
        l3, dram, store)
"
        );
    }

    #[test]
    fn thousands() {
        let check = |value, expect: &str| assert_eq!(grouped(value), expect);
        check(0, "0");
        check(999, "999");
        check(1000, "1,000");
        check(1_234_567, "1,234,567");
    }
}
