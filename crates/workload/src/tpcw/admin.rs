//! Admin Confirm (TPC-W 2.16): gives an item another price and other pictures, and recomputes the items that are
//! related to it. The Admin Request before it (2.15) shows what a Product Detail shows.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::population::DAY_US;
use super::schema::*;
use super::shop::{Shop, find_all, referred};
use crate::database::DatabaseError;
use crate::keyed;
use crate::statement::{End, Intent, RowAccess, Rows, Statement, Value};

/// The number of last orders from which it is computed which items are bought together. The SQL text repeats it.
const RELATED_ORDERS: i64 = 10_000;

/// How many related items an item has. The SQL text repeats this number.
const RELATED: usize = 5;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AdminConfirm {
    pub(super) item: i64,
    /// The new price, in hundredths.
    pub(super) cost: i64,
    pub(super) items: i64,
}

impl AdminConfirm {
    /// Changes the item.
    pub(super) fn run(&self, shop: &mut Shop<'_>) -> Result<(), DatabaseError> {
        let item = Value::Int(self.item);
        let folder = self.item % 100;
        let (image, thumbnail) = (format!("img{folder}/new_{}.gif", self.item), format!("img{folder}/new_thumb.gif"));
        let today = Value::Int(shop.now / DAY_US);
        let row = [item, Value::Int(self.cost), Value::Text(&image), Value::Text(&thumbnail), today];
        shop.execute_one(&CHANGE_ITEM, &row)?;
        shop.execute(&FIND_BOUGHT_TOGETHER, &[item])?;
        let mut related: Vec<i64> = (0..shop.rows.len()).map(|row| shop.rows.int(row, 0)).collect();
        self.complete(&mut related);
        let mut row = vec![item];
        row.extend(related.into_iter().map(Value::Int));
        shop.execute_one(&SET_RELATED, &row)
    }

    /// Adds the items with the next numbers if fewer than five were bought together with this one.
    fn complete(&self, related: &mut Vec<i64>) {
        let mut next = self.item;
        while related.len() < RELATED {
            next = next % self.items + 1;
            if !related.contains(&next) {
                related.push(next);
            }
        }
    }
}

/// (item, cost, image, thumbnail, day).
static CHANGE_ITEM: Statement = keyed::statement!(
    SCHEMA,
    "tpcw_change_item",
    "UPDATE item SET i_cost = $2::bigint * 0.01, i_image = $3, i_thumbnail = $4, i_pub_date = $5 WHERE i_id = $1"
);

/// (item) → (other items ordered recently by customers who ordered this one recently), most first.
static FIND_BOUGHT_TOGETHER: Statement = Statement {
    name: "tpcw_find_bought_together",
    sql: "SELECT ol_i_id FROM orders JOIN order_line ON ol_o_id = o_id WHERE ol_i_id <> $1 AND o_c_id IN \
          (SELECT o_c_id FROM order_line JOIN orders ON o_id = ol_o_id WHERE ol_i_id = $1 \
          AND ol_o_id > (SELECT max(o_id) - 10000 FROM orders)) \
          GROUP BY ol_i_id ORDER BY sum(ol_qty) DESC, ol_i_id LIMIT 5",
    native: &find_bought_together,
};

fn find_bought_together(
    access: &mut dyn RowAccess,
    parameters: &[Value<'_>],
    rows: &mut Rows,
) -> Result<(), DatabaseError> {
    let Some(last) = access.find_end(primary(ORDERS), &[], &[], End::Last, Intent::Read)? else { return Ok(()) };
    let item = parameters[0];
    let first_order = Value::Int(access.int(last, O_ID) - RELATED_ORDERS + 1);
    let mut customers = BTreeSet::new();
    for line in find_all(access, ORDER_LINE_BY_ITEM, &[item, first_order], &[item])? {
        if let Some(order) = referred(access, line, OL_O_ID, ORDERS, Intent::Read)? {
            customers.insert(access.int(order, O_C_ID));
        }
    }
    let mut bought = BTreeMap::new();
    for customer in customers {
        let customer = [Value::Int(customer)];
        for order in find_all(access, ORDERS_BY_CUSTOMER, &customer, &customer)? {
            let order = [Value::Int(access.int(order, O_ID))];
            for line in find_all(access, primary(ORDER_LINE), &order, &order)? {
                *bought.entry(access.int(line, OL_I_ID)).or_insert(0) += access.int(line, OL_QTY);
            }
        }
    }
    bought.remove(&item.int());
    let mut bought: Vec<_> = bought.into_iter().map(|(other, quantity)| (Reverse(quantity), other)).collect();
    bought.sort_unstable();
    for (_, other) in bought.into_iter().take(RELATED) {
        rows.push(&[Value::Int(other)]);
    }
    Ok(())
}

/// (item, five others).
static SET_RELATED: Statement = keyed::statement!(
    SCHEMA,
    "tpcw_set_related",
    "UPDATE item SET i_related1 = $2, i_related2 = $3, i_related3 = $4, i_related4 = $5, i_related5 = $6 \
     WHERE i_id = $1"
);

pub(super) static STATEMENTS: [&Statement; 3] = [&CHANGE_ITEM, &FIND_BOUGHT_TOGETHER, &SET_RELATED];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn related_items_are_completed_with_the_next_numbers() {
        let complete = |item, found: &[i64]| {
            let mut related = found.to_vec();
            AdminConfirm { item, cost: 1, items: 1_000 }.complete(&mut related);
            related
        };
        assert_eq!(complete(7, &[]), [8, 9, 10, 11, 12]);
        assert_eq!(complete(999, &[1, 500]), [1, 500, 1_000, 2, 3]);
        assert_eq!(complete(1, &[9, 8, 7, 6, 5]), [9, 8, 7, 6, 5]);
    }
}
