//! Real counters of real threads: the kernel's own events go through the same groups, turns and trees as those of the
//! processor, and every kernel has them.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use plimsoll_testing::{Need, skip};

use super::*;
use crate::cpu_time::current_thread_id;
use crate::top_down::Family;

/// The plan of the kernel's events; where the call is forbidden, as in containers, there is nothing to test.
pub(super) fn kernel_plan() -> Option<Plan> {
    match Plan::of_kernel() {
        Ok(plan) => Some(plan),
        Err(why @ (CountersUnavailable::NotPermitted { .. } | CountersUnavailable::Blocked(_))) => {
            skip(Need::PerfEvents, why);
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn open(plan: &Plan, watched: &Watched) -> CounterSet {
    CounterSet::open(plan, watched).unwrap()
}

fn faults_of(reading: &CounterReading) -> u64 {
    reading.figure(Event::PageFaults).unwrap().count
}

/// Touches memory that comes straight from the kernel, so that it must fault. Allocated memory may be memory that an
/// ended thread had touched.
fn fault(pages: usize) {
    const PAGE: usize = 4096;
    let mut memory = memmap2::MmapMut::map_anon(pages * PAGE).unwrap();
    memory.iter_mut().step_by(PAGE).for_each(|byte| *byte = 1);
    std::hint::black_box(&memory);
}

/// A shell that reports when it is ready, waits for a line, works, reports that, and waits for another line.
struct Worker {
    child: Child,
    said: BufReader<std::process::ChildStdout>,
}

impl Worker {
    fn start(work: &str) -> Worker {
        let script = format!("echo ready; read go; {work}; echo done; read go");
        let mut child = Command::new("sh")
            .args(["-c", &script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("every system has a shell");
        let mut said = BufReader::new(child.stdout.take().unwrap());
        said.read_line(&mut String::new()).unwrap();
        Worker { child, said }
    }

    fn process(&self) -> i32 {
        self.child.id() as i32
    }

    fn go(&mut self) {
        writeln!(self.child.stdin.as_mut().unwrap()).unwrap();
    }

    fn work(&mut self) {
        self.go();
        self.said.read_line(&mut String::new()).unwrap();
    }

    fn end(mut self) {
        self.go();
        self.child.wait().unwrap();
    }
}

/// Both outcomes are right, depending on the machine. Each must be complete.
#[test]
fn this_machine_has_a_plan_or_a_reason() {
    match Plan::of_machine() {
        Ok(plan) => {
            assert!(plan.groups().all(|(_, events)| events.contains(&"cycles")), "{plan:?}");
            for (name, events) in plan.groups() {
                eprintln!("group {name}: {}", events.join(", "));
            }
            plan.notes().for_each(|note| eprintln!("note: {note}"));
            let mut counters = open(&plan, &Watched::Threads(vec![current_thread_id(), -7]));
            assert_eq!(counters.target_count(), 1, "there is no thread -7");
            counters.enable().unwrap();
            fault(64);
            let cycles = counters.read().figure(Event::Cycles).unwrap();
            assert!(cycles.count > 0 && cycles.coverage > 0.0, "{cycles:?}");
        }
        Err(unavailable) => {
            assert!(unavailable.to_string().len() > 20, "{unavailable}");
            skip(Need::Perf, unavailable);
        }
    }
}

/// The thread that calls `rotate` once per second is not the one that opened the set.
#[test]
fn a_set_may_go_to_another_thread() {
    fn check<T: Send + 'static>() {}
    check::<CounterSet>();
    check::<Plan>();
}

#[test]
fn two_threads_are_summed_and_one_may_end() {
    const PAGES: usize = 1024;
    let Some(plan) = kernel_plan() else { return };
    let (go, wait) = mpsc::channel::<()>();
    let (tell, told) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        tell.send(current_thread_id()).unwrap();
        wait.recv().unwrap();
        fault(PAGES);
    });
    let other = told.recv().unwrap();
    let mut counters = open(&plan, &Watched::Threads(vec![current_thread_id(), other]));
    assert_eq!(counters.target_count(), 2);
    fault(PAGES);
    assert_eq!(faults_of(&counters.read()), 0, "nothing is counted before it is enabled");
    counters.rotate();
    counters.enable().unwrap();
    fault(PAGES);
    let alone = faults_of(&counters.read());
    go.send(()).unwrap();
    thread.join().unwrap();
    let reading = counters.read();
    // Huge pages may cover many small ones with one fault, so only a few faults are certain.
    assert!(alone >= 1 && faults_of(&reading) > alone, "{reading:?}");
    assert_eq!(reading.figure(Event::PageFaults).unwrap().coverage, 1.0, "one group has had the turn: {reading:?}");
    assert!(reading.figure(Event::TaskClock).is_some_and(|clock| clock.count > 0), "{reading:?}");
    assert_eq!(reading.figure(Event::ContextSwitches), None, "its group has not had a turn: {reading:?}");
}

#[test]
fn groups_take_turns() {
    let Some(plan) = kernel_plan() else { return };
    if plan.groups().count() < 2 {
        return skip(Need::PerfEvents, format!("one group only: {:?}", plan.notes().collect::<Vec<_>>()));
    }
    let mut counters = open(&plan, &Watched::Threads(vec![current_thread_id()]));
    counters.enable().unwrap();
    fault(256);
    counters.rotate();
    let first_turn = counters.read();
    fault(256);
    std::thread::yield_now();
    counters.rotate();
    fault(256);
    let reading = counters.read();
    let [set] = reading.sets.as_slice() else { panic!("{reading:?}") };
    let [faults, switches] = set.groups.as_slice() else { panic!("{reading:?}") };
    assert_eq!((faults.group.as_str(), switches.group.as_str()), ("faults", "switches"));
    assert!(faults.enabled > first_turn.sets[0].groups[0].enabled, "it had a second turn: {reading:?}");
    assert!(!switches.enabled.is_zero(), "{reading:?}");
    let (clock, counted) = (reading.figure(Event::TaskClock).unwrap(), reading.figure(Event::PageFaults).unwrap());
    assert!((clock.coverage - 1.0).abs() < 1e-9, "every group has the clock: {reading:?}");
    assert!(counted.coverage < 1.0 && counted.coverage > 0.0, "{counted:?}");
    let own = faults.counts["page_faults"];
    assert!(counted.count >= own, "an estimate over all turns: {counted:?}");
    assert_eq!(reading.ratio(Event::PageFaults, Event::ContextSwitches), None, "never counted together");
    assert!(reading.figure(Event::ContextSwitches).is_some());
    // The task clock agrees with the kernel's length of the turns.
    let lasted = set.on_core().as_nanos() as f64;
    assert!((clock.count as f64 / lasted - 1.0).abs() < 0.1, "{clock:?} {lasted}");
}

/// Work in children of children, and in a process that has ended by the time of reading.
const FORKS: &str = "for i in 1 2 3 4 5 6 7 8; do sh -c 'sh -c true; :'; done";

#[test]
fn a_tree_counts_what_it_starts() {
    let Some(plan) = kernel_plan() else { return };
    let mut worker = Worker::start(FORKS);
    let mut alone = open(&plan, &Watched::Threads(vec![worker.process()]));
    let mut tree = open(&plan, &Watched::ProcessTree(worker.process()));
    alone.enable().unwrap();
    tree.enable().unwrap();
    worker.work();
    let (alone, while_alive) = (faults_of(&alone.read()), faults_of(&tree.read()));
    // Sixteen programs were loaded, each with dozens of faults; the shell itself has a few for each fork.
    assert!(while_alive > alone + 16 * 20, "{while_alive} in all, {alone} in the shell");
    worker.end();
    assert!(faults_of(&tree.read()) >= while_alive, "what has ended is kept");
}

#[test]
fn children_that_are_there_already_are_found() {
    let Some(plan) = kernel_plan() else { return };
    let mut worker = Worker::start(FORKS);
    // This process is the worker's parent.
    let mut tree = open(&plan, &Watched::ProcessTree(std::process::id() as i32));
    let mut child = open(&plan, &Watched::ProcessTree(worker.process()));
    assert!(tree.target_count() > child.target_count(), "{tree:?} {child:?}");
    tree.enable().unwrap();
    child.enable().unwrap();
    worker.work();
    worker.end();
    assert!(faults_of(&child.read()) > 0);
    assert!(faults_of(&tree.read()) >= faults_of(&child.read()));
}

/// If the kernel cannot inherit, each rotation looks for new threads.
#[test]
fn without_inheritance_new_threads_are_found() {
    let Some(plan) = kernel_plan() else { return };
    let mut counters = CounterSet {
        plan: plan.clone(),
        targets: Vec::new(),
        turn: 0,
        is_enabled: false,
        tree: None,
        threads: Vec::new(),
        began: ModeTimes::default(),
        notes: BTreeSet::new(),
        programs: Programs::default(),
    };
    let mut worker = Worker::start("exec 3<&0; sh -c 'echo begun; read go' <&3 & wait");
    counters.open_tree(worker.process(), false).unwrap();
    assert_eq!(counters.target_count(), 1);
    counters.enable().unwrap();
    worker.work();
    counters.rotate();
    assert!(counters.target_count() >= 2, "{counters:?}");
    let found = counters.target_count();
    counters.rotate();
    assert_eq!(counters.target_count(), found, "no thread is counted twice");
    worker.child.kill().unwrap();
    worker.child.wait().unwrap();
    counters.rotate();
    counters.read();
}

#[test]
fn what_is_not_there_is_an_error() {
    let Some(plan) = kernel_plan() else { return };
    let check = |watched: &Watched, expect: &str| {
        let why = CounterSet::open(&plan, watched).unwrap_err().to_string();
        assert!(why.contains(expect), "{why}");
    };
    check(&Watched::Threads(Vec::new()), "none of the 0 threads");
    check(&Watched::Threads(vec![-7]), "none of the 1 threads");
    check(&Watched::ProcessTree(i32::MAX), "none of the 1 threads");
    check(&Watched::ControlGroup("/sys/fs/cgroup/no-such-group".into()), "cannot be counted as a control group");
    check(&Watched::ControlGroup("/tmp".into()), "cannot be counted as a control group");
}

/// A control group that is removed when dropped.
struct MadeGroup(PathBuf);

impl MadeGroup {
    /// In a version 2 hierarchy, or in version 1's `perf_event`, if this process may make groups there.
    fn make() -> Result<MadeGroup, String> {
        let mounts = std::fs::read_to_string("/proc/self/mounts").map_err(|error| error.to_string())?;
        let usable = |line: &&str| {
            let fields: Vec<&str> = line.split(' ').collect();
            fields[2] == "cgroup2"
                || (fields[2] == "cgroup" && fields[3].split(',').any(|option| option == "perf_event"))
        };
        // Prefer version 1's hierarchy, which has this controller alone.
        let mounted = mounts.lines().filter(usable).max_by_key(|line| line.split(' ').nth(2) == Some("cgroup"));
        let root = mounted.and_then(|line| line.split(' ').nth(1)).ok_or("no hierarchy is mounted")?;
        let folder = PathBuf::from(root).join(format!("plimsoll-counters-{}", std::process::id()));
        std::fs::create_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        Ok(MadeGroup(folder))
    }
}

impl Drop for MadeGroup {
    fn drop(&mut self) {
        // A process that has just ended may keep the group busy for a moment.
        let began = Instant::now();
        while std::fs::remove_dir(&self.0).is_err() && began.elapsed() < Duration::from_secs(5) {
            std::thread::yield_now();
        }
    }
}

#[test]
fn a_control_group_counts_who_is_in_it() {
    let Some(plan) = kernel_plan() else { return };
    let group = match MadeGroup::make() {
        Ok(group) => group,
        Err(why) => return skip(Need::Cgroups, format!("no control group can be made: {why}")),
    };
    let mut inside = Worker::start(FORKS);
    let mut outside = Worker::start(FORKS);
    if let Err(error) = std::fs::write(group.0.join("cgroup.procs"), inside.process().to_string()) {
        return skip(Need::Cgroups, format!("nobody can be put into a control group: {error}"));
    }
    let mut counters = match CounterSet::open(&plan, &Watched::ControlGroup(group.0.clone())) {
        Ok(counters) => counters,
        Err(why) => return skip(Need::PerfEvents, why),
    };
    counters.enable().unwrap();
    outside.work();
    let before = faults_of(&counters.read());
    assert_eq!(before, 0, "who is not in it is not counted");
    inside.work();
    let faults = faults_of(&counters.read());
    assert!(faults > 16 * 20, "sixteen programs were loaded: {faults}");
    drop(counters);
    inside.end();
    outside.end();
}

/// Counts a worker with `perf stat` and with our counters at the same time and returns both, ours second; `None` where
/// that is impossible, with the reason on stderr.
fn beside_perf(plan: &Plan, event: Event, perf_event: &str, work: &str) -> Option<(u64, u64)> {
    let mut worker = Worker::start(work);
    let process = worker.process().to_string();
    let perf = Command::new("perf")
        .args(["stat", "-x", ";", "-e", perf_event, "-p", &process])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    let mut perf = match perf {
        Ok(perf) => perf,
        Err(error) => {
            skip(Need::PerfTool, format!("perf cannot be run: {error}"));
            worker.end();
            return None;
        }
    };
    let mut counters = open(plan, &Watched::ProcessTree(worker.process()));
    counters.enable().unwrap();
    // Perf counts once it has its counter and sleeps until the process ends. While it prepares it may sleep for a moment.
    let has_counter = |process: u32| {
        let files = std::fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
        files
            .filter_map(|file| std::fs::read_link(file.path()).ok())
            .any(|to| to.to_string_lossy().contains("perf_event"))
    };
    let sleeps =
        |process: u32| std::fs::read_to_string(format!("/proc/{process}/stat")).is_ok_and(|stat| stat.contains(") S "));
    let began = Instant::now();
    let mut asleep = 0;
    while asleep < 20 && began.elapsed() < Duration::from_secs(5) && perf.try_wait().unwrap().is_none() {
        asleep = if has_counter(perf.id()) && sleeps(perf.id()) { asleep + 1 } else { 0 };
        std::thread::sleep(Duration::from_millis(1));
    }
    worker.work();
    worker.end();
    let ours = counters.read().figure(event).unwrap().count;
    let output = perf.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    let theirs = told.lines().find_map(|line| line.split(';').next()?.parse::<u64>().ok());
    match theirs {
        Some(theirs) => Some((theirs, ours)),
        None => {
            skip(Need::PerfTool, format!("perf counts no {perf_event}: {told}"));
            None
        }
    }
}

fn assert_close(theirs: u64, ours: u64) {
    let apart = (ours as f64 / theirs as f64 - 1.0).abs();
    eprintln!("perf stat: {theirs}, ours: {ours}, {:.3} % apart", apart * 100.0);
    assert!(apart <= 0.02, "perf stat: {theirs}, ours: {ours}");
}

#[test]
fn instructions_are_those_of_perf() {
    let mut plan = match Plan::of_machine() {
        Ok(plan) => plan,
        Err(why) => return skip(Need::Perf, why),
    };
    // Cycles and instructions only, so that there are counters left for perf.
    plan.groups.truncate(1);
    plan.groups[0].events.truncate(2);
    let spin = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";
    let Some((theirs, ours)) = beside_perf(&plan, Event::Instructions, "instructions:u", spin) else { return };
    assert_close(theirs, ours);
}

/// The same without processor counters: faults of a tree of processes, in user mode as everywhere here.
#[test]
fn page_faults_of_a_tree_are_those_of_perf() {
    let Some(plan) = kernel_plan() else { return };
    let Some((theirs, ours)) = beside_perf(&plan, Event::PageFaults, "page-faults:u", FORKS) else { return };
    assert_close(theirs, ours);
}

#[test]
fn counts_that_cannot_be_right_are_taken_out() {
    let Some(mut plan) = kernel_plan() else { return };
    plan.groups[0].events[0].key = "ex_ret_ops";
    plan.groups[0].events[0].counts_always = true;
    let clean = |groups: &[reading::tests::MadeGroup<'_>]| {
        let mut set = reading::tests::reading_of(groups).sets.remove(0);
        let mut notes = BTreeSet::new();
        sanity::clean(&mut set, &plan, &mut notes);
        let left: Vec<String> = set.groups.iter().flat_map(|group| group.counts.keys().cloned()).collect();
        (left.join(" "), notes.into_iter().collect::<Vec<_>>().join("; "))
    };
    let (left, notes) = clean(&[(100, 100, &[("cycles", 9), ("l1d_misses", 2_000_000), ("llc_misses", 1)])]);
    assert_eq!((left.as_str(), notes.as_str()), ("cycles l1d_misses llc_misses", ""));
    let (left, notes) = clean(&[(100, 100, &[("cycles", 9), ("l1d_misses", 2_000_000), ("llc_misses", 0)])]);
    assert!(left == "cycles l1d_misses" && notes.contains("about 2000000"), "{left}: {notes}");
    let (left, notes) = clean(&[(100, 100, &[("cycles", 0), ("branches", 0)]), (100, 100, &[("cycles", 5)])]);
    assert!(left == "cycles" && notes.contains("stand still"), "{left}: {notes}");
    let (left, notes) = clean(&[(100, 100, &[("cycles", 9), ("ex_ret_ops", 0)])]);
    assert!(left == "cycles" && notes.contains("ex_ret_ops stood at 0"), "{left}: {notes}");
    let (_, notes) = clean(&[(100, 0, &[("cycles", 0)])]);
    assert!(notes.contains("another profiler"), "{notes}");
    let (_, notes) = clean(&[(100, 86, &[("cycles", 5)])]);
    assert!(notes.contains("86 %"), "{notes}");
    let (left, notes) = clean(&[(0, 0, &[("cycles", 0), ("ex_ret_ops", 0)])]);
    assert_eq!((left.as_str(), notes.as_str()), ("cycles ex_ret_ops", ""), "threads that did not run");
}

/// Reads of memory are a sum: a prefetcher may have fetched nothing, but something must have.
#[test]
fn one_of_several_kinds_of_reads_may_be_none() {
    let Some(mut plan) = kernel_plan() else { return };
    plan.family = Some(Family::Zen4);
    let left = |fills: u64, prefetches: u64| {
        let counts = [
            ("cycles", 9),
            ("l1d_misses", 2_000_000),
            ("ls_any_fills_from_sys.dram_io_all", fills),
            ("l2_pf_miss_l2_l3.l2_hwpf", prefetches),
        ];
        let mut reading = reading::tests::reading_of(&[(100, 100, &counts)]);
        sanity::clean(&mut reading.sets[0], &plan, &mut BTreeSet::new());
        reading.family = plan.family;
        reading.memory_read().ok().map(|read| read.bytes)
    };
    assert_eq!(left(70, 30), Some(6400));
    assert_eq!(left(70, 0), Some(4480));
    assert_eq!(left(0, 0), None);
}
