//! The limiter on fake machines: all or nothing, and everything is undone after any failure or kill.

mod journal;

use std::fs;

use proptest::prelude::*;

use super::*;
use crate::control::fake::{EVERY, Groups, Machine, quick_folder};

fn subject() -> Subject {
    Subject { processes: vec![100, 200], data_folder: Some(PathBuf::from("/data")) }
}

fn limits(pairs: &[(&str, &str)]) -> Limits {
    let amount = |text: &str| text.parse().map_or(Amount::Text(text.to_owned()), Amount::Number);
    pairs.iter().map(|(key, text)| ((*key).to_owned(), amount(text))).collect()
}

/// Every control that works on a fake machine.
const ALL: [(&str, &str); 12] = [
    ("cores", "2"),
    ("cpu_weight", "50"),
    ("cpu_quota", "1.5"),
    ("nice", "5"),
    ("memory_mib", "256"),
    ("read_mb_s", "10"),
    ("write_mb_s", "20"),
    ("read_iops", "300"),
    ("write_iops", "400"),
    ("huge_pages", "never"),
    ("autogroups", "off"),
    ("prefetchers", "unlimited"),
];

struct World {
    machine: Machine,
    state: tempfile::TempDir,
}

impl World {
    fn new(groups: Groups) -> World {
        let world = World { machine: Machine::new(groups), state: quick_folder() };
        world.machine.watch(world.state.path().join("restore.jsonl"));
        world
    }

    fn limiter(&self) -> Limiter {
        Limiter::begin(self.machine.host(), subject(), self.state.path()).unwrap()
    }

    /// Leaves a journal as a kill does: the present one, or the one when changes began to fail.
    fn kill(&self, limiter: Limiter) {
        self.machine.kill(limiter, &self.state.path().join("restore.jsonl"));
    }

    fn restore(&self) -> Result<Restored, LimiterError> {
        restore_left_over(&self.machine.host(), self.state.path())
    }
}

fn differences(one: &BTreeMap<PathBuf, String>, other: &BTreeMap<PathBuf, String>) -> Vec<String> {
    let missing = |here: &BTreeMap<PathBuf, String>, there: &BTreeMap<PathBuf, String>| -> Vec<String> {
        let is_other = |(path, text): &(&PathBuf, &String)| there.get(*path) != Some(*text);
        here.iter().filter(is_other).map(|(path, text)| format!("{} {text:?}", path.display())).collect()
    };
    missing(one, other).into_iter().chain(missing(other, one)).collect()
}

macro_rules! assert_same {
    ($machine:expr, $before:expr, $($told:tt)*) => {
        let differences = differences(&$machine.snapshot(), &$before);
        assert!(differences.is_empty(), "{}: {differences:#?}", format!($($told)*));
    };
}
use assert_same;

/// The text of a group's file, of the version that the machine has.
fn held(machine: &Machine, v1: &str, v2: &str) -> String {
    let name = format!("plimsoll-{}-100", std::process::id());
    let places = [
        format!("/sys/fs/cgroup/{}/db/{name}/{v1}", v1.split('.').next().unwrap()),
        format!("/sys/fs/cgroup/unified/{name}/{v2}"),
    ];
    let text = places.iter().find_map(|path| fs::read_to_string(machine.path(path)).ok());
    text.map_or("none".to_owned(), |text| text.trim().to_owned())
}

/// A thread that joins a cpuset may run on all of its cores, and old kernels forget the thread's own affinity.
#[test]
fn threads_that_were_bound_to_few_cores_are_again() {
    for groups in EVERY {
        let world = World::new(groups);
        world.machine.host().set_affinity(100, &[1, 3]).unwrap();
        let before = world.machine.snapshot();
        for keys in [&["cores"][..], &["cpu_quota", "cores"], &["memory_mib"]] {
            let mut limiter = world.limiter();
            let all = ALL.iter().filter(|(key, _)| keys.contains(key)).copied().collect::<Vec<_>>();
            limiter.set(&limits(&all)).unwrap();
            limiter.restore().unwrap();
            assert_same!(world.machine, before, "{groups:?} {keys:?}");
        }
    }
}

#[test]
fn every_limit_is_in_force_and_taken_away() {
    for groups in EVERY {
        let world = World::new(groups);
        let before = world.machine.snapshot();
        let mut limiter = world.limiter();
        limiter.set(&limits(&ALL)).unwrap();
        let check = |v1: &str, v2: &str, expect: &[&str]| {
            let text = held(&world.machine, v1, v2);
            assert!(expect.contains(&text.as_str()), "{groups:?} {v1}: {text}");
        };
        check("cpuset.cpus", "cpuset.cpus", &["0-1"]);
        check("cpu.shares", "cpu.weight", &["512", "50"]);
        check("cpu.cfs_quota_us", "cpu.max", &["150000", "150000 100000"]);
        check("memory.limit_in_bytes", "memory.max", &["268435456"]);
        let io = held(&world.machine, "blkio.throttle.write_bps_device", "io.max");
        assert!(io.ends_with(" 20000000") || io.ends_with("rbps=10000000 riops=300 wbps=20000000 wiops=400"), "{io}");
        let verdicts = limiter.verify(&limiter.observe());
        assert_eq!(verdicts.len(), 11);
        for (control, verdict) in &verdicts {
            assert_eq!(verdict.why_not, None, "{groups:?} {control}");
        }
        // Lifting one leaves the others as they are.
        limiter.set(&limits(&[("write_mb_s", "20"), ("cores", "0,3")])).unwrap();
        check("cpuset.cpus", "cpuset.cpus", &["0,3"]);
        check("cpu.cfs_quota_us", "cpu.max", &["none", "max 100000"]);
        check("memory.limit_in_bytes", "memory.max", &["none", "max"]);
        let io = held(&world.machine, "blkio.throttle.write_bps_device", "io.max");
        assert!(io.ends_with(" 20000000") || io.ends_with("rbps=max riops=max wbps=20000000 wiops=max"), "{io}");
        limiter.restore().unwrap();
        assert_same!(world.machine, before, "{groups:?}");
        assert_eq!(limiter.restore().unwrap(), Restored::default(), "once is enough");
    }
}

#[test]
fn dropping_it_puts_the_machine_back() {
    let world = World::new(Groups::V2);
    let before = world.machine.snapshot();
    let panicked = std::panic::catch_unwind(|| {
        let mut limiter = world.limiter();
        limiter.set(&limits(&ALL)).unwrap();
        std::panic::resume_unwind(Box::new("the experiment failed"));
    });
    assert!(panicked.is_err());
    assert_same!(world.machine, before, "after all");
    assert!(!world.state.path().join("restore.jsonl").exists());
}

/// After a failure of any change, the previous limits are in force, or none, and the machine can be restored.
#[test]
fn a_failure_at_any_step_leaves_nothing_half_done() {
    let first = limits(&[("cores", "1"), ("write_mb_s", "5"), ("huge_pages", "always")]);
    for groups in EVERY {
        let mut refused = 0;
        for step in 0.. {
            let world = World::new(groups);
            let before = world.machine.snapshot();
            let mut limiter = world.limiter();
            limiter.set(&first).unwrap();
            let limited = world.machine.snapshot();
            world.machine.trouble(step, 1);
            let result = limiter.set(&limits(&ALL[..11]));
            let was_last = world.machine.is_trouble_ahead();
            world.machine.trouble(0, 0);
            match result {
                Ok(()) => assert_eq!(limiter.in_force(), limits(&ALL[..11])),
                Err(_) => {
                    refused += 1;
                    assert_eq!(limiter.in_force(), first, "{groups:?} step {step}");
                    assert_same!(world.machine, limited, "{groups:?} step {step}");
                }
            }
            drop(limiter);
            assert_same!(world.machine, before, "{groups:?} step {step}");
            if was_last {
                break;
            }
        }
        assert!(refused > 8, "{groups:?}: {refused} steps");
    }
}

/// The limiter is killed after any number of changes, and so is the process that undoes them.
#[test]
fn what_a_kill_leaves_is_put_back_even_if_that_is_killed() {
    for groups in EVERY {
        for step in (0..60).step_by(3) {
            let world = World::new(groups);
            let before = world.machine.snapshot();
            let mut limiter = world.limiter();
            world.machine.trouble(step, usize::MAX);
            let _ = limiter.set(&limits(&ALL));
            world.kill(limiter);
            world.machine.trouble(step / 2, usize::MAX);
            let _ = world.restore();
            world.machine.trouble(0, 0);
            let restored = world.restore().unwrap();
            assert_eq!(restored.failed, Vec::<String>::new());
            assert_same!(world.machine, before, "{groups:?} step {step}");
            assert_eq!(world.restore().unwrap(), Restored::default());
        }
    }
}

#[test]
fn the_next_one_puts_back_what_was_left() {
    let world = World::new(Groups::V1);
    let before = world.machine.snapshot();
    let mut limiter = world.limiter();
    limiter.set(&limits(&ALL)).unwrap();
    world.kill(limiter);
    assert_ne!(world.machine.snapshot(), before);
    let limiter = world.limiter();
    assert!(limiter.left_over().undone.len() > 10);
    assert_same!(world.machine, before, "after all");
}

#[test]
fn what_cannot_be_undone_stays_and_is_told() {
    let world = World::new(Groups::V1);
    let mut limiter = world.limiter();
    limiter.set(&limits(&[("huge_pages", "never")])).unwrap();
    world.machine.trouble(0, 1);
    let error = limiter.restore().unwrap_err().to_string();
    assert!(
        error.starts_with("not put back: cannot write \"madvise\" to /sys/kernel/mm/transparent_hugepage/enabled"),
        "{error}"
    );
    assert!(world.state.path().join("restore.jsonl").exists());
    assert_eq!(limiter.restore().unwrap().undone.len(), 1);
}

#[test]
fn threads_and_children_that_came_meanwhile_are_put_back_too() {
    let world = World::new(Groups::V1);
    let mut limiter = world.limiter();
    limiter.set(&limits(&[("nice", "7"), ("cores", "1")])).unwrap();
    // These processes began after the limit was set (tick 5000), with inherited settings.
    let begin = |process: i32, parent: i32, group: &str| {
        world.machine.process(process, parent, &[process], group);
        world.machine.host().set_nice(process, 7).unwrap();
    };
    let group = format!("db/plimsoll-{}-100", std::process::id());
    begin(6000, 100, "db");
    let inside = world.machine.path(&format!("/sys/fs/cgroup/cpuset/{group}/cgroup.procs"));
    world.machine.host().write(format!("/sys/fs/cgroup/cpuset/{group}/cgroup.procs"), "6000").unwrap();
    begin(7000, 200, "db");
    world.machine.host().write(format!("/sys/fs/cgroup/cpuset/{group}/cgroup.procs"), "7000").unwrap();
    assert_eq!(fs::read_to_string(&inside).unwrap(), "100\n200\n6000\n7000\n");
    limiter.restore().unwrap();
    let group_of = |process: i32| {
        let text = fs::read_to_string(world.machine.path(&format!("/proc/{process}/cgroup"))).unwrap();
        text.lines().find(|line| line.contains("cpuset")).unwrap().rsplit(':').next().unwrap().to_owned()
    };
    assert_eq!([100, 200, 6000, 7000].map(group_of), ["/db", "/db/sub", "/db", "/db/sub"]);
    for process in [100, 200, 6000, 7000] {
        let threads = crate::control::threads::threads(&world.machine.host(), process);
        assert!(threads.iter().all(|thread| thread.nice == 0), "{threads:?}");
    }
}

#[test]
fn wrong_limits_are_refused_before_anything_is_changed() {
    let world = World::new(Groups::V2);
    let mut limiter = world.limiter();
    let before = world.machine.snapshot();
    let mut check = |pairs: &[(&str, &str)], expect: &str| {
        let error = limiter.set(&limits(pairs)).unwrap_err().to_string();
        assert!(error.starts_with(expect), "{error}");
        assert_same!(world.machine, before, "after all");
    };
    check(&[("cores", "2"), ("corse", "1")], "there is no control corse; there are: cores, ");
    check(&[("cpu_quota", "1"), ("cores", "5")], "cores cannot be 5: it is at most 4 cores; nothing was changed");
    check(&[("cores", "2-7")], "cores cannot be 2-7: core 4 is not usable; usable are 0-3");
    check(&[("cores", "1.5")], "cores cannot be 1.5: it is a whole number");
    check(&[("cores", "0,x")], "cores cannot be 0,x: it is a number or a list such as 0-3,8");
    check(&[("memory_mib", "1")], "memory_mib cannot be 1: it is at least 16 MiB");
    check(&[("memory_mib", "1e9")], "memory_mib cannot be 1000000000: it is at most 8192 MiB");
    check(&[("write_mb_s", "0")], "write_mb_s cannot be 0: it is at least 0.1 MB/s");
    check(&[("nice", "20")], "nice cannot be 20: it is at most 19");
    check(&[("autogroups", "never")], "autogroups cannot be never: it is `on` or `off`");
    check(&[("huge_pages", "some")], "huge_pages cannot be some: it is `always`, `madvise` or `never`");
    check(&[("prefetchers", "1")], "prefetchers cannot be 1: it is `on` or `off`");
    limiter.set(&limits(&[("cores", "unlimited"), ("write_mb_s", "unlimited")])).unwrap();
    assert_eq!(limiter.in_force(), Limits::new());
    assert_same!(world.machine, before, "after all");
}

#[test]
fn a_subject_that_has_ended_is_told() {
    let world = World::new(Groups::V1);
    let mut limiter = world.limiter();
    limiter.set(&limits(&[("cores", "1")])).unwrap();
    world.machine.end(200);
    assert_eq!(limiter.verify(&limiter.observe())["cores"].why_not, None, "one goes on");
    world.machine.end(100);
    let verdict = &limiter.verify(&limiter.observe())["cores"];
    assert_eq!(verdict.achieved, None);
    assert_eq!(verdict.why_not.as_deref(), Some("none of the processes to limit is running"));
    let error = limiter.set(&limits(&[("cores", "2")])).unwrap_err().to_string();
    assert!(error.contains("none of the processes to limit is running"), "{error}");
    assert_eq!(limiter.in_force(), Limits::new());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// For any sequence of limits and any failures, restoring returns the machine to its original state.
    #[test]
    fn any_sequence_of_limits_ends_where_it_began(
        groups in prop::sample::select(&EVERY[..]),
        sets in prop::collection::vec((prop::collection::vec(any::<bool>(), ALL.len()), 1..4u8, 0..60usize), 1..5),
        killed in any::<bool>(),
    ) {
        let world = World::new(groups);
        let before = world.machine.snapshot();
        let mut limiter = world.limiter();
        for (named, factor, trouble) in sets {
            let mut wanted = limits(&ALL);
            for ((key, _), named) in ALL.iter().zip(named) {
                match wanted.get_mut(*key) {
                    Some(Amount::Number(number)) if named => {
                        *number = (*number * f64::from(factor)).min(if *key == "cores" { 4.0 } else { f64::MAX });
                        if *key == "cpu_quota" {
                            *number = number.min(4.0);
                        }
                    }
                    Some(_) if named => {}
                    _ => drop(wanted.remove(*key)),
                }
            }
            let earlier = limiter.in_force();
            world.machine.trouble(trouble, 1);
            let result = limiter.set(&wanted);
            world.machine.trouble(0, 0);
            wanted.retain(|_, amount| !amount.is_unlimited());
            prop_assert_eq!(limiter.in_force(), if result.is_ok() { wanted } else { earlier });
        }
        if killed {
            world.kill(limiter);
            prop_assert_eq!(world.restore().unwrap().failed, Vec::<String>::new());
        } else {
            limiter.restore().unwrap();
        }
        assert_same!(world.machine, before, "after all");
    }
}
