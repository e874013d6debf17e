//! Scales and coordinates. Charts are drawn 360 units wide, so that their text stays readable on a phone.

/// Width of every chart.
pub(super) const WIDTH: f64 = 360.0;

/// A coordinate with one decimal. Something that is not a number is 0, which is visible and harms no parser.
pub(super) fn px(value: f64) -> String {
    let value = if value.is_finite() { value } else { 0.0 };
    let text = format!("{value:.1}");
    match text.strip_suffix(".0") {
        Some("-0") => "0".to_string(),
        Some(whole) => whole.to_string(),
        None => text,
    }
}

/// A straight map from values to coordinates.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scale {
    /// Smallest and largest value.
    pub domain: (f64, f64),
    /// Their coordinates.
    pub range: (f64, f64),
}

impl Scale {
    /// Where `value` is drawn; beyond the ends of the domain, at its ends.
    pub(super) fn at(&self, value: f64) -> f64 {
        let width = self.domain.1 - self.domain.0;
        let part = if width > 0.0 { ((value - self.domain.0) / width).clamp(0.0, 1.0) } else { 0.0 };
        self.range.0 + part * (self.range.1 - self.range.0)
    }
}

/// Round steps of 1, 2 or 5 from 0 up to `most`, at most six.
pub(super) fn linear_ticks(most: f64) -> Vec<f64> {
    if !(most.is_finite() && most > 0.0) {
        return vec![0.0];
    }
    let decade = 10f64.powf((most / 4.0).log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|times| times * decade).into_iter().find(|step| most / step <= 4.0);
    let step = step.unwrap_or(10.0 * decade);
    (0..=5).map(|index| f64::from(index) * step).take_while(|&tick| tick <= most * 1.0001).collect()
}

/// Steps of 1, 2 and 5 that enclose `least` to `most` on a log scale; whole decades where those are too many.
pub(super) fn log_ticks(least: f64, most: f64) -> Vec<f64> {
    let least = least.max(1.0);
    let most = most.max(least);
    let steps = |times: &'static [f64]| {
        let decades = least.log10().floor() as i32..=most.log10().ceil() as i32;
        let all = decades.flat_map(move |decade| times.iter().map(move |t| t * 10f64.powi(decade))).collect::<Vec<_>>();
        let first = all.iter().rposition(|&tick| tick <= least * 1.0001).unwrap_or(0);
        let last = all.iter().position(|&tick| tick >= most * 0.9999).unwrap_or(all.len() - 1);
        // A flat line still needs two ticks to stand between.
        all[first..=last.max(first + 1).min(all.len() - 1)].to_vec()
    };
    let fine = steps(&[1.0, 2.0, 5.0]);
    if fine.len() <= 7 { fine } else { steps(&[1.0]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_enclose() {
        assert_eq!(linear_ticks(3200.0), [0.0, 1000.0, 2000.0, 3000.0]);
        assert_eq!(linear_ticks(2.05), [0.0, 1.0, 2.0]);
        assert_eq!(linear_ticks(0.0), [0.0]);
        assert_eq!(linear_ticks(f64::NAN), [0.0]);
        assert_eq!(log_ticks(2450.0, 61_000.0), [2e3, 5e3, 1e4, 2e4, 5e4, 1e5]);
        assert_eq!(log_ticks(100.0, 100.0), [100.0, 200.0]);
        assert_eq!(log_ticks(3.0, 4e6), [1.0, 10.0, 100.0, 1e3, 1e4, 1e5, 1e6, 1e7]);
        assert_eq!(log_ticks(0.0, 0.0), [1.0, 2.0]);
    }

    #[test]
    fn coordinates_stay_within_and_short() {
        let scale = Scale { domain: (0.0, 10.0), range: (50.0, 150.0) };
        assert_eq!([scale.at(-1.0), scale.at(5.0), scale.at(11.0)], [50.0, 100.0, 150.0]);
        assert_eq!([px(1.25), px(3.0), px(f64::NAN), px(-0.01)], ["1.2", "3", "0", "0"]);
        assert_eq!(Scale { domain: (1.0, 1.0), range: (0.0, 9.0) }.at(1.0), 0.0);
    }
}
