//! A server that is a formula: the response times of an important class depend on the limits of a lower class. Times
//! are drawn from an exponential distribution, so the 95th percentile is three times the mean.

use std::collections::BTreeMap;
use std::time::Duration;

use plimsoll_policy::{
    ClassIndex, ClassSeen, LeverBounds, LeverKind, Move, Priority, Promise, Target, TargetController, TargetView,
};

use crate::random::Random;

pub const HIGH: ClassIndex = ClassIndex(0);
pub const LOW: ClassIndex = ClassIndex(1);
pub const MIDDLE: ClassIndex = ClassIndex(2);

impl Random {
    /// How many arrive where `mean` are expected.
    fn arrivals(&mut self, mean: f64) -> u64 {
        let (mut count, mut left) = (0, mean);
        loop {
            left += self.share().ln();
            if left < 0.0 {
                return count;
            }
            count += 1;
        }
    }
}

/// What makes the important class slow.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Bottleneck {
    /// Locks that transactions of the lower class hold: by how many run.
    Locks,
    /// Cores: by the lower class's share, and by how many run.
    Cores,
    /// The disk: by how fast the lower class reads.
    Disk,
    /// Cores that parallel workers of the lower class take beside its own processes.
    Workers,
    /// Nothing in the lower class.
    Itself,
}

/// The server and the load.
pub struct Server {
    pub bottleneck: Bottleneck,
    /// Transactions per second of the important class.
    pub rate: f64,
    /// Their mean time alone, seconds.
    pub mean_s: f64,
    /// Clients of the lower class.
    pub clients: u64,
    pub random: Random,
}

/// The lower class's amount of each lever; open if it is missing.
pub type Amounts = BTreeMap<LeverKind, u64>;

/// Parallel workers that each query of the lower class has if it may.
const WORKERS: u64 = 4;

/// Bytes per second that the lower class reads if it may.
const DISK_DEMAND: f64 = 400e6;

impl Server {
    pub fn new(bottleneck: Bottleneck, seed: u64) -> Self {
        Server { bottleneck, rate: 200.0, mean_s: 0.003, clients: 12, random: Random(seed) }
    }

    /// Transactions of the lower class that run.
    pub fn running(&self, amounts: &Amounts) -> u64 {
        amounts.get(&LeverKind::Mpl).map_or(self.clients, |mpl| self.clients.min(*mpl))
    }

    fn disk_rate(&self, amounts: &Amounts) -> f64 {
        let demand = if self.running(amounts) > 0 { DISK_DEMAND } else { 0.0 };
        amounts.get(&LeverKind::DiskBandwidth).map_or(demand, |rate| demand.min(*rate as f64))
    }

    /// The mean time of the important class.
    pub fn mean(&self, amounts: &Amounts) -> f64 {
        let running = self.running(amounts) as f64;
        let slower = match self.bottleneck {
            Bottleneck::Locks => 0.35 * running,
            Bottleneck::Cores => {
                let share = *amounts.get(&LeverKind::CpuShare).unwrap_or(&9) as f64;
                // Each step of nice is a factor of 1.25 of the weight.
                running.min(4.0) * 0.10 * 1.25f64.powf(share)
            }
            Bottleneck::Disk => 6.0 * self.disk_rate(amounts) / DISK_DEMAND,
            Bottleneck::Workers => {
                let workers = *amounts.get(&LeverKind::Workers).unwrap_or(&WORKERS);
                0.5 * running.min(2.0) * workers as f64
            }
            Bottleneck::Itself => 0.0,
        };
        self.mean_s * (1.0 + slower)
    }

    pub fn p95(&self, amounts: &Amounts) -> Duration {
        Duration::from_secs_f64(self.mean(amounts) * 20f64.ln())
    }

    /// One second of both classes, as observed.
    pub fn second(&mut self, amounts: &Amounts) -> Vec<ClassSeen> {
        let mean = self.mean(amounts);
        let (mut high, mut low) = (ClassSeen::default(), ClassSeen::default());
        for _ in 0..self.random.arrivals(self.rate) {
            let length = -self.random.share().ln() * mean;
            // In buckets, as hosts count.
            high.ended.add(Duration::from_secs_f64(((length.log2() * 16.0).round() / 16.0).exp2()), 1);
        }
        let running = self.running(amounts);
        low.open.add(Duration::from_secs(1), running);
        let share = if running > 0 { amounts.get(&LeverKind::CpuShare).copied().unwrap_or(9) } else { 0 };
        low.uses = vec![
            (LeverKind::Mpl, running),
            (LeverKind::CpuShare, share),
            (LeverKind::DiskBandwidth, self.disk_rate(amounts) as u64),
            (LeverKind::Workers, if running > 0 { WORKERS } else { 0 }),
        ];
        vec![high, low]
    }
}

/// A controller that controls a server, second by second.
pub struct Play {
    pub server: Server,
    pub controller: TargetController,
    pub second: u64,
    pub moves: Vec<(u64, Move)>,
}

/// Every lever of the lower class.
pub fn levers() -> Vec<LeverBounds> {
    let lever = |kind, open, floor| LeverBounds { class: LOW, priority: Priority::LOW, kind, open, floor };
    vec![
        lever(LeverKind::Mpl, None, 1),
        lever(LeverKind::CpuShare, Some(9), 0),
        lever(LeverKind::DiskBandwidth, None, 1_000_000),
        lever(LeverKind::Workers, Some(WORKERS), 0),
    ]
}

pub fn promise(target: &str) -> Promise {
    let target: Target = target.parse().expect("a target");
    Promise { class: HIGH, priority: Priority::HIGH, target }
}

impl Play {
    pub fn new(server: Server, target: &str) -> Self {
        let mut controller = TargetController::default();
        controller.plan(&[promise(target)], &levers()).expect("the bounds are right");
        Play { server, controller, second: 0, moves: Vec::new() }
    }

    pub fn amounts(&self) -> Amounts {
        self.controller.levers().filter_map(|(bounds, amount)| Some((bounds.kind, amount?))).collect()
    }

    /// Plays seconds; returns the true 95th percentile and the running transactions of the lower class for each.
    pub fn run(&mut self, seconds: u64) -> Vec<(Duration, u64)> {
        (0..seconds)
            .map(|_| {
                let amounts = self.amounts();
                let seen = self.server.second(&amounts);
                self.second += 1;
                let moves = self.controller.step(Duration::from_secs(self.second), &seen);
                self.moves.extend(moves.into_iter().map(|moved| (self.second, moved)));
                (self.server.p95(&amounts), self.server.running(&amounts))
            })
            .collect()
    }

    pub fn view(&self) -> TargetView {
        self.controller.views().remove(0)
    }
}
