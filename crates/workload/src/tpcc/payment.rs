//! Payment (TPC-C 2.5): a customer pays; warehouse, district, customer and history record it.

use std::fmt::Write;

use super::buffers::{Buffers, execute_one};
use super::customer::{CustomerChoice, find_by_name, middle_customer};
use super::schema::*;
use super::terminal::Terminal;
use crate::benchmark::Outcome;
use crate::database::{DatabaseError, Session};
use crate::schema::{ColumnId, TableId};
use crate::statement::{Intent, RowAccess, RowRef, Rows, Statement, Value, insert};

/// The length of C_DATA in characters; text beyond it is cut off.
const CUSTOMER_DATA_MAX: usize = 500;

/// The number of characters of C_DATA that the terminal shows.
const CUSTOMER_DATA_SHOWN: usize = 200;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Payment {
    pub(super) warehouse: i64,
    pub(super) district: i64,
    pub(super) customer_warehouse: i64,
    pub(super) customer_district: i64,
    pub(super) customer: CustomerChoice,
    /// In hundredths.
    pub(super) amount: i64,
    pub(super) time: i64,
}

impl Payment {
    /// Draws the input (TPC-C 2.5.1).
    pub(super) fn draw(terminal: &mut Terminal) -> Self {
        let (warehouse, district) = (terminal.warehouse, terminal.district());
        let (customer_warehouse, customer_district) = if terminal.random.uniform(1, 100) <= 85 {
            (warehouse, district)
        } else {
            // With a single warehouse every customer is the home warehouse's (TPC-C 2.5.1.2).
            (terminal.remote_warehouse().unwrap_or(warehouse), terminal.district())
        };
        let customer = terminal.customer();
        let amount = terminal.random.uniform(100, 500_000);
        Payment { warehouse, district, customer_warehouse, customer_district, customer, amount, time: terminal.now() }
    }

    /// Whether the customer is another warehouse's.
    pub(super) fn is_remote(&self) -> bool {
        self.customer_warehouse != self.warehouse
    }

    /// Takes the payment (TPC-C 2.5.2.2).
    pub(super) fn run(&self, session: &mut dyn Session, buffers: &mut Buffers) -> Result<Outcome, DatabaseError> {
        let [warehouse, district, amount] = [self.warehouse, self.district, self.amount].map(Value::Int);
        session.begin()?;
        execute_one(session, &PAY_WAREHOUSE, &[warehouse, amount], &mut buffers.rows)?;
        buffers.text.clear();
        buffers.text.push_str(buffers.rows.text(0, 0));
        execute_one(session, &PAY_DISTRICT, &[warehouse, district, amount], &mut buffers.rows)?;
        buffers.text.push_str("    ");
        buffers.text.push_str(buffers.rows.text(0, 0));

        let [customer_warehouse, customer_district] = [self.customer_warehouse, self.customer_district].map(Value::Int);
        let (statement, customer) = match self.customer {
            CustomerChoice::ById(id) => (&PAY_CUSTOMER_BY_ID, Value::Int(id)),
            CustomerChoice::ByLastName(number) => {
                (&PAY_CUSTOMER_BY_NAME, Value::Text(&buffers.last_names[number as usize]))
            }
        };
        let pay = [customer_warehouse, customer_district, customer, amount, district, warehouse];
        execute_one(session, statement, &pay, &mut buffers.more_rows)?;
        let customer = Value::Int(buffers.more_rows.int(0, 0));

        let (time, text) = (Value::Int(self.time), Value::Text(&buffers.text));
        let history = [customer, customer_district, customer_warehouse, district, warehouse, time, amount, text];
        session.execute(&INSERT_HISTORY, &history, &mut buffers.rows)?;
        session.commit()?;
        Ok(Outcome::Committed)
    }
}

/// (warehouse, amount) → (name, street 1, street 2, city, state, zip).
static PAY_WAREHOUSE: Statement = Statement {
    name: "payment_pay_warehouse",
    sql: "UPDATE warehouse SET w_ytd = w_ytd + $2::bigint * 0.01 WHERE w_id = $1 \
          RETURNING w_name, w_street_1, w_street_2, w_city, w_state, w_zip",
    native: &|access, parameters, rows| {
        let shown = &[W_NAME, W_STREET_1, W_STREET_2, W_CITY, W_STATE, W_ZIP];
        add_to_year(access, WAREHOUSE, W_YTD, shown, parameters, rows)
    },
};

/// (warehouse, district, amount) → (name, street 1, street 2, city, state, zip).
static PAY_DISTRICT: Statement = Statement {
    name: "payment_pay_district",
    sql: "UPDATE district SET d_ytd = d_ytd + $3::bigint * 0.01 WHERE d_w_id = $1 AND d_id = $2 \
          RETURNING d_name, d_street_1, d_street_2, d_city, d_state, d_zip",
    native: &|access, parameters, rows| {
        let shown = &[D_NAME, D_STREET_1, D_STREET_2, D_CITY, D_STATE, D_ZIP];
        add_to_year(access, DISTRICT, D_YTD, shown, parameters, rows)
    },
};

/// Adds the last parameter to a year-to-date column of the row whose key are those before it.
fn add_to_year(
    access: &mut dyn RowAccess,
    table: TableId,
    year_to_date: ColumnId,
    shown: &[ColumnId],
    parameters: &[Value<'_>],
    rows: &mut Rows,
) -> Result<(), DatabaseError> {
    let (amount, key) = parameters.split_last().expect("the last parameter is the amount");
    let Some(row) = access.find(primary(table), key, Intent::Write)? else { return Ok(()) };
    access.set(row, year_to_date, Value::Int(access.int(row, year_to_date) + amount.int()))?;
    rows.start(shown.len());
    rows.append_stored(access, &SCHEMA, row, shown);
    Ok(())
}

/// The SQL that takes a payment from the customer whose number is given by an expression. Parameters: 1 warehouse and
/// 2 district of the customer, 4 amount, 5 district and 6 warehouse that are paid.
macro_rules! pay_customer {
    ($customer:expr) => {
        concat!(
            "UPDATE customer SET c_balance = c_balance - $4::bigint * 0.01, ",
            "c_ytd_payment = c_ytd_payment + $4::bigint * 0.01, c_payment_cnt = c_payment_cnt + 1, ",
            "c_data = CASE WHEN c_credit = 'BC' THEN left(c_id || ' ' || c_d_id || ' ' || c_w_id || ' ' || ",
            "$5::int || ' ' || $6::int || ' ' || ($4::bigint * 0.01) || ' | ' || c_data, 500) ELSE c_data END ",
            "WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = ",
            $customer,
            " RETURNING c_id, c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, c_zip, c_phone, ",
            "c_since, c_credit, (c_credit_lim * 100)::bigint, (c_discount * 10000)::bigint, ",
            "(c_balance * 100)::bigint, CASE WHEN c_credit = 'BC' THEN left(c_data, 200) END"
        )
    };
}

/// (customer's warehouse, customer's district, customer, amount, district, warehouse) → what the terminal shows: number,
/// first, middle and last name, address (5), phone, since, credit, limit, discount, balance, the start of a bad customer's
/// data.
static PAY_CUSTOMER_BY_ID: Statement = Statement {
    name: "payment_pay_customer_by_id",
    sql: pay_customer!("$3"),
    native: &|access, parameters, rows| match access.find(primary(CUSTOMER), &parameters[..3], Intent::Write)? {
        Some(customer) => pay(access, customer, &parameters[3..], rows),
        None => Ok(()),
    },
};

/// As [`PAY_CUSTOMER_BY_ID`], with a last name for the customer.
static PAY_CUSTOMER_BY_NAME: Statement = Statement {
    name: "payment_pay_customer_by_name",
    sql: pay_customer!(middle_customer!("$1", "$2", "$3")),
    // All customers with the name are read, one is written. An update lock admits readers of the others, yet two
    // payments to the same name cannot both hold a lock that blocks the other's write, as they could with read locks.
    native: &|access, parameters, rows| match find_by_name(access, &parameters[..3], Intent::Update)? {
        Some(customer) => pay(access, customer, &parameters[3..], rows),
        None => Ok(()),
    },
};

/// Takes a payment from a customer; `parameters` are amount, district and warehouse.
fn pay(
    access: &mut dyn RowAccess,
    customer: RowRef,
    parameters: &[Value<'_>],
    rows: &mut Rows,
) -> Result<(), DatabaseError> {
    const SHOWN: [ColumnId; 15] = [
        C_ID,
        C_FIRST,
        C_MIDDLE,
        C_LAST,
        C_STREET_1,
        C_STREET_2,
        C_CITY,
        C_STATE,
        C_ZIP,
        C_PHONE,
        C_SINCE,
        C_CREDIT,
        C_CREDIT_LIM,
        C_DISCOUNT,
        C_BALANCE,
    ];
    const CREDIT: usize = 11;
    let [amount, district, warehouse] = [0, 1, 2].map(|parameter| parameters[parameter].int());
    access.set(customer, C_BALANCE, Value::Int(access.int(customer, C_BALANCE) - amount))?;
    access.set(customer, C_YTD_PAYMENT, Value::Int(access.int(customer, C_YTD_PAYMENT) + amount))?;
    access.set(customer, C_PAYMENT_CNT, Value::Int(access.int(customer, C_PAYMENT_CNT) + 1))?;
    rows.start(SHOWN.len() + 1);
    rows.append_stored(access, &SCHEMA, customer, &SHOWN);
    if rows.text(0, CREDIT) != "BC" {
        rows.append(Value::Null);
        return Ok(());
    }
    let mut data = String::with_capacity(CUSTOMER_DATA_MAX + 64);
    let [id, customer_district, customer_warehouse] = [C_ID, C_D_ID, C_W_ID].map(|column| access.int(customer, column));
    let (dollars, cents) = (amount / 100, amount % 100);
    write!(data, "{id} {customer_district} {customer_warehouse} {district} {warehouse} {dollars}.{cents:02} | ")
        .expect("writing to a string cannot fail");
    access.text(customer, C_DATA, &mut data);
    data.truncate(CUSTOMER_DATA_MAX);
    access.set(customer, C_DATA, Value::Text(&data))?;
    rows.append(Value::Text(&data[..CUSTOMER_DATA_SHOWN.min(data.len())]));
    Ok(())
}

/// (customer, its district, its warehouse, district, warehouse, time, amount, text).
static INSERT_HISTORY: Statement = Statement {
    name: "payment_insert_history",
    sql: "INSERT INTO history (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data) \
          VALUES ($1, $2, $3, $4, $5, $6, $7::bigint * 0.01, $8)",
    native: &|access, parameters, rows| insert(access, HISTORY, parameters, rows),
};

pub(super) static STATEMENTS: [&Statement; 5] =
    [&PAY_WAREHOUSE, &PAY_DISTRICT, &PAY_CUSTOMER_BY_ID, &PAY_CUSTOMER_BY_NAME, &INSERT_HISTORY];
