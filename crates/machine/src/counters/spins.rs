//! Instructions that threads execute while they wait for spin locks: samples of where their instruction counter stood, attributed
//! to the functions that do nothing but spin.
//!
//! McWherter's thesis (4.6.2) counts them by OProfile in the same way. The processor interrupts a thread after each
//! [`PERIOD`] instructions in user mode; a sample within such a function counts as that number of instructions.
//! Functions are found by the names that the program exports, so it needs no debugging symbols.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::PathBuf;

use object::{Object, ObjectSegment, ObjectSymbol};
use perf_event::data::Record;
use perf_event::{SampleFlag, Sampler};

use super::opened::{CountScope, OpenedGroup};
use super::source::Source;
use crate::host::Host;

/// Instructions between two samples: some hundred samples per second. It is a prime, so that loops do not run in step
/// with it.
pub(super) const PERIOD: u64 = 10_000_019;

/// Buffer for the samples between two looks: one second at eight instructions per nanosecond yields 800 samples of 16
/// bytes.
const BUFFER_BYTES: usize = 32 << 10;

/// Prefixes of programs' file names, and the functions in which these programs do nothing but spin.
pub(super) type SpinFunctions = &'static [(&'static str, &'static [&'static str])];

/// PostgreSQL's loop around a spin lock that is taken, and the pauses in it (`src/backend/storage/lmgr/s_lock.c`). The first attempt is
/// inlined where the lock is taken, and does not count as spinning. Lightweight locks pause by the same functions while their list is locked.
pub(super) const SPIN_FUNCTIONS: SpinFunctions =
    &[("postgres", &["s_lock", "perform_spin_delay", "finish_spin_delay"])];

#[derive(Debug, Clone)]
pub(super) struct Spins {
    /// The group in whose turns samples are taken.
    pub(super) group: usize,
    /// The event that is sampled.
    pub(super) source: Source,
    /// The amount that one sample represents, in the source's unit.
    pub(super) period: u64,
    /// Where threads spin.
    pub(super) functions: SpinFunctions,
}

impl Spins {
    /// Opens the samples of a thread as a member of its group. `None` if the spin functions of its program are not
    /// known.
    pub(super) fn open(
        &self,
        place: &CountScope<'_>,
        group: &mut OpenedGroup,
        programs: &mut Programs,
    ) -> Option<Result<SpinSampler, std::io::Error>> {
        let CountScope::Task { tid, inherit: false } = *place else { return None };
        let code = programs.spin_code(tid, self.functions)?;
        let mut builder = place.builder(&self.source);
        builder.sample_period(self.period).sample(SampleFlag::IP);
        let sampler = group.join_sampled(&mut builder, BUFFER_BYTES);
        Some(sampler.map(|sampler| SpinSampler { sampler, code, period: self.period, spun: 0, taken: 0, lost: 0 }))
    }
}

pub(super) struct SpinSampler {
    sampler: Sampler,
    /// Addresses of the functions in this thread's memory.
    code: Vec<Range<u64>>,
    period: u64,
    /// Samples within the functions, all that were taken, and those for which the buffer had no room.
    spun: u64,
    taken: u64,
    lost: u64,
}

impl SpinSampler {
    /// Takes the samples in the buffer. To be called at the end of each turn, before the buffer is full.
    pub(super) fn look(&mut self) {
        while let Some(record) = self.sampler.next_record() {
            match record.parse_record() {
                Ok(Record::Sample(sample)) => {
                    let is_spin = |at: u64| self.code.iter().any(|function| function.contains(&at));
                    self.taken += 1;
                    self.spun += u64::from(sample.ip().is_some_and(is_spin));
                }
                Ok(Record::Lost(lost)) => self.lost += lost.lost,
                _ => {}
            }
        }
    }

    /// Instructions that were executed in the functions up to the last look. Lost samples are taken to be like the others.
    pub(super) fn counted(&self) -> u64 {
        let per_sample = (self.taken + self.lost) as f64 / self.taken.max(1) as f64 * self.period as f64;
        (self.spun as f64 * per_sample).round() as u64
    }
}

/// The programs of threads, each read once.
#[derive(Default)]
pub(super) struct Programs {
    known: BTreeMap<PathBuf, Option<Program>>,
}

/// Where a program's functions are, by the addresses of its file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Program {
    functions: Vec<Range<u64>>,
    /// The address of the file's first byte.
    first: u64,
}

impl Programs {
    /// The addresses, in a thread's memory, at which it spins.
    fn spin_code(&mut self, tid: i32, functions: SpinFunctions) -> Option<Vec<Range<u64>>> {
        // 0 is the calling thread, on which groups are tried.
        let folder = if tid == 0 { PathBuf::from("/proc/thread-self") } else { PathBuf::from(format!("/proc/{tid}")) };
        let path = fs::read_link(folder.join("exe")).ok()?;
        let name = path.file_name()?.to_str()?;
        let names = functions.iter().find(|(program, _)| name.starts_with(program))?.1;
        let read = || Program::read(&fs::read(folder.join("exe")).ok()?, names);
        let program = self.known.entry(path.clone()).or_insert_with(read).as_ref()?;
        let begin = begin_of_mapping(&Host::real().text(folder.join("maps"))?, path.to_str()?)?;
        let moved = begin.wrapping_sub(program.first);
        let here = |at: &Range<u64>| at.start.wrapping_add(moved)..at.end.wrapping_add(moved);
        Some(program.functions.iter().map(here).collect())
    }
}

impl Program {
    /// `None` if the file is not a program, or has none of the functions.
    fn read(file: &[u8], names: &[&str]) -> Option<Program> {
        let file = object::File::parse(file).ok()?;
        let first = file.segments().find(|segment| segment.file_range().0 == 0)?.address();
        let is_wanted = |name: &str| names.contains(&name);
        // A program without debugging symbols still names its exports.
        let symbols = file.symbols().chain(file.dynamic_symbols());
        let wanted = symbols.filter(|symbol| symbol.size() > 0 && symbol.name().is_ok_and(is_wanted));
        let mut functions: Vec<Range<u64>> = wanted.map(|one| one.address()..one.address() + one.size()).collect();
        functions.sort_by_key(|function| function.start);
        functions.dedup();
        (!functions.is_empty()).then_some(Program { functions, first })
    }
}

/// Where the first byte of a file is in memory, by `/proc/PID/maps`.
fn begin_of_mapping(maps: &str, path: &str) -> Option<u64> {
    let line = maps.lines().find(|line| line.ends_with(path) && line.split_whitespace().nth(2) == Some("00000000"))?;
    u64::from_str_radix(line.split_once('-')?.0, 16).ok()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::counters::probe::wander;
    use crate::counters::tests::kernel_plan;
    use crate::counters::{CounterSet, Event, Plan, Watched};
    use crate::cpu_time::current_thread_id;

    #[test]
    fn mappings_are_found_by_file_and_offset() {
        let maps = "55d0c0400000-55d0c04c3000 r--p 00000000 fe:00 1234 /usr/lib/postgresql/15/bin/postgres\n\
                    55d0c04c3000-55d0c09d1000 r-xp 000c3000 fe:00 1234 /usr/lib/postgresql/15/bin/postgres\n\
                    7f3700000000-7f3700021000 r--p 00000000 fe:00 99 /usr/lib/libc.so.6\n";
        assert_eq!(begin_of_mapping(maps, "/usr/lib/postgresql/15/bin/postgres"), Some(0x55d0_c040_0000));
        assert_eq!(begin_of_mapping(maps, "/usr/lib/libc.so.6"), Some(0x7f37_0000_0000));
        assert_eq!(begin_of_mapping(maps, "/usr/bin/psql"), None);
    }

    /// A C library has no debugging symbols, but names its exports.
    #[test]
    fn functions_are_found_by_what_a_file_exports() {
        let maps = Host::real().text("/proc/self/maps").unwrap();
        let Some(path) =
            maps.lines().find_map(|line| line.split_whitespace().last().filter(|at| at.contains("/libc.so")))
        else {
            return;
        };
        let program = Program::read(&fs::read(path).unwrap(), &["getpid"]).expect("it exports the function");
        let moved = begin_of_mapping(&maps, path).unwrap().wrapping_sub(program.first);
        let at = libc::getpid as *const () as u64;
        assert!(program.functions[0].contains(&at.wrapping_sub(moved)), "{program:x?}, {at:x}, moved by {moved:x}");
        assert_eq!(Program::read(b"no program", &["getpid"]), None);
        assert_eq!(Program::read(&fs::read(path).unwrap(), &["no_such_function"]), None);
    }

    /// Represents the loop around a spin lock. It is not mangled, as C functions are not.
    #[unsafe(no_mangle)]
    #[inline(never)]
    extern "C" fn plimsoll_spins_here(until_ms: u64) {
        let began = Instant::now();
        while began.elapsed() < Duration::from_millis(until_ms) {
            for _ in 0..10_000 {
                std::hint::spin_loop();
            }
        }
    }

    /// Samples by the kernel's clock use the same buffers and names as those of instructions. The thread spins for a
    /// third of its time in each of three turns; two turns are sampled.
    #[test]
    fn spinning_is_found_by_where_a_thread_is() {
        const MS: u64 = 1_000_000;
        let Some(mut plan) = kernel_plan() else { return };
        let functions: SpinFunctions = &[("plimsoll_machine", &["plimsoll_spins_here"])];
        let source = Source::software("task-clock", perf_event::events::Software::TASK_CLOCK);
        plan.spins = Some(Spins { group: 0, source, period: MS, functions });
        let open = |plan: &Plan| CounterSet::open(plan, &Watched::Threads(vec![current_thread_id()])).unwrap();
        let mut counters = open(&plan);
        counters.enable().unwrap();
        let work = || {
            plimsoll_spins_here(100);
            let began = Instant::now();
            while began.elapsed() < Duration::from_millis(200) {
                std::hint::black_box(wander(&[1; 1024], 10_000));
            }
        };
        work();
        counters.rotate();
        work();
        counters.rotate();
        work();
        let reading = counters.read();
        let spun_ms = reading.figure(Event::SpinInstructions).unwrap().count as f64 / MS as f64;
        let on_core_ms = reading.figure(Event::TaskClock).unwrap().count as f64 / MS as f64;
        let share = spun_ms / on_core_ms;
        assert!((0.25..0.45).contains(&share), "{spun_ms} of {on_core_ms} ms: {reading:?}");

        // For a program with unknown functions the figure is missing, not 0.
        plan.spins = plan.spins.map(|spins| Spins { functions: &[("another", &["spin"])], ..spins });
        let mut counters = open(&plan);
        counters.enable().unwrap();
        work();
        assert_eq!(counters.read().figure(Event::SpinInstructions), None);
    }
}
