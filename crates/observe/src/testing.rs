//! Made-up sessions for tests.

use plimsoll_workload::activity::Doing;

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
