//! The bandwidth of cores to and from memory.

use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::buffer::{Buffer, LINE};
use super::chase::Scatter;
use super::figure::Figure;
use super::stream;
use crate::hog::pin;

/// Bytes moved between two looks at the clock.
const PIECE: usize = 1 << 20;

/// An access pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pattern {
    /// Reads in order. Bytes read.
    Read,
    /// Writes in order, by ordinary stores. Bytes written; memory may see twice as many, because a line is read before it is
    /// changed.
    Write,
    /// `memcpy`. Bytes read and bytes written together.
    Copy,
    /// Reads of single lines of 64 bytes at random places, as many at a time as the core can keep outstanding. Bytes of
    /// lines.
    RandomRead,
}

impl Pattern {
    /// All of them, in the order in which they are measured.
    pub const ALL: [Pattern; 4] = [Pattern::Read, Pattern::Write, Pattern::Copy, Pattern::RandomRead];

    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Pattern::Read => "sequential read",
            Pattern::Write => "sequential write",
            Pattern::Copy => "copy (read + written)",
            Pattern::RandomRead => "random 64-byte reads",
        }
    }
}

/// Bandwidth of some cores together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Bandwidth {
    /// The access pattern.
    pub pattern: Pattern,
    /// The cores that did it, a thread pinned to each.
    pub cores: Vec<usize>,
    /// The socket that all of them are on; `None` if on several.
    pub socket: Option<i64>,
    /// The combined rate of all cores, GB/s.
    pub rate: Figure,
}

/// How long to measure.
#[derive(Debug, Clone, Copy)]
pub struct Rounds {
    /// The number of rounds.
    pub count: usize,
    /// The length of each round.
    pub each: Duration,
}

/// Measures every pattern on `cores` together, each thread in `bytes` of its own memory. The error says what prevented
/// it.
pub fn measure(cores: &[usize], bytes: usize, rounds: Rounds) -> Result<Vec<(Pattern, Figure)>, String> {
    let barrier = Barrier::new(cores.len());
    let failed = AtomicBool::new(false);
    let each: Vec<Result<Vec<Vec<f64>>, String>> = std::thread::scope(|scope| {
        let threads: Vec<_> = cores
            .iter()
            .map(|&core| {
                let (barrier, failed) = (&barrier, &failed);
                scope.spawn(move || one_thread(core, bytes, rounds, barrier, failed))
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("a thread that measures does not panic")).collect()
    });
    let rates = each.into_iter().collect::<Result<Vec<_>, String>>()?;
    let figures = Pattern::ALL.into_iter().enumerate().map(|(place, pattern)| {
        let round = |round: usize| rates.iter().map(|thread| thread[place][round]).sum::<f64>() / 1e9;
        let all: Vec<f64> = (0..rounds.count).map(round).collect();
        Ok((pattern, Figure::of("GB/s", &all).ok_or("the clock stood still")?))
    });
    figures.collect()
}

/// The rates of one thread by pattern and round, bytes per second.
fn one_thread(
    core: usize,
    bytes: usize,
    rounds: Rounds,
    barrier: &Barrier,
    failed: &AtomicBool,
) -> Result<Vec<Vec<f64>>, String> {
    let prepared =
        pin(core).map_err(|error| error.to_string()).and_then(|()| Buffer::new(bytes).map_err(|e| e.to_string()));
    if prepared.is_err() {
        // Ordered by the barrier.
        failed.store(true, Ordering::Relaxed);
    }
    // Every thread must reach the barrier, even after an error, or the others would wait forever.
    barrier.wait();
    let mut buffer = prepared?;
    if failed.load(Ordering::Relaxed) {
        return Err("another thread could not begin".to_owned());
    }
    let mut scatter = Scatter::new(core as u64);
    let mut rates = Vec::with_capacity(Pattern::ALL.len());
    for pattern in Pattern::ALL {
        let mut of_pattern = Vec::with_capacity(rounds.count);
        for _ in 0..rounds.count {
            barrier.wait();
            of_pattern.push(one_round(pattern, buffer.bytes_mut(), rounds.each, &mut scatter));
        }
        rates.push(of_pattern);
    }
    Ok(rates)
}

/// Bytes per second of a pattern for about as long as `time`.
fn one_round(pattern: Pattern, bytes: &mut [u8], time: Duration, scatter: &mut Scatter) -> f64 {
    let half = bytes.len() / 2;
    let piece = PIECE.min(half);
    let begin = Instant::now();
    let (mut moved, mut at) = (0usize, 0usize);
    loop {
        match pattern {
            Pattern::Read => {
                black_box(stream::read(&bytes[at..at + piece]));
                moved += piece;
            }
            Pattern::Write => {
                stream::write(&mut bytes[at..at + piece], moved as u64);
                moved += piece;
            }
            Pattern::Copy => {
                let (from, to) = bytes.split_at_mut(half);
                // Both halves advance together, each wrapping at its own end.
                let at = at % (half - piece + 1);
                stream::copy(&from[at..at + piece], &mut to[at..at + piece]);
                moved += 2 * piece;
            }
            Pattern::RandomRead => {
                black_box(stream::read_scattered(bytes, scatter, piece / LINE));
                moved += piece;
            }
        }
        at = if at + 2 * piece <= bytes.len() { at + piece } else { 0 };
        let elapsed = begin.elapsed();
        if elapsed >= time {
            return moved as f64 / elapsed.as_secs_f64();
        }
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_testing::{Need, skip};

    use super::*;

    const SHORT: Rounds = Rounds { count: 2, each: Duration::from_millis(1) };

    #[test]
    fn every_pattern_moves_bytes() {
        let figures = measure(&[0], 4 << 20, SHORT);
        let Ok(figures) = figures else {
            return skip(Need::Core0, format!("core 0 is not ours: {figures:?}"));
        };
        assert_eq!(figures.iter().map(|figure| figure.0).collect::<Vec<_>>(), Pattern::ALL);
        assert!(figures.iter().all(|(_, rate)| rate.median > 0.0 && rate.rounds == 2), "{figures:?}");
    }

    #[test]
    fn a_thread_that_cannot_begin_does_not_hang_the_others() {
        let error = measure(&[0, 999_999], 1 << 20, SHORT).unwrap_err();
        assert!(error.contains("core") || error.contains("another"), "{error}");
    }
}
