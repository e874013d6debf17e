//! Lock schedules as text: which transactions ask, wait and are granted.

use super::*;

/// Runs a schedule, below its story a line a step: `T1 S` asks (rank 1), `T1! S` asks with rank 0, `T1 -` releases, `T1
/// x` cancels, `T1 > S` downgrades. After `=` the expected answer: `granted`, `converted`, `held`, `wait`, or the
/// transactions that a release lets in. `T1! ^` gives a waiter rank 0, `T1 ^` rank 1. A line `: T1 S, T2 X | T3 U`
/// states grants and queue.
fn check(schedule: &str) {
    let mut head = Head::default();
    for line in schedule.lines().skip(1).map(str::trim).filter(|line| !line.is_empty()) {
        if let Some(state) = line.strip_prefix(':') {
            assert_eq!(describe(&head).trim(), state.trim(), "at `{line}` of {schedule}");
            continue;
        }
        let (step, expected) = line.split_once('=').expect("a step has an expectation");
        assert_eq!(perform(&mut head, step.trim()), expected.trim(), "at `{line}` of {schedule}");
        check_invariants(&head);
    }
}

fn perform(head: &mut Head, step: &str) -> String {
    let words: Vec<&str> = step.split_whitespace().collect();
    let rank = Rank(u8::from(!words[0].ends_with('!')));
    let slot: Slot = words[0].trim_matches(['T', '!']).parse().expect("T and a number");
    let mut granted = Vec::new();
    let mut note = |waiter: Waiter| granted.push(format!("T{}", waiter.slot));
    match words[1] {
        "-" => head.release(slot, &mut note),
        "x" => assert!(head.cancel(slot, &mut note).is_some(), "{step}: was not waiting"),
        "^" => head.renew(slot, ticket(rank), &mut note),
        ">" => head.downgrade(slot, mode(words[2]), &mut note),
        wanted => {
            return format!("{:?}", head.request(slot, mode(wanted), || ticket(rank))).to_lowercase();
        }
    }
    granted.join(" ")
}

fn ticket(rank: Rank) -> Ticket {
    let requester = Requester { priority: Priority::LOW, rollbacks: 0 };
    Ticket { rank, requester, cpu: Priority::LOW, sequence: 0 }
}

fn mode(name: &str) -> Mode {
    Mode::ALL.into_iter().find(|mode| format!("{mode:?}") == name).expect("a mode")
}

fn describe(head: &Head) -> String {
    let mut grants = head.grants().to_vec();
    grants.sort_by_key(|grant| grant.slot);
    let grants: Vec<_> = grants.iter().map(|grant| format!("T{} {:?}", grant.slot, grant.mode)).collect();
    let queue: Vec<_> = head.queue().iter().map(|waiter| format!("T{} {:?}", waiter.slot, waiter.mode)).collect();
    format!("{} | {}", grants.join(", "), queue.join(", "))
}

fn check_invariants(head: &Head) {
    for (at, a) in head.grants().iter().enumerate() {
        for b in &head.grants()[at + 1..] {
            assert_ne!(a.slot, b.slot, "two grants of one transaction");
            assert!(a.mode.is_compatible(b.mode), "{a:?} with {b:?}");
        }
    }
}

/// Schedules, each below its story.
const SCHEDULES: &str = "
    # readers share and a writer waits for all
    T1 S = granted
    T2 S = granted
    T3 X = wait
    T4 S = wait
    : T1 S, T2 S | T3 X, T4 S
    T1 - =
    T2 - = T3
    T3 - = T4
    : T4 S |

    # a conversion goes ahead of everybody
    T1 S = granted
    T2 S = granted
    T3 X = wait
    T1 X = wait
    : T1 S, T2 S | T1 X, T3 X
    T2 - = T1
    : T1 X | T3 X
    T1 - = T3

    # an update lock admits readers but no second updater
    T1 U = granted
    T2 S = granted
    T3 U = wait
    T1 X = wait
    T2 - = T1
    T1 - = T3
    : T3 U |

    # better ranks are served first in order of arrival
    T1 X = granted
    T2 X = wait
    T3! X = wait
    T4! X = wait
    : T1 X | T3 X, T4 X, T2 X
    T1 - = T3
    T3 - = T4
    T4 - = T2

    # a better rank that goes with the holders passes waiters
    T1 S = granted
    T2 X = wait
    T3 S = wait
    T4! S = granted
    : T1 S, T4 S | T2 X, T3 S

    # intentions go together and a table reader shuts writers out
    T1 IX = granted
    T2 IX = granted
    T3 S = wait
    T4 IS = wait
    T1 - =
    T2 - = T3 T4
    T4 IX = wait
    T3 - = T4
    T4 S = converted
    : T4 SIX |

    # cancelling lets those behind in
    T1 S = granted
    T2 X = wait
    T3 S = wait
    T2 x = T3
    : T1 S, T3 S |

    # holding enough is held and a downgrade lets readers in
    T1 SIX = granted
    T1 S = held
    T1 IX = held
    T2 S = wait
    T1 > S = T2
    : T1 S, T2 S |

    # a better rank moves a waiter ahead but not of those who came before it
    T1 X = granted
    T2 X = wait
    T3 X = wait
    T4 X = wait
    T4! ^ =
    : T1 X | T4 X, T2 X, T3 X
    T3! ^ =
    : T1 X | T3 X, T4 X, T2 X
    T3 ^ =
    : T1 X | T4 X, T2 X, T3 X
    T1 - = T4

    # whoever moves to the front is granted what goes with the holders
    T1 S = granted
    T2 X = wait
    T3 S = wait
    T3! ^ = T3
    : T1 S, T3 S | T2 X
";

#[test]
fn every_schedule_goes_as_written() {
    SCHEDULES.split('#').skip(1).for_each(check);
}

/// The holders that block each waiter, the waiters that each holder blocks, and the waiters that are only ahead.
#[test]
fn in_the_way_are_conflicting_holders_and_conversions_ahead() {
    let mut head = Head::default();
    for (slot, mode) in [(1, Mode::S), (2, Mode::S), (3, Mode::X), (4, Mode::S), (1, Mode::U)] {
        head.request(slot, mode, || ticket(Rank(0)));
    }
    assert_eq!(head.request(2, Mode::X, || ticket(Rank(0))), Answer::Wait);
    assert_eq!(describe(&head), "T1 U, T2 S | T2 X, T3 X, T4 S");
    let none = vec![];
    for (waiter, expect, ahead) in
        [(2, vec![1], &none), (3, vec![1, 2], &none), (4, vec![2], &vec![3]), (1, vec![], &none)]
    {
        let mut found = Vec::new();
        head.holders_in_the_way(waiter, |holder| found.push(holder));
        assert_eq!(found, expect, "in the way of T{waiter}");
        for holder in 1..=4 {
            let mut behind = Vec::new();
            head.waiters_behind(holder, |waiter| behind.push(waiter.slot));
            assert_eq!(behind.contains(&waiter), expect.contains(&holder), "T{waiter} behind T{holder}");
            let block = match holder {
                _ if expect.contains(&holder) => Some(Block::Grant),
                _ if ahead.contains(&holder) => Some(Block::Queue),
                _ => None,
            };
            assert_eq!(head.blocked_by(waiter, holder).map(|(_, block)| block), block, "T{waiter} by T{holder}");
        }
        assert_eq!(head.queue_ahead(waiter).collect::<Vec<_>>(), *ahead, "ahead of T{waiter}");
    }
}

#[test]
fn the_first_grant_to_another_waiter_is_remembered() {
    let mut head = Head::default();
    for slot in 1..=3 {
        head.request(slot, Mode::X, || ticket(Rank(0)));
    }
    let passed = |head: &Head| head.queue().iter().map(Waiter::passed).collect::<Vec<_>>();
    head.release(1, |_| ());
    head.note_grant(Duration::from_secs(5));
    head.request(4, Mode::X, || ticket(Rank(0)));
    assert_eq!(passed(&head), [Some(Duration::from_secs(5)), None]);
    head.note_grant(Duration::from_secs(6));
    assert_eq!(passed(&head), [5, 6].map(|seconds| Some(Duration::from_secs(seconds))));
}

#[test]
fn an_inherited_grant_disturbs_nobody() {
    let mut head = Head::default();
    head.request(1, Mode::IX, || ticket(Rank(0)));
    assert_eq!(head.grant_unconditionally(2, Mode::S, |_| ()), Answer::Granted);
    assert_eq!(head.grant_unconditionally(2, Mode::S, |_| ()), Answer::Held);
    head.release(1, |_| panic!("nobody waits"));
    assert_eq!(head.request(3, Mode::IX, || ticket(Rank(0))), Answer::Wait);
}

/// Regression test: a waiter that inherited a grant on the name it waited for once waited for itself forever, and no
/// cycle showed it.
#[test]
fn a_waiter_that_inherits_here_does_not_wait_for_itself() {
    let mut head = Head::default();
    head.request(1, Mode::S, || ticket(Rank(0)));
    assert_eq!(head.request(2, Mode::IX, || ticket(Rank(0))), Answer::Wait);
    assert_eq!(head.grant_unconditionally(2, Mode::S, |_| panic!("T1 still reads")), Answer::Granted);
    let mut granted = Vec::new();
    head.release(1, |waiter| granted.push((waiter.slot, waiter.mode, waiter.conversion)));
    assert_eq!(granted, [(2, Mode::SIX, true)]);
    assert!(head.give_up_intention(2, |_| ()), "it has still read the gap");
    assert_eq!(head.grants(), [Grant { slot: 2, mode: Mode::S }]);
}
