//! Measures how nice values, scheduling policies and control groups help processes that wake often while others compute
//! continuously. It uses the governor's means: [`ProcessShare`], an [`idle`] group, and the control `autogroups`.
//!
//! Two processes represent important server processes and wake every 2 ms to compute for 0.3 ms; ten represent reports.
//! Each is a process session of its own, as PostgreSQL's processes are. Times run from when a process should have woken
//! to the end of its work. The bench needs root, two otherwise unused cores, and control groups with `cpu.idle`. It
//! skips a scene that it cannot set up, and prints the reason.
//!
//! `cargo bench -p plimsoll-machine --bench groups -- --rounds 7 --seconds 3`
#![allow(clippy::unwrap_used, reason = "a bench fails by panicking")]

use std::fs;
use std::hint::black_box;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use plimsoll_machine::MachineFacts;
use plimsoll_machine::control::{Amount, Limits, Subject};
use plimsoll_machine::cpu_time::process_cpu_time;
use plimsoll_machine::groups::{Cgroups, GroupFolder, OwnGroup, idle};
use plimsoll_machine::host::Host;
use plimsoll_machine::limiter::Limiter;
use plimsoll_machine::process_identity::ProcessIdentity;
use plimsoll_machine::process_share::ProcessFacts;

const IMPORTANT: usize = 2;
const REPORTS: usize = 10;

/// How often an important process wakes, and for how long it computes then.
const EVERY: Duration = Duration::from_millis(2);
const WORK: Duration = Duration::from_micros(300);

/// A wake that takes longer is late.
const LATE_MS: f64 = 1.0;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GroupPlace {
    Absent,
    /// The group in which they began.
    Own,
    /// In a group that is idle, as the governor makes it.
    IdleGroup,
    /// In an idle group below that of all other processes, for scenes without autogroups.
    PlainGroup,
}

/// The scenes compared: a description, whether autogroups are on, and where the ten report processes run.
const SCENES: [(&str, bool, GroupPlace); 5] = [
    ("are not there", true, GroupPlace::Absent),
    ("autogroups on, `SCHED_IDLE`, autogroups of nice 19", true, GroupPlace::Own),
    ("the same, in a control group with `cpu.idle`", true, GroupPlace::IdleGroup),
    ("autogroups off (all in one group), `SCHED_IDLE`", false, GroupPlace::Own),
    ("the same, in a control group with `cpu.idle` below that", false, GroupPlace::PlainGroup),
];

struct Measured {
    p99_ms: f64,
    late: f64,
    reports_cores: f64,
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1)?.parse::<u64>().ok()
    };
    for (name, role) in [("--wakes", wakes as fn(Duration)), ("--computes", computes)] {
        if let Some(millis) = number(name) {
            return role(Duration::from_millis(millis));
        }
    }
    let (rounds, seconds) = (number("--rounds").unwrap_or(7), number("--seconds").unwrap_or(3));
    let state = tempfile::tempdir().unwrap();
    let mut measured: Vec<Result<Vec<Measured>, String>> = SCENES.iter().map(|_| Ok(Vec::new())).collect();
    for round in 0..rounds as usize {
        for place in 0..SCENES.len() {
            let at = (place + round) % SCENES.len();
            let (name, autogroups, place) = SCENES[at];
            eprintln!("round {} of {rounds}: {name}", round + 1);
            let seen = measure(autogroups, place, Duration::from_secs(seconds), state.path());
            match (&mut measured[at], seen) {
                (Ok(of_scene), Ok(seen)) => of_scene.push(seen),
                (of_scene, Err(why)) => *of_scene = Err(why),
                (Err(_), _) => {}
            }
        }
    }
    let facts = MachineFacts::read();
    println!(
        "{}, {} cores, kernel {}; {rounds} rounds of {seconds} s, medians",
        facts.cpu_model, facts.cores_usable, facts.kernel
    );
    println!("{:58}{:>10}{:>18}{:>20}", "the ten", "p99, ms", "later than 1 ms", "cores for the ten");
    for ((name, ..), rounds) in SCENES.iter().zip(&measured) {
        match rounds {
            Err(why) => println!("{name:58}not measured: {why}"),
            Ok(rounds) => {
                let of = |figure: fn(&Measured) -> f64| median(rounds.iter().map(figure).collect());
                let (p99, late, cores) = (of(|m| m.p99_ms), of(|m| m.late), of(|m| m.reports_cores));
                println!("{name:58}{p99:>10.2}{:>17.2}%{cores:>20.2}", late * 100.0);
            }
        }
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// One round of one scene, or the reason why it cannot run.
fn measure(autogroups: bool, place: GroupPlace, window: Duration, state: &Path) -> Result<Measured, String> {
    let host = Host::real();
    let word = if autogroups { "on" } else { "off" };
    let subject = Subject::default();
    let mut limiter =
        Limiter::begin(host.clone(), subject, &state.join("limits")).map_err(|error| error.to_string())?;
    let limits = Limits::from([("autogroups".to_owned(), Amount::Text(word.to_owned()))]);
    limiter.set(&limits).map_err(|error| error.to_string())?;
    let mut important: Vec<Process> = (0..IMPORTANT).map(|_| Process::start("--wakes", window)).collect();
    let count = if place == GroupPlace::Absent { 0 } else { REPORTS };
    let mut reports: Vec<Process> = (0..count).map(|_| Process::start("--computes", window)).collect();
    // Removed below, after its last process has ended.
    let (own, plain) = match place {
        GroupPlace::IdleGroup => {
            let made = idle::make(&host, &state.join("group"), ProcessIdentity::own());
            (Some(made.map_err(|error| error.to_string())?), None)
        }
        GroupPlace::PlainGroup => (None, Some(PlainGroup::make(&host)?)),
        GroupPlace::Absent | GroupPlace::Own => (None, None),
    };
    let folder = own.as_ref().map(OwnGroup::folder).or_else(|| Some(&*plain.as_ref()?.0));
    let folder = folder.and_then(|folder| GroupFolder::at(&host, folder).ok());
    for report in &reports {
        let process = report.0.id().cast_signed();
        let facts = ProcessFacts::of(&host, process).ok_or("a process has ended at once")?;
        facts.share.idle().give(&host, facts.identity).map_err(|error| error.to_string())?;
        if let Some(folder) = &folder {
            folder.take(&host, facts.identity).map_err(|error| error.to_string())?;
        }
    }
    important.iter_mut().chain(&mut reports).for_each(Process::go);
    let mut times: Vec<f64> = important.into_iter().flat_map(Process::figures).collect();
    let used: f64 = reports.into_iter().flat_map(Process::figures).sum();
    drop((own, plain));
    limiter.restore().map_err(|error| error.to_string())?;
    times.sort_by(f64::total_cmp);
    let late = times.iter().filter(|time| **time > LATE_MS).count();
    Ok(Measured {
        p99_ms: times[times.len() * 99 / 100],
        late: late as f64 / times.len() as f64,
        reports_cores: used / window.as_secs_f64(),
    })
}

/// This program in a child process, which waits for the signal to start.
struct Process(Child);

impl Process {
    fn start(role: &str, window: Duration) -> Process {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([role, &window.as_millis().to_string()]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // The byte reports that the child has a session of its own.
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        Process(child)
    }

    fn go(&mut self) {
        self.0.stdin.take().unwrap().write_all(b"\n").unwrap();
    }

    /// Waits for the process to end and returns its measurements.
    fn figures(mut self) -> Vec<f64> {
        let lines = BufReader::new(self.0.stdout.take().unwrap()).lines();
        lines.map(|line| line.unwrap().parse().unwrap()).collect()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a session of its own, reports that, and waits.
fn wait_to_go() {
    rustix::process::setsid().unwrap();
    std::io::stdout().write_all(b".").unwrap();
    std::io::stdout().flush().unwrap();
    std::io::stdin().read_exact(&mut [0]).unwrap();
}

/// Computes for the whole window and prints its CPU time in seconds.
fn computes(window: Duration) {
    wait_to_go();
    let (began, before) = (Instant::now(), process_cpu_time());
    while began.elapsed() < window {
        for turn in 0..20_000_u32 {
            black_box(turn);
        }
    }
    println!("{}", (process_cpu_time() - before).as_secs_f64());
}

/// Wakes and computes; prints how long each wake took from when it was due, in milliseconds.
fn wakes(window: Duration) {
    wait_to_go();
    let (mut due, ends, mut times) = (Instant::now(), Instant::now() + window, Vec::new());
    while due < ends {
        due += EVERY;
        // A process that is far behind skips the wakes it missed.
        due = due.max(Instant::now());
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let before = process_cpu_time();
        while process_cpu_time() - before < WORK {}
        times.push(due.elapsed().as_secs_f64() * 1e3);
    }
    let lines: String = times.iter().map(|time| format!("{time:.4}\n")).collect();
    std::io::stdout().write_all(lines.as_bytes()).unwrap();
}

/// An idle CPU control group below our own; it is removed when empty.
struct PlainGroup(PathBuf);

impl PlainGroup {
    fn make(host: &Host) -> Result<PlainGroup, String> {
        let own = Cgroups::read(host);
        let parent =
            own.version_1_folder("cpu").or_else(|| own.version_2_folder()).ok_or("there are no control groups")?;
        let folder = parent.join(format!("plimsoll-bench-{}", std::process::id()));
        fs::create_dir(&folder).map_err(|error| format!("no group {}: {error}", folder.display()))?;
        let group = PlainGroup(folder);
        let idle = group.0.join("cpu.idle");
        fs::write(&idle, "1").map_err(|error| format!("{} cannot be written: {error}", idle.display()))?;
        Ok(group)
    }
}

impl Drop for PlainGroup {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir(&self.0) {
            eprintln!("{} is left; remove it with rmdir: {error}", self.0.display());
        }
    }
}
