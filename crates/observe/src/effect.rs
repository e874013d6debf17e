//! What a governor would change: the time that important work spent behind less important work, by the state of the
//! latter.
//!
//! Every figure is an upper bound. Time behind a holder is attributed once: to the first less important one in the
//! chain, the first that a governor could act on.

use std::time::Duration;

use plimsoll_policy::class_proposal::Standing;

use crate::classes::Proposals;
use crate::ledger::{Bucket, HolderState, Ledger};
use crate::results::{Effect, Lever};

/// Time of important work behind less important holders.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct BlockedTime {
    explained: Duration,
    waited: Duration,
    thought: Duration,
    ran: Duration,
    disk: Duration,
}

/// Adds up the chains in which important work waits.
fn behind(ledger: &Ledger, proposals: &Proposals) -> BlockedTime {
    let mut behind = BlockedTime::default();
    let standing = |link: &crate::ledger::Link| link.party.map(|party| proposals.standing(party));
    for (chain, time) in &ledger.lock_waits.chains {
        let Some((waiter, blockers)) = chain.split_first() else { continue };
        if standing(waiter) != Some(Standing::Important) {
            continue;
        }
        behind.explained += *time;
        let lesser = blockers.iter().find(|link| standing(link).is_some_and(|it| it != Standing::Important));
        *match lesser.map(|link| link.state) {
            Some(HolderState::Waited) => &mut behind.waited,
            Some(HolderState::Thought) => &mut behind.thought,
            Some(HolderState::Ran) => &mut behind.ran,
            Some(HolderState::Disk | HolderState::Other) => &mut behind.disk,
            // Behind important work, or behind a session that a governor never touches.
            Some(HolderState::Prepared | HolderState::Idle | HolderState::Untracked | HolderState::Unseen) | None => {
                continue;
            }
        } += *time;
    }
    behind
}

/// What a governor would change for important work.
pub fn effect(ledger: &Ledger, proposals: &Proposals) -> Effect {
    let important = ledger.sum(|key| proposals.standing(*key) == Standing::Important);
    let behind = behind(ledger, proposals);
    let response_s = important.response().as_secs_f64();
    let of_important = |time_s: f64| (response_s > 0.0).then(|| time_s / response_s);
    let lever = |what: &str, lever: &str, time_s: Option<f64>| Lever {
        what: what.to_owned(),
        lever: lever.to_owned(),
        upper_bound_s: time_s,
        of_important: time_s.and_then(of_important),
    };
    let seconds = |time: Duration| Some(time.as_secs_f64());
    let levers = vec![
        lever(
            "behind less important holders that waited for a lock themselves",
            "preemption, policy = \"pow\"",
            seconds(behind.waited),
        ),
        lever(
            "behind less important holders whose clients were thinking",
            "preemption with retries = true, or idle_in_transaction_timeout",
            seconds(behind.thought),
        ),
        lever(
            "behind less important holders that ran or waited for a core",
            "inheritance = true, or policy = \"pabort\"",
            seconds(behind.ran),
        ),
        lever(
            "behind less important holders that waited for the disk or something else",
            "policy = \"pabort\"",
            seconds(behind.disk),
        ),
        lever(
            "waiting for a core",
            "shares of the cores, cpu = \"nice 10\" or \"idle\"",
            core_wait(ledger, proposals, &important),
        ),
    ];
    let summary = summary(&important, &behind, &levers);
    Effect { important_s: response_s, important_lock_s: behind.explained.as_secs_f64(), levers, summary }
}

/// Time that important work waited for a core while other work ran; `None` if it is not visible.
fn core_wait(ledger: &Ledger, proposals: &Proposals, important: &Bucket) -> Option<f64> {
    let waited_s = important.running.as_secs_f64() * important.core_wait_share()?;
    let all = ledger.sum(|_| true);
    let others = ledger.sum(|key| proposals.standing(*key) != Standing::Important);
    // It waited for all work on the cores, but a governor can only take the part of other work from it.
    let on_core = all.on_core.as_secs_f64();
    let of_others = if on_core > 0.0 { others.on_core.as_secs_f64() / on_core } else { 0.0 };
    Some(waited_s * of_others)
}

fn summary(important: &Bucket, behind: &BlockedTime, levers: &[Lever]) -> Vec<String> {
    let response_s = important.response().as_secs_f64();
    if response_s <= 0.0 {
        return vec!["No important work was seen, so there is nothing to protect.".to_owned()];
    }
    let mut told = Vec::new();
    let best = levers.iter().filter_map(|lever| Some((lever, lever.of_important?)));
    let best = best.max_by(|one, other| one.1.total_cmp(&other.1)).filter(|(_, share)| *share >= 0.01);
    match best {
        Some((lever, share)) => told.push(format!(
            "Important work spent {:.0} % of its response time {}: at most that could be saved by {}.",
            share * 100.0,
            lever.what,
            lever.lever
        )),
        None => told.push(
            "Less than 1 % of the response time of important work was spent behind less important work: a governor would \
             change little."
                .to_owned(),
        ),
    }
    let own = behind.explained.saturating_sub(behind.waited + behind.thought + behind.ran + behind.disk);
    let own_share = own.as_secs_f64() / response_s;
    if own_share >= 0.01 {
        told.push(format!(
            "{:.0} % was spent behind other important work, or behind holders that a governor cannot roll back; no lever changes that.",
            own_share * 100.0
        ));
    }
    told
}

#[cfg(test)]
mod tests {
    use plimsoll_machine::cpu_time::ThreadTimes;
    use plimsoll_policy::Doing;

    use super::*;
    use crate::snapshot::{LockRow, Session};
    use crate::testing::{self, doing, look, session};

    fn lock(process: i32, object: &str, is_granted: bool) -> LockRow {
        LockRow { object: object.to_owned(), ..testing::lock(process, is_granted) }
    }

    /// A shop whose work alternates between running and waiting for a batch job that is in some state.
    fn ledger(batch: Doing) -> Ledger {
        let mut ledger = Ledger::default();
        for step in 0..1_000_i64 {
            let now = step * 10_000;
            let waits = step % 2 == 0;
            let shop =
                doing(session(1, "shop", "web"), "update stock", if waits { Doing::Lock } else { Doing::Running });
            let shop = Session {
                // A new transaction for each pair of looks.
                transaction_began_us: Some(now - now % 20_000),
                times: Some(ThreadTimes {
                    run: Duration::from_micros(step.unsigned_abs() * 1_000),
                    wait: Duration::from_micros(step.unsigned_abs() * 3_000),
                }),
                ..shop
            };
            let batch = Session {
                transaction_began_us: Some(-5_000_000),
                is_in_statement: batch != Doing::Client,
                times: Some(ThreadTimes {
                    run: Duration::from_micros(step.unsigned_abs() * 3_000),
                    wait: Duration::ZERO,
                }),
                ..doing(session(2, "batch", ""), "update all", batch)
            };
            let mut locks = vec![lock(2, "a", true)];
            locks.extend(waits.then(|| lock(1, "a", false)));
            if batch.doing == Doing::Lock {
                locks.extend([lock(3, "b", true), lock(2, "b", false)]);
            }
            ledger.take(&look(now, vec![shop, batch], Some(locks)));
        }
        ledger.lock_waits.finish();
        ledger
    }

    fn check(batch: Doing, place: usize) {
        let ledger = ledger(batch);
        let effect = effect(&ledger, &Proposals::of(&ledger));
        let bounds: Vec<f64> = effect.levers[..4].iter().filter_map(|lever| lever.upper_bound_s).collect();
        for (at, bound) in bounds.iter().enumerate() {
            let expect = if at == place { 4.99 } else { 0.0 };
            assert!((bound - expect).abs() < 0.02, "{batch:?}: {bounds:?}");
        }
        assert!((effect.levers[place].of_important.unwrap() - 0.5).abs() < 0.01, "{effect:?}");
        assert!(effect.summary[0].contains("50 %"), "{:?}", effect.summary);
    }

    #[test]
    fn time_behind_a_holder_goes_to_the_lever_for_what_it_did() {
        check(Doing::Lock, 0);
        check(Doing::Client, 1);
        check(Doing::Running, 2);
        check(Doing::Io, 3);
    }

    #[test]
    fn waiting_for_cores_counts_as_far_as_others_ran() {
        let ledger = ledger(Doing::Running);
        let effect = effect(&ledger, &Proposals::of(&ledger));
        // It ran for 5 s and waited for a core during three quarters of that; others used three quarters of the cores.
        assert!((effect.levers[4].upper_bound_s.unwrap() - 5.0 * 0.75 * 0.75).abs() < 0.03, "{effect:?}");
    }

    #[test]
    fn without_important_work_there_is_nothing_to_protect() {
        let effect = effect(&Ledger::default(), &Proposals::default());
        assert!(effect.summary[0].contains("nothing to protect") && effect.levers[4].upper_bound_s.is_none());
    }
}
