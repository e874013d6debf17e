//! The text of a rehearsal with something of everything.

use crate::check::Check;
use crate::plan::{Plan, Selection};
use crate::replay::{Done, Outcome, Pace, Ran, Run, Speed};
use crate::result::{CaptureShown, PlanShown, StatementComparison, faults, server_result};
use crate::skip::Reason;
use crate::testing::events;

use super::*;

/// A rehearsal in which everything took twice as long, one unit failed, and one was not sent.
fn rehearsal() -> Rehearsal {
    let mut table = String::new();
    for at in 0..200_u64 {
        let begin = at * 10;
        table.push_str(&format!(
            "1 | {begin}-{} | I | select name from items where id = {at} | name@5=bolt\n",
            begin + 2
        ));
    }
    let plan = Plan::of(events(&table), &Selection::ALL);
    let done = |(unit, planned): (usize, &crate::plan::Planned)| {
        let mut answered = planned.recorded;
        if unit == 5 {
            answered.error = Some(*b"42P01");
        }
        if unit == 6 {
            answered.checksum += 1;
        }
        let ran = Ran { took_us: 2 * planned.took_us, lag_us: 40, late_us: 30, answered };
        Done {
            session: 0,
            unit,
            outcome: if unit == 7 { Outcome::Skipped(Reason::SessionLost) } else { Outcome::Ran(ran) },
        }
    };
    let done = plan.sessions[0].units.iter().enumerate().map(done).collect();
    let run = Run { done, elapsed: std::time::Duration::from_secs(2), lost: vec!["gone".to_owned()] };
    let check =
        Check { version: "18.6".to_owned(), statements: 1, failures: Vec::new(), unchecked: 0, sessions_free: None };
    let pace = Pace { speed: Speed::Times(1.0), copies: 1, patience: std::time::Duration::from_secs(1) };
    let server = server_result("postgres://db/shop".to_owned(), check, &plan, &[run], pace);
    let invalid = faults(&server, &plan);
    Rehearsal {
        plimsoll: "0",
        capture: CaptureShown {
            folder: "traffic".to_owned(),
            began: String::new(),
            server_version: Some(170_002),
            redacted: false,
            faults: Vec::new(),
            facts: plan.facts,
        },
        speed: Some(1.0),
        copies: 1,
        servers: vec![server],
        comparison: None,
        notes: vec!["a note".to_owned()],
        invalid,
    }
}

#[test]
fn a_rehearsal_reads_well() {
    let rehearsal = rehearsal();
    let text = render(&rehearsal);
    for expect in [
        "traffic, recorded on PostgreSQL 17.2: 200 units in 1.99 s, replayed at its own speed",
        "1 unit not sent: their sessions could not be opened, or were lost",
        "1 unit failed and had not failed in the recording, 0 of the recorded errors",
        "and 1 of 198 compared",
        "units began 40 µs (p50), 40 µs (p95), at most 40 µs after their time",
        "2.00 (2.00 to 2.00)",
        "[errors none → 42P01: 1]",
        "note: a note",
    ] {
        let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(flat.contains(&expect.replace('\n', " ")), "{expect}\n{text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(!text.contains("not valid"), "{text}");
}

#[test]
fn a_replay_that_mostly_failed_is_not_valid() {
    let mut rehearsal = rehearsal();
    let (table, plan) = (String::new(), Plan::of(events("1 | 0-1 | I | select 1"), &Selection::ALL));
    assert!(table.is_empty());
    let server = &mut rehearsal.servers[0];
    server.failed = 150;
    assert!(faults(server, &plan)[0].contains("of 200 units 150 failed and 1 were not sent"));
    server.failed = 0;
    server.lag.late_us_p95 = Some(20_000);
    server.lag.p95_us = Some(1_500_000);
    let told = faults(server, &plan);
    assert!(told[0].contains("began 20.0 ms or more after its time") && told[1].contains("fell behind"), "{told:?}");
    server.sent = 0;
    assert_eq!(faults(server, &plan), ["postgres://db/shop: no unit was sent"]);
}

#[test]
fn two_servers_are_compared_in_a_sentence_with_plans() {
    let mut rehearsal = rehearsal();
    let other = ServerResult {
        check: Check { version: "15.18".to_owned(), ..rehearsal.servers[0].check.clone() },
        ..rehearsal.servers[0].clone()
    };
    rehearsal.servers.push(other);
    let shown = |plan: &str| PlanShown { plan: Some(plan.to_owned()), why_not: None };
    let slower = |text: &str, before: PlanShown, now: PlanShown| StatementComparison {
        text: text.to_owned(),
        times_as_fast: Estimate { value: 0.5, low: Some(0.4), high: Some(0.6) },
        plan_before: before,
        plan_now: now,
    };
    rehearsal.comparison = Some(Comparison {
        times_as_fast: Some(Estimate { value: 1.12, low: Some(1.05), high: Some(1.19) }),
        turns: 3,
        slower: vec![
            slower("select ?", shown("Index Scan\n  on items"), shown("Seq Scan")),
            slower("select a", shown("Result"), shown("Result")),
            slower("select b", shown("Result"), PlanShown { plan: None, why_not: Some("it is gone".to_owned()) }),
        ],
        faster: 4,
        alike: 9,
    });
    let text = render(&rehearsal);
    for expect in [
        "PostgreSQL 18.6 is 1.12 (1.05 to 1.19) times as fast as PostgreSQL 15.18 on this\ntraffic (3 turns each).",
        "3 kinds of statements are slower, 4 are faster, and 9 show no difference.",
        "  - 0.50 (0.40 to 0.60) times as fast: select ?\n    its plan on the other server:\n      Index Scan\n        on items\n    its plan on the target:\n      Seq Scan\n",
        "select a\n    the plan is the same\n",
        "    its plan on the target:\n      it is gone\n",
    ] {
        assert!(text.contains(expect), "{expect}\n{text}");
    }
}
