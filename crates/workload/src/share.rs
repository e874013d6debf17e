//! How often clients have drawn something, compared with its probability.

use crate::benchmark::CheckLine;

/// The number of draws from which a share is judged: fewer say little.
pub(crate) const JUDGED_FROM: u64 = 10_000;

/// How far a share may be from its probability, in standard errors of a share of that many draws. A correct share is
/// farther off once in some 16,000 times.
const STANDARD_ERRORS: f64 = 4.0;

/// Judges that `count` of `draws` independent draws had a property of that probability.
pub(crate) fn share(what: String, count: u64, draws: u64, probability: f64) -> CheckLine {
    if draws < JUDGED_FROM {
        return unjudged(what, draws);
    }
    let found = count as f64 / draws as f64;
    let slack = STANDARD_ERRORS * (probability * (1.0 - probability) / draws as f64).sqrt();
    let [percent, expected, slack_percent] = [found, probability, slack].map(|share| 100.0 * share);
    CheckLine {
        what,
        holds: Some((found - probability).abs() <= slack),
        found: format!("{percent:.3} % of {draws}; {expected:.3} % expected, give or take {slack_percent:.3} %"),
    }
}

/// The line of a share of too few draws.
pub(crate) fn unjudged(what: String, draws: u64) -> CheckLine {
    CheckLine { what, holds: None, found: format!("{draws} are too few to judge; {JUDGED_FROM} are needed") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_judged_by_probability_and_sample_size() {
        let check = |count, draws, expect| {
            let line = share("share".to_owned(), count, draws, 0.15);
            assert_eq!(line.holds, expect, "{}", line.found);
        };
        check(0, 0, None);
        check(1_500, 9_999, None);
        check(1_500, 10_000, Some(true));
        check(1_640, 10_000, Some(true));
        check(1_650, 10_000, Some(false));
        check(1_350, 10_000, Some(false));
        check(150_000, 1_000_000, Some(true));
        check(151_600, 1_000_000, Some(false));
    }

    #[test]
    fn what_is_certain_or_impossible_admits_no_exception() {
        for (count, probability, expect) in [(0, 0.0, true), (1, 0.0, false), (10_000, 1.0, true), (9_999, 1.0, false)]
        {
            assert_eq!(share("share".to_owned(), count, 10_000, probability).holds, Some(expect));
        }
    }
}
