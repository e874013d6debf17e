//! The needs of a request of a class, from measurements of the class alone.
//!
//! A demand is the total use of all requests in a window, divided by their number (`D = U / X`): CPU seconds, seconds
//! of the disk, instructions. It is taken over all blocks together, so that a block counts by its requests. A demand
//! that was not measured stays missing, with the reason.
//!
//! Intervals come from the blocks: [`jackknife`] takes the figure without each of them. The figure can be anything that
//! follows from demands, a predicted response included, so that the intervals of inputs carry over to predictions.
//! Blocks are left out of all classes at once, because classes of one block share its drift.

use thiserror::Error;

use crate::statistics::{Deviation, Interval};

/// A measured figure, or why it is missing.
pub type Figure = Result<f64, String>;

/// Fewer requests than this say nothing about a class.
pub const REQUESTS_LEAST: u64 = 20;

/// Measurements of a class alone in a window: sums over all requests that were answered in it.
#[derive(Debug, Clone, PartialEq)]
pub struct Block {
    /// Requests answered.
    pub requests: u64,
    /// Sum of their response times, in seconds.
    pub response_s: f64,
    /// CPU seconds of all threads that served them, user and kernel, summed over cores.
    pub cpu_s: Figure,
    /// Cores that were busy with other work in the window, on average: upkeep, and measuring.
    pub upkeep_cores: f64,
    /// Seconds in which the data disk was busy; where its curve is known, as long as its operations would take one after the other.
    pub disk_s: Figure,
    /// Seconds that requests waited for the log.
    pub log_s: Figure,
    /// Seconds that requests waited for locks.
    pub lock_s: Figure,
    /// Seconds that requests spent on the way between client and server, between their statements.
    pub round_trip_s: f64,
    /// How often they began to wait for a core after a pause, for the client or for another request: once each, once for
    /// each round trip and once for each wait for a lock.
    pub wakes: f64,
    /// Seconds of the parallel workers that served them, summed over workers.
    pub workers_s: f64,
    /// Instructions, in user and kernel mode.
    pub instructions: Figure,
    /// Instructions spent spinning for locks.
    pub spin_instructions: Figure,
    /// Seconds that clients took between answers and their next requests, beyond their think time: their own work,
    /// whose CPU seconds are within `cpu_s`.
    pub between_s: Figure,
}

/// A class measured alone.
#[derive(Debug, Clone, PartialEq)]
pub struct Alone {
    /// The name shown to people.
    pub name: String,
    /// Clients that it had.
    pub population: u32,
    /// Windows by block; `None` where a run is missing or invalid.
    pub blocks: Vec<Option<Block>>,
}

/// The average use of a request of a class, with the units of [`Block`].
#[derive(Debug, Clone, PartialEq)]
pub struct Demand {
    /// Seconds from request to answer, alone.
    pub response_s: f64,
    /// CPU seconds.
    pub cpu_s: Figure,
    /// Seconds of the disk.
    pub disk_s: Figure,
    /// Seconds waiting for the log.
    pub log_s: Figure,
    /// Seconds waiting for locks.
    pub lock_s: Figure,
    /// Seconds of round trips between its statements.
    pub round_trip_s: f64,
    /// How often it begins to wait for a core after a pause.
    pub wakes: f64,
    /// Parallel workers that serve it, on average.
    pub workers: f64,
    /// Instructions.
    pub instructions: Figure,
    /// Instructions spent spinning.
    pub spin_instructions: Figure,
    /// Seconds of its client's own work before the next request.
    pub between_s: Figure,
}

impl Demand {
    /// The share of the time at the cores, 0 to 1, that is the client's own between requests and no part of the response; 0 if unknown.
    pub(crate) fn between_share(&self) -> f64 {
        let waits_s: f64 = [&self.disk_s, &self.log_s, &self.lock_s].into_iter().flatten().sum();
        let at_cores_s = (self.response_s - waits_s - self.round_trip_s).max(0.0);
        let between_s = self.between_s.as_ref().map_or(0.0, |seconds| seconds.max(0.0));
        if between_s > 0.0 { between_s / (between_s + at_cores_s) } else { 0.0 }
    }
}

/// Too little was measured.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{class}` alone answered {requests} requests in valid runs; at least {REQUESTS_LEAST} are needed")]
pub struct TooFew {
    /// The class.
    pub class: String,
    /// Its requests.
    pub requests: u64,
}

impl Alone {
    /// Cores that were busy with anything but requests, on average over all blocks but one, or over all; 0 without blocks.
    pub fn upkeep_cores(&self, without: Option<usize>) -> f64 {
        let used = self.blocks.iter().enumerate().filter(|(at, _)| Some(*at) != without);
        let cores: Vec<f64> = used.filter_map(|(_, block)| Some(block.as_ref()?.upkeep_cores)).collect();
        cores.iter().sum::<f64>() / cores.len().max(1) as f64
    }

    /// Demands over all blocks but one, or over all.
    pub fn demand(&self, without: Option<usize>) -> Result<Demand, TooFew> {
        let used = || {
            self.blocks
                .iter()
                .enumerate()
                .filter(|(at, _)| Some(*at) != without)
                .filter_map(|(_, block)| block.as_ref())
        };
        let requests: u64 = used().map(|block| block.requests).sum();
        if requests < REQUESTS_LEAST {
            return Err(TooFew { class: self.name.clone(), requests });
        }
        let mean = |of: fn(&Block) -> &Figure| -> Figure {
            let sum: Figure = used().map(|block| of(block).clone()).sum();
            sum.map(|sum| sum / requests as f64)
        };
        let sum = |of: fn(&Block) -> f64| used().map(of).sum::<f64>();
        let response_s = sum(|block| block.response_s);
        Ok(Demand {
            response_s: response_s / requests as f64,
            cpu_s: mean(|block| &block.cpu_s),
            disk_s: mean(|block| &block.disk_s),
            log_s: mean(|block| &block.log_s),
            lock_s: mean(|block| &block.lock_s),
            round_trip_s: sum(|block| block.round_trip_s) / requests as f64,
            wakes: sum(|block| block.wakes) / requests as f64,
            workers: if response_s > 0.0 { sum(|block| block.workers_s) / response_s } else { 0.0 },
            instructions: mean(|block| &block.instructions),
            spin_instructions: mean(|block| &block.spin_instructions),
            between_s: mean(|block| &block.between_s),
        })
    }
}

/// The 95 % interval of a figure that is `whole` over all blocks and `without[j]` over all but block `j`: Student's t on
/// the jackknife's standard error. Without spread where that is unknown.
pub fn jackknife(whole: f64, without: &[f64]) -> Interval {
    match jackknife_error(whole, without) {
        Some(error) => Interval::around(whole, &error, 1.0),
        None => Interval::without_spread(whole),
    }
}

/// The jackknife's standard error of such a figure, in logarithms (Tukey 1958; Efron and Tibshirani, *An Introduction to the Bootstrap*,
/// 11). `None` if there are fewer than two blocks, or a figure is not above 0.
pub(crate) fn jackknife_error(whole: f64, without: &[f64]) -> Option<Deviation> {
    let count = without.len() as f64;
    if without.len() < 2 || without.iter().chain([&whole]).any(|figure| *figure <= 0.0 || !figure.is_finite()) {
        return None;
    }
    let logarithms: Vec<f64> = without.iter().map(|figure| figure.ln()).collect();
    let mean = logarithms.iter().sum::<f64>() / count;
    let squares: f64 = logarithms.iter().map(|logarithm| (logarithm - mean).powi(2)).sum();
    let relative = ((count - 1.0) / count * squares).sqrt();
    Some(Deviation { relative, degrees_of_freedom: count - 1.0 })
}

#[cfg(test)]
pub(crate) mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64;

    use super::*;
    use crate::statistics::student::normal;

    /// A block of requests that use CPU and disk, and nothing else.
    pub(crate) fn block(requests: u64, cpu_s: f64, disk_s: f64) -> Block {
        let all = requests as f64;
        Block {
            requests,
            response_s: all * (cpu_s + disk_s),
            cpu_s: Ok(all * cpu_s),
            upkeep_cores: 0.0,
            disk_s: Ok(all * disk_s),
            log_s: Ok(0.0),
            lock_s: Ok(0.0),
            round_trip_s: 0.0,
            wakes: all,
            workers_s: 0.0,
            instructions: Err("no counters".to_owned()),
            spin_instructions: Err("no counters".to_owned()),
            between_s: Ok(0.0),
        }
    }

    fn alone(blocks: Vec<Option<Block>>) -> Alone {
        Alone { name: "oltp".to_owned(), population: 1, blocks }
    }

    #[test]
    fn a_block_counts_by_its_requests() {
        let alone = alone(vec![Some(block(30, 0.1, 0.0)), None, Some(block(10, 0.5, 0.2))]);
        let demand = alone.demand(None).unwrap();
        assert!((demand.cpu_s.unwrap() - 0.2).abs() < 1e-12);
        assert!((demand.disk_s.unwrap() - 0.05).abs() < 1e-12);
        assert_eq!(demand.instructions, Err("no counters".to_owned()));
        assert!((alone.demand(Some(2)).unwrap().cpu_s.unwrap() - 0.1).abs() < 1e-12);
        assert_eq!(alone.demand(Some(0)), Err(TooFew { class: "oltp".to_owned(), requests: 10 }));
    }

    #[test]
    fn a_figure_that_one_block_lacks_is_missing() {
        let lacks = Block { cpu_s: Err("the sensor was busy".to_owned()), ..block(30, 0.1, 0.0) };
        let alone = alone(vec![Some(block(30, 0.1, 0.0)), Some(lacks)]);
        assert_eq!(alone.demand(None).unwrap().cpu_s, Err("the sensor was busy".to_owned()));
        assert!(alone.demand(Some(1)).unwrap().cpu_s.is_ok());
    }

    #[test]
    fn work_between_requests_is_a_share_of_the_time_at_the_cores() {
        let block = Block { between_s: Ok(3.0), lock_s: Ok(1.0), ..block(10, 0.2, 0.1) };
        let demand = alone(vec![Some(Block { requests: 20, response_s: 3.0, ..block })]).demand(None).unwrap();
        // Of 3 s, 1 s went to the disk and 1 s to locks; 3 s of client work follow on 1 s at the cores.
        assert!((demand.between_share() - 0.75).abs() < 1e-12, "{demand:?}");
        let travels = Demand { round_trip_s: demand.response_s / 6.0, ..demand.clone() };
        assert!((travels.between_share() - 6.0 / 7.0).abs() < 1e-12, "another 0.5 s went to round trips: {travels:?}");
        let unknown = Demand { between_s: Err("clients think".to_owned()), ..demand };
        assert_eq!(unknown.between_share(), 0.0);
    }

    #[test]
    fn intervals_need_two_blocks_and_something_to_say() {
        assert_eq!(jackknife(3.0, &[3.0]), Interval::without_spread(3.0));
        assert_eq!(jackknife(3.0, &[0.0, 3.0]), Interval::without_spread(3.0));
        // The mean of 1 and 3 without each of them; Student's t for one degree of freedom is 12.7.
        let found = jackknife(2.0, &[3.0, 1.0]);
        assert!(((found.high.unwrap() / 2.0).ln() - 12.706 * 3.0_f64.ln() / 2.0).abs() < 1e-2);
    }

    /// Experiments with known truth: a ratio of sums over blocks of uneven size, with noise that blocks share.
    #[test]
    fn intervals_cover_the_truth() {
        for blocks in [3, 5, 10] {
            let mut random = Pcg64::seed_from_u64(blocks);
            let mut covered = 0;
            for _ in 0..1_000 {
                let block = |_| {
                    let requests = random.random_range(80..120);
                    Some(block(requests, 0.2 * (0.1 * normal(&mut random)).exp(), 0.1))
                };
                let alone = alone((0..blocks).map(block).collect());
                let cpu_s = |without| alone.demand(without).unwrap().cpu_s.unwrap();
                let without: Vec<f64> = (0..alone.blocks.len()).map(|at| cpu_s(Some(at))).collect();
                covered += u32::from(jackknife(cpu_s(None), &without).contains(0.2 * (0.005_f64).exp()));
            }
            assert!((925..=975).contains(&covered), "{covered} of 1000 with {blocks} blocks");
        }
    }
}
