//! Broker-Volume: the value of the orders that wait at some brokers for securities of a sector.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::schema::*;
use super::transaction::Transaction;
use crate::database::DatabaseError;
use crate::lookup::{find, find_all, referred, text};
use crate::statement::{Intent, RowAccess, RowRef, Rows, Statement, Value};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BrokerVolume {
    /// The brokers, both ends included.
    pub(super) first: i64,
    pub(super) last: i64,
    pub(super) sector: i64,
}

impl BrokerVolume {
    pub(super) fn run(&self, transaction: &mut Transaction<'_>) -> Result<(), DatabaseError> {
        transaction.execute(&VOLUME, &[self.first, self.last, self.sector].map(Value::Int))
    }
}

/// (first broker, last broker, sector) → (name, value) of each broker that has such orders, the greatest value first.
static VOLUME: Statement = Statement {
    name: "volume",
    sql: "SELECT b_name, (sum(tr_qty * tr_bid_price) * 100)::bigint FROM trade_request JOIN broker ON b_id = tr_b_id \
          JOIN security ON s_symb = tr_s_symb JOIN company ON co_id = s_co_id JOIN industry ON in_id = co_in_id \
          WHERE tr_b_id >= $1 AND tr_b_id <= $2 AND in_sc_id = $3 GROUP BY b_id, b_name ORDER BY 2 DESC, b_id",
    native: &volume,
};

fn volume(access: &mut dyn RowAccess, parameters: &[Value<'_>], rows: &mut Rows) -> Result<(), DatabaseError> {
    let mut values = BTreeMap::new();
    for request in find_all(access, REQUEST_BY_BROKER, &parameters[..1], &parameters[1..2])? {
        if sector_of(access, request)? == Some(parameters[2].int()) {
            let value = access.int(request, TR_QTY) * access.int(request, TR_BID_PRICE);
            *values.entry(access.int(request, TR_B_ID)).or_default() += value;
        }
    }
    let mut values: Vec<(i64, i64)> = values.into_iter().collect();
    values.sort_by_key(|&(broker, value)| (Reverse(value), broker));
    for (broker, value) in values {
        if let Some(broker) = find(access, BROKER, broker, Intent::Read)? {
            rows.push(&[Value::Text(&text(access, broker, B_NAME)), Value::Int(value)]);
        }
    }
    Ok(())
}

/// The sector of an order's security.
fn sector_of(access: &mut dyn RowAccess, request: RowRef) -> Result<Option<i64>, DatabaseError> {
    let symbol = text(access, request, TR_S_SYMB);
    let Some(security) = access.find(primary(SECURITY), &[Value::Text(&symbol)], Intent::Read)? else {
        return Ok(None);
    };
    let Some(company) = referred(access, security, S_CO_ID, COMPANY, Intent::Read)? else { return Ok(None) };
    let industry = referred(access, company, CO_IN_ID, INDUSTRY, Intent::Read)?;
    Ok(industry.map(|industry| access.int(industry, IN_SC_ID)))
}

pub(super) static STATEMENTS: [&Statement; 1] = [&VOLUME];
