//! What each scheduler does about holders that block waiters.

use super::*;

/// Schedules, each below the schedulers that behave in this way and its story. `counts` is followed by some of the
/// final statistics; `nothing`: all are 0.
const SCHEDULES: &str = "
    # standard, nprio: schedulers without verdicts let holders finish
    L1 a X = granted
    L2 b X = granted
    L1 b X = wait
    H1 a X = wait
    L2 commits = done, L1 granted
    L1 commits = done, H1 granted
    counts nothing

    # pabort: a running holder is rolled back at its next request
    L1 a X = granted
    L1 b X = granted
    L2 b S = wait
    H1 a X = wait, L1 doomed
    L1 a S = preempted
    L1 b X = preempted
    L1 commits = preempted
    L1 ends = H1 granted, L2 granted
    counts preempted: 1, preempted_waiting: 0

    # pabort: a waiting holder is woken
    L1 a X = granted
    L2 b X = granted
    L1 b X = wait
    H1 a X = wait, L1 preempted
    L1 ends = H1 granted
    L2 commits = done

    # pow: a runner is waited for, and rolled back when it waits
    L1 a X = granted
    L2 b X = granted
    H1 a X = wait
    L1 b X = wait, L1 preempted
    L1 ends = H1 granted
    L2 commits = done
    counts preempted: 0, preempted_waiting: 1

    # pow: a waiter is rolled back at once, and who never waits is spared
    L1 a X = granted
    L2 b X = granted
    L1 b X = wait
    H1 a X = wait, L1 preempted
    L1 ends = H1 granted
    H2 b X = wait
    L2 c X = granted
    L2 commits = done, H2 granted

    # pow: a requester that has gone is forgotten
    L1 a X = granted
    L2 b X = granted
    H1 a X = wait
    H1 ends =
    L1 b X = wait
    L2 commits = done, L1 granted
    L3 a X = wait
    L4 c X = granted
    L1 c X = wait
    counts nothing

    # pow: verdicts are asked about conversions that wait ahead
    L1 a IS = granted
    L2 a S = granted
    H1 a S = granted
    H2 a IX = wait
    L1 a IX = wait, L1 preempted
    H1 commits = done

    # pabort: the grant of L1 is not in the way of H1, but its conversion waits ahead
    L1 a IS = granted
    L2 a S = granted
    L1 a IX = wait
    H1 a S = wait, H1 granted, L1 preempted
    L1 ends =

    # pabort: verdicts are asked about holders that come to be in the way
    // L1 converts at once, past a waiter that its intention to read did not block.
    L1 a IS = granted
    H1 a IX = granted
    H2 a SIX = wait
    L1 a IX = converted, L1 doomed

    # cr(300ms): verdicts are asked about holders that come to be in the way
    // L1 is granted a mode that is compatible with the mode of H1; H2 has waited before it only for H1.
    H1 a S = granted
    L1 a IS = granted
    H2 a X = wait
    H1 commits = done
    +299ms =
    L1 b S = granted
    +1ms = L1 doomed

    # cr(300ms): each holder is given its time
    L1 a S = granted
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
    L2 ends = H2 granted
    counts preempted: 0, preempted_late: 1

    # cr(300ms): a reprieve is for one transaction and one requester
    L1 a X = granted
    H1 a X = wait
    +200ms =
    T1 a X = wait
    H1 ends =
    +100ms =
    +199ms =
    +1ms = L1 doomed

    # wdl: no waiter that is waited for is left
    H1 a X = granted
    H2 b X = granted
    H1 b X = wait
    L1 a X = wait, H1 preempted
    H1 ends = L1 granted
    L2 a X = wait
    L1 b X = wait, L1 preempted
    counts preempted_waiting: 2

    # nprio-inherit: a holder moves ahead in the queue in which it waits, and inheritance goes on from there
    // L3 inherits of H1; then L1, L2 and L3 of T1.
    L1 a X = granted
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
    H1 commits = done, L4 granted
    counts inheritances: 4

    # nprio-inherit: who waits for a holder that waits passes its priority on when it begins to
    L1 a X = granted
    H1 a X = wait
    L2 b X = granted
    L3 b X = wait
    L1 b X = wait
    L2 commits = done, L1 granted
    L1 commits = done, H1 granted, L3 granted

    # nprio-inherit: nobody is rolled back for a cycle that inheritance undoes
    // L5 moves ahead of L4 and L3, and would for a moment be in a cycle with L1: L1 waits for c of L3, which waits
    // behind L5. But L3 inherits, too, and came before L5. The search for cycles starts when all places are final.
    L1 b IS = granted
    L2 b IX = granted
    L3 c X = granted
    L4 b S = wait
    L3 b IX = wait
    L5 a X = granted
    L5 b X = wait
    L1 c X = wait
    H1 a X = wait, L3 granted
    counts inheritances: 4, deadlocks: 0

    # pabort, pow, wdl, cr(1ms): a promoted transaction is nobody's victim
    P1 a X = granted
    P2 b X = granted
    P1 b X = wait
    +5ms =
    T1 a X = wait
    +5ms =
    counts promotions: 2, deadlocks: 0, inheritances: 0

    # nprio: deadlocks are found through queues and cost the cheapest
    L1 a S = granted
    L2 b X = granted
    H1 a X = wait
    L2 a S = wait
    L1 b X = wait, L2 deadlock
    L2 ends = L1 granted
    L1 commits = done, H1 granted
    counts deadlocks: 1

    # standard: deadlocks are found through queues and cost the cheapest
    L1 a S = granted
    L2 a S = granted
    L1 a X = wait
    L2 a X = wait, L2 deadlock
    L2 ends = L1 converted
";

#[test]
fn every_schedule_goes_as_written() {
    for schedule in SCHEDULES.split("\n    # ").skip(1) {
        let (title, steps) = schedule.split_once('\n').expect("there are steps");
        let (schedulers, _) = title.split_once(": ").expect("schedulers and a story");
        let (steps, counts) = steps.split_once("counts ").unwrap_or((steps, ""));
        for scheduler in schedulers.split(", ") {
            let statistics = check(scheduler, &format!("// {title}\n{steps}"));
            if counts.trim() == "nothing" {
                assert_eq!(statistics, LockStatistics::default(), "{title}");
                continue;
            }
            let found = format!("{statistics:?}");
            for count in counts.trim().split(", ").filter(|count| !count.is_empty()) {
                assert!(found.contains(&format!(" {count},")), "{title}, {scheduler}: {found} instead of {count}");
            }
        }
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
    // On a separate thread, so that no other test depends on its nice value.
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
            // Queues do not change: H1 is behind L3.
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
