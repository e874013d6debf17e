//! Amounts with units: `300ms`, `1.5 GB`.

/// Units of time and how many microseconds each has, the largest first.
pub const TIME_UNITS: [(&str, u64); 6] =
    [("d", 86_400_000_000), ("h", 3_600_000_000), ("min", 60_000_000), ("s", 1_000_000), ("ms", 1000), ("us", 1)];

/// The amount that a number with its unit gives, rounded to a whole number. `None` for any other text, also for a bare
/// number, and for an amount of more than 64 bits.
pub fn scaled(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let text = text.trim();
    let end = text.find(|letter: char| !(letter.is_ascii_digit() || letter == '.'))?;
    let (number, unit) = text.split_at(end);
    let (_, factor) = units.iter().find(|(name, _)| *name == unit.trim_start())?;
    match number.parse::<u64>() {
        Ok(whole) => whole.checked_mul(*factor),
        // `1.5GB`; a number that is not finite or too large for the type has no meaning here.
        Err(_) => {
            let product = (number.parse::<f64>().ok()? * *factor as f64).round();
            (product < u64::MAX as f64).then_some(product as u64)
        }
    }
}

/// An amount in the largest of these units of which it is a whole number; 0 has the unit `of_nothing`.
pub fn written(amount: u64, units: &[(&str, u64)], of_nothing: &str) -> String {
    let is_whole = |(_, factor): &&(&str, u64)| amount > 0 && amount.is_multiple_of(*factor);
    let (unit, factor) = units.iter().find(is_whole).copied().unwrap_or((of_nothing, 1));
    format!("{}{unit}", amount / factor)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn amounts_have_units() {
        let check = |text: &str, expect: Option<u64>| assert_eq!(scaled(text, &TIME_UNITS), expect, "{text}");
        check("300ms", Some(300_000));
        check(" 1.5 s ", Some(1_500_000));
        check("0d", Some(0));
        for nonsense in ["", "ms", "5", "-1s", "1.2.3s", "5s5s", "1e3s", "∞s", "1m", "99999999999999999999d"] {
            check(nonsense, None);
        }
        assert_eq!(written(0, &TIME_UNITS, "s"), "0s");
        assert_eq!(written(1_500_000, &TIME_UNITS, "s"), "1500ms");
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(amount in 0..u64::MAX >> 1) {
            prop_assert_eq!(scaled(&written(amount, &TIME_UNITS, "us"), &TIME_UNITS), Some(amount));
        }

        #[test]
        fn any_text_is_read_or_refused(text in ".*") {
            let _ = scaled(&text, &TIME_UNITS);
        }
    }
}
