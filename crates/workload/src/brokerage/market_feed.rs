//! Market-Feed: new prices of some securities, and the orders at a limit that these prices reach.

use super::schema::*;
use super::size::symbol;
use super::transaction::*;
use crate::database::DatabaseError;
use crate::keyed;
use crate::statement::{Statement, Value};

/// A security's new price.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tick {
    pub(super) security: i64,
    /// In hundredths.
    pub(super) price: i64,
    /// How many shares were traded.
    pub(super) quantity: i64,
}

/// New prices in the order of their symbols, so that two Market-Feeds do not deadlock; each security is there once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MarketFeed {
    pub(super) ticks: Vec<Tick>,
}

/// The orders of the securities that a Market-Feed was about: each as trade and security.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Orders {
    /// Those whose limits were reached: they go to the market.
    pub(super) reached: Vec<(i64, i64)>,
    /// Those that wait further.
    pub(super) waiting: Vec<(i64, i64)>,
}

impl MarketFeed {
    pub(super) fn run(&self, transaction: &mut Transaction<'_>) -> Result<Orders, DatabaseError> {
        let mut orders = Orders::default();
        for tick in &self.ticks {
            let (symbol, now) = (symbol(tick.security), transaction.now);
            let [price, quantity, time] = [tick.price, tick.quantity, now].map(Value::Int);
            transaction.execute_one(&CHANGE_PRICE, &[Value::Text(&symbol), price, quantity, time])?;
            transaction.execute(&REQUESTS, &[Value::Text(&symbol)])?;
            let mut reached = Vec::new();
            for row in 0..transaction.rows.len() {
                let (trade, bid) = (transaction.rows.int(row, 0), transaction.rows.int(row, 2));
                match is_reached(transaction.rows.text(row, 1), bid, tick.price) {
                    true => reached.push(trade),
                    false => orders.waiting.push((trade, tick.security)),
                }
            }
            for &trade in &reached {
                transaction.execute_one(&SUBMIT, &[Value::Int(trade)])?;
                transaction.execute_one(&DELETE_REQUEST, &[Value::Int(trade)])?;
                transaction.note(trade, "SBMT")?;
            }
            orders.reached.extend(reached.into_iter().map(|trade| (trade, tick.security)));
        }
        Ok(orders)
    }
}

/// Whether a price reaches the limit of an order of that type: sales want at least the limit; purchases want at most
/// that, and a stop loss sells when the price has fallen to it.
fn is_reached(kind: &str, limit: i64, price: i64) -> bool {
    match kind {
        "TLS" => price >= limit,
        _ => price <= limit,
    }
}

/// (symbol, price, quantity, time) → (volume).
static CHANGE_PRICE: Statement = keyed::statement!(
    SCHEMA,
    "change_price",
    "UPDATE last_trade SET lt_price = $2::bigint * 0.01, lt_vol = lt_vol + $3, lt_dts = $4 WHERE lt_s_symb = $1 \
     RETURNING lt_vol"
);

/// (symbol) → (trade, type, bid) of each waiting order; these are locked to be changed.
static REQUESTS: Statement = keyed::statement!(
    SCHEMA,
    "requests",
    "SELECT tr_t_id, tr_tt_id, (tr_bid_price * 100)::bigint FROM trade_request WHERE tr_s_symb = $1 ORDER BY tr_t_id \
     FOR UPDATE"
);

/// (trade) → (state).
static SUBMIT: Statement =
    keyed::statement!(SCHEMA, "submit", "UPDATE trade SET t_st_id = 'SBMT' WHERE t_id = $1 RETURNING t_st_id");

/// (trade) → (quantity).
pub(super) static DELETE_REQUEST: Statement =
    keyed::statement!(SCHEMA, "delete_request", "DELETE FROM trade_request WHERE tr_t_id = $1 RETURNING tr_qty");

pub(super) static STATEMENTS: [&Statement; 4] = [&CHANGE_PRICE, &REQUESTS, &SUBMIT, &DELETE_REQUEST];

#[cfg(test)]
mod tests {
    use super::is_reached;

    #[test]
    fn limits_are_reached_from_the_side_that_the_customer_wants() {
        for (kind, below, above) in [("TLB", true, false), ("TSL", true, false), ("TLS", false, true)] {
            assert_eq!([2_400, 2_500, 2_600].map(|price| is_reached(kind, 2_500, price)), [below, true, above]);
        }
    }
}
