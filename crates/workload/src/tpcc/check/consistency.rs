//! The twelve consistency conditions (TPC-C 3.3.2), and our own conditions for errors that those miss: wrong amounts,
//! lost stock updates, remote lines that were not remote.

use crate::condition::Condition;

fn condition(what: &'static str, violations: String) -> Condition {
    Condition { what, violations }
}

/// The conditions that hold at any time: the specification's 1 to 10 and 12, then our own.
pub(super) fn conditions() -> Vec<Condition> {
    let mut all = SPECIFIED.to_vec();
    all.extend_from_slice(OWN);
    all.into_iter().map(|(what, violations)| condition(what, violations.to_owned())).collect()
}

/// Condition 11, which holds only until clients run.
pub(super) fn at_load() -> Condition {
    condition(
        "11: a district's orders - undelivered orders = 2100, as loaded",
        "SELECT d_w_id, d_id, order_count, new_order_count FROM district \
         LEFT JOIN (SELECT o_w_id, o_d_id, count(*) AS order_count FROM orders GROUP BY o_w_id, o_d_id) AS o \
         ON o_w_id = d_w_id AND o_d_id = d_id \
         LEFT JOIN (SELECT no_w_id, no_d_id, count(*) AS new_order_count FROM new_order GROUP BY no_w_id, no_d_id) AS n \
         ON no_w_id = d_w_id AND no_d_id = d_id \
         WHERE COALESCE(order_count, 0) - COALESCE(new_order_count, 0) <> 2100"
            .to_owned(),
    )
}

/// Outer joins and COALESCE keep rows that inner joins would drop: drained districts in 2, customers without deliveries
/// in 10 and 12, orders without lines in 6. `IS DISTINCT FROM` is in parentheses, because DataFusion's parser takes
/// everything after it as its right side.
const SPECIFIED: &[(&str, &str)] = &[
    (
        "1: W_YTD = sum of D_YTD",
        "SELECT w_id, w_ytd, districts_ytd FROM warehouse \
         LEFT JOIN (SELECT d_w_id, sum(d_ytd) AS districts_ytd FROM district GROUP BY d_w_id) AS d ON d_w_id = w_id \
         WHERE (w_ytd IS DISTINCT FROM districts_ytd)",
    ),
    (
        "2: D_NEXT_O_ID - 1 = largest O_ID = largest NO_O_ID",
        "SELECT d_w_id, d_id, d_next_o_id, order_max, new_order_max FROM district \
         LEFT JOIN (SELECT o_w_id, o_d_id, max(o_id) AS order_max FROM orders GROUP BY o_w_id, o_d_id) AS o \
         ON o_w_id = d_w_id AND o_d_id = d_id \
         LEFT JOIN (SELECT no_w_id, no_d_id, max(no_o_id) AS new_order_max FROM new_order GROUP BY no_w_id, no_d_id) AS n \
         ON no_w_id = d_w_id AND no_d_id = d_id \
         WHERE ((d_next_o_id - 1) IS DISTINCT FROM order_max) OR d_next_o_id - 1 <> new_order_max",
    ),
    (
        "3: a district's undelivered orders have no gap",
        "SELECT no_w_id, no_d_id, new_order_min, new_order_max, new_order_count FROM \
         (SELECT no_w_id, no_d_id, min(no_o_id) AS new_order_min, max(no_o_id) AS new_order_max, \
         count(*) AS new_order_count FROM new_order GROUP BY no_w_id, no_d_id) AS n \
         WHERE new_order_max - new_order_min + 1 <> new_order_count",
    ),
    (
        "4: a district's sum of O_OL_CNT = its count of order lines",
        "SELECT d_w_id, d_id, line_sum, line_count FROM district \
         LEFT JOIN (SELECT o_w_id, o_d_id, sum(o_ol_cnt) AS line_sum FROM orders GROUP BY o_w_id, o_d_id) AS o \
         ON o_w_id = d_w_id AND o_d_id = d_id \
         LEFT JOIN (SELECT ol_w_id, ol_d_id, count(*) AS line_count FROM order_line GROUP BY ol_w_id, ol_d_id) AS l \
         ON ol_w_id = d_w_id AND ol_d_id = d_id \
         WHERE COALESCE(line_sum, 0) <> COALESCE(line_count, 0)",
    ),
    (
        "5: an order has no carrier if and only if it is undelivered",
        "SELECT o_w_id, o_d_id, o_id, o_carrier_id, no_w_id, no_d_id, no_o_id FROM orders \
         FULL JOIN new_order ON no_w_id = o_w_id AND no_d_id = o_d_id AND no_o_id = o_id \
         WHERE o_id IS NULL OR (o_carrier_id IS NULL) <> (no_o_id IS NOT NULL)",
    ),
    (
        "6: an order's O_OL_CNT = its count of lines",
        "SELECT o_w_id, o_d_id, o_id, o_ol_cnt, ol_w_id, ol_d_id, ol_o_id, line_count FROM orders \
         FULL JOIN (SELECT ol_w_id, ol_d_id, ol_o_id, count(*) AS line_count FROM order_line \
         GROUP BY ol_w_id, ol_d_id, ol_o_id) AS l ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id \
         WHERE COALESCE(o_ol_cnt, 0) <> COALESCE(line_count, 0)",
    ),
    (
        "7: a line has no delivery date if and only if its order has no carrier",
        "SELECT ol_w_id, ol_d_id, ol_o_id, ol_number, ol_delivery_d, o_carrier_id FROM order_line \
         JOIN orders ON o_w_id = ol_w_id AND o_d_id = ol_d_id AND o_id = ol_o_id \
         WHERE (ol_delivery_d IS NULL) <> (o_carrier_id IS NULL)",
    ),
    (
        "8: W_YTD = sum of the history's amounts",
        "SELECT w_id, w_ytd, paid FROM warehouse \
         LEFT JOIN (SELECT h_w_id, sum(h_amount) AS paid FROM history GROUP BY h_w_id) AS h ON h_w_id = w_id \
         WHERE w_ytd <> COALESCE(paid, 0)",
    ),
    (
        "9: D_YTD = sum of the history's amounts",
        "SELECT d_w_id, d_id, d_ytd, paid FROM district \
         LEFT JOIN (SELECT h_w_id, h_d_id, sum(h_amount) AS paid FROM history GROUP BY h_w_id, h_d_id) AS h \
         ON h_w_id = d_w_id AND h_d_id = d_id \
         WHERE d_ytd <> COALESCE(paid, 0)",
    ),
    (
        "10: C_BALANCE = delivered amounts - paid amounts",
        "SELECT c_w_id, c_d_id, c_id, c_balance, delivered, paid FROM customer \
         LEFT JOIN (SELECT o_w_id, o_d_id, o_c_id, sum(ol_amount) AS delivered FROM orders \
         JOIN order_line ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id \
         WHERE ol_delivery_d IS NOT NULL GROUP BY o_w_id, o_d_id, o_c_id) AS o \
         ON o_w_id = c_w_id AND o_d_id = c_d_id AND o_c_id = c_id \
         LEFT JOIN (SELECT h_c_w_id, h_c_d_id, h_c_id, sum(h_amount) AS paid FROM history \
         GROUP BY h_c_w_id, h_c_d_id, h_c_id) AS h \
         ON h_c_w_id = c_w_id AND h_c_d_id = c_d_id AND h_c_id = c_id \
         WHERE c_balance <> COALESCE(delivered, 0) - COALESCE(paid, 0)",
    ),
    (
        "12: C_BALANCE + C_YTD_PAYMENT = delivered amounts",
        "SELECT c_w_id, c_d_id, c_id, c_balance, c_ytd_payment, delivered FROM customer \
         LEFT JOIN (SELECT o_w_id, o_d_id, o_c_id, sum(ol_amount) AS delivered FROM orders \
         JOIN order_line ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id \
         WHERE ol_delivery_d IS NOT NULL GROUP BY o_w_id, o_d_id, o_c_id) AS o \
         ON o_w_id = c_w_id AND o_d_id = c_d_id AND o_c_id = c_id \
         WHERE c_balance + c_ytd_payment <> COALESCE(delivered, 0)",
    ),
];

/// Lines and orders that clients entered are those above the loaded numbers.
const OWN: &[(&str, &str)] = &[
    (
        "OL_AMOUNT = quantity * price, without tax or discount, of new lines",
        "SELECT ol_w_id, ol_d_id, ol_o_id, ol_number, ol_i_id, ol_quantity, ol_amount, i_price FROM order_line \
         LEFT JOIN item ON i_id = ol_i_id \
         WHERE ol_o_id > 3000 AND (ol_amount IS DISTINCT FROM (ol_quantity * i_price))",
    ),
    (
        "S_YTD, S_ORDER_CNT and S_REMOTE_CNT = quantity, number and remote number of new lines, item by item",
        "SELECT s_w_id, s_i_id, s_ytd, quantity, s_order_cnt, line_count, s_remote_cnt, remote_count FROM stock \
         LEFT JOIN (SELECT ol_supply_w_id, ol_i_id, sum(ol_quantity) AS quantity, count(*) AS line_count, \
         sum(CASE WHEN ol_supply_w_id <> ol_w_id THEN 1 ELSE 0 END) AS remote_count FROM order_line \
         WHERE ol_o_id > 3000 GROUP BY ol_supply_w_id, ol_i_id) AS l ON ol_supply_w_id = s_w_id AND ol_i_id = s_i_id \
         WHERE s_ytd <> COALESCE(quantity, 0) OR s_order_cnt <> COALESCE(line_count, 0) \
         OR s_remote_cnt <> COALESCE(remote_count, 0)",
    ),
    (
        "the sums of S_YTD, S_ORDER_CNT and S_REMOTE_CNT = those of new lines",
        "SELECT ytd, quantity, order_count, line_count, stock_remote_count, remote_count FROM \
         (SELECT sum(s_ytd) AS ytd, sum(s_order_cnt) AS order_count, sum(s_remote_cnt) AS stock_remote_count \
         FROM stock) AS s CROSS JOIN (SELECT COALESCE(sum(ol_quantity), 0) AS quantity, count(*) AS line_count, \
         COALESCE(sum(CASE WHEN ol_supply_w_id <> ol_w_id THEN 1 ELSE 0 END), 0) AS remote_count FROM order_line \
         WHERE ol_o_id > 3000) AS l \
         WHERE ytd <> quantity OR order_count <> line_count OR stock_remote_count <> remote_count",
    ),
    (
        "S_QUANTITY is 10 to 100",
        "SELECT s_w_id, s_i_id, s_quantity FROM stock WHERE s_quantity < 10 OR s_quantity > 100",
    ),
    (
        "O_ALL_LOCAL is 1 if and only if no line is remote",
        "SELECT o_w_id, o_d_id, o_id, o_all_local, remote_count FROM orders \
         JOIN (SELECT ol_w_id, ol_d_id, ol_o_id, \
         sum(CASE WHEN ol_supply_w_id <> ol_w_id THEN 1 ELSE 0 END) AS remote_count FROM order_line \
         GROUP BY ol_w_id, ol_d_id, ol_o_id) AS l ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id \
         WHERE (o_all_local = 1) <> (remote_count = 0)",
    ),
    (
        "a district's D_NEXT_O_ID - 1 = its count of orders",
        "SELECT d_w_id, d_id, d_next_o_id, order_count FROM district \
         LEFT JOIN (SELECT o_w_id, o_d_id, count(*) AS order_count FROM orders GROUP BY o_w_id, o_d_id) AS o \
         ON o_w_id = d_w_id AND o_d_id = d_id \
         WHERE d_next_o_id - 1 <> COALESCE(order_count, 0)",
    ),
    (
        "a customer's C_PAYMENT_CNT and C_YTD_PAYMENT = number and sum of the payments in the history",
        "SELECT c_w_id, c_d_id, c_id, c_payment_cnt, payment_count, c_ytd_payment, paid FROM customer \
         LEFT JOIN (SELECT h_c_w_id, h_c_d_id, h_c_id, count(*) AS payment_count, sum(h_amount) AS paid FROM history \
         GROUP BY h_c_w_id, h_c_d_id, h_c_id) AS h ON h_c_w_id = c_w_id AND h_c_d_id = c_d_id AND h_c_id = c_id \
         WHERE c_payment_cnt <> COALESCE(payment_count, 0) OR c_ytd_payment <> COALESCE(paid, 0)",
    ),
    (
        "a customer's C_DELIVERY_CNT = orders delivered since loading",
        "SELECT c_w_id, c_d_id, c_id, c_delivery_cnt, delivery_count FROM customer \
         LEFT JOIN (SELECT o_w_id, o_d_id, o_c_id, count(*) AS delivery_count FROM orders \
         WHERE o_id > 2100 AND o_carrier_id IS NOT NULL GROUP BY o_w_id, o_d_id, o_c_id) AS o \
         ON o_w_id = c_w_id AND o_d_id = c_d_id AND o_c_id = c_id \
         WHERE c_delivery_cnt <> COALESCE(delivery_count, 0)",
    ),
];
