//! Brackets of known curves with known noise contain the knee.

use rand::SeedableRng;
use rand_pcg::Pcg64;

use super::*;
use crate::statistics::student::normal;

/// Amounts as fractions of the full one.
const AMOUNTS: [f64; 12] = [0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.75, 0.9, 1.0];

/// A resource whose response is known.
struct Resource {
    name: &'static str,
    /// Performance with this fraction of the full amount, of full performance.
    response: fn(f64) -> f64,
}

const RESOURCES: [Resource; 6] = [
    Resource { name: "does not matter", response: |_| 1.0 },
    Resource { name: "in proportion", response: |amount| amount },
    Resource { name: "in proportion up to a half", response: |amount| (2.0 * amount).min(1.0) },
    Resource { name: "saturating", response: |amount| (1.0 - (-6.0 * amount).exp()) / (1.0 - (-6.0_f64).exp()) },
    Resource { name: "a step", response: |amount| if amount < 0.35 { 0.5 } else { 1.0 } },
    Resource { name: "hardly falling", response: |amount| 0.88 + 0.12 * amount },
];

/// A search to its end or its budget of blocks, with relative noise of each run; `limited_noise` is the factor by which
/// that of the limited run is larger. Blocks drift by 5 %.
fn searched(resource: &Resource, share: f64, noise: f64, limited_noise: f64, seed: u64) -> (Bracket, usize) {
    let mut random = Pcg64::seed_from_u64(seed);
    let mut trials = vec![Trial::default(); AMOUNTS.len()];
    let mut spent = 0;
    while let Some(at) = BracketSearch::of_share(&trials).next() {
        let drift = 1.0 + 0.05 * normal(&mut random);
        let full = drift * (1.0 + noise * normal(&mut random));
        let limited = drift * (resource.response)(AMOUNTS[at]) * (1.0 + noise * limited_noise * normal(&mut random));
        trials[at].distances.push((limited.max(1e-6) / full.max(1e-6)).ln() - share.ln());
        spent += 1;
    }
    (BracketSearch::of_share(&trials).bracket(), spent)
}

/// Whether the least amount that truly suffices is above the lower end and at most at the upper.
fn contains(bracket: Bracket, resource: &Resource, share: f64) -> bool {
    let suffices = |at: usize| (resource.response)(AMOUNTS[at]) >= share - 1e-12;
    bracket.low.is_none_or(|low| !suffices(low)) && bracket.high.is_none_or(suffices)
}

#[test]
fn brackets_contain_the_knee() {
    const SEARCHES: u64 = 1_000;
    for noise in [0.02, 0.08] {
        for limited_noise in [1.0, 2.0] {
            for resource in &RESOURCES {
                for share in [0.9, 0.95] {
                    let mut covered = 0;
                    for seed in 0..SEARCHES {
                        let (bracket, _) = searched(resource, share, noise, limited_noise, seed);
                        covered += usize::from(contains(bracket, resource, share));
                    }
                    let covered = covered as f64 / SEARCHES as f64;
                    let case = format!("{} at {share}, noise {noise} times {limited_noise}", resource.name);
                    assert!(covered >= 0.93, "{case}: {covered:.3} of brackets contain the knee");
                }
            }
        }
    }
}

/// A bracket that always spans everything would contain every knee.
#[test]
fn brackets_are_narrow_and_cheap_where_noise_allows() {
    for (noise, width_most, blocks_most) in [(0.005, 2.1, 25.0), (0.02, 2.6, 48.0)] {
        for resource in RESOURCES.iter().filter(|resource| resource.name != "hardly falling") {
            let (mut width, mut blocks) = (0.0, 0.0);
            for seed in 0..100 {
                let (bracket, spent) = searched(resource, 0.9, noise, 1.0, seed);
                let high = bracket.high.expect("the full amount suffices") as f64;
                width += high - bracket.low.map_or(-1.0, |low| low as f64);
                blocks += spent as f64;
            }
            let (width, blocks) = (width / 100.0, blocks / 100.0);
            let case = format!("{}, noise {noise}: {width:.2} steps, {blocks:.1} blocks", resource.name);
            assert!(width <= width_most && blocks <= blocks_most, "{case}");
        }
    }
}

fn trial(distances: &[f64]) -> Trial {
    Trial { distances: distances.to_vec(), given_up: false }
}

#[test]
fn a_trial_is_decided_at_a_look_and_stays_so() {
    let check = |distances: &[f64], expect: Standing| assert_eq!(trial(distances).standing(), expect, "{distances:?}");
    check(&[], Standing::Open);
    check(&[-3.0], Standing::Open);
    check(&[-3.0, -3.01], Standing::Insufficient);
    check(&[0.1, 0.1001, 0.1], Standing::Sufficient);
    check(&[0.1, -0.1, 0.05, -0.02], Standing::Open);
    check(&[-3.0, -3.01, 50.0, 50.0, 50.0, 50.0], Standing::Insufficient);
    check(&[0.1, -0.1].repeat(6), Standing::Left);
    assert_eq!(Trial { given_up: true, ..trial(&[0.1]) }.standing(), Standing::Left);
}

/// The standings, as letters: `+` sufficient, `-` insufficient, `.` open, `:` open and begun, `?` left.
fn check(standings: &str, next: Option<usize>, low: Option<usize>, high: Option<usize>) {
    let of = |letter: char| match letter {
        '+' => trial(&[1.0, 1.0]),
        '-' => trial(&[-1.0, -1.0]),
        '?' => Trial { given_up: true, ..Trial::default() },
        ':' => trial(&[0.0]),
        _ => Trial::default(),
    };
    let search = BracketSearch::of_promise(&standings.chars().map(of).collect::<Vec<_>>());
    assert_eq!((search.next(), search.bracket()), (next, Bracket { low, high }), "{standings}");
}

#[test]
fn the_search_halves_the_bracket() {
    check("........", Some(7), None, None);
    check(".......+", Some(0), None, Some(7));
    check("-......+", Some(4), Some(0), Some(7));
    check("-...-..+", Some(6), Some(4), Some(7));
    check("-..:-..+", Some(6), Some(4), Some(7));
    check("-...-:.+", Some(5), Some(4), Some(7));
    check("-...-+++", None, Some(4), Some(5));
    check("+......+", None, None, Some(0));
}

#[test]
fn what_stays_undecided_bounds_nothing() {
    check("-..?...+", Some(5), Some(0), Some(7));
    check("-..?.-.+", Some(6), Some(5), Some(7));
    check("?......+", Some(4), None, Some(7));
    check("???????+", None, None, Some(7));
    check(".......?", None, None, None);
    check(".......-", None, Some(7), None);
    // A contradiction is spanned.
    check("-.+.-..+", Some(6), Some(0), Some(7));
}
