//! The substitution parameters of the queries, drawn as the third paragraph of each query's definition prescribes
//! (TPC-H 2.4.x.3).
//!
//! Months are drawn from one list of months, never as a year and then a month: ranges such as 1993-01 to 1997-10 would
//! otherwise give the months of a short year too much weight, or none at all to the last months of the others.

use std::ops::RangeInclusive;

use rand::RngExt;
use rand::seq::{IndexedRandom, index};
use rand_pcg::Pcg64;
use tpchgen::distribution::{Distribution, Distributions};

/// Values by the names of their placeholders.
pub type Parameters = Vec<(&'static str, String)>;

/// Draws the parameters of one query.
pub type Draw = fn(&mut Pcg64) -> Parameters;

/// The three syllables of `p_type` (TPC-H 4.2.2.13).
pub(super) const TYPE_SYLLABLES: [&[&str]; 3] = [
    &["STANDARD", "SMALL", "MEDIUM", "LARGE", "ECONOMY", "PROMO"],
    &["ANODIZED", "BURNISHED", "PLATED", "POLISHED", "BRUSHED"],
    &["TIN", "NICKEL", "BRASS", "STEEL", "COPPER"],
];

/// The words of query 13 (TPC-H 2.4.13.3), which the generator knows but does not hand out.
const COMPLAINTS: [&[&str]; 2] =
    [&["special", "pending", "unusual", "express"], &["packages", "requests", "accounts", "deposits"]];

pub(super) fn q1(random: &mut Pcg64) -> Parameters {
    vec![("delta", number(random, 60..=120))]
}

pub(super) fn q2(random: &mut Pcg64) -> Parameters {
    vec![
        ("size", number(random, 1..=50)),
        ("type", word(random, TYPE_SYLLABLES[2])),
        ("region", value(random, lists().regions())),
    ]
}

pub(super) fn q3(random: &mut Pcg64) -> Parameters {
    let day = random.random_range(1..=31);
    vec![("segment", value(random, lists().market_segments())), ("date", format!("1995-03-{day:02}"))]
}

pub(super) fn q4(random: &mut Pcg64) -> Parameters {
    vec![("date", month(random, (1993, 1)..=(1997, 10)))]
}

pub(super) fn q5(random: &mut Pcg64) -> Parameters {
    vec![("region", value(random, lists().regions())), ("date", new_year(random))]
}

pub(super) fn q6(random: &mut Pcg64) -> Parameters {
    let percent = random.random_range(2..=9);
    vec![("date", new_year(random)), ("discount", format!("0.0{percent}")), ("quantity", number(random, 24..=25))]
}

pub(super) fn q7(random: &mut Pcg64) -> Parameters {
    let nations = distinct(random, lists().nations().size(), 2);
    vec![("nation1", nation(nations[0])), ("nation2", nation(nations[1]))]
}

pub(super) fn q8(random: &mut Pcg64) -> Parameters {
    let chosen = random.random_range(0..lists().nations().size());
    // The generator keeps a nation's region as the running total of its weights.
    let region = lists().nations().get_weight(chosen) as usize;
    vec![
        ("nation", nation(chosen)),
        ("region", lists().regions().get_value(region).to_owned()),
        ("type", value(random, lists().part_types())),
    ]
}

pub(super) fn q9(random: &mut Pcg64) -> Parameters {
    vec![("color", value(random, lists().part_colors()))]
}

pub(super) fn q10(random: &mut Pcg64) -> Parameters {
    vec![("date", month(random, (1993, 2)..=(1995, 1)))]
}

pub(super) fn q11(random: &mut Pcg64) -> Parameters {
    vec![("nation", value(random, lists().nations()))]
}

pub(super) fn q12(random: &mut Pcg64) -> Parameters {
    let modes = distinct(random, lists().ship_modes().size(), 2);
    let mode = |at: usize| lists().ship_modes().get_value(modes[at]).to_owned();
    vec![("shipmode1", mode(0)), ("shipmode2", mode(1)), ("date", new_year(random))]
}

pub(super) fn q13(random: &mut Pcg64) -> Parameters {
    vec![("word1", word(random, COMPLAINTS[0])), ("word2", word(random, COMPLAINTS[1]))]
}

pub(super) fn q14(random: &mut Pcg64) -> Parameters {
    vec![("date", month(random, (1993, 1)..=(1997, 12)))]
}

pub(super) fn q15(random: &mut Pcg64) -> Parameters {
    vec![("date", month(random, (1993, 1)..=(1997, 10)))]
}

pub(super) fn q16(random: &mut Pcg64) -> Parameters {
    const SIZES: [&str; 8] = ["size1", "size2", "size3", "size4", "size5", "size6", "size7", "size8"];
    let kind = format!("{} {}", word(random, TYPE_SYLLABLES[0]), word(random, TYPE_SYLLABLES[1]));
    let mut parameters = vec![("brand", brand(random)), ("type", kind)];
    let sizes = distinct(random, 50, SIZES.len());
    parameters.extend(SIZES.into_iter().zip(sizes).map(|(name, size)| (name, (size + 1).to_string())));
    parameters
}

pub(super) fn q17(random: &mut Pcg64) -> Parameters {
    vec![("brand", brand(random)), ("container", value(random, lists().part_containers()))]
}

pub(super) fn q18(random: &mut Pcg64) -> Parameters {
    vec![("quantity", number(random, 312..=315))]
}

pub(super) fn q19(random: &mut Pcg64) -> Parameters {
    vec![
        ("brand1", brand(random)),
        ("brand2", brand(random)),
        ("brand3", brand(random)),
        ("quantity1", number(random, 1..=10)),
        ("quantity2", number(random, 10..=20)),
        ("quantity3", number(random, 20..=30)),
    ]
}

pub(super) fn q20(random: &mut Pcg64) -> Parameters {
    vec![
        ("color", value(random, lists().part_colors())),
        ("date", new_year(random)),
        ("nation", value(random, lists().nations())),
    ]
}

pub(super) fn q21(random: &mut Pcg64) -> Parameters {
    vec![("nation", value(random, lists().nations()))]
}

pub(super) fn q22(random: &mut Pcg64) -> Parameters {
    const CODES: [&str; 7] = ["code1", "code2", "code3", "code4", "code5", "code6", "code7"];
    let nations = distinct(random, lists().nations().size(), CODES.len());
    // A telephone number begins with the nation's key plus ten (TPC-H 4.2.2.9).
    CODES.into_iter().zip(nations).map(|(name, nation)| (name, (nation + 10).to_string())).collect()
}

/// The generator's own lists of words, so that data and parameters cannot disagree.
fn lists() -> &'static Distributions {
    Distributions::static_default()
}

fn number(random: &mut Pcg64, range: RangeInclusive<u32>) -> String {
    random.random_range(range).to_string()
}

fn word(random: &mut Pcg64, words: &[&str]) -> String {
    (*words.choose(random).expect("no list of words is empty")).to_owned()
}

fn value(random: &mut Pcg64, list: &Distribution) -> String {
    word(random, list.get_values())
}

fn nation(key: usize) -> String {
    lists().nations().get_value(key).to_owned()
}

/// `count` different numbers below `below`, in random order.
fn distinct(random: &mut Pcg64, below: usize, count: usize) -> Vec<usize> {
    index::sample(random, below, count).into_vec()
}

/// `Brand#MN`, M and N from 1 to 5.
fn brand(random: &mut Pcg64) -> String {
    format!("Brand#{}{}", random.random_range(1..=5), random.random_range(1..=5))
}

/// The first day of a random year from 1993 to 1997.
fn new_year(random: &mut Pcg64) -> String {
    format!("{}-01-01", random.random_range(1993..=1997))
}

/// The first day of a random month between two, each a year and a month.
fn month(random: &mut Pcg64, range: RangeInclusive<(u32, u32)>) -> String {
    let months = |(year, month): (u32, u32)| year * 12 + month - 1;
    let drawn = random.random_range(months(*range.start())..=months(*range.end()));
    format!("{}-{:02}-01", drawn / 12, drawn % 12 + 1)
}

#[cfg(test)]
mod tests;
