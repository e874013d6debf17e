//! The interactions that show what the shop has: Home, New Products, Best Sellers, Product Detail, Search Request (TPC-W 2.3,
//! 2.8, 2.9, 2.12, 2.10).
//!
//! Best Sellers sums up the last 3,333 orders. They have some ten thousand lines, and one subject a 24th of them. The
//! native form therefore looks up the lines of each of the subject's items, by item and order, rather than reading and
//! locking all lines.

use std::cmp::Reverse;

use super::schema::*;
use super::shop::{Shop, find, find_all, referred, show, text};
use crate::database::DatabaseError;
use crate::keyed;
use crate::statement::{End, Intent, RowAccess, RowRef, Rows, Statement, Value};

/// How many items a list shows at most. The SQL texts repeat this number.
const SHOWN_MAX: usize = 50;

/// How many of the last orders determine best sellers. The SQL text repeats this number.
const BEST_SELLER_ORDERS: i64 = 3_333;

/// The start page: greets a customer whose number is known.
pub(super) fn home(shop: &mut Shop<'_>, customer: Option<i64>, promoted: i64) -> Result<(), DatabaseError> {
    if let Some(customer) = customer {
        shop.execute_one(&READ_NAME, &[Value::Int(customer)])?;
    }
    promotions(shop, promoted)
}

/// The newest items of a subject.
pub(super) fn new_products(shop: &mut Shop<'_>, subject: &str, promoted: i64) -> Result<(), DatabaseError> {
    promotions(shop, promoted)?;
    shop.execute(&NEW_PRODUCTS, &[Value::Text(subject)])
}

/// The items of a subject that sold best recently.
pub(super) fn best_sellers(shop: &mut Shop<'_>, subject: &str, promoted: i64) -> Result<(), DatabaseError> {
    promotions(shop, promoted)?;
    shop.execute(&BEST_SELLERS, &[Value::Text(subject)])
}

/// All about an item.
pub(super) fn product_detail(shop: &mut Shop<'_>, item: i64) -> Result<(), DatabaseError> {
    shop.execute_one(&READ_ITEM, &[Value::Int(item)])
}

/// The five items that are related to one (TPC-W 2.2, promotional processing); the search form shows nothing else.
pub(super) fn promotions(shop: &mut Shop<'_>, promoted: i64) -> Result<(), DatabaseError> {
    shop.execute_one(&READ_RELATED, &[Value::Int(promoted)])
}

/// (customer) → (first name, last name).
static READ_NAME: Statement =
    keyed::statement!(SCHEMA, "tpcw_read_name", "SELECT c_fname, c_lname FROM customer WHERE c_id = $1");

/// (item) → (item, thumbnail) of each related item.
static READ_RELATED: Statement = Statement {
    name: "tpcw_read_related",
    sql: "SELECT j.i_id, j.i_thumbnail FROM item AS i JOIN item AS j ON j.i_id IN (i.i_related1, i.i_related2, \
          i.i_related3, i.i_related4, i.i_related5) WHERE i.i_id = $1 ORDER BY j.i_id",
    native: &|access, parameters, rows| {
        let Some(item) = access.find(primary(ITEM), parameters, Intent::Read)? else { return Ok(()) };
        let mut related = [I_RELATED1, I_RELATED2, I_RELATED3, I_RELATED4, I_RELATED5].map(|at| access.int(item, at));
        related.sort_unstable();
        for id in related {
            if let Some(other) = find(access, ITEM, id, Intent::Read)? {
                show(access, rows, &[(other, &[I_ID, I_THUMBNAIL])]);
            }
        }
        Ok(())
    },
};

/// (subject) → (item, title, author's first and last name), newest first.
static NEW_PRODUCTS: Statement = Statement {
    name: "tpcw_new_products",
    sql: "SELECT i_id, i_title, a_fname, a_lname FROM item JOIN author ON a_id = i_a_id WHERE i_subject = $1 \
          ORDER BY i_pub_date DESC, i_title, i_id LIMIT 50",
    native: &|access, parameters, rows| {
        let mut items = find_all(access, ITEM_BY_SUBJECT, parameters, parameters)?;
        let key = |item: &RowRef| {
            (Reverse(access.int(*item, I_PUB_DATE)), text(access, *item, I_TITLE), access.int(*item, I_ID))
        };
        items.sort_by_cached_key(key);
        list(access, &items, rows)
    },
};

/// Adds the first items of a list with their authors.
pub(super) fn list(access: &mut dyn RowAccess, items: &[RowRef], rows: &mut Rows) -> Result<(), DatabaseError> {
    for &item in items.iter().take(SHOWN_MAX) {
        if let Some(author) = referred(access, item, I_A_ID, AUTHOR, Intent::Read)? {
            show(access, rows, &[(item, &[I_ID, I_TITLE]), (author, &[A_FNAME, A_LNAME])]);
        }
    }
    Ok(())
}

/// (subject) → (item, title, author's first and last name, how many were sold), most first.
static BEST_SELLERS: Statement = Statement {
    name: "tpcw_best_sellers",
    sql: "SELECT i_id, i_title, a_fname, a_lname, sum(ol_qty) FROM item JOIN author ON a_id = i_a_id \
          JOIN order_line ON ol_i_id = i_id WHERE i_subject = $1 \
          AND ol_o_id > (SELECT max(o_id) - 3333 FROM orders) GROUP BY i_id, i_title, a_fname, a_lname \
          ORDER BY sum(ol_qty) DESC, i_id LIMIT 50",
    native: &best_sellers_of_subject,
};

fn best_sellers_of_subject(
    access: &mut dyn RowAccess,
    parameters: &[Value<'_>],
    rows: &mut Rows,
) -> Result<(), DatabaseError> {
    let Some(last) = access.find_end(primary(ORDERS), &[], &[], End::Last, Intent::Read)? else { return Ok(()) };
    let first_order = access.int(last, O_ID) - BEST_SELLER_ORDERS + 1;
    let mut sold = Vec::new();
    for item in find_all(access, ITEM_BY_SUBJECT, parameters, parameters)? {
        let id = access.int(item, I_ID);
        let lines =
            find_all(access, ORDER_LINE_BY_ITEM, &[Value::Int(id), Value::Int(first_order)], &[Value::Int(id)])?;
        if !lines.is_empty() {
            let quantity: i64 = lines.iter().map(|&line| access.int(line, OL_QTY)).sum();
            sold.push((Reverse(quantity), id, item));
        }
    }
    sold.sort_unstable_by_key(|&(quantity, id, _)| (quantity, id));
    for (Reverse(quantity), _, item) in sold.into_iter().take(SHOWN_MAX) {
        if let Some(author) = referred(access, item, I_A_ID, AUTHOR, Intent::Read)? {
            rows.start(5);
            rows.append_stored(access, &SCHEMA, item, &[I_ID, I_TITLE]);
            rows.append_stored(access, &SCHEMA, author, &[A_FNAME, A_LNAME]);
            rows.append(Value::Int(quantity));
        }
    }
    Ok(())
}

/// (item) → (title, author's first and last name, publication date, publisher, subject, description, image, thumbnail,
/// price, cost, available from, in stock, ISBN, pages, backing, dimensions).
static READ_ITEM: Statement = Statement {
    name: "tpcw_read_item",
    sql: "SELECT i_title, a_fname, a_lname, i_pub_date, i_publisher, i_subject, i_desc, i_image, i_thumbnail, \
          (i_srp * 100)::bigint, (i_cost * 100)::bigint, i_avail, i_stock, i_isbn, i_page, i_backing, i_dimensions \
          FROM item JOIN author ON a_id = i_a_id WHERE i_id = $1",
    native: &|access, parameters, rows| {
        let Some(item) = access.find(primary(ITEM), parameters, Intent::Read)? else { return Ok(()) };
        let Some(author) = referred(access, item, I_A_ID, AUTHOR, Intent::Read)? else { return Ok(()) };
        let rest = [
            I_PUB_DATE,
            I_PUBLISHER,
            I_SUBJECT,
            I_DESC,
            I_IMAGE,
            I_THUMBNAIL,
            I_SRP,
            I_COST,
            I_AVAIL,
            I_STOCK,
            I_ISBN,
            I_PAGE,
            I_BACKING,
            I_DIMENSIONS,
        ];
        show(access, rows, &[(item, &[I_TITLE]), (author, &[A_FNAME, A_LNAME]), (item, &rest)]);
        Ok(())
    },
};

pub(super) static STATEMENTS: [&Statement; 5] = [&READ_NAME, &READ_RELATED, &NEW_PRODUCTS, &BEST_SELLERS, &READ_ITEM];
