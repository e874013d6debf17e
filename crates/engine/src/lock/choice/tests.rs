//! Dependency sets of made-up waits. The rest is tested by schedules and simulations in `tests/`.

use super::*;

/// The waits of names, each with its waiters and its holders.
fn waits<const N: usize>(names: [(&[Slot], &[Slot]); N]) -> Waits {
    let mut waits = Waits::default();
    names.into_iter().for_each(|(waiters, holders)| waits.add(waiters.to_vec(), holders.iter().copied()));
    waits
}

#[test]
fn chains_are_followed_and_a_transaction_counts_once() {
    let waits = waits([(&[2, 3], &[1]), (&[4], &[2, 3]), (&[5], &[4]), (&[7], &[6])]);
    let expect: [(Slot, &[Slot]); 5] = [(1, &[1, 2, 3, 4, 5]), (3, &[3, 4, 5]), (5, &[5]), (6, &[6, 7]), (9, &[9])];
    for (slot, dependents) in expect {
        assert_eq!(waits.dependents(slot), dependents, "of {slot}");
    }
}

#[test]
fn a_cycle_ends() {
    let waits = waits([(&[2], &[1]), (&[3], &[2]), (&[1, 4], &[3]), (&[1], &[1])]);
    for slot in 1..=3 {
        assert_eq!(waits.dependents(slot), [1, 2, 3, 4], "of {slot}");
    }
}

#[test]
fn a_group_is_of_modes_that_are_compatible_and_each_that_is_so_with_itself_has_one() {
    for a in Mode::ALL {
        assert_eq!(group(a).is_some(), a.is_compatible(a), "{a:?}");
        for b in Mode::ALL.into_iter().filter(|b| group(a).is_some() && group(a) == group(*b)) {
            assert!(a.is_compatible(b), "{a:?} {b:?}");
        }
    }
}
