//! Order Display (TPC-W 2.14): a customer's last order with its lines.

use super::customer::address_and_country;
use super::random::user_name;
use super::schema::*;
use super::shop::{Shop, find_all, referred, show};
use crate::database::DatabaseError;
use crate::keyed;
use crate::statement::{End, Intent, RowAccess, Rows, Statement, Value};

/// Shows the last order of a customer, if there is one.
pub(super) fn order_display(shop: &mut Shop<'_>, customer: i64) -> Result<(), DatabaseError> {
    let name = user_name(customer);
    shop.execute_one(&READ_PASSWORD, &[Value::Text(&name)])?;
    shop.execute(&FIND_LAST_ORDER, &[Value::Text(&name)])?;
    if !shop.rows.is_empty() {
        let order = [Value::Int(shop.rows.int(0, 0))];
        shop.execute_one(&READ_ORDER, &order)?;
        shop.execute_one(&READ_LINES, &order)?;
    }
    Ok(())
}

/// (user name) → (password).
static READ_PASSWORD: Statement =
    keyed::statement!(SCHEMA, "tpcw_read_password", "SELECT c_passwd FROM customer WHERE c_uname = $1");

/// (user name) → (order of the greatest number).
static FIND_LAST_ORDER: Statement = Statement {
    name: "tpcw_find_last_order",
    sql: "SELECT o_id FROM customer JOIN orders ON o_c_id = c_id WHERE c_uname = $1 ORDER BY o_id DESC LIMIT 1",
    native: &|access, parameters, rows| {
        for customer in find_all(access, CUSTOMER_BY_USER_NAME, parameters, parameters)? {
            let id = [Value::Int(access.int(customer, C_ID))];
            if let Some(order) = access.find_end(ORDERS_BY_CUSTOMER, &id, &id, End::Last, Intent::Read)? {
                show(access, rows, &[(order, &[O_ID])]);
            }
        }
        Ok(())
    },
};

/// (order) → (date, sub-total, tax, total, ship type, ship date, status, first and last name, phone, email, card, then street,
/// state, zip and country of delivery and of the bill).
static READ_ORDER: Statement = Statement {
    name: "tpcw_read_order",
    sql: "SELECT o_date, (o_sub_total * 100)::bigint, (o_tax * 100)::bigint, (o_total * 100)::bigint, o_ship_type, \
          o_ship_date, o_status, c_fname, c_lname, c_phone, c_email, cx_type, \
          ship.addr_street1, ship.addr_state, ship.addr_zip, ship_country.co_name, \
          bill.addr_street1, bill.addr_state, bill.addr_zip, bill_country.co_name \
          FROM orders JOIN customer ON c_id = o_c_id JOIN cc_xacts ON cx_o_id = o_id \
          JOIN address AS ship ON ship.addr_id = o_ship_addr_id \
          JOIN country AS ship_country ON ship_country.co_id = ship.addr_co_id \
          JOIN address AS bill ON bill.addr_id = o_bill_addr_id \
          JOIN country AS bill_country ON bill_country.co_id = bill.addr_co_id WHERE o_id = $1",
    native: &read_order,
};

fn read_order(access: &mut dyn RowAccess, parameters: &[Value<'_>], rows: &mut Rows) -> Result<(), DatabaseError> {
    let Some(order) = access.find(primary(ORDERS), parameters, Intent::Read)? else { return Ok(()) };
    let Some(customer) = referred(access, order, O_C_ID, CUSTOMER, Intent::Read)? else { return Ok(()) };
    let Some(card) = access.find(primary(CC_XACTS), parameters, Intent::Read)? else { return Ok(()) };
    let [ship, bill] = [O_SHIP_ADDR_ID, O_BILL_ADDR_ID].map(|column| access.int(order, column));
    let Some((ship, ship_country)) = address_and_country(access, ship)? else { return Ok(()) };
    let Some((bill, bill_country)) = address_and_country(access, bill)? else { return Ok(()) };
    let about = [O_DATE, O_SUB_TOTAL, O_TAX, O_TOTAL, O_SHIP_TYPE, O_SHIP_DATE, O_STATUS];
    let place = [ADDR_STREET1, ADDR_STATE, ADDR_ZIP];
    let parts = [
        (order, &about[..]),
        (customer, &[C_FNAME, C_LNAME, C_PHONE, C_EMAIL]),
        (card, &[CX_TYPE]),
        (ship, &place),
        (ship_country, &[CO_NAME]),
        (bill, &place),
        (bill_country, &[CO_NAME]),
    ];
    show(access, rows, &parts);
    Ok(())
}

/// (order) → (item, title, publisher, cost, quantity, discount, comments) of each line.
static READ_LINES: Statement = Statement {
    name: "tpcw_read_order_lines",
    sql: "SELECT i_id, i_title, i_publisher, (i_cost * 100)::bigint, ol_qty, (ol_discount * 100)::bigint, ol_comments \
          FROM order_line JOIN item ON i_id = ol_i_id WHERE ol_o_id = $1 ORDER BY ol_id",
    native: &|access, parameters, rows| {
        for line in find_all(access, primary(ORDER_LINE), parameters, parameters)? {
            if let Some(item) = referred(access, line, OL_I_ID, ITEM, Intent::Read)? {
                let about = [I_ID, I_TITLE, I_PUBLISHER, I_COST];
                show(access, rows, &[(item, &about), (line, &[OL_QTY, OL_DISCOUNT, OL_COMMENTS])]);
            }
        }
        Ok(())
    },
};

pub(super) static STATEMENTS: [&Statement; 4] = [&READ_PASSWORD, &FIND_LAST_ORDER, &READ_ORDER, &READ_LINES];
