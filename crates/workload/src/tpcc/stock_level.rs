//! Stock-Level (TPC-C 2.8): how many items of a district's last twenty orders are running out.

use super::buffers::{Buffers, execute_one};
use super::schema::*;
use super::terminal::Terminal;
use crate::benchmark::Outcome;
use crate::database::{DatabaseError, Session};
use crate::statement::{Intent, RowAccess, Rows, Statement, Value};

/// The number of orders that are read. The SQL text repeats it.
const ORDERS_LOOKED_AT: i64 = 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StockLevel {
    pub(super) warehouse: i64,
    pub(super) district: i64,
    pub(super) threshold: i64,
}

impl StockLevel {
    /// Draws the input (TPC-C 2.8.1).
    pub(super) fn draw(terminal: &mut Terminal) -> Self {
        let threshold = terminal.random.uniform(10, 20);
        StockLevel { warehouse: terminal.warehouse, district: terminal.stock_level_district, threshold }
    }

    /// Counts (TPC-C 2.8.2.2).
    pub(super) fn run(&self, session: &mut dyn Session, buffers: &mut Buffers) -> Result<Outcome, DatabaseError> {
        let input = [self.warehouse, self.district, self.threshold].map(Value::Int);
        session.begin()?;
        execute_one(session, &COUNT_LOW_STOCK, &input, &mut buffers.rows)?;
        session.commit()?;
        Ok(Outcome::Committed)
    }
}

/// (warehouse, district, threshold) → (distinct items of the last orders with less than that in stock); always one row.
pub(super) static COUNT_LOW_STOCK: Statement = Statement {
    name: "stock_level_count_low_stock",
    sql: "SELECT count(DISTINCT s_i_id) FROM district, order_line, stock WHERE d_w_id = $1 AND d_id = $2 \
          AND ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id >= d_next_o_id - 20 AND ol_o_id < d_next_o_id \
          AND s_w_id = $1 AND s_i_id = ol_i_id AND s_quantity < $3",
    native: &count_low_stock,
};

fn count_low_stock(access: &mut dyn RowAccess, parameters: &[Value<'_>], rows: &mut Rows) -> Result<(), DatabaseError> {
    let &[warehouse, district, threshold] = parameters else { panic!("three parameters") };
    let Some(district_row) = access.find(primary(DISTRICT), &parameters[..2], Intent::Read)? else {
        rows.push(&[Value::Int(0)]);
        return Ok(());
    };
    let next_order = access.int(district_row, D_NEXT_O_ID);
    let low = [warehouse, district, Value::Int(next_order - ORDERS_LOOKED_AT)];
    let high = [warehouse, district, Value::Int(next_order - 1)];
    let mut lines = Vec::with_capacity(256);
    access.find_all(primary(ORDER_LINE), &low, &high, Intent::Read, &mut lines)?;
    // Sorted, so that each item is looked up once, and in the same order by all clients.
    let mut items = lines.into_iter().map(|line| access.int(line, OL_I_ID)).collect::<Vec<_>>();
    items.sort_unstable();
    items.dedup();
    let mut low_count = 0;
    for item in items {
        if let Some(stock) = access.find(primary(STOCK), &[warehouse, Value::Int(item)], Intent::Read)? {
            low_count += i64::from(access.int(stock, S_QUANTITY) < threshold.int());
        }
    }
    rows.push(&[Value::Int(low_count)]);
    Ok(())
}

pub(super) static STATEMENTS: [&Statement; 1] = [&COUNT_LOW_STOCK];
