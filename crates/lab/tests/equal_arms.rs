//! A/A beside real background load: two equal arms, measured beside busy loops that come and go. The interval of their ratio
//! covers equality at its stated rate.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use plimsoll_lab::experiment::{Terms, parse, resolve};
use plimsoll_lab::limits::NoLimits;
use plimsoll_lab::record::RunRecord;
use plimsoll_lab::runner::{Runner, Selection, Watch};
use plimsoll_lab::targets::{Target, Targets};
use plimsoll_model::statistics::{Noise, Samples, compare_settings};
use plimsoll_workload::database::Database;
use plimsoll_workload::memory::MemoryDatabase;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use rustix::process::{Pid, Signal, kill_process};

/// A database in this process for every URL.
struct Memory;

impl Targets for Memory {
    fn target(&self, _: &str, _: &BTreeMap<String, String>) -> Result<Box<dyn Target>, String> {
        Ok(Box::new(Memory))
    }

    fn option_names(&self, _: &str) -> Vec<&'static str> {
        Vec::new()
    }
}

impl Target for Memory {
    fn open(&self) -> Result<Box<dyn Database>, String> {
        Ok(Box::new(MemoryDatabase::new()))
    }
}

/// Processes that compute, each of which is stopped and continued as a seed has it.
struct BusyLoops {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl BusyLoops {
    fn start(count: usize, seed: u64) -> BusyLoops {
        let stop = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&stop);
        let start = |_| Command::new("sh").args(["-c", "while :; do :; done"]).stdin(Stdio::null()).spawn().unwrap();
        let mut loops: Vec<Child> = (0..count).map(start).collect();
        let thread = thread::spawn(move || {
            come_and_go(&loops, seed, &is_over);
            for child in &mut loops {
                child.kill().unwrap();
                child.wait().unwrap();
            }
        });
        BusyLoops { stop, thread: Some(thread) }
    }
}

fn come_and_go(loops: &[Child], seed: u64, is_over: &AtomicBool) {
    let mut random = Pcg64::seed_from_u64(seed);
    while !is_over.load(Ordering::Relaxed) {
        for child in loops {
            let signal = if random.random::<f64>() < 0.4 { Signal::CONT } else { Signal::STOP };
            kill_process(Pid::from_child(child), signal).unwrap();
        }
        // Longer than some windows and shorter than others. Nothing waits for it: the pattern is the load.
        thread::sleep(Duration::from_millis(random.random_range(5..80)));
    }
}

impl Drop for BusyLoops {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().expect("dropped once").join();
    }
}

/// The arms `alone:a` and `alone:b`, whose workloads differ in nothing but the name.
fn experiment(seed: u64) -> Vec<RunRecord> {
    let workload = |name: &str| {
        format!(
            "[[workload]]\nname = \"{name}\"\nkind = \"rows\"\nscale = 0.001\nparameters = {{ rows = 1, updates = 0 }}\n"
        )
    };
    let text = format!(
        "name = \"equal\"\narms = [\"alone:a\", \"alone:b\"]\n{}{}[run]\nwarmup = \"2ms\"\nmeasure = \"20ms\"\nrepeats = 6\nseed = {seed}\n",
        workload("a"),
        workload("b")
    );
    // Nothing is thrown away: what others take is noise.
    let terms = Terms { others_max: Some(1000.0), ..Terms::here(&Memory, false) };
    let plan = resolve(&parse(&text, "equal.toml").unwrap(), &terms).unwrap();
    let stop = AtomicBool::new(false);
    let mut watch = Watch { progress: &mut |_| {}, keep: &mut |_| Ok(()), stop: &stop, elapsed_s: &|| 0.0 };
    Runner::new(&plan, &Memory, &mut NoLimits).run(&Selection::default(), Vec::new(), &mut watch).unwrap().records
}

/// Throughputs of each arm by block.
fn samples(records: &[RunRecord]) -> Samples {
    let mut rows = vec![vec![None; 6]; 2];
    for point in records.iter().map(|record| &record.point).filter(|point| point.valid) {
        let arm = usize::from(point.arm == "alone:b");
        rows[arm][point.repeat as usize - 1] = Some(point.workloads[0].all.throughput_per_s);
    }
    Samples::new(rows)
}

/// Of 95 % intervals, 19 of 20 cover the truth. Too few or too many by chance is one case in a thousand.
#[test]
fn intervals_cover_equality_beside_busy_loops() {
    let (experiments, least) = if std::env::var_os("PLIMSOLL_LONG").is_some() { (200, 180) } else { (4, 2) };
    let _loops = BusyLoops::start(thread::available_parallelism().map_or(1, usize::from), 7);
    let (mut covered, mut spread) = (0, 0.0_f64);
    for seed in 0..experiments {
        let samples = samples(&experiment(seed));
        let ratio = compare_settings(&samples, 1, 0, Noise::of(&samples).as_ref()).ratio.unwrap();
        covered += u64::from(ratio.contains(1.0));
        spread = spread.max(ratio.high.unwrap() / ratio.low.unwrap());
    }
    assert!(covered >= least, "{covered} of {experiments} intervals cover equality");
    assert!(experiments < 200 || covered < experiments, "intervals that always cover are too wide");
    assert!(spread > 1.1, "the loops were felt: the widest interval spans a factor of {spread:.2}");
}
