//! How wide intervals are, and what is not predicted because it is not known.

use super::*;

#[test]
fn intervals_are_wider_the_farther_beyond_what_was_measured() {
    let width = |turns: &Turns, doublings_beyond: f64| {
        let mix = Mix { doublings_beyond, turns: turns.clone(), ..mix(Slowdown::None, pair()) };
        let found = predict(&mix, &ONE_CORE).unwrap().classes[0].response_s.unwrap();
        found.high.zip(found.low).map_or(0.0, |(high, low)| (high / low).ln() / 2.0)
    };
    let nothing = Turns::default();
    let isolated = crate::idd::isolated::half_width();
    assert_near(width(&nothing, 0.0), isolated);
    assert_near(width(&nothing, 2.0), isolated.hypot(2.0 * 1.96 * UNADJUSTED_ERROR));
    let mut learned = Turns::default();
    learned.error = Some(Residual { deviation: 0.1, degrees_of_freedom: 3.0 });
    let with_the_thesis = ((3.0 * 0.1_f64.powi(2) + UNADJUSTED_ERROR.powi(2)) / 4.0).sqrt();
    assert!((width(&learned, 0.0) - 2.776 * with_the_thesis).abs() < 1e-3, "Student's t of four figures is 2.78");
    assert_near(width(&learned, 1.0), width(&learned, 0.0) * 2.0_f64.sqrt());
}

/// What one workload shows alone is all that there is to know of it; what several share is not.
#[test]
fn a_workload_alone_has_no_error_of_sharing() {
    let [oltp, olap] = &pair()[..] else { panic!("a pair") };
    for members in [vec![oltp.clone()], vec![oltp.clone(), Member { population: 0, ..olap.clone() }]] {
        let found = predict(&mix(Slowdown::None, members), &ONE_CORE).unwrap().classes[0].response_s.unwrap();
        assert!((found.high.unwrap() / found.value - 1.0).abs() < 1e-9, "equal blocks: {found:?}");
    }
}

/// One mix of two classes leaves one figure to judge the model by. An interval from 0.221 ns to 220 s, as Student's t of one degree
/// of freedom gave, is no answer.
#[test]
fn what_is_not_known_within_the_factor_is_refused() {
    let found = |deviation: f64| {
        let mut turns = Turns::default();
        turns.error = Some(Residual { deviation, degrees_of_freedom: 1.0 });
        predict(&Mix { turns, ..mix(Slowdown::None, pair()) }, &ONE_CORE)
    };
    let near = found(0.2).expect("a model that is off by a fifth predicts").classes[0].response_s.expect("has clients");
    let factor = near.high.expect("an interval") / near.value;
    assert!((2.0..4.0).contains(&factor), "{factor}");
    let refused = found(1.09).expect_err("one that is off threefold does not").to_string();
    assert!(refused.contains("misses measured mixes by a factor of 3.0; measure more of them"), "{refused}");
    assert!(refused.contains(&format!("only, not {FACTOR_MAX}, because")), "{refused}");
    let blocks = |cpu_s: [f64; 2]| cpu_s.map(|cpu_s| block(1_000, cpu_s, 0.0)).to_vec();
    let uneven = mix(Slowdown::None, vec![member("oltp", 8, 0.0, blocks([0.002, 0.02]))]);
    let refused = predict(&uneven, &ONE_CORE).expect_err("two blocks of which one takes ten times as long").to_string();
    assert!(refused.contains("differ that much from block to block"), "{refused}");
}

/// With known truth: responses in mixes that differ from the model by an error of known size, of which some mixes show samples.
/// The interval covers a further response, its error included, in 95 % of cases if errors are as large as the thesis reports or
/// smaller, and hardly less if they are twice as large.
#[test]
fn intervals_of_the_model_cover_responses_whose_error_is_known() {
    for (error, figures, least) in
        [(0.05, 1, 950), (0.26, 1, 940), (0.26, 5, 940), (0.5, 1, 900), (0.5, 3, 900), (0.5, 10, 930)]
    {
        let mut random = Pcg64::seed_from_u64(figures);
        let covered = (0..1_000).filter(|_| {
            let squares: f64 = (0..figures).map(|_| (error * normal(&mut random)).powi(2)).sum();
            let degrees_of_freedom = figures as f64;
            let residual = Residual { deviation: (squares / degrees_of_freedom).sqrt(), degrees_of_freedom };
            (error * normal(&mut random)).abs() <= residual.half_width()
        });
        let covered = covered.count();
        assert!(covered >= least, "error {error}, {figures} figures: {covered} of 1000");
    }
}
