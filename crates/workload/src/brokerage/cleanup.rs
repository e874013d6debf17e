//! Trade-Cleanup: before clients run, the orders that earlier clients have left under way are cancelled, because their
//! markets are gone.

use super::market_feed::DELETE_REQUEST;
use super::schema::SCHEMA;
use super::transaction::Transaction;
use crate::database::{Database, DatabaseError};
use crate::inquiry::{batches, integers};
use crate::keyed;
use crate::statement::{Rows, Statement, Value};

/// Trades of which a transaction cancels as many at once.
const TRADES_AT_ONCE: usize = 100;

/// Cancels every trade that is pending or submitted.
pub(super) fn clean_up(database: &dyn Database, now: i64) -> Result<(), DatabaseError> {
    database.refresh(&SCHEMA)?;
    let mut session = database.session(&SCHEMA)?;
    let under_way = "SELECT t_id FROM trade WHERE t_st_id IN ('PNDG', 'SBMT') ORDER BY t_id";
    let found = batches(session.as_mut(), under_way).and_then(|batches| integers(&batches, 0));
    let trades = found.map_err(|why| DatabaseError::Failed(format!("cannot find trades under way: {why}")))?;
    let mut rows = Rows::new();
    for trades in trades.chunks(TRADES_AT_ONCE) {
        session.begin()?;
        let mut transaction = Transaction { session: session.as_mut(), rows: &mut rows, now };
        for &trade in trades {
            transaction.execute_one(&CANCEL, &[Value::Int(trade)])?;
            transaction.execute(&DELETE_REQUEST, &[Value::Int(trade)])?;
            transaction.note(trade, "CNCL")?;
        }
        session.commit()?;
    }
    Ok(())
}

/// (trade) → (state).
static CANCEL: Statement =
    keyed::statement!(SCHEMA, "cancel", "UPDATE trade SET t_st_id = 'CNCL' WHERE t_id = $1 RETURNING t_st_id");

pub(super) static STATEMENTS: [&Statement; 1] = [&CANCEL];
