//! Two workloads that share a cache: how fast each is, from measurements of each alone with less and less of the cache.
//!
//! A [`Curve`] has the speed of a workload over the cache that it had and, where that was measured, its *fill rate*: the lines
//! that it brought into the cache per second. [`share_cache`] divides the cache of a pair and reads each speed off its curve.
//!
//! # Shares from fill rates
//! A cache that evicts the least recently used line holds the lines that were touched within a window of time, which is the same for both. A
//! workload that has `c` of the cache took the time
//! ```text
//! t(c) = 1/v(c) * integral from 0 to c of v(x)/fill(x) dx
//! ```
//! to touch that much: `fill(x)/v(x)` are its new lines per request while `x` of them are held, and `v(c)` is its speed, requests per second, with
//! its share. Shares are those with `t1(c1) = t2(c2)` that fill
//! the cache together. What is assumed: eviction of the least recently used line, no lines in common, enough bandwidth of memory for both, and cores for both.
//! Where all of that is so, speeds of simulated operators are within 3 % of the speed alone (a test).
//!
//! # Bounds without them
//! Speeds alone do not give shares. They show how many misses a workload gains with less cache, but not how many it has
//! anyway: a stream through memory and a loop in a core's own cache both have a flat curve, but the stream takes all of
//! a shared cache and the loop none of it. A test has these two. Without fill rates a workload's part therefore lies
//! between the part that others cannot take and all that it may fill. The result is then bounds, and its speed with an
//! equal share between them.

/// A workload alone with a part of the cache.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// The cache that it had, in any unit.
    pub cache: f64,
    /// Requests per second.
    pub speed: f64,
    /// The amount that it brought into the cache per second, in any unit common to both workloads of a pair; `None` if
    /// that was not measured.
    pub fill: Option<f64>,
}

/// A workload alone over the cache that it had.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// By the cache, no amount twice.
    points: Vec<Point>,
}

impl Curve {
    /// `None` with fewer than two amounts of cache, and with figures that are not numbers above 0 (fill rates may be 0).
    pub fn new(mut points: Vec<Point>) -> Option<Self> {
        let is_sound = |point: &Point| {
            let is_above_0 = |value: f64| value.is_finite() && value > 0.0;
            is_above_0(point.cache)
                && is_above_0(point.speed)
                && point.fill.is_none_or(|fill| fill.is_finite() && fill >= 0.0)
        };
        points.sort_by(|one, two| one.cache.total_cmp(&two.cache));
        points.dedup_by(|one, two| one.cache == two.cache);
        (points.len() >= 2 && points.iter().all(is_sound)).then_some(Self { points })
    }

    /// The least cache that it was measured with.
    pub fn cache_least(&self) -> f64 {
        self.points[0].cache
    }

    /// The most cache that it was measured with.
    pub fn cache_most(&self) -> f64 {
        self.points[self.points.len() - 1].cache
    }

    /// The speed with this much cache: on the line between two measurements, and beyond them as at the nearest.
    pub fn speed(&self, cache: f64) -> f64 {
        let at = |point: &Point| Some(point.speed);
        self.interpolated(cache, at).expect("every point has a speed")
    }

    /// The fill rate, as for [`speed`](Self::speed); `None` if one of the measurements lacks it.
    pub fn fill(&self, cache: f64) -> Option<f64> {
        self.interpolated(cache, |point| point.fill)
    }

    fn interpolated(&self, cache: f64, figure: impl Fn(&Point) -> Option<f64>) -> Option<f64> {
        let beyond = self.points.partition_point(|point| point.cache < cache);
        let [below, above] = [beyond.saturating_sub(1), beyond.min(self.points.len() - 1)].map(|at| self.points[at]);
        let (low, high) = (figure(&below)?, figure(&above)?);
        let part = (cache - below.cache) / (above.cache - below.cache);
        Some(if below.cache < above.cache { low + part.clamp(0.0, 1.0) * (high - low) } else { low })
    }
}

/// One of two workloads that share a cache. Speeds are relative to those alone with all of the cache.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shared {
    /// Its part of the cache, 0 to 1; `None` without fill rates.
    pub share: Option<f64>,
    /// Its speed with that share; `None` without fill rates.
    pub speed: Option<f64>,
    /// Its speed with an equal share.
    pub speed_equal: f64,
    /// Its speed with only the part that others cannot take. Below the least cache that it was measured with, the speed
    /// is taken to be as there.
    pub speed_least: f64,
    /// Its speed with all that it may fill.
    pub speed_most: f64,
}

/// Steps in which times are summed up and a division of the cache is searched for.
const STEPS: usize = 1024;

/// The shares and speeds of two workloads in a cache where each may fill its `may_fill`, in the unit of their curves.
/// Masks of ways are nested: the smaller one is part of the larger one.
pub fn share_cache(curves: [&Curve; 2], cache: f64, may_fill: [f64; 2]) -> [Shared; 2] {
    let may_fill = may_fill.map(|amount| amount.clamp(0.0, cache));
    let filled = may_fill[0].max(may_fill[1]);
    let shares = shares(curves, filled, may_fill);
    [0, 1].map(|at| {
        let (curve, own, other) = (curves[at], may_fill[at], may_fill[1 - at]);
        let left = (filled - other).min(own);
        let relative = |amount: f64| curve.speed(amount) / curve.speed(cache);
        let (one, two) = (relative(left), relative(own));
        let share = shares.map(|shares| shares[at]);
        Shared {
            share: share.map(|share| share / cache),
            speed: share.map(relative),
            speed_equal: relative((filled / 2.0).clamp(left, own)),
            speed_least: one.min(two),
            speed_most: one.max(two),
        }
    })
}

/// How two workloads divide `filled` of a cache, if neither fills more than it may; `None` without fill rates.
fn shares(curves: [&Curve; 2], filled: f64, may_fill: [f64; 2]) -> Option<[f64; 2]> {
    let step = filled / STEPS as f64;
    let most = curves.iter().flat_map(|curve| &curve.points).filter_map(|point| point.fill).fold(0.0, f64::max);
    // Where no line is new, a window has no end.
    let fill_least = (most * 1e-9).max(f64::MIN_POSITIVE);
    let times = |curve: &Curve| -> Option<Vec<f64>> {
        let mut sum = 0.0;
        let mut times = vec![0.0];
        for number in 0..STEPS {
            let middle = (number as f64 + 0.5) * step;
            sum += curve.speed(middle) / curve.fill(middle)?.max(fill_least) * step;
            times.push(sum / curve.speed((number + 1) as f64 * step));
        }
        Some(times)
    };
    let [one, two] = [times(curves[0])?, times(curves[1])?];
    // The first workload's share at which its window becomes longer than the other's.
    let excess = |share: usize| one[share] - two[STEPS - share];
    let beyond = (1..STEPS).find(|share| excess(*share) >= 0.0).unwrap_or(STEPS);
    let (before, after) = (excess(beyond - 1), excess(beyond));
    let part = if after > before { (-before / (after - before)).clamp(0.0, 1.0) } else { 0.5 };
    let first = ((beyond - 1) as f64 + part) * step;
    let first = first.clamp(filled - may_fill[1], may_fill[0]);
    Some([first, filled - first])
}

#[cfg(test)]
mod tests;
