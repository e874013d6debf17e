//! Proposes a class for each group of work, from samples of a server.
//!
//! A group is everything that one user does in one database by one application, or one statement of it. Only work that was seen to
//! be long is proposed for the low class. A group that was seen too rarely, or that does both long and short work, keeps the default class.
//!
//! The length of a transaction is its own work: its age without the time that it waited for locks, so that a short
//! transaction that waits behind a long one is not taken for a long one. A sample is more likely to meet a long
//! transaction than a short one, so lengths are not averaged. Groups are judged by the time spent in transactions that
//! worked for longer than a limit. The limit depends on the server: the first one in [`LONG`] by which some work is
//! important and some low.

use std::fmt;
use std::time::Duration;

/// A transaction is long once it has done work for this long, by the limit that tells groups apart: the longest first.
pub const LONG: [Duration; 3] = [Duration::from_secs(1), Duration::from_millis(300), Duration::from_millis(100)];

/// A group is low if at least this share of its time was in long transactions.
const LONG_SHARE_OF_LOW: f64 = 0.5;

/// A group is important if at most this share of its time was in long transactions.
const LONG_SHARE_OF_IMPORTANT: f64 = 0.1;

/// A group with fewer different transactions is not called important.
const TRANSACTIONS_LEAST: usize = 20;

/// Programs that copy whole databases, by the names that they give themselves.
const COPIERS: [&str; 4] = ["pg_dump", "pg_dumpall", "pg_restore", "pg_basebackup"];

/// Observations of a group.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct GroupFacts<'a> {
    /// The `application_name` of its clients; empty if they set none.
    pub application_name: &'a str,
    /// Different transactions that were seen. A count.
    pub transactions: usize,
    /// Time in transactions, lock waits left out.
    pub in_transactions: Duration,
    /// Of that, the time in transactions that were long in the end.
    pub in_long: Duration,
    /// From when on a transaction is long.
    pub long: Duration,
}

/// How a proposal ranks a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Short, frequent transactions: work that should run as if it were alone.
    Important,
    /// Long transactions: work that may be made to wait.
    Low,
    /// Neither was seen clearly enough.
    Undecided,
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Standing::Important => "important",
            Standing::Low => "low",
            Standing::Undecided => "undecided",
        })
    }
}

/// A proposal and its reason, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassProposal {
    /// The proposed rank.
    pub standing: Standing,
    /// Why, in words.
    pub reason: String,
}

/// Proposes a class for a group.
///
/// ```
/// use std::time::Duration;
/// use plimsoll_policy::class_proposal::{GroupFacts, Standing, propose};
///
/// let seen = |transactions, long_s| GroupFacts {
///     transactions,
///     in_transactions: Duration::from_secs(100),
///     in_long: Duration::from_secs(long_s),
///     long: Duration::from_secs(1),
///     ..GroupFacts::default()
/// };
/// assert_eq!(propose(&seen(5_000, 1)).standing, Standing::Important);
/// assert_eq!(propose(&seen(3, 99)).standing, Standing::Low);
/// assert_eq!(propose(&seen(5_000, 30)).standing, Standing::Undecided);
/// ```
pub fn propose(facts: &GroupFacts<'_>) -> ClassProposal {
    let propose = |standing, reason: String| ClassProposal { standing, reason };
    if COPIERS.contains(&facts.application_name) {
        return propose(Standing::Low, format!("{} copies whole databases", facts.application_name));
    }
    if facts.transactions == 0 {
        return propose(Standing::Undecided, "no transaction was seen".to_owned());
    }
    // Transactions that were seen only while they waited for locks have no measurable work time: they are short.
    let share = facts.in_long.as_secs_f64() / facts.in_transactions.as_secs_f64().max(f64::MIN_POSITIVE);
    let (percent, long_ms, count) = ((share * 100.0).round(), facts.long.as_millis(), facts.transactions);
    let noun = if count == 1 { "transaction" } else { "transactions" };
    if share >= LONG_SHARE_OF_LOW {
        propose(
            Standing::Low,
            format!(
                "{percent} % of its time was in transactions that worked for more than {long_ms} ms ({count} {noun} seen)"
            ),
        )
    } else if share > LONG_SHARE_OF_IMPORTANT {
        propose(
            Standing::Undecided,
            format!("it does both: {percent} % of its time was in transactions that worked for more than {long_ms} ms"),
        )
    } else if count < TRANSACTIONS_LEAST {
        propose(
            Standing::Undecided,
            format!("only {count} {noun} seen; at least {TRANSACTIONS_LEAST} are needed to call it frequent"),
        )
    } else {
        let short = 100.0 - percent;
        propose(
            Standing::Important,
            format!(
                "short and frequent: {short} % of its time was in transactions of at most {long_ms} ms ({count} seen)"
            ),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(facts: GroupFacts<'_>, standing: Standing, reason: &str) {
        let proposal = propose(&facts);
        assert_eq!((proposal.standing, proposal.reason.as_str()), (standing, reason), "{facts:?}");
    }

    fn facts(transactions: usize, in_transactions_s: u64, in_long_s: u64) -> GroupFacts<'static> {
        GroupFacts {
            transactions,
            in_transactions: Duration::from_secs(in_transactions_s),
            in_long: Duration::from_secs(in_long_s),
            long: LONG[0],
            ..GroupFacts::default()
        }
    }

    #[test]
    fn every_verdict_says_why() {
        check(facts(0, 0, 0), Standing::Undecided, "no transaction was seen");
        check(
            facts(20, 0, 0),
            Standing::Important,
            "short and frequent: 100 % of its time was in transactions of at most 1000 ms (20 seen)",
        );
        check(
            facts(1, 10, 9),
            Standing::Low,
            "90 % of its time was in transactions that worked for more than 1000 ms (1 transaction seen)",
        );
        check(
            facts(500, 10, 0),
            Standing::Important,
            "short and frequent: 100 % of its time was in transactions of at most 1000 ms (500 seen)",
        );
        check(
            facts(500, 10, 3),
            Standing::Undecided,
            "it does both: 30 % of its time was in transactions that worked for more than 1000 ms",
        );
        check(
            facts(19, 10, 0),
            Standing::Undecided,
            "only 19 transactions seen; at least 20 are needed to call it frequent",
        );
    }

    #[test]
    fn a_copier_is_low_however_it_looks() {
        let dump = GroupFacts { application_name: "pg_dump", ..facts(500, 10, 0) };
        check(dump, Standing::Low, "pg_dump copies whole databases");
    }
}
