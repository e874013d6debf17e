//! Random input: uniform and non-uniform numbers, strings, last names (TPC-C 2.1.5, 2.1.6, 4.3.2).

use rand_pcg::Pcg64;
use rand_pcg::rand_core::Rng;

use crate::random::{mix, uniform};

/// A seeded source of TPC-C's random input.
///
/// Each is made for one purpose (a table's part, a client), so its values depend neither on the order in which parts
/// are made nor on the threads that make them.
#[derive(Debug)]
pub(crate) struct Random {
    generator: Pcg64,
    text: String,
}

/// The purpose of a [`Random`]; each purpose has its own stream.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Purpose {
    /// The constants of NURand.
    Constants,
    /// Rows of the table at that position in the schema.
    Table(usize),
    /// The customers who gave the loaded orders.
    OrderCustomers,
    /// How many lines the loaded orders have.
    OrderLineCounts,
    /// A client's input.
    Client,
}

impl Purpose {
    fn number(self) -> u64 {
        match self {
            Purpose::Constants => 1,
            Purpose::OrderCustomers => 2,
            Purpose::OrderLineCounts => 3,
            Purpose::Client => 4,
            Purpose::Table(table) => 16 + table as u64,
        }
    }
}

const LETTERS_AND_DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

impl Random {
    /// The stream for a purpose; `first` and `second` identify parts of it (warehouse and district, a client).
    pub(crate) fn new(seed: u64, purpose: Purpose, first: u64, second: u64) -> Self {
        let stream = u128::from(mix(purpose.number())) << 64 | u128::from(mix(mix(first) ^ second));
        Random { generator: Pcg64::new(u128::from(mix(seed)), stream), text: String::new() }
    }

    /// An integer of `low..=high`, each equally likely (to within 2^-40 for the ranges used here).
    pub(crate) fn uniform(&mut self, low: i64, high: i64) -> i64 {
        uniform(&mut self.generator, low, high)
    }

    /// An integer of `low..=high` other than `except`, each equally likely.
    pub(super) fn uniform_except(&mut self, low: i64, high: i64, except: i64) -> i64 {
        let number = self.uniform(low, high - 1);
        if number >= except { number + 1 } else { number }
    }

    /// `true` once in `count` times.
    pub(super) fn one_in(&mut self, count: i64) -> bool {
        self.uniform(1, count) == 1
    }

    /// NURand(A, x, y) with its constant C (TPC-C 2.1.6).
    pub(super) fn non_uniform(&mut self, bits: i64, low: i64, high: i64, constant: i64) -> i64 {
        let mixed = self.uniform(0, bits) | self.uniform(low, high);
        (mixed + constant) % (high - low + 1) + low
    }

    /// Shuffles, every order equally likely.
    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.uniform(0, last as i64) as usize);
        }
    }

    /// A random string of letters and digits, of a length in `shortest..=longest`.
    pub(crate) fn letters_and_digits(&mut self, shortest: i64, longest: i64) -> &str {
        self.fill(LETTERS_AND_DIGITS, shortest, longest);
        &self.text
    }

    /// As [`letters_and_digits`](Random::letters_and_digits), with `ORIGINAL` written over it at a random place.
    pub(super) fn original(&mut self, shortest: i64, longest: i64) -> &str {
        const MARK: &str = "ORIGINAL";
        self.fill(LETTERS_AND_DIGITS, shortest, longest);
        let start = self.uniform(0, (self.text.len() - MARK.len()) as i64) as usize;
        self.text.replace_range(start..start + MARK.len(), MARK);
        &self.text
    }

    pub(crate) fn digits(&mut self, length: i64) -> &str {
        self.fill(&LETTERS_AND_DIGITS[..10], length, length);
        &self.text
    }

    /// Two random capital letters.
    pub(super) fn state(&mut self) -> &str {
        self.fill(&LETTERS_AND_DIGITS[10..36], 2, 2);
        &self.text
    }

    /// Four random digits and `11111` (TPC-C 4.3.2.7).
    pub(super) fn zip(&mut self) -> &str {
        self.fill(&LETTERS_AND_DIGITS[..10], 4, 4);
        self.text.push_str("11111");
        &self.text
    }

    fn fill(&mut self, alphabet: &[u8], shortest: i64, longest: i64) {
        // A draw is read as a binary fraction whose leading digits to the base of the alphabet are the characters.
        // Eight take fewer than 48 of its 64 bits, so the bias stays below 2^-16.
        const CHARACTERS_PER_DRAW: usize = 8;
        let length = self.uniform(shortest, longest) as usize;
        self.text.clear();
        while self.text.len() < length {
            let mut fraction = self.generator.next_u64();
            for _ in 0..CHARACTERS_PER_DRAW.min(length - self.text.len()) {
                let scaled = u128::from(fraction) * alphabet.len() as u128;
                self.text.push(char::from(alphabet[(scaled >> 64) as usize]));
                fraction = scaled as u64;
            }
        }
    }
}

/// The constants C of NURand, one for each A, the same for all clients (TPC-C 2.1.6.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Constants {
    /// For last names while running, A = 255.
    pub(super) last_name: i64,
    /// For customer ids, A = 1023.
    pub(super) customer: i64,
    /// For item ids, A = 8191.
    pub(super) item: i64,
}

impl Constants {
    /// For last names while loading. Not drawn, so that data loaded with one seed and run with another still keeps the
    /// prescribed distance.
    pub(super) const LAST_NAME_LOAD: i64 = 157;

    /// The constants of a benchmark's run.
    pub(super) fn draw(seed: u64) -> Self {
        let mut random = Random::new(seed, Purpose::Constants, 0, 0);
        let legal = (0..=LAST_NAME_BITS).filter(|&constant| Constants::is_legal(constant)).collect::<Vec<_>>();
        Constants {
            last_name: legal[random.uniform(0, legal.len() as i64 - 1) as usize],
            customer: random.uniform(0, CUSTOMER_BITS),
            item: random.uniform(0, ITEM_BITS),
        }
    }

    /// Whether a run may use that constant for last names on data loaded with [`Constants::LAST_NAME_LOAD`].
    pub(super) fn is_legal(last_name: i64) -> bool {
        let distance = (last_name - Constants::LAST_NAME_LOAD).abs();
        (65..=119).contains(&distance) && distance != 96 && distance != 112
    }
}

pub(super) const LAST_NAME_BITS: i64 = 255;
pub(super) const CUSTOMER_BITS: i64 = 1_023;
pub(super) const ITEM_BITS: i64 = 8_191;

pub(super) const LAST_NAMES: i64 = 1_000;

/// Writes the last name of a number in 0..=999: a syllable for each of its three digits (TPC-C 4.3.2.3).
pub(super) fn last_name(number: i64, into: &mut String) {
    const SYLLABLES: [&str; 10] = ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];
    debug_assert!((0..LAST_NAMES).contains(&number), "there is no last name {number}");
    into.clear();
    for place in [100, 10, 1] {
        into.push_str(SYLLABLES[(number / place % 10) as usize]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_names_are_those_of_the_specification() {
        let mut name = String::new();
        for (number, expected) in [(0, "BARBARBAR"), (371, "PRICALLYOUGHT"), (40, "BARPRESBAR"), (999, "EINGEINGEING")]
        {
            last_name(number, &mut name);
            assert_eq!(name, expected);
        }
    }

    #[test]
    fn the_constants_of_every_seed_are_legal_and_vary() {
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..5_000 {
            let constants = Constants::draw(seed);
            let distance = (constants.last_name - Constants::LAST_NAME_LOAD).abs();
            assert!((65..=119).contains(&distance) && distance != 96 && distance != 112, "seed {seed}: {distance}");
            assert!((0..=255).contains(&constants.last_name), "seed {seed}");
            assert!((0..=1_023).contains(&constants.customer), "seed {seed}");
            assert!((0..=8_191).contains(&constants.item), "seed {seed}");
            assert_eq!(constants, Constants::draw(seed));
            seen.insert(constants.last_name);
        }
        let legal = (0..=255).filter(|&constant| Constants::is_legal(constant)).count();
        assert_eq!(seen.len(), legal, "every legal constant is drawn by some seed");
    }

    #[test]
    fn non_uniform_numbers_stay_in_range_and_are_not_uniform() {
        let constants = Constants::draw(3);
        let mut random = Random::new(3, Purpose::Client, 0, 0);
        let mut hits = vec![0u32; ITEMS_PLUS_ONE];
        for _ in 0..200_000 {
            hits[random.non_uniform(ITEM_BITS, 1, 100_000, constants.item) as usize] += 1;
            assert!((1..=3_000).contains(&random.non_uniform(CUSTOMER_BITS, 1, 3_000, constants.customer)));
            assert!((0..=999).contains(&random.non_uniform(LAST_NAME_BITS, 0, 999, constants.last_name)));
        }
        assert_eq!(hits[0], 0);
        let hottest = hits.iter().max().expect("there are items");
        assert!(*hottest > 20, "a uniform draw gives each item about 2 hits, the hottest had {hottest}");
    }

    const ITEMS_PLUS_ONE: usize = 100_001;

    #[test]
    fn strings_have_the_lengths_and_characters_asked_for() {
        let mut random = Random::new(9, Purpose::Client, 1, 2);
        let (mut shortest, mut longest) = (usize::MAX, 0);
        for _ in 0..2_000 {
            let text = random.letters_and_digits(14, 24);
            assert!(text.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{text}");
            (shortest, longest) = (shortest.min(text.len()), longest.max(text.len()));
            let original = random.original(26, 50);
            assert!(original.contains("ORIGINAL") && (26..=50).contains(&original.len()), "{original}");
            let zip = random.zip();
            assert!(zip.len() == 9 && zip.ends_with("11111") && zip.bytes().all(|byte| byte.is_ascii_digit()), "{zip}");
            assert!(random.state().bytes().all(|byte| byte.is_ascii_uppercase()));
            assert_eq!(random.digits(16).len(), 16);
        }
        assert_eq!((shortest, longest), (14, 24));
    }

    #[test]
    fn numbers_cover_their_range_evenly_and_can_leave_one_out() {
        let mut random = Random::new(1, Purpose::Client, 0, 0);
        let mut hits = [0u32; 11];
        for _ in 0..100_000 {
            hits[random.uniform(1, 10) as usize] += 1;
            assert_ne!(random.uniform_except(1, 4, 3), 3);
            assert_eq!(random.uniform_except(1, 2, 1), 2);
        }
        assert!(hits[1..].iter().all(|&hits| (9_500..10_500).contains(&hits)), "{hits:?}");
    }
}
