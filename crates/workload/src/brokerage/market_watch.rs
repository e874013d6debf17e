//! Market-Watch: how much the securities that a customer watches have gained since a day.

use std::collections::{BTreeMap, BTreeSet};

use super::schema::*;
use super::transaction::Transaction;
use crate::database::DatabaseError;
use crate::lookup::{find_all, text};
use crate::schema::{ColumnId, Index};
use crate::statement::{Intent, RowAccess, Rows, Statement, Value};

/// Whose securities are watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Watched {
    /// Those on a customer's watch list.
    List { customer: i64 },
    /// Those that an account holds.
    Account(i64),
    /// Those of an industry's companies.
    Industry(i64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MarketWatch {
    pub(super) watched: Watched,
    /// Since 1970-01-01.
    pub(super) day: i64,
}

impl MarketWatch {
    pub(super) fn run(&self, transaction: &mut Transaction<'_>) -> Result<(), DatabaseError> {
        let (statement, of) = match self.watched {
            Watched::List { customer } => (&WATCH_LISTED, customer),
            Watched::Account(account) => (&WATCH_HELD, account),
            Watched::Industry(industry) => (&WATCH_INDUSTRY, industry),
        };
        transaction.execute_one(statement, &[Value::Int(of), Value::Int(self.day)])
    }
}

/// A statement (of whom, day) → (value at the end of the day, value now) of the securities that a join finds; always one
/// row.
macro_rules! watch {
    ($name:literal, $tables:literal, $condition:literal, $symbols:expr) => {
        Statement {
            name: $name,
            sql: concat!(
                "SELECT COALESCE(sum(s_num_out * dm_close) * 100, 0)::bigint, \
                 COALESCE(sum(s_num_out * lt_price) * 100, 0)::bigint FROM ",
                $tables,
                " JOIN last_trade ON lt_s_symb = s_symb JOIN daily_market ON dm_s_symb = s_symb AND dm_date = $2 WHERE ",
                $condition
            ),
            native: &|access, parameters, rows| {
                let symbols = $symbols(access, &parameters[..1])?;
                value(access, symbols, parameters[1], rows)
            },
        }
    };
}

static WATCH_LISTED: Statement = watch!(
    "watch_listed",
    "watch_list JOIN watch_item ON wi_wl_id = wl_id JOIN security ON s_symb = wi_s_symb",
    "wl_c_id = $1",
    |access: &mut dyn RowAccess, customer: &[Value<'_>]| {
        let mut symbols = BTreeSet::new();
        for list in find_all(access, WATCH_LIST_BY_CUSTOMER, customer, customer)? {
            let id = [Value::Int(access.int(list, WL_ID))];
            symbols.extend(symbols_of(access, primary(WATCH_ITEM), &id, WI_S_SYMB)?);
        }
        Ok::<_, DatabaseError>(symbols)
    }
);

static WATCH_HELD: Statement = watch!(
    "watch_held",
    "holding_summary JOIN security ON s_symb = hs_s_symb",
    "hs_ca_id = $1",
    |access: &mut dyn RowAccess, account: &[Value<'_>]| symbols_of(
        access,
        primary(HOLDING_SUMMARY),
        account,
        HS_S_SYMB
    )
);

static WATCH_INDUSTRY: Statement = watch!(
    "watch_industry",
    "company JOIN security ON s_co_id = co_id",
    "co_in_id = $1",
    |access: &mut dyn RowAccess, industry: &[Value<'_>]| {
        let mut symbols = BTreeSet::new();
        for company in find_all(access, COMPANY_BY_INDUSTRY, industry, industry)? {
            let id = [Value::Int(access.int(company, CO_ID))];
            symbols.extend(symbols_of(access, SECURITY_BY_COMPANY, &id, S_SYMB)?);
        }
        Ok::<_, DatabaseError>(symbols)
    }
);

/// The texts in a column of all rows with a key.
fn symbols_of(
    access: &mut dyn RowAccess,
    index: Index,
    key: &[Value<'_>],
    column: ColumnId,
) -> Result<BTreeSet<String>, DatabaseError> {
    let found = find_all(access, index, key, key)?;
    Ok(found.into_iter().map(|row| text(access, row, column)).collect())
}

/// Adds up what securities were and are worth.
fn value(
    access: &mut dyn RowAccess,
    symbols: BTreeSet<String>,
    day: Value<'_>,
    rows: &mut Rows,
) -> Result<(), DatabaseError> {
    let (mut before, mut now) = (0, 0);
    for (symbol, price) in last_prices(access, symbols)? {
        let symbol = Value::Text(&symbol);
        let security = access.find(primary(SECURITY), &[symbol], Intent::Read)?;
        let close = access.find(primary(DAILY_MARKET), &[symbol, day], Intent::Read)?;
        if let (Some(security), Some(close)) = (security, close) {
            let shares = access.int(security, S_NUM_OUT);
            before += shares * access.int(close, DM_CLOSE);
            now += shares * price;
        }
    }
    rows.push(&[before, now].map(Value::Int));
    Ok(())
}

/// The last prices of securities. They are read in the order of their symbols, in which Market-Feed changes them, so
/// that the two do not deadlock.
pub(super) fn last_prices(
    access: &mut dyn RowAccess,
    symbols: BTreeSet<String>,
) -> Result<BTreeMap<String, i64>, DatabaseError> {
    let mut prices = BTreeMap::new();
    for symbol in symbols {
        if let Some(last) = access.find(primary(LAST_TRADE), &[Value::Text(&symbol)], Intent::Read)? {
            prices.insert(symbol, access.int(last, LT_PRICE));
        }
    }
    Ok(prices)
}

pub(super) static STATEMENTS: [&Statement; 3] = [&WATCH_LISTED, &WATCH_HELD, &WATCH_INDUSTRY];
