//! Data-Maintenance: a change of one row of a table that no other transaction changes. Each call is for another table.

use super::schema::*;
use super::size::*;
use super::transaction::Transaction;
use crate::database::DatabaseError;
use crate::keyed;
use crate::statement::{Statement, Value};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DataMaintenance {
    /// Which call it is, from 0.
    pub(super) call: usize,
    pub(super) customer: i64,
    pub(super) security: i64,
}

impl DataMaintenance {
    pub(super) fn run(&self, transaction: &mut Transaction<'_>, sizes: Sizes) -> Result<(), DatabaseError> {
        let (company, _) = sizes.company_of(self.security);
        let account = (self.customer - 1) * ACCOUNTS_PER_CUSTOMER + 1;
        let [country, _] = tax_rates_of(self.customer);
        let (symbol, tax_id, text) =
            (symbol(self.security), tax_id(self.customer), format!("maintained by call {}", self.call));
        let (symbol, tax_id, text) = (Value::Text(&symbol), Value::Text(&tax_id), Value::Text(&text));
        let (position, now) = (self.call % STATEMENTS.len(), Value::Int(transaction.now));
        let parameters = match position {
            0 => vec![Value::Int(account), tax_id],
            1 | 3 => vec![Value::Int(self.customer), text],
            2 | 6 => vec![Value::Int(company)],
            4 => vec![symbol, Value::Int(LOAD_DAY - 1)],
            5 => vec![Value::Int(exchange_of(self.security)), text],
            7 => vec![Value::Int(company), now],
            8 => vec![symbol, Value::Int(LOAD_DAY + 1)],
            9 => vec![Value::Int(country), text],
            _ => unreachable!("there are {} statements", STATEMENTS.len()),
        };
        transaction.execute_one(STATEMENTS[position], &parameters)
    }
}

/// (account, tax id) → (rights).
static PERMISSION: Statement = keyed::statement!(
    SCHEMA,
    "maintain_permission",
    "UPDATE account_permission SET ap_acl = CASE WHEN ap_acl = '1111' THEN '0011' ELSE '1111' END \
     WHERE ap_ca_id = $1 AND ap_tax_id = $2 RETURNING ap_acl"
);

/// (customer, text) → (line).
static ADDRESS_LINE: Statement = keyed::statement!(
    SCHEMA,
    "maintain_address",
    "UPDATE address SET ad_line2 = $2 WHERE ad_id = $1 RETURNING ad_line2"
);

/// (company) → (rating).
static RATING: Statement = keyed::statement!(
    SCHEMA,
    "maintain_company",
    "UPDATE company SET co_sp_rate = CASE WHEN co_sp_rate = 'AAA' THEN 'ABA' ELSE 'AAA' END WHERE co_id = $1 \
     RETURNING co_sp_rate"
);

/// (customer, text) → (e-mail).
static EMAIL: Statement = keyed::statement!(
    SCHEMA,
    "maintain_customer",
    "UPDATE customer SET c_email_2 = $2 WHERE c_id = $1 RETURNING c_email_2"
);

/// (symbol, day) → (volume).
static VOLUME: Statement = keyed::statement!(
    SCHEMA,
    "maintain_daily_market",
    "UPDATE daily_market SET dm_vol = dm_vol + 1 WHERE dm_s_symb = $1 AND dm_date = $2 RETURNING dm_vol"
);

/// (exchange, text) → (description).
static DESCRIPTION: Statement = keyed::statement!(
    SCHEMA,
    "maintain_exchange",
    "UPDATE exchange SET ex_desc = $2 WHERE ex_id = $1 RETURNING ex_desc"
);

/// (company) → (first day) of the last quarter.
static QUARTER: Statement = keyed::statement!(
    SCHEMA,
    "maintain_financial",
    "UPDATE financial SET fi_qtr_start_date = fi_qtr_start_date + 1 WHERE fi_co_id = $1 AND fi_year = 2023 \
     AND fi_qtr = 4 RETURNING fi_qtr_start_date"
);

/// (news item, time) → (time).
static NEWS_TIME: Statement =
    keyed::statement!(SCHEMA, "maintain_news", "UPDATE news_item SET ni_dts = $2 WHERE ni_id = $1 RETURNING ni_dts");

/// (symbol, day) → (day).
static LISTED_SINCE: Statement = keyed::statement!(
    SCHEMA,
    "maintain_security",
    "UPDATE security SET s_exch_date = $2 WHERE s_symb = $1 RETURNING s_exch_date"
);

/// (tax rate's number, text) → (name).
static TAX_NAME: Statement =
    keyed::statement!(SCHEMA, "maintain_taxrate", "UPDATE taxrate SET tx_name = $2 WHERE tx_id = $1 RETURNING tx_name");

pub(super) static STATEMENTS: [&Statement; 10] = [
    &PERMISSION,
    &ADDRESS_LINE,
    &RATING,
    &EMAIL,
    &VOLUME,
    &DESCRIPTION,
    &QUARTER,
    &NEWS_TIME,
    &LISTED_SINCE,
    &TAX_NAME,
];
