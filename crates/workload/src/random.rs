//! Random numbers that must be the same in every version, so they are computed here and not by a library.

use rand_pcg::Pcg64;
use rand_pcg::rand_core::Rng;

/// Spreads nearby numbers over all 64 bits, each to another (the finalizer of SplitMix64).
pub(crate) fn mix(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// An integer of `low..=high`, each equally likely (to within 2^-40 for the ranges used here).
#[inline]
pub(crate) fn uniform(generator: &mut Pcg64, low: i64, high: i64) -> i64 {
    let span = (high - low + 1) as u128;
    low + ((u128::from(generator.next_u64()) * span) >> 64) as i64
}
