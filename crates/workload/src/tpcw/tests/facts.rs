//! The rows of the shop, read one by one, and their invariants, computed independently of the check's SQL.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::schema::TableId;
use crate::tpcw::order::tax;
use crate::tpcw::population::first_stock;

pub(super) struct Item {
    pub(super) title: String,
    pub(super) author: i64,
    pub(super) published: i64,
    pub(super) subject: String,
    pub(super) related: Vec<i64>,
    pub(super) stock: i64,
}

pub(super) struct Order {
    pub(super) customer: i64,
    pub(super) addresses: [i64; 2],
    /// Sub-total, tax, total.
    pub(super) totals: [i64; 3],
}

pub(super) struct Facts {
    pub(super) items: BTreeMap<i64, Item>,
    pub(super) authors: BTreeMap<i64, String>,
    pub(super) addresses: BTreeSet<i64>,
    /// User name and address.
    pub(super) customers: BTreeMap<i64, (String, i64)>,
    pub(super) orders: BTreeMap<i64, Order>,
    /// By order and line: item and quantity.
    pub(super) lines: BTreeMap<(i64, i64), (i64, i64)>,
    /// Amounts by order.
    pub(super) cards: BTreeMap<i64, i64>,
    pub(super) carts: BTreeSet<i64>,
    /// By cart and item: quantity.
    pub(super) cart_lines: BTreeMap<(i64, i64), i64>,
}

fn scan<T>(database: &MemoryDatabase, table: TableId, read: impl Fn(&[Value<'_>]) -> T) -> Vec<T> {
    let mut rows = Vec::new();
    database.scan(&SCHEMA, table, &mut |row| rows.push(read(row))).unwrap();
    rows
}

impl Facts {
    pub(super) fn of(database: &MemoryDatabase) -> Self {
        let item = |row: &[Value<'_>]| {
            let related = (I_RELATED1..=I_RELATED5).map(|column| row[column].int()).collect();
            let (author, published, stock) = (row[I_A_ID].int(), row[I_PUB_DATE].int(), row[I_STOCK].int());
            let (title, subject) = (row[I_TITLE].text().to_owned(), row[I_SUBJECT].text().to_owned());
            (row[I_ID].int(), Item { title, author, published, subject, related, stock })
        };
        let order = |row: &[Value<'_>]| {
            let totals = [O_SUB_TOTAL, O_TAX, O_TOTAL].map(|column| row[column].int());
            let addresses = [O_BILL_ADDR_ID, O_SHIP_ADDR_ID].map(|column| row[column].int());
            (row[O_ID].int(), Order { customer: row[O_C_ID].int(), addresses, totals })
        };
        let customer = |row: &[Value<'_>]| (row[C_ID].int(), (row[C_UNAME].text().to_owned(), row[C_ADDR_ID].int()));
        let line =
            |row: &[Value<'_>]| ((row[OL_O_ID].int(), row[OL_ID].int()), (row[OL_I_ID].int(), row[OL_QTY].int()));
        let cart_line = |row: &[Value<'_>]| ((row[SCL_SC_ID].int(), row[SCL_I_ID].int()), row[SCL_QTY].int());
        let author = |row: &[Value<'_>]| (row[A_ID].int(), row[A_LNAME].text().to_owned());
        Facts {
            items: scan(database, ITEM, item).into_iter().collect(),
            authors: scan(database, AUTHOR, author).into_iter().collect(),
            addresses: scan(database, ADDRESS, |row| row[ADDR_ID].int()).into_iter().collect(),
            customers: scan(database, CUSTOMER, customer).into_iter().collect(),
            orders: scan(database, ORDERS, order).into_iter().collect(),
            lines: scan(database, ORDER_LINE, line).into_iter().collect(),
            cards: scan(database, CC_XACTS, |row| (row[CX_O_ID].int(), row[CX_XACT_AMT].int())).into_iter().collect(),
            carts: scan(database, SHOPPING_CART, |row| row[SC_ID].int()).into_iter().collect(),
            cart_lines: scan(database, SHOPPING_CART_LINE, cart_line).into_iter().collect(),
        }
    }

    pub(super) fn assert_consistent(&self, size: Size) {
        self.assert_items(size);
        self.assert_orders(size);
        let names: BTreeSet<_> = self.customers.values().map(|(name, _)| name).collect();
        assert_eq!(names.len(), self.customers.len(), "user names differ");
        assert!(self.customers.values().all(|(_, address)| self.addresses.contains(address)));
        for ((cart, item), quantity) in &self.cart_lines {
            assert!(self.carts.contains(cart) && self.items.contains_key(item), "cart {cart}");
            assert!((1..=10).contains(quantity), "cart {cart} has {quantity} of {item}");
        }
    }

    fn assert_items(&self, size: Size) {
        assert_eq!(self.items.len() as i64, size.items);
        let mut taken = BTreeMap::new();
        for ((order, _), (item, quantity)) in &self.lines {
            if *order > size.orders() {
                *taken.entry(*item).or_insert(0) += quantity;
            }
        }
        for (id, item) in &self.items {
            assert!(self.authors.contains_key(&item.author));
            let others: BTreeSet<_> = item.related.iter().collect();
            assert!(others.len() == 5 && !others.contains(id), "item {id}: {others:?}");
            assert!(others.iter().all(|other| self.items.contains_key(other)));
            let left = first_stock(*id) - taken.get(id).unwrap_or(&0);
            assert!((10..=30).contains(&item.stock) && (left - item.stock) % 21 == 0, "item {id}: {}", item.stock);
        }
    }

    fn assert_orders(&self, size: Size) {
        assert!(self.orders.keys().eq(self.cards.keys()));
        assert!(self.lines.keys().all(|(order, _)| self.orders.contains_key(order)));
        for (id, order) in &self.orders {
            let lines: Vec<_> = self.lines.range((*id, 0)..(*id + 1, 0)).collect();
            assert!(!lines.is_empty() && lines.iter().map(|((_, line), _)| *line).eq(1..=lines.len() as i64));
            let pieces: i64 = lines.iter().map(|(_, (_, quantity))| quantity).sum();
            let shipped = if *id <= size.orders() { lines.len() as i64 } else { pieces };
            let [sub_total, order_tax, total] = order.totals;
            assert_eq!((order_tax, total), (tax(sub_total), sub_total + order_tax + 300 + 100 * shipped));
            assert_eq!(self.cards[id], total);
            assert!(self.customers.contains_key(&order.customer));
            assert!(order.addresses.iter().all(|address| self.addresses.contains(address)));
        }
    }
}
