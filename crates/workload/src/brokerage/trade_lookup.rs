//! Trade-Lookup and Trade-Update: details of up to twenty trades, and small changes of them.

use super::schema::*;
use super::size::symbol;
use super::transaction::Transaction;
use crate::database::DatabaseError;
use crate::keyed;
use crate::statement::{Statement, Value};

/// Which trades are looked up. Times are in microseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Selection {
    /// Those of these numbers, which are in ascending order.
    Trades(Vec<i64>),
    /// The first of an account from a time on.
    Account { account: i64, from: i64 },
    /// The first of a security from a time on.
    Security { security: i64, from: i64 },
    /// The first one of an account from a time on, with the holdings that it has changed.
    Holdings { account: i64, from: i64 },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    Read,
    Update,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TradeLookup {
    pub(super) selection: Selection,
    pub(super) purpose: Purpose,
}

impl TradeLookup {
    pub(super) fn run(&self, transaction: &mut Transaction<'_>) -> Result<(), DatabaseError> {
        let mut trades = match &self.selection {
            Selection::Trades(trades) => trades.clone(),
            Selection::Account { account, from } | Selection::Holdings { account, from } => {
                transaction.execute(&TRADES_OF_ACCOUNT, &[Value::Int(*account), Value::Int(*from)])?;
                transaction.numbers()
            }
            Selection::Security { security, from } => {
                transaction.execute(&TRADES_OF_SECURITY, &[Value::Text(&symbol(*security)), Value::Int(*from)])?;
                transaction.numbers()
            }
        };
        if let Selection::Holdings { .. } = self.selection {
            return match trades.first() {
                Some(&first) => transaction.execute(&LOTS_OF_TRADE, &[Value::Int(first)]),
                None => Ok(()),
            };
        }
        // In one order, so that two updates do not deadlock.
        trades.sort_unstable();
        trades.into_iter().map(Value::Int).try_for_each(|trade| self.look_up(transaction, trade))
    }

    fn look_up(&self, transaction: &mut Transaction<'_>, trade: Value<'_>) -> Result<(), DatabaseError> {
        if self.purpose == Purpose::Update {
            self.update(transaction, trade)?;
        }
        transaction.execute_one(&DETAILS, &[trade])?;
        let is_cash = transaction.rows.int(0, 2) != 0;
        // A trade that is under way has neither of these.
        transaction.execute(&PAYMENT, &[trade])?;
        if is_cash {
            transaction.execute(&CASH, &[trade])?;
        }
        transaction.execute_one(&STATES, &[trade])
    }

    fn update(&self, transaction: &mut Transaction<'_>, trade: Value<'_>) -> Result<(), DatabaseError> {
        let now = transaction.now;
        match self.selection {
            Selection::Trades(_) => {
                let name = format!("updated at {now}");
                transaction.execute_one(&CHANGE_EXECUTOR, &[trade, Value::Text(&name)])
            }
            Selection::Account { .. } => transaction.execute(&CHANGE_CASH_TYPE, &[trade]),
            Selection::Security { .. } | Selection::Holdings { .. } => {
                let name = format!("shares, updated at {now}");
                transaction.execute(&CHANGE_CASH_NAME, &[trade, Value::Text(&name)])
            }
        }
    }
}

/// (account, time) → (trade) of the first twenty from that time on.
static TRADES_OF_ACCOUNT: Statement = keyed::statement!(
    SCHEMA,
    "trades_of_account",
    "SELECT t_id FROM trade WHERE t_ca_id = $1 AND t_dts >= $2 ORDER BY t_dts, t_id LIMIT 20"
);

/// (symbol, time) → the same.
static TRADES_OF_SECURITY: Statement = keyed::statement!(
    SCHEMA,
    "trades_of_security",
    "SELECT t_id FROM trade WHERE t_s_symb = $1 AND t_dts >= $2 ORDER BY t_dts, t_id LIMIT 20"
);

/// (trade) → (lot, quantity before, quantity after).
static LOTS_OF_TRADE: Statement = keyed::statement!(
    SCHEMA,
    "lots_of_trade",
    "SELECT hh_h_t_id, hh_before_qty, hh_after_qty FROM holding_history WHERE hh_t_id = $1 ORDER BY hh_h_t_id LIMIT 20"
);

/// (trade) → (bid, executor, is cash, price).
static DETAILS: Statement = keyed::statement!(
    SCHEMA,
    "details",
    "SELECT (t_bid_price * 100)::bigint, t_exec_name, t_is_cash, (t_trade_price * 100)::bigint FROM trade \
     WHERE t_id = $1"
);

/// (trade) → (amount, day, how it is paid).
static PAYMENT: Statement = keyed::statement!(
    SCHEMA,
    "payment",
    "SELECT (se_amt * 100)::bigint, se_cash_due_date, se_cash_type FROM settlement WHERE se_t_id = $1"
);

/// (trade) → (amount, time, name).
static CASH: Statement = keyed::statement!(
    SCHEMA,
    "cash",
    "SELECT (ct_amt * 100)::bigint, ct_dts, ct_name FROM cash_transaction WHERE ct_t_id = $1"
);

/// (trade) → (state, time).
static STATES: Statement = keyed::statement!(
    SCHEMA,
    "states",
    "SELECT th_st_id, th_dts FROM trade_history WHERE th_t_id = $1 ORDER BY th_st_id LIMIT 3"
);

/// (trade, name) → (executor).
static CHANGE_EXECUTOR: Statement = keyed::statement!(
    SCHEMA,
    "change_executor",
    "UPDATE trade SET t_exec_name = $2 WHERE t_id = $1 RETURNING t_exec_name"
);

/// (trade) → (how it is paid).
static CHANGE_CASH_TYPE: Statement = keyed::statement!(
    SCHEMA,
    "change_cash_type",
    "UPDATE settlement SET se_cash_type = CASE WHEN se_cash_type = 'Cash Account' THEN 'Cash' ELSE 'Cash Account' END \
     WHERE se_t_id = $1 RETURNING se_cash_type"
);

/// (trade, name) → (name).
static CHANGE_CASH_NAME: Statement = keyed::statement!(
    SCHEMA,
    "change_cash_name",
    "UPDATE cash_transaction SET ct_name = $2 WHERE ct_t_id = $1 RETURNING ct_name"
);

pub(super) static STATEMENTS: [&Statement; 10] = [
    &TRADES_OF_ACCOUNT,
    &TRADES_OF_SECURITY,
    &LOTS_OF_TRADE,
    &DETAILS,
    &PAYMENT,
    &CASH,
    &STATES,
    &CHANGE_EXECUTOR,
    &CHANGE_CASH_TYPE,
    &CHANGE_CASH_NAME,
];
