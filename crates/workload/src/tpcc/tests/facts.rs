//! The consistency conditions by hand, over the reference database, which answers no SQL.

use std::collections::{BTreeMap, BTreeSet};

use super::super::schema::*;
use crate::memory::MemoryDatabase;
use crate::schema::TableId;
use crate::statement::Value;

type District = (i64, i64);
type OrderId = (i64, i64, i64);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CustomerFacts {
    pub(super) balance: i64,
    pub(super) paid: i64,
    pub(super) payments: i64,
    pub(super) deliveries: i64,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct OrderFacts {
    pub(super) customer: i64,
    pub(super) carrier: Option<i64>,
    pub(super) line_count: i64,
    pub(super) all_local: i64,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct LineFacts {
    pub(super) item: i64,
    pub(super) supply: i64,
    pub(super) delivered: Option<i64>,
    pub(super) quantity: i64,
    pub(super) amount: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct StockFacts {
    pub(super) quantity: i64,
    pub(super) ordered: i64,
    pub(super) orders: i64,
    pub(super) remote: i64,
}

#[derive(Debug, Default)]
pub(super) struct Facts {
    pub(super) warehouse_paid: BTreeMap<i64, i64>,
    /// Paid, next order.
    pub(super) districts: BTreeMap<District, (i64, i64)>,
    pub(super) customers: BTreeMap<OrderId, CustomerFacts>,
    /// Customer, district paid to, amount.
    pub(super) history: Vec<(OrderId, District, i64)>,
    pub(super) new_orders: BTreeSet<OrderId>,
    pub(super) orders: BTreeMap<OrderId, OrderFacts>,
    pub(super) lines: BTreeMap<OrderId, Vec<LineFacts>>,
    pub(super) prices: BTreeMap<i64, i64>,
    pub(super) stock: BTreeMap<(i64, i64), StockFacts>,
}

fn optional(value: Value<'_>) -> Option<i64> {
    (value != Value::Null).then(|| value.int())
}

impl Facts {
    pub(super) fn of(database: &MemoryDatabase) -> Self {
        let mut facts = Facts::default();
        let scan = |table: TableId, visit: &mut dyn FnMut(&[Value<'_>])| {
            database.scan(&SCHEMA, table, visit).unwrap();
        };
        scan(WAREHOUSE, &mut |row| facts.warehouse_paid.extend([(row[W_ID].int(), row[W_YTD].int())]));
        scan(DISTRICT, &mut |row| {
            let key = (row[D_W_ID].int(), row[D_ID].int());
            facts.districts.insert(key, (row[D_YTD].int(), row[D_NEXT_O_ID].int()));
        });
        scan(CUSTOMER, &mut |row| {
            let customer = CustomerFacts {
                balance: row[C_BALANCE].int(),
                paid: row[C_YTD_PAYMENT].int(),
                payments: row[C_PAYMENT_CNT].int(),
                deliveries: row[C_DELIVERY_CNT].int(),
            };
            facts.customers.insert((row[C_W_ID].int(), row[C_D_ID].int(), row[C_ID].int()), customer);
        });
        scan(HISTORY, &mut |row| {
            let customer = (row[H_C_W_ID].int(), row[H_C_D_ID].int(), row[H_C_ID].int());
            facts.history.push((customer, (row[H_W_ID].int(), row[H_D_ID].int()), row[H_AMOUNT].int()));
        });
        scan(NEW_ORDER, &mut |row| {
            facts.new_orders.insert((row[NO_W_ID].int(), row[NO_D_ID].int(), row[NO_O_ID].int()));
        });
        scan(ORDERS, &mut |row| {
            let order = OrderFacts {
                customer: row[O_C_ID].int(),
                carrier: optional(row[O_CARRIER_ID]),
                line_count: row[O_OL_CNT].int(),
                all_local: row[O_ALL_LOCAL].int(),
            };
            facts.orders.insert((row[O_W_ID].int(), row[O_D_ID].int(), row[O_ID].int()), order);
        });
        scan(ORDER_LINE, &mut |row| {
            let line = LineFacts {
                item: row[OL_I_ID].int(),
                supply: row[OL_SUPPLY_W_ID].int(),
                delivered: optional(row[OL_DELIVERY_D]),
                quantity: row[OL_QUANTITY].int(),
                amount: row[OL_AMOUNT].int(),
            };
            let order = (row[OL_W_ID].int(), row[OL_D_ID].int(), row[OL_O_ID].int());
            facts.lines.entry(order).or_default().push(line);
        });
        scan(ITEM, &mut |row| facts.prices.extend([(row[I_ID].int(), row[I_PRICE].int())]));
        scan(STOCK, &mut |row| {
            let stock = StockFacts {
                quantity: row[S_QUANTITY].int(),
                ordered: row[S_YTD].int(),
                orders: row[S_ORDER_CNT].int(),
                remote: row[S_REMOTE_CNT].int(),
            };
            facts.stock.insert((row[S_W_ID].int(), row[S_I_ID].int()), stock);
        });
        facts
    }

    /// Lines that clients entered, with their orders.
    pub(super) fn new_lines(&self) -> impl Iterator<Item = (OrderId, LineFacts)> {
        let entered = self.lines.iter().filter(|((.., order), _)| *order > ORDERS_LOADED);
        entered.flat_map(|(&order, lines)| lines.iter().map(move |&line| (order, line)))
    }

    /// Fails where a condition of TPC-C 3.3.2 other than 11, or one of our own, does not hold.
    pub(super) fn assert_consistent(&self) {
        self.assert_money();
        self.assert_orders();
        self.assert_customers();
        self.assert_stock();
    }

    /// Conditions 1, 8 and 9.
    fn assert_money(&self) {
        for (&warehouse, &paid) in &self.warehouse_paid {
            let districts = self.districts.range((warehouse, 0)..(warehouse + 1, 0));
            assert_eq!(paid, districts.map(|(_, (paid, _))| paid).sum::<i64>(), "1: warehouse {warehouse}");
            let history = self.history.iter().filter(|(_, (to, _), _)| *to == warehouse);
            assert_eq!(paid, history.map(|(.., amount)| amount).sum::<i64>(), "8: warehouse {warehouse}");
        }
        for (&district, &(paid, _)) in &self.districts {
            let history = self.history.iter().filter(|(_, to, _)| *to == district);
            assert_eq!(paid, history.map(|(.., amount)| amount).sum::<i64>(), "9: district {district:?}");
        }
    }

    /// Conditions 2 to 7.
    fn assert_orders(&self) {
        for (&(warehouse, district), &(_, next)) in &self.districts {
            let all = (warehouse, district, 0)..=(warehouse, district, i64::MAX);
            let orders = self.orders.range(all.clone()).map(|(&(.., order), _)| order).collect::<Vec<_>>();
            assert_eq!(orders, (1..next).collect::<Vec<_>>(), "2: district {warehouse}.{district}");
            let undelivered = self.new_orders.range(all.clone()).map(|&(.., order)| order).collect::<Vec<_>>();
            let first = undelivered.first().copied().unwrap_or(next);
            assert_eq!(undelivered, (first..next).collect::<Vec<_>>(), "2, 3: district {warehouse}.{district}");
            let line_sum = self.orders.range(all.clone()).map(|(_, order)| order.line_count).sum::<i64>();
            let lines = self.lines.range(all).map(|(_, lines)| lines.len() as i64).sum::<i64>();
            assert_eq!(line_sum, lines, "4: district {warehouse}.{district}");
        }
        assert_eq!(self.orders.len(), self.lines.len(), "6: orders with lines");
        for (key, order) in &self.orders {
            assert_eq!(order.carrier.is_none(), self.new_orders.contains(key), "5: order {key:?}");
            let lines = &self.lines[key];
            assert_eq!(order.line_count, lines.len() as i64, "6: order {key:?}");
            for line in lines {
                assert_eq!(line.delivered.is_none(), order.carrier.is_none(), "7: order {key:?}");
            }
            let is_local = lines.iter().all(|line| line.supply == key.0);
            assert_eq!(order.all_local == 1, is_local, "O_ALL_LOCAL: order {key:?}");
        }
    }

    /// Conditions 10 and 12, and the customers' counts.
    fn assert_customers(&self) {
        let nothing = CustomerFacts { balance: 0, paid: 0, payments: 0, deliveries: 0 };
        let mut expected = self.customers.keys().map(|&customer| (customer, nothing)).collect::<BTreeMap<_, _>>();
        for (customer, _, amount) in &self.history {
            let customer = expected.get_mut(customer).expect("the payer exists");
            customer.balance -= amount;
            customer.paid += amount;
            customer.payments += 1;
        }
        for (&(warehouse, district, number), order) in &self.orders {
            let customer = expected.get_mut(&(warehouse, district, order.customer)).expect("the customer exists");
            let lines = self.lines[&(warehouse, district, number)].iter();
            customer.balance += lines.filter(|line| line.delivered.is_some()).map(|line| line.amount).sum::<i64>();
            customer.deliveries += i64::from(number > ORDERS_DELIVERED && order.carrier.is_some());
        }
        for (customer, expected) in &expected {
            assert_eq!(&self.customers[customer], expected, "10, 12: customer {customer:?}");
        }
    }

    /// Amounts of new lines, and the quantities they took from stock.
    fn assert_stock(&self) {
        let mut expected = BTreeMap::<(i64, i64), StockFacts>::new();
        for ((warehouse, ..), line) in self.new_lines() {
            assert_eq!(line.amount, line.quantity * self.prices[&line.item], "OL_AMOUNT of {line:?}");
            let stock = expected.entry((line.supply, line.item)).or_default();
            stock.ordered += line.quantity;
            stock.orders += 1;
            stock.remote += i64::from(line.supply != warehouse);
        }
        for (key, found) in &self.stock {
            let expected = expected.remove(key).unwrap_or_default();
            assert_eq!(StockFacts { quantity: 0, ..*found }, expected, "stock {key:?}");
            assert!((10..=100).contains(&found.quantity), "stock {key:?}: {found:?}");
        }
        assert!(expected.is_empty(), "lines without stock: {expected:?}");
    }
}
