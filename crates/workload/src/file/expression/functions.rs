//! The functions of pgbench.

use std::hash::Hasher;

use fnv::FnvHasher;
use rand::RngExt;
use rand_distr::StandardNormal;
use rand_pcg::Pcg64;

use super::evaluate::{integer, number};
use crate::file::datum::Datum;
use crate::file::zipf::Zipf;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::file) enum Function {
    Abs,
    Debug,
    Double,
    Exp,
    Greatest,
    HashFnv1a,
    HashMurmur2,
    Int,
    Least,
    Ln,
    Mod,
    Permute,
    Pi,
    Power,
    Random,
    RandomExponential,
    RandomGaussian,
    RandomZipfian,
    Sqrt,
}

/// A function by its name.
pub(super) struct Entry {
    pub(super) name: &'static str,
    pub(super) function: Function,
    /// How many operands it has.
    pub(super) least: usize,
    pub(super) most: usize,
}

impl Entry {
    /// The number of its operands, for messages.
    pub(super) fn count(&self) -> String {
        match (self.least, self.most) {
            (least, usize::MAX) => format!("at least {least}"),
            (least, most) if least == most => least.to_string(),
            (least, most) => format!("{least} or {most}"),
        }
    }
}

const fn entry(name: &'static str, function: Function, least: usize, most: usize) -> Entry {
    Entry { name, function, least, most }
}

pub(super) static FUNCTIONS: [Entry; 21] = [
    entry("abs", Function::Abs, 1, 1),
    entry("debug", Function::Debug, 1, 1),
    entry("double", Function::Double, 1, 1),
    entry("exp", Function::Exp, 1, 1),
    entry("greatest", Function::Greatest, 1, usize::MAX),
    entry("hash", Function::HashMurmur2, 1, 2),
    entry("hash_fnv1a", Function::HashFnv1a, 1, 2),
    entry("hash_murmur2", Function::HashMurmur2, 1, 2),
    entry("int", Function::Int, 1, 1),
    entry("least", Function::Least, 1, usize::MAX),
    entry("ln", Function::Ln, 1, 1),
    entry("mod", Function::Mod, 2, 2),
    entry("permute", Function::Permute, 2, 3),
    entry("pi", Function::Pi, 0, 0),
    entry("pow", Function::Power, 2, 2),
    entry("power", Function::Power, 2, 2),
    entry("random", Function::Random, 2, 2),
    entry("random_exponential", Function::RandomExponential, 3, 3),
    entry("random_gaussian", Function::RandomGaussian, 3, 3),
    entry("random_zipfian", Function::RandomZipfian, 3, 3),
    entry("sqrt", Function::Sqrt, 1, 1),
];

/// The greatest of some numbers, or the least: a number with a fraction if any of them is one.
pub(super) fn extreme(operands: &[Datum], least: bool) -> Result<Datum, String> {
    if operands.iter().any(|operand| matches!(operand, Datum::Double(_))) {
        let numbers = operands.iter().map(number).collect::<Result<Vec<_>, _>>()?;
        let pick = if least { f64::min } else { f64::max };
        return Ok(Datum::Double(numbers.into_iter().reduce(pick).expect("at least one operand")));
    }
    let numbers = operands.iter().map(integer).collect::<Result<Vec<_>, _>>()?;
    let pick = if least { numbers.iter().min() } else { numbers.iter().max() };
    Ok(Datum::Int(*pick.expect("at least one operand")))
}

/// The bounds of a random number: not empty, and not so far apart that their distance overflows an integer.
fn bounds(low: &Datum, high: &Datum) -> Result<(i64, i64), String> {
    let (low, high) = (integer(low)?, integer(high)?);
    match high.checked_sub(low).and_then(|width| width.checked_add(1)) {
        _ if low > high => Err(format!("no number lies between {low} and {high}")),
        None => Err(format!("from {low} to {high} is too wide a range")),
        Some(_) => Ok((low, high)),
    }
}

/// A whole number from `low` to `high` where a share of the width, from 0 to 1, was drawn.
fn at_share((low, high): (i64, i64), share: f64) -> Datum {
    let width = (high - low + 1) as f64;
    Datum::Int((low + (width * share) as i64).min(high))
}

/// A random number: its bounds, then its parameter.
pub(super) fn random(function: Function, operands: &[Datum], random: &mut Pcg64) -> Result<Datum, String> {
    let bounds = bounds(&operands[0], &operands[1])?;
    if function == Function::Random {
        return Ok(Datum::Int(random.random_range(bounds.0..=bounds.1)));
    }
    let parameter = number(&operands[2])?;
    match function {
        Function::RandomGaussian if parameter < 2.0 => {
            Err(format!("the parameter of random_gaussian is at least 2, not {parameter}"))
        }
        // The standard normal distribution, cut off at the parameter on either side and stretched over the range.
        Function::RandomGaussian => loop {
            let normal: f64 = random.sample(StandardNormal);
            if (-parameter..parameter).contains(&normal) {
                return Ok(at_share(bounds, (normal + parameter) / (2.0 * parameter)));
            }
        },
        Function::RandomExponential if parameter <= 0.0 => {
            Err(format!("the parameter of random_exponential is above 0, not {parameter}"))
        }
        Function::RandomExponential => {
            let cut = (-parameter).exp();
            let uniform = 1.0 - random.random::<f64>();
            Ok(at_share(bounds, -(cut + (1.0 - cut) * uniform).ln() / parameter))
        }
        _ if !(1.001..=1000.0).contains(&parameter) => {
            Err(format!("the parameter of random_zipfian is from 1.001 to 1000, not {parameter}"))
        }
        _ => {
            let rank = Zipf::new((bounds.1 - bounds.0 + 1) as u64, parameter).draw(random);
            Ok(Datum::Int(bounds.0 + (rank - 1) as i64))
        }
    }
}

/// FNV-1a over the eight bytes of a number, the lowest first.
pub(super) fn hash_fnv1a(value: i64, seed: u64) -> i64 {
    let mut hasher = FnvHasher::with_key(FnvHasher::default().finish() ^ seed);
    hasher.write(&value.to_le_bytes());
    hasher.finish() as i64
}

/// MurmurHash2 of a number.
pub(super) fn hash_murmur2(value: i64, seed: u64) -> i64 {
    const MULTIPLIER: u64 = 0xC6A4_A793_5BD1_E995;
    const ROTATION: u32 = 47;
    let mixed = (value as u64).wrapping_mul(MULTIPLIER);
    let mixed = (mixed ^ (mixed >> ROTATION)).wrapping_mul(MULTIPLIER);
    // The length of the hashed value, 8 bytes, goes into the initial state.
    let hash = ((seed ^ MULTIPLIER.wrapping_mul(8)) ^ mixed).wrapping_mul(MULTIPLIER);
    let hash = (hash ^ (hash >> ROTATION)).wrapping_mul(MULTIPLIER);
    (hash ^ (hash >> ROTATION)) as i64
}

/// The place of a value in a pseudo-random permutation of 0 to `size - 1`.
///
/// Each of six rounds scrambles the lower and the upper part of the range, each as large as the greatest power of two
/// within it, by steps that can be undone, and turns the whole by a random distance.
pub(super) fn permute(value: i64, size: i64, seed: i64) -> Result<i64, String> {
    if size <= 0 {
        return Err(format!("permute needs a size above 0, not {size}"));
    }
    if size < 2 {
        return Ok(0);
    }
    let mut random = Xoroshiro::new(seed as u64);
    let size = size as u64;
    let bits = size.ilog2();
    let mask = (1_u64 << bits) - 1;
    let mut scrambled = (value as u64) % size;
    for _ in 0..6 {
        let mut scramble = |part: u64| {
            let multiplier = (random.next() & mask) | 1;
            let flip = random.next() & mask;
            if part > mask {
                return part;
            }
            let part = (part.wrapping_mul(multiplier) ^ flip) & mask;
            ((part << 1) & mask) | (part >> (bits - 1))
        };
        scrambled = scramble(scrambled);
        scrambled = size - 1 - scramble(size - 1 - scrambled);
        let turn = random.up_to(size - 1);
        scrambled = ((u128::from(scrambled) + u128::from(turn)) % u128::from(size)) as u64;
    }
    Ok(scrambled as i64)
}

/// Xoroshiro128**, seeded as in PostgreSQL, because it defines the permutation of a seed.
struct Xoroshiro([u64; 2]);

impl Xoroshiro {
    fn new(seed: u64) -> Self {
        let mut state = seed;
        // SplitMix64.
        let mut next = || {
            state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            mixed ^ (mixed >> 31)
        };
        Xoroshiro([next(), next()])
    }

    fn next(&mut self) -> u64 {
        let [first, second] = self.0;
        let mixed = second ^ first;
        self.0 = [first.rotate_left(24) ^ mixed ^ (mixed << 16), mixed.rotate_left(37)];
        first.wrapping_mul(5).rotate_left(7).wrapping_mul(9)
    }

    /// A number from 0 to `most`, by throwing away those that are too large.
    fn up_to(&mut self, most: u64) -> u64 {
        let shift = most.leading_zeros();
        loop {
            let drawn = self.next() >> shift;
            if drawn <= most {
                return drawn;
            }
        }
    }
}
