//! The context of a transaction, and the statements that several kinds of transaction have.

use super::accounting::Lot;
use super::schema::*;
use crate::database::{self, DatabaseError, Session};
use crate::keyed;
use crate::statement::{Rows, Statement, Value};

/// A transaction under way.
pub(super) struct Transaction<'a> {
    pub(super) session: &'a mut dyn Session,
    /// The rows of the last statement.
    pub(super) rows: &'a mut Rows,
    /// The time that rows are stamped with, in microseconds.
    pub(super) now: i64,
}

impl Transaction<'_> {
    pub(super) fn execute(&mut self, statement: &Statement<'_>, parameters: &[Value<'_>]) -> Result<(), DatabaseError> {
        self.session.execute(statement, parameters, self.rows)
    }

    /// Runs a statement that must find its row, as [`database::execute_one`] does.
    pub(super) fn execute_one(
        &mut self,
        statement: &Statement<'_>,
        parameters: &[Value<'_>],
    ) -> Result<(), DatabaseError> {
        database::execute_one(self.session, super::ENTRY.name, statement, parameters, self.rows)
    }

    /// The first column of the row that a statement must find.
    pub(super) fn number(&mut self, statement: &Statement<'_>, parameters: &[Value<'_>]) -> Result<i64, DatabaseError> {
        self.execute_one(statement, parameters)?;
        Ok(self.rows.int(0, 0))
    }

    /// The first column of all rows, which are numbers.
    pub(super) fn numbers(&self) -> Vec<i64> {
        (0..self.rows.len()).map(|row| self.rows.int(row, 0)).collect()
    }

    /// The sum of a customer's tax rates, in hundred-thousandths.
    pub(super) fn tax_rates(&mut self, customer: i64) -> Result<i64, DatabaseError> {
        self.execute(&TAX_RATES_OF_CUSTOMER, &[Value::Int(customer)])?;
        let mut sum = 0;
        for rate in self.numbers() {
            sum += self.number(&TAX_RATE, &[Value::Int(rate)])?;
        }
        Ok(sum)
    }

    /// The lots that an account has of a security, oldest first.
    pub(super) fn lots(&mut self, account: i64, symbol: &str) -> Result<Vec<Lot>, DatabaseError> {
        self.execute(&LOTS, &[Value::Int(account), Value::Text(symbol)])?;
        let number = |row, column| self.rows.int(row, column);
        let lot = |row| Lot { trade: number(row, 0), quantity: number(row, 1), price: number(row, 2) };
        Ok((0..self.rows.len()).map(lot).collect())
    }

    /// The commission rate of an order, in hundredths of a percent.
    pub(super) fn commission_rate(
        &mut self,
        tier: i64,
        kind: &str,
        exchange: i64,
        quantity: i64,
    ) -> Result<i64, DatabaseError> {
        let order = [Value::Int(tier), Value::Text(kind), Value::Int(exchange), Value::Int(quantity)];
        self.number(&COMMISSION_RATE_OF_ORDER, &order)
    }

    /// Adds a state to a trade's history.
    pub(super) fn note(&mut self, trade: i64, status: &str) -> Result<(), DatabaseError> {
        self.execute(&NOTE, &[Value::Int(trade), Value::Text(status), Value::Int(self.now)])
    }
}

/// (customer) → (tax rate's number).
static TAX_RATES_OF_CUSTOMER: Statement = keyed::statement!(
    SCHEMA,
    "tax_rates_of_customer",
    "SELECT cx_tx_id FROM customer_taxrate WHERE cx_c_id = $1 ORDER BY cx_tx_id"
);

/// (tax rate's number) → (rate).
static TAX_RATE: Statement =
    keyed::statement!(SCHEMA, "tax_rate", "SELECT (tx_rate * 100000)::bigint FROM taxrate WHERE tx_id = $1");

/// (account, symbol) → (trade, quantity, price) of each lot, oldest first.
static LOTS: Statement = keyed::statement!(
    SCHEMA,
    "lots",
    "SELECT h_t_id, h_qty, (h_price * 100)::bigint FROM holding WHERE h_ca_id = $1 AND h_s_symb = $2 \
     ORDER BY h_dts, h_t_id"
);

/// (tier, type, exchange, quantity) → (rate).
static COMMISSION_RATE_OF_ORDER: Statement = keyed::statement!(
    SCHEMA,
    "commission_rate_of_order",
    "SELECT (cr_rate * 100)::bigint FROM commission_rate \
     WHERE cr_c_tier = $1 AND cr_tt_id = $2 AND cr_ex_id = $3 AND cr_from_qty <= $4 ORDER BY cr_from_qty DESC LIMIT 1"
);

/// (customer) → (tier).
pub(super) static TIER: Statement = keyed::statement!(SCHEMA, "tier", "SELECT c_tier FROM customer WHERE c_id = $1");

/// (symbol) → (exchange, company, name).
pub(super) static SECURITY_BY_SYMBOL: Statement =
    keyed::statement!(SCHEMA, "security_by_symbol", "SELECT s_ex_id, s_co_id, s_name FROM security WHERE s_symb = $1");

/// (symbol) → (price, price at opening, volume).
pub(super) static LAST_PRICE: Statement = keyed::statement!(
    SCHEMA,
    "last_price",
    "SELECT (lt_price * 100)::bigint, (lt_open_price * 100)::bigint, lt_vol FROM last_trade WHERE lt_s_symb = $1"
);

/// (type) → (whether it is a sale, whether it is executed at any price).
pub(super) static TYPE: Statement =
    keyed::statement!(SCHEMA, "type", "SELECT tt_is_sell, tt_is_mrkt FROM trade_type WHERE tt_id = $1");

/// (broker) → (name).
pub(super) static BROKER_NAME: Statement =
    keyed::statement!(SCHEMA, "broker_name", "SELECT b_name FROM broker WHERE b_id = $1");

/// (trade, state, time).
static NOTE: Statement =
    keyed::statement!(SCHEMA, "note", "INSERT INTO trade_history (th_t_id, th_st_id, th_dts) VALUES ($1, $2, $3)");

pub(super) static STATEMENTS: [&Statement; 10] = [
    &TAX_RATES_OF_CUSTOMER,
    &TAX_RATE,
    &LOTS,
    &COMMISSION_RATE_OF_ORDER,
    &TIER,
    &SECURITY_BY_SYMBOL,
    &LAST_PRICE,
    &TYPE,
    &BROKER_NAME,
    &NOTE,
];
