//! Each control on fake machines: the settings that it makes, the amounts that it refuses, and its verdicts.

use super::fake::{Groups, Machine};
use super::*;

#[derive(Default)]
struct Noted(Vec<Undo>);

impl UndoNotes for Noted {
    fn note(&mut self, undo: Undo) -> Result<(), ControlError> {
        self.0.push(undo);
        Ok(())
    }
}

fn control(key: &str) -> &'static dyn Control {
    *CONTROLS.iter().find(|control| control.key() == key).expect("in the list")
}

fn subject() -> Subject {
    Subject { processes: vec![100], data_folder: Some(PathBuf::from("/data")) }
}

fn apply(machine: &Machine, key: &str, amount: Amount) -> Result<Vec<Undo>, String> {
    let (host, subject, mut undo) = (machine.host(), subject(), Noted::default());
    let result = control(key).apply(&mut ControlContext { host: &host, subject: &subject, undo: &mut undo }, &amount);
    result.map(|()| undo.0).map_err(|error| error.to_string())
}

fn verdict(machine: &Machine, key: &str, amount: Amount, earlier: &Observation) -> Verdict {
    let (host, subject, length) = (machine.host(), subject(), Duration::from_secs(1));
    let window = Window { host: &host, subject: &subject, amount: &amount, earlier, length };
    control(key).verify(&window).unwrap_or_else(Verdict::from)
}

fn why_not(verdict: Verdict) -> String {
    verdict.why_not.unwrap_or_else(|| "it bites".to_owned())
}

/// A file of the group that the subject is in.
fn file(machine: &Machine, mount: &str, name: &str) -> String {
    let groups = std::fs::read_to_string(machine.path("/proc/100/cgroup")).unwrap();
    let is_it = |line: &&str| line.split(':').nth(1) == Some(if mount == "unified" { "" } else { mount });
    let group = groups.lines().find(is_it).unwrap().rsplit(':').next().unwrap();
    format!("/sys/fs/cgroup/{mount}{group}/{name}")
}

#[test]
fn every_control_is_there_once() {
    let keys: std::collections::BTreeSet<&str> = CONTROLS.iter().map(|control| control.key()).collect();
    assert_eq!(keys.len(), CONTROLS.len());
    for control in CONTROLS {
        let nonsense = Amount::Text("nonsense".to_owned());
        assert!(control.check(&Machine::new(Groups::V1).host(), &nonsense).is_err(), "{}", control.key());
    }
}

#[test]
fn the_first_cores_are_one_of_each_physical_core() {
    let machine = Machine::new(Groups::V1);
    let check = |amount: Amount, expect: &str| {
        apply(&machine, "cores", amount.clone()).unwrap();
        let path = machine.path(&file(&machine, "cpuset", "cpuset.cpus"));
        assert_eq!(std::fs::read_to_string(path).unwrap().trim(), expect, "{amount:?}");
    };
    check(Amount::Number(1.0), "0");
    check(Amount::Number(2.0), "0-1");
    check(Amount::Number(3.0), "0-2");
    check(Amount::Number(4.0), "0-3");
    check(Amount::Text("0,2-3".to_owned()), "0,2-3");
    check(Amount::Text("3".to_owned()), "3");
    // Cores outside this process's own group are not usable.
    machine.write("/sys/fs/cgroup/cpuset/db/cpuset.effective_cpus", "1,3\n");
    check(Amount::Number(1.0), "1");
    let error = apply(&machine, "cores", Amount::Number(3.0)).unwrap_err();
    assert_eq!(error, "cores cannot be 3: it is at most 2 cores");
}

/// `taskset -c 1,3` before the program: a run with cores beyond it would have been limited to other cores than it could use.
#[test]
fn cores_beyond_the_affinity_of_this_process_are_refused_before_a_run() {
    let machine = Machine::new(Groups::V1);
    machine.write("/proc/self/status", "Name:\tplimsoll\nCpus_allowed:\ta\nCpus_allowed_list:\t1,3\n");
    let check = |amount: Amount| control("cores").check(&machine.host(), &amount).map_err(|error| error.to_string());
    assert_eq!(check(Amount::Number(2.0)), Ok(()));
    assert_eq!(check(Amount::Text("1,3".to_owned())), Ok(()));
    let why = "this process was started on cores 1,3 only: start it without taskset, or with more cores";
    assert_eq!(check(Amount::Number(3.0)), Err(format!("cores cannot be 3: it is at most 2 cores; {why}")));
    let listed = format!("cores cannot be 0-1: core 0 is not usable; usable are 1,3; {why}");
    assert_eq!(check(Amount::Text("0-1".to_owned())), Err(listed));
    apply(&machine, "cores", Amount::Number(1.0)).unwrap();
    let set = std::fs::read_to_string(machine.path(&file(&machine, "cpuset", "cpuset.cpus"))).unwrap();
    assert_eq!(set.trim(), "1", "of the cores it may use");
}

#[test]
fn without_cpusets_every_thread_is_bound() {
    let machine = Machine::new(Groups::V1);
    machine.write("/proc/self/mountinfo", "");
    let notes = apply(&machine, "cores", Amount::Number(2.0)).unwrap();
    let threads: Vec<(i32, Option<u64>)> = notes
        .iter()
        .map(|undo| match undo {
            Undo::Affinity { thread, since, .. } => (*thread, *since),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(threads, [(101, None), (100, Some(5000))], "the first thread last");
    assert_eq!(why_not(verdict(&machine, "cores", Amount::Number(2.0), &Observation::new())), "it bites");
    // A thread gives itself more cores.
    machine.host().set_affinity(101, &[0, 1, 3]).unwrap();
    let told = why_not(verdict(&machine, "cores", Amount::Number(2.0), &Observation::new()));
    assert_eq!(told, "1 of 2 threads may run on cores 3");
}

#[test]
fn bad_worlds_have_a_reason_and_a_remedy() {
    let check = |groups: Groups, spoil: &dyn Fn(&Machine), reason: &str, remedy: &str| {
        let machine = Machine::new(groups);
        spoil(&machine);
        let before = machine.snapshot();
        let found = control("memory_mib").probe(&machine.host());
        assert!(!found.available);
        assert_eq!(found.reason, reason);
        assert!(found.remedy.as_deref().unwrap_or_default().contains(remedy), "{found:?}");
        let error = apply(&machine, "memory_mib", Amount::Number(64.0)).unwrap_err();
        assert!(error.starts_with(&format!("memory_mib cannot be limited here: {reason}")), "{error}");
        assert_eq!(machine.snapshot(), before);
    };
    let unmounted = |machine: &Machine| machine.write("/proc/self/mountinfo", "");
    check(Groups::V1, &unmounted, "no control group file system is mounted", "mount -t cgroup2");
    let absent = |machine: &Machine| {
        machine.write("/proc/self/mountinfo", "32 1 0:2 / /sys/fs/cgroup/cpu rw - cgroup none rw,cpu\n");
    };
    check(Groups::V1, &absent, "control groups (version 1) have no memory controller here", "a kernel");
    let read_only = |machine: &Machine| {
        let mounts = std::fs::read_to_string(machine.path("/proc/self/mountinfo")).unwrap();
        machine.write("/proc/self/mountinfo", &mounts.replace(" rw - cgroup", " ro - cgroup"));
    };
    check(Groups::V1, &read_only, "control groups are mounted read-only at /sys/fs/cgroup/memory", "container");
    check(Groups::V2, &read_only, "control groups are mounted read-only at /sys/fs/cgroup/unified", "container");
    let internal = |machine: &Machine| machine.write("/sys/fs/cgroup/unified/cgroup.subtree_control", "cpu io\n");
    check(
        Groups::V2,
        &internal,
        "no group at or above /sys/fs/cgroup/unified/db offers the memory controller to new groups",
        "Delegate=yes",
    );
    let limited = |machine: &Machine| machine.write("/sys/fs/cgroup/unified/db/cpu.max", "50000 100000\n");
    check(
        Groups::V2,
        &limited,
        "/sys/fs/cgroup/unified offers the memory controller, but a group there would escape cpu.max of \
         /sys/fs/cgroup/unified/db (50000 100000)",
        "systemd-run --scope",
    );
}

#[test]
fn a_process_that_cannot_be_seen_is_left_alone() {
    let machine = Machine::new(Groups::V1);
    machine.write("/sys/fs/cgroup/memory/db/cgroup.procs", "");
    let error = apply(&machine, "memory_mib", Amount::Number(64.0)).unwrap_err();
    assert!(error.contains("the control group of process 100 cannot be seen from here"), "{error}");
    let machine = Machine::new(Groups::V1);
    machine.write("/proc/100/task/101/cgroup", "1:memory:/\n");
    let error = apply(&machine, "memory_mib", Amount::Number(64.0)).unwrap_err();
    assert!(error.contains("threads of process 100 are in different control groups"), "{error}");
}

/// The kernel shows a new process in the root group before it puts it into its parent's. A server to which a hundred clients
/// connected while a limit was applied ended a measurement that way: "cannot be seen from here".
#[test]
fn a_process_that_is_just_being_made_is_waited_for() {
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    let machine = Machine::new(Groups::V1);
    let list = machine.path("/sys/fs/cgroup/memory/cgroup.procs");
    let shown = machine.path("/proc/100/cgroup");
    let made = std::fs::read_to_string(&shown).unwrap();
    std::fs::write(&shown, made.replace(":memory:/db", ":memory:/")).unwrap();
    // Reading this list waits for the thread below, which continues when the list is read.
    std::fs::remove_file(&list).unwrap();
    mknodat(CWD, &list, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let maker = std::thread::spawn(move || {
        let reader_waits = std::fs::File::options().write(true).open(&list).unwrap();
        std::fs::remove_file(&list).unwrap();
        std::fs::write(&list, "").unwrap();
        std::fs::write(&shown, made).unwrap();
        drop(reader_waits);
    });
    apply(&machine, "memory_mib", Amount::Number(64.0)).unwrap();
    maker.join().unwrap();
}

#[test]
fn memory_from_before_is_told() {
    for groups in super::fake::EVERY {
        let machine = Machine::new(groups);
        let amount = Amount::Number(256.0);
        apply(&machine, "memory_mib", amount.clone()).unwrap();
        assert_eq!(why_not(verdict(&machine, "memory_mib", amount.clone(), &Observation::new())), "it bites");
        machine.write("/proc/100/smaps_rollup", "x [rollup]\nPss_Anon: 102400 kB\nPss_Shmem: 102400 kB\n");
        let told = verdict(&machine, "memory_mib", amount.clone(), &Observation::new());
        assert_eq!(told.achieved, Some(Amount::Number(1.0)));
        assert_eq!(why_not(told), "does not bite: 200 MiB were allocated before the limit; load again inside it");

        let (mount, stat, limit) = match groups {
            Groups::V2 => ("unified", "anon 209715200\nshmem 0\n", "memory.max"),
            _ => ("memory", "total_rss 209715200\ntotal_shmem 0\n", "memory.limit_in_bytes"),
        };
        machine.write(&file(&machine, mount, "memory.stat"), stat);
        let error = apply(&machine, "memory_mib", Amount::Number(100.0)).unwrap_err();
        assert!(error.starts_with("memory_mib cannot be 100: 200 MiB are in use that cannot be dropped"), "{error}");
        assert_eq!(machine.host().value::<u64>(file(&machine, mount, limit)), Some(256 << 20), "it stays in force");
    }
}

/// A server with 4 GB of shared buffers has touched 122 MiB before it can be moved to the group: they are part of the amount.
#[test]
fn memory_that_a_server_had_before_it_was_limited_is_taken_off() {
    for groups in super::fake::EVERY {
        let machine = Machine::new(groups);
        let (mount, limit) = match groups {
            Groups::V2 => ("unified", "memory.max"),
            _ => ("memory", "memory.limit_in_bytes"),
        };
        machine.write("/proc/100/smaps_rollup", "x [rollup]\nPss_Anon: 1024 kB\nPss_Shmem: 123904 kB\n");
        let amount = Amount::Number(256.0);
        apply(&machine, "memory_mib", amount.clone()).unwrap();
        let set = machine.host().value::<u64>(file(&machine, mount, limit));
        assert_eq!(set, Some((256 - 122) << 20), "{groups:?}");
        let told = verdict(&machine, "memory_mib", amount.clone(), &Observation::new());
        assert_eq!((told.achieved.clone(), why_not(told).as_str()), (Some(Amount::Number(123.0)), "it bites"));

        machine.write("/proc/100/smaps_rollup", "x [rollup]\nPss_Anon: 1024 kB\nPss_Shmem: 0 kB\n");
        let told = why_not(verdict(&machine, "memory_mib", amount, &Observation::new()));
        assert!(told.starts_with("is 121 MiB too tight"), "{told}");

        machine.write("/proc/100/smaps_rollup", "x [rollup]\nPss_Anon: 1024 kB\nPss_Shmem: 123904 kB\n");
        let error = apply(&machine, "memory_mib", Amount::Number(100.0)).unwrap_err();
        assert!(error.starts_with("memory_mib cannot be 100: 122 MiB are in use that cannot be dropped"), "{error}");
    }
}

#[test]
fn cpu_time_above_the_quota_is_told() {
    for groups in [Groups::V1, Groups::V2] {
        let machine = Machine::new(groups);
        let (subject, quota) = (subject(), Amount::Number(0.5));
        apply(&machine, "cpu_quota", quota.clone()).unwrap();
        let earlier = control("cpu_quota").observe(&machine.host(), &subject);
        let use_up = |milliseconds: u64| match groups {
            Groups::V2 => machine.write(
                &file(&machine, "unified", "cpu.stat"),
                &format!("usage_usec {}\nnr_throttled 7\n", milliseconds * 1000),
            ),
            _ => {
                machine.write(&file(&machine, "cpuacct", "cpuacct.usage"), &format!("{}\n", milliseconds * 1_000_000));
                machine.write(&file(&machine, "cpu", "cpu.stat"), "nr_periods 9\nnr_throttled 7\n");
            }
        };
        use_up(480);
        let held = verdict(&machine, "cpu_quota", quota.clone(), &earlier);
        assert_eq!(held, Verdict { achieved: Some(Amount::Number(0.48)), why_not: None });
        use_up(900);
        let told = why_not(verdict(&machine, "cpu_quota", quota.clone(), &earlier));
        assert!(told.starts_with("0.90 cores were used, 0.5 allowed") && told.ends_with("stopped 7 times"), "{told}");
        assert_eq!(verdict(&machine, "cpu_quota", Amount::Number(1.0), &earlier).achieved, None, "another is in force");
    }
}

#[test]
fn a_write_limit_is_judged_by_the_disk_too() {
    for groups in super::fake::EVERY {
        let machine = Machine::new(groups);
        let (host, subject, limit) = (machine.host(), subject(), Amount::Number(10.0));
        apply(&machine, "write_mb_s", limit.clone()).unwrap();
        let device = host.text("/sys/class/block/disk/dev").unwrap();
        let device =
            host.text("/proc/diskstats").map_or(device, |text| text.split(' ').take(2).collect::<Vec<_>>().join(":"));
        let earlier = control("write_mb_s").observe(&host, &subject);
        let check = |group: u64, disk: u64, dirtied: u64, expect: &str| {
            match groups {
                Groups::V1 => machine.write(
                    &file(&machine, "blkio", "blkio.throttle.io_service_bytes"),
                    &format!("{device} Read 5\n{device} Write {}\n{device} Total 9\nTotal 9\n", group * 1_000_000),
                ),
                _ => machine.write(
                    &file(&machine, "unified", "io.stat"),
                    &format!("1:1 wbytes=7\n{device} rbytes=5 wbytes={} rios=1\n", group * 1_000_000),
                ),
            }
            let sectors = disk * 1_000_000 / 512;
            machine.write(
                "/proc/diskstats",
                &format!("{} disk 0 0 0 0 0 0 {sectors} 0 0 0 0\n", device.replace(':', " ")),
            );
            machine.write("/proc/100/io", &format!("write_bytes: {}\n", dirtied * 1_000_000));
            let verdict = verdict(&machine, "write_mb_s", limit.clone(), &earlier);
            assert_eq!(why_not(verdict), expect, "{groups:?} {group} {disk} {dirtied}");
        };
        check(10, 10, 10, "it bites");
        check(11, 11, 11, "it bites");
        let more = "20.00 were reached, 10 allowed (5 % and 0.1 s at that rate are tolerated), in MB/s (10^6 bytes)";
        check(20, 20, 20, more);
        check(2, 30, 30, "28.0 MB/s went past the limit as write-back of the page cache");
        // Bytes that other processes wrote do not count.
        check(2, 30, 2, "it bites");
        // Dirty, and still in memory.
        check(2, 2, 30, "it bites");
    }
}

#[test]
fn what_ended_processes_wrote_is_not_taken_for_nothing() {
    let machine = Machine::new(Groups::V1);
    let mut earlier = {
        apply(&machine, "write_mb_s", Amount::Number(10.0)).unwrap();
        control("write_mb_s").observe(&machine.host(), &subject())
    };
    let disk = machine.host().text("/proc/diskstats").unwrap();
    machine.write("/proc/diskstats", &disk.replace("disk 0 0 0 0 0 0 0", "disk 0 0 0 0 0 0 60000"));
    assert_eq!(why_not(verdict(&machine, "write_mb_s", Amount::Number(10.0), &earlier)), "it bites");
    earlier.insert("process_written 300 300".to_owned(), 0.0);
    let told = why_not(verdict(&machine, "write_mb_s", Amount::Number(10.0), &earlier));
    assert_eq!(told, "30.7 MB/s went past the limit as write-back of the page cache");
}

#[test]
fn data_without_a_disk_cannot_be_limited() {
    let machine = Machine::new(Groups::V1);
    machine.write("/proc/self/mountinfo", &{
        let mounts = std::fs::read_to_string(machine.path("/proc/self/mountinfo")).unwrap();
        mounts.replace("ext4 /dev/disk", "tmpfs tmpfs")
    });
    machine.write("/proc/diskstats", "254 0 other 0 0 0 0 0 0 0 0 0 0 0\n");
    let error = apply(&machine, "read_mb_s", Amount::Number(10.0)).unwrap_err();
    assert!(
        error.contains("/data is on a file system without a disk of its own (tmpfs)") || error.contains("is no disk"),
        "{error}"
    );
}

#[test]
fn prefetchers_of_bare_metal_alone() {
    let bare = |vendor: &str, family: u32| {
        let machine = Machine::new(Groups::V1);
        let info =
            format!("processor\t: 0\nvendor_id\t: {vendor}\ncpu family\t: {family}\nmodel\t\t: 1\nflags\t\t: fpu\n");
        machine.write("/proc/cpuinfo", &info);
        machine.write("/sys/devices/system/cpu/online", "0\n");
        machine
    };
    let check = |machine: &Machine, register: usize, on: u64, off: u64| {
        let file = machine.path("/dev/cpu/0/msr");
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        // A register's number is its place in the file, which has a hole up to there.
        let sparse = std::fs::File::create(&file).unwrap();
        sparse.set_len(register as u64 + 8).unwrap();
        machine.host().set_register(0, register as u32, on).unwrap();
        let word = |word: &str| Amount::Text(word.to_owned());
        assert!(control("prefetchers").probe(&machine.host()).available);
        let notes = apply(machine, "prefetchers", word("off")).unwrap();
        assert_eq!(machine.host().register(0, register as u32).unwrap(), off);
        assert_eq!(why_not(verdict(machine, "prefetchers", word("off"), &Observation::new())), "it bites");
        assert_ne!(why_not(verdict(machine, "prefetchers", word("on"), &Observation::new())), "it bites");
        assert_eq!(notes, [Undo::Register { register: register as u32, values: BTreeMap::from([(0, on)]) }]);
        apply(machine, "prefetchers", word("on")).unwrap();
        assert_eq!(machine.host().register(0, register as u32).unwrap(), on);
    };
    check(&bare("GenuineIntel", 6), 0x1a4, 0x20, 0x2f);
    check(&bare("AuthenticAMD", 25), 0xc000_0108, 0x3c0, 0x3ef);
    let refused = |machine: &Machine| control("prefetchers").probe(&machine.host()).reason;
    assert_eq!(refused(&bare("GenuineIntel", 6)), "there is no /dev/cpu/0/msr");
    assert_eq!(
        refused(&bare("AuthenticAMD", 23)),
        "no register is known for this processor (AuthenticAMD-23-1-unknown)"
    );
    let guest = bare("GenuineIntel", 6);
    guest.write("/proc/cpuinfo", "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nflags\t\t: hypervisor\n");
    assert!(refused(&guest).starts_with("this machine is a guest"), "{}", refused(&guest));
}

#[test]
fn nice_values_that_could_not_be_put_back_are_not_set() {
    let machine = Machine::new(Groups::V1);
    machine.write("/proc/self/status", "CapEff:\t0000000000000000\n");
    let error = apply(&machine, "nice", Amount::Number(5.0)).unwrap_err();
    assert!(error.contains("nice values could be raised but not put back (remedy: run as root"), "{error}");
}

/// Ids that are used again while `/proc` is read could make two processes each other's parents.
#[test]
fn descendants_are_found_once_in_a_circle() {
    let machine = Machine::new(Groups::V1);
    machine.process(100, 200, &[100, 101], "db");
    assert_eq!(crate::process_tree::tree_of(&machine.host(), &[100]), [100, 200].into());
}
