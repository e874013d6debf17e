//! Intention locks on tables: kept by their holders until a stronger mode is requested, and correct under any timing.

use std::sync::atomic::{AtomicU32, Ordering};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::*;

fn leave(locks: &LockTable, member: &Member, held: &[LockName]) {
    locks.roll_back(member);
    held.iter().for_each(|name| locks.release(member, *name));
    locks.end(member);
    locks.leave(member);
}

#[test]
fn an_intention_takes_no_head_until_somebody_wants_more() {
    let locks = LockTable::new(options("standard"));
    let [a, b, c, d] = [(); 4].map(|()| joined(&locks, Priority::LOW));
    let (table, other) = (LockName::table(3), LockName::table(4));
    assert_eq!(locks.ask(&a, table, Mode::IS), Ok(Answer::Granted));
    assert_eq!(locks.ask(&a, table, Mode::IX), Ok(Answer::Converted));
    assert_eq!(locks.ask(&a, table, Mode::IS), Ok(Answer::Held));
    assert_eq!(locks.ask(&b, table, Mode::IX), Ok(Answer::Granted));
    assert_eq!((locks.name_count(), locks.held(&a, table), a.locks()), (0, Some(Mode::IX), 1));
    // S waits for both, and later requests wait behind it; another table is not affected.
    assert_eq!(locks.ask(&c, table, Mode::S), Ok(Answer::Wait));
    assert_eq!(locks.ask(&d, table, Mode::IX), Ok(Answer::Wait));
    assert_eq!(locks.ask(&a, table, Mode::IX), Ok(Answer::Held));
    assert_eq!(locks.ask(&a, other, Mode::IX), Ok(Answer::Granted));
    assert_eq!((locks.name_count(), locks.waiter_count()), (1, 2));
    leave(&locks, &a, &[other, table]);
    assert_eq!(locks.outcome(&c), None);
    leave(&locks, &b, &[table]);
    assert_eq!(locks.wait(&c).outcome, Ok(Answer::Granted));
    assert_eq!(locks.outcome(&d), None);
    leave(&locks, &c, &[table]);
    assert_eq!(locks.wait(&d).outcome, Ok(Answer::Granted));
    // No transaction requests a stronger mode any longer: a new intention needs no head, and an intention in the head
    // stays as long as its holder.
    let e = joined(&locks, Priority::LOW);
    assert_eq!(locks.ask(&e, table, Mode::IX), Ok(Answer::Granted));
    leave(&locks, &d, &[table]);
    assert_eq!(locks.name_count(), 0);
    leave(&locks, &e, &[table]);
}

#[test]
fn who_waits_for_intentions_is_in_a_cycle_like_anybody_else() {
    let locks = LockTable::new(options("standard"));
    let [a, b] = [(); 2].map(|()| joined(&locks, Priority::LOW));
    let [x, y] = [0, 1].map(LockName::table);
    assert_eq!(locks.ask(&a, x, Mode::IX), Ok(Answer::Granted));
    assert_eq!(locks.ask(&b, y, Mode::IX), Ok(Answer::Granted));
    assert_eq!(locks.ask(&a, y, Mode::S), Ok(Answer::Wait));
    assert_eq!(locks.ask(&b, x, Mode::X), Ok(Answer::Wait));
    assert_eq!(locks.statistics().deadlocks, 1);
    let (victim, other) = if matches!(a.state(), State::Doomed(_)) { ((&a, x), (&b, y)) } else { ((&b, y), (&a, x)) };
    leave(&locks, victim.0, &[victim.1]);
    assert_eq!(locks.wait(other.0).outcome, Ok(Answer::Granted));
    leave(&locks, other.0, &[x, y]);
    assert_eq!(locks.name_count(), 0);
}

/// A holder of S of a table never meets a transaction that intends to write it, under any timing.
#[test]
fn intentions_and_whole_tables_exclude_each_other() {
    const TABLES: u32 = 2;
    let locks = LockTable::new(options("standard"));
    let writers: [AtomicU32; TABLES as usize] = Default::default();
    let readers: [AtomicU32; TABLES as usize] = Default::default();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (locks, writers, readers) = (&locks, &writers, &readers);
            scope.spawn(move || {
                let mut random = Pcg64::seed_from_u64(thread);
                let member = locks.join();
                for _ in 0..4_000 {
                    locks.begin(&member, Priority::LOW, 0);
                    let table = random.random_range(0..TABLES);
                    let name = LockName::table(table);
                    let mode = if random.random_bool(0.2) { Mode::S } else { Mode::IX };
                    let (mine, others) = if mode == Mode::S { (readers, writers) } else { (writers, readers) };
                    if locks.ask(&member, name, mode) == Ok(Answer::Wait) {
                        assert_eq!(locks.wait(&member).outcome, Ok(Answer::Granted));
                    }
                    mine[table as usize].fetch_add(1, Ordering::SeqCst);
                    assert_eq!(others[table as usize].load(Ordering::SeqCst), 0, "{mode:?}");
                    std::thread::yield_now();
                    assert_eq!(others[table as usize].load(Ordering::SeqCst), 0, "{mode:?}");
                    mine[table as usize].fetch_sub(1, Ordering::SeqCst);
                    locks.roll_back(&member);
                    locks.release(&member, name);
                    locks.end(&member);
                }
            });
        }
    });
    assert_eq!(locks.name_count(), 0);
    assert!((0..TABLES).all(|table| locks.gathering(table).load(Ordering::SeqCst) == 0), "a table gathers for nobody");
}
