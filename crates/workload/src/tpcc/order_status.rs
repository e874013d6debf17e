//! Order-Status (TPC-C 2.6): a customer's balance, and the lines of the customer's last order.

use super::buffers::{Buffers, execute_one};
use super::customer::{CustomerChoice, find_by_name, middle_customer};
use super::schema::*;
use super::terminal::Terminal;
use crate::benchmark::Outcome;
use crate::database::{DatabaseError, Session};
use crate::schema::ColumnId;
use crate::statement::{End, Intent, RowAccess, RowRef, Rows, Statement, Value};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OrderStatus {
    pub(super) warehouse: i64,
    pub(super) district: i64,
    pub(super) customer: CustomerChoice,
}

impl OrderStatus {
    /// Draws the input (TPC-C 2.6.1).
    pub(super) fn draw(terminal: &mut Terminal) -> Self {
        OrderStatus { warehouse: terminal.warehouse, district: terminal.district(), customer: terminal.customer() }
    }

    /// Looks the order up (TPC-C 2.6.2.2).
    pub(super) fn run(&self, session: &mut dyn Session, buffers: &mut Buffers) -> Result<Outcome, DatabaseError> {
        let [warehouse, district] = [self.warehouse, self.district].map(Value::Int);
        let (statement, customer) = match self.customer {
            CustomerChoice::ById(id) => (&READ_CUSTOMER_BY_ID, Value::Int(id)),
            CustomerChoice::ByLastName(number) => {
                (&READ_CUSTOMER_BY_NAME, Value::Text(&buffers.last_names[number as usize]))
            }
        };
        session.begin()?;
        execute_one(session, statement, &[warehouse, district, customer], &mut buffers.rows)?;
        let customer = Value::Int(buffers.rows.int(0, 0));
        execute_one(session, &READ_LAST_ORDER, &[warehouse, district, customer], &mut buffers.rows)?;
        let order = Value::Int(buffers.rows.int(0, 0));
        execute_one(session, &READ_ORDER_LINES, &[warehouse, district, order], &mut buffers.rows)?;
        session.commit()?;
        Ok(Outcome::Committed)
    }
}

/// The SQL that reads the customer whose number is given by an expression.
macro_rules! read_customer {
    ($customer:expr) => {
        concat!(
            "SELECT c_id, (c_balance * 100)::bigint, c_first, c_middle, c_last FROM customer ",
            "WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = ",
            $customer
        )
    };
}

/// (warehouse, district, customer) → (number, balance, first, middle and last name).
static READ_CUSTOMER_BY_ID: Statement = Statement {
    name: "order_status_read_customer_by_id",
    sql: read_customer!("$3"),
    native: &|access, parameters, rows| {
        let customer = access.find(primary(CUSTOMER), parameters, Intent::Read)?;
        show(access, customer, &CUSTOMER_SHOWN, rows);
        Ok(())
    },
};

/// (warehouse, district, last name) → as [`READ_CUSTOMER_BY_ID`].
static READ_CUSTOMER_BY_NAME: Statement = Statement {
    name: "order_status_read_customer_by_name",
    sql: read_customer!(middle_customer!("$1", "$2", "$3")),
    native: &|access, parameters, rows| {
        let customer = find_by_name(access, parameters, Intent::Read)?;
        show(access, customer, &CUSTOMER_SHOWN, rows);
        Ok(())
    },
};

const CUSTOMER_SHOWN: [ColumnId; 5] = [C_ID, C_BALANCE, C_FIRST, C_MIDDLE, C_LAST];

/// (warehouse, district, customer) → (order, entry time, carrier) of the customer's order of the largest number.
static READ_LAST_ORDER: Statement = Statement {
    name: "order_status_read_last_order",
    sql: "SELECT o_id, o_entry_d, o_carrier_id FROM orders WHERE o_w_id = $1 AND o_d_id = $2 AND o_c_id = $3 \
          ORDER BY o_id DESC LIMIT 1",
    native: &|access, parameters, rows| {
        let order = access.find_end(ORDERS_BY_CUSTOMER, parameters, parameters, End::Last, Intent::Read)?;
        show(access, order, &[O_ID, O_ENTRY_D, O_CARRIER_ID], rows);
        Ok(())
    },
};

/// (warehouse, district, order) → (item, supplying warehouse, quantity, amount, delivery time) of each line.
static READ_ORDER_LINES: Statement = Statement {
    name: "order_status_read_order_lines",
    sql: "SELECT ol_i_id, ol_supply_w_id, ol_quantity, (ol_amount * 100)::bigint, ol_delivery_d FROM order_line \
          WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id = $3 ORDER BY ol_number",
    native: &|access, parameters, rows| {
        let mut lines = Vec::with_capacity(15);
        access.find_all(primary(ORDER_LINE), parameters, parameters, Intent::Read, &mut lines)?;
        for line in lines {
            let shown = [OL_I_ID, OL_SUPPLY_W_ID, OL_QUANTITY, OL_AMOUNT, OL_DELIVERY_D];
            show(access, Some(line), &shown, rows);
        }
        Ok(())
    },
};

/// Adds columns of a row, if there is one, to the result.
fn show(access: &dyn RowAccess, row: Option<RowRef>, columns: &[ColumnId], rows: &mut Rows) {
    if let Some(row) = row {
        rows.start(columns.len());
        rows.append_stored(access, &SCHEMA, row, columns);
    }
}

pub(super) static STATEMENTS: [&Statement; 4] =
    [&READ_CUSTOMER_BY_ID, &READ_CUSTOMER_BY_NAME, &READ_LAST_ORDER, &READ_ORDER_LINES];
