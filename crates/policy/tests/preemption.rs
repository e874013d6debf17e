//! Which transaction is rolled back for which, as readable tables, and properties that hold for every graph.
//!
//! The tables are the files in `preemptions/`. Each begins with its title after `#`, text that explains it, and a line
//! `policy: NAME`, with `cpu NAME`, `now TIME`, `bound K` and `idle counts` after it where they matter. Then comes a
//! line for each transaction, and the expected actions after `->`; without such a line, none are expected:
//!
//! ```text
//!   H high waits for L since 20ms, K waited 30ms
//!   L low rolled back 2 times runs
//!   K low fixed thinks
//!   F low foreign waits for L
//!   P low prepared
//!   -> preempt K for H; L inherits high
//! ```
//!
//! `fixed` marks a transaction that cannot be rolled back, `thinks` one that waits for its client. Ids are in the order
//! of names.
//!
//! For cycles, `told` marks a transaction whose client gets an error if it is the victim, `aborted 2 times` says how
//! often it was before, and `began 5ms` when it began. A link that was seen `since` some time stands. `waits for K in line` is a
//! link to a transaction that is only the next in line.
//! `-> break A, B: A` is a cycle and its victim, `-` if there is none; `suspect` is written instead of `break` if not
//! all of its links stand.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeSet;
use std::fs;
use std::num::NonZeroU32;
use std::time::Duration;

use plimsoll_policy::{
    Action, Activity, Cycle, CycleLoss, Edge, PreemptionPolicy, Priority, Rules, Standing, StarvationBound, WaitGraph,
    cpu_scheduler, cycles, decide, parse_length, preemption_policies,
};
use proptest::prelude::*;

#[derive(Debug)]
struct Case<'a> {
    title: &'a str,
    settings: &'a str,
    transactions: Vec<&'a str>,
    expect: &'a str,
}

fn cases(text: &str) -> Vec<Case<'_>> {
    let sections = text.split("\n# ").map(|section| section.strip_prefix("# ").unwrap_or(section));
    sections.map(case).collect()
}

fn case(section: &str) -> Case<'_> {
    let title = section.lines().next().unwrap();
    let mut lines = section.lines().map(str::trim).filter(|line| !line.is_empty());
    let settings = lines.find_map(|line| line.strip_prefix("policy: ")).expect("a line `policy: NAME`");
    let (results, transactions): (Vec<&str>, Vec<&str>) = lines.partition(|line| line.starts_with("->"));
    let expect = results.first().map_or("", |line| line.trim_start_matches("->").trim());
    Case { title, settings, transactions, expect }
}

/// The word or number after a word.
fn after<'a>(words: &[&'a str], key: &str) -> Option<&'a str> {
    words.windows(2).find(|pair| pair[0] == key).map(|pair| pair[1])
}

fn time(word: &str) -> Duration {
    parse_length(word).unwrap_or_else(|| panic!("`{word}` is no time"))
}

impl Case<'_> {
    fn names(&self) -> Vec<&str> {
        self.transactions.iter().map(|line| line.split(' ').next().unwrap()).collect()
    }

    fn graph(&self) -> WaitGraph {
        let settings: Vec<&str> = self.settings.split_whitespace().collect();
        let names = self.names();
        let sorted: Vec<&str> = names.iter().copied().collect::<BTreeSet<_>>().into_iter().collect();
        let mut graph = WaitGraph { now: after(&settings, "now").map_or(Duration::ZERO, time), ..Default::default() };
        for (line, waiter) in self.transactions.iter().zip(0..) {
            let (head, waits_for) = line.split_once(" waits for ").unwrap_or((line, ""));
            let words: Vec<&str> = head.split_whitespace().collect();
            let (waits_for, waited) = waits_for.split_once(" waited ").unwrap_or((waits_for, "0ms"));
            let activity = [
                ("foreign", Activity::Foreign),
                ("prepared", Activity::Prepared),
                ("thinks", Activity::WaitsForClient),
                ("runs", Activity::Runs),
            ];
            let said = activity.iter().find(|(word, _)| words.contains(word)).map(|(_, activity)| *activity);
            graph.transactions.push(Standing {
                id: sorted.iter().position(|name| *name == words[0]).unwrap() as u64,
                priority: words[1].parse().unwrap(),
                rollbacks: after(&words, "back").map_or(0, |count| count.parse().unwrap()),
                activity: said.unwrap_or(Activity::WaitsForLock),
                preemptible: !words.contains(&"fixed"),
                waited: time(waited),
                began: after(&words, "began").map_or(Duration::ZERO, time),
                aborts: after(&words, "aborted").map_or(0, |count| count.parse().unwrap()),
                cycle_loss: match (words.contains(&"fixed"), words.contains(&"told")) {
                    (true, _) => None,
                    (false, true) => Some(CycleLoss::Told),
                    (false, false) => Some(CycleLoss::Unnoticed),
                },
            });
            assert!(said.is_some() || !waits_for.is_empty(), "{line}: it does nothing");
            for link in waits_for.split(", ").filter(|link| !link.is_empty()) {
                let is_line = link.ends_with(" in line");
                let link = link.trim_end_matches(" in line");
                let (name, since) =
                    link.split_once(" since ").map_or((link, None), |(name, since)| (name, Some(since)));
                let blocker = names.iter().position(|other| *other == name).expect("one of the transactions");
                let stands = since.is_some();
                graph.edges.push(Edge { waiter, blocker, since: since.map(time), stands, is_line });
            }
        }
        graph
    }

    /// The actions, in the words of the tables.
    fn told(&self) -> String {
        let settings: Vec<&str> = self.settings.split_whitespace().collect();
        let policy = PreemptionPolicy::parse(settings[0]).unwrap_or_else(|| panic!("{self:?}"));
        let bound = after(&settings, "bound").map(|bound| StarvationBound::after(bound.parse::<NonZeroU32>().unwrap()));
        let rules = Rules {
            locks: policy.scheduler(),
            cpu: after(&settings, "cpu").map(|name| cpu_scheduler(name).unwrap()),
            bound: bound.unwrap_or_default(),
            idle_counts_as_waiting: settings.contains(&"idle"),
        };
        let names = self.names();
        let tell = |action: Action| match action {
            Action::Preempt { victim, waiter } => format!("preempt {} for {}", names[victim], names[waiter]),
            Action::Inherit { holder, priority } => format!("{} inherits {priority}", names[holder]),
        };
        let named = |members: &[usize]| members.iter().map(|at| names[*at]).collect::<Vec<_>>().join(", ");
        let tell_cycle = |cycle: Cycle| {
            let done = if cycle.stands { "break" } else { "suspect" };
            let victim = cycle.victim.map_or("-", |victim| names[victim]);
            format!("{done} {}: {victim}", named(&cycle.members))
        };
        let graph = self.graph();
        let broken = cycles(&graph, rules.bound).into_iter().map(tell_cycle);
        decide(&graph, &rules).into_iter().map(tell).chain(broken).collect::<Vec<_>>().join("; ")
    }

    fn check(&self) -> Result<(), String> {
        let told = self.told();
        if told == self.expect { Ok(()) } else { Err(format!("{}: `{told}`, not `{}`", self.title, self.expect)) }
    }
}

fn every_table() -> Vec<String> {
    let mut files: Vec<_> = fs::read_dir("tests/preemptions").unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.iter().map(|file| fs::read_to_string(file).unwrap()).collect()
}

#[test]
fn every_table_is_as_written() {
    let tables = every_table();
    let faults: Vec<String> =
        tables.iter().flat_map(|table| cases(table)).filter_map(|case| case.check().err()).collect();
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn every_policy_has_a_table() {
    let tables = every_table();
    // `track` decides as `pow` does.
    for kind in preemption_policies().filter(|kind| kind.name != "track") {
        let is_its_own = |case: Case<'_>| case.settings.split(' ').next() == Some(kind.example);
        assert!(tables.iter().flat_map(|table| cases(table)).any(is_its_own), "{}", kind.name);
    }
}

/// Tables that agree with everything would be worth nothing.
#[test]
fn a_table_that_is_otherwise_is_seen() {
    let wrong = "# Nobody\npolicy: pabort\n H high waits for L\n L low runs\n";
    assert_eq!(cases(wrong)[0].check(), Err("Nobody: `preempt L for H`, not ``".to_owned()));
}

fn standing() -> impl Strategy<Value = Standing> {
    let activity = prop_oneof![
        5 => Just(Activity::WaitsForLock),
        2 => Just(Activity::Runs),
        1 => Just(Activity::WaitsForClient),
        1 => Just(Activity::Prepared),
        1 => Just(Activity::Foreign),
    ];
    (0..3_u8, 0..7_u32, activity, prop::bool::weighted(0.8), 0..3_u64).prop_map(
        |(level, rollbacks, activity, preemptible, seconds)| Standing {
            id: 0,
            priority: Priority::of_level(level).unwrap(),
            rollbacks,
            activity,
            preemptible,
            waited: Duration::from_secs(seconds),
            began: Duration::from_secs(3 - seconds),
            aborts: rollbacks % 2,
            cycle_loss: preemptible.then_some(CycleLoss::Unnoticed),
        },
    )
}

/// Graphs of up to a dozen transactions, with cycles among them, and another order in which to list them.
fn graphs() -> impl Strategy<Value = (WaitGraph, Vec<usize>)> {
    prop::collection::vec(standing(), 1..12).prop_flat_map(|mut transactions| {
        let count = transactions.len();
        transactions.iter_mut().zip(10..).for_each(|(standing, id)| standing.id = id);
        let edge = (0..count, 0..count, prop::option::of(0..100_u64), any::<bool>());
        let order = Just((0..count).collect::<Vec<_>>()).prop_shuffle();
        (prop::collection::vec(edge, 0..20), order).prop_map(move |(edges, order)| {
            let edges = edges.into_iter().map(|(waiter, blocker, since, is_line)| Edge {
                waiter,
                blocker,
                since: since.map(Duration::from_millis),
                stands: since.is_some(),
                // Whoever is first in a line waits for something else.
                is_line: is_line && waiter < blocker,
            });
            let now = Duration::from_millis(100);
            (WaitGraph { now, transactions: transactions.clone(), edges: edges.collect() }, order)
        })
    })
}

/// All transactions that one waits for, also indirectly, itself included if it waits in a cycle.
fn reachable(graph: &WaitGraph, from: usize) -> BTreeSet<usize> {
    let mut found = BTreeSet::new();
    let mut open = vec![from];
    while let Some(at) = open.pop() {
        let edges = graph.edges.iter().filter(|edge| edge.waiter == at && edge.blocker != at);
        open.extend(edges.map(|edge| edge.blocker).filter(|blocker| found.insert(*blocker)));
    }
    found
}

fn listed_otherwise(graph: &WaitGraph, order: &[usize]) -> WaitGraph {
    let place = |at: usize| order.iter().position(|other| *other == at).unwrap();
    let transactions = order.iter().map(|at| graph.transactions[*at]).collect();
    let edge = |edge: &Edge| Edge { waiter: place(edge.waiter), blocker: place(edge.blocker), ..*edge };
    WaitGraph { now: graph.now, transactions, edges: graph.edges.iter().rev().map(edge).collect() }
}

fn with_ids(graph: &WaitGraph, actions: &[Action]) -> Vec<(u64, Result<u64, Priority>)> {
    let id = |at: usize| graph.transactions[at].id;
    let told = |action: &Action| match *action {
        Action::Preempt { victim, waiter } => (id(victim), Ok(id(waiter))),
        Action::Inherit { holder, priority } => (id(holder), Err(priority)),
    };
    actions.iter().map(told).collect()
}

proptest! {
    #[test]
    fn what_holds_for_every_graph(
        (graph, order) in graphs(),
        policy in prop::sample::select(vec!["never", "pow", "pabort", "after(50ms)"]),
        cpu in prop::sample::select(vec!["none", "cpu-prio-inherit", "p-cpu"]),
        idle_counts_as_waiting in any::<bool>(),
    ) {
        let policy = PreemptionPolicy::parse(policy).unwrap();
        let bound = StarvationBound::default();
        let rules = Rules { locks: policy.scheduler(), cpu: cpu_scheduler(cpu), bound, idle_counts_as_waiting };
        let present = |at: usize| bound.present(graph.transactions[at].priority, graph.transactions[at].rollbacks);
        let actions = decide(&graph, &rules);
        let mut touched = BTreeSet::new();
        let mut victims = BTreeSet::new();
        for action in &actions {
            let (whom, above) = match *action {
                Action::Preempt { victim, waiter } => {
                    prop_assert!(graph.transactions[victim].preemptible);
                    prop_assert!(present(waiter) > Priority::LOW);
                    prop_assert_eq!(graph.transactions[waiter].activity, Activity::WaitsForLock);
                    prop_assert!(reachable(&graph, waiter).contains(&victim) && !victims.contains(&waiter));
                    // Cycles are left alone.
                    prop_assert!(!reachable(&graph, victim).contains(&victim));
                    victims.insert(victim);
                    (victim, present(waiter))
                }
                Action::Inherit { holder, priority } => (holder, priority),
            };
            prop_assert!(touched.insert(whom), "{:?} has two actions", whom);
            prop_assert!(present(whom) < above);
            let activity = graph.transactions[whom].activity;
            prop_assert!(!matches!(activity, Activity::Foreign | Activity::Prepared));
        }
        if cpu != "p-cpu" && !policy.watches() {
            prop_assert!(victims.is_empty());
        }
        let other = listed_otherwise(&graph, &order);
        prop_assert_eq!(with_ids(&other, &decide(&other, &rules)), with_ids(&graph, &actions));
    }

    /// With `pabort` no blocker remains that can be rolled back for a waiter.
    #[test]
    fn nobody_in_the_way_is_forgotten((graph, _) in graphs()) {
        let policy = PreemptionPolicy::parse("pabort").unwrap();
        let bound = StarvationBound::default();
        let rules = Rules { locks: policy.scheduler(), cpu: None, bound, idle_counts_as_waiting: false };
        let is_victim = |action: &Action| match action {
            Action::Preempt { victim, .. } => Some(*victim),
            Action::Inherit { .. } => None,
        };
        let victims: BTreeSet<usize> = decide(&graph, &rules).iter().filter_map(is_victim).collect();
        let present = |at: usize| bound.present(graph.transactions[at].priority, graph.transactions[at].rollbacks);
        for edge in &graph.edges {
            let [waiter, blocker] = [edge.waiter, edge.blocker].map(|at| graph.transactions[at]);
            let is_ours = !matches!(blocker.activity, Activity::Foreign | Activity::Prepared);
            let may = blocker.preemptible && is_ours && present(edge.blocker) < present(edge.waiter);
            let waits = waiter.activity == Activity::WaitsForLock && !victims.contains(&edge.waiter);
            // A transaction between two cycles is left alone, too.
            let waits_for_circle = reachable(&graph, edge.blocker).iter().any(|at| reachable(&graph, *at).contains(at));
            if may && waits && !waits_for_circle {
                prop_assert!(victims.contains(&edge.blocker), "{:?}", edge);
            }
        }
    }

    /// No transaction is rolled back that must not be, and no cycle remains whose members all may be. Only a holder is.
    #[test]
    fn every_circle_that_can_be_is_broken((graph, order) in graphs()) {
        let found = cycles(&graph, StarvationBound::default());
        let mut victims = BTreeSet::new();
        for cycle in &found {
            for (at, member) in cycle.members.iter().enumerate() {
                let next = cycle.members[(at + 1) % cycle.members.len()];
                let mut links = graph.edges.iter().filter(|edge| (edge.waiter, edge.blocker) == (*member, next));
                prop_assert!(links.any(|edge| edge.stands || !cycle.stands), "{:?}", cycle);
            }
            if let Some(victim) = cycle.victim {
                prop_assert!(cycle.members.contains(&victim) && victims.insert(victim));
                prop_assert!(graph.transactions[victim].cycle_loss.is_some());
                prop_assert_eq!(graph.transactions[victim].activity, Activity::WaitsForLock);
                let mut held = graph.edges.iter().filter(|edge| edge.blocker == victim && !edge.is_line);
                prop_assert!(held.any(|edge| cycle.members.contains(&edge.waiter)));
            }
        }
        let may_lose = |at: usize| {
            let standing = &graph.transactions[at];
            standing.cycle_loss.is_some() && standing.activity == Activity::WaitsForLock && !victims.contains(&at)
        };
        let mut left = graph.clone();
        left.edges.retain(|edge| may_lose(edge.waiter) && may_lose(edge.blocker));
        for edge in left.edges.iter().filter(|edge| edge.waiter != edge.blocker && !edge.is_line) {
            prop_assert!(!reachable(&left, edge.blocker).contains(&edge.waiter), "{:?}", found);
        }
        let other = listed_otherwise(&graph, &order);
        let ids = |graph: &WaitGraph, cycles: Vec<Cycle>| {
            let id = |at: usize| graph.transactions[at].id;
            let told = cycles.into_iter().map(|cycle| {
                (cycle.members.iter().map(|at| id(*at)).collect::<Vec<_>>(), cycle.victim.map(id), cycle.stands)
            });
            told.collect::<Vec<_>>()
        };
        prop_assert_eq!(ids(&other, cycles(&other, StarvationBound::default())), ids(&graph, found));
    }
}
