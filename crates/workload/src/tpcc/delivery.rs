//! Delivery (TPC-C 2.7): delivers the oldest undelivered order of each of the warehouse's ten districts.
//!
//! All districts are served in one transaction, which the specification allows. It also requires the terminal to queue
//! the request and continue; here the client waits for it, as for any other request.

use super::buffers::{Buffers, execute_one};
use super::schema::*;
use super::terminal::Terminal;
use crate::benchmark::Outcome;
use crate::database::{DatabaseError, Session};
use crate::statement::{End, Intent, RowAccess, Rows, Statement, Value};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Delivery {
    pub(super) warehouse: i64,
    pub(super) carrier: i64,
    pub(super) time: i64,
}

impl Delivery {
    /// Draws the input (TPC-C 2.7.1).
    pub(super) fn draw(terminal: &mut Terminal) -> Self {
        Delivery { warehouse: terminal.warehouse, carrier: terminal.random.uniform(1, 10), time: terminal.now() }
    }

    /// Delivers (TPC-C 2.7.4.2), and returns how many districts had no order to deliver.
    pub(super) fn run(
        &self,
        session: &mut dyn Session,
        buffers: &mut Buffers,
    ) -> Result<(Outcome, u64), DatabaseError> {
        session.begin()?;
        let mut skipped = 0;
        for district in 1..=DISTRICTS_PER_WAREHOUSE {
            if !self.deliver(district, session, buffers)? {
                skipped += 1;
            }
        }
        session.commit()?;
        Ok((Outcome::Committed, skipped))
    }

    /// Delivers a district's oldest order; `false` where all are delivered.
    fn deliver(&self, district: i64, session: &mut dyn Session, buffers: &mut Buffers) -> Result<bool, DatabaseError> {
        let [warehouse, district, carrier, time] = [self.warehouse, district, self.carrier, self.time].map(Value::Int);
        let rows = &mut buffers.rows;
        session.execute(&TAKE_OLDEST, &[warehouse, district], rows)?;
        if rows.is_empty() {
            return Ok(false);
        }
        let order = Value::Int(rows.int(0, 0));
        execute_one(session, &SET_CARRIER, &[warehouse, district, order, carrier], rows)?;
        let customer = Value::Int(rows.int(0, 0));
        execute_one(session, &DELIVER_LINES, &[warehouse, district, order, time], rows)?;
        let amount = Value::Int(rows.int(0, 0));
        execute_one(session, &CHARGE_CUSTOMER, &[warehouse, district, customer, amount], rows)?;
        Ok(true)
    }
}

/// (warehouse, district) → (order), which is no longer new; no row where the district has none.
static TAKE_OLDEST: Statement = Statement {
    name: "delivery_take_oldest",
    sql: "DELETE FROM new_order WHERE no_w_id = $1 AND no_d_id = $2 AND no_o_id = \
          (SELECT min(no_o_id) FROM new_order WHERE no_w_id = $1 AND no_d_id = $2) RETURNING no_o_id",
    native: &|access, parameters, rows| {
        let index = primary(NEW_ORDER);
        let Some(oldest) = access.find_end(index, parameters, parameters, End::First, Intent::Write)? else {
            return Ok(());
        };
        rows.push(&[Value::Int(access.int(oldest, NO_O_ID))]);
        access.delete(oldest)
    },
};

/// (warehouse, district, order, carrier) → (customer).
static SET_CARRIER: Statement = Statement {
    name: "delivery_set_carrier",
    sql: "UPDATE orders SET o_carrier_id = $4 WHERE o_w_id = $1 AND o_d_id = $2 AND o_id = $3 RETURNING o_c_id",
    native: &|access, parameters, rows| {
        let Some(order) = access.find(primary(ORDERS), &parameters[..3], Intent::Write)? else { return Ok(()) };
        rows.push(&[Value::Int(access.int(order, O_C_ID))]);
        access.set(order, O_CARRIER_ID, parameters[3])
    },
};

/// (warehouse, district, order, time) → (sum of the amounts); always one row.
static DELIVER_LINES: Statement = Statement {
    name: "delivery_deliver_lines",
    sql: "WITH delivered AS (UPDATE order_line SET ol_delivery_d = $4 WHERE ol_w_id = $1 AND ol_d_id = $2 \
          AND ol_o_id = $3 RETURNING ol_amount) SELECT (COALESCE(sum(ol_amount), 0) * 100)::bigint FROM delivered",
    native: &deliver_lines,
};

fn deliver_lines(access: &mut dyn RowAccess, parameters: &[Value<'_>], rows: &mut Rows) -> Result<(), DatabaseError> {
    let order = &parameters[..3];
    let mut lines = Vec::with_capacity(15);
    access.find_all(primary(ORDER_LINE), order, order, Intent::Write, &mut lines)?;
    let mut amount = 0;
    for line in lines {
        amount += access.int(line, OL_AMOUNT);
        access.set(line, OL_DELIVERY_D, parameters[3])?;
    }
    rows.push(&[Value::Int(amount)]);
    Ok(())
}

/// (warehouse, district, customer, amount) → (deliveries so far).
static CHARGE_CUSTOMER: Statement = Statement {
    name: "delivery_charge_customer",
    sql: "UPDATE customer SET c_balance = c_balance + $4::bigint * 0.01, c_delivery_cnt = c_delivery_cnt + 1 \
          WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3 RETURNING c_delivery_cnt",
    native: &|access, parameters, rows| {
        let Some(customer) = access.find(primary(CUSTOMER), &parameters[..3], Intent::Write)? else { return Ok(()) };
        let deliveries = access.int(customer, C_DELIVERY_CNT) + 1;
        access.set(customer, C_BALANCE, Value::Int(access.int(customer, C_BALANCE) + parameters[3].int()))?;
        access.set(customer, C_DELIVERY_CNT, Value::Int(deliveries))?;
        rows.push(&[Value::Int(deliveries)]);
        Ok(())
    },
};

pub(super) static STATEMENTS: [&Statement; 4] = [&TAKE_OLDEST, &SET_CARRIER, &DELIVER_LINES, &CHARGE_CUSTOMER];
