//! The initial rows (TPC-C 4.3.3), made part by part.
//!
//! Where the specification chooses ten in a hundred rows at random, exactly one row of each ten is chosen, so the share
//! is exact in every part.

use arrow::record_batch::RecordBatch;

use super::random::{Constants, LAST_NAME_BITS, LAST_NAMES, Purpose, Random, last_name};
use super::schema::{
    CUSTOMER, CUSTOMERS_PER_DISTRICT, DISTRICT, DISTRICTS_PER_WAREHOUSE, HISTORY, ITEM, ITEMS, NEW_ORDER, ORDER_LINE,
    ORDERS, ORDERS_DELIVERED, ORDERS_LOADED, SCHEMA, STOCK, WAREHOUSE,
};
use crate::batch::Batch;
use crate::schema::TableId;

/// When loading happens, in microseconds: 2024-01-01 00:00 UTC. Fixed, so that equal seeds give equal data, and queries
/// with dates in them find the same rows in any year.
pub(crate) const LOAD_TIME_US: i64 = 1_704_067_200_000_000;

/// When running begins: the day after loading.
pub(crate) const RUN_TIME_US: i64 = LOAD_TIME_US + 86_400_000_000;

/// Rows of one batch, where a table is cut by numbers rather than by districts.
const ROWS_PER_PART: i64 = 50_000;

/// A piece of the population that is made and loaded at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LoadUnit {
    /// Items of that first number on.
    Items(i64),
    /// One warehouse.
    Warehouse(i64),
    /// A warehouse's districts.
    Districts(i64),
    /// A warehouse's stock, from that item on.
    Stock(i64, i64),
    /// A warehouse's customers.
    Customers(i64),
    /// The payments of a warehouse's customers.
    History(i64),
    /// A warehouse's orders.
    Orders(i64),
    /// A warehouse's undelivered orders.
    NewOrders(i64),
    /// The order lines of a warehouse and district.
    OrderLines(i64, i64),
}

impl LoadUnit {
    pub(super) fn all(warehouses: i64) -> Vec<LoadUnit> {
        let mut parts = (1..=ITEMS).step_by(ROWS_PER_PART as usize).map(LoadUnit::Items).collect::<Vec<_>>();
        for warehouse in 1..=warehouses {
            parts.push(LoadUnit::Warehouse(warehouse));
            parts.push(LoadUnit::Districts(warehouse));
            parts.extend((1..=ITEMS).step_by(ROWS_PER_PART as usize).map(|item| LoadUnit::Stock(warehouse, item)));
            parts.push(LoadUnit::Customers(warehouse));
            parts.push(LoadUnit::History(warehouse));
            parts.push(LoadUnit::Orders(warehouse));
            parts.push(LoadUnit::NewOrders(warehouse));
            parts.extend((1..=DISTRICTS_PER_WAREHOUSE).map(|district| LoadUnit::OrderLines(warehouse, district)));
        }
        parts
    }

    pub(super) fn table(self) -> TableId {
        match self {
            LoadUnit::Items(_) => ITEM,
            LoadUnit::Warehouse(_) => WAREHOUSE,
            LoadUnit::Districts(_) => DISTRICT,
            LoadUnit::Stock(..) => STOCK,
            LoadUnit::Customers(_) => CUSTOMER,
            LoadUnit::History(_) => HISTORY,
            LoadUnit::Orders(_) => ORDERS,
            LoadUnit::NewOrders(_) => NEW_ORDER,
            LoadUnit::OrderLines(..) => ORDER_LINE,
        }
    }

    /// Its rows; equal seeds give equal rows.
    pub(super) fn make(self, seed: u64) -> RecordBatch {
        let table = self.table();
        let stream = |first: i64, second: i64| Random::new(seed, Purpose::Table(table), first as u64, second as u64);
        match self {
            LoadUnit::Items(first) => items(&mut stream(first, 0), first),
            LoadUnit::Warehouse(warehouse) => one_warehouse(&mut stream(warehouse, 0), warehouse),
            LoadUnit::Districts(warehouse) => districts(&mut stream(warehouse, 0), warehouse),
            LoadUnit::Stock(warehouse, first) => stock(&mut stream(warehouse, first), warehouse, first),
            LoadUnit::Customers(warehouse) => customers(&mut stream(warehouse, 0), warehouse),
            LoadUnit::History(warehouse) => history(&mut stream(warehouse, 0), warehouse),
            LoadUnit::Orders(warehouse) => orders(&mut stream(warehouse, 0), seed, warehouse),
            LoadUnit::NewOrders(warehouse) => new_orders(warehouse),
            LoadUnit::OrderLines(warehouse, district) => {
                order_lines(&mut stream(warehouse, district), seed, warehouse, district)
            }
        }
    }
}

pub(super) fn row_count(seed: u64, warehouses: i64) -> u64 {
    let per_district = 1 + 2 * CUSTOMERS_PER_DISTRICT + ORDERS_LOADED + (ORDERS_LOADED - ORDERS_DELIVERED);
    let fixed = ITEMS + warehouses * (1 + ITEMS + DISTRICTS_PER_WAREHOUSE * per_district);
    let lines: i64 = (1..=warehouses)
        .flat_map(|warehouse| (1..=DISTRICTS_PER_WAREHOUSE).map(move |district| (warehouse, district)))
        .map(|(warehouse, district)| line_counts(seed, warehouse, district).sum::<i64>())
        .sum();
    (fixed + lines) as u64
}

/// How many lines each of a district's loaded orders has, in order of order.
fn line_counts(seed: u64, warehouse: i64, district: i64) -> impl Iterator<Item = i64> {
    let mut random = Random::new(seed, Purpose::OrderLineCounts, warehouse as u64, district as u64);
    (0..ORDERS_LOADED).map(move |_| random.uniform(5, 15))
}

/// When the loaded order of that number was entered: the loader enters one per second in each district.
pub(crate) fn entry_time(order: i64) -> i64 {
    LOAD_TIME_US + order * 1_000_000
}

/// Dollars as an integer in hundredths.
const fn money(dollars: i64) -> i64 {
    dollars * 100
}

fn batch(table: TableId, rows: i64) -> Batch {
    Batch::new(&SCHEMA.tables[table], rows as usize)
}

/// Chooses one row of each ten.
struct OneInTen {
    row: i64,
    chosen: i64,
}

impl OneInTen {
    fn new() -> Self {
        OneInTen { row: 0, chosen: 0 }
    }

    fn next(&mut self, random: &mut Random) -> bool {
        if self.row % 10 == 0 {
            self.chosen = random.uniform(0, 9);
        }
        let is_chosen = self.row % 10 == self.chosen;
        self.row += 1;
        is_chosen
    }
}

/// I_DATA or S_DATA.
fn data(batch: &mut Batch, random: &mut Random, is_original: bool) {
    batch.text(if is_original { random.original(26, 50) } else { random.letters_and_digits(26, 50) });
}

fn address(batch: &mut Batch, random: &mut Random) {
    batch.text(random.letters_and_digits(10, 20));
    batch.text(random.letters_and_digits(10, 20));
    batch.text(random.letters_and_digits(10, 20));
    batch.text(random.state());
    batch.text(random.zip());
}

fn items(random: &mut Random, first: i64) -> RecordBatch {
    let mut batch = batch(ITEM, ROWS_PER_PART);
    let mut original = OneInTen::new();
    for item in first..first + ROWS_PER_PART {
        batch.int(item).int(random.uniform(1, 10_000));
        batch.text(random.letters_and_digits(14, 24)).int(random.uniform(money(1), money(100)));
        let is_original = original.next(random);
        data(&mut batch, random, is_original);
    }
    batch.finish()
}

fn one_warehouse(random: &mut Random, warehouse: i64) -> RecordBatch {
    let mut batch = batch(WAREHOUSE, 1);
    batch.int(warehouse).text(random.letters_and_digits(6, 10));
    address(&mut batch, random);
    batch.int(random.uniform(0, 2_000)).int(money(300_000));
    batch.finish()
}

fn districts(random: &mut Random, warehouse: i64) -> RecordBatch {
    let mut batch = batch(DISTRICT, DISTRICTS_PER_WAREHOUSE);
    for district in 1..=DISTRICTS_PER_WAREHOUSE {
        batch.int(district).int(warehouse).text(random.letters_and_digits(6, 10));
        address(&mut batch, random);
        batch.int(random.uniform(0, 2_000)).int(money(30_000)).int(ORDERS_LOADED + 1);
    }
    batch.finish()
}

fn stock(random: &mut Random, warehouse: i64, first: i64) -> RecordBatch {
    let mut batch = batch(STOCK, ROWS_PER_PART);
    let mut original = OneInTen::new();
    for item in first..first + ROWS_PER_PART {
        batch.int(item).int(warehouse).int(random.uniform(10, 100));
        for _ in 0..DISTRICTS_PER_WAREHOUSE {
            batch.text(random.letters_and_digits(24, 24));
        }
        batch.int(0).int(0).int(0);
        let is_original = original.next(random);
        data(&mut batch, random, is_original);
    }
    batch.finish()
}

fn customers(random: &mut Random, warehouse: i64) -> RecordBatch {
    let mut batch = batch(CUSTOMER, DISTRICTS_PER_WAREHOUSE * CUSTOMERS_PER_DISTRICT);
    let mut bad_credit = OneInTen::new();
    let mut name = String::new();
    for district in 1..=DISTRICTS_PER_WAREHOUSE {
        for customer in 1..=CUSTOMERS_PER_DISTRICT {
            let number = if customer <= LAST_NAMES {
                customer - 1
            } else {
                random.non_uniform(LAST_NAME_BITS, 0, LAST_NAMES - 1, Constants::LAST_NAME_LOAD)
            };
            last_name(number, &mut name);
            batch.int(customer).int(district).int(warehouse);
            batch.text(random.letters_and_digits(8, 16)).text("OE").text(&name);
            address(&mut batch, random);
            batch.text(random.digits(16)).int(LOAD_TIME_US);
            batch.text(if bad_credit.next(random) { "BC" } else { "GC" });
            batch.int(money(50_000)).int(random.uniform(0, 5_000));
            batch.int(money(-10)).int(money(10)).int(1).int(0);
            batch.text(random.letters_and_digits(300, 500));
        }
    }
    batch.finish()
}

fn history(random: &mut Random, warehouse: i64) -> RecordBatch {
    let mut batch = batch(HISTORY, DISTRICTS_PER_WAREHOUSE * CUSTOMERS_PER_DISTRICT);
    for district in 1..=DISTRICTS_PER_WAREHOUSE {
        for customer in 1..=CUSTOMERS_PER_DISTRICT {
            batch.int(customer).int(district).int(warehouse).int(district).int(warehouse);
            batch.int(LOAD_TIME_US).int(money(10)).text(random.letters_and_digits(12, 24));
        }
    }
    batch.finish()
}

fn orders(random: &mut Random, seed: u64, warehouse: i64) -> RecordBatch {
    let mut batch = batch(ORDERS, DISTRICTS_PER_WAREHOUSE * ORDERS_LOADED);
    for district in 1..=DISTRICTS_PER_WAREHOUSE {
        let mut customers = (1..=CUSTOMERS_PER_DISTRICT).collect::<Vec<_>>();
        Random::new(seed, Purpose::OrderCustomers, warehouse as u64, district as u64).shuffle(&mut customers);
        let orders = (1..=ORDERS_LOADED).zip(customers).zip(line_counts(seed, warehouse, district));
        for ((order, customer), line_count) in orders {
            let carrier = (order <= ORDERS_DELIVERED).then(|| random.uniform(1, 10));
            batch.int(order).int(district).int(warehouse).int(customer).int(entry_time(order));
            batch.int_or_null(carrier).int(line_count).int(1);
        }
    }
    batch.finish()
}

fn new_orders(warehouse: i64) -> RecordBatch {
    let mut batch = batch(NEW_ORDER, DISTRICTS_PER_WAREHOUSE * (ORDERS_LOADED - ORDERS_DELIVERED));
    for district in 1..=DISTRICTS_PER_WAREHOUSE {
        for order in ORDERS_DELIVERED + 1..=ORDERS_LOADED {
            batch.int(order).int(district).int(warehouse);
        }
    }
    batch.finish()
}

fn order_lines(random: &mut Random, seed: u64, warehouse: i64, district: i64) -> RecordBatch {
    // At most 15 lines for each of 3,000 orders: 45,000 rows.
    let mut batch = batch(ORDER_LINE, 10 * ORDERS_LOADED);
    for (order, line_count) in (1..=ORDERS_LOADED).zip(line_counts(seed, warehouse, district)) {
        let is_delivered = order <= ORDERS_DELIVERED;
        for line in 1..=line_count {
            batch.int(order).int(district).int(warehouse).int(line);
            batch.int(random.uniform(1, ITEMS)).int(warehouse);
            batch.int_or_null(is_delivered.then(|| entry_time(order))).int(5);
            batch.int(if is_delivered { 0 } else { random.uniform(1, money(10_000) - 1) });
            batch.text(random.letters_and_digits(24, 24));
        }
    }
    batch.finish()
}
