//! The cost of sensors: TPC-C on the engine while every sensor of the machine is read, compared with TPC-C alone.
//!
//! The cost of one reading per second is below the noise between rounds. So sensors are read twenty times per second
//! here, and the loss of throughput is divided by twenty: the cost of a reading does not depend on the interval.
//!
//! `cargo bench --bench sensor_cost` measures in interleaved rounds and prints the mean loss with its 95 % interval,
//! and the processor time that a reading takes. The limits for one reading per second are 1 % of throughput and 0.5 %
//! of a core. Under `cargo test` it runs for a moment and checks that readings are taken.

#![allow(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use plimsoll_machine::cpu_time::{current_thread_id, thread_times};
use plimsoll_machine::sensor::{Instruments, Observed, Sensors};
use plimsoll_target::{Embedded, EmbeddedOptions};
use plimsoll_workload::benchmark::{Benchmark, LoadProgress};
use plimsoll_workload::driver::{ClientOptions, Drive, WarmUp, Window, drive};
use plimsoll_workload::tpcc::Tpcc;

/// How often sensors are read.
const READINGS_PER_S: u32 = 20;

/// Every sensor that works here, of all that a window watches: threads, a process, its control group, the machine.
fn sensors() -> Vec<Sensors> {
    let instruments = Instruments::here();
    let process = std::process::id().cast_signed();
    let observed = [
        Observed::Threads(vec![current_thread_id()]),
        Observed::Processes(vec![process]),
        Observed::ControlGroup(process),
        Observed::Machine,
    ];
    // There are hardware counters for one of them.
    let open = |observed: &Observed| {
        let is_threads = matches!(observed, Observed::Threads(_));
        Sensors::open(&instruments, observed, |sensor| is_threads || !sensor.takes_turns())
    };
    observed.iter().map(open).collect()
}

/// Transactions per second of two clients.
fn throughput(database: &Embedded, tpcc: &Tpcc, window: Window, seed: u64) -> f64 {
    let options = ClientOptions { clients: 2, seed, ..ClientOptions::default() };
    let drives = [Drive { name: "tpcc", benchmark: tpcc, database, options: &options }];
    drive(&drives, window, &mut (), &AtomicBool::new(false)).unwrap().workloads[0].measured.all.throughput_per_s
}

/// Reads every sensor once per period until `stop` is set; returns the number of readings and their processor time.
fn watch(sensors: &mut [Sensors], stop: &AtomicBool, period: Duration) -> (u32, Duration) {
    let before = thread_times(current_thread_id());
    let (mut count, mut next) = (0, Instant::now());
    while !stop.load(Ordering::Relaxed) {
        for sensors in &mut *sensors {
            sensors.second();
            black_box(sensors.read());
        }
        count += 1;
        next += period;
        while !stop.load(Ordering::Relaxed) && Instant::now() < next {
            std::thread::sleep(Duration::from_millis(10).min(next.saturating_duration_since(Instant::now())));
        }
    }
    let used = before.zip(thread_times(current_thread_id())).map(|(before, after)| after.since(before).run);
    (count, used.unwrap_or_default())
}

fn main() {
    let is_bench = std::env::args().any(|argument| argument == "--bench");
    let (rounds, seconds) = if is_bench { (20, 4.0) } else { (1, 0.2) };
    let window = Window { warmup: WarmUp::For(Duration::from_millis(300)), measure: Duration::from_secs_f64(seconds) };
    let tpcc = Tpcc::new(2, 7);
    let database = Embedded::new(EmbeddedOptions::default()).unwrap();
    let never = AtomicBool::new(false);
    tpcc.load(&database, &LoadProgress { report: &|_, _, _| (), stop: &never }).unwrap();
    let (mut ratios, mut readings, mut used) = (Vec::new(), 0, Duration::ZERO);
    for round in 0..rounds {
        // The data grow as they are used, so the sides take turns in going first.
        let mut pair = [0.0; 2];
        for side in if round % 2 == 0 { [0, 1] } else { [1, 0] } {
            let stop = AtomicBool::new(false);
            pair[side] = std::thread::scope(|scope| {
                let watcher = (side == 1)
                    .then(|| scope.spawn(|| watch(&mut sensors(), &stop, Duration::from_secs(1) / READINGS_PER_S)));
                let reached = throughput(&database, &tpcc, window, round);
                stop.store(true, Ordering::Relaxed);
                if let Some(watcher) = watcher {
                    let (count, time) = watcher.join().unwrap();
                    readings += count;
                    used += time;
                }
                reached
            });
        }
        ratios.push(pair[1] / pair[0]);
    }
    assert!(readings > 0, "nothing was read");
    let n = ratios.len() as f64;
    let mean = ratios.iter().sum::<f64>() / n;
    let variance = ratios.iter().map(|ratio| (ratio - mean).powi(2)).sum::<f64>() / (n - 1.0).max(1.0);
    // Student's t at 95 % is 2.09 for 20 rounds.
    let half = 2.09 * (variance / n).sqrt();
    let loss = |ratio: f64| (1.0 - ratio) / f64::from(READINGS_PER_S) * 100.0;
    println!("watched {READINGS_PER_S} times a second / unwatched: {mean:.3}, {rounds} rounds of {seconds} s");
    println!(
        "watched once a second: {:.2} % less throughput ({:.2} to {:.2})",
        loss(mean),
        loss(mean + half),
        loss(mean - half)
    );
    let reading_ms = used.as_secs_f64() * 1e3 / f64::from(readings);
    println!("one reading of all sensors: {reading_ms:.2} ms of processor time, {:.3} % of a core", reading_ms / 10.0);
}
