//! What each scheduler does about holders in the way.

use super::*;

#[test]
fn schedulers_without_verdicts_let_holders_finish() {
    for scheduler in ["standard", "nprio"] {
        let statistics = check(
            scheduler,
            "L1 a X = granted
             L2 b X = granted
             L1 b X = wait
             H1 a X = wait
             L2 commits = done, L1 granted
             L1 commits = done, H1 granted",
        );
        assert_eq!(statistics, LockStatistics::default());
    }
}

#[test]
fn pabort_rolls_a_running_holder_back_at_its_next_request() {
    let statistics = check(
        "pabort",
        "L1 a X = granted
         L1 b X = granted
         L2 b S = wait
         H1 a X = wait, L1 doomed
         L1 a S = preempted
         L1 b X = preempted
         L1 commits = preempted
         L1 ends = H1 granted, L2 granted",
    );
    assert_eq!((statistics.preempted, statistics.preempted_waiting), (1, 0));
}

#[test]
fn pabort_wakes_a_waiting_holder() {
    check(
        "pabort",
        "L1 a X = granted
         L2 b X = granted
         L1 b X = wait
         H1 a X = wait, L1 preempted
         L1 ends = H1 granted
         L2 commits = done",
    );
}

#[test]
fn pow_waits_for_a_runner_and_rolls_it_back_when_it_waits() {
    let statistics = check(
        "pow",
        "L1 a X = granted
         L2 b X = granted
         H1 a X = wait
         L1 b X = wait, L1 preempted
         L1 ends = H1 granted
         L2 commits = done",
    );
    assert_eq!((statistics.preempted, statistics.preempted_waiting), (0, 1));
}

#[test]
fn pow_rolls_a_waiter_back_at_once_and_spares_who_never_waits() {
    check(
        "pow",
        "L1 a X = granted
         L2 b X = granted
         L1 b X = wait
         H1 a X = wait, L1 preempted
         L1 ends = H1 granted
         H2 b X = wait
         L2 c X = granted
         L2 commits = done, H2 granted",
    );
}

#[test]
fn pow_forgets_a_requester_that_has_gone() {
    let statistics = check(
        "pow",
        "L1 a X = granted
         L2 b X = granted
         H1 a X = wait
         H1 ends =
         L1 b X = wait
         L2 commits = done, L1 granted
         L3 a X = wait
         L4 c X = granted
         L1 c X = wait",
    );
    assert_eq!(statistics, LockStatistics::default());
}

#[test]
fn verdicts_are_asked_about_conversions_that_wait_ahead() {
    check(
        "pow",
        "L1 a IS = granted
         L2 a S = granted
         H1 a S = granted
         H2 a IX = wait
         L1 a IX = wait, L1 preempted
         H1 commits = done",
    );
    // The grant of L1 is not in the way of H1, but its conversion waits ahead.
    check(
        "pabort",
        "L1 a IS = granted
         L2 a S = granted
         L1 a IX = wait
         H1 a S = wait, H1 granted, L1 preempted
         L1 ends = ",
    );
}

#[test]
fn verdicts_are_asked_about_holders_that_come_to_be_in_the_way() {
    // L1 converts at once, past a waiter whom its intention to read did not disturb.
    check(
        "pabort",
        "L1 a IS = granted
         H1 a IX = granted
         H2 a SIX = wait
         L1 a IX = converted, L1 doomed",
    );
    // L1 is granted a mode that goes with what H1 holds; H2 has waited before it only for H1.
    check(
        "cr(300ms)",
        "H1 a S = granted
         L1 a IS = granted
         H2 a X = wait
         H1 commits = done
         +299ms =
         L1 b S = granted
         +1ms = L1 doomed",
    );
}

#[test]
fn conditional_restart_gives_each_holder_its_time() {
    let statistics = check(
        "cr(300ms)",
        "L1 a S = granted
         H1 a X = wait
         +100ms =
         L1 commits = done, H1 granted
         +300ms =
         H1 commits = done
         L2 a X = granted
         L3 b X = granted
         L2 b X = wait
         H2 a X = wait
         +299ms =
         +1ms = L2 preempted
         L2 ends = H2 granted",
    );
    assert_eq!((statistics.preempted, statistics.preempted_late), (0, 1));
}

#[test]
fn a_reprieve_is_for_one_transaction_and_one_requester() {
    check(
        "cr(300ms)",
        "L1 a X = granted
         H1 a X = wait
         +200ms =
         T1 a X = wait
         H1 ends =
         +100ms =
         +199ms =
         +1ms = L1 doomed",
    );
}

#[test]
fn wdl_leaves_no_waiter_that_is_waited_for() {
    let statistics = check(
        "wdl",
        "H1 a X = granted
         H2 b X = granted
         H1 b X = wait
         L1 a X = wait, H1 preempted
         H1 ends = L1 granted
         L2 a X = wait
         L1 b X = wait, L1 preempted",
    );
    assert_eq!(statistics.preempted_waiting, 2);
}

#[test]
fn inheritance_moves_a_holder_ahead_in_the_queue_in_which_it_waits_and_goes_on_from_there() {
    let statistics = check(
        "nprio-inherit",
        "L1 a X = granted
         L2 b X = granted
         L3 c X = granted
         L2 c X = wait
         L4 c X = wait
         H1 c S = wait
         L5 b X = wait
         L1 b X = wait
         T1 a X = wait
         L3 commits = done, L2 granted
         L2 commits = done, H1 granted, L1 granted
         L1 commits = done, L5 granted, T1 granted
         H1 commits = done, L4 granted",
    );
    // L3 of H1; then L1, L2 and L3 of T1.
    assert_eq!(statistics.inheritances, 4);
}

#[test]
fn who_waits_for_a_holder_that_waits_passes_its_priority_on_when_it_begins_to() {
    check(
        "nprio-inherit",
        "L1 a X = granted
         H1 a X = wait
         L2 b X = granted
         L3 b X = wait
         L1 b X = wait
         L2 commits = done, L1 granted
         L1 commits = done, H1 granted, L3 granted",
    );
}

/// L5 moves ahead of L4 and L3, and would for a moment wait for L1 in a circle: L1 waits for c of L3, which waits behind L5. But
/// L3 inherits, too, and came before L5. Cycles are looked for when all have the places that they are to have.
#[test]
fn nobody_is_rolled_back_for_a_cycle_that_inheritance_undoes() {
    let statistics = check(
        "nprio-inherit",
        "L1 b IS = granted
         L2 b IX = granted
         L3 c X = granted
         L4 b S = wait
         L3 b IX = wait
         L5 a X = granted
         L5 b X = wait
         L1 c X = wait
         H1 a X = wait, L3 granted",
    );
    assert_eq!((statistics.inheritances, statistics.deadlocks), (4, 0));
}

#[test]
fn a_promoted_transaction_is_nobodys_victim() {
    for scheduler in ["pabort", "pow", "wdl", "cr(1ms)"] {
        let statistics = check(
            scheduler,
            "P1 a X = granted
             P2 b X = granted
             P1 b X = wait
             +5ms =
             T1 a X = wait
             +5ms =",
        );
        assert_eq!(statistics.promotions, 2, "{scheduler}");
        assert_eq!(statistics.deadlocks + statistics.inheritances, 0, "{scheduler}");
    }
}

#[test]
fn cpu_schedulers_decide_about_holders_too() {
    let clock = Arc::new(StoppedClock::default());
    let stage = |cpu: &str| {
        let cpu = CpuPriority::new(cpu_scheduler(cpu).expect("listed"));
        let locks = LockTable::new(LockOptions { cpu, ..options("standard") });
        Stage { locks, clock: Arc::clone(&clock), actors: BTreeMap::new() }
    };
    // On a thread of its own, whose nice value nobody else has.
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let preempted = perform_all(
                stage("p-cpu"),
                "L1 a X = granted
                 L2 a X = wait
                 H1 a X = wait, L1 doomed
                 L1 ends = L2 granted, L2 doomed",
            );
            assert_eq!(preempted.preempted, 2);
            // Queues stay as they are: H1 is behind L3.
            let inherited = perform_all(
                stage("cpu-prio-inherit"),
                "L1 a X = granted
                 L2 b X = granted
                 L1 b X = wait
                 L3 a X = wait
                 H1 a X = wait
                 L2 commits = done, L1 granted
                 L1 commits = done, L3 granted",
            );
            assert_eq!(inherited.inheritances, 3, "L1, L2 of L1, then L3");
        });
    });
}
