//! The lists in `docs/locking.md` and `docs/parallelism.md` equal those of the code.

use plimsoll_policy::{CPU_SCHEDULERS, LOCK_SCHEDULERS, PARALLELISM_POLICIES, StarvationBound};

const GUIDE: &str = include_str!("../../../docs/locking.md");

const PARALLELISM: &str = include_str!("../../../docs/parallelism.md");

/// Name and rule of each row of the table below this heading of a guide.
fn rows(guide: &'static str, heading: &str) -> Vec<(&'static str, &'static str)> {
    let section =
        guide.split("\n## ").find(|section| section.starts_with(heading)).expect("the guide has that section");
    let rows = section.lines().filter(|line| line.starts_with('|')).skip(2);
    let rows = rows.map(|row| row.trim_matches('|').split('|').map(str::trim).collect::<Vec<_>>());
    rows.map(|row| (row[0].trim_matches('`'), row[1])).collect()
}

#[test]
fn the_guide_lists_every_lock_scheduler_with_its_rule() {
    let there: Vec<_> = LOCK_SCHEDULERS.iter().map(|kind| (kind.name, kind.about)).collect();
    assert_eq!(rows(GUIDE, "Lock schedulers"), there);
}

#[test]
fn the_guide_lists_every_cpu_scheduler_with_its_rule() {
    let there: Vec<_> = CPU_SCHEDULERS.iter().map(|scheduler| (scheduler.name(), scheduler.about())).collect();
    assert_eq!(rows(GUIDE, "CPU schedulers"), there);
}

#[test]
fn the_guide_lists_every_parallelism_policy_with_its_rule() {
    let there: Vec<_> = PARALLELISM_POLICIES.iter().map(|kind| (kind.name, kind.about)).collect();
    assert_eq!(rows(PARALLELISM, "Policies"), there);
}

#[test]
fn the_guide_knows_after_how_many_rollbacks_somebody_is_promoted() {
    assert_eq!(StarvationBound::default().rollbacks(), Some(5));
    assert!(GUIDE.contains("rolled back five times is *promoted*"));
}
