//! The conditions on the initial population (TPC-C 4.3.3.1), which hold until clients run.

use crate::condition::Condition;

pub(super) fn conditions(warehouses: i64) -> Vec<Condition> {
    let mut all = vec![row_counts(warehouses)];
    all.extend(FIXED.iter().map(|&(what, violations)| Condition { what, violations: violations.to_owned() }));
    all
}

fn row_counts(warehouses: i64) -> Condition {
    let tables = [
        ("warehouse", warehouses),
        ("district", 10 * warehouses),
        ("customer", 30_000 * warehouses),
        ("history", 30_000 * warehouses),
        ("orders", 30_000 * warehouses),
        ("new_order", 9_000 * warehouses),
        ("stock", 100_000 * warehouses),
        ("item", 100_000),
    ];
    let counts = tables.map(|(table, expected)| {
        format!("SELECT '{table}' AS counted, count(*) AS found, {expected} AS expected FROM {table}")
    });
    Condition {
        what: "load: rows of each table",
        violations: format!(
            "SELECT counted, found, expected FROM ({}) AS counts WHERE found <> expected",
            counts.join(" UNION ALL ")
        ),
    }
}

const FIXED: &[(&str, &str)] = &[
    (
        "load: W_YTD = 300000.00, W_TAX 0 to 0.2",
        "SELECT w_id, w_ytd, w_tax FROM warehouse WHERE w_ytd <> 300000.00 OR w_tax < 0 OR w_tax > 0.2",
    ),
    (
        "load: D_YTD = 30000.00, D_TAX 0 to 0.2, D_NEXT_O_ID = 3001",
        "SELECT d_w_id, d_id, d_ytd, d_tax, d_next_o_id FROM district \
         WHERE d_ytd <> 30000.00 OR d_tax < 0 OR d_tax > 0.2 OR d_next_o_id <> 3001",
    ),
    (
        "load: each customer's balance -10.00, limit 50000.00, one payment of 10.00, no delivery",
        "SELECT c_w_id, c_d_id, c_id, c_balance, c_credit_lim, c_ytd_payment, c_payment_cnt, c_delivery_cnt \
         FROM customer WHERE c_balance <> -10.00 OR c_credit_lim <> 50000.00 OR c_ytd_payment <> 10.00 \
         OR c_payment_cnt <> 1 OR c_delivery_cnt <> 0 OR c_middle <> 'OE' OR c_discount < 0 OR c_discount > 0.5",
    ),
    (
        "load: one customer in ten has bad credit",
        "SELECT total, bad FROM (SELECT count(*) AS total, \
         sum(CASE WHEN c_credit = 'BC' THEN 1 ELSE 0 END) AS bad FROM customer WHERE c_credit IN ('BC', 'GC')) AS c \
         WHERE bad * 10 <> total",
    ),
    (
        "load: the first thousand customers of a district have a thousand last names",
        "SELECT c_w_id, c_d_id, names FROM (SELECT c_w_id, c_d_id, count(DISTINCT c_last) AS names FROM customer \
         WHERE c_id <= 1000 GROUP BY c_w_id, c_d_id) AS c WHERE names <> 1000",
    ),
    (
        "load: each payment of the history is 10.00 to the customer's own district",
        "SELECT h_c_w_id, h_c_d_id, h_c_id, h_w_id, h_d_id, h_amount FROM history \
         WHERE h_amount <> 10.00 OR h_w_id <> h_c_w_id OR h_d_id <> h_c_d_id",
    ),
    (
        "load: a district's O_C_ID are a permutation of 1 to 3000",
        "SELECT o_w_id, o_d_id, order_count, customer_count, customer_min, customer_max FROM \
         (SELECT o_w_id, o_d_id, count(*) AS order_count, count(DISTINCT o_c_id) AS customer_count, \
         min(o_c_id) AS customer_min, max(o_c_id) AS customer_max FROM orders GROUP BY o_w_id, o_d_id) AS o \
         WHERE order_count <> 3000 OR customer_count <> 3000 OR customer_min <> 1 OR customer_max <> 3000",
    ),
    (
        "load: an order has a carrier of 1 to 10 if and only if O_ID < 2101, is local and has 5 to 15 lines",
        "SELECT o_w_id, o_d_id, o_id, o_carrier_id, o_all_local, o_ol_cnt FROM orders \
         WHERE (o_carrier_id IS NOT NULL) <> (o_id < 2101) OR o_carrier_id < 1 OR o_carrier_id > 10 \
         OR o_all_local <> 1 OR o_ol_cnt < 5 OR o_ol_cnt > 15",
    ),
    (
        "load: the 900 undelivered orders of a district are 2101 to 3000",
        "SELECT no_w_id, no_d_id, new_order_min, new_order_max, new_order_count FROM \
         (SELECT no_w_id, no_d_id, min(no_o_id) AS new_order_min, max(no_o_id) AS new_order_max, \
         count(*) AS new_order_count FROM new_order GROUP BY no_w_id, no_d_id) AS n \
         WHERE new_order_min <> 2101 OR new_order_max <> 3000 OR new_order_count <> 900",
    ),
    (
        "load: a line costs 0.00 and is delivered if and only if OL_O_ID < 2101; each is of 5 items from home",
        "SELECT ol_w_id, ol_d_id, ol_o_id, ol_number, ol_amount, ol_delivery_d, ol_quantity, ol_supply_w_id \
         FROM order_line WHERE (ol_amount = 0) <> (ol_o_id < 2101) OR (ol_delivery_d IS NOT NULL) <> (ol_o_id < 2101) \
         OR ol_quantity <> 5 OR ol_supply_w_id <> ol_w_id OR ol_i_id < 1 OR ol_i_id > 100000",
    ),
    (
        "load: one item in ten is original",
        "SELECT total, original FROM (SELECT count(*) AS total, \
         sum(CASE WHEN i_data LIKE '%ORIGINAL%' THEN 1 ELSE 0 END) AS original FROM item) AS i \
         WHERE original * 10 <> total",
    ),
    (
        "load: prices are 1.00 to 100.00",
        "SELECT i_id, i_price FROM item WHERE i_price < 1.00 OR i_price > 100.00 OR i_im_id < 1 OR i_im_id > 10000",
    ),
    (
        "load: one stock row in ten is original",
        "SELECT total, original FROM (SELECT count(*) AS total, \
         sum(CASE WHEN s_data LIKE '%ORIGINAL%' THEN 1 ELSE 0 END) AS original FROM stock) AS s \
         WHERE original * 10 <> total",
    ),
    (
        "load: nothing was ordered from stock",
        "SELECT s_w_id, s_i_id, s_ytd, s_order_cnt, s_remote_cnt FROM stock \
         WHERE s_ytd <> 0 OR s_order_cnt <> 0 OR s_remote_cnt <> 0",
    ),
];
