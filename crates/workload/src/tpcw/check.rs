//! Checks invariants of the shop's data, in SQL that PostgreSQL and DataFusion read alike.
//!
//! Rows up to the loaded numbers are the population; those above them were entered by clients.

use super::Tpcw;
use super::audit::Audit;
use super::schema::*;
use super::size::Size;
use crate::benchmark::CheckLine;
use crate::condition::{Condition, judge};
use crate::database::{Database, DatabaseError, Session};
use crate::inquiry::{first_integer, integer_line, row_count_line, work_line};

/// Row counts, conditions, and the audit of the work of this value's clients.
pub(super) fn check(benchmark: &Tpcw, database: &dyn Database) -> Result<Vec<CheckLine>, DatabaseError> {
    database.refresh(&SCHEMA)?;
    let mut session = database.session(&SCHEMA)?;
    let session = session.as_mut();
    let mut lines = row_counts(session, benchmark.size, &benchmark.audit);
    for condition in conditions(benchmark.size) {
        lines.push(judge(session, &condition)?);
    }
    if benchmark.audit.all() > 0 {
        lines.extend(benchmark.audit.judge(benchmark.mix));
    }
    Ok(lines)
}

/// How many rows were loaded, and how many were added since.
fn row_counts(session: &mut dyn Session, size: Size, audit: &Audit) -> Vec<CheckLine> {
    let loaded = [
        (ADDRESS, "addr_id", size.addresses()),
        (CUSTOMER, "c_id", size.customers()),
        (ORDERS, "o_id", size.orders()),
        (ORDER_LINE, "ol_o_id", size.orders()),
        (CC_XACTS, "cx_o_id", size.orders()),
    ];
    let mut lines: Vec<_> = [ITEM, AUTHOR, COUNTRY]
        .into_iter()
        .map(|table| row_count_line(session, SCHEMA.tables[table].name, size.rows(table) as u64))
        .collect();
    for (table, number, last) in loaded {
        let (name, rows) = (SCHEMA.tables[table].name, size.rows(table));
        let sql = format!("select count(*) from {name} where {number} <= {last}");
        lines.push(integer_line(session, format!("{name} has its {rows} loaded rows"), &sql, rows));
    }
    lines.push(new_rows(session, "customer", "c_id", size.customers(), audit.customers()));
    lines.push(new_rows(session, "orders", "o_id", size.orders(), audit.orders()));
    lines
}

/// Clients add a row for each registration and order.
fn new_rows(session: &mut dyn Session, table: &str, number: &str, loaded: i64, added: u64) -> CheckLine {
    let added = added as i64;
    work_line(
        format!("{table} has {added} rows that clients have added"),
        first_integer(session, &format!("select count(*) from {table} where {number} > {loaded}")),
        added,
        |missing| format!("{missing} are missing"),
        |more| format!("{}, so others have run too, or {more} are too many", added + more),
    )
}

pub(super) fn conditions(size: Size) -> Vec<Condition> {
    let mut all: Vec<_> = FIXED
        .iter()
        .map(|&(what, violations)| {
            let violations = violations.replace("{loaded_orders}", &size.orders().to_string());
            Condition { what, violations: violations.replace("{items}", &size.items.to_string()) }
        })
        .collect();
    all.extend(REFERENCES.iter().map(|&(what, table, column, other, key)| Condition {
        what,
        violations: format!(
            "SELECT {column} FROM {table} LEFT JOIN {other} ON {key} = {column} WHERE {key} IS NULL GROUP BY {column}"
        ),
    }));
    all
}

/// The foreign keys: table, column, other table, its key.
const REFERENCES: &[(&str, &str, &str, &str, &str)] = &[
    ("items have authors", "item", "i_a_id", "author", "a_id"),
    ("addresses have countries", "address", "addr_co_id", "country", "co_id"),
    ("customers have addresses", "customer", "c_addr_id", "address", "addr_id"),
    ("orders have customers", "orders", "o_c_id", "customer", "c_id"),
    ("orders are billed to addresses", "orders", "o_bill_addr_id", "address", "addr_id"),
    ("orders are sent to addresses", "orders", "o_ship_addr_id", "address", "addr_id"),
    ("order lines have items", "order_line", "ol_i_id", "item", "i_id"),
    ("order lines have orders", "order_line", "ol_o_id", "orders", "o_id"),
    ("lines of carts have carts", "shopping_cart_line", "scl_sc_id", "shopping_cart", "sc_id"),
    ("lines of carts have items", "shopping_cart_line", "scl_i_id", "item", "i_id"),
];

/// Outer joins and COALESCE keep rows that inner joins would drop. `IS DISTINCT FROM` is in parentheses, because
/// DataFusion's parser takes everything after it as its right side. Rounded amounts may be half a cent off. The texts
/// express this in whole numbers, because DataFusion reads a number with a point as a binary one, which is inexact.
const FIXED: &[(&str, &str)] = &[
    (
        "each order has one credit card record, of its total",
        "SELECT o_id, o_total, cx_o_id, cx_xact_amt FROM orders FULL JOIN cc_xacts ON cx_o_id = o_id \
         WHERE (o_total IS DISTINCT FROM cx_xact_amt)",
    ),
    (
        "each order has lines, numbered from 1",
        "SELECT o_id, line_count, line_min, line_max FROM orders \
         LEFT JOIN (SELECT ol_o_id, count(*) AS line_count, min(ol_id) AS line_min, max(ol_id) AS line_max \
         FROM order_line GROUP BY ol_o_id) AS l ON ol_o_id = o_id \
         WHERE COALESCE(line_count, 0) = 0 OR line_min <> 1 OR line_max <> line_count",
    ),
    (
        "O_TAX is 8.25 % of O_SUB_TOTAL",
        "SELECT o_id, o_sub_total, o_tax FROM orders WHERE (o_tax * 10000 - o_sub_total * 825) NOT BETWEEN -50 AND 50",
    ),
    (
        "O_TOTAL of a loaded order = sub-total + tax + 3.00 + 1.00 for each line",
        "SELECT o_id, o_sub_total, o_tax, o_total, line_count FROM orders \
         LEFT JOIN (SELECT ol_o_id, count(*) AS line_count FROM order_line GROUP BY ol_o_id) AS l ON ol_o_id = o_id \
         WHERE o_id <= {loaded_orders} AND o_total <> o_sub_total + o_tax + 3 + COALESCE(line_count, 0)",
    ),
    (
        "O_TOTAL of a new order = sub-total + tax + 3.00 + 1.00 for each piece",
        "SELECT o_id, o_sub_total, o_tax, o_total, pieces FROM orders \
         LEFT JOIN (SELECT ol_o_id, sum(ol_qty) AS pieces FROM order_line GROUP BY ol_o_id) AS l ON ol_o_id = o_id \
         WHERE o_id > {loaded_orders} AND o_total <> o_sub_total + o_tax + 3 + COALESCE(pieces, 0)",
    ),
    (
        "O_SUB_TOTAL of a new order = the sum of its lines less its discount, where no item's price was changed",
        "SELECT o_id, o_sub_total, price, ol_discount FROM orders \
         JOIN (SELECT ol_o_id, ol_discount, sum(ol_qty * i_cost) AS price, \
         sum(CASE WHEN i_image LIKE '%/image_%' THEN 0 ELSE 1 END) AS changed FROM order_line \
         JOIN item ON i_id = ol_i_id WHERE ol_o_id > {loaded_orders} GROUP BY ol_o_id, ol_discount) AS l \
         ON ol_o_id = o_id WHERE changed = 0 AND (o_sub_total - price * (1 - ol_discount)) * 1000 NOT BETWEEN -5 AND 5",
    ),
    (
        "the lines of a new order have the same discount, its customer's",
        "SELECT ol_o_id, ol_id, ol_discount, c_discount FROM order_line JOIN orders ON o_id = ol_o_id \
         JOIN customer ON c_id = o_c_id WHERE ol_o_id > {loaded_orders} AND ol_discount <> c_discount",
    ),
    (
        "the lines of a new order are of different items, 1 to 10 of each",
        "SELECT ol_o_id, ol_i_id, line_count, quantity FROM (SELECT ol_o_id, ol_i_id, count(*) AS line_count, \
         sum(ol_qty) AS quantity FROM order_line WHERE ol_o_id > {loaded_orders} GROUP BY ol_o_id, ol_i_id) AS l \
         WHERE line_count <> 1 OR quantity < 1 OR quantity > 10",
    ),
    ("I_STOCK is 10 to 30", "SELECT i_id, i_stock FROM item WHERE i_stock < 10 OR i_stock > 30"),
    (
        "I_STOCK = what was loaded, less what new orders took, and 21 for each refill",
        "SELECT i_id, i_stock, taken FROM item LEFT JOIN (SELECT ol_i_id, CAST(sum(ol_qty) AS bigint) AS taken \
         FROM order_line WHERE ol_o_id > {loaded_orders} GROUP BY ol_i_id) AS l ON ol_i_id = i_id \
         WHERE (10 + i_id * 8 % 21 - COALESCE(taken, 0) - i_stock) % 21 <> 0",
    ),
    (
        "an item's five related items are others, and differ",
        "SELECT i_id, i_related1, i_related2, i_related3, i_related4, i_related5 FROM item \
         WHERE i_id IN (i_related1, i_related2, i_related3, i_related4, i_related5) \
         OR i_related1 IN (i_related2, i_related3, i_related4, i_related5) \
         OR i_related2 IN (i_related3, i_related4, i_related5) OR i_related3 IN (i_related4, i_related5) \
         OR i_related4 = i_related5 OR LEAST(i_related1, i_related2, i_related3, i_related4, i_related5) < 1 \
         OR GREATEST(i_related1, i_related2, i_related3, i_related4, i_related5) > {items}",
    ),
    (
        "a line of a cart has 1 to 10 of its item",
        "SELECT scl_sc_id, scl_i_id, scl_qty FROM shopping_cart_line WHERE scl_qty < 1 OR scl_qty > 10",
    ),
    (
        "user names are all different",
        "SELECT c_uname, name_count FROM (SELECT c_uname, count(*) AS name_count FROM customer GROUP BY c_uname) AS c \
         WHERE name_count > 1",
    ),
    ("C_DISCOUNT is 0.00 to 0.50", "SELECT c_id, c_discount FROM customer WHERE c_discount < 0 OR c_discount > 0.5"),
];

#[cfg(test)]
mod tests {
    use super::super::population::{first_image, first_stock};
    use super::*;

    #[test]
    fn conditions_have_names_of_their_own_and_no_blanks() {
        let conditions = conditions(Size { browsers: 1, items: 1_000 });
        let names: std::collections::BTreeSet<_> = conditions.iter().map(|condition| condition.what).collect();
        assert_eq!(names.len(), conditions.len());
        assert!(conditions.iter().all(|condition| !condition.violations.contains(['{', '}'])));
    }

    #[test]
    fn what_the_conditions_say_of_the_first_stock_and_images_is_so() {
        for item in 1..=1_000 {
            assert_eq!(first_stock(item), 10 + item * 8 % 21);
            assert!((10..=30).contains(&first_stock(item)) && first_image(item).contains("/image_"));
        }
    }
}
