//! Whether columns are worth packing below whole bytes: counting the codes above a bound, as query 1 of "Accelerating Concurrent Workloads with CPU Cache Partitioning" does,
//! from integers of 32 bits, which the engine stores, and from codes of 20 bits, by turns.
//!
//! `cargo bench -p plimsoll-engine --bench packed_codes -- [MILLION_VALUES [TURNS]]`
//!
//! Packed codes are stored as in FastLanes (Afroozeh and Boncz, VLDB 2023): 1024 codes in 32 lanes. Each step reads the
//! same bits of all lanes, so compilers generate vector instructions. Per core it prints values per second of both
//! forms and the ratio of times with its 95 % interval; then for a scan that first converts all codes to integers, as
//! operators without packed forms need. Under `cargo test` the column is tiny, and counts are compared.

use std::hint::black_box;
use std::thread;
use std::time::Instant;

use plimsoll_model::statistics::{Samples, compare_settings};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

/// Bits of a code: the study's columns have 10^6 distinct values.
const BITS: usize = 20;
/// Codes that are packed together.
const BLOCK: usize = 1024;
const LANES: usize = 32;
/// Words of a packed block.
const WORDS: usize = BLOCK * BITS / 32;
/// Every second code is above it.
const BOUND: u32 = 1 << (BITS - 1);

fn pack(codes: &[u32; BLOCK]) -> [u32; WORDS] {
    let mut words = [0u32; WORDS];
    for (row, codes) in codes.as_chunks::<LANES>().0.iter().enumerate() {
        let (word, shift) = (row * BITS / 32, row * BITS % 32);
        for (lane, code) in codes.iter().enumerate() {
            words[word * LANES + lane] |= code << shift;
            if shift + BITS > 32 {
                words[(word + 1) * LANES + lane] |= code >> (32 - shift);
            }
        }
    }
    words
}

#[inline(always)]
fn unpack(words: &[u32; WORDS], codes: &mut [u32; BLOCK]) {
    const MASK: u32 = (1 << BITS) - 1;
    for (row, codes) in codes.as_chunks_mut::<LANES>().0.iter_mut().enumerate() {
        let (word, shift) = (row * BITS / 32, row * BITS % 32);
        let low: &[u32; LANES] = words[word * LANES..][..LANES].try_into().expect("a row of words");
        if shift + BITS > 32 {
            let high: &[u32; LANES] = words[(word + 1) * LANES..][..LANES].try_into().expect("a row of words");
            for lane in 0..LANES {
                codes[lane] = ((low[lane] >> shift) | (high[lane] << (32 - shift))) & MASK;
            }
        } else {
            for lane in 0..LANES {
                codes[lane] = (low[lane] >> shift) & MASK;
            }
        }
    }
}

fn above(codes: &[u32; BLOCK]) -> u32 {
    codes.iter().map(|code| u32::from(*code > BOUND)).sum()
}

fn count_plain(column: &[[u32; BLOCK]]) -> u64 {
    column.iter().map(|block| u64::from(above(block))).sum()
}

fn count_packed(column: &[[u32; WORDS]]) -> u64 {
    let mut codes = [0; BLOCK];
    let mut count = 0;
    for block in column {
        unpack(block, &mut codes);
        count += u64::from(above(&codes));
    }
    count
}

/// As a scan for operators that only support integers: eight blocks are unpacked into a batch that stays in the
/// second-level cache, then read.
fn count_batches(column: &[[u32; WORDS]]) -> u64 {
    let mut batch = vec![[0; BLOCK]; 8];
    let mut count = 0;
    for blocks in column.chunks(batch.len()) {
        for (block, codes) in blocks.iter().zip(&mut batch) {
            unpack(block, codes);
        }
        count += count_plain(black_box(&batch[..blocks.len()]));
    }
    count
}

/// Seconds that all cores take together, each with a part of the column, and the count.
fn timed<T: Sync>(cores: usize, column: &[T], count: impl Fn(&[T]) -> u64 + Sync) -> (f64, u64) {
    let began = Instant::now();
    let total = thread::scope(|scope| {
        let parts = column.chunks(column.len().div_ceil(cores));
        let threads: Vec<_> = parts.map(|part| scope.spawn(|| count(part))).collect();
        threads.into_iter().map(|thread| thread.join().expect("it only counts")).sum()
    });
    (began.elapsed().as_secs_f64(), total)
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let is_test = !std::env::args().any(|word| word == "--bench");
    let number =
        |place: usize, otherwise: usize| words.get(place).map_or(otherwise, |word| word.parse().expect("a number"));
    let (blocks, turns) = if is_test { (20, 1) } else { (number(0, 200) * 1_000_000 / BLOCK, number(1, 20)) };
    let mut random = Pcg64::seed_from_u64(7);
    let plain: Vec<[u32; BLOCK]> =
        (0..blocks).map(|_| std::array::from_fn(|_| random.random_range(0..1 << BITS))).collect();
    let packed: Vec<[u32; WORDS]> = plain.iter().map(pack).collect();
    for cores in 1..=thread::available_parallelism().map_or(1, usize::from).min(2) {
        let mut times = vec![Vec::new(); 3];
        // The first turn reads pages for the first time, and is left out.
        for turn in 0..=turns {
            let mut counts = [0; 3];
            for place in 0..3 {
                let at = (turn + place) % 3;
                let (time, count) = match at {
                    0 => timed(cores, &plain, count_plain),
                    1 => timed(cores, &packed, count_packed),
                    _ => timed(cores, &packed, count_batches),
                };
                counts[at] = count;
                if turn > 0 {
                    times[at].push(time);
                }
            }
            assert!(counts.iter().all(|count| *count == counts[0]), "{counts:?}");
        }
        if is_test {
            continue;
        }
        let samples = Samples::complete(&times);
        for (at, name) in [(0, "32 bits"), (1, "20 bits"), (2, "20 bits, made into integers first")] {
            let mean = times[at].iter().sum::<f64>() / times[at].len() as f64;
            let rate = (blocks * BLOCK) as f64 / mean / 1e9;
            let ratio = compare_settings(&samples, at, 0, None).ratio.filter(|_| at > 0);
            let ratio = ratio.and_then(|ratio| Some((ratio.value, ratio.low?, ratio.high?)));
            let told = ratio.map_or(String::new(), |(value, low, high)| {
                format!(", {value:.2} ({low:.2} to {high:.2}) of the time of 32 bits")
            });
            println!("{cores} cores, {name}: {rate:.2} * 10^9 codes per second{told}");
        }
    }
}
