//! Chains of lock waits as results.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{sorted, statement_text};
use crate::ledger::{HolderState, Ledger, Link};
use crate::results::{Blocker, Chain, ChainMember, Idle, Locks, Login, Object};

/// Blockers, chains and objects that are listed.
const LISTED_MAX: usize = 20;

/// Which sessions waited behind which.
pub(super) fn locks(ledger: &Ledger) -> Locks {
    let waits = &ledger.lock_waits;
    let explained = waits.explained();
    let chains = waits.chains.iter().map(|(links, time)| Chain {
        links: links.iter().map(|link| (who(ledger, link), link.state)).collect(),
        waited_s: time.as_secs_f64(),
    });
    let objects = waits.objects.iter().map(|((kind, table), time)| Object {
        kind: kind.clone(),
        table: table.clone(),
        waited_s: time.as_secs_f64(),
    });
    Locks {
        waited_s: ledger.sum(|_| true).lock.as_secs_f64(),
        explained_s: explained.as_secs_f64(),
        waits: waits.waits,
        longest_s: waits.longest.as_secs_f64(),
        blockers: blockers(ledger, explained),
        chains: listed(sorted(chains.collect(), |chain| chain.waited_s)),
        objects: listed(sorted(objects.collect(), |object| object.waited_s)),
    }
}

fn listed<T>(mut all: Vec<T>) -> Vec<T> {
    all.truncate(LISTED_MAX);
    all
}

/// The sessions at the ends of chains. A circle ends at the last session before its first repetition.
fn blockers(ledger: &Ledger, explained: Duration) -> Vec<Blocker> {
    #[derive(Default)]
    struct Sum {
        time: Duration,
        did: BTreeMap<HolderState, Duration>,
        depth: usize,
    }
    let mut sums: BTreeMap<ChainMember, Sum> = BTreeMap::new();
    for (links, time) in &ledger.lock_waits.chains {
        let Some(root) = links.last() else { continue };
        let sum = sums.entry(who(ledger, root)).or_default();
        sum.time += *time;
        *sum.did.entry(root.state).or_default() += *time;
        sum.depth = sum.depth.max(links.len() - 1);
    }
    let blocker = |(who, sum): (ChainMember, Sum)| {
        let part =
            |time: Duration, of: Duration| if of.is_zero() { 0.0 } else { time.as_secs_f64() / of.as_secs_f64() };
        let did = sum.did.iter().map(|(state, time)| (*state, part(*time, sum.time)));
        Blocker {
            who,
            blocked_s: sum.time.as_secs_f64(),
            of_explained: part(sum.time, explained),
            did: sorted(did.collect(), |did| did.1),
            depth: sum.depth,
        }
    };
    listed(sorted(sums.into_iter().map(blocker).collect(), |blocker| blocker.blocked_s))
}

fn who(ledger: &Ledger, link: &Link) -> ChainMember {
    let Some((login, statement)) = link.party else {
        let user = if link.state == HolderState::Prepared { "(prepared transaction)" } else { "(not visible)" };
        return ChainMember { login: Login { user: user.to_owned(), ..Login::default() }, statement: String::new() };
    };
    ChainMember {
        login: ledger.identity.logins()[login].clone(),
        statement: statement_text(&ledger.identity, statement),
    }
}

/// Transactions that waited for their clients, with the waiting time of others behind them.
pub(super) fn idle(ledger: &Ledger) -> Vec<Idle> {
    let behind = |login: usize| -> Duration {
        let ends = ledger.lock_waits.chains.iter().filter(|(links, _)| {
            let thinks =
                |link: &Link| link.state == HolderState::Thought && link.party.map(|party| party.0) == Some(login);
            links.last().is_some_and(thinks)
        });
        ends.map(|(_, time)| *time).sum()
    };
    let of_login = |(login, idle): (&usize, &crate::ledger::IdleInTransaction)| Idle {
        login: ledger.identity.logins()[*login].clone(),
        time_s: idle.time.as_secs_f64(),
        longest_s: idle.longest.as_secs_f64(),
        most: idle.most,
        blocked_s: behind(*login).as_secs_f64(),
    };
    listed(sorted(ledger.transactions.idle.iter().map(of_login).collect(), |idle| idle.time_s))
}
