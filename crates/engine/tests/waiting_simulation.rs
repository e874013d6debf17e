//! How long 16 to 64 threads wait for shared structures, by discrete simulation: for machines with more cores than this
//! one.
//!
//! Each thread has its own core. It works, then visits a station, which serves one thread at a time in order of
//! arrival, and so on. Times are assumed, each where it is used: the simulation shows how throughput grows with
//! threads, not this engine's speed.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

/// Visits that are simulated for each thread.
const VISITS: usize = 2_000;

/// Rounds per unit of time for `threads` threads. A round is work, with a mean of `mean_work`, and a visit to the
/// station that `choose` returns, for the time that `hold` returns for this number of threads.
fn throughput(
    threads: usize,
    stations: usize,
    mean_work: f64,
    choose: impl Fn(usize, usize, &mut Pcg64) -> usize,
    hold: impl Fn(usize) -> f64,
) -> f64 {
    let mut random = Pcg64::seed_from_u64(threads as u64);
    let work = |random: &mut Pcg64| -mean_work * random.random::<f64>().max(1e-12).ln();
    // When each thread reaches its next station, in thousandths so that they can be ordered.
    let key = |time: f64| (time * 1_000.0) as u64;
    let mut arrivals: BinaryHeap<_> = (0..threads).map(|thread| Reverse((key(work(&mut random)), thread, 0))).collect();
    let mut free_at = vec![0.0; stations];
    let mut last = 0.0_f64;
    while let Some(Reverse((time, thread, visit))) = arrivals.pop() {
        let station = choose(thread, visit, &mut random);
        let begins = (time as f64 / 1_000.0).max(free_at[station]);
        let ends = begins + hold(threads);
        free_at[station] = ends;
        last = last.max(ends);
        if visit + 1 < VISITS {
            arrivals.push(Reverse((key(ends + work(&mut random)), thread, visit + 1)));
        }
    }
    (threads * VISITS) as f64 / last
}

/// The throughput of 16, 32 and 64 threads relative to one.
fn speedups(
    stations: usize,
    mean_work: f64,
    choose: impl Fn(usize, usize, &mut Pcg64) -> usize + Copy,
    hold: impl Fn(usize) -> f64 + Copy,
) -> [f64; 3] {
    let alone = throughput(1, stations, mean_work, choose, |_| hold(1));
    [16, 32, 64].map(|threads| throughput(threads, stations, mean_work, choose, hold) / alone)
}

#[test]
fn one_latch_for_an_index_is_full_at_a_dozen_threads_and_sixteen_are_not_at_sixty_four() {
    // A latch is held for a twelfth of a round: one is full with twelve threads.
    let one = speedups(1, 11.0, |_, _, _| 0, |_| 1.0);
    let striped = speedups(16, 11.0, |_, _, random| random.random_range(0..16), |_| 1.0);
    println!("speedup of 16, 32, 64 threads: one latch {one:.1?}, sixteen {striped:.1?}");
    assert!(one[2] < 12.5 && one[2] / one[0] < 1.15, "{one:?}");
    assert!(striped[2] > 50.0, "{striped:?}");
}

#[test]
fn intentions_at_nine_heads_keep_threads_waiting_and_intentions_of_their_own_do_not() {
    // Microseconds: a transaction of 22 visits nine heads twice; a visit takes 50 ns and 5 ns for each grant that is looked at.
    let scanned = |threads: usize| 0.05 + 0.005 * threads as f64;
    let heads = speedups(9, 1.2, |thread, visit, _| (thread + visit) % 9, scanned);
    // Each has its own place, held as long as an empty head.
    let own = speedups(64, 1.2, |thread, _, _| thread, |_| 0.05);
    println!("speedup of 16, 32, 64 threads: nine heads {heads:.1?}, own {own:.1?}");
    assert!(heads[2] < 40.0 && own[2] > 60.0, "{heads:?} {own:?}");
}

/// When the last of a group that has become durable continues: woken one after the other, each by the one before that
/// leaves the mutex, or all by one call.
#[test]
fn the_last_of_a_group_waits_for_the_others_only_behind_a_mutex() {
    // Microseconds, of the order that machines have: until a woken thread runs, for the kernel to wake one, in the mutex.
    let (runs, wake, inside) = (5.0, 0.5, 0.2);
    for members in [16_u32, 32, 64] {
        let chain = (0..members).fold(0.0, |at, _| at + wake + runs + inside);
        let at_once = (1..=members).map(|nth| f64::from(nth) * wake + runs).fold(0.0, f64::max);
        println!(
            "{members} members: the last goes on after {chain:.0} us behind a mutex, {at_once:.0} us woken at once"
        );
        assert!(chain > 5.0 * at_once, "{chain} {at_once}");
    }
}
