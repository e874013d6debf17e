//! Which process waits for which, from rows of `pg_locks`.
//!
//! `pg_blocking_pids` would show it, too, but blocks the whole lock table while it answers, once for each process in
//! question. One read of `pg_locks` is enough for all of them. A process waits for the holders of the object in a mode
//! that conflicts with its requested mode, and for earlier requests in such a mode.

use std::collections::{BTreeMap, BTreeSet};

use crate::snapshot::LockRow;

/// The modes of PostgreSQL's locks, weakest first, with the indexes of the modes that conflict with each (manual,
/// 13.3).
const MODES: [(&str, &[usize]); 8] = [
    ("AccessShareLock", &[7]),
    ("RowShareLock", &[6, 7]),
    ("RowExclusiveLock", &[4, 5, 6, 7]),
    ("ShareUpdateExclusiveLock", &[3, 4, 5, 6, 7]),
    ("ShareLock", &[2, 3, 5, 6, 7]),
    ("ShareRowExclusiveLock", &[2, 3, 4, 5, 6, 7]),
    ("ExclusiveLock", &[1, 2, 3, 4, 5, 6, 7]),
    ("AccessExclusiveLock", &[0, 1, 2, 3, 4, 5, 6, 7]),
];

/// The lock wait of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wait {
    /// The processes that it waits for: holders first, then earlier waiters; each once. 0 is a prepared transaction.
    pub blockers: Vec<i32>,
    /// The kind of object, as `pg_locks` calls it.
    pub kind: String,
    /// The table, if known.
    pub table: Option<String>,
    /// When it began, microseconds since 1970 on the server's clock.
    pub began_us: Option<i64>,
}

fn conflicts(asked: &str, other: &str) -> bool {
    let place = |mode: &str| MODES.iter().position(|(name, _)| *name == mode);
    // Predicate locks (SIReadLock), and modes that are not known, block no process.
    place(asked).zip(place(other)).is_some_and(|(asked, other)| MODES[asked].1.contains(&other))
}

/// The wait of each process. `leader` maps parallel workers to their leaders: processes of one leader do not wait for
/// each other, and are represented by their leader here.
pub fn waits(rows: &[LockRow], leader: &BTreeMap<i32, i32>) -> BTreeMap<i32, Wait> {
    let head = |process: i32| leader.get(&process).copied().unwrap_or(process);
    let mut of_object: BTreeMap<&str, Vec<&LockRow>> = BTreeMap::new();
    for row in rows {
        of_object.entry(&row.object).or_default().push(row);
    }
    // A parallel worker may show the relation that its leader waits for, too; the table of a row lock is in another
    // row.
    let mut tables: BTreeMap<i32, &str> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.kind == "tuple") {
        tables.extend(row.table.as_deref().map(|table| (head(row.process), table)));
    }
    let mut found: BTreeMap<i32, Wait> = BTreeMap::new();
    for row in rows.iter().filter(|row| !row.is_granted) {
        let waiter = head(row.process);
        let others = || of_object[row.object.as_str()].iter().filter(|other| head(other.process) != waiter);
        let conflicting = |other: &&&LockRow| conflicts(&row.mode, &other.mode);
        let holders = others().filter(|other| other.is_granted).filter(conflicting);
        let before = |other: &&&LockRow| match (other.wait_began_us, row.wait_began_us) {
            (Some(other), Some(own)) => other < own,
            _ => false,
        };
        let ahead = others().filter(|other| !other.is_granted).filter(conflicting).filter(before);
        let mut seen = BTreeSet::new();
        let blockers: Vec<i32> =
            holders.chain(ahead).map(|other| head(other.process)).filter(|process| seen.insert(*process)).collect();
        if !blockers.is_empty() {
            let table = row.table.clone().or_else(|| tables.get(&waiter).map(|table| (*table).to_owned()));
            let wait = Wait { blockers, kind: row.kind.clone(), table, began_us: row.wait_began_us };
            found.entry(waiter).or_insert(wait);
        }
    }
    found
}

/// A chain from a waiter to a process that waits for none: at each step the first blocker that is not in the chain yet.
/// A chain that ends in a circle ends before its first repetition. The waiter comes first.
pub fn chain(waits: &BTreeMap<i32, Wait>, waiter: i32) -> Vec<i32> {
    let mut chain = vec![waiter];
    let mut at = waiter;
    while let Some(wait) = waits.get(&at) {
        let Some(next) = wait.blockers.iter().find(|blocker| !chain.contains(blocker)) else { break };
        chain.push(*next);
        at = *next;
    }
    chain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(process: i32, object: &str, mode: &str, state: &str) -> LockRow {
        LockRow {
            process,
            object: object.to_owned(),
            kind: object.split('/').next().unwrap().to_owned(),
            table: object.starts_with("tuple").then(|| "public.accounts".to_owned()),
            mode: format!("{mode}Lock"),
            is_granted: state == "held",
            wait_began_us: state.strip_prefix("since ").map(|at| at.parse().unwrap()),
        }
    }

    fn check(rows: &[LockRow], leaders: &[(i32, i32)], expect: &[(i32, &[i32])]) {
        let found = waits(rows, &leaders.iter().copied().collect());
        let found: Vec<(i32, &[i32])> = found.iter().map(|(pid, wait)| (*pid, wait.blockers.as_slice())).collect();
        assert_eq!(found, expect);
    }

    #[test]
    fn a_hot_row_is_a_queue_behind_its_holder() {
        // 1 has changed the row; 2 is next in line (it holds the row's lock and waits for the transaction of 1); 3
        // waits for 2.
        let rows = [
            row(1, "transactionid/700", "Exclusive", "held"),
            row(2, "transactionid/700", "Share", "since 10"),
            row(2, "tuple/1/2/3", "Exclusive", "held"),
            row(3, "tuple/1/2/3", "Exclusive", "since 20"),
            row(4, "tuple/1/2/3", "Exclusive", "since 30"),
        ];
        check(&rows, &[], &[(2, &[1]), (3, &[2]), (4, &[2, 3])]);
        let waits = waits(&rows, &BTreeMap::new());
        assert_eq!(chain(&waits, 4), [4, 2, 1]);
        assert_eq!(chain(&waits, 1), [1]);
        assert_eq!((waits[&2].kind.as_str(), waits[&2].table.as_deref()), ("transactionid", Some("public.accounts")));
    }

    #[test]
    fn modes_that_agree_do_not_block_but_an_earlier_request_does() {
        let rows = [
            row(1, "relation/5", "AccessShare", "held"),
            row(2, "relation/5", "AccessExclusive", "since 10"),
            row(3, "relation/5", "AccessShare", "since 20"),
            row(9, "relation/5", "SIRead", "held"),
        ];
        check(&rows, &[], &[(2, &[1]), (3, &[2])]);
    }

    #[test]
    fn parallel_workers_stand_as_their_leader() {
        let rows = [
            row(1, "relation/5", "AccessExclusive", "held"),
            row(21, "relation/5", "AccessShare", "since 10"),
            row(22, "relation/6", "AccessShare", "since 10"),
            row(2, "relation/6", "AccessExclusive", "held"),
        ];
        check(&rows, &[(21, 2), (22, 2)], &[(2, &[1])]);
    }

    #[test]
    fn circles_end() {
        let rows = [
            row(1, "transactionid/1", "Exclusive", "held"),
            row(2, "transactionid/2", "Exclusive", "held"),
            row(1, "transactionid/2", "Share", "since 5"),
            row(2, "transactionid/1", "Share", "since 6"),
        ];
        let waits = waits(&rows, &BTreeMap::new());
        assert_eq!((chain(&waits, 1), chain(&waits, 2)), (vec![1, 2], vec![2, 1]));
    }

    #[test]
    fn conflicts_are_mutual() {
        for (name, _) in MODES {
            for (other, _) in MODES {
                assert_eq!(conflicts(name, other), conflicts(other, name), "{name} {other}");
            }
        }
    }

    #[test]
    fn without_times_the_queue_is_not_known_but_holders_are() {
        let mut rows = vec![
            row(1, "relation/5", "Exclusive", "held"),
            row(2, "relation/5", "Exclusive", "waits"),
            row(3, "relation/5", "Exclusive", "waits"),
        ];
        check(&rows, &[], &[(2, &[1]), (3, &[1])]);
        rows.remove(0);
        check(&rows, &[], &[]);
    }
}
