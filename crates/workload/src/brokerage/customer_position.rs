//! Customer-Position and Trade-Status: what a customer has, and what became of recent orders.

use std::collections::BTreeSet;

use super::market_watch::last_prices;
use super::schema::*;
use super::size::tax_id;
use super::transaction::{BROKER_NAME, Transaction};
use crate::database::DatabaseError;
use crate::keyed;
use crate::lookup::{find, find_all, text};
use crate::schema::{ColumnId, TableId};
use crate::statement::{End, Intent, RowAccess, RowRef, Rows, Statement, Value};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CustomerPosition {
    pub(super) customer: i64,
    pub(super) is_by_tax_id: bool,
    /// The account whose last trades are shown, if any.
    pub(super) history_of: Option<i64>,
}

impl CustomerPosition {
    pub(super) fn run(&self, transaction: &mut Transaction<'_>) -> Result<(), DatabaseError> {
        let customer = match self.is_by_tax_id {
            true => transaction.number(&CUSTOMER_BY_TAX_ID, &[Value::Text(&tax_id(self.customer))])?,
            false => self.customer,
        };
        transaction.execute_one(&CUSTOMER_DATA, &[Value::Int(customer)])?;
        transaction.execute_one(&ASSETS, &[Value::Int(customer)])?;
        match self.history_of {
            Some(account) => transaction.execute(&LAST_STATES, &[Value::Int(account)]),
            None => Ok(()),
        }
    }
}

/// Trade-Status: an account's last trades, with the names of its customer and its broker.
pub(super) fn trade_status(transaction: &mut Transaction<'_>, account: i64) -> Result<(), DatabaseError> {
    transaction.execute(&LAST_TRADES, &[Value::Int(account)])?;
    transaction.execute_one(&PARTIES, &[Value::Int(account)])?;
    let (customer, broker) = (transaction.rows.int(0, 0), transaction.rows.int(0, 1));
    transaction.execute_one(&CUSTOMER_NAME, &[Value::Int(customer)])?;
    transaction.execute_one(&BROKER_NAME, &[Value::Int(broker)])
}

/// (tax id) → (customer).
static CUSTOMER_BY_TAX_ID: Statement =
    keyed::statement!(SCHEMA, "customer_by_tax_id", "SELECT c_id FROM customer WHERE c_tax_id = $1");

/// (customer) → (all of its columns but the keys).
static CUSTOMER_DATA: Statement = keyed::statement!(
    SCHEMA,
    "customer_data",
    "SELECT c_st_id, c_l_name, c_f_name, c_m_name, c_gndr, c_tier, c_dob, c_ad_id, c_phone, c_email_1, c_email_2 \
     FROM customer WHERE c_id = $1"
);

/// The most accounts of which Customer-Position tells. The SQL text repeats this number.
const ACCOUNTS_MAX: usize = 10;

/// (customer) → (account, cash, value of its holdings) of each account, the poorest first.
static ASSETS: Statement = Statement {
    name: "assets",
    sql: "SELECT ca_id, (ca_bal * 100)::bigint, COALESCE(sum(hs_qty * lt_price) * 100, 0)::bigint \
          FROM customer_account LEFT JOIN holding_summary ON hs_ca_id = ca_id \
          LEFT JOIN last_trade ON lt_s_symb = hs_s_symb WHERE ca_c_id = $1 GROUP BY ca_id, ca_bal \
          ORDER BY 3, ca_id LIMIT 10",
    native: &assets,
};

fn assets(access: &mut dyn RowAccess, parameters: &[Value<'_>], rows: &mut Rows) -> Result<(), DatabaseError> {
    let mut held = Vec::new();
    for account in find_all(access, ACCOUNT_BY_CUSTOMER, parameters, parameters)? {
        let key = [Value::Int(access.int(account, CA_ID))];
        let summary = find_all(access, primary(HOLDING_SUMMARY), &key, &key)?;
        let quantity = |row| (text(access, row, HS_S_SYMB), access.int(row, HS_QTY));
        held.push((account, summary.into_iter().map(quantity).collect::<Vec<_>>()));
    }
    let symbols: BTreeSet<_> = held.iter().flat_map(|(_, held)| held).map(|(symbol, _)| symbol.clone()).collect();
    let prices = last_prices(access, symbols)?;
    let value = |(symbol, quantity): &(String, i64)| quantity * prices.get(symbol).copied().unwrap_or_default();
    let total = |(account, held): &(RowRef, Vec<(String, i64)>)| {
        let worth: i64 = held.iter().map(value).sum();
        (worth, access.int(*account, CA_ID), access.int(*account, CA_BAL))
    };
    let mut totals: Vec<_> = held.iter().map(total).collect();
    totals.sort_unstable();
    for (worth, account, cash) in totals.into_iter().take(ACCOUNTS_MAX) {
        rows.push(&[account, cash, worth].map(Value::Int));
    }
    Ok(())
}

/// The last trades of an account, the latest first.
fn last_trades(access: &mut dyn RowAccess, account: &[Value<'_>], limit: usize) -> Result<Vec<RowRef>, DatabaseError> {
    let mut trades = Vec::new();
    access.find_some(TRADE_BY_ACCOUNT, (account, account), (End::Last, limit), Intent::Read, &mut trades)?;
    Ok(trades)
}

/// The row of a table whose key is the text in a column of another row.
fn named(
    access: &mut dyn RowAccess,
    row: RowRef,
    column: ColumnId,
    table: TableId,
) -> Result<Option<RowRef>, DatabaseError> {
    let name = text(access, row, column);
    access.find(primary(table), &[Value::Text(&name)], Intent::Read)
}

/// (account) → (trade, symbol, quantity, name of the state, when it came into it) of the states of the last ten trades.
static LAST_STATES: Statement = Statement {
    name: "last_states",
    sql: "SELECT t_id, t_s_symb, t_qty, st_name, th_dts FROM (SELECT t_id, t_dts, t_s_symb, t_qty FROM trade \
          WHERE t_ca_id = $1 ORDER BY t_dts DESC, t_id DESC LIMIT 10) AS t JOIN trade_history ON th_t_id = t_id \
          JOIN status_type ON st_id = th_st_id ORDER BY t_dts DESC, t_id DESC, th_st_id LIMIT 30",
    native: &|access, parameters, rows| {
        for trade in last_trades(access, parameters, 10)? {
            let key = [Value::Int(access.int(trade, T_ID))];
            for state in find_all(access, primary(TRADE_HISTORY), &key, &key)? {
                if let Some(status) = named(access, state, TH_ST_ID, STATUS_TYPE)? {
                    rows.start(5);
                    rows.append_stored(access, &SCHEMA, trade, &[T_ID, T_S_SYMB, T_QTY]);
                    rows.append_stored(access, &SCHEMA, status, &[ST_NAME]);
                    rows.append_stored(access, &SCHEMA, state, &[TH_DTS]);
                }
            }
        }
        Ok(())
    },
};

/// (account) → (trade, time, state, type, symbol, quantity, executor, charge, security, exchange) of the last fifty
/// trades, the latest first.
static LAST_TRADES: Statement = Statement {
    name: "last_trades",
    sql: "SELECT t_id, t_dts, st_name, tt_name, t_s_symb, t_qty, t_exec_name, (t_chrg * 100)::bigint, s_name, ex_name \
          FROM trade JOIN status_type ON st_id = t_st_id JOIN trade_type ON tt_id = t_tt_id \
          JOIN security ON s_symb = t_s_symb JOIN exchange ON ex_id = s_ex_id WHERE t_ca_id = $1 \
          ORDER BY t_dts DESC, t_id DESC LIMIT 50",
    native: &|access, parameters, rows| {
        for trade in last_trades(access, parameters, 50)? {
            let status = named(access, trade, T_ST_ID, STATUS_TYPE)?;
            let kind = named(access, trade, T_TT_ID, TRADE_TYPE)?;
            let security = named(access, trade, T_S_SYMB, SECURITY)?;
            let (Some(status), Some(kind), Some(security)) = (status, kind, security) else { continue };
            let exchange = access.int(security, S_EX_ID);
            let Some(exchange) = find(access, EXCHANGE, exchange, Intent::Read)? else { continue };
            rows.start(10);
            for (row, columns) in [
                (trade, &[T_ID, T_DTS][..]),
                (status, &[ST_NAME]),
                (kind, &[TT_NAME]),
                (trade, &[T_S_SYMB, T_QTY, T_EXEC_NAME, T_CHRG]),
                (security, &[S_NAME]),
                (exchange, &[EX_NAME]),
            ] {
                rows.append_stored(access, &SCHEMA, row, columns);
            }
        }
        Ok(())
    },
};

/// (account) → (customer, broker).
static PARTIES: Statement =
    keyed::statement!(SCHEMA, "parties", "SELECT ca_c_id, ca_b_id FROM customer_account WHERE ca_id = $1");

/// (customer) → (last name, first name).
static CUSTOMER_NAME: Statement =
    keyed::statement!(SCHEMA, "customer_name", "SELECT c_l_name, c_f_name FROM customer WHERE c_id = $1");

pub(super) static STATEMENTS: [&Statement; 7] =
    [&CUSTOMER_BY_TAX_ID, &CUSTOMER_DATA, &ASSETS, &LAST_STATES, &LAST_TRADES, &PARTIES, &CUSTOMER_NAME];
