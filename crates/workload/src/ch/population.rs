//! The rows of supplier, nation and region.
//!
//! A nation's key is the code of a character, since a customer's nation is the first character of C_STATE. TPC-C makes
//! states of capital letters, so the 26 nations with such keys are the customers'; suppliers are of all 62.

use arrow::record_batch::RecordBatch;

use super::schema::{NATION, REGION, SCHEMA, SUPPLIER};
use crate::batch::Batch;
use crate::schema::TableId;
use crate::tpcc::{Purpose, Random};

/// Suppliers are numbered 0 to 9,999: the remainders of a division by 10,000.
pub(super) const SUPPLIERS: i64 = 10_000;

/// One supplier in 100 has a comment that says bad.
pub(super) const SUPPLIERS_PER_BAD_ONE: i64 = 100;

/// The word that only a bad supplier's comment contains.
pub(super) const BAD: &str = "bad";

/// The regions, numbered from 0.
pub(super) const REGIONS: [&str; 5] = ["Africa", "America", "Asia", "Europe", "Oceania"];

const AFRICA: i64 = 0;
const AMERICA: i64 = 1;
const ASIA: i64 = 2;
const EUROPE: i64 = 3;
const OCEANIA: i64 = 4;

/// The characters whose codes are the nations' keys: first those that states begin with.
const KEYS: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789abcdefghijklmnopqrstuvwxyz";

/// The nations with their regions, in the order of [`KEYS`]. Those that queries name are among the first 26.
const NATIONS: [(&str, i64); 62] = [
    ("Algeria", AFRICA),
    ("Argentina", AMERICA),
    ("Australia", OCEANIA),
    ("Austria", EUROPE),
    ("Bangladesh", ASIA),
    ("Belgium", EUROPE),
    ("Bolivia", AMERICA),
    ("Brazil", AMERICA),
    ("Cambodia", ASIA),
    ("Cameroon", AFRICA),
    ("Canada", AMERICA),
    ("Chile", AMERICA),
    ("China", ASIA),
    ("Colombia", AMERICA),
    ("Cuba", AMERICA),
    ("Denmark", EUROPE),
    ("Ecuador", AMERICA),
    ("Egypt", AFRICA),
    ("Estonia", EUROPE),
    ("Ethiopia", AFRICA),
    ("Fiji", OCEANIA),
    ("Finland", EUROPE),
    ("France", EUROPE),
    ("Germany", EUROPE),
    ("Ghana", AFRICA),
    ("Greece", EUROPE),
    ("Hungary", EUROPE),
    ("Iceland", EUROPE),
    ("India", ASIA),
    ("Indonesia", ASIA),
    ("Iran", ASIA),
    ("Iraq", ASIA),
    ("Ireland", EUROPE),
    ("Israel", ASIA),
    ("Italy", EUROPE),
    ("Japan", ASIA),
    ("Jordan", ASIA),
    ("Kenya", AFRICA),
    ("Laos", ASIA),
    ("Latvia", EUROPE),
    ("Madagascar", AFRICA),
    ("Malaysia", ASIA),
    ("Mexico", AMERICA),
    ("Mongolia", ASIA),
    ("Morocco", AFRICA),
    ("Nepal", ASIA),
    ("Netherlands", EUROPE),
    ("New Zealand", OCEANIA),
    ("Nigeria", AFRICA),
    ("Norway", EUROPE),
    ("Peru", AMERICA),
    ("Philippines", ASIA),
    ("Poland", EUROPE),
    ("Portugal", EUROPE),
    ("Samoa", OCEANIA),
    ("Senegal", AFRICA),
    ("Spain", EUROPE),
    ("Sweden", EUROPE),
    ("Tonga", OCEANIA),
    ("Uruguay", AMERICA),
    ("Vietnam", ASIA),
    ("Zambia", AFRICA),
];

/// The three tables that are filled here, with the number of rows of each.
pub(super) const TABLES: [(TableId, u64); 3] =
    [(SUPPLIER, SUPPLIERS as u64), (NATION, NATIONS.len() as u64), (REGION, REGIONS.len() as u64)];

/// The rows of one of the three tables; equal seeds give equal rows.
pub(super) fn make(table: TableId, seed: u64) -> RecordBatch {
    let mut random = Random::new(seed, Purpose::Table(table), 0, 0);
    match table {
        SUPPLIER => suppliers(&mut random),
        NATION => nations(&mut random),
        REGION => regions(&mut random),
        _ => unreachable!("the other tables are TPC-C's"),
    }
}

/// Nations and bad comments are dealt out evenly, each in its own random order, so that every nation has 161 or 162
/// suppliers with any seed.
fn suppliers(random: &mut Random) -> RecordBatch {
    let mut batch = Batch::new(&SCHEMA.tables[SUPPLIER], SUPPLIERS as usize);
    let mut places = (0..SUPPLIERS).collect::<Vec<_>>();
    random.shuffle(&mut places);
    for (supplier, place) in (0..).zip(places) {
        batch.int(supplier).text(&format!("Supplier#{supplier:09}")).text(random.letters_and_digits(10, 40));
        batch.int(KEYS[place as usize % KEYS.len()].into()).text(random.digits(15));
        batch.int(random.uniform(-99_999, 999_999));
        let comment = random.letters_and_digits(25, 100).replace(BAD, "BAD");
        match place % SUPPLIERS_PER_BAD_ONE {
            0 => batch.text(&format!("{BAD}{}", &comment[BAD.len()..])),
            _ => batch.text(&comment),
        };
    }
    batch.finish()
}

fn nations(random: &mut Random) -> RecordBatch {
    let mut batch = Batch::new(&SCHEMA.tables[NATION], NATIONS.len());
    for (&key, (name, region)) in KEYS.iter().zip(NATIONS) {
        batch.int(key.into()).text(name).int(region).text(random.letters_and_digits(30, 100));
    }
    batch.finish()
}

fn regions(random: &mut Random) -> RecordBatch {
    let mut batch = Batch::new(&SCHEMA.tables[REGION], REGIONS.len());
    for (key, name) in (0..).zip(REGIONS) {
        batch.int(key).text(name).text(random.letters_and_digits(30, 100));
    }
    batch.finish()
}
