//! Knees of known curves: a mock target with known response and known noise.

use rand::SeedableRng;
use rand_pcg::Pcg64;

use super::*;
use crate::statistics::student::normal;

/// A target whose throughput at each allocation is known.
pub(super) struct Mock {
    pub(super) name: &'static str,
    /// The allocations, ascending.
    pub(super) allocations: Vec<f64>,
    /// True throughput at each.
    pub(super) truth: Vec<f64>,
}

impl Mock {
    /// A curve over allocations 1, 2, ... `count`.
    pub(super) fn new(name: &'static str, count: u32, throughput: impl Fn(f64) -> f64) -> Self {
        let allocations: Vec<f64> = (1..=count).map(f64::from).collect();
        let truth = allocations.iter().map(|allocation| throughput(*allocation)).collect();
        Self { name, allocations, truth }
    }

    /// The smallest allocation that truly reaches the share, as a position.
    pub(super) fn knee(&self, share: f64) -> usize {
        let full = self.truth[self.truth.len() - 1];
        self.truth.iter().position(|truth| *truth >= share * full * (1.0 - 1e-12)).expect("the full one does")
    }

    pub(super) fn position(&self, allocation: f64) -> usize {
        self.allocations.iter().position(|other| *other == allocation).expect("a measured allocation")
    }

    /// One run, with relative noise.
    pub(super) fn run(&self, index: usize, noise: f64, random: &mut Pcg64) -> f64 {
        self.truth[index] * (1.0 + noise * normal(random))
    }

    /// Complete blocks, each with a drift of 5 % that its runs share.
    pub(super) fn blocks(&self, repeats: usize, noise: f64, random: &mut Pcg64) -> Samples {
        let drift: Vec<f64> = (0..repeats).map(|_| 1.0 + 0.05 * normal(random)).collect();
        let mut row = |index: usize| drift.iter().map(|drift| drift * self.run(index, noise, random)).collect();
        Samples::complete(&(0..self.truth.len()).map(&mut row).collect::<Vec<_>>())
    }

    fn measured(&self, repeats: usize, noise: f64, seed: u64) -> Knee {
        let samples = self.blocks(repeats, noise, &mut Pcg64::seed_from_u64(seed));
        knee(&self.allocations, &samples, Noise::of(&samples).as_ref(), &SHARES, seed)
    }
}

/// Curves of every shape that allocations show.
pub(super) fn shapes() -> Vec<Mock> {
    vec![
        Mock::new("saturating, coarse", 10, |x| 1_000.0 * (1.0 - (-x / 2.0).exp())),
        Mock::new("saturating, fine", 16, |x| 20.0 * (1.0 - (-x / 3.0).exp())),
        Mock::new("linear", 10, |x| 100.0 * x),
        Mock::new("flat", 12, |_| 500.0),
        Mock::new("step", 12, |x| if x < 6.0 { 500.0 } else { 1_000.0 }),
    ]
}

/// Noise is 0.5 to 1 %, which is not more than the steps of the curves at their knees; with more noise the knee cannot
/// be told.
#[test]
fn knees_land_within_one_step() {
    for mock in shapes() {
        for (repeats, noise) in [(2, 0.005), (3, 0.005), (5, 0.0075)] {
            let mut near = [0_usize; 2];
            for seed in 0..100 {
                let levels = mock.measured(repeats, noise, seed).levels;
                for (near, level) in near.iter_mut().zip(&levels) {
                    let found = mock.position(level.allocation.expect("determined"));
                    *near += usize::from(found.abs_diff(mock.knee(level.share)) <= 1);
                }
            }
            assert!(near.iter().all(|near| *near >= 95), "{}, {repeats} repeats, noise {noise}: {near:?}", mock.name);
        }
    }
}

/// Allocations are few and apart, so intervals that cover do so often: there is no upper bound to test, but it
/// must be narrow enough to be of use.
#[test]
fn intervals_cover_the_true_knee() {
    for mock in shapes() {
        for (repeats, noise) in [(2, 0.01), (3, 0.02), (5, 0.03)] {
            let (mut determined, mut covered, mut width) = (0_usize, 0_usize, 0_usize);
            for seed in 0..60 {
                for level in mock.measured(repeats, noise, seed).levels {
                    let (Some(allocation), Some(low), Some(high)) = (level.allocation, level.low, level.high) else {
                        continue;
                    };
                    assert!(low <= allocation && allocation <= high, "{}: {level:?}", mock.name);
                    let (low, high) = (mock.position(low), mock.position(high));
                    determined += 1;
                    covered += usize::from((low..=high).contains(&mock.knee(level.share)));
                    width += high - low;
                }
            }
            let name = format!("{}, {repeats} repeats, noise {noise}", mock.name);
            assert!(determined >= 80, "{name}: {determined} determined");
            let (covered, width) = (covered as f64 / determined as f64, width as f64 / determined as f64);
            assert!(covered >= 0.90, "{name}: covered in {covered:.3}");
            assert!(width < mock.truth.len() as f64 / 3.0, "{name}: {width:.1} steps wide");
        }
    }
}

fn why_not(truth: &[f64], repeats: usize, noise: f64) -> Option<WhyNot> {
    let mock = Mock { name: "", allocations: (0..truth.len()).map(|x| x as f64).collect(), truth: truth.to_vec() };
    let levels = mock.measured(repeats, noise, 3).levels;
    assert!(levels.iter().all(|level| level.allocation.is_some() == level.why_not.is_none()), "{levels:?}");
    levels[1].why_not
}

#[test]
fn what_cannot_be_said_is_not_said() {
    assert_eq!(why_not(&[5.0], 3, 0.01), Some(WhyNot::FewAllocations(1)));
    assert_eq!(why_not(&[5.0, 7.0], 1, 0.01), Some(WhyNot::NoRepeats));
    assert_eq!(why_not(&[5.0, 0.0], 3, 0.01), Some(WhyNot::NothingCompleted(1.0)));
    assert!(matches!(why_not(&[50.0, 90.0, 100.0], 3, 0.1), Some(WhyNot::InsideNoise { .. })));
    assert_eq!(why_not(&[50.0, 99.9, 100.0], 3, 0.001), None);
}

/// A curve that falls: the largest allocation is not the best (SR figure 2: with hyper-threads TPC-H at scale factor 10 is
/// 1.72 times as fast on 16 logical cores as on 32, at scale factor 30 1.27 times. The values below 16 are made up).
#[test]
fn falling_curves_have_no_knee() {
    for published in [1.72, 1.27] {
        let why_not = why_not(&[0.4, 0.8, published, 1.0], 3, 0.02);
        let Some(WhyNot::Falls { from, to, drop }) = why_not else { panic!("{published}: {why_not:?}") };
        assert_eq!((from, to), (2.0, 3.0));
        assert!((drop - (1.0 - 1.0 / published)).abs() < 0.05, "{drop}");
    }
    assert!(matches!(why_not(&[3.0, 2.0, 1.0], 3, 0.02), Some(WhyNot::Falls { .. })), "falling throughout");
    // Noise makes flat curves fall a little, and real ones may fall by an amount that does not matter.
    assert_eq!(why_not(&[1.0; 8], 3, 0.01), None);
    assert_eq!(why_not(&[1.0, 1.02, 1.0], 3, 0.001), None);
}

/// The number of repeats that is named is about right: with it most curves of the same noise have an answer, with what was measured
/// hardly any.
#[test]
fn the_repeats_that_would_suffice_are_named() {
    let named = match why_not(&[50.0, 90.0, 100.0], 3, 0.1) {
        Some(WhyNot::InsideNoise { repeats: 3, suffices: Some(named), .. }) => named,
        other => panic!("{other:?}"),
    };
    assert!((4..100).contains(&named), "{named}");
    assert_eq!(why_not(&[50.0, 90.0, 100.0], 2 * named, 0.1), None, "twice as many as named suffice in any case");
}

#[test]
fn reasons_are_sentences_with_numbers() {
    let text = |why_not: WhyNot| why_not.to_string();
    assert_eq!(
        text(WhyNot::InsideNoise { difference: 0.1, noise: 0.137, repeats: 3, suffices: Some(6) }),
        "a difference of 10 % is inside the noise, 13.7 %; about 6 repeats instead of 3, which take 2.0 times as long, would show it"
    );
    assert_eq!(
        text(WhyNot::InsideNoise { difference: 0.05, noise: 0.6, repeats: 3, suffices: None }),
        "a difference of 5 % is inside the noise, 60.0 %; 200 repeats would not show it; measure on a quieter machine, or with longer windows"
    );
    assert_eq!(
        text(WhyNot::Falls { from: 16.0, to: 32.0, drop: 0.213 }),
        "performance falls by 21.3 % from 16 to 32, beyond noise: the full allocation is not the best"
    );
}

#[test]
fn order_and_gaps_do_not_matter() {
    let allocations = [8.0, 2.0, 4.0, 16.0];
    let rows = vec![vec![Some(98.0), Some(99.0)], vec![Some(50.0), Some(50.5)], vec![], vec![Some(100.0), Some(101.0)]];
    let samples = Samples::new(rows);
    let found = knee(&allocations, &samples, Noise::of(&samples).as_ref(), &SHARES, 1);
    assert_eq!(found.fit, [(2.0, 50.25), (8.0, 98.5), (16.0, 100.5)]);
    assert_eq!(found.levels[0].allocation, Some(8.0));
    assert_eq!(
        found,
        knee(&allocations, &samples, Noise::of(&samples).as_ref(), &SHARES, 1),
        "equal seeds, equal answers"
    );
}
