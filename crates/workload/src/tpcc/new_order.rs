//! New-Order (TPC-C 2.4): enters an order of 5 to 15 lines; one in a hundred names an item that does not exist, notices
//! that at its last line and rolls back.

use std::hint::black_box;

use super::buffers::{Buffers, execute_one};
use super::random::ITEM_BITS;
use super::schema::*;
use super::terminal::Terminal;
use crate::benchmark::Outcome;
use crate::database::{DatabaseError, Session, missing_row};
use crate::statement::{Intent, RowAccess, Rows, Statement, Value, insert};

/// The number that no item has.
const UNUSED_ITEM: i64 = ITEMS + 1;

const LINES_MAX: usize = 15;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NewOrder {
    pub(super) warehouse: i64,
    pub(super) district: i64,
    pub(super) customer: i64,
    pub(super) entry_time: i64,
    line_count: usize,
    lines: [Line; LINES_MAX],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Line {
    pub(super) item: i64,
    pub(super) supply_warehouse: i64,
    pub(super) quantity: i64,
}

impl NewOrder {
    /// Draws the input (TPC-C 2.4.1).
    pub(super) fn draw(terminal: &mut Terminal) -> Self {
        let district = terminal.district();
        let customer = terminal.customer_id();
        let line_count = terminal.random.uniform(5, LINES_MAX as i64) as usize;
        let is_rolled_back = terminal.random.one_in(100);
        let mut lines = [Line::default(); LINES_MAX];
        for line in &mut lines[..line_count] {
            let item = terminal.random.non_uniform(ITEM_BITS, 1, ITEMS, terminal.constants.item);
            let remote = if terminal.random.one_in(100) { terminal.remote_warehouse() } else { None };
            let supply_warehouse = remote.unwrap_or(terminal.warehouse);
            *line = Line { item, supply_warehouse, quantity: terminal.random.uniform(1, 10) };
        }
        if is_rolled_back {
            lines[line_count - 1].item = UNUSED_ITEM;
        }
        NewOrder { warehouse: terminal.warehouse, district, customer, entry_time: terminal.now(), line_count, lines }
    }

    /// An order of given lines, for tests.
    #[cfg(test)]
    pub(super) fn of(warehouse: i64, district: i64, customer: i64, given: &[Line]) -> Self {
        let mut lines = [Line::default(); LINES_MAX];
        lines[..given.len()].copy_from_slice(given);
        NewOrder { warehouse, district, customer, entry_time: 0, line_count: given.len(), lines }
    }

    pub(super) fn lines(&self) -> &[Line] {
        &self.lines[..self.line_count]
    }

    /// Whether a line is supplied by another warehouse.
    pub(super) fn is_remote(&self, line: &Line) -> bool {
        line.supply_warehouse != self.warehouse
    }

    /// Enters the order (TPC-C 2.4.2.2).
    pub(super) fn run(&self, session: &mut dyn Session, buffers: &mut Buffers) -> Result<Outcome, DatabaseError> {
        let [warehouse, district, customer] = [self.warehouse, self.district, self.customer].map(Value::Int);
        session.begin()?;
        execute_one(session, &READ_CUSTOMER, &[warehouse, district, customer], &mut buffers.rows)?;
        let (discount, warehouse_tax) = (buffers.rows.int(0, 2), buffers.rows.int(0, 3));
        execute_one(session, &TAKE_ORDER_NUMBER, &[warehouse, district], &mut buffers.rows)?;
        let (number, district_tax) = (buffers.rows.int(0, 0), buffers.rows.int(0, 1));
        let order = Value::Int(number);
        let line_count = Value::Int(self.line_count as i64);
        let all_local = Value::Int(i64::from(!self.lines().iter().any(|line| self.is_remote(line))));
        let entry_time = Value::Int(self.entry_time);
        let order_row = [order, district, warehouse, customer, entry_time, line_count, all_local];
        session.execute(&INSERT_ORDER, &order_row, &mut buffers.rows)?;
        session.execute(&INSERT_NEW_ORDER, &[order, district, warehouse], &mut buffers.rows)?;
        let mut sum = 0;
        for (line_number, line) in (1..).zip(self.lines()) {
            match self.add_line(number, line_number, line, session, buffers)? {
                Some(amount) => sum += amount,
                None => {
                    session.rollback()?;
                    return Ok(Outcome::RolledBack);
                }
            }
        }
        session.commit()?;
        // The terminal shows the total (TPC-C 2.4.3.3). It is not displayed here, yet computing it is part of the
        // transaction.
        black_box(sum * (10_000 - discount) / 10_000 * (10_000 + warehouse_tax + district_tax) / 10_000);
        Ok(Outcome::Committed)
    }

    /// Adds a line and returns its amount; `None` where its item does not exist.
    fn add_line(
        &self,
        order: i64,
        line_number: i64,
        line: &Line,
        session: &mut dyn Session,
        buffers: &mut Buffers,
    ) -> Result<Option<i64>, DatabaseError> {
        let item = Value::Int(line.item);
        session.execute(&READ_ITEM, &[item], &mut buffers.rows)?;
        if buffers.rows.is_empty() {
            return match line.item {
                UNUSED_ITEM => Ok(None),
                _ => Err(missing_row(session, "tpcc", &READ_ITEM, &[item])),
            };
        }
        let amount = buffers.rows.int(0, 0) * line.quantity;
        let supply = Value::Int(line.supply_warehouse);
        let quantity = Value::Int(line.quantity);
        let remote = Value::Int(self.is_remote(line).into());
        let take = [supply, item, quantity, remote, Value::Int(self.district)];
        execute_one(session, &TAKE_STOCK, &take, &mut buffers.more_rows)?;
        let stock = &buffers.more_rows;
        // The terminal marks a line whose item and stock are both original as brand, any other as generic.
        black_box(buffers.rows.text(0, 2).contains("ORIGINAL") && stock.text(0, 2).contains("ORIGINAL"));
        let [order, district, warehouse] = [order, self.district, self.warehouse].map(Value::Int);
        let [line_number, amount_cents] = [line_number, amount].map(Value::Int);
        let district_info = Value::Text(stock.text(0, 1));
        let row = [order, district, warehouse, line_number, item, supply, quantity, amount_cents, district_info];
        session.execute(&INSERT_ORDER_LINE, &row, &mut buffers.rows)?;
        Ok(Some(amount))
    }
}

/// (warehouse, district, customer) → (last name, credit, discount, warehouse tax).
static READ_CUSTOMER: Statement = Statement {
    name: "new_order_read_customer",
    sql: "SELECT c_last, c_credit, (c_discount * 10000)::bigint, (w_tax * 10000)::bigint FROM customer, warehouse \
          WHERE w_id = $1 AND c_w_id = $1 AND c_d_id = $2 AND c_id = $3",
    native: &read_customer,
};

fn read_customer(access: &mut dyn RowAccess, parameters: &[Value<'_>], rows: &mut Rows) -> Result<(), DatabaseError> {
    let Some(customer) = access.find(primary(CUSTOMER), parameters, Intent::Read)? else { return Ok(()) };
    let Some(warehouse) = access.find(primary(WAREHOUSE), &parameters[..1], Intent::Read)? else { return Ok(()) };
    rows.start(4);
    rows.append_stored(access, &SCHEMA, customer, &[C_LAST, C_CREDIT, C_DISCOUNT]);
    rows.append_stored(access, &SCHEMA, warehouse, &[W_TAX]);
    Ok(())
}

/// (warehouse, district) → (order number, district tax); the district's next number moves on.
static TAKE_ORDER_NUMBER: Statement = Statement {
    name: "new_order_take_order_number",
    sql: "UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = $1 AND d_id = $2 \
          RETURNING d_next_o_id - 1, (d_tax * 10000)::bigint",
    native: &|access, parameters, rows| {
        let Some(district) = access.find(primary(DISTRICT), parameters, Intent::Write)? else { return Ok(()) };
        rows.start(2);
        rows.append_stored(access, &SCHEMA, district, &[D_NEXT_O_ID, D_TAX]);
        access.set(district, D_NEXT_O_ID, Value::Int(rows.int(0, 0) + 1))
    },
};

/// (order, district, warehouse, customer, entry time, line count, all local).
static INSERT_ORDER: Statement = Statement {
    name: "new_order_insert_order",
    sql: "INSERT INTO orders (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_carrier_id, o_ol_cnt, o_all_local) \
          VALUES ($1, $2, $3, $4, $5, NULL, $6, $7)",
    native: &|access, parameters, rows| {
        let &[order, district, warehouse, customer, entry_time, line_count, all_local] = parameters else {
            panic!("seven parameters")
        };
        let row = [order, district, warehouse, customer, entry_time, Value::Null, line_count, all_local];
        insert(access, ORDERS, &row, rows)
    },
};

/// (order, district, warehouse).
static INSERT_NEW_ORDER: Statement = Statement {
    name: "new_order_insert_new_order",
    sql: "INSERT INTO new_order (no_o_id, no_d_id, no_w_id) VALUES ($1, $2, $3)",
    native: &|access, parameters, rows| insert(access, NEW_ORDER, parameters, rows),
};

/// (item) → (price, name, data).
static READ_ITEM: Statement = Statement {
    name: "new_order_read_item",
    sql: "SELECT (i_price * 100)::bigint, i_name, i_data FROM item WHERE i_id = $1",
    native: &|access, parameters, rows| {
        if let Some(item) = access.find(primary(ITEM), parameters, Intent::Read)? {
            rows.start(3);
            rows.append_stored(access, &SCHEMA, item, &[I_PRICE, I_NAME, I_DATA]);
        }
        Ok(())
    },
};

/// (warehouse, item, quantity, 1 if remote, district of the order) → (quantity left, the district's text, data).
static TAKE_STOCK: Statement = Statement {
    name: "new_order_take_stock",
    sql: "UPDATE stock SET s_quantity = CASE WHEN s_quantity - $3 >= 10 THEN s_quantity - $3 \
          ELSE s_quantity - $3 + 91 END, s_ytd = s_ytd + $3, s_order_cnt = s_order_cnt + 1, \
          s_remote_cnt = s_remote_cnt + $4 WHERE s_w_id = $1 AND s_i_id = $2 \
          RETURNING s_quantity, CASE $5::int WHEN 1 THEN s_dist_01 WHEN 2 THEN s_dist_02 WHEN 3 THEN s_dist_03 \
          WHEN 4 THEN s_dist_04 WHEN 5 THEN s_dist_05 WHEN 6 THEN s_dist_06 WHEN 7 THEN s_dist_07 \
          WHEN 8 THEN s_dist_08 WHEN 9 THEN s_dist_09 ELSE s_dist_10 END, s_data",
    native: &take_stock,
};

fn take_stock(access: &mut dyn RowAccess, parameters: &[Value<'_>], rows: &mut Rows) -> Result<(), DatabaseError> {
    let Some(stock) = access.find(primary(STOCK), &parameters[..2], Intent::Write)? else { return Ok(()) };
    let [quantity, remote, district] = [2, 3, 4].map(|parameter| parameters[parameter].int());
    let left = restocked(access.int(stock, S_QUANTITY) - quantity);
    access.set(stock, S_QUANTITY, Value::Int(left))?;
    access.set(stock, S_YTD, Value::Int(access.int(stock, S_YTD) + quantity))?;
    access.set(stock, S_ORDER_CNT, Value::Int(access.int(stock, S_ORDER_CNT) + 1))?;
    if remote > 0 {
        access.set(stock, S_REMOTE_CNT, Value::Int(access.int(stock, S_REMOTE_CNT) + remote))?;
    }
    rows.start(3);
    let district_column = S_DIST_01 + (district - 1) as usize;
    rows.append_stored(access, &SCHEMA, stock, &[S_QUANTITY, district_column, S_DATA]);
    Ok(())
}

/// The quantity in stock after an order that leaves `left`: below ten, 91 more arrive (TPC-C 2.4.2.2).
fn restocked(left: i64) -> i64 {
    if left >= 10 { left } else { left + 91 }
}

/// (order, district, warehouse, line number, item, supplying warehouse, quantity, amount in hundredths, text).
static INSERT_ORDER_LINE: Statement = Statement {
    name: "new_order_insert_order_line",
    sql: "INSERT INTO order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_delivery_d, \
          ol_quantity, ol_amount, ol_dist_info) VALUES ($1, $2, $3, $4, $5, $6, NULL, $7, $8::bigint * 0.01, $9)",
    native: &|access, parameters, rows| {
        let &[order, district, warehouse, number, item, supply, quantity, amount, text] = parameters else {
            panic!("nine parameters")
        };
        let row = [order, district, warehouse, number, item, supply, Value::Null, quantity, amount, text];
        insert(access, ORDER_LINE, &row, rows)
    },
};

pub(super) static STATEMENTS: [&Statement; 7] =
    [&READ_CUSTOMER, &TAKE_ORDER_NUMBER, &INSERT_ORDER, &INSERT_NEW_ORDER, &READ_ITEM, &TAKE_STOCK, &INSERT_ORDER_LINE];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stock_is_refilled_below_ten() {
        for (left, expected) in [(90, 90), (11, 11), (10, 10), (9, 100), (1, 92), (0, 91)] {
            assert_eq!(restocked(left), expected, "{left} left");
        }
    }
}
