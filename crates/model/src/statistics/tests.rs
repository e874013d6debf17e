//! Simulated experiments with known truth: do intervals cover it, and are equals called equal?

use std::collections::{BTreeMap, BTreeSet};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::student::normal;
use super::*;

mod verdicts;

/// How a simulated machine behaves.
#[derive(Debug, Clone, Copy)]
struct World {
    settings: usize,
    repeats: usize,
    /// Relative standard deviation of a run.
    noise: f64,
    /// Relative standard deviation of the drift that a block shares.
    drift: f64,
    log_normal: bool,
    /// Probability that a run is at 60 %.
    outliers: f64,
    /// Whether the noise of settings differs, from a third to five thirds of `noise`.
    uneven: bool,
}

impl World {
    fn truth(setting: usize) -> f64 {
        1_000.0 * (1.0 + setting as f64)
    }

    fn run(&self, seed: u64) -> Samples {
        let mut random = Pcg64::seed_from_u64(seed);
        let blocks: Vec<f64> = (0..self.repeats).map(|_| self.drift * normal(&mut random)).collect();
        let row = |setting: usize, random: &mut Pcg64| {
            let noise = if self.uneven {
                self.noise * (1.0 / 3.0 + 4.0 / 3.0 * setting as f64 / (self.settings.max(2) - 1) as f64)
            } else {
                self.noise
            };
            blocks
                .iter()
                .map(|drift| {
                    let z = normal(random);
                    let factor = if self.log_normal {
                        let sigma = (1.0 + noise * noise).ln().sqrt();
                        (sigma * z - sigma * sigma / 2.0).exp()
                    } else {
                        1.0 + noise * z
                    };
                    let outlier = if random.random::<f64>() < self.outliers { 0.6 } else { 1.0 };
                    (Self::truth(setting) * factor * (1.0 + drift) * outlier).max(0.0)
                })
                .collect()
        };
        Samples::complete(&(0..self.settings).map(|setting| row(setting, &mut random)).collect::<Vec<_>>())
    }
}

/// Every kind of world that the method is for, by name.
fn worlds() -> Vec<(String, World)> {
    let base =
        World { settings: 1, repeats: 2, noise: 0.05, drift: 0.0, log_normal: false, outliers: 0.0, uneven: false };
    let kinds = [
        ("noise 1 %", World { noise: 0.01, ..base }),
        ("noise 20 %", World { noise: 0.2, ..base }),
        ("log-normal noise 30 %", World { noise: 0.3, log_normal: true, ..base }),
        ("log-normal noise 20 %", World { noise: 0.2, log_normal: true, ..base }),
        ("drift 5 %, noise 1 %", World { noise: 0.01, drift: 0.05, ..base }),
        ("drift 5 %, noise 5 %", World { drift: 0.05, ..base }),
        ("one run in 33 at 60 %", World { outliers: 0.03, ..base }),
        ("uneven noise", World { uneven: true, ..base }),
    ];
    let mut worlds = Vec::new();
    for (name, kind) in kinds {
        for repeats in [2, 3, 5, 10] {
            for settings in [1, 2, 5, 30] {
                let name = format!("{name}, {repeats} repeats of {settings} settings");
                worlds.push((name, World { settings, repeats, ..kind }));
            }
        }
    }
    worlds
}

/// How many experiments to simulate: ten times as many with `PLIMSOLL_LONG=1`.
fn seeds(usual: u64) -> u64 {
    if std::env::var_os("PLIMSOLL_LONG").is_some() { 10 * usual } else { usual }
}

/// How many experiments to simulate where figures of all settings are counted together, because figures of one
/// experiment share its drift.
fn seeds_of(world: &World) -> u64 {
    seeds((1_000 / world.settings).max(200) as u64)
}

/// Counts of a simulation.
#[derive(Default)]
struct Tally {
    yes: usize,
    all: usize,
}

impl Tally {
    fn add(&mut self, yes: bool) {
        self.yes += usize::from(yes);
        self.all += 1;
    }

    fn share(&self) -> f64 {
        self.yes as f64 / self.all.max(1) as f64
    }
}

/// Counted for each setting by itself: where noise is uneven, the interval of the noisiest setting is as good as that
/// of the calmest. Outliers widen intervals: of ten runs, a quarter of all settings have one.
#[test]
fn intervals_cover_the_truth_of_each_setting() {
    for (name, world) in worlds() {
        // Of thirty settings the first, one in the middle, and the last, which is the noisiest.
        let looked_at: BTreeSet<usize> = [0, world.settings / 2, world.settings - 1].into();
        let mut covered: BTreeMap<usize, Tally> = BTreeMap::new();
        for seed in 0..seeds(if world.settings > 5 { 1_500 } else { 2_500 }) {
            let samples = world.run(seed);
            for setting in &looked_at {
                let interval = estimate(&samples, *setting).expect("every setting has runs");
                covered.entry(*setting).or_default().add(interval.contains(World::truth(*setting)));
            }
        }
        let most = if world.outliers > 0.0 { 0.99 } else { 0.97 };
        for (setting, covered) in covered {
            assert!((0.93..=most).contains(&covered.share()), "{name}, setting {setting}: {:.3}", covered.share());
        }
    }
}

/// Why not the usual bootstrap: resampling three runs of a setting gives intervals that are far too narrow.
#[test]
fn the_percentile_bootstrap_of_three_runs_would_not_cover() {
    let (_, world) = worlds().swap_remove(0);
    let world = World { repeats: 3, ..world };
    let mut covered = Tally::default();
    for seed in 0..1_000 {
        let runs: Vec<f64> = world.run(seed).runs(0).map(|run| run.1).collect();
        let mut random = Pcg64::seed_from_u64(seed);
        let mut resampled = || (0..3).map(|_| runs[random.random_range(0..3)]).sum::<f64>() / 3.0;
        let mut means: Vec<f64> = (0..400).map(|_| resampled()).collect();
        means.sort_by(f64::total_cmp);
        covered.add(means[10] <= World::truth(0) && World::truth(0) <= means[389]);
    }
    assert!((0.65..0.85).contains(&covered.share()), "{:.3}", covered.share());
}

#[test]
fn intervals_of_ratios_within_a_run_cover_the_truth_and_equals_are_equal() {
    for (name, world) in worlds().into_iter().filter(|(_, world)| world.settings > 1) {
        let (mut missed, mut differ) = (Tally::default(), Tally::default());
        for seed in 0..seeds_of(&world) {
            let samples = world.run(seed);
            let noise = Noise::of(&samples);
            // A setting is as good as its equal once it is scaled to it: noise is relative.
            let scaled = (0..world.settings).map(|s| samples.runs(s).map(|run| run.1 / World::truth(s)).collect());
            let scaled = Samples::complete(&scaled.collect::<Vec<_>>());
            for setting in 1..world.settings {
                let comparison = compare_settings(&samples, setting, 0, noise.as_ref());
                let ratio = comparison.ratio.expect("both ran");
                missed.add(!ratio.contains(World::truth(setting) / World::truth(0)));
                let finding = compare_settings(&scaled, setting, 0, noise.as_ref()).finding;
                differ.add(finding != Finding::NoDifference);
                assert!(comparison.paired);
            }
        }
        assert!((0.01..=0.10).contains(&missed.share()), "{name}: ratio missed in {:.3}", missed.share());
        assert!(differ.share() <= 0.05, "{name}: equals differ in {:.3}", differ.share());
    }
}

/// The base of `plimsoll compare A B` where B is A run again: averaged over settings 5 to 7 % of intervals exclude
/// equality. It is more than 5 % where settings differ in their noise or single runs are far off, because noise is pooled.
#[test]
fn false_alarms_are_rare() {
    for (name, world) in worlds() {
        let mut alarms = Tally::default();
        for seed in 0..seeds_of(&world) {
            let (first, again) = (world.run(2 * seed), world.run(2 * seed + 1));
            let (noise, noise_again) = (Noise::of(&first), Noise::of(&again));
            for setting in 0..world.settings {
                let of = (&again, setting, noise_again.as_ref());
                let ratio = compare_runs(of, (&first, setting, noise.as_ref())).expect("both ran");
                alarms.add(!ratio.contains(1.0));
            }
        }
        assert!(alarms.share() <= 0.07, "{name}: {:.3}", alarms.share());
    }
}

/// Two experiments on a machine that moves between them as it does between blocks.
#[test]
fn drift_between_experiments_is_no_difference() {
    let (_, base) = worlds().swap_remove(0);
    for (repeats, drift) in [(2, 0.01), (3, 0.01), (3, 0.03), (5, 0.03)] {
        let world = World { settings: 8, repeats, drift, ..base };
        let mut same = Tally::default();
        for seed in 0..200 {
            let mut random = Pcg64::seed_from_u64(seed);
            let (first, again) = (world.run(2 * seed), world.run(2 * seed + 1));
            let moved = (1.0 + drift * normal(&mut random)) / (1.0 + drift * normal(&mut random));
            let again =
                (0..8).map(|setting| again.runs(setting).map(|run| run.1 * moved).collect()).collect::<Vec<_>>();
            let again = Samples::complete(&again);
            let (noise, noise_again) = (Noise::of(&first), Noise::of(&again));
            for setting in 0..8 {
                let of = (&again, setting, noise_again.as_ref());
                let ratio = compare_runs(of, (&first, setting, noise.as_ref())).expect("both ran");
                same.add(ratio.contains(1.0));
            }
        }
        assert!(same.share() >= 0.95, "{repeats} repeats, drift {drift}: {:.3}", same.share());
    }
}

/// A tenth more is seen at 2 % noise, in two runs and within one, with drift and without: not everything is called
/// equal.
#[test]
fn differences_are_seen() {
    let (_, base) = worlds().swap_remove(0);
    let world = World { settings: 12, repeats: 3, noise: 0.02, ..base };
    let (mut apart, mut within) = (Tally::default(), Tally::default());
    for seed in 0..200 {
        let (first, again) = (world.run(2 * seed), world.run(2 * seed + 1));
        let more = |setting: usize| again.runs(setting).map(|run| run.1 * 1.1).collect();
        let more = Samples::complete(&(0..12).map(more).collect::<Vec<_>>());
        let (noise, noise_more) = (Noise::of(&first), Noise::of(&more));
        let ratio = compare_runs((&more, 0, noise_more.as_ref()), (&first, 0, noise.as_ref())).expect("both ran");
        apart.add(ratio.low.is_some_and(|low| low > 1.0));
        let ratio = compare_runs((&first, 0, noise.as_ref()), (&more, 0, noise_more.as_ref())).expect("both ran");
        assert!(ratio.low.is_some_and(|low| low < 1.0));

        let drifting = World { drift: 0.2, ..world }.run(seed);
        let scaled = |setting: usize| {
            let factor = if setting == 0 { 1.0 } else { 0.9 } / World::truth(setting);
            drifting.runs(setting).map(|run| run.1 * factor).collect()
        };
        let scaled = Samples::complete(&(0..12).map(scaled).collect::<Vec<_>>());
        let noise = Noise::of(&scaled);
        within.add(compare_settings(&scaled, 3, 0, noise.as_ref()).finding == Finding::Slower);
    }
    assert!(apart.share() >= 0.95, "two runs: {:.3}", apart.share());
    assert!(within.share() >= 0.8, "within a run of three blocks, drift of 20 %: {:.3}", within.share());
}
