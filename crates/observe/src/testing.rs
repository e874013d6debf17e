//! Made-up sessions for tests.

use std::collections::BTreeMap;

use plimsoll_workload::activity::Doing;

use crate::counted::Counted;
use crate::findings::{Seen, findings};
use crate::ledger::Ledger;
use crate::results::{Ended, Looking, Observation, ServerFacts};
use crate::snapshot::{Login, Session, Text};

/// A running session of that user and application, of a transaction that began at 0.
pub fn session(process: i32, user: &str, application: &str) -> Session {
    Session {
        process,
        leader: None,
        login: Login { user: user.to_owned(), database: "shop".to_owned(), application: application.to_owned() },
        is_of_client: true,
        doing: Doing::Running,
        is_in_statement: true,
        transaction_began_us: Some(0),
        statement_began_us: Some(0),
        state_changed_us: Some(0),
        query_id: None,
        text: None,
        times: None,
    }
}

/// The same in a statement, doing something.
pub fn doing(session: Session, text: &str, doing: Doing) -> Session {
    Session { text: Some(Text { bytes: text.as_bytes().to_vec(), is_cut: false }), doing, ..session }
}

/// What is found in a ledger and counters, with made-up circumstances.
pub fn observation_of(ledger: &Ledger, counted: &Counted) -> Observation {
    findings(Seen {
        ledger,
        counted,
        texts: &BTreeMap::new(),
        started: "2026-01-02T03:04:05Z".to_owned(),
        ended: Ended::InTime,
        server: ServerFacts {
            url: "postgres://monitor@/shop?host=/tmp/socket&port=5432&sslmode=disable".to_owned(),
            version: "15.1".to_owned(),
            role: "monitor".to_owned(),
            database: "shop".to_owned(),
            on_this_machine: true,
            standby: false,
            cores: Some(2),
        },
        missing: Vec::new(),
        looking: Looking {
            looks: ledger.looks,
            lock_looks: ledger.lock_looks,
            interval_s: Some(0.01),
            own_cpu_s: 0.02,
            server_cpu_s: 0.03,
            server_cpu_measured: true,
            share_of_a_core: 0.007,
            bound: 0.01,
            unseen_sessions: counted.unseen_sessions(),
        },
    })
}
