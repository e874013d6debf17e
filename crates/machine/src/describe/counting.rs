//! What hardware counters showed in a short piece of work.

use std::fmt::Write;

use super::layout::write_item;
use crate::counters::CounterReading;
use crate::counters::event::Event;

/// Writes every figure of a reading, and its notes.
pub(super) fn write_reading(text: &mut String, reading: &CounterReading) {
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

    #[test]
    fn a_reading_with_a_figure_missing() {
        let mut text = String::new();
        let reading = CounterReading {
            cycles: Some(1_234_567_890),
            instructions: Some(617_283_945),
            l1d_misses: Some(12),
            llc_misses: None,
            branch_misses: Some(0),
            coverage: 0.86,
            notes: vec![
                "last-level cache misses are not offered by this processor (LLC-load-misses: Invalid argument)".into(),
            ],
        };
        write_reading(&mut text, &reading);
        assert_eq!(
            text,
            "  cycles                           1,234,567,890
  instructions                       617,283,945
  first-level data cache misses               12
  last-level cache misses                      -
  branch misses                                0
  instructions per cycle                    0.50
  coverage                                  86 %
  note: last-level cache misses are not offered by this processor
        (LLC-load-misses: Invalid argument)
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
