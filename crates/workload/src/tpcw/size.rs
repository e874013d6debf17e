//! How many rows each table is loaded with (TPC-W 4.3), and how many bytes they take.

use super::schema::*;
use crate::footprint::bytes_per_row;
use crate::schema::{ColumnId, TableId};

/// Customers for each emulated browser that the database is meant for.
const CUSTOMERS_PER_BROWSER: i64 = 2_880;

pub(super) const COUNTRIES: i64 = 92;

/// Loaded orders have one to five lines, in turn these. Five orders have fifteen lines, so the mean is three and every
/// number is as frequent as the others.
const LINES_IN_TURN: [i64; 5] = [1, 4, 2, 5, 3];

/// The two numbers that determine the size of the shop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Size {
    /// Emulated browsers.
    pub(super) browsers: i64,
    /// Items on sale.
    pub(super) items: i64,
}

impl Size {
    pub(super) fn customers(self) -> i64 {
        CUSTOMERS_PER_BROWSER * self.browsers
    }

    pub(super) fn addresses(self) -> i64 {
        2 * self.customers()
    }

    pub(super) fn orders(self) -> i64 {
        self.customers() * 9 / 10
    }

    pub(super) fn authors(self) -> i64 {
        self.items / 4
    }

    /// How many different words titles begin with: a search finds five titles.
    pub(super) fn title_words(self) -> i64 {
        self.items / 5
    }

    /// How many different words authors' last names begin with: a search finds ten titles.
    pub(super) fn author_words(self) -> i64 {
        self.items / 10
    }

    /// The constant A of NURand for customers (TPC-W 2.3.2).
    pub(super) fn customer_bits(self) -> i64 {
        [(10_000, 1_023), (40_000, 4_095), (160_000, 16_383), (640_000, 65_535), (2_560_000, 262_143)]
            .into_iter()
            .find(|&(below, _)| self.customers() < below)
            .map_or(1_048_575, |(_, bits)| bits)
    }

    /// The constant A of NURand for search words (TPC-W 2.10.5.1).
    pub(super) fn item_bits(self) -> i64 {
        [(10_000, 63), (100_000, 511), (1_000_000, 4_095), (10_000_000, 32_767)]
            .into_iter()
            .find(|&(below, _)| self.items < below)
            .map_or(524_287, |(_, bits)| bits)
    }

    pub(super) fn rows(self, table: TableId) -> i64 {
        match table {
            ITEM => self.items,
            AUTHOR => self.authors(),
            COUNTRY => COUNTRIES,
            ADDRESS => self.addresses(),
            CUSTOMER => self.customers(),
            ORDERS | CC_XACTS => self.orders(),
            ORDER_LINE => lines_before(self.orders() + 1),
            SHOPPING_CART | SHOPPING_CART_LINE => 0,
            _ => unreachable!("there are ten tables"),
        }
    }

    /// Bytes of rows, columns and indexes.
    pub(super) fn bytes(self) -> u64 {
        let tables = SCHEMA.tables.iter().enumerate();
        let row = |id, table| bytes_per_row(table, |column, bytes_max| text_bytes(id, column, bytes_max));
        tables.map(|(id, table)| (self.rows(id) as f64 * row(id, table)) as u64).sum()
    }
}

/// How many lines a loaded order has.
pub(super) fn line_count(order: i64) -> i64 {
    LINES_IN_TURN[((order - 1) % 5) as usize]
}

/// How many lines all loaded orders before this one have.
pub(super) fn lines_before(order: i64) -> i64 {
    let (fives, rest) = ((order - 1) / 5, (order - 1) % 5);
    fives * LINES_IN_TURN.iter().sum::<i64>() + LINES_IN_TURN[..rest as usize].iter().sum::<i64>()
}

/// The order and the line's number within it, from 1, of the loaded line of that number, from 0.
pub(super) fn order_of_line(line: i64) -> (i64, i64) {
    let lines_of_five = LINES_IN_TURN.iter().sum::<i64>();
    let (mut order, mut rest) = (5 * (line / lines_of_five) + 1, line % lines_of_five);
    while rest >= line_count(order) {
        rest -= line_count(order);
        order += 1;
    }
    (order, rest + 1)
}

/// How long a text is on average (TPC-W 4.7); those not named here are as long as they may be.
fn text_bytes(table: TableId, column: ColumnId, bytes_max: usize) -> f64 {
    let between = |shortest: f64, longest: f64| (shortest + longest) / 2.0;
    match (table, column) {
        (ITEM, I_TITLE) => between(15.0, 56.0),
        (ITEM, I_PUBLISHER) => between(14.0, 60.0),
        (ITEM, I_SUBJECT) => 8.0,
        (ITEM, I_DESC) | (CUSTOMER, C_DATA) => between(100.0, 500.0),
        (ITEM, I_THUMBNAIL | I_IMAGE) => 20.0,
        (ITEM, I_BACKING) => 8.0,
        (ITEM, I_DIMENSIONS) => 17.0,
        (AUTHOR, A_FNAME) => between(3.0, 20.0),
        (AUTHOR, A_LNAME) => between(14.0, 20.0),
        (AUTHOR, A_MNAME) => between(1.0, 20.0),
        (AUTHOR, A_BIO) => between(125.0, 500.0),
        (COUNTRY, _) => 10.0,
        (ADDRESS, ADDR_STREET1 | ADDR_STREET2) => between(15.0, 40.0),
        (ADDRESS, ADDR_CITY) => between(4.0, 30.0),
        (ADDRESS, ADDR_STATE) => between(2.0, 20.0),
        (ADDRESS, ADDR_ZIP) => between(5.0, 10.0),
        (CUSTOMER, C_UNAME | C_PASSWD) => 9.5,
        (CUSTOMER, C_FNAME | C_LNAME) => between(8.0, 15.0),
        (CUSTOMER, C_PHONE) => between(9.0, 16.0),
        (CUSTOMER, C_EMAIL) => 20.0,
        (ORDERS, O_SHIP_TYPE) => 4.5,
        (ORDERS, O_STATUS) => 7.5,
        (ORDER_LINE, OL_COMMENTS) => between(20.0, 100.0),
        (CC_XACTS, CX_TYPE) => 6.0,
        (CC_XACTS, CX_NAME) => between(14.0, 30.0),
        _ => bytes_max as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_orders_tell_of_each_other() {
        let mut line = 0;
        for order in 1..=2_000 {
            assert_eq!(lines_before(order), line);
            for number in 1..=line_count(order) {
                assert_eq!(order_of_line(line), (order, number));
                line += 1;
            }
        }
        assert_eq!(line, 6_000);
    }

    #[test]
    fn rows_are_those_of_the_specification() {
        let size = Size { browsers: 10, items: 10_000 };
        let rows: Vec<_> = (0..SCHEMA.tables.len()).map(|table| size.rows(table)).collect();
        assert_eq!(rows, [10_000, 2_500, 92, 57_600, 28_800, 25_920, 77_760, 25_920, 0, 0]);
        assert_eq!((size.customer_bits(), size.item_bits()), (4_095, 511));
        assert_eq!(Size { browsers: 1, items: 1_000 }.customer_bits(), 1_023);
        assert_eq!(Size { browsers: 1, items: 1_000 }.item_bits(), 63);
    }
}
