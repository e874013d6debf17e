//! The final data, compared with the tellers' knowledge.

use std::collections::HashMap;

use plimsoll_testing::until;

use super::super::server::Server;
use super::teller::{Attempt, TransferOutcome};
use super::{ACCOUNTS, OPENING_BALANCE};

/// How transfers ended.
#[derive(Debug, Default)]
pub struct Told {
    pub acknowledged: usize,
    pub refused: usize,
    /// Unknown, but present.
    pub unknown_there: usize,
    /// All unknown ones.
    pub unknown: usize,
}

/// Waits until the server has noticed that all clients are gone: until then a transaction may still commit.
pub fn wait_for_quiet(server: &Server) {
    let others = "SELECT count(*) FROM pg_stat_activity WHERE usename SIMILAR TO '(low|high)%'";
    until("backends end whose clients are gone", || server.value(others) == "0");
}

/// Fails if the books do not balance.
pub fn check(server: &Server, attempts: &[Attempt]) -> Told {
    let mut connection = server.connection();
    let mut there: HashMap<i64, usize> = HashMap::new();
    let read = &mut |row: &[Option<&str>]| {
        *there.entry(row[0].unwrap().parse().unwrap()).or_default() += 1;
    };
    connection.text_rows("SELECT id FROM transfer", read).unwrap();

    let mut told = Told::default();
    for attempt in attempts {
        let count = there.remove(&attempt.id).unwrap_or(0);
        let is_right = match attempt.fate {
            TransferOutcome::Acknowledged => count == 1,
            TransferOutcome::Refused => count == 0,
            TransferOutcome::Unknown => count <= 1,
        };
        assert!(is_right, "{attempt:?} is there {count} times");
        match attempt.fate {
            TransferOutcome::Acknowledged => told.acknowledged += 1,
            TransferOutcome::Refused => told.refused += 1,
            TransferOutcome::Unknown => {
                told.unknown += 1;
                told.unknown_there += count;
            }
        }
    }
    assert!(there.is_empty(), "transfers that nobody made: {there:?}");

    let expected = OPENING_BALANCE * i64::from(ACCOUNTS);
    assert_eq!(server.value("SELECT sum(balance) FROM account"), expected.to_string());
    let wrong = server.value(&format!(
        "SELECT count(*) FROM account WHERE balance <> {OPENING_BALANCE}
            + (SELECT coalesce(sum(amount), 0) FROM transfer WHERE target = account.id)
            - (SELECT coalesce(sum(amount), 0) FROM transfer WHERE source = account.id)"
    ));
    assert_eq!(wrong, "0", "accounts whose balance is not what their transfers make of it");
    told
}
