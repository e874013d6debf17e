//! The rule as a table, and warm-ups whose throughput over time is known.

use super::*;

/// Judges equally long steps with these numbers of completed requests.
fn check(completed: &[u32], expect: Verdict) {
    let steps = completed.iter().map(|completed| WarmUpStep { completed: f64::from(*completed), length: 0.5 });
    let found = judge(&steps.collect::<Vec<_>>());
    assert_eq!(found.to_string(), expect.to_string(), "{completed:?}");
}

#[test]
fn throughput_is_steady_without_trend_and_with_small_spread() {
    check(&[1000, 1000, 1000], Verdict::TooShort);
    check(&[1000, 1000, 1000, 1000], Verdict::Steady);
    // The halves of 4000 requests may differ by 5 % of 2000, which is 100, and by the noise of 63.
    check(&[960, 960, 1040, 1040], Verdict::Steady);
    check(&[955, 955, 1045, 1045], Verdict::Trend(0.09));
    check(&[1045, 1045, 955, 955], Verdict::Trend(-0.09));
    // Intervals of 1000 may range by 150, and by four times the noise of 32.
    check(&[1138, 862, 862, 1138], Verdict::Steady);
    check(&[1140, 860, 860, 1140], Verdict::Spread(0.28));
    check(&[0, 2000, 0, 2000], Verdict::Spread(2.0));
    // Where much is counted, little is noise: 5 % and 15 % are all that is left.
    check(&[975_000, 975_000, 1_025_000, 1_025_000], Verdict::Steady);
    check(&[970_000, 970_000, 1_030_000, 1_030_000], Verdict::Trend(0.06));
    check(&[1_080_000, 920_000, 920_000, 1_080_000], Verdict::Spread(0.16));
}

#[test]
fn at_least_the_last_half_is_judged() {
    // Eight steps: the last four are half of them.
    check(&[1, 1, 1, 1, 1000, 1000, 1000, 1000], Verdict::Steady);
    // Nine: half of them are no longer within four intervals of one step each, and eight have the trend.
    check(&[1, 1, 1, 1, 1, 1000, 1000, 1000, 1000], Verdict::Trend(2.0 * (4000.0 - 4.0) / 4004.0));
    check(&[1, 1, 1, 1, 1, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000], Verdict::Steady);
    // A rise of 4 % per step is within the noise of four steps, not of sixteen: the last eight are judged.
    let slow: Vec<u32> = (0..16).map(|step| (400.0 * 1.04_f64.powi(step)) as u32).collect();
    check(&slow[..4], Verdict::Steady);
    assert!(matches!(judge(&steps(&slow)), Verdict::Trend(change) if change > 0.1));
}

fn steps(completed: &[u32]) -> Vec<WarmUpStep> {
    completed.iter().map(|completed| WarmUpStep { completed: f64::from(*completed), length: 0.5 }).collect()
}

#[test]
fn few_completions_lengthen_the_intervals() {
    check(&[100, 100, 100, 100], Verdict::Steady);
    check(&[99, 99, 99, 99], Verdict::TooFew(396.0));
    check(&[0; 40], Verdict::TooFew(0.0));
    // Sixteen a step: intervals of seven steps hold 112 each.
    check(&[16; 27], Verdict::TooFew(432.0));
    check(&[16; 28], Verdict::Steady);
    // Few at first: four steps would look even, the eight that are needed show it.
    check(&[30, 30, 30, 30, 70, 70, 70, 70], Verdict::Trend(0.8));
}

#[test]
fn intervals_of_unequal_length_are_judged_by_throughput() {
    let step = |completed, length| WarmUpStep { completed, length };
    let uneven = [step(1000.0, 0.5), step(1400.0, 0.7), step(1000.0, 0.5), step(600.0, 0.3)];
    assert_eq!(judge(&uneven), Verdict::Steady);
    assert!(matches!(judge(&uneven.map(|uneven| step(uneven.completed, 0.5))), Verdict::Trend(_)));
    // A step of no length has no throughput and makes no workload steady.
    let empty = [step(1000.0, 0.5), step(0.0, 0.0), step(1000.0, 0.5), step(1000.0, 0.5)];
    assert_ne!(judge(&empty), Verdict::Steady);
}

/// The end of a warm-up, as seconds and verdicts: `completed` gives the requests that each workload has completed by a
/// second, and readings are late by `late` seconds.
fn warm_up(at_most: Duration, late: f64, completed: &[&dyn Fn(f64) -> f64]) -> (f64, Vec<Verdict>) {
    const BEGIN: Nanos = 7_000_000_000;
    let mut now = BEGIN;
    let verdicts = watch_warm_up(BEGIN, WarmUp::UntilSteady { at_most }, completed.len(), |moment| {
        now = now.max(moment) + (late * 1e9) as Nanos;
        let seconds = (now - BEGIN) as f64 / 1e9;
        Some(Reading { at: now, completed: completed.iter().map(|completed| completed(seconds) as u64).collect() })
    });
    ((now - BEGIN) as f64 / 1e9, verdicts.expect("no look fails"))
}

const MINUTES: Duration = Duration::from_secs(600);

#[test]
fn what_is_steady_from_the_start_takes_two_seconds() {
    assert_eq!(warm_up(MINUTES, 0.0, &[&|s| 1000.0 * s]), (2.0, vec![Verdict::Steady]));
    let (took, verdicts) = warm_up(MINUTES, 0.04, &[&|s| 1e6 * s, &|s| 1e3 * s]);
    assert!((2.0..2.1).contains(&took), "{took}");
    assert_eq!(verdicts, [Verdict::Steady; 2]);
}

#[test]
fn a_slow_start_is_left_out() {
    // A tenth of the throughput during the first second, and all of it from then on.
    let late = |s: f64| if s < 1.0 { 1e3 * s } else { 1e3 + 1e4 * (s - 1.0) };
    assert_eq!(warm_up(MINUTES, 0.0, &[&late]), (3.0, vec![Verdict::Steady]));
}

#[test]
fn a_slow_approach_is_waited_for_however_slow_it_is() {
    // Throughput is per_s * (1 - 0.9 exp(-s / tau)); this is its integral.
    let filling = |per_s: f64, tau: f64| move |s: f64| per_s * (s + 0.9 * tau * ((-s / tau).exp() - 1.0));
    for per_s in [1e3, 1e4, 1e5] {
        for tau in [1.0, 3.0, 10.0, 30.0, 60.0] {
            let (took, verdicts) = warm_up(MINUTES, 0.0, &[&filling(per_s, tau)]);
            assert_eq!(verdicts, [Verdict::Steady]);
            let missing = 0.9 * (-took / tau).exp();
            assert!(missing < 0.03, "{per_s}, {tau}: {missing} after {took}");
        }
    }
}

#[test]
fn the_slowest_workload_decides() {
    let (took, verdicts) = warm_up(MINUTES, 0.0, &[&|s| 1e5 * s, &|s| 8.0 * s]);
    // 400 requests at eight per second.
    assert!((50.0..52.0).contains(&took), "{took}");
    assert_eq!(verdicts, [Verdict::Steady; 2]);
}

#[test]
fn the_bound_holds_and_the_reason_is_given() {
    let check = |at_most, completed: &dyn Fn(f64) -> f64, expect: &str| {
        let (took, verdicts) = warm_up(Duration::from_millis(at_most), 0.0, &[completed]);
        assert_eq!(took, at_most as f64 / 1e3);
        assert_eq!(verdicts[0].to_string(), expect);
    };
    check(0, &|s| 1e5 * s, "cannot be judged in less than 2s");
    check(40, &|s| 1e5 * s, "cannot be judged in less than 2s");
    check(1_999, &|s| 1e5 * s, "cannot be judged in less than 2s");
    check(2_000, &|s| 1e5 * s, "was steady");
    check(10_000, &|_| 0.0, "cannot be judged by 0 completed requests, 400 are needed");
    check(10_700, &|s| 1e5 * s * s, "rose by 40 % of its mean");
}

#[test]
fn looks_that_are_late_by_steps_still_end() {
    let (took, _) = warm_up(Duration::from_secs(10), 1.3, &[&|s| 1e5 * s]);
    assert!((2.0..12.0).contains(&took), "{took}");
    let (took, verdicts) = warm_up(Duration::from_secs(1), 30.0, &[&|s| 1e5 * s]);
    assert_eq!((took, verdicts), (31.0 - 0.5, vec![Verdict::TooShort]));
}

#[test]
fn a_run_that_is_over_ends_the_warm_up() {
    let mut looks = 0;
    let ended = watch_warm_up(0, WarmUp::UntilSteady { at_most: MINUTES }, 1, |at| {
        looks += 1;
        (looks < 3).then(|| Reading { at, completed: vec![0] })
    });
    assert_eq!((ended, looks), (None, 3));
}

#[test]
fn a_fixed_warm_up_lasts_and_is_judged_at_its_end() {
    let warm_up = |length: Duration, rate: fn(Nanos) -> u64| {
        let mut last = 0;
        let verdicts = watch_warm_up(0, WarmUp::For(length), 1, |at| {
            last = at;
            Some(Reading { at, completed: vec![rate(at)] })
        });
        (last, verdicts.expect("it ends by itself"))
    };
    let second = Duration::from_secs(1);
    // 1000 requests per second.
    let (ended, verdicts) = warm_up(10 * second, |at| at / 1_000_000);
    assert_eq!((ended, are_steady(&verdicts)), (10_000_000_000, Some(true)), "it does not end before");
    // Ever more of them.
    let (_, verdicts) = warm_up(10 * second, |at| (at / 1_000_000).pow(2) / 1_000);
    assert!(matches!(verdicts[0], Verdict::Trend(change) if change > 0.1), "{verdicts:?}");
    assert_eq!(are_steady(&verdicts), Some(false));
    for (length, expect) in [(Duration::ZERO, Verdict::TooShort), (second, Verdict::TooShort)] {
        let (_, verdicts) = warm_up(length, |at| at / 1_000_000);
        assert_eq!((&verdicts[..], are_steady(&verdicts)), (&[expect][..], None));
    }
    assert_eq!(are_steady(&[Verdict::TooShort, Verdict::Spread(0.5)]), Some(false));
    assert_eq!(are_steady(&[Verdict::Steady, Verdict::TooFew(1.0)]), None);
}
