//! The journal after a kill, and entries in it that must not be trusted.

use super::*;

#[test]
fn a_torn_journal_tells_all_that_was_done() {
    let world = World::new(Groups::V1);
    let before = world.machine.snapshot();
    let mut limiter = world.limiter();
    limiter.set(&limits(&[("cores", "1")])).unwrap();
    world.kill(limiter);
    let journal = world.state.path().join("restore.jsonl");
    let whole = fs::read_to_string(&journal).unwrap();
    fs::write(&journal, format!("{whole}{{\"control\":\"nice\",\"und")).unwrap();
    assert_eq!(world.restore().unwrap().failed, Vec::<String>::new());
    assert_same!(world.machine, before, "after all");

    fs::write(&journal, "{\"process\":1").unwrap();
    assert_eq!(world.restore().unwrap(), Restored::default());
    fs::write(&journal, whole.replacen("\"control\"", "\"kontrol\"", 1)).unwrap();
    let error = world.restore().unwrap_err().to_string();
    assert!(error.starts_with("not put back: lines [2] of"), "{error}");
    assert!(Limiter::begin(world.machine.host(), subject(), world.state.path()).is_err());
}

/// A kill may occur at any byte of a line being written: earlier changes are in the lines before, and the change of
/// this line was not made. Restoring therefore returns the machine to its original state and removes the journal.
#[test]
fn a_journal_that_is_cut_at_any_byte_tells_all_that_was_done() {
    let world = World::new(Groups::V1);
    let before = world.machine.snapshot();
    let journal = world.state.path().join("restore.jsonl");
    // Limits until the given number of changes is made, dies, and leaves its journal.
    let killed_after = |changes: usize| {
        let mut limiter = world.limiter();
        world.machine.trouble(changes, usize::MAX);
        let few = [("cores", "2"), ("nice", "5"), ("huge_pages", "never")];
        let is_whole = limiter.set(&limits(&few)).is_ok();
        world.kill(limiter);
        (fs::read(&journal).unwrap_or_default(), is_whole)
    };
    let (mut noted_before, mut cuts) = (0, 0);
    for changes in 0.. {
        let (text, is_whole) = killed_after(changes);
        world.restore().unwrap();
        // The notes since the last change may be cut; earlier lines must be whole.
        for cut in noted_before..=text.len() {
            let (again, _) = killed_after(changes);
            assert_eq!(again.len(), text.len());
            fs::write(&journal, &text[..cut]).unwrap();
            let restored = world.restore().unwrap();
            assert_eq!(restored.failed, Vec::<String>::new(), "{changes} changes, {cut} bytes");
            assert_same!(world.machine, before, "{changes} changes, {cut} bytes");
            assert!(!journal.exists(), "{changes} changes, {cut} bytes");
            cuts += 1;
        }
        noted_before = text.len();
        if is_whole {
            break;
        }
    }
    assert!(cuts > 500, "every byte of a long journal: {cuts}");

    // Within a character of more than one byte.
    let text = "{\"process\":1,\"boot\":null}\n{\"control\":\"größer\"}";
    fs::write(&journal, &text.as_bytes()[..=text.find('ö').unwrap()]).unwrap();
    assert!(fs::read_to_string(&journal).is_err(), "the cut is within a character");
    assert_eq!(world.restore().unwrap(), Restored::default());
}

/// The numbers of processes and threads are reused, and folders may not be ours.
#[test]
fn strangers_are_left_alone() {
    let world = World::new(Groups::V1);
    let mut limiter = world.limiter();
    limiter.set(&limits(&[("nice", "7")])).unwrap();
    world.kill(limiter);
    world.machine.end(100);
    world.machine.process(100, 1, &[100], "db");
    let stat = world.machine.path("/proc/100/task/100/stat");
    fs::write(&stat, fs::read_to_string(&stat).unwrap().replace(" 100 0", " 999 0")).unwrap();
    let before = fs::read_to_string(&stat).unwrap();
    world.restore().unwrap();
    assert_eq!(fs::read_to_string(&stat).unwrap(), before);

    let journal = |undo: &str| {
        let text = format!("{{\"process\":1,\"boot\":null}}\n{{\"control\":\"x\",\"undo\":{undo}}}\n");
        fs::write(world.state.path().join("restore.jsonl"), text).unwrap();
        let snapshot = world.machine.snapshot();
        let restored = world.restore().unwrap();
        assert_same!(world.machine, snapshot, "after all");
        restored.failed.join("; ")
    };
    let folder = "/sys/fs/cgroup/cpu/db";
    let told = journal(&format!("{{\"remove_control_group\":{{\"folder\":\"{folder}\",\"came_from\":[]}}}}"));
    assert_eq!(told, "/sys/fs/cgroup/cpu/db is not a group of ours");
    let told = journal(&format!("{{\"remove_group\":{{\"folder\":\"{folder}\",\"tasks_to\":null}}}}"));
    assert_eq!(told, "/sys/fs/cgroup/cpu/db is not a group of ours");
    let told = journal("{\"write_file\":{\"path\":\"/data/x\",\"text\":\"1\"}}");
    assert_eq!(told, "/data/x is not a file of the kernel");
    let told = journal("{\"write_file\":{\"path\":\"/proc/../data/x\",\"text\":\"1\"}}");
    assert_eq!(told, "/proc/../data/x is not a file of the kernel");
}

#[test]
fn nothing_outlives_a_boot() {
    let world = World::new(Groups::V1);
    let text = "{\"process\":1,\"boot\":\"another\"}\n{\"control\":\"huge_pages\",\"undo\":{\"write_file\":{\"path\":\"/sys/kernel/mm/transparent_hugepage/enabled\",\"text\":\"always\"}}}\n";
    fs::write(world.state.path().join("restore.jsonl"), text).unwrap();
    let before = world.machine.snapshot();
    assert_eq!(world.restore().unwrap().undone, ["the machine was booted since, and nothing is left to undo"]);
    assert_same!(world.machine, before, "after all");
}

#[test]
fn nothing_is_changed_that_cannot_be_noted() {
    let world = World::new(Groups::V1);
    let before = world.machine.snapshot();
    let mut limiter = world.limiter();
    fs::create_dir(world.state.path().join("restore.jsonl")).unwrap();
    let error = limiter.set(&limits(&[("cores", "1")])).unwrap_err();
    assert!(error.to_string().contains("cannot note how to undo a change in"), "{error}");
    assert_same!(world.machine, before, "after all");
}
