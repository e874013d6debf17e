//! Trade-Result: the market has executed an order. Holdings, the account, the broker and the trade itself follow.

use super::accounting::{Costs, Lot, LotChange, amount, commission, settle, signed, tax};
use super::population::cash_type;
use super::schema::*;
use super::size::{DAY_US, TRADE_TYPES, TradeType};
use super::transaction::*;
use crate::database::DatabaseError;
use crate::keyed;
use crate::statement::{Statement, Value};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TradeResult {
    pub(super) trade: i64,
    pub(super) security: i64,
    /// The price at which it was executed, in hundredths.
    pub(super) price: i64,
}

/// The trade as it was ordered.
struct Ordered {
    account: i64,
    kind: &'static TradeType,
    symbol: String,
    quantity: i64,
    charge: i64,
    is_lifo: bool,
    is_cash: bool,
}

impl TradeResult {
    /// Completes the trade, and returns its number of shares.
    pub(super) fn run(&self, transaction: &mut Transaction<'_>) -> Result<i64, DatabaseError> {
        let trade = self.ordered(transaction)?;
        // Two trades of an account could otherwise begin the same row of its summary.
        transaction.execute_one(&LOCK_ACCOUNT, &[Value::Int(trade.account)])?;
        let number = |column| transaction.rows.int(0, column);
        let (broker, customer, is_taxed) = (number(0), number(1), number(2) > 0);
        let gain = self.hold(transaction, &trade)?;
        let tax = match gain > 0 && is_taxed {
            true => tax(gain, transaction.tax_rates(customer)?),
            false => 0,
        };
        let exchange = transaction.number(&SECURITY_BY_SYMBOL, &[Value::Text(&trade.symbol)])?;
        let tier = transaction.number(&TIER, &[Value::Int(customer)])?;
        let rate = transaction.commission_rate(tier, trade.kind.id, exchange, trade.quantity)?;
        let commission = commission(trade.quantity, self.price, rate);
        let done = [self.trade, self.price, commission, tax].map(Value::Int);
        transaction.execute_one(&COMPLETE, &done)?;
        transaction.note(self.trade, "CMPT")?;
        transaction.execute_one(&CREDIT_BROKER, &[Value::Int(broker), Value::Int(commission)])?;
        self.pay(transaction, &trade, Costs { charge: trade.charge, commission, tax })?;
        Ok(trade.quantity)
    }

    fn ordered(&self, transaction: &mut Transaction<'_>) -> Result<Ordered, DatabaseError> {
        transaction.execute_one(&LOCK_TRADE, &[Value::Int(self.trade)])?;
        let rows = &*transaction.rows;
        let id = rows.text(0, 1);
        let ordered = Ordered {
            account: rows.int(0, 0),
            kind: TRADE_TYPES.iter().find(|kind| kind.id == id).expect("the type was entered by an order"),
            symbol: rows.text(0, 2).to_owned(),
            quantity: rows.int(0, 3),
            charge: rows.int(0, 4),
            is_lifo: rows.int(0, 5) != 0,
            is_cash: rows.int(0, 6) != 0,
        };
        transaction.execute_one(&TYPE, &[Value::Text(ordered.kind.id)])?;
        Ok(ordered)
    }

    /// Changes the account's lots of the security and their sum, and returns the gain.
    fn hold(&self, transaction: &mut Transaction<'_>, trade: &Ordered) -> Result<i64, DatabaseError> {
        let place = [Value::Int(trade.account), Value::Text(&trade.symbol)];
        transaction.execute(&LOCK_SUMMARY, &place)?;
        let held = (!transaction.rows.is_empty()).then(|| transaction.rows.int(0, 0));
        let quantity = signed(trade.kind, trade.quantity);
        let lots = transaction.lots(trade.account, &trade.symbol)?;
        let settled = settle(&lots, Lot { trade: self.trade, quantity, price: self.price }, trade.is_lifo);
        for change in &settled.changes {
            self.change_lot(transaction, trade, *change)?;
        }
        let after = held.unwrap_or_default() + quantity;
        match (held, after) {
            (Some(_), 0) => transaction.execute_one(&DELETE_SUMMARY, &place)?,
            (Some(_), _) => transaction.execute_one(&UPDATE_SUMMARY, &[place[0], place[1], Value::Int(after)])?,
            (None, _) => transaction.execute(&INSERT_SUMMARY, &[place[0], place[1], Value::Int(after)])?,
        }
        Ok(settled.gain)
    }

    fn change_lot(
        &self,
        transaction: &mut Transaction<'_>,
        trade: &Ordered,
        change: LotChange,
    ) -> Result<(), DatabaseError> {
        let [lot, before, after] = [change.lot, change.before, change.after].map(Value::Int);
        if change.before == 0 {
            let [account, now, price] = [trade.account, transaction.now, self.price].map(Value::Int);
            transaction.execute(&INSERT_LOT, &[lot, account, Value::Text(&trade.symbol), now, price, after])?;
        } else if change.after == 0 {
            transaction.execute_one(&DELETE_LOT, &[lot])?;
        } else {
            transaction.execute_one(&UPDATE_LOT, &[lot, after])?;
        }
        transaction.execute(&NOTE_LOT, &[Value::Int(self.trade), lot, before, after])
    }

    fn pay(&self, transaction: &mut Transaction<'_>, trade: &Ordered, costs: Costs) -> Result<(), DatabaseError> {
        const DAYS_UNTIL_DUE: i64 = 2;
        let number = Value::Int(self.trade);
        let amount = Value::Int(amount(trade.kind.is_sell, trade.quantity, self.price, costs));
        let due = Value::Int(transaction.now / DAY_US + DAYS_UNTIL_DUE);
        transaction.execute(&SETTLE, &[number, Value::Text(cash_type(trade.is_cash)), due, amount])?;
        if trade.is_cash {
            transaction.execute_one(&CHANGE_BALANCE, &[Value::Int(trade.account), amount])?;
            let name = format!("{} {} shares", trade.kind.name, trade.quantity);
            let now = Value::Int(transaction.now);
            transaction.execute(&NOTE_CASH, &[number, now, amount, Value::Text(&name)])?;
        }
        Ok(())
    }
}

/// (trade) → (account, type, symbol, quantity, charge, is lifo, is cash); the trade is locked to be changed.
static LOCK_TRADE: Statement = keyed::statement!(
    SCHEMA,
    "lock_trade",
    "SELECT t_ca_id, t_tt_id, t_s_symb, t_qty, (t_chrg * 100)::bigint, t_lifo, t_is_cash FROM trade WHERE t_id = $1 \
     FOR UPDATE"
);

/// (account) → (broker, customer, tax status); the account is locked to be changed.
static LOCK_ACCOUNT: Statement = keyed::statement!(
    SCHEMA,
    "lock_account",
    "SELECT ca_b_id, ca_c_id, ca_tax_st FROM customer_account WHERE ca_id = $1 FOR UPDATE"
);

/// (account, symbol) → (quantity held); locked to be changed.
static LOCK_SUMMARY: Statement = keyed::statement!(
    SCHEMA,
    "lock_summary",
    "SELECT hs_qty FROM holding_summary WHERE hs_ca_id = $1 AND hs_s_symb = $2 FOR UPDATE"
);

/// (account, symbol, quantity).
static INSERT_SUMMARY: Statement = keyed::statement!(
    SCHEMA,
    "insert_summary",
    "INSERT INTO holding_summary (hs_ca_id, hs_s_symb, hs_qty) VALUES ($1, $2, $3)"
);

/// (account, symbol, quantity) → (quantity).
static UPDATE_SUMMARY: Statement = keyed::statement!(
    SCHEMA,
    "update_summary",
    "UPDATE holding_summary SET hs_qty = $3 WHERE hs_ca_id = $1 AND hs_s_symb = $2 RETURNING hs_qty"
);

/// (account, symbol) → (quantity).
static DELETE_SUMMARY: Statement = keyed::statement!(
    SCHEMA,
    "delete_summary",
    "DELETE FROM holding_summary WHERE hs_ca_id = $1 AND hs_s_symb = $2 RETURNING hs_qty"
);

/// (lot, account, symbol, time, price, quantity).
static INSERT_LOT: Statement = keyed::statement!(
    SCHEMA,
    "insert_lot",
    "INSERT INTO holding (h_t_id, h_ca_id, h_s_symb, h_dts, h_price, h_qty) \
     VALUES ($1, $2, $3, $4, $5::bigint * 0.01, $6)"
);

/// (lot, quantity) → (quantity).
static UPDATE_LOT: Statement =
    keyed::statement!(SCHEMA, "update_lot", "UPDATE holding SET h_qty = $2 WHERE h_t_id = $1 RETURNING h_qty");

/// (lot) → (quantity).
static DELETE_LOT: Statement =
    keyed::statement!(SCHEMA, "delete_lot", "DELETE FROM holding WHERE h_t_id = $1 RETURNING h_qty");

/// (trade, lot, quantity before, quantity after).
static NOTE_LOT: Statement = keyed::statement!(
    SCHEMA,
    "note_lot",
    "INSERT INTO holding_history (hh_t_id, hh_h_t_id, hh_before_qty, hh_after_qty) VALUES ($1, $2, $3, $4)"
);

/// (trade, price, commission, tax) → (state).
static COMPLETE: Statement = keyed::statement!(
    SCHEMA,
    "complete",
    "UPDATE trade SET t_st_id = 'CMPT', t_trade_price = $2::bigint * 0.01, t_comm = $3::bigint * 0.01, \
     t_tax = $4::bigint * 0.01 WHERE t_id = $1 RETURNING t_st_id"
);

/// (broker, commission) → (trades).
static CREDIT_BROKER: Statement = keyed::statement!(
    SCHEMA,
    "credit_broker",
    "UPDATE broker SET b_comm_total = b_comm_total + $2::bigint * 0.01, b_num_trades = b_num_trades + 1 \
     WHERE b_id = $1 RETURNING b_num_trades"
);

/// (trade, how it is paid, day, amount).
static SETTLE: Statement = keyed::statement!(
    SCHEMA,
    "settle",
    "INSERT INTO settlement (se_t_id, se_cash_type, se_cash_due_date, se_amt) VALUES ($1, $2, $3, $4::bigint * 0.01)"
);

/// (account, amount) → (balance).
static CHANGE_BALANCE: Statement = keyed::statement!(
    SCHEMA,
    "change_balance",
    "UPDATE customer_account SET ca_bal = ca_bal + $2::bigint * 0.01 WHERE ca_id = $1 RETURNING (ca_bal * 100)::bigint"
);

/// (trade, time, amount, name).
static NOTE_CASH: Statement = keyed::statement!(
    SCHEMA,
    "note_cash",
    "INSERT INTO cash_transaction (ct_t_id, ct_dts, ct_amt, ct_name) VALUES ($1, $2, $3::bigint * 0.01, $4)"
);

pub(super) static STATEMENTS: [&Statement; 15] = [
    &LOCK_TRADE,
    &LOCK_ACCOUNT,
    &LOCK_SUMMARY,
    &INSERT_SUMMARY,
    &UPDATE_SUMMARY,
    &DELETE_SUMMARY,
    &INSERT_LOT,
    &UPDATE_LOT,
    &DELETE_LOT,
    &NOTE_LOT,
    &COMPLETE,
    &CREDIT_BROKER,
    &SETTLE,
    &CHANGE_BALANCE,
    &NOTE_CASH,
];
