//! Searches on simulated queries, whose best degrees are known.

use super::*;

/// A pipeline whose time is known for every degree.
#[derive(Debug, Clone, Copy)]
struct Curve {
    /// Milliseconds of work on one core.
    work: f64,
    /// The share of it that one partition does alone.
    serial: f64,
    /// Milliseconds that each further partition costs.
    overhead: f64,
}

impl Curve {
    fn ms(&self, degree: u32, cores: f64) -> f64 {
        let degree = f64::from(degree);
        self.work * (self.serial + (1.0 - self.serial) / degree.min(cores)) + self.overhead * (degree - 1.0)
    }
}

/// A machine that runs one query template: seeded noise stretches each run by a factor.
struct Machine {
    curves: Vec<Curve>,
    cores: f64,
    noise: f64,
    random: u64,
}

impl Machine {
    fn new(curves: &[Curve], cores: f64, noise: f64, seed: u64) -> Self {
        Machine { curves: curves.to_vec(), cores, noise, random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1 }
    }

    /// Between 0 and 1, by xorshift64*.
    fn uniform(&mut self) -> f64 {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        (self.random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// The sum of twelve, less six, is near enough to a normal deviate.
    fn stretch(&mut self) -> f64 {
        let deviate: f64 = (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0;
        (self.noise * deviate).exp()
    }

    fn expected_ms(&self, degrees: &[u32]) -> f64 {
        self.curves.iter().zip(degrees).map(|(curve, degree)| curve.ms(*degree, self.cores)).sum()
    }

    /// The least expected time: each pipeline's at its own best degree.
    fn optimum_ms(&self, degree_max: u32) -> f64 {
        let best = |curve: &Curve| (1..=degree_max).map(|degree| curve.ms(degree, self.cores)).fold(f64::MAX, f64::min);
        self.curves.iter().map(best).sum()
    }

    fn facts(pipelines: &[PipelineFacts], load: f64) -> ParallelismFacts<'_> {
        ParallelismFacts { pipelines, cores: 16, degree_max: 16, active_queries: 1, load }
    }

    /// Runs the template `runs` times, and returns its degrees.
    fn run(&mut self, history: &mut DegreeHistory, load: f64, runs: usize) -> Vec<Vec<u32>> {
        let pipelines = vec![PipelineFacts { rows: None, degree_max: 16 }; self.curves.len()];
        let policy = parallelism_policy("adaptive").unwrap();
        let mut had = Vec::new();
        for _ in 0..runs {
            let assigned = policy.degrees(&Self::facts(&pipelines, load), history);
            let stretch = self.stretch();
            let time = |ms: f64| Duration::from_secs_f64(ms * stretch / 1e3);
            let own = |(curve, degree): (&Curve, &u32)| {
                let wall = time(curve.ms(*degree, self.cores));
                PipelineCost { cpu: wall, wall }
            };
            let costs: Vec<_> = self.curves.iter().zip(&assigned.degrees).map(own).collect();
            let time = time(self.expected_ms(&assigned.degrees));
            history.ran(&QueryRun { assigned: &assigned, time, pipelines: &costs });
            had.push(assigned.degrees);
        }
        had
    }
}

/// A scan that scales, a join that scales to a few cores, a sort that does not scale at all.
const QUERY: [Curve; 3] = [
    Curve { work: 800.0, serial: 0.01, overhead: 1.0 },
    Curve { work: 300.0, serial: 0.2, overhead: 4.0 },
    Curve { work: 40.0, serial: 1.0, overhead: 2.0 },
];

/// A select and nothing else, as in TPC-H's query 6.
const SELECT: [Curve; 1] = [Curve { work: 500.0, serial: 0.0, overhead: 0.5 }];

/// No partition brings a gain.
const SERIAL: [Curve; 2] =
    [Curve { work: 100.0, serial: 1.0, overhead: 3.0 }, Curve { work: 50.0, serial: 1.0, overhead: 3.0 }];

#[test]
fn every_policy_is_found_by_its_name_and_documented() {
    let documentation = include_str!("../parallelism.rs");
    let rows: Vec<&str> = documentation.lines().filter(|line| line.starts_with("//! | `")).collect();
    assert_eq!(rows.len(), PARALLELISM_POLICIES.len());
    for (kind, row) in PARALLELISM_POLICIES.iter().zip(rows) {
        assert_eq!(parallelism_policy(kind.example).expect("listed").name(), kind.example);
        assert_eq!(row, format!("//! | `{}` | {} |", kind.name, kind.about));
    }
    for wrong in ["static", "static(0)", "static(1025)", "static(-1)", "static(2", "adaptiv", "costs"] {
        assert!(parallelism_policy(wrong).is_none(), "{wrong}");
    }
}

#[test]
fn static_and_cost_say_what_their_rules_say() {
    let pipelines = [
        PipelineFacts { rows: Some(6_000_000), degree_max: 92 },
        PipelineFacts { rows: Some(150_000), degree_max: 3 },
        PipelineFacts { rows: None, degree_max: 1 },
    ];
    let check = |name: &str, active_queries, expect: [u32; 3]| {
        let facts = ParallelismFacts { pipelines: &pipelines, cores: 16, degree_max: 16, active_queries, load: 1.0 };
        let assigned = parallelism_policy(name).unwrap().degrees(&facts, &mut DegreeHistory::default());
        assert_eq!(assigned.degrees, expect, "{name} among {active_queries}");
    };
    check("static(1)", 1, [1, 1, 1]);
    check("static(4)", 1, [4, 3, 1]);
    check("static(1024)", 99, [92, 3, 1]);
    check("cost", 1, [16, 3, 1]);
    check("cost", 3, [5, 3, 1]);
    check("cost", 8, [2, 2, 1]);
    // The study's collapse to one thread: as many queries as cores.
    check("cost", 16, [1, 1, 1]);
    check("cost", 1000, [1, 1, 1]);
}

#[test]
fn a_template_that_has_not_repeated_is_run_with_the_largest_degree() {
    let mut history = DegreeHistory::default();
    let had = Machine::new(&QUERY, 16.0, 0.0, 1).run(&mut history, 1.0, 2);
    assert_eq!(had, [[16, 16, 16], [1, 1, 1]]);
}

#[test]
fn without_noise_the_best_is_found_and_kept() {
    for (name, curves) in [("query", &QUERY[..]), ("select", &SELECT), ("serial", &SERIAL)] {
        let mut machine = Machine::new(curves, 16.0, 0.0, 1);
        let mut history = DegreeHistory::default();
        machine.run(&mut history, 1.0, 250);
        let found = &history.convergence()[0];
        let share = machine.expected_ms(&found.best) / machine.optimum_ms(16);
        assert!(found.is_settled && found.reopened == 0, "{name}: {found:?}");
        assert!(share <= 1.05, "{name}: {share} of the optimum by {found:?}");
    }
}

#[test]
fn what_gains_nothing_from_partitions_is_run_serially() {
    let mut history = DegreeHistory::default();
    let had = Machine::new(&SERIAL, 16.0, 0.05, 7).run(&mut history, 1.0, 100);
    assert_eq!(had.last().unwrap(), &[1, 1]);
}

/// The result of a search: the expected time of its best over the optimum, runs to the best, regret in runs of the
/// best.
fn search(curves: &[Curve], noise: f64, seed: u64) -> (f64, u64, f64) {
    let mut machine = Machine::new(curves, 16.0, noise, seed);
    let mut history = DegreeHistory::default();
    machine.run(&mut history, 1.0, 250);
    let found = history.convergence().remove(0);
    let regret = found.regret.unwrap().as_secs_f64() / found.typical.unwrap().as_secs_f64();
    (machine.expected_ms(&found.best) / machine.optimum_ms(16), found.runs_to_best.unwrap(), regret)
}

#[test]
fn with_noise_nearly_the_best_is_found_within_the_studys_250_runs() {
    for (curves, regret_max) in [(&QUERY[..], 60.0), (&SELECT, 60.0), (&SERIAL, 25.0)] {
        for (noise, share_max) in [(0.02, 1.05), (0.05, 1.1), (0.1, 1.2)] {
            let found: Vec<_> = (1..=40).map(|seed| search(curves, noise, seed)).collect();
            let mean = |of: fn(&(f64, u64, f64)) -> f64| found.iter().map(of).sum::<f64>() / found.len() as f64;
            let (share, runs, regret) = (mean(|f| f.0), mean(|f| f.1 as f64), mean(|f| f.2));
            println!(
                "{} pipelines, noise {noise}: {share:.3} of the optimum after {runs:.0} runs, regret {regret:.1} runs",
                curves.len()
            );
            assert!(share <= share_max, "noise {noise}: {share}");
            assert!(runs <= 120.0, "noise {noise}: {runs} runs to the best");
            assert!(regret <= regret_max, "noise {noise}: {regret} runs lost");
        }
    }
}

#[test]
fn noise_alone_seldom_passes_for_a_gain() {
    // Every degree takes the same time.
    let flat = [Curve { work: 100.0, serial: 1.0, overhead: 0.0 }; 2];
    let wrong = (1..=200).filter(|&seed| {
        let mut history = DegreeHistory::default();
        Machine::new(&flat, 16.0, 0.1, seed).run(&mut history, 1.0, 120);
        history.convergence()[0].best != [1, 1]
    });
    let wrong = wrong.count();
    assert!(wrong <= 40, "{wrong} of 200 found a gain where there is none");
}

#[test]
fn each_level_of_load_has_its_own_best() {
    let mut history = DegreeHistory::default();
    let alone = Machine::new(&SELECT, 16.0, 0.03, 3).run(&mut history, 1.0, 120).pop().unwrap();
    let crowded = Machine::new(&SELECT, 2.0, 0.03, 4).run(&mut history, 8.0, 120).pop().unwrap();
    assert!(alone[0] >= 8 && crowded[0] <= 4, "{alone:?} alone, {crowded:?} in company");
    // Earlier results are used at once.
    let again = Machine::new(&SELECT, 16.0, 0.03, 5).run(&mut history, 1.0, 1).pop().unwrap();
    assert_eq!(again, alone);
    assert_eq!(history.convergence().len(), 2);
}

#[test]
fn a_load_at_an_edge_does_not_change_its_level_back_and_forth() {
    let mut history = DegreeHistory::default();
    let mut machine = Machine::new(&SELECT, 16.0, 0.0, 1);
    for load in [1.0, 1.4, 1.6, 1.45, 1.7, 1.5] {
        machine.run(&mut history, load, 3);
    }
    assert_eq!(history.convergence().len(), 1);
    machine.run(&mut history, 2.0, 1);
    machine.run(&mut history, 1.4, 1);
    let levels: Vec<_> = history.convergence().iter().map(|found| found.load.to_string()).collect();
    assert_eq!(levels, ["below 1.5 threads per core", "1.5 to 3 threads per core"]);
}

#[test]
fn a_best_whose_times_change_is_searched_for_again() {
    let mut history = DegreeHistory::default();
    Machine::new(&SELECT, 16.0, 0.03, 9).run(&mut history, 1.0, 150);
    assert_eq!(history.convergence()[0].reopened, 0);
    // The data have grown threefold, and no more than two partitions pay.
    let grown = [Curve { work: 1500.0, serial: 0.0, overhead: 0.5 }];
    let mut machine = Machine::new(&grown, 2.0, 0.03, 10);
    machine.run(&mut history, 1.0, 150);
    let found = &history.convergence()[0];
    let share = machine.expected_ms(&found.best) / machine.optimum_ms(16);
    assert!(found.reopened >= 1 && share <= 1.02 && found.regret > Some(Duration::ZERO), "{share}: {found:?}");
    // One search, one count: the 150 runs before are not its own.
    assert!(found.runs > 250 && found.runs_to_best.is_some_and(|run| run <= 100), "{found:?}");
}

#[test]
fn times_that_never_rest_do_not_keep_it_searching() {
    let mut history = DegreeHistory::default();
    for phase in 0..40_u32 {
        let work = if phase.is_multiple_of(2) { 500.0 } else { 1500.0 };
        let curves = [Curve { work, serial: 0.0, overhead: 0.5 }];
        Machine::new(&curves, 16.0, 0.03, u64::from(phase)).run(&mut history, 1.0, 50);
    }
    let found = &history.convergence()[0];
    assert!(found.reopened <= 12, "{found:?}");
}

#[test]
fn a_plan_of_another_shape_is_another_search() {
    let mut history = DegreeHistory::default();
    Machine::new(&QUERY, 16.0, 0.0, 1).run(&mut history, 1.0, 50);
    let had = Machine::new(&SELECT, 16.0, 0.0, 1).run(&mut history, 1.0, 1);
    assert_eq!(had, [[1]]);
}

#[test]
fn limits_that_shrink_are_kept_and_do_not_stop_the_search() {
    let policy = parallelism_policy("adaptive").unwrap();
    let mut history = DegreeHistory::default();
    Machine::new(&SELECT, 16.0, 0.0, 1).run(&mut history, 1.0, 8);
    for _ in 0..60 {
        let pipelines = [PipelineFacts { rows: Some(1), degree_max: 2 }];
        let assigned = policy.degrees(&Machine::facts(&pipelines, 1.0), &mut history);
        assert!(assigned.degrees[0] <= 2);
        let time = Duration::from_millis(100 / u64::from(assigned.degrees[0]));
        let costs = [PipelineCost { cpu: time, wall: time }];
        history.ran(&QueryRun { assigned: &assigned, time, pipelines: &costs });
    }
    let found = &history.convergence()[0];
    assert!(found.is_settled && found.best == [2], "{found:?}");
}

#[test]
fn many_clients_at_the_same_time_do_not_confuse_the_search() {
    let policy = parallelism_policy("adaptive").unwrap();
    let (mut history, machine) = (DegreeHistory::default(), Machine::new(&QUERY, 16.0, 0.0, 1));
    let pipelines = [PipelineFacts { rows: None, degree_max: 16 }; 3];
    for _ in 0..120 {
        let running: Vec<_> = (0..8).map(|_| policy.degrees(&Machine::facts(&pipelines, 1.0), &mut history)).collect();
        for assigned in running {
            let time = |ms: f64| Duration::from_secs_f64(ms / 1e3);
            let own = |(curve, degree): (&Curve, &u32)| {
                let wall = time(curve.ms(*degree, 16.0));
                PipelineCost { cpu: wall, wall }
            };
            let costs: Vec<_> = QUERY.iter().zip(&assigned.degrees).map(own).collect();
            let time = time(machine.expected_ms(&assigned.degrees));
            history.ran(&QueryRun { assigned: &assigned, time, pipelines: &costs });
        }
    }
    let found = &history.convergence()[0];
    let share = machine.expected_ms(&found.best) / machine.optimum_ms(16);
    assert!(found.is_settled && share <= 1.05, "{share}: {found:?}");
}
