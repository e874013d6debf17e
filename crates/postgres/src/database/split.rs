//! A client's session beside and through a governor: transactions of high priority go to the server itself, all others
//! through the governor.

use plimsoll_policy::Priority;
use plimsoll_workload::database::{DatabaseError, QueryAnswer, QueryPlan, Session, SessionUsage};
use plimsoll_workload::statement::{Rows, Statement, Value};

use crate::governor::{CLASSES, class_of};
use crate::session::PostgresSession;

/// Opens the session of a class.
type Open = dyn Fn(usize) -> Result<PostgresSession, DatabaseError> + Send;

/// A session with a connection for each class, which is opened when it is first needed.
pub(super) struct SplitSession {
    open: Box<Open>,
    by_class: [Option<PostgresSession>; CLASSES.len()],
    /// The priority of the transactions that begin from now on.
    priority: Priority,
}

impl SplitSession {
    pub fn new(open: Box<Open>) -> Self {
        SplitSession { open, by_class: Default::default(), priority: Priority::default() }
    }

    /// The session of the open transaction, or else the one in which the next transaction begins.
    fn session(&mut self) -> Result<&mut PostgresSession, DatabaseError> {
        let is_open = |session: &Option<PostgresSession>| session.as_ref().is_some_and(PostgresSession::is_open);
        let class = self.by_class.iter().position(is_open).unwrap_or(class_of(self.priority));
        let session = &mut self.by_class[class];
        if session.is_none() {
            session.insert((self.open)(class)?).set_priority(self.priority);
        }
        Ok(session.as_mut().expect("it was just opened"))
    }
}

impl Session for SplitSession {
    /// Connects if it has to, so that the process which serves the session is known. If that fails, the next
    /// transaction tries again and reports the error.
    fn set_priority(&mut self, priority: Priority) {
        self.priority = priority;
        if let Ok(session) = self.session() {
            session.set_priority(priority);
        }
    }

    fn begin(&mut self) -> Result<(), DatabaseError> {
        self.session()?.begin()
    }

    fn execute(
        &mut self,
        statement: &Statement<'_>,
        parameters: &[Value<'_>],
        rows: &mut Rows,
    ) -> Result<(), DatabaseError> {
        self.session()?.execute(statement, parameters, rows)
    }

    fn commit(&mut self) -> Result<(), DatabaseError> {
        self.session()?.commit()
    }

    fn rollback(&mut self) -> Result<(), DatabaseError> {
        self.session()?.rollback()
    }

    fn query(&mut self, sql: &str) -> Result<QueryAnswer, DatabaseError> {
        self.session()?.query(sql)
    }

    fn exchange(&mut self, request: &[u8], on: &mut dyn FnMut(u8, &[u8])) -> Result<bool, DatabaseError> {
        self.session()?.exchange(request, on)
    }

    fn reset(&mut self) -> Result<(), DatabaseError> {
        self.session()?.reset()
    }

    fn plan(&mut self, sql: &str) -> Result<Option<QueryPlan>, DatabaseError> {
        self.session()?.plan(sql)
    }

    /// That of the connection for the current priority.
    fn server_process(&self) -> Option<i32> {
        self.by_class[class_of(self.priority)].as_ref()?.server_process()
    }

    fn usage(&self) -> SessionUsage {
        SessionUsage::default()
    }
}
