//! The class that each group of work should have: the groups are made here, the decisions are
//! [`policy`](plimsoll_policy)'s.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_policy::class_proposal::{ClassProposal, GroupFacts, LONG, Standing, propose};

use crate::identity::{LoginId, StatementId};
use crate::ledger::{Bucket, Ledger};

/// A statement is a group of its own if this share of its time was in transactions that consist of it.
const SINGLE_SHARE: f64 = 0.9;

/// The proposed classes.
#[derive(Debug, Default)]
pub struct Proposals {
    /// By login.
    pub logins: BTreeMap<LoginId, ClassProposal>,
    /// Statements that are to have another class than the rest of their login.
    pub statements: BTreeMap<(LoginId, StatementId), ClassProposal>,
}

impl Proposals {
    /// Decides for all observed work, by the first limit for long transactions that separates important from low work;
    /// by the longest if none does.
    pub fn of(ledger: &Ledger) -> Proposals {
        let by_limit = |limit: usize| Proposals::by(ledger, limit);
        let tells = |proposals: &Proposals| {
            let standings = proposals.logins.values().chain(proposals.statements.values()).map(|it| it.standing);
            let found: Vec<Standing> = standings.collect();
            found.contains(&Standing::Important) && found.contains(&Standing::Low)
        };
        (0..LONG.len()).map(by_limit).find(tells).unwrap_or_else(|| by_limit(0))
    }

    fn by(ledger: &Ledger, limit: usize) -> Proposals {
        let logins: BTreeSet<LoginId> = ledger.buckets.keys().map(|(login, _)| *login).collect();
        let mut proposals = Proposals::default();
        for login in logins {
            let application = ledger.identity.logins()[login].application.as_str();
            let decide = |bucket: &Bucket| propose(&facts(application, bucket, limit));
            let of_statement = |(key, bucket): (&(LoginId, StatementId), &Bucket)| {
                let statement = &ledger.identity.statements()[key.1];
                let is_single = bucket.in_single.as_secs_f64() >= SINGLE_SHARE * bucket.in_transactions.as_secs_f64();
                let proposal = decide(bucket);
                let is_meant = key.0 == login && statement.fingerprint.is_some() && is_single;
                (is_meant && proposal.standing == Standing::Low).then_some((*key, proposal))
            };
            let low: BTreeMap<_, _> = ledger.buckets.iter().filter_map(of_statement).collect();
            // Statements are separated only if that reveals important work; otherwise a rule for the login is enough.
            let rest = decide(&ledger.sum(|key| key.0 == login && !low.contains_key(key)));
            let of_login = if rest.standing == Standing::Important {
                proposals.statements.extend(low);
                rest
            } else {
                decide(&ledger.of_login(login))
            };
            proposals.logins.insert(login, of_login);
        }
        proposals
    }

    /// The class of a login's statement.
    pub fn standing(&self, party: (LoginId, StatementId)) -> Standing {
        let of_login = || self.logins.get(&party.0).map_or(Standing::Undecided, |proposal| proposal.standing);
        self.statements.get(&party).map_or_else(of_login, |proposal| proposal.standing)
    }
}

fn facts<'a>(application_name: &'a str, bucket: &Bucket, limit: usize) -> GroupFacts<'a> {
    GroupFacts {
        application_name,
        transactions: bucket.transactions,
        in_transactions: bucket.in_transactions,
        in_long: bucket.in_long[limit].min(bucket.in_transactions),
        long: LONG[limit],
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_policy::Doing;

    use super::*;
    use crate::snapshot::Session;
    use crate::testing::{doing, look, session};

    /// A shop with a report of its own, beside a batch job.
    fn ledger() -> Ledger {
        let mut ledger = Ledger::default();
        for step in 0..400_i64 {
            let now = step * 10_000;
            let began = |at: i64, session: Session| Session {
                transaction_began_us: Some(at),
                statement_began_us: Some(at),
                ..session
            };
            let short = began(now, doing(session(1, "shop", "web"), "update stock set n = 1", Doing::Running));
            let report = began(-9_000_000, doing(session(2, "shop", "web"), "select sum(n) from stock", Doing::Io));
            let batch = began(-9_000_000, doing(session(3, "batch", ""), "delete from history", Doing::Running));
            ledger.take(&look(now, vec![short, report, batch], None));
        }
        ledger
    }

    #[test]
    fn what_is_long_is_what_tells_work_apart() {
        let mut ledger = Ledger::default();
        for step in 0..400_i64 {
            let now = step * 10_000;
            let began = |at: i64, session: Session| Session { transaction_began_us: Some(at), ..session };
            let short = began(now, doing(session(1, "shop", "web"), "update stock set n = 1", Doing::Running));
            // A batch job in steps of 400 ms.
            let batch =
                began(now - now % 400_000, doing(session(2, "batch", ""), "delete from history", Doing::Running));
            ledger.take(&look(now, vec![short, batch], None));
        }
        let proposals = Proposals::of(&ledger);
        assert_eq!(
            (proposals.logins[&0].standing, proposals.logins[&1].standing),
            (Standing::Important, Standing::Low)
        );
        assert!(proposals.logins[&1].reason.contains("more than 300 ms"), "{proposals:?}");
    }

    #[test]
    fn a_long_statement_of_a_busy_login_is_a_group_of_its_own() {
        let ledger = ledger();
        let proposals = Proposals::of(&ledger);
        let standings: Vec<Standing> = proposals.logins.values().map(|proposal| proposal.standing).collect();
        assert_eq!(standings, [Standing::Important, Standing::Low]);
        assert_eq!(proposals.statements.keys().collect::<Vec<_>>(), [&(0, 1)]);
        assert_eq!((proposals.standing((0, 0)), proposals.standing((0, 1))), (Standing::Important, Standing::Low));
    }
}
