//! Checks on this machine whether the pirate takes the amount that it reports. A chase through a working set W runs on
//! one core, and a pirate that holds k on another. The chase begins to miss when W + k exceeds the cache C that both
//! share: at k = C - W.
//!
//! C itself is measured by the same chase alone with growing working sets: a guest has less than the size that the
//! kernel reports, because other guests use the last-level cache too. C is an interval, and so is the expected knee. A
//! process's part of a shared cache depends on how often it touches its lines, so C is that of the chase: a pirate,
//! which is faster, may hold more.

mod measure;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::memory_speed::capacity::MISSING;
pub use crate::memory_speed::search::AlonePoint;
pub use measure::validate;

/// A measurement of the chase beside a pirate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ValidationPoint {
    /// The amount that the pirate should hold, MiB.
    pub wanted_mib: f64,
    /// The amount that it reports to have held, MiB; `None` if unknown.
    pub held_mib: Option<f64>,
    /// The 95 % interval of `held_mib`.
    pub held_interval_mib: Option<[f64; 2]>,
    /// Time of a load of the chase, ns.
    pub chase_ns: f64,
    /// The share of its loads that missed, derived from that time.
    pub missed: f64,
    /// The minimum share that must miss: the part that does not fit beside `wanted_mib`, at the middle of the
    /// capacity's interval.
    pub predicted: f64,
}

/// The result of a validation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Validation {
    /// The core of the chase and the core of the pirate.
    pub cores: [usize; 2],
    /// The distance between two sizes, MiB.
    pub step_mib: f64,
    /// Time of a load of the chase that hits the last level and of one that misses it, ns; several are outstanding at a
    /// time.
    pub hit_and_miss_ns: [f64; 2],
    /// The chase alone by working set; sizes rise coarsely, then again in steps around the capacity.
    pub alone: Vec<AlonePoint>,
    /// The cache that the chase had, MiB, including its second level where that is additional: between the last working
    /// set that fits and the first that thrashes. `None` if no knee was seen, which the notes report.
    pub capacity_mib: Option<[f64; 2]>,
    /// The working set of the chase beside the pirate, MiB.
    pub working_set_mib: Option<f64>,
    /// The chase beside pirates of growing strength.
    pub points: Vec<ValidationPoint>,
    /// Where the chase should begin to miss: strengths of the pirate, MiB.
    pub knee_expected_mib: Option<[f64; 2]>,
    /// The first strength at which it did, MiB; `None` if it never did.
    pub knee_found_mib: Option<f64>,
    /// The first strength at which the pirate lost lines, by its own report, MiB; `None` if it never did. The process
    /// that touches its lines less often loses; beside a small and fast working set that is the pirate.
    pub pirate_lost_mib: Option<f64>,
    /// Whether the two cores share a cache. True if the chase began to miss beside the pirate. False if both together
    /// held clearly more than the chase alone could: the topology that guests see may claim sharing that does not
    /// exist. A single such moment may also mean that others used less of the cache. `None` if neither was seen.
    pub is_shared: Option<bool>,
    /// Whether the knee found is within one step of the expected one; `None` if there is nothing to compare.
    pub within_one_step: Option<bool>,
    /// Whether the result may be judged, because no others use the cache. If not, the measurements prove nothing.
    pub is_judged: bool,
    /// Caveats for the reader.
    pub notes: Vec<String>,
}

/// The least share of a chase through `working_set` that must miss when `held` of `capacity` is taken: the part that
/// does not fit.
pub fn predicted(working_set: f64, held: f64, capacity: f64) -> f64 {
    (1.0 - (capacity - held).max(0.0) / working_set).clamp(0.0, 1.0)
}

/// The strengths at which a chase through `working_set` should begin to miss, for the interval of the capacity.
pub(crate) fn knee_expected(capacity: [f64; 2], working_set: f64) -> [f64; 2] {
    capacity.map(|capacity| (capacity - working_set).max(0.0))
}

/// The first strength at which the chase misses, if it also misses at the next: a single miss may be caused by another
/// process.
pub(crate) fn knee_found(points: &[ValidationPoint]) -> Option<f64> {
    let misses = |point: &ValidationPoint| point.missed >= MISSING;
    let place = (0..points.len()).find(|&at| points[at..].iter().take(2).all(misses))?;
    Some(points[place].wanted_mib)
}

/// The first strength that the pirate did not hold, by its own report.
pub(crate) fn pirate_lost(points: &[ValidationPoint]) -> Option<f64> {
    const HELD_MIN: f64 = 0.9;
    let lost = |point: &&ValidationPoint| point.held_mib.is_some_and(|held| held < point.wanted_mib * HELD_MIN);
    points.iter().find(lost).map(|point| point.wanted_mib)
}

/// The most that chase and pirate held together while the chase did not miss, by the lower bound of the pirate's
/// amount.
pub(crate) fn held_together(points: &[ValidationPoint], working_set: f64) -> Option<f64> {
    let keeps = points.iter().filter(|point| point.missed < MISSING);
    let together = keeps.filter_map(|point| Some(point.held_interval_mib?[0] + working_set));
    together.max_by(f64::total_cmp)
}

/// Whether a knee lies within an interval widened by a step on either side.
pub fn is_within(found: f64, expected: [f64; 2], step: f64) -> bool {
    // A tolerance of 0.1 % for rounding errors in sums of steps.
    let room = step * 1.001;
    (expected[0] - room..=expected[1] + room).contains(&found)
}

impl Validation {
    fn conclude(&mut self) {
        let (Some(capacity), Some(working_set)) = (self.capacity_mib, self.working_set_mib) else { return };
        self.within_one_step = None;
        let middle = f64::midpoint(capacity[0], capacity[1]);
        for point in &mut self.points {
            point.predicted = predicted(working_set, point.wanted_mib, middle);
        }
        let expected = knee_expected(capacity, working_set);
        self.knee_expected_mib = Some(expected);
        self.knee_found_mib = knee_found(&self.points);
        self.pirate_lost_mib = pirate_lost(&self.points);
        // Two steps: the capacity is known to about one, and the division of the cache varies a little.
        let most = capacity[1] + 2.0 * self.step_mib;
        let together = held_together(&self.points, working_set);
        if together.is_some_and(|together| together > most) {
            self.is_shared = Some(false);
            self.is_judged = false;
            return;
        }
        self.is_shared = self.knee_found_mib.map(|_| true);
        // If the chase never missed, there is no knee; the comparison treats it as one step beyond the last strength.
        let last = self.points.last().map(|point| point.wanted_mib + self.step_mib);
        self.within_one_step = self.knee_found_mib.or(last).map(|found| is_within(found, expected, self.step_mib));
    }
}

/// As text, one line per size.
impl fmt::Display for Validation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [hit, miss] = self.hit_and_miss_ns;
        writeln!(out, "chase on core {}, pirate on core {}", self.cores[0], self.cores[1])?;
        writeln!(out, "a load that hits takes {hit:.1} ns, one that misses {miss:.1} ns")?;
        for point in &self.alone {
            let share = point.missed * 100.0;
            writeln!(out, "alone, {:5.1} MiB: {:6.1} ns, {share:3.0} % missed", point.mib, point.chase_ns)?;
        }
        match self.capacity_mib {
            Some([low, high]) => writeln!(out, "the cache it has: {low:.1} to {high:.1} MiB")?,
            None => writeln!(out, "the cache it has: unknown")?,
        }
        for point in &self.points {
            let working_set = self.working_set_mib.unwrap_or(0.0);
            write!(out, "{working_set:.1} MiB beside a pirate of {:5.1} MiB: ", point.wanted_mib)?;
            let (seen, predicted) = (point.missed * 100.0, point.predicted * 100.0);
            write!(out, "{:6.1} ns, {seen:3.0} % missed (at least {predicted:.0} %)", point.chase_ns)?;
            match (point.held_mib, point.held_interval_mib) {
                (Some(held), Some([low, high])) => writeln!(out, ", it held {held:.1} ({low:.1} to {high:.1})")?,
                _ => writeln!(out)?,
            }
        }
        if let Some([low, high]) = self.knee_expected_mib {
            let found = self.knee_found_mib.map_or_else(|| "none".to_owned(), |found| format!("{found:.1} MiB"));
            let within = match self.within_one_step {
                Some(true) => "within a step",
                Some(false) => "farther than a step",
                None => "no comparison",
            };
            writeln!(out, "begins to miss at: expected {low:.1} to {high:.1} MiB, found {found}: {within}")?;
        }
        if let Some(lost) = self.pirate_lost_mib {
            writeln!(out, "the pirate itself did not hold what it was to from {lost:.1} MiB on, by its own account")?;
        }
        if self.is_shared == Some(false) {
            let together = self.working_set_mib.and_then(|own| held_together(&self.points, own)).unwrap_or(f64::NAN);
            writeln!(
                out,
                "together they held {together:.1} MiB, more than the chase alone could: the cores do not share a last level \
                 cache, whatever the kernel tells, or others have left more of it meanwhile"
            )?;
        }
        for note in &self.notes {
            writeln!(out, "note: {note}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory_speed::capacity::{capacity, missed};
    use crate::memory_speed::chase::Scatter;

    /// A machine with a cache of `capacity` MiB: latencies with noise of some percent.
    fn machine(capacity: f64, pirate_takes: f64, seed: u64) -> Validation {
        let hit_and_miss_ns = [15.0, 110.0];
        let mut scatter = Scatter::new(seed);
        let mut latency = |share: f64| (15.0 + 95.0 * share) * (0.98 + 0.0004 * scatter.below(100) as f64);
        // A cyclic chase through slightly more than fits misses far more than the excess.
        let misses = |working_set: f64, room: f64| (predicted(working_set, 0.0, room) * 4.0).min(1.0);
        let mut alone = Vec::new();
        for step in 1..=12 {
            let mib = f64::from(step) * 4.0;
            let chase_ns = latency(misses(mib, capacity));
            alone.push(AlonePoint { mib, chase_ns, missed: missed(chase_ns, hit_and_miss_ns) });
        }
        let mut points = Vec::new();
        for step in 0..8 {
            let wanted_mib = f64::from(step) * 4.0;
            let chase_ns = latency(misses(16.0, capacity - wanted_mib * pirate_takes));
            points.push(ValidationPoint {
                wanted_mib,
                held_mib: None,
                held_interval_mib: None,
                chase_ns,
                missed: missed(chase_ns, hit_and_miss_ns),
                predicted: 0.0,
            });
        }
        let mut validation = Validation {
            cores: [0, 1],
            step_mib: 4.0,
            hit_and_miss_ns,
            capacity_mib: capacity_of(&alone),
            alone,
            working_set_mib: Some(16.0),
            points,
            knee_expected_mib: None,
            knee_found_mib: None,
            pirate_lost_mib: None,
            is_shared: None,
            within_one_step: None,
            is_judged: true,
            notes: Vec::new(),
        };
        validation.conclude();
        validation
    }

    fn capacity_of(alone: &[AlonePoint]) -> Option<[f64; 2]> {
        capacity(alone.iter().map(|point| (point.mib, point.missed)))
    }

    #[test]
    fn a_pirate_that_takes_what_it_says() {
        for (seed, capacity) in [(1, 32.0), (2, 28.0), (3, 24.0), (4, 30.0)] {
            let found = machine(capacity, 1.0, seed);
            let [low, high] = found.capacity_mib.unwrap();
            assert!(low <= capacity && capacity <= high && high - low <= 8.0, "{found}");
            assert_eq!(found.within_one_step, Some(true), "{found}");
        }
    }

    #[test]
    fn a_pirate_that_takes_less_or_more_is_found_out() {
        for takes in [0.0, 0.3, 3.0] {
            assert_eq!(machine(32.0, takes, 1).within_one_step, Some(false), "{takes}: {}", machine(32.0, takes, 1));
        }
    }

    #[test]
    fn arithmetic() {
        assert_eq!(predicted(16.0, 16.0, 32.0), 0.0);
        assert_eq!(predicted(16.0, 24.0, 32.0), 0.5);
        assert_eq!(predicted(16.0, 40.0, 32.0), 1.0);
        assert_eq!(knee_expected([28.0, 36.0], 16.0), [12.0, 20.0]);
        assert_eq!(knee_expected([8.0, 20.0], 16.0), [0.0, 4.0]);
        assert!(is_within(16.0, [20.0, 24.0], 4.0) && is_within(28.0, [20.0, 24.0], 4.0));
        assert!(!is_within(12.0, [20.0, 24.0], 4.0) && !is_within(32.0, [20.0, 24.0], 4.0));
    }

    #[test]
    fn a_pirate_that_loses_is_told() {
        let mut validation = machine(32.0, 1.0, 5);
        assert_eq!(validation.pirate_lost_mib, None);
        for point in &mut validation.points {
            point.held_mib = Some(point.wanted_mib.min(12.0));
        }
        validation.conclude();
        assert_eq!(validation.pirate_lost_mib, Some(16.0), "{validation}");
    }

    /// Two cores of a guest that the hypervisor runs beside different caches.
    #[test]
    fn cores_that_share_no_cache_are_found_out() {
        let mut validation = machine(32.0, 0.0, 6);
        for point in &mut validation.points {
            point.held_mib = Some(point.wanted_mib);
            point.held_interval_mib = Some([point.wanted_mib * 0.99, point.wanted_mib]);
        }
        validation.points.push(ValidationPoint {
            wanted_mib: 36.0,
            held_mib: Some(35.5),
            held_interval_mib: Some([35.0, 36.0]),
            ..validation.points[1].clone()
        });
        validation.conclude();
        assert_eq!(validation.is_shared, Some(false), "{validation}");
        assert!(!validation.is_judged && validation.to_string().contains("do not share"), "{validation}");
        assert_eq!(machine(32.0, 1.0, 6).is_shared, Some(true));
    }

    #[test]
    fn one_disturbed_point_is_no_knee() {
        let mut validation = machine(32.0, 1.0, 5);
        validation.points[1].missed = 0.9;
        validation.conclude();
        assert_eq!(validation.within_one_step, Some(true), "{validation}");
    }
}
