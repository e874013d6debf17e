//! Trade-Order: a customer, or another one who may act for the first, orders to buy or to sell shares.

use super::accounting::{Lot, commission, settle, signed, tax};
use super::schema::*;
use super::size::{BRACKETS, Sizes, TRADE_TYPES, TradeType, company_name, customer_of, symbol, tax_id};
use super::transaction::*;
use crate::database::DatabaseError;
use crate::keyed;
use crate::statement::{Statement, Value};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TradeOrder {
    pub(super) account: i64,
    /// Whether the owner orders, rather than the customer who may trade for him.
    pub(super) is_by_owner: bool,
    pub(super) security: i64,
    /// Whether the security is given by its company's name, rather than by its symbol.
    pub(super) is_by_name: bool,
    /// The position of the order's type.
    pub(super) kind: usize,
    pub(super) quantity: i64,
    /// The price that was asked for, in hundredths; orders at any price note the last one instead.
    pub(super) bid: i64,
    pub(super) is_cash: bool,
    pub(super) is_lifo: bool,
    /// Whether the customer changes his mind at the end.
    pub(super) is_rolled_back: bool,
}

/// What is known of the account that orders.
struct Account {
    broker: i64,
    customer: i64,
    is_taxed: bool,
    tier: i64,
}

impl TradeOrder {
    pub(super) fn kind(&self) -> &'static TradeType {
        &TRADE_TYPES[self.kind]
    }

    /// Enters the order as a trade of that number.
    pub(super) fn run(&self, transaction: &mut Transaction<'_>, sizes: Sizes, trade: i64) -> Result<(), DatabaseError> {
        let account = self.account(transaction, sizes)?;
        let symbol = symbol(self.security);
        let exchange = self.exchange(transaction, sizes, &symbol)?;
        let last = transaction.number(&LAST_PRICE, &[Value::Text(&symbol)])?;
        transaction.execute_one(&TYPE, &[Value::Text(self.kind().id)])?;
        let price = if self.kind().is_market { last } else { self.bid };
        let tax = self.estimated_tax(transaction, &account, &symbol, price)?;
        let rate = transaction.commission_rate(account.tier, self.kind().id, exchange, self.quantity)?;
        let charge = transaction.number(&CHARGE_OF_ORDER, &[Value::Text(self.kind().id), Value::Int(account.tier)])?;
        let commission = commission(self.quantity, price, rate);
        let costs = [charge, commission, tax].map(Value::Int);
        self.enter(transaction, trade, &account, &symbol, price, costs)
    }

    fn account(&self, transaction: &mut Transaction<'_>, sizes: Sizes) -> Result<Account, DatabaseError> {
        transaction.execute_one(&ACCOUNT, &[Value::Int(self.account)])?;
        let number = |column| transaction.rows.int(0, column);
        let (broker, customer, is_taxed) = (number(0), number(1), number(2) > 0);
        let tier = transaction.number(&TIER, &[Value::Int(customer)])?;
        transaction.execute_one(&BROKER_NAME, &[Value::Int(broker)])?;
        if !self.is_by_owner {
            let other = tax_id(sizes.permitted(customer_of(self.account)));
            transaction.execute_one(&PERMISSION, &[Value::Int(self.account), Value::Text(&other)])?;
        }
        Ok(Account { broker, customer, is_taxed, tier })
    }

    /// Looks the security up, and returns its exchange.
    fn exchange(&self, transaction: &mut Transaction<'_>, sizes: Sizes, symbol: &str) -> Result<i64, DatabaseError> {
        let (company, issue) = sizes.company_of(self.security);
        if self.is_by_name {
            let company = transaction.number(&COMPANY_BY_NAME, &[Value::Text(&company_name(company))])?;
            transaction.number(&SECURITY_OF_COMPANY, &[Value::Int(company), Value::Text(issue)])
        } else {
            transaction.execute_one(&SECURITY_BY_SYMBOL, &[Value::Text(symbol)])?;
            let (exchange, company) = (transaction.rows.int(0, 0), transaction.rows.int(0, 1));
            transaction.execute_one(&COMPANY_NAME, &[Value::Int(company)])?;
            Ok(exchange)
        }
    }

    /// The tax on the gain if the order is executed at that price.
    fn estimated_tax(
        &self,
        transaction: &mut Transaction<'_>,
        account: &Account,
        symbol: &str,
        price: i64,
    ) -> Result<i64, DatabaseError> {
        transaction.execute(&HELD, &[Value::Int(self.account), Value::Text(symbol)])?;
        let quantity = signed(self.kind(), self.quantity);
        let is_opposite = !transaction.rows.is_empty() && transaction.rows.int(0, 0).signum() != quantity.signum();
        if !is_opposite {
            return Ok(0);
        }
        let lots = transaction.lots(self.account, symbol)?;
        let gain = settle(&lots, Lot { trade: 0, quantity, price }, self.is_lifo).gain;
        match gain > 0 && account.is_taxed {
            true => Ok(tax(gain, transaction.tax_rates(account.customer)?)),
            false => Ok(0),
        }
    }

    fn enter(
        &self,
        transaction: &mut Transaction<'_>,
        trade: i64,
        account: &Account,
        symbol: &str,
        price: i64,
        [charge, commission, tax]: [Value<'_>; 3],
    ) -> Result<(), DatabaseError> {
        let kind = self.kind();
        let status = if kind.is_market { "SBMT" } else { "PNDG" };
        let executor = if self.is_by_owner { "the owner" } else { "by permission" };
        let order = [
            Value::Int(trade),
            Value::Int(transaction.now),
            Value::Text(status),
            Value::Text(kind.id),
            Value::Int(self.is_cash.into()),
            Value::Text(symbol),
            Value::Int(self.quantity),
            Value::Int(price),
            Value::Int(self.account),
            Value::Text(executor),
            charge,
            commission,
            tax,
            Value::Int(self.is_lifo.into()),
        ];
        transaction.execute(&ENTER, &order)?;
        if !kind.is_market {
            let [trade, quantity, bid, broker] = [trade, self.quantity, price, account.broker].map(Value::Int);
            let request = [trade, Value::Text(kind.id), Value::Text(symbol), quantity, bid, broker];
            transaction.execute(&ENTER_REQUEST, &request)?;
        }
        transaction.note(trade, status)
    }
}

// An order's bracket is found by its lowest number of shares, so no order has fewer.
const _: () = assert!(BRACKETS[0] == 1);

/// (first, last) → (the greatest number of a trade between).
pub(super) static LAST_TRADE_BETWEEN: Statement = keyed::statement!(
    SCHEMA,
    "last_trade_between",
    "SELECT t_id FROM trade WHERE t_id >= $1 AND t_id <= $2 ORDER BY t_id DESC LIMIT 1"
);

/// (account) → (broker, customer, tax status, name).
static ACCOUNT: Statement = keyed::statement!(
    SCHEMA,
    "account",
    "SELECT ca_b_id, ca_c_id, ca_tax_st, ca_name FROM customer_account WHERE ca_id = $1"
);

/// (account, tax id) → (rights).
static PERMISSION: Statement = keyed::statement!(
    SCHEMA,
    "permission",
    "SELECT ap_acl FROM account_permission WHERE ap_ca_id = $1 AND ap_tax_id = $2"
);

/// (name) → (company).
static COMPANY_BY_NAME: Statement =
    keyed::statement!(SCHEMA, "company_by_name", "SELECT co_id FROM company WHERE co_name = $1");

/// (company) → (name).
static COMPANY_NAME: Statement =
    keyed::statement!(SCHEMA, "company_name", "SELECT co_name FROM company WHERE co_id = $1");

/// (company, issue) → (exchange, symbol, name).
static SECURITY_OF_COMPANY: Statement = keyed::statement!(
    SCHEMA,
    "security_of_company",
    "SELECT s_ex_id, s_symb, s_name FROM security WHERE s_co_id = $1 AND s_issue = $2"
);

/// (account, symbol) → (quantity held).
static HELD: Statement =
    keyed::statement!(SCHEMA, "held", "SELECT hs_qty FROM holding_summary WHERE hs_ca_id = $1 AND hs_s_symb = $2");

/// (type, tier) → (charge).
static CHARGE_OF_ORDER: Statement = keyed::statement!(
    SCHEMA,
    "charge_of_order",
    "SELECT (ch_chrg * 100)::bigint FROM charge WHERE ch_tt_id = $1 AND ch_c_tier = $2"
);

/// (trade, time, state, type, is cash, symbol, quantity, bid, account, executor, charge, commission, tax, is lifo).
static ENTER: Statement = keyed::statement!(
    SCHEMA,
    "enter",
    "INSERT INTO trade (t_id, t_dts, t_st_id, t_tt_id, t_is_cash, t_s_symb, t_qty, t_bid_price, t_ca_id, t_exec_name, \
     t_chrg, t_comm, t_tax, t_lifo) VALUES ($1, $2, $3, $4, $5, $6, $7, $8::bigint * 0.01, $9, $10, \
     $11::bigint * 0.01, $12::bigint * 0.01, $13::bigint * 0.01, $14)"
);

/// (trade, type, symbol, quantity, bid, broker).
static ENTER_REQUEST: Statement = keyed::statement!(
    SCHEMA,
    "enter_request",
    "INSERT INTO trade_request (tr_t_id, tr_tt_id, tr_s_symb, tr_qty, tr_bid_price, tr_b_id) \
     VALUES ($1, $2, $3, $4, $5::bigint * 0.01, $6)"
);

pub(super) static STATEMENTS: [&Statement; 10] = [
    &LAST_TRADE_BETWEEN,
    &ACCOUNT,
    &PERMISSION,
    &COMPANY_BY_NAME,
    &COMPANY_NAME,
    &SECURITY_OF_COMPANY,
    &HELD,
    &CHARGE_OF_ORDER,
    &ENTER,
    &ENTER_REQUEST,
];
