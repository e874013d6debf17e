//! tmp
use rand::SeedableRng;
use rand_pcg::Pcg64;

use super::*;
use crate::statistics::student::normal;

fn saturating(m: usize, tau: f64) -> Vec<f64> {
    (1..=m).map(|x| 1000.0 * (1.0 - (-(x as f64) / tau).exp())).collect()
}

#[test]
fn explore() {
    for (name, truth) in [
        ("sat 10 tau 2", saturating(10, 2.0)),
        ("sat 16 tau 3", saturating(16, 3.0)),
        ("sat 20 tau 6", saturating(20, 6.0)),
        ("linear 10", (1..=10).map(|x| x as f64 * 100.0).collect()),
        ("flat 12", vec![500.0; 12]),
        ("step 12", (0..12).map(|x| if x < 5 { 500.0 } else { 1000.0 }).collect()),
    ] {
        let allocations: Vec<f64> = (0..truth.len()).map(|x| x as f64).collect();
        for noise in [0.005, 0.01, 0.02, 0.03] {
            for repeats in [2, 3, 5] {
                let mut covered = [0; 2];
                let mut near = [0; 2];
                let mut none = [0; 2];
                let mut off = [0.0; 2];
                let mut width = [0.0; 2];
                for seed in 0..200 {
                    let mut random = Pcg64::seed_from_u64(seed);
                    let drift: Vec<f64> = (0..repeats).map(|_| 1.0 + 0.05 * normal(&mut random)).collect();
                    let rows: Vec<Vec<f64>> = truth
                        .iter()
                        .map(|t| drift.iter().map(|d| t * d * (1.0 + noise * normal(&mut random))).collect())
                        .collect();
                    let samples = Samples::complete(&rows);
                    let n = Noise::of(&samples);
                    let k = knee(&allocations, &samples, n.as_ref(), &SHARES, seed);
                    for (l, level) in k.levels.iter().enumerate() {
                        let want =
                            truth.iter().position(|t| *t >= level.share * truth[truth.len() - 1]).unwrap() as f64;
                        match level.allocation {
                            None => none[l] += 1,
                            Some(a) => {
                                near[l] += usize::from((a - want).abs() <= 1.0);
                                off[l] += a - want;
                                width[l] += level.high.unwrap() - level.low.unwrap();
                                covered[l] += usize::from(level.low.unwrap() <= want && want <= level.high.unwrap());
                            }
                        }
                    }
                }
                println!(
                    "{name:14} noise {noise:5} n={repeats} none {none:?} near {near:?} covered {covered:?} off {:.2} {:.2} width {:.2} {:.2}",
                    off[0] / 200.0,
                    off[1] / 200.0,
                    width[0] / 200.0,
                    width[1] / 200.0
                );
            }
        }
    }
}
