//! The freshness of the data that queries read, as text; nothing if they read the rows that transactions write.

use plimsoll_display::{figure_line, heading_line, wrap};

use super::sweep::setting;
use crate::freshness::{answers, copied, overload};
use crate::results::Results;
use crate::sections::freshness::FIGURES;

/// The number of settings that are printed; the report has all.
const SETTINGS_MAX: usize = 24;

/// A line for each arm and setting, and one below it if the copy cannot keep up.
pub(super) fn lines(results: &Results) -> Vec<String> {
    let all = copied(results);
    if all.is_empty() {
        return Vec::new();
    }
    let mut out = vec![String::new(), "Freshness of the copy that queries read".to_owned()];
    out.push(row("", &heading_line(&FIGURES)));
    // Printed once if it is the same for all.
    let of_all = all.windows(2).all(|two| answers(&two[0].freshness) == answers(&two[1].freshness));
    let mut last = "";
    for one in all.iter().take(SETTINGS_MAX) {
        if !one.setting.is_empty() && one.arm != last {
            out.extend(wrap(one.arm, "  ", "    "));
        }
        last = one.arm;
        let name = if one.setting.is_empty() { one.arm.to_owned() } else { setting(one.setting) };
        out.push(row(&name, &figure_line(&FIGURES, &one.freshness)));
        out.extend(overload(one).iter().flat_map(|why| wrap(why, "    ", "    ")));
        let age = answers(&one.freshness).filter(|_| !of_all);
        out.extend(age.iter().flat_map(|age| wrap(age, "    ", "    ")));
    }
    if let Some(more @ 1..) = all.len().checked_sub(SETTINGS_MAX) {
        out.push(format!("  and {more} more settings, in the report"));
    }
    let age = answers(&all[0].freshness).filter(|_| of_all);
    out.extend(age.iter().flat_map(|age| wrap(age, "  ", "  ")));
    out
}

/// A name longer than its column is on a line of its own.
fn row(name: &str, figures: &str) -> String {
    match name.chars().count() {
        0..=10 => format!("  {name:<11}{figures}"),
        _ => format!("  {name}\n  {:<11}{figures}", ""),
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_workload::freshness::{ChangeUnit, Freshness, Spread};

    use super::*;
    use crate::report::fixture;

    #[test]
    fn an_arm_has_a_line_and_no_line_is_too_long() {
        let mut results = fixture::study();
        assert_eq!(lines(&results), Vec::<String>::new());
        let slow = Freshness { lambda: Some(9e6), ..fixture::copy::standby() };
        results.estimates.iter_mut().for_each(|cell| {
            cell.device.freshness = Some(if cell.arm == "together" { slow } else { fixture::copy::standby() });
        });
        let text = lines(&results).join("\n");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(!text.contains("queries merge"), "{text}");
        let tuples = Freshness { unit: ChangeUnit::Tuples, lambda: Some(1.05e6), mu: Some(3.19e6), ..slow };
        results.estimates.iter_mut().for_each(|cell| cell.device.freshness = Some(tuples));
        assert!(lines(&results).join("\n").contains(" 1.05 M tuples/s 3.19 M tuples/s "));
        results.estimates.iter_mut().for_each(|cell| {
            let none = Some(Spread { p50: Some(0.0), p95: Some(0.0), max: Some(0.0) });
            cell.device.freshness = Some(Freshness { staleness_us: none, ..fixture::copy::standby() });
        });
        assert_eq!(lines(&results).join("\n").matches("they miss no commit").count(), 1);
        let tuples =
            Freshness { unit: ChangeUnit::Tuples, lambda: Some(227e3), mu: Some(1.63e6), ..fixture::copy::standby() };
        results.estimates.iter_mut().for_each(|cell| cell.device.freshness = Some(tuples));
        let beside = lines(&results).join("\n");
        assert!(beside.contains("227 k tuples/s 1.63 M tuples/s"), "{beside}");
        for there in ["3.20 MB/s", "8.00 MB/s", "40 %", "2.00 ms", "12.0 ms", "80.0 ms", "together", "cannot keep up"] {
            assert!(text.contains(there), "{there}: {text}");
        }
    }
}
