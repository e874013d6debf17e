//! Fake trees, and real ones.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use plimsoll_testing::{Need, skip};

use super::*;
use crate::host::fake::FakeHost;

/// A process that is all zeros but for what a test is about.
#[derive(Clone, Copy, Default)]
struct Made {
    parent: i32,
    cpu: u64,
    children: u64,
    began: u64,
}

impl Made {
    fn stat(self) -> String {
        let Made { parent, cpu, children, began } = self;
        let zeros = "0 ".repeat(21);
        format!("9 (x) S {parent} 1 1 0 -1 0 0 0 0 0 {cpu} 0 {children} 0 20 0 1 0 {began} {zeros}\n")
    }

    /// Writes the process with one thread that has run for `run_ms` and waited for `wait_ms` milliseconds.
    fn write(self, fake: &FakeHost, id: i32, run_ms: u64, wait_ms: u64) {
        fake.write(&format!("/proc/{id}/stat"), &self.stat());
        self.write_thread(fake, (id, id), run_ms, wait_ms);
    }

    fn write_thread(self, fake: &FakeHost, (id, thread): (i32, i32), run_ms: u64, wait_ms: u64) {
        let folder = format!("/proc/{id}/task/{thread}");
        fake.write(&format!("{folder}/stat"), &self.stat());
        fake.write(&format!("{folder}/schedstat"), &format!("{}000000 {}000000 1\n", run_ms, wait_ms));
    }
}

fn remove(fake: &FakeHost, path: &str) {
    std::fs::remove_dir_all(fake.host().path(path)).unwrap();
}

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// A host whose clock shows ten seconds.
fn host() -> FakeHost {
    FakeHost::new(&[("/proc/uptime", "10.00 5.00\n")])
}

#[test]
fn a_tree_is_a_process_and_its_descendants() {
    let fake = host();
    let child_of = |parent| Made { parent, began: 5, ..Made::default() };
    child_of(1).write(&fake, 10, 1, 0);
    child_of(10).write(&fake, 11, 1, 0);
    child_of(11).write(&fake, 12, 1, 0);
    child_of(1).write(&fake, 13, 1, 0);
    let tree = TreeSample::read(&fake.host(), &[10]).unwrap();
    assert_eq!(tree.processes(), [10, 11, 12]);
    assert!(TreeSample::read(&fake.host(), &[99]).is_none());

    // The one in the middle ends, its child is adopted, and its id is given to an unrelated process.
    child_of(1).write(&fake, 12, 1, 0);
    Made { parent: 1, began: 2000, ..Made::default() }.write(&fake, 11, 1, 0);
    assert_eq!(tree.again().processes(), [10, 12]);
    remove(&fake, "/proc/10");
    remove(&fake, "/proc/12");
    let none = tree.again();
    assert_eq!((none.processes().len(), none.since(&tree).run), (0, Duration::ZERO));
}

#[test]
fn threads_that_stay_come_and_go() {
    let fake = host();
    let process = Made { parent: 1, began: 5, ..Made::default() };
    Made { cpu: 30, ..process }.write(&fake, 10, 100, 5);
    process.write_thread(&fake, (10, 11), 200, 0);
    let earlier = TreeSample::read(&fake.host(), &[10]).unwrap();

    fake.write("/proc/uptime", "11.00 5.00\n");
    // The first thread ran 300 ms more, the second ended after 150 ms more, a third came 400 ms ago and ran 100 ms.
    Made { cpu: 30 + 55, ..process }.write(&fake, 10, 400, 25);
    remove(&fake, "/proc/10/task/11");
    Made { began: 1060, ..process }.write_thread(&fake, (10, 12), 100, 50);
    let usage = earlier.again().since(&earlier);
    assert_eq!((usage.run, usage.run_ended), (ms(400), ms(150)));
}

#[test]
fn rounding_is_no_ended_thread() {
    let fake = host();
    let process = Made { parent: 1, began: 5, ..Made::default() };
    Made { cpu: 10, ..process }.write(&fake, 10, 109, 0);
    let earlier = TreeSample::read(&fake.host(), &[10]).unwrap();
    Made { cpu: 22, ..process }.write(&fake, 10, 221, 0);
    let usage = earlier.again().since(&earlier);
    assert_eq!((usage.run, usage.run_ended), (ms(112), Duration::ZERO));
}

#[test]
fn processes_that_ended_are_in_the_totals_of_their_ancestors() {
    let fake = host();
    let process = |parent, cpu, children| Made { parent, cpu, children, began: 5 };
    process(1, 100, 40).write(&fake, 10, 1000, 0);
    process(10, 20, 10).write(&fake, 11, 200, 0);
    process(11, 5, 0).write(&fake, 12, 50, 0);
    let earlier = TreeSample::read(&fake.host(), &[10]).unwrap();
    // Both ended: the inner one after 3 ticks more, the outer one after 7, and one more that was never seen used 50.
    remove(&fake, "/proc/11");
    remove(&fake, "/proc/12");
    let told = (20 + 7) + (10 + 5 + 3) + 50;
    process(1, 100, 40 + told).write(&fake, 10, 1000, 0);
    let usage = earlier.again().since(&earlier);
    assert_eq!((usage.run, usage.run_ended), (Duration::ZERO, ms(10 * (7 + 3 + 50))));

    // No process waited for them: their last CPU time is lost, and no figure becomes negative.
    process(1, 100, 40).write(&fake, 10, 1000, 0);
    assert_eq!(earlier.again().since(&earlier).run_ended, Duration::ZERO);
}

#[test]
fn a_process_that_began_long_ago_brings_no_time_into_the_tree() {
    let fake = host();
    Made { parent: 1, began: 5, ..Made::default() }.write(&fake, 10, 1, 0);
    let earlier = TreeSample::read(&fake.host(), &[10]).unwrap();
    Made { parent: 10, began: 7, cpu: 500, children: 100 }.write(&fake, 11, 5000, 9);
    let usage = earlier.again().since(&earlier);
    assert_eq!((usage.run, usage.run_ended), (Duration::ZERO, Duration::ZERO));
    assert!(usage.notes.iter().any(|note| note.contains("adopted")), "{:?}", usage.notes);
    let newcomer = Made { parent: 10, began: 1000, cpu: 50, children: 10 };
    newcomer.write(&fake, 11, 500, 9);
    let usage = earlier.again().since(&earlier);
    assert_eq!((usage.run, usage.run_ended), (ms(500), ms(100)));
}

#[test]
fn a_kernel_without_schedstat_still_tells_cpu() {
    let fake = host();
    let process = Made { parent: 1, began: 5, ..Made::default() };
    process.write(&fake, 10, 0, 0);
    let earlier = TreeSample::read(&fake.host(), &[10]).unwrap();
    Made { cpu: 50, ..process }.write(&fake, 10, 0, 0);
    let usage = earlier.again().since(&earlier);
    assert_eq!((usage.run, usage.run_ended), (ms(500), ms(0)));
}

/// A shell that executes one line at a time, and reports when it has.
struct Shell(Child);

impl Shell {
    fn start() -> Shell {
        let mut command = Command::new("sh");
        Shell(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("every system has sh"))
    }

    fn id(&self) -> i32 {
        self.0.id() as i32
    }

    /// Has a script run, and waits until it says `done`.
    fn run(&mut self, script: &str) {
        let stdin = self.0.stdin.as_mut().expect("it is piped");
        writeln!(stdin, "{script}; echo done").expect("it reads");
        let mut line = String::new();
        while line.trim() != "done" {
            line.clear();
            let mut byte = BufReader::with_capacity(1, self.0.stdout.as_mut().expect("it is piped"));
            assert!(byte.read_line(&mut line).expect("it writes") > 0, "the shell has ended");
        }
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        self.0.stdin = None;
        self.0.wait().ok();
    }
}

/// A loop that uses a core for some tens of milliseconds.
const BURN: &str = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";

#[test]
fn a_real_tree_that_burns_and_one_that_sleeps() {
    let mut burning = Shell::start();
    let sleeping = Shell::start();
    let host = Host::real();
    let began = Instant::now();
    let burning_before = TreeSample::read(&host, &[burning.id()]).unwrap();
    let sleeping_before = TreeSample::read(&host, &[sleeping.id()]).unwrap();
    burning.run(BURN);
    let burning_after = burning_before.again();
    if !burning_after.keeps_times() {
        return skip(Need::Accounting, "this kernel keeps no times of threads");
    }
    let busy = burning_after.since(&burning_before);
    let idle = sleeping_before.again().since(&sleeping_before);
    assert!(busy.run > ms(5) && busy.run <= began.elapsed(), "{busy:?}");
    assert!(idle.run < busy.run, "{idle:?} {busy:?}");
}

#[test]
fn a_real_child_that_ends_while_watched_is_in_its_parents_total() {
    let mut shell = Shell::start();
    let before = TreeSample::read(&Host::real(), &[shell.id()]).unwrap();
    let began = Instant::now();
    // In parentheses it is a process of its own, for which the shell waits.
    shell.run(&format!("({BURN}; exit 1)"));
    let after = before.again();
    let usage = after.since(&before);
    assert_eq!(after.processes(), [shell.id()]);
    assert!(usage.run_ended > ms(5), "{usage:?}");
    assert!(usage.run + usage.run_ended <= began.elapsed() + ms(20), "{usage:?}");
}

#[test]
fn a_real_process_that_ends_leaves_an_empty_tree() {
    let shell = Shell::start();
    let before = TreeSample::read(&Host::real(), &[shell.id()]).unwrap();
    drop(shell);
    let after = before.again();
    let usage = after.since(&before);
    assert_eq!((after.processes(), usage.run), (vec![], Duration::ZERO));
}
