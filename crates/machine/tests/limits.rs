//! Limits on the control groups of the machine that the tests run on, and on real processes.

#![allow(clippy::unwrap_used, reason = "an unwrap in a test is the assertion that there is something")]

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use plimsoll_machine::control::{Amount, CONTROLS, Limits, Subject, Verdict};
use plimsoll_machine::groups::disk::{self, DiskGroup};
use plimsoll_machine::groups::{GroupFolder, idle};
use plimsoll_machine::host::Host;
use plimsoll_machine::limiter::{Limiter, LimiterError, restore_left_over};
use plimsoll_machine::process_identity::ProcessIdentity;
use plimsoll_testing::{Need, PATIENCE, skip, until};

/// Set for a copy of this program that limits itself, says so, and waits to be killed.
const HOLD: &str = "PLIMSOLL_TEST_HOLD";

/// A process that ends with the test.
struct Subprocess(Child);

impl Subprocess {
    fn start(program: &str, arguments: &[&str]) -> Subprocess {
        let quiet = |command: &mut Command| command.stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        Subprocess(quiet(Command::new(program).args(arguments).stdin(Stdio::piped())))
    }

    fn id(&self) -> i32 {
        self.0.id() as i32
    }

    fn groups(&self) -> String {
        std::fs::read_to_string(format!("/proc/{}/cgroup", self.id())).unwrap()
    }

    fn subject(&self, folder: &Path) -> Subject {
        Subject { processes: vec![self.id()], data_folder: Some(folder.to_owned()) }
    }
}

impl Drop for Subprocess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Whether a control works here by control groups. If not, that is noted as a skip.
fn works(key: &str) -> bool {
    let control = CONTROLS.iter().find(|control| control.key() == key).unwrap();
    let probe = control.probe(&Host::real());
    let works = probe.available && probe.reason.contains("control groups");
    if !works {
        let need = if key.ends_with("_mb_s") { Need::Disk } else { Need::Cgroups };
        skip(need, format!("{key}: {}", probe.reason));
    }
    works
}

/// A folder on a disk; `None` if the build folder is on none that can be limited.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn limits(pairs: &[(&str, f64)]) -> Limits {
    pairs.iter().map(|(key, amount)| ((*key).to_owned(), Amount::Number(*amount))).collect()
}

/// The groups below /sys/fs/cgroup that a process with this number made.
fn groups_of(process: u32) -> BTreeSet<PathBuf> {
    fn walk(folder: &Path, prefix: &str, found: &mut BTreeSet<PathBuf>) {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                if entry.file_name().to_string_lossy().starts_with(prefix) {
                    found.insert(entry.path());
                }
                walk(&entry.path(), prefix, found);
            }
        }
    }
    let mut found = BTreeSet::new();
    walk(Path::new("/sys/fs/cgroup"), &format!("plimsoll-{process}-"), &mut found);
    found
}

/// Those that were made for one subject by this process.
fn groups_for(subject: i32) -> BTreeSet<PathBuf> {
    let name = format!("plimsoll-{}-{subject}", std::process::id());
    groups_of(std::process::id()).into_iter().filter(|path| path.ends_with(&name)).collect()
}

/// How often the kernel has stopped the group of this subject because its CPU time was used up.
fn times_stopped(subject: i32) -> u64 {
    let groups = groups_for(subject);
    let stopped = |group: &PathBuf| {
        let text = std::fs::read_to_string(group.join("cpu.stat")).ok()?;
        text.lines().find_map(|line| line.strip_prefix("nr_throttled ")?.parse::<u64>().ok())
    };
    groups.iter().find_map(stopped).expect("one of the groups has the controller of CPU time")
}

fn number(verdict: &Verdict) -> f64 {
    match verdict.achieved {
        Some(Amount::Number(number)) => number,
        _ => panic!("no figure: {verdict:?}"),
    }
}

#[test]
fn limits_bite_and_everything_is_put_back() {
    if !["cores", "cpu_quota", "cpu_weight"].iter().all(|key| works(key)) {
        return;
    }
    let state = tempfile::tempdir().unwrap();
    let busy = Subprocess::start("sh", &["-c", "while :; do :; done"]);
    let before = busy.groups();
    let mut limiter = Limiter::begin(Host::real(), busy.subject(Path::new("/")), state.path()).unwrap();
    assert!(limiter.left_over().undone.is_empty());
    // Little enough to be used up by a process that gets but a small part of a busy core.
    limiter.set(&limits(&[("cores", 1.0), ("cpu_quota", 0.05), ("cpu_weight", 50.0)])).unwrap();
    assert_ne!(busy.groups(), before);
    let (window, stopped) = (limiter.observe(), times_stopped(busy.id()));
    until("the quota stops the process", || times_stopped(busy.id()) > stopped + 2);
    let verdicts = limiter.verify(&window);
    assert_eq!(verdicts["cores"], Verdict { achieved: Some(Amount::Number(1.0)), why_not: None });
    assert_eq!(verdicts["cpu_weight"].why_not, None);
    assert_eq!(verdicts["cpu_quota"].why_not, None, "{verdicts:?}");
    // Three times stopped is three times used up: 5 ms each, within at least two periods of 100 ms.
    let cores = number(&verdicts["cpu_quota"]);
    assert!(cores > 0.0 && cores < 0.15, "{verdicts:?}");

    limiter.set(&limits(&[("cpu_quota", 0.5)])).unwrap();
    assert_eq!(limiter.in_force(), limits(&[("cpu_quota", 0.5)]));
    let error = limiter.set(&limits(&[("cpu_quota", 0.1), ("cores", 1e6)])).unwrap_err();
    assert!(error.to_string().starts_with("cores cannot be 1000000: it is at most"), "{error}");
    assert_eq!(limiter.in_force(), limits(&[("cpu_quota", 0.5)]));
    assert_eq!(limiter.verify(&limiter.observe()).len(), 1);

    let restored = limiter.restore().unwrap();
    assert!(!restored.undone.is_empty());
    assert_eq!(busy.groups(), before);
    assert_eq!(groups_for(busy.id()), BTreeSet::new());
    assert_eq!(std::fs::read_dir(state.path()).unwrap().count(), 1, "the lock alone is left");
}

#[test]
fn a_write_limit_bites_on_direct_writes() {
    transfer("write_mb_s", "of", "if=/dev/zero", "oflag=direct,dsync");
}

#[test]
fn a_read_limit_bites_on_direct_reads() {
    transfer("read_mb_s", "if", "of=/dev/null", "iflag=direct");
}

/// Makes `dd` transfer one megabyte at two megabytes per second.
fn transfer(key: &str, side: &str, other_side: &str, flag: &str) {
    if !works(key) {
        return;
    }
    let folder = folder();
    let file = folder.path().join("data");
    std::fs::write(&file, vec![7; 1 << 20]).unwrap();
    let command = format!("dd {side}={} {other_side} bs=64k count=16 {flag} conv=notrunc", file.display());
    if let Some(verdict) = watched(key, folder.path(), &command, || ()) {
        assert!(number(&verdict) <= 2.0 * 1.05 + 0.3, "{verdict:?}");
    }
}

#[test]
fn what_the_page_cache_writes_past_a_limit_is_seen() {
    let probe = CONTROLS.iter().find(|control| control.key() == "write_mb_s").unwrap().probe(&Host::real());
    if !probe.reason.contains("version 1") {
        return skip(Need::CgroupsV1, format!("only version 1 lets it past: {}", probe.reason));
    }
    let folder = folder();
    let command = format!("dd if=/dev/zero of={} bs=64k count=256", folder.path().join("data").display());
    // Another process writes back the dirty pages.
    let write_back = || assert!(Command::new("sync").arg("-f").arg(folder.path()).status().unwrap().success());
    if let Some(verdict) = watched("write_mb_s", folder.path(), &command, write_back) {
        let told = verdict.why_not.unwrap_or_default();
        assert!(told.ends_with("went past the limit as write-back of the page cache"), "{told}");
    }
}

/// Limits a shell to 2 units per second, lets it run a command, runs `after`, and returns the verdict. `None` where
/// this is not possible.
fn watched(key: &str, folder: &Path, command: &str, after: impl FnOnce()) -> Option<Verdict> {
    let state = tempfile::tempdir().unwrap();
    let done = folder.join("done");
    // The process keeps running, as a database does, and has no child when the window begins. When a process ends, its
    // count of written bytes is lost, and then all writes to the disk may be the group's.
    let script = format!("read go; {command}; echo $? > {}; exec sleep 1000", done.display());
    let mut subprocess = Subprocess::start("sh", &["-c", &script]);
    let mut limiter = Limiter::begin(Host::real(), subprocess.subject(folder), state.path()).unwrap();
    if let Err(error) = limiter.set(&limits(&[(key, 2.0)])) {
        assert!(error.to_string().contains("without a disk of its own"), "{error}");
        skip(Need::Disk, error);
        return None;
    }
    let window = limiter.observe();
    subprocess.0.stdin.take().unwrap().write_all(b"go\n").unwrap();
    let mut status = String::new();
    until("the command ends", || {
        status = std::fs::read_to_string(&done).unwrap_or_default();
        status.ends_with('\n')
    });
    after();
    if status.trim() != "0" {
        skip(Need::Disk, "this file system takes no such requests");
        return None;
    }
    limiter.verify(&window).remove(key)
}

#[test]
fn a_memory_limit_is_in_force_and_tells_what_was_there_before() {
    if !works("memory_mib") {
        return;
    }
    let (state, folder) = (tempfile::tempdir().unwrap(), folder());
    let subprocess = Subprocess::start("sleep", &["1000"]);
    let mut limiter = Limiter::begin(Host::real(), subprocess.subject(folder.path()), state.path()).unwrap();
    limiter.set(&limits(&[("memory_mib", 64.0)])).unwrap();
    let verdict = limiter.verify(&limiter.observe()).remove("memory_mib").unwrap();
    assert_eq!(verdict.why_not, None, "{verdict:?}");
    assert!(number(&verdict) < 64.0);
    drop(limiter);
    assert_eq!(groups_for(subprocess.id()), BTreeSet::new());
}

#[test]
fn a_second_one_is_refused_and_told_by_whom() {
    let state = tempfile::tempdir().unwrap();
    let subject = Subject { processes: vec![std::process::id() as i32], data_folder: None };
    let first = Limiter::begin(Host::real(), subject.clone(), state.path()).unwrap();
    let own = std::process::id() as i32;
    let refused = Limiter::begin(Host::real(), subject.clone(), state.path());
    assert!(matches!(refused, Err(LimiterError::InUse(Some(process))) if process == own));
    assert!(matches!(restore_left_over(&Host::real(), state.path()), Err(LimiterError::InUse(_))));
    drop(first);
    Limiter::begin(Host::real(), subject, state.path()).unwrap();
}

/// Not a test by itself: the program that [`what_a_killed_one_left_is_put_back`] kills.
#[test]
fn hold_limits_until_killed() {
    let Some(state) = std::env::var_os(HOLD) else { return };
    let subject = Subject { processes: vec![std::process::id() as i32], data_folder: None };
    let mut limiter = Limiter::begin(Host::real(), subject, Path::new(&state)).unwrap();
    let mut wanted = limits(&[("nice", 3.0)]);
    for (key, amount) in [("cores", 1.0), ("cpu_quota", 0.5), ("memory_mib", 2048.0)] {
        if works(key) {
            wanted.insert(key.to_owned(), Amount::Number(amount));
        }
    }
    if !CONTROLS.iter().any(|control| control.key() == "nice" && control.probe(&Host::real()).available) {
        wanted.remove("nice");
    }
    limiter.set(&wanted).unwrap();
    // A child that lives on, within the groups.
    let mut child = Command::new("sleep").arg("1000").stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    println!("\nholding {}", child.id());
    child.wait().unwrap();
}

#[test]
fn what_a_killed_one_left_is_put_back() {
    let state = tempfile::tempdir().unwrap();
    let mut holder = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "hold_limits_until_killed", "--nocapture"])
        .env(HOLD, state.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let process = holder.id();
    let (tell, told) = mpsc::channel();
    let mut lines = BufReader::new(holder.stdout.take().unwrap()).lines().map_while(Result::ok);
    std::thread::spawn(move || tell.send(lines.find_map(|line| line.strip_prefix("holding ")?.parse::<i32>().ok())));
    let child = told.recv_timeout(PATIENCE).expect("the program does not hang").expect("the program holds limits");
    let groups = |process: i32| std::fs::read_to_string(format!("/proc/{process}/cgroup")).unwrap();
    let limited = groups_of(process);
    if works("cores") {
        assert!(!limited.is_empty() && groups(child).contains("plimsoll"), "it has limited nothing: {limited:?}");
    }
    let busy = restore_left_over(&Host::real(), state.path()).unwrap_err();
    assert!(matches!(busy, LimiterError::InUse(Some(other)) if other == process as i32), "{busy}");
    holder.kill().unwrap();
    holder.wait().unwrap();
    assert_eq!(groups_of(process), limited, "a kill leaves everything as it was");
    let restored = restore_left_over(&Host::real(), state.path()).unwrap();
    assert_eq!(restored.failed, Vec::<String>::new());
    assert_eq!(groups_of(process), BTreeSet::new());
    assert!(!groups(child).contains("plimsoll"));
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap();
    assert_eq!(groups(child), own, "the child is where the program came from");
    assert_eq!(restore_left_over(&Host::real(), state.path()).unwrap().undone, Vec::<String>::new());
    let _ = Command::new("sh").args(["-c", &format!("kill -9 {child}")]).status();
}

/// As a governor does it: the group lies below the server's own, and only processes moved to it are limited.
#[test]
fn a_disk_group_holds_back_who_is_moved_to_it_and_nobody_else() {
    if !works("read_mb_s") {
        return;
    }
    const SIZE: usize = 8 << 20;
    let (host, folder, state) = (Host::real(), folder(), tempfile::tempdir().unwrap());
    let file = folder.path().join("data");
    std::fs::write(&file, vec![7; SIZE]).unwrap();
    std::fs::File::open(&file).unwrap().sync_all().unwrap();
    // Stands for a server: it works in the folder of its data.
    let mut server = Command::new("sleep");
    let server = Subprocess(server.arg("1000").current_dir(folder.path()).stdin(Stdio::null()).spawn().unwrap());
    let identity = ProcessIdentity::of(&host, server.id()).unwrap();
    if let Err(why) = disk::probe(&host, identity.id) {
        return skip(Need::Disk, why);
    }
    // Begins to read on a signal.
    let reader = || {
        let script = format!("read go; exec dd if={} of=/dev/null bs=1M iflag=direct", file.display());
        Subprocess::start("sh", &["-c", &script])
    };
    let read = |mut reader: Subprocess| {
        let began = Instant::now();
        reader.0.stdin.take().unwrap().write_all(b"go\n").unwrap();
        assert!(reader.0.wait().unwrap().success());
        began.elapsed()
    };
    let mut group = DiskGroup::make(&host, state.path(), identity, 4_000_000).unwrap();
    let (held, free) = (reader(), reader());
    let process = ProcessIdentity::of(&host, held.id()).unwrap();
    let destination = GroupFolder::at(&host, group.group().folder()).unwrap();
    let home = destination.beside(&host, process).unwrap();
    destination.take(&host, process).unwrap();
    assert!(!group.group().is_empty());
    let (held, free) = (read(held), read(free));
    assert!(held > Duration::from_millis(1500), "8 MiB at 4 MB/s take two seconds, not {held:?}");
    assert!(free < held / 2, "{free:?}, beside {held:?}");
    until("the group is empty", || group.group().is_empty());
    // Remaining processes are sent back when the group is removed.
    let waiting = reader();
    let process = ProcessIdentity::of(&host, waiting.id()).unwrap();
    destination.take(&host, process).unwrap();
    let path = group.group().folder().to_owned();
    group.remove().unwrap();
    assert!(!path.exists());
    let server_group = GroupFolder::at(&host, home.folder()).unwrap();
    assert_eq!(server_group.beside(&host, process), server_group.beside(&host, identity));
}

/// `SCHED_IDLE` and nice values do not count between the scheduler's groups; that a group is idle does. Both want core 0.
#[test]
fn an_idle_group_leaves_its_core_to_everybody_else() {
    let (host, state) = (Host::real(), tempfile::tempdir().unwrap());
    // Stands for a server.
    let server = Subprocess::start("sleep", &["1000"]);
    let identity = ProcessIdentity::of(&host, server.id()).unwrap();
    if let Err(why) = idle::probe(&host, identity.id) {
        return skip(Need::Cgroups, why);
    }
    let burner = || Subprocess::start("setsid", &["taskset", "-c", "0", "sh", "-c", "read go; while :; do :; done"]);
    let (mut held, mut free) = (burner(), burner());
    let group = idle::make(&host, state.path(), identity).unwrap();
    let process = ProcessIdentity::of(&host, held.id()).unwrap();
    let destination = GroupFolder::at(&host, group.folder()).unwrap();
    let home = destination.beside(&host, process).unwrap();
    destination.take(&host, process).unwrap();
    for burner in [&mut held, &mut free] {
        burner.0.stdin.take().unwrap().write_all(b"go\n").unwrap();
    }
    let used = |burner: &Subprocess| {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", burner.id())).unwrap();
        stat.rsplit_once(')').unwrap().1.split_whitespace().nth(11).unwrap().parse::<u64>().unwrap()
    };
    let before = used(&held);
    let began = used(&free);
    until("half a second of the core", || used(&free) > began + 50);
    let held_used = used(&held) - before;
    assert!(held_used < 15, "it had {held_used} hundredths of a second beside 50 of another");
    let path = group.folder().to_owned();
    drop(group);
    assert!(!path.exists());
    assert_eq!(home.beside(&host, process), home.beside(&host, identity), "it is sent home");
}
