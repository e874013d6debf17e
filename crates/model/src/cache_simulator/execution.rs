//! Cores that take turns by virtual time.
//!
//! Time advances in short epochs. In each, every core runs until its own time has reached the epoch's end. It reads the
//! lines of its trace, and the caches report where each was found. A read that misses costs its latency divided by the
//! number of misses that the operator has under way at once.
//!
//! Memory delivers its bandwidth and no more: if cores request more, every miss is delayed until demand falls to the
//! bandwidth. The delay is adjusted a little after each epoch. Below the bandwidth no read is delayed.
//!
//! Threads beyond the machine's cores share one: thread n runs on core n modulo their number. They share its private cache, and
//! while the others of its core compute, a thread computes more slowly: by [`Machine::sibling_slowdown`](super::Machine) if they
//! compute all the time, by less if they wait for memory. A thread that waits disturbs no other one.
//!
//! If one set in n is simulated, a sampled reference stands for n: it costs n times as much, and references to other
//! sets cost nothing. On average that is the same.

use super::cache::{LINE_BYTES, is_sampled, place};
use super::hierarchy::{Found, Hierarchy};
use super::input::{Simulation, SimulationError};
use super::outcome::{CoreFigures, Outcome, WorkloadFigures};
use super::trace::Trace;

/// Nanoseconds of an epoch if all sets are simulated: a few misses of each core. If one set in n is, n times that, so
/// that as many are seen.
const EPOCH_NS: f64 = 200.0;
/// How far the delay moves in one epoch towards the value that the epoch's demand implies. An epoch sees few misses, so
/// the mean of about twenty is taken.
const DELAY_GAIN: f64 = 0.05;
/// How far a thread's computing share moves in one epoch towards that of the epoch.
const COMPUTING_GAIN: f64 = 0.05;
/// Demand of an epoch in which all cores catch up; more than this many times the bandwidth says nothing more.
const DEMAND_MOST: f64 = 8.0;
/// References between two calls of `goes_on`: some hundredths of a second.
const REFERENCES_BETWEEN: u64 = 1_000_000;

/// Runs a simulation.
///
/// # Errors
/// [`SimulationError`] if it cannot run.
pub fn run(simulation: &Simulation) -> Result<Outcome, SimulationError> {
    Ok(run_watched(simulation, &mut |_| true)?.expect("nothing ends it"))
}

/// The same for long simulations: it calls `goes_on` from time to time with the number of references so far, warm-up
/// included. If `goes_on` returns `false`, the simulation ends and the outcome is `None`.
///
/// # Errors
/// [`SimulationError`] if it cannot run.
pub fn run_watched(
    simulation: &Simulation,
    goes_on: &mut dyn FnMut(u64) -> bool,
) -> Result<Option<Outcome>, SimulationError> {
    simulation.check()?;
    let mut execution = Execution::new(simulation);
    if !execution.go_on(simulation.warm_up, goes_on) {
        return Ok(None);
    }
    execution.begin_counting();
    let half = simulation.references / 2;
    let mut before = simulation.warm_up;
    for references in [half, simulation.references - half] {
        execution.first_half = execution.counted();
        if !execution.go_on(references, &mut |made| goes_on(before + made)) {
            return Ok(None);
        }
        before += references;
    }
    Ok(Some(execution.outcome(simulation)))
}

/// A core at work.
struct Core {
    /// Its core, with its cache in the hierarchy.
    number: usize,
    trace: Trace,
    mask: u32,
    /// Nanoseconds of a unit without waiting.
    compute_ns: f64,
    rows_per_unit: f64,
    /// The reciprocal of each access's overlap.
    exposed: Vec<f64>,
    /// Its own time in nanoseconds.
    time_ns: f64,
    /// The share of its time that it computes, of late.
    computing: f64,
    figures: CoreFigures,
}

impl Core {
    /// Reads on until `end_ns`, computing `slowdown` times as long as alone. Returns the number of references.
    fn go_on(&mut self, end_ns: f64, slowdown: f64, caches: &mut Hierarchy, memory: &mut Memory, costs: &Costs) -> u64 {
        let before = self.figures.references;
        let (began_ns, mut computed_ns) = (self.time_ns, 0.0);
        let unit_ns = self.compute_ns * slowdown;
        while self.time_ns < end_ns {
            let reference = self.trace.next_reference();
            let units = f64::from(reference.units_ended);
            self.time_ns += units * unit_ns;
            computed_ns += units * unit_ns;
            self.figures.rows += units * self.rows_per_unit;
            self.figures.references += 1;
            let place = place(reference.line);
            if !is_sampled(place, costs.sampling) {
                continue;
            }
            self.figures.sampled += 1;
            let latency_ns = match caches.read(self.number, place, self.mask) {
                Found::Private => {
                    self.figures.private_hits += 1;
                    continue;
                }
                Found::Shared => {
                    self.figures.shared_hits += 1;
                    costs.shared_ns
                }
                Found::Memory => {
                    self.figures.misses += 1;
                    memory.read();
                    memory.latency_ns + memory.delay_ns
                }
            };
            self.time_ns += latency_ns * self.exposed[reference.access] * f64::from(costs.sampling);
        }
        if self.time_ns > began_ns {
            let share = computed_ns / (self.time_ns - began_ns);
            self.computing += COMPUTING_GAIN * (share - self.computing);
        }
        self.figures.references - before
    }
}

/// Costs that are the same for all cores.
struct Costs {
    sampling: u32,
    shared_ns: f64,
    sibling_slowdown: f64,
}

/// Memory with a bandwidth.
struct Memory {
    latency_ns: f64,
    /// Sampled reads that an epoch can have.
    reads_most: f64,
    /// By how much each read is delayed at present.
    delay_ns: f64,
    /// In this epoch.
    reads: u64,
    /// Of all epochs that are counted.
    reads_counted: u64,
    /// Delays of these reads, summed up.
    delays_ns: f64,
}

impl Memory {
    fn read(&mut self) {
        self.reads += 1;
        self.reads_counted += 1;
        self.delays_ns += self.delay_ns;
    }

    /// Ends an epoch. If cores only waited for memory, their demand would be inverse to its whole latency, and the step
    /// to the delay with which demand equals the bandwidth would be `change_ns`. Steps are small, and only their sum is
    /// kept from going below 0. If each were cut off at 0, the chance in single epochs would add up to a delay where
    /// there is bandwidth to spare.
    fn end_epoch(&mut self) {
        let demand = (self.reads as f64 / self.reads_most).min(DEMAND_MOST);
        let change_ns = (self.latency_ns + self.delay_ns) * (demand - 1.0);
        self.delay_ns = (self.delay_ns + DELAY_GAIN * change_ns).max(0.0);
        self.reads = 0;
    }
}

/// The whole simulation.
struct Execution {
    /// The cores of each workload.
    workloads: Vec<Vec<Core>>,
    caches: Hierarchy,
    memory: Memory,
    costs: Costs,
    /// The shares of their time that the threads of each core compute, summed up.
    computing: Vec<f64>,
    /// The end of the last epoch.
    now_ns: f64,
    /// Where counting began.
    begin_ns: f64,
    /// The counts until the middle.
    first_half: Counts,
}

/// The counts so far.
struct Counts {
    /// Nanoseconds.
    time_ns: f64,
    /// Rows of each workload.
    rows: Vec<f64>,
}

impl Execution {
    /// At time 0, with empty caches. The simulation was checked.
    fn new(simulation: &Simulation) -> Self {
        let (machine, sampling) = (&simulation.machine, simulation.sampling);
        let (mut first, mut threads) = (1_u32, 0..);
        let total: u32 = simulation.workloads.iter().map(|workload| workload.cores).sum();
        let cores = total.min(machine.cores) as usize;
        let mut workloads = Vec::new();
        for (number, workload) in simulation.workloads.iter().enumerate() {
            let program = &workload.program;
            let traces = program.traces(workload.cores, first, simulation.seed.wrapping_add((number as u64) << 32));
            first += program.lines(workload.cores) as u32;
            let core = |(trace, thread): (_, usize)| Core {
                number: thread % cores,
                trace,
                mask: workload.mask,
                compute_ns: program.compute_ns,
                rows_per_unit: program.rows,
                exposed: program.accesses.iter().map(|access| access.overlap.recip()).collect(),
                time_ns: 0.0,
                computing: 0.0,
                figures: CoreFigures::default(),
            };
            workloads.push(traces.into_iter().zip(threads.by_ref()).map(core).collect());
        }
        let memory = Memory {
            latency_ns: machine.memory_ns,
            reads_most: machine.memory_bytes_per_s * EPOCH_NS / 1e9 / LINE_BYTES as f64,
            delay_ns: 0.0,
            reads: 0,
            reads_counted: 0,
            delays_ns: 0.0,
        };
        let costs = Costs { sampling, shared_ns: machine.shared_ns, sibling_slowdown: machine.sibling_slowdown };
        let caches = Hierarchy::new(machine, cores, sampling);
        let first_half = Counts { time_ns: 0.0, rows: vec![0.0; workloads.len()] };
        let computing = vec![0.0; cores];
        Execution { workloads, caches, memory, costs, computing, now_ns: 0.0, begin_ns: 0.0, first_half }
    }

    /// Runs whole epochs until there were `references`, or `goes_on` ended it. Returns whether it was not ended.
    fn go_on(&mut self, references: u64, goes_on: &mut dyn FnMut(u64) -> bool) -> bool {
        let (mut done, mut told) = (0, 0);
        while done < references {
            if done - told >= REFERENCES_BETWEEN {
                told = done;
                if !goes_on(done) {
                    return false;
                }
            }
            self.now_ns += EPOCH_NS * f64::from(self.costs.sampling);
            for core in self.workloads.iter_mut().flatten() {
                // A little below 0 where only rounding is left of the others.
                let others = (self.computing[core.number] - core.computing).max(0.0);
                let slowdown = 1.0 + (self.costs.sibling_slowdown - 1.0) * others;
                done += core.go_on(self.now_ns, slowdown, &mut self.caches, &mut self.memory, &self.costs);
            }
            self.computing.fill(0.0);
            self.workloads.iter().flatten().for_each(|core| self.computing[core.number] += core.computing);
            self.memory.end_epoch();
        }
        true
    }

    fn begin_counting(&mut self) {
        self.begin_ns = self.now_ns;
        (self.memory.reads_counted, self.memory.delays_ns) = (0, 0.0);
        self.workloads.iter_mut().flatten().for_each(|core| core.figures = CoreFigures::default());
    }

    fn counted(&self) -> Counts {
        let rows = |cores: &Vec<Core>| cores.iter().map(|core| core.figures.rows).sum();
        Counts { time_ns: self.now_ns - self.begin_ns, rows: self.workloads.iter().map(rows).collect() }
    }

    /// By how much a workload was faster after the middle than before, as a share.
    fn drift(&self, workload: usize, all: &Counts) -> f64 {
        let (rows, time_ns) = (self.first_half.rows[workload], self.first_half.time_ns);
        let later = (all.rows[workload] - rows) / (all.time_ns - time_ns);
        let drift = later / (rows / time_ns) - 1.0;
        if drift.is_finite() { drift } else { 0.0 }
    }

    fn outcome(self, simulation: &Simulation) -> Outcome {
        let all = self.counted();
        let time_ns = all.time_ns;
        let figures = |core: &Core| CoreFigures { time_ns, ..core.figures };
        let together = simulation.workloads.iter().zip(&self.workloads).enumerate();
        let workloads = together.map(|(number, (workload, cores))| WorkloadFigures {
            name: workload.name.clone(),
            cores: cores.iter().map(figures).collect(),
            drift: self.drift(number, &all),
        });
        let read_bytes = self.memory.reads_counted as f64 * f64::from(self.costs.sampling) * LINE_BYTES as f64;
        Outcome {
            workloads: workloads.collect(),
            memory_bytes_per_s: read_bytes / time_ns * 1e9,
            memory_wait_ns: self.memory.delays_ns / self.memory.reads_counted.max(1) as f64,
            time_ns,
            warm_up_ns: self.begin_ns,
        }
    }
}
