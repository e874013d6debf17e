//! Trials with the kernel's own events, including some that do not exist and one that never counts.

use perf_event::events::Software;
use plimsoll_testing::{Need, skip};

use super::super::plan::Plan;
use super::super::source::Source;
use super::*;

fn event(key: &'static str, numbers: &[Software], counts_always: bool) -> WantedEvent {
    let sources = numbers.iter().map(|number| Source::software(&format!("software {number:?}"), *number)).collect();
    WantedEvent { key, sources, counts_always }
}

const NONE: Software = Software(9999);

fn group(own: Vec<WantedEvent>, whole: bool) -> WantedGroup {
    let lead = vec![event("task_clock_ns", &[Software::TASK_CLOCK], true)];
    WantedGroup { name: "group".into(), lead, own, own_first: false, whole }
}

fn faults(numbers: &[Software]) -> WantedEvent {
    event("page_faults", numbers, false)
}

/// Settles wishes; `None` where counting is forbidden, as in containers.
fn settled(wishes: Vec<Vec<WantedGroup>>) -> Option<Result<Plan, CountersUnavailable>> {
    let mut plan = Plan {
        groups: Vec::new(),
        family: None,
        slots_per_cycle: None,
        why_no_top_down: None,
        spins: None,
        notes: BTreeSet::new(),
    };
    match plan.settle(&Host::real(), wishes) {
        Err(why @ (CountersUnavailable::NotPermitted { .. } | CountersUnavailable::Blocked(_))) => {
            skip(Need::PerfEvents, why);
            None
        }
        settled => Some(settled.map(|()| plan)),
    }
}

/// Checks the keys of the groups found and the notes; each note must contain its text.
fn check(wishes: Vec<Vec<WantedGroup>>, keys: &[&[&str]], notes: &[&str]) {
    let Some(plan) = settled(wishes) else { return };
    let plan = plan.unwrap();
    let found: Vec<Vec<&str>> = plan.groups().map(|(_, keys)| keys).collect();
    assert_eq!(found, keys, "{plan:?}");
    let told: Vec<&str> = plan.notes().collect();
    assert_eq!(told.len(), notes.len(), "{told:?}");
    for (told, expect) in told.iter().zip(notes) {
        assert!(told.contains(expect), "{told}");
    }
}

#[test]
fn the_first_source_that_opens_is_taken() {
    let wanted = group(vec![faults(&[NONE, Software::PAGE_FAULTS])], false);
    check(vec![vec![wanted]], &[&["task_clock_ns", "page_faults"]], &[]);
}

#[test]
fn an_event_that_is_not_offered_is_left_out() {
    let wanted = group(vec![faults(&[NONE]), event("other", &[Software::DUMMY], false)], false);
    check(vec![vec![wanted]], &[&["task_clock_ns", "other"]], &["page_faults are not offered here"]);
}

#[test]
fn a_group_that_is_of_use_only_as_a_whole_is_refused() {
    let wanted = || group(vec![faults(&[NONE]), event("other", &[Software::DUMMY], false)], true);
    let other = group(vec![faults(&[Software::PAGE_FAULTS])], true);
    check(
        vec![vec![wanted()], vec![other.clone()]],
        &[&["task_clock_ns", "page_faults"]],
        &["group: page_faults are not"],
    );
    // An alternative works, so there is nothing to report.
    check(vec![vec![wanted(), other]], &[&["task_clock_ns", "page_faults"]], &[]);
}

#[test]
fn an_event_that_stands_still_is_not_used() {
    let still = || event("still", &[Software::DUMMY], true);
    let wanted = group(vec![still(), faults(&[Software::PAGE_FAULTS])], false);
    check(vec![vec![wanted]], &[&["task_clock_ns", "page_faults"]], &["still (software"]);
    let wanted = group(vec![still()], true);
    let Some(settled) = settled(vec![vec![wanted]]) else { return };
    let why = settled.unwrap_err();
    assert!(matches!(&why, CountersUnavailable::NothingCounts(_)), "{why:?}");
    assert!(why.to_string().contains("stand at 0 here"), "{why}");
    assert!(why.remedy().is_some());
}

#[test]
fn without_its_leader_there_is_nothing() {
    let mut wanted = group(vec![faults(&[Software::PAGE_FAULTS])], false);
    wanted.lead = vec![event("cycles", &[NONE], true)];
    let Some(settled) = settled(vec![vec![wanted]]) else { return };
    let why = settled.unwrap_err();
    assert!(matches!(&why, CountersUnavailable::NotOffered { .. } | CountersUnavailable::Other(_)), "{why:?}");
}

#[test]
fn halves_have_the_leaders_and_no_event_twice() {
    let own = ["a", "b", "c", "d", "e"].map(|key| event(key, &[Software::DUMMY], false)).to_vec();
    let told =
        |group: &WantedGroup| (group.name.clone(), group.events().map(|event| event.key).collect::<Vec<_>>().join(" "));
    let parts: Vec<_> = halves(&group(own, false)).iter().map(told).collect();
    let expect = [("group/1", "task_clock_ns a b c"), ("group/2", "task_clock_ns d e")];
    assert_eq!(parts, expect.map(|(name, keys)| (name.to_owned(), keys.to_owned())));
}

#[test]
fn groups_are_left_out_where_files_are_short() {
    let wish = || vec![group(vec![faults(&[Software::PAGE_FAULTS])], true)];
    let Some(plan) = settled(vec![wish(), wish(), wish()]) else { return };
    let mut plan = plan.unwrap();
    plan.leave_out_last_half();
    assert_eq!((plan.groups.len(), plan.notes.len()), (2, 1));
    plan.leave_out_last_half();
    assert_eq!(plan.groups.len(), 1);
}
