//! Latency under load: the time of a load while other cores read memory at increasing rates, as Intel's Memory Latency
//! Checker measures it. Latency stays flat and rises steeply towards the bandwidth that the memory has.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::bandwidth::Rounds;
use super::buffer::{Buffer, LINE};
use super::caches::CacheSizes;
use super::figure::Figure;
use super::latency;
use crate::hog::{HogError, Streams, pin};

/// Loads that warm the chase: it is in memory anyway, so only the TLB and the streams have to settle.
const WARM_LOADS: usize = 1 << 14;

/// Latency at one rate of traffic.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadedPoint {
    /// Bytes read from memory during the measurement, GB/s, by the streams and the chase itself.
    pub traffic_gb_s: f64,
    /// Time of a load, ns.
    pub latency: Figure,
}

/// Measures the curve: a chase on the first of `cores`, streams on the others at these shares of their maximum rate.
pub fn measure(
    caches: &CacheSizes,
    cores: &[usize],
    shares: &[f64],
    rounds: Rounds,
) -> Result<Vec<LoadedPoint>, HogError> {
    let [chaser, streamers @ ..] = cores else { return Ok(Vec::new()) };
    std::thread::scope(|scope| {
        let body = || on_this_core(caches, *chaser, streamers, shares, rounds);
        scope.spawn(body).join().expect("a thread that measures does not panic")
    })
}

fn on_this_core(
    caches: &CacheSizes,
    chaser: usize,
    streamers: &[usize],
    shares: &[f64],
    rounds: Rounds,
) -> Result<Vec<LoadedPoint>, HogError> {
    pin(chaser)?;
    let mut buffer = Buffer::new(caches.beyond_caches(1)).map_err(HogError::Memory)?;
    let bytes = buffer.bytes().len();
    let mut at = latency::prepare(&mut buffer, bytes, WARM_LOADS);
    let mut points = Vec::with_capacity(shares.len() + 2);
    points.extend(one(&buffer, &mut at, None, rounds));
    let mut full = Streams::start(caches, streamers, streamers.len(), f64::INFINITY)?;
    let peak = one(&buffer, &mut at, Some(&mut full), rounds);
    drop(full);
    if let Some(peak) = peak {
        for share in shares {
            let rate = peak.traffic_gb_s * 1e9 * share / streamers.len() as f64;
            let mut streams = Streams::start(caches, streamers, streamers.len(), rate)?;
            points.extend(one(&buffer, &mut at, Some(&mut streams), rounds));
        }
        points.push(peak);
    }
    points.sort_by(|a, b| a.traffic_gb_s.total_cmp(&b.traffic_gb_s));
    Ok(points)
}

/// A point, beside streams if there are any.
fn one(buffer: &Buffer, at: &mut usize, mut streams: Option<&mut Streams>, rounds: Rounds) -> Option<LoadedPoint> {
    // Let the streams settle; bytes read until now do not count.
    latency::round(buffer, at, rounds.each.min(Duration::from_millis(5)));
    let begin = std::time::Instant::now();
    streams.as_mut().map(|streams| streams.bytes_since());
    let all: Vec<f64> = (0..rounds.count).map(|_| latency::round(buffer, at, rounds.each)).collect();
    let window = begin.elapsed().as_secs_f64();
    let streamed = streams.map_or(0, |streams| streams.bytes_since()) as f64 / window;
    let latency = Figure::of("ns", &all)?;
    let chased = LINE as f64 / (latency.median * 1e-9);
    Some(LoadedPoint { traffic_gb_s: (streamed + chased) / 1e9, latency })
}

#[cfg(test)]
mod tests {
    use plimsoll_testing::{Need, skip};

    use super::*;

    #[test]
    fn traffic_and_latency_come_in_pairs() {
        let caches = CacheSizes { l1: None, l2: Some(256 << 10), llc: None, llc_shared_by: 1, is_victim: false };
        let rounds = Rounds { count: 2, each: Duration::from_millis(1) };
        let points = measure(&caches, &[0, 0], &[0.5], rounds);
        let Ok(points) = points else {
            return skip(Need::Core0, format!("core 0 is not ours: {points:?}"));
        };
        assert_eq!(points.len(), 3);
        assert!(points.iter().all(|point| point.traffic_gb_s > 0.0 && point.latency.median > 0.0), "{points:?}");
        assert!(points.windows(2).all(|pair| pair[0].traffic_gb_s <= pair[1].traffic_gb_s));
        assert_eq!(measure(&caches, &[], &[0.5], rounds).unwrap(), []);
    }
}
