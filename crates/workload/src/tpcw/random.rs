//! Random numbers and texts (TPC-W 2.1, 4.6.2), and the syllables that names and titles are made of.

use rand_pcg::Pcg64;
use rand_pcg::rand_core::Rng;

use crate::random::{mix, uniform};

/// A seeded source. Each is made for one purpose, a row or a client, so its values do not depend on the order in which
/// rows are made.
#[derive(Debug)]
pub(super) struct Random {
    generator: Pcg64,
    text: String,
}

/// As many characters as six bits can distinguish.
const CHARACTERS: &[u8; 64] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";

impl Random {
    /// The stream of that number for a purpose.
    pub(super) fn new(seed: u64, purpose: u64, number: u64) -> Self {
        let stream = u128::from(mix(purpose)) << 64 | u128::from(number);
        Random { generator: Pcg64::new(u128::from(mix(seed)), stream), text: String::new() }
    }

    /// An integer of `low..=high`, each equally likely (to within 2^-40 for the ranges used here).
    pub(super) fn uniform(&mut self, low: i64, high: i64) -> i64 {
        uniform(&mut self.generator, low, high)
    }

    /// NURand(A, x, y) (TPC-W 2.1.13).
    pub(super) fn non_uniform(&mut self, bits: i64, low: i64, high: i64) -> i64 {
        (self.uniform(0, bits) | self.uniform(low, high)) % (high - low + 1) + low
    }

    /// A number of a negative exponential distribution.
    pub(super) fn exponential(&mut self, mean: f64) -> f64 {
        let fraction = (self.generator.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        -mean * (1.0 - fraction).ln()
    }

    pub(super) fn one_of(&mut self, words: &[&'static str]) -> &'static str {
        words[self.uniform(0, words.len() as i64 - 1) as usize]
    }

    /// A random text of a length in `shortest..=longest`.
    pub(super) fn text(&mut self, shortest: i64, longest: i64) -> &str {
        const CHARACTERS_PER_DRAW: usize = 10;
        let length = self.uniform(shortest, longest) as usize;
        self.text.clear();
        while self.text.len() < length {
            let mut bits = self.generator.next_u64();
            for _ in 0..CHARACTERS_PER_DRAW.min(length - self.text.len()) {
                self.text.push(char::from(CHARACTERS[(bits & 63) as usize]));
                bits >>= 6;
            }
        }
        &self.text
    }

    /// Random digits, as many as `shortest..=longest`.
    pub(super) fn digits(&mut self, shortest: i64, longest: i64) -> &str {
        let length = self.uniform(shortest, longest);
        self.text.clear();
        for _ in 0..length {
            let digit = self.uniform(0, 9) as u8;
            self.text.push(char::from(b'0' + digit));
        }
        &self.text
    }
}

/// The syllables of a number's digits, padded on the left to `digits` digits (TPC-W 4.6.2.10): two letters each.
pub(super) fn syllables(number: i64, digits: usize) -> String {
    const SYLLABLES: [&str; 10] = ["BA", "OG", "AL", "RI", "RE", "SE", "AT", "UL", "IN", "NG"];
    format!("{number:0digits$}").bytes().map(|digit| SYLLABLES[usize::from(digit - b'0')]).collect()
}

/// A customer's user name (TPC-W 4.7.1); the password is the same in small letters.
pub(super) fn user_name(customer: i64) -> String {
    syllables(customer, 0)
}

/// The text by which users search authors and titles: seven syllables.
pub(super) fn search_word(number: i64) -> String {
    syllables(number, 7)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn syllables_stand_for_digits() {
        for (number, digits, expect) in
            [(0, 7, "BABABABABABABA"), (371, 7, "BABABABARIULOG"), (371, 0, "RIULOG"), (28_800, 0, "ALININBABA")]
        {
            assert_eq!(syllables(number, digits), expect);
        }
    }

    #[test]
    fn texts_have_the_lengths_asked_for_and_numbers_cover_their_range() {
        let mut random = Random::new(1, 2, 3);
        let mut lengths = std::collections::BTreeSet::new();
        let mut numbers = std::collections::BTreeSet::new();
        for _ in 0..2_000 {
            lengths.insert(random.text(15, 40).len());
            numbers.insert(random.uniform(-3, 3));
            assert!(random.digits(9, 16).bytes().all(|byte| byte.is_ascii_digit()));
            assert!((1..=2_880).contains(&random.non_uniform(1_023, 1, 2_880)));
        }
        assert!(lengths.into_iter().eq(15..=40));
        assert!(numbers.into_iter().eq(-3..=3));
        let mean = (0..20_000).map(|_| random.exponential(128.0)).sum::<f64>() / 20_000.0;
        assert!((124.0..132.0).contains(&mean), "{mean}");
    }
}
