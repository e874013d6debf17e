//! The initial rows of the tables. Every row follows from the seed, the scale and its own number, so that the amounts
//! of an account's entries are known without reading them.

use arrow::record_batch::RecordBatch;
use rand::RngExt;
use rand_pcg::Pcg64;

use super::schema::*;
use crate::batch::Batch;
use crate::parts::RowRange;
use crate::schema::TableId;
use crate::words::write_words;

/// The time of loading, in microseconds: always 2024-01-01 00:00 UTC.
const LOAD_TIME_US: i64 = 1_704_067_200_000_000;

/// When running begins: the day after loading.
pub(super) const RUN_TIME_US: i64 = LOAD_TIME_US + 86_400_000_000;

/// The day of loading, since 1970-01-01.
const LOAD_DAY: i64 = LOAD_TIME_US / 86_400_000_000;

/// Every account's balance at first, in hundredths.
pub(super) const BALANCE_LOADED: i64 = 100_000;

/// A prime greater than any number of documents: multiplying by it permutes them.
const PERMUTING_PRIME: i64 = 2_147_483_647;

/// The sizes of all tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sizes {
    pub(super) scale: i64,
}

impl Sizes {
    pub(super) fn accounts(self) -> i64 {
        self.scale * ACCOUNTS_PER_SCALE
    }

    pub(super) fn branches(self) -> i64 {
        self.accounts() / ACCOUNTS_PER_BRANCH
    }

    pub(super) fn products(self) -> i64 {
        self.scale * PRODUCTS_PER_SCALE
    }

    pub(super) fn documents(self) -> i64 {
        self.scale * DOCUMENTS_PER_SCALE
    }

    pub(super) fn topics(self) -> i64 {
        self.documents() / DOCUMENTS_PER_TOPIC
    }

    /// Rows of a table as loaded.
    pub(super) fn rows(self, table: TableId) -> u64 {
        let rows = match table {
            RATE => RATES,
            SAMPLE => SAMPLES,
            ACCOUNT => self.accounts(),
            PRODUCT => self.products(),
            DOCUMENT => self.documents(),
            ENTRY => self.accounts() * ENTRIES_PER_ACCOUNT,
            _ => unreachable!("there are six tables"),
        };
        rows as u64
    }

    /// The topic of a document: each has as many, in a permutation of all documents.
    fn topic(self, document: i64) -> i64 {
        let place = i128::from(document) * i128::from(PERMUTING_PRIME) % i128::from(self.documents());
        place as i64 / DOCUMENTS_PER_TOPIC + 1
    }
}

/// A product's price in hundredths.
pub(super) fn price(seed: u64, product: i64) -> i64 {
    1 + row_random(seed, PRODUCT, product).random_range(0..10_000)
}

/// What an account's loaded entry of that number is about: product and quantity.
fn bought(seed: u64, sizes: Sizes, account: i64, number: i64) -> (i64, i64) {
    let mut random = row_random(seed, ENTRY, (account - 1) * ENTRIES_PER_ACCOUNT + number);
    (random.random_range(1..=sizes.products()), random.random_range(1..=10))
}

/// A stream of its own for a row, beside those of the parts.
fn row_random(seed: u64, table: TableId, row: i64) -> Pcg64 {
    Pcg64::new(u128::from(seed), (table as u128 + 100) << 64 | row as u128)
}

pub(super) fn make(seed: u64, sizes: Sizes, table: TableId, part: RowRange) -> RecordBatch {
    let random = &mut Pcg64::new(u128::from(seed), (table as u128) << 64 | u128::from(part.number));
    let mut batch = Batch::new(&SCHEMA.tables[table], part.rows);
    let mut text = String::new();
    for number in (part.first as i64 + 1..).take(part.rows) {
        match table {
            RATE => rate(&mut batch, random, number, &mut text),
            SAMPLE => {
                batch.int(number).int(random.random_range(1..=10_000)).int(random.random_range(1..=10_000));
            }
            ACCOUNT => account(&mut batch, random, seed, sizes, number, &mut text),
            PRODUCT => product(&mut batch, random, seed, number, &mut text),
            DOCUMENT => document(&mut batch, random, sizes, number, &mut text),
            ENTRY => entry(&mut batch, random, seed, sizes, number, &mut text),
            _ => unreachable!("there are six tables"),
        }
    }
    batch.finish()
}

fn day(random: &mut Pcg64) -> i64 {
    LOAD_DAY - random.random_range(0..3_650)
}

fn rate(batch: &mut Batch, random: &mut Pcg64, number: i64, text: &mut String) {
    write_words(random, 10, 30, text);
    batch.int(number).text(text).int(random.random_range(0..=200_000)).int(day(random));
}

fn account(batch: &mut Batch, random: &mut Pcg64, seed: u64, sizes: Sizes, number: i64, text: &mut String) {
    let amount = |entry| {
        let (product, quantity) = bought(seed, sizes, number, entry);
        quantity * price(seed, product)
    };
    let total = (1..=ENTRIES_PER_ACCOUNT).map(amount).sum();
    write_words(random, 20, 40, text);
    batch.int(number).int((number - 1) / ACCOUNTS_PER_BRANCH + 1).text(text);
    batch.int(random.random_range(1..=RATES)).int(day(random)).int(BALANCE_LOADED).int(0);
    batch.int(1).int(ENTRIES_PER_ACCOUNT + 1).int(total);
}

fn product(batch: &mut Batch, random: &mut Pcg64, seed: u64, number: i64, text: &mut String) {
    write_words(random, 20, 40, text);
    batch.int(number).text(text).int(price(seed, number)).int(day(random));
}

fn document(batch: &mut Batch, random: &mut Pcg64, sizes: Sizes, number: i64, text: &mut String) {
    let mut title = String::new();
    write_words(random, 30, TITLE_MAX, &mut title);
    write_words(random, 400, 600, text);
    batch.int(number).int(sizes.topic(number)).int(1).int(LOAD_TIME_US).int(text.len() as i64);
    batch.text(&title).text(text);
}

fn entry(batch: &mut Batch, random: &mut Pcg64, seed: u64, sizes: Sizes, row: i64, text: &mut String) {
    let account = (row - 1) / ENTRIES_PER_ACCOUNT + 1;
    let number = (row - 1) % ENTRIES_PER_ACCOUNT + 1;
    let (product, quantity) = bought(seed, sizes, account, number);
    write_words(random, 40, TEXT_MAX, text);
    batch.int(account).int(number).int(product).int(quantity).int(quantity * price(seed, product));
    batch.int(LOAD_TIME_US + number * 1_000_000).text(text);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn every_topic_has_as_many_documents_and_they_are_scattered() {
        for scale in [1, 3, 10] {
            let sizes = Sizes { scale };
            let mut documents = BTreeMap::<i64, Vec<i64>>::new();
            for document in 1..=sizes.documents() {
                documents.entry(sizes.topic(document)).or_default().push(document);
            }
            assert_eq!(documents.keys().copied().collect::<Vec<_>>(), (1..=sizes.topics()).collect::<Vec<_>>());
            for found in documents.values() {
                assert_eq!(found.len() as i64, DOCUMENTS_PER_TOPIC);
                let neighbours = found.windows(2).filter(|pair| pair[1] - pair[0] < 4).count();
                assert!(neighbours < 5, "{found:?}");
            }
        }
    }

    #[test]
    fn prices_are_positive_and_vary() {
        let prices = (1..=1_000).map(|product| price(3, product)).collect::<Vec<_>>();
        assert!(prices.iter().all(|price| (1..=10_000).contains(price)));
        let mean = prices.iter().sum::<i64>() / 1_000;
        assert!((4_500..5_500).contains(&mean), "{mean}");
        assert_eq!(price(3, 17), prices[16]);
    }
}
