//! The words for machines that are not this one, letter by letter.

use super::*;
use crate::counters::reading::tests::reading_of;
use crate::facts::tests::{small_guest, small_guest_live};
use crate::top_down::Family;

const SMALL_GUEST: &str = "\
Machine
  processor   AMD EPYC (AuthenticAMD-25-17-1)
  cores       1 usable of 2 online; 1 socket, 1 hardware thread per core
  L1d cache   32 KiB, 8 ways, own of each logical core; 2 in all
  L1i cache   32 KiB, 8 ways, own of each logical core; 2 in all
  L2 cache    1 MiB, 8 ways, own of each logical core; 2 in all
  L3 cache    32 MiB, ways unknown, shared by 2 logical cores; 1 in all
  memory      23.5 GiB, 8 GiB by cgroup limit
  kernel      Linux 6.18.44
  guest of    kvm

What can be measured and limited here
  no   hardware counters
       the kernel sees no performance counters in this processor
       (perf_event_open: No such file or directory (os error 2))
       remedy: run on bare metal, or in a guest with a virtual PMU (QEMU: -cpu
               host,pmu=on; clouds: a metal or full-socket size)
  yes  thread scheduling times
       /proc/self/task/TID/schedstat: time on a core and waiting for one
  yes  disk statistics
       /proc/diskstats of vda
  no   CPU without quota
       a cgroup quota of 1.50 cores: threads are stopped when it is used up,
       which shows as waiting
       remedy: start the container without a CPU limit, or give it a cpuset
               instead
  yes  cgroup controllers
       cgroup version 1; writable: cpu memory; absent: cpuset io
  no   cache allocation (resctrl)
       the processor of this guest does not have it (no cat_l3 flag)
       remedy: run on bare metal whose processor has it (Intel RDT, AMD QoS);
               hypervisors rarely pass it on
  no   memory bandwidth limit (resctrl)
       the processor of this guest does not have it (no mba flag)
       remedy: run on bare metal whose processor has it (Intel RDT, AMD QoS);
               hypervisors rarely pass it on

Counters during a test of random loads (this thread, user mode)
  none: the kernel sees no performance counters in this processor
        (perf_event_open: No such file or directory (os error 2))
";

#[test]
fn a_small_guest_without_counters() {
    let fake = small_guest();
    let live = small_guest_live(&fake);
    let text = describe(&MachineFacts::of(&fake.host(), &live), &live.counters);
    assert_eq!(text, SMALL_GUEST);
    assert!(text.lines().all(|line| line.chars().count() <= WIDTH));
}

#[test]
fn a_reading_with_figures_missing() {
    let mut text = String::new();
    let first = [("cycles", 1_234_567_890), ("instructions", 617_283_945), ("l1d_misses", 12), ("branch_misses", 0)];
    let second = [
        ("cycles", 1_000_000),
        ("ex_ret_ops", 2_400_000),
        ("de_dis_uop_queue_empty_di0", 200_000),
        ("de_dis_dispatch_token_stalls1", 200_000),
        ("de_dis_dispatch_token_stalls2", 100_000),
    ];
    let mut reading = reading_of(&[(75, 75, &first), (25, 25, &second)]);
    reading.family = Some(Family::Zen3);
    reading.notes =
        vec!["last-level cache misses are not offered here (No such file or directory (os error 2))".into()];
    write_reading(&mut text, &reading);
    assert_eq!(
        text,
        "                                        estimate  coverage
  cycles                           1,235,567,890     100 %
  instructions                       823,045,260      75 %
  branches                                     -
  branch misses                                0      75 %
  first-level data cache loads                 -
  first-level data cache misses               16      75 %
  second-level cache misses                    -
  last-level cache loads                       -
  last-level cache misses                      -
  data TLB loads                               -
  data TLB misses                              -
  misses served by L2                          -
  misses served by L3                          -
  misses served by memory                      -
  instructions per cycle                    0.50
  top-down: AMD Zen 3 by cycles of dispatch stalls, approximate
    retiring                              40.0 %
    bad speculation                       10.0 %
    frontend                              20.0 %
    backend                               30.0 %
  note: last-level cache misses are not offered here (No such file or directory
        (os error 2))
  note: no memory reads: lines read from memory were not counted
  note: cycle-based approximation: retiring is in slots, frontend and backend
        are in cycles, the backend is an upper bound and bad speculation is the
        rest; not comparable with processors that count slots
"
    );
}

#[test]
fn long_text_is_wrapped_and_long_words_are_not_cut() {
    let wide = "w".repeat(100);
    let mut text = String::new();
    write_item(&mut text, "  a ", &format!("b {wide} c"));
    assert_eq!(text, format!("  a b\n    {wide}\n    c\n"));
    let mut text = String::new();
    write_item(&mut text, "  a ", "");
    assert_eq!(text, "  a \n");
}

#[test]
fn sizes_and_counts() {
    let check = |value, expect: &str| assert_eq!(bytes(value), expect);
    check(0, "0 B");
    check(32 << 10, "32 KiB");
    check(24_684_084 * 1024, "23.5 GiB");
    check(1 << 30, "1 GiB");
    assert_eq!(grouped(0), "0");
    assert_eq!(grouped(999), "999");
    assert_eq!(grouped(1000), "1,000");
    assert_eq!(grouped(1_234_567), "1,234,567");
    assert_eq!((count(1, "socket"), count(2, "socket")), ("1 socket".into(), "2 sockets".into()));
}
