//! A client: draws a transfer, then books it on account, history, teller and branch (TPC-B 1.2).

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rand::RngExt;
use rand_pcg::Pcg64;

use super::Tpcb;
use super::schema::{ACCOUNTS_PER_BRANCH, HISTORY_FILLER, SCHEMA, TELLERS_PER_BRANCH};
use crate::benchmark::{Client, Outcome};
use crate::database::{DatabaseError, Session};
use crate::keyed;
use crate::statement::{Rows, Statement, Value};

/// The greatest amount; the least is its negative (TPC-B 5.3.6).
pub(super) const DELTA_MAX: i64 = 999_999;

/// The percentage of transfers whose account is of another branch than the teller, if there is another (TPC-B 5.3.5).
pub(super) const REMOTE_PERCENT: i64 = 15;

/// When running begins, in microseconds: 2024-01-02 00:00 UTC. Fixed, so that equal seeds stamp equal times.
const RUN_TIME_US: i64 = 1_704_153_600_000_000;

/// Between two requests of a client, by the clock that stamps rows.
const TICK_US: i64 = 10_000;

/// The filler of the history's rows.
const HISTORY_TEXT: &str = "......................";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Transfer {
    pub(super) account: i64,
    pub(super) teller: i64,
    /// The teller's branch.
    pub(super) branch: i64,
    pub(super) delta: i64,
    pub(super) time: i64,
}

impl Transfer {
    /// Draws the input (TPC-B 5.3): any teller, an account at the teller's branch or, less often, at another.
    fn draw(random: &mut Pcg64, branches: i64, time: i64) -> Self {
        let teller = random.random_range(1..=branches * TELLERS_PER_BRANCH);
        let branch = (teller - 1) / TELLERS_PER_BRANCH + 1;
        let is_remote = branches > 1 && random.random_range(0..100) < REMOTE_PERCENT;
        let account_branch = if is_remote {
            let other = random.random_range(1..branches);
            if other >= branch { other + 1 } else { other }
        } else {
            branch
        };
        let account = (account_branch - 1) * ACCOUNTS_PER_BRANCH + random.random_range(1..=ACCOUNTS_PER_BRANCH);
        Transfer { account, teller, branch, delta: random.random_range(-DELTA_MAX..=DELTA_MAX), time }
    }
}

#[derive(Debug)]
pub(super) struct TpcbClient {
    random: Pcg64,
    branches: i64,
    clock_us: i64,
    transfer: Option<Transfer>,
    rows: Rows,
    completed: Arc<AtomicU64>,
}

impl TpcbClient {
    pub(super) fn new(benchmark: &Tpcb, number: usize, seed: u64) -> Self {
        TpcbClient {
            random: Pcg64::new(u128::from(seed), number as u128),
            branches: benchmark.branches,
            clock_us: RUN_TIME_US,
            transfer: None,
            rows: Rows::new(),
            completed: benchmark.completed.clone(),
        }
    }

    /// The input drawn last.
    #[cfg(test)]
    pub(super) fn transfer(&self) -> Transfer {
        self.transfer.expect("a test draws before it looks")
    }

    /// Adds an amount to a balance, which must exist, and returns the new balance.
    fn add(
        &mut self,
        session: &mut dyn Session,
        statement: &Statement<'_>,
        id: i64,
        delta: i64,
    ) -> Result<i64, DatabaseError> {
        session.execute(statement, &[Value::Int(id), Value::Int(delta)], &mut self.rows)?;
        if self.rows.len() == 1 {
            return Ok(self.rows.int(0, 0));
        }
        session.rollback()?;
        let (name, found) = (statement.name, self.rows.len());
        Err(DatabaseError::Failed(format!("{name} found {found} rows of number {id}; load tpcb at this scale first")))
    }
}

impl Client for TpcbClient {
    fn draw(&mut self) -> usize {
        self.clock_us += TICK_US;
        self.transfer = Some(Transfer::draw(&mut self.random, self.branches, self.clock_us));
        0
    }

    fn run(&mut self, session: &mut dyn Session) -> Result<Outcome, DatabaseError> {
        let Transfer { account, teller, branch, delta, time } = self.transfer.expect("the driver draws before it runs");
        session.begin()?;
        let balance = self.add(session, &ADD_TO_ACCOUNT, account, delta)?;
        let [account, teller_id, branch_id, amount, time] = [account, teller, branch, delta, time].map(Value::Int);
        let history = [teller_id, branch_id, account, amount, time, Value::Text(HISTORY_TEXT)];
        session.execute(&INSERT_HISTORY, &history, &mut self.rows)?;
        self.add(session, &ADD_TO_TELLER, teller, delta)?;
        // Last, because most transactions need this row, so its lock should be held as briefly as possible.
        self.add(session, &ADD_TO_BRANCH, branch, delta)?;
        session.commit()?;
        // The terminal shows the account's balance (TPC-B 1.2). It is not displayed here, yet reading it is part of the
        // transaction.
        black_box(balance);
        // Relaxed: read only after the clients have ended.
        self.completed.fetch_add(1, Ordering::Relaxed);
        Ok(Outcome::Committed)
    }
}

/// (account, amount) → (balance).
static ADD_TO_ACCOUNT: Statement = keyed::statement!(
    SCHEMA,
    "tpcb_add_to_account",
    "UPDATE account SET a_balance = a_balance + $2 WHERE a_id = $1 RETURNING a_balance"
);

/// (teller, amount) → (balance).
static ADD_TO_TELLER: Statement = keyed::statement!(
    SCHEMA,
    "tpcb_add_to_teller",
    "UPDATE teller SET t_balance = t_balance + $2 WHERE t_id = $1 RETURNING t_balance"
);

/// (branch, amount) → (balance).
static ADD_TO_BRANCH: Statement = keyed::statement!(
    SCHEMA,
    "tpcb_add_to_branch",
    "UPDATE branch SET b_balance = b_balance + $2 WHERE b_id = $1 RETURNING b_balance"
);

/// (teller, branch, account, amount, time, text).
static INSERT_HISTORY: Statement = keyed::statement!(
    SCHEMA,
    "tpcb_insert_history",
    "INSERT INTO history (h_t_id, h_b_id, h_a_id, h_delta, h_time, h_filler) VALUES ($1, $2, $3, $4, $5, $6)"
);

pub(super) static STATEMENTS: [&Statement; 4] = [&ADD_TO_ACCOUNT, &INSERT_HISTORY, &ADD_TO_TELLER, &ADD_TO_BRANCH];

const _: () = assert!(HISTORY_TEXT.len() == HISTORY_FILLER, "rows of the history have their 50 bytes");
