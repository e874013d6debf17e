//! The initial rows of the shop (TPC-W 4.7). Every row follows from the seed and its own number.

use arrow::record_batch::RecordBatch;

use super::order::{Totals, tax};
use super::random::{Random, search_word, syllables, user_name};
use super::schema::*;
use super::size::{COUNTRIES, Size, line_count, order_of_line};
use super::words::{BACKINGS, CARDS, SHIP_TYPES, STATUSES, SUBJECTS, country_name};
use crate::batch::Batch;
use crate::parts::RowRange;
use crate::schema::TableId;

/// The tables that are filled; carts come with the clients.
pub(super) const FILLED: [TableId; 8] = [ITEM, AUTHOR, COUNTRY, ADDRESS, CUSTOMER, ORDERS, ORDER_LINE, CC_XACTS];

/// The day of loading, in days: 2024-01-01. Fixed, so that equal seeds give equal data.
pub(super) const LOAD_DAY: i64 = 19_723;

pub(super) const DAY_US: i64 = 86_400_000_000;

/// Two hours, after which a session of a user expires.
pub(super) const SESSION_US: i64 = 7_200_000_000;

pub(super) fn batch(table: TableId, size: Size, seed: u64, part: RowRange) -> RecordBatch {
    let mut batch = Batch::new(&SCHEMA.tables[table], part.rows);
    for number in part.first as i64..part.first as i64 + part.rows as i64 {
        let mut random = Random::new(seed, table as u64, number as u64);
        match table {
            ITEM => item(&mut batch, &mut random, size, number + 1),
            AUTHOR => author(&mut batch, &mut random, size, number + 1),
            COUNTRY => country(&mut batch, &mut random, number + 1),
            ADDRESS => address(&mut batch, &mut random, number + 1),
            CUSTOMER => customer(&mut batch, &mut random, size, number + 1),
            ORDERS => order(&mut batch, size, seed, number + 1),
            ORDER_LINE => order_line(&mut batch, &mut random, size, number),
            CC_XACTS => card(&mut batch, &mut random, size, seed, number + 1),
            _ => unreachable!("carts are not loaded"),
        }
    }
    batch.finish()
}

/// How many of an item are in stock at first: each of 10 to 30 equally often. The check uses it.
pub(super) fn first_stock(item: i64) -> i64 {
    10 + item * 8 % 21
}

/// The picture of an item that no administrator has changed.
pub(super) fn first_image(item: i64) -> String {
    format!("img{}/image_{item}.gif", item % 100)
}

fn item(batch: &mut Batch, random: &mut Random, size: Size, id: i64) {
    let author = if id <= size.authors() { id } else { random.uniform(1, size.authors()) };
    // 1930 to 2000.
    let published = random.uniform(-14_610, 11_322);
    let price = random.uniform(100, 99_999);
    let cost = price * (100 - random.uniform(0, 50)) / 100;
    let title = format!("{} {}", search_word(id % size.title_words()), random.text(0, TITLE_BYTES as i64 - 15));
    batch.int(id).text(&title).int(author).int(published).text(random.text(14, 60));
    batch.text(random.one_of(&SUBJECTS)).text(random.text(100, 500));
    for related in related(random, size.items, id) {
        batch.int(related);
    }
    batch.text(&format!("img{}/thumb_{id}.gif", id % 100)).text(&first_image(id)).int(price).int(cost);
    batch.int(published + random.uniform(1, 30)).int(first_stock(id)).text(random.text(13, 13));
    batch.int(random.uniform(20, 9_999)).text(random.one_of(&BACKINGS));
    let [height, width, depth] = [(); 3].map(|()| random.uniform(1, 9_999));
    let inches = |length: i64| format!("{}.{:02}", length / 100, length % 100);
    batch.text(&format!("{}x{}x{}", inches(height), inches(width), inches(depth)));
}

/// Five different items, other than this one.
fn related(random: &mut Random, items: i64, id: i64) -> [i64; 5] {
    let mut related = [0; 5];
    for place in 0..5 {
        related[place] = loop {
            let other = random.uniform(1, items);
            if other != id && !related[..place].contains(&other) {
                break other;
            }
        };
    }
    related
}

fn author(batch: &mut Batch, random: &mut Random, size: Size, id: i64) {
    let last_name = format!("{}{}", search_word(id % size.author_words()), random.text(0, 6));
    batch.int(id).text(random.text(3, 20)).text(&last_name).text(random.text(1, 20));
    // 1800 to 1990.
    batch.int(random.uniform(-62_091, 7_669)).text(random.text(125, 500));
}

fn country(batch: &mut Batch, random: &mut Random, id: i64) {
    let exchange = if id == 1 { 1_000_000 } else { random.uniform(100_000, 2_000_000_000) };
    batch.int(id).text(&country_name(id)).int(exchange).text(&syllables(id, 4));
}

fn address(batch: &mut Batch, random: &mut Random, id: i64) {
    batch.int(id).text(random.text(15, 40)).text(random.text(15, 40)).text(random.text(4, 30));
    batch.text(random.text(2, 20)).text(random.text(5, 10)).int(random.uniform(1, COUNTRIES));
}

fn customer(batch: &mut Batch, random: &mut Random, size: Size, id: i64) {
    let name = user_name(id);
    let since = LOAD_DAY - random.uniform(1, 730);
    let last_login = (since + random.uniform(0, 60)).min(LOAD_DAY);
    let login = LOAD_DAY * DAY_US;
    batch.int(id).text(&name).text(&name.to_lowercase()).text(random.text(8, 15)).text(random.text(8, 15));
    batch.int(random.uniform(1, size.addresses())).text(random.digits(9, 16));
    batch.text(&format!("{name}@{}.com", random.text(2, 9))).int(since).int(last_login);
    batch.int(login).int(login + SESSION_US).int(random.uniform(0, 50)).int(0).int(random.uniform(0, 99_999));
    // 1880 to 2000.
    batch.int(random.uniform(-32_872, 11_322)).text(random.text(100, 500));
}

/// A loaded order; its credit card record repeats some of its values.
struct LoadedOrder {
    totals: Totals,
    date: i64,
    ship_date: i64,
    random: Random,
}

impl LoadedOrder {
    fn new(seed: u64, id: i64) -> Self {
        let mut random = Random::new(seed, ORDERS as u64, id as u64);
        let sub_total = random.uniform(1_000, 999_999);
        let tax = tax(sub_total);
        let total = sub_total + tax + 300 + 100 * line_count(id);
        let date = LOAD_DAY * DAY_US - random.uniform(1, 60 * DAY_US / 1_000_000) * 1_000_000;
        let ship_date = date + random.uniform(0, 7) * DAY_US;
        LoadedOrder { totals: Totals { sub_total, tax, total }, date, ship_date, random }
    }
}

fn order(batch: &mut Batch, size: Size, seed: u64, id: i64) {
    let LoadedOrder { totals, date, ship_date, mut random } = LoadedOrder::new(seed, id);
    batch.int(id).int(random.uniform(1, size.customers())).int(date);
    batch.int(totals.sub_total).int(totals.tax).int(totals.total).text(random.one_of(&SHIP_TYPES)).int(ship_date);
    batch.int(random.uniform(1, size.addresses())).int(random.uniform(1, size.addresses()));
    batch.text(random.one_of(&STATUSES));
}

fn order_line(batch: &mut Batch, random: &mut Random, size: Size, number: i64) {
    let (order, line) = order_of_line(number);
    batch.int(line).int(order).int(random.uniform(1, size.items)).int(random.uniform(1, 300));
    batch.int(random.uniform(0, 30)).text(random.text(20, 100));
}

fn card(batch: &mut Batch, random: &mut Random, size: Size, seed: u64, id: i64) {
    debug_assert!(id <= size.orders(), "each order has one credit card record");
    let order = LoadedOrder::new(seed, id);
    batch.int(id).text(random.one_of(&CARDS)).text(random.digits(16, 16)).text(random.text(14, 30));
    batch.int(LOAD_DAY + random.uniform(10, 730)).text(random.text(15, 15)).int(order.totals.total);
    batch.int(order.ship_date).int(random.uniform(1, COUNTRIES));
}
