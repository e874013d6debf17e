//! Known laws, with and without noise.

use super::*;

const CLIENTS: [f64; 8] = [1.0, 2.0, 4.0, 8.0, 16.0, 24.0, 32.0, 48.0];

/// Laws with a peak within, near the edge, beyond and without one.
const LAWS: [Law; 6] = [
    Law { gamma: 1_000.0, sigma: 0.05, kappa: 0.002 },
    Law { gamma: 250.0, sigma: 0.2, kappa: 0.000_5 },
    Law { gamma: 10.0, sigma: 0.01, kappa: 0.000_1 },
    Law { gamma: 40_000.0, sigma: 0.1, kappa: 0.0 },
    Law { gamma: 1_000.0, sigma: 0.0, kappa: 0.001 },
    Law { gamma: 1_000.0, sigma: 0.0, kappa: 0.0 },
];

/// Runs of `law` with noise, and with drift that blocks share.
fn runs(law: &Law, repeats: usize, noise: f64, drift: f64, seed: u64) -> Samples {
    let mut random = Pcg64::seed_from_u64(seed);
    let blocks: Vec<f64> = (0..repeats).map(|_| 1.0 + drift * normal(&mut random)).collect();
    let mut row = |clients: &f64| {
        let throughput = law.throughput(*clients);
        blocks.iter().map(|block| throughput * block * (1.0 + noise * normal(&mut random))).collect()
    };
    Samples::complete(&CLIENTS.iter().map(&mut row).collect::<Vec<_>>())
}

#[test]
fn exact_curves_give_their_law() {
    for law in LAWS {
        let samples = runs(&law, 2, 0.0, 0.0, 1);
        let found = scalability(&CLIENTS, &samples, Noise::of(&samples).as_ref(), 1).unwrap();
        assert!((found.law.gamma / law.gamma - 1.0).abs() < 1e-6, "{law:?}: {found:?}");
        assert!((found.law.sigma - law.sigma).abs() < 1e-6, "{law:?}: {found:?}");
        assert!((found.law.kappa - law.kappa).abs() < 1e-8, "{law:?}: {found:?}");
        assert!(found.misfit < 1e-6, "{found:?}");
    }
}

#[test]
fn the_peak_is_where_throughput_is_highest() {
    let law = LAWS[0];
    let peak = law.peak_clients().unwrap();
    assert!((peak - (0.95_f64 / 0.002).sqrt()).abs() < 1e-12);
    assert!(law.throughput(peak) > law.throughput(peak - 1.0) && law.throughput(peak) > law.throughput(peak + 1.0));
    assert_eq!(LAWS[3].peak_clients(), None);
    let falling = Law { gamma: 1.0, sigma: 1.5, kappa: 0.0 };
    assert_eq!(falling.peak_clients(), Some(1.0));
}

/// The parameters' intervals cover the truth in 90 to 99 % of experiments where the truth is inside their bounds; that of the
/// peak, a ratio of two of them, in 85 % at least (0.87 of 1200 with two repeats and 5 % noise). At a
/// bound (0), to which every fit beyond it is moved, they may cover more. Intervals without ends would cover
/// everything: none occur, except for the upper end of a peak that may not be one, and those are counted.
#[test]
fn intervals_cover_the_truth() {
    for law in LAWS {
        for (repeats, noise, drift) in [(2, 0.05, 0.0), (3, 0.02, 0.03)] {
            let (mut covered, mut bounded) = ([0_usize; 4], 0_usize);
            let seeds = 400;
            for seed in 0..seeds {
                let samples = runs(&law, repeats, noise, drift, seed);
                let found = scalability(&CLIENTS, &samples, Noise::of(&samples).as_ref(), seed).unwrap();
                let ends = |interval: Interval| (interval.low.expect("noise is known"), interval.high);
                let covers = |interval: Interval, truth: f64| {
                    let (low, high) = ends(interval);
                    low <= truth && truth <= high.expect("noise is known")
                };
                covered[0] += usize::from(covers(found.gamma, law.gamma));
                covered[1] += usize::from(covers(found.sigma, law.sigma));
                covered[2] += usize::from(covers(found.kappa, law.kappa));
                let peak = law.peak_clients().unwrap_or(f64::INFINITY);
                let (low, high) = found.peak_clients.map_or((f64::INFINITY, None), ends);
                covered[3] += usize::from(low <= peak && peak <= high.unwrap_or(f64::INFINITY));
                bounded += usize::from(high.is_some());
            }
            let shares = covered.map(|covered| covered as f64 / seeds as f64);
            let at_bound = [false, law.sigma == 0.0, law.kappa == 0.0, law.kappa == 0.0];
            for ((name, share), at_bound) in ["gamma", "sigma", "kappa", "peak"].iter().zip(shares).zip(at_bound) {
                let least = if *name == "peak" { 0.85 } else { 0.90 };
                assert!(share >= least, "{name} of {law:?}, {repeats} repeats, noise {noise}: {share}");
                assert!(at_bound || share <= 0.995, "{name} of {law:?}, {repeats} repeats, noise {noise}: {share}");
            }
            // A peak well within the numbers of clients that ran is recognised as one. Near their end it may not be.
            let bounded = bounded as f64 / seeds as f64;
            let is_within = law.peak_clients().is_some_and(|peak| peak <= CLIENTS[CLIENTS.len() - 1] / 2.0);
            if is_within {
                assert!(bounded >= 0.9, "the peak of {law:?}, {repeats} repeats, noise {noise}: {bounded} have an end");
            }
        }
    }
}

/// Curves that the law does not describe, and too few numbers of clients.
#[test]
fn what_cannot_be_fitted_is_not() {
    let check = |clients: &[f64], throughput: &[f64]| {
        let rows: Vec<Vec<f64>> = throughput.iter().map(|value| vec![*value, value * 1.01]).collect();
        let samples = Samples::complete(&rows);
        scalability(clients, &samples, Noise::of(&samples).as_ref(), 1).map(|found| found.law)
    };
    assert_eq!(check(&[1.0, 2.0, 4.0], &[1.0, 2.0, 3.0]), Err(WhyNot::FewCounts(3)));
    assert_eq!(check(&[1.0, 2.0, 4.0, 4.0], &[1.0, 2.0, 3.0, 3.0]), Err(WhyNot::FewCounts(3)), "equal numbers are one");
    assert_eq!(check(&[1.0, 2.0, 4.0, 8.0], &[1.0, 2.0, 3.0, 0.0]), Err(WhyNot::FewCounts(3)), "nothing completed");
    let jagged = check(&[1.0, 2.0, 4.0, 8.0, 16.0], &[10.0, 100.0, 5.0, 90.0, 8.0]);
    assert!(matches!(jagged, Err(WhyNot::Misfit { misfit }) if misfit > 0.5), "{jagged:?}");
    // Faster than linear is at the bound: a line.
    let superlinear = check(&[1.0, 2.0, 3.0, 4.0], &[1.0, 2.02, 3.06, 4.12]).unwrap();
    assert_eq!((superlinear.sigma, superlinear.kappa), (0.0, 0.0));
}

/// One run of each number of clients: the deviations from the law show the noise, if there are enough.
#[test]
fn without_repeats_deviations_from_the_law_stand_for_noise() {
    let law = LAWS[0];
    let mut covered = 0;
    for seed in 0..100 {
        let samples = runs(&law, 1, 0.03, 0.0, seed);
        let found = scalability(&CLIENTS, &samples, None, seed).unwrap();
        covered += usize::from(found.sigma.contains(law.sigma));
    }
    assert!((88..=100).contains(&covered), "{covered}");
    let four = scalability(&CLIENTS[..4], &runs(&law, 1, 0.03, 0.0, 1), None, 1).unwrap();
    assert!(four.gamma.low.is_some(), "one degree of freedom is left");
}

/// Amdahl's law has no peak. Where noise makes one up, its interval is open above.
#[test]
fn a_peak_that_may_not_exist_has_no_upper_end() {
    let peaks = (0..40).filter_map(|seed| {
        let samples = runs(&LAWS[3], 3, 0.02, 0.0, seed);
        scalability(&CLIENTS, &samples, Noise::of(&samples).as_ref(), seed).expect("fits").peak_clients
    });
    let peaks: Vec<Interval> = peaks.collect();
    let open = peaks.iter().filter(|peak| peak.high.is_none()).count();
    assert!(peaks.len() >= 10, "kappa is estimated above 0 in half of the experiments: {}", peaks.len());
    assert!(peaks.len() - open <= 2, "{peaks:?}");
    assert!(peaks.iter().all(|peak| peak.low.is_some_and(|low| low > CLIENTS[7] / 2.0)), "{peaks:?}");
}

#[test]
fn reasons_are_sentences_with_numbers() {
    let text = WhyNot::Misfit { misfit: 0.34 }.to_string();
    assert_eq!(text, "throughput deviates by 34 % from the law (root mean square), which says nothing then");
    let text = WhyNot::FewCounts(3).to_string();
    assert_eq!(text, "3 numbers of clients completed anything; the law needs at least 4");
}
