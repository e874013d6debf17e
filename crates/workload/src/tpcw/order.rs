//! Buy Confirm (TPC-W 2.7): makes an order of the cart, pays it by credit card and takes the items from the stock.

use super::cart::{self, READ_CART_TO_BUY};
use super::customer::enter_address;
use super::numbers::NumberedTable;
use super::population::DAY_US;
use super::random::Random;
use super::schema::*;
use super::shop::{Shop, find};
use super::words::{CARDS, SHIP_TYPES};
use crate::database::DatabaseError;
use crate::keyed;
use crate::statement::{Intent, Statement, Value, insert};

/// The percentage of orders sent to another address than the customer's (TPC-W 2.7.2).
const ELSEWHERE_PERCENT: i64 = 5;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BuyConfirm {
    /// The buyer if the user is not known.
    pub(super) customer: i64,
    /// Card, address and shipping follow from this seed.
    pub(super) details: u64,
    /// An item whose first related item is added to a cart that would otherwise be empty.
    pub(super) fallback: i64,
}

/// The cost of an order, in hundredths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Totals {
    pub(super) sub_total: i64,
    pub(super) tax: i64,
    pub(super) total: i64,
}

#[derive(Debug, Clone, Copy)]
struct Line {
    item: i64,
    quantity: i64,
    cost: i64,
}

/// 8.25 % of a price, rounded (TPC-W 2.4.4).
pub(super) fn tax(sub_total: i64) -> i64 {
    (sub_total * 825 + 5_000) / 10_000
}

impl Totals {
    /// The sum of the lines less the discount in percent, tax, and shipping, which is 3.00 and 1.00 more for each piece
    /// (TPC-W 2.4.4).
    fn of(lines: &[Line], discount: i64) -> Self {
        let price: i64 = lines.iter().map(|line| line.cost * line.quantity).sum();
        let pieces: i64 = lines.iter().map(|line| line.quantity).sum();
        let sub_total = (price * (100 - discount) + 50) / 100;
        let tax = tax(sub_total);
        Totals { sub_total, tax, total: sub_total + tax + 300 + 100 * pieces }
    }
}

impl BuyConfirm {
    /// Buys. Returns the customer and the cart, which is empty then.
    pub(super) fn run(
        &self,
        shop: &mut Shop<'_>,
        customer: Option<i64>,
        cart: Option<i64>,
    ) -> Result<(i64, i64), DatabaseError> {
        let mut random = Random::new(self.details, 0, 0);
        let customer = customer.unwrap_or(self.customer);
        let cart = match cart {
            Some(cart) => cart,
            None => cart::create(shop)?,
        };
        cart::fill(shop, cart, self.fallback, &READ_CART_TO_BUY)?;
        let line =
            |row| Line { item: shop.rows.int(row, 0), quantity: shop.rows.int(row, 1), cost: shop.rows.int(row, 2) };
        let lines: Vec<Line> = (0..shop.rows.len()).map(line).collect();
        let order = order(shop, &mut random, customer, &lines)?;
        for (number, line) in (1..).zip(&lines) {
            order.add_line(shop, &mut random, number, line)?;
        }
        order.pay(shop, &mut random)?;
        shop.execute_one(&EMPTY_CART, &[Value::Int(cart)])?;
        Ok((customer, cart))
    }
}

/// An order that has been entered.
struct Order {
    number: Value<'static>,
    discount: i64,
    total: i64,
    ship_date: i64,
    ship_address: i64,
    name: String,
}

/// Enters an order, without its lines.
fn order(shop: &mut Shop<'_>, random: &mut Random, customer: i64, lines: &[Line]) -> Result<Order, DatabaseError> {
    let buyer = Value::Int(customer);
    shop.execute_one(&READ_BUYER, &[buyer])?;
    let (discount, bill_address) = (shop.rows.int(0, 0), shop.rows.int(0, 1));
    let name = format!("{} {}", shop.rows.text(0, 2), shop.rows.text(0, 3)).chars().take(31).collect();
    let is_elsewhere = random.uniform(1, 100) <= ELSEWHERE_PERCENT;
    let ship_address = if is_elsewhere { enter_address(shop, random)? } else { bill_address };
    let totals = Totals::of(lines, discount);
    let ship_date = shop.now + random.uniform(1, 7) * DAY_US;
    let number = shop.number(NumberedTable::Order);
    let [sub_total, tax, total] = [totals.sub_total, totals.tax, totals.total].map(Value::Int);
    let [now, sent, bill, ship] = [shop.now, ship_date, bill_address, ship_address].map(Value::Int);
    let ship_type = Value::Text(random.one_of(&SHIP_TYPES));
    let row = [number, buyer, now, sub_total, tax, total, ship_type, sent, bill, ship, Value::Text("PENDING")];
    shop.execute_one(&INSERT_ORDER, &row)?;
    Ok(Order { number, discount, total: totals.total, ship_date, ship_address, name })
}

impl Order {
    /// Adds a line, and takes its item from the stock.
    fn add_line(
        &self,
        shop: &mut Shop<'_>,
        random: &mut Random,
        number: i64,
        line: &Line,
    ) -> Result<(), DatabaseError> {
        let [number, item, quantity, discount] = [number, line.item, line.quantity, self.discount].map(Value::Int);
        let row = [number, self.number, item, quantity, discount, Value::Text(random.text(20, 100))];
        shop.execute_one(&INSERT_LINE, &row)?;
        shop.execute_one(&TAKE_STOCK, &[item, quantity])
    }

    /// Enters the credit card record. Asking a payment gateway is not part of the database's work.
    fn pay(&self, shop: &mut Shop<'_>, random: &mut Random) -> Result<(), DatabaseError> {
        let card = Value::Text(random.one_of(&CARDS));
        let digits = random.digits(16, 16).to_owned();
        let expires = Value::Int(shop.now / DAY_US + random.uniform(10, 730));
        let [total, date, address] = [self.total, self.ship_date, self.ship_address].map(Value::Int);
        let (number, name) = (Value::Text(&digits), Value::Text(&self.name));
        let row = [self.number, card, number, name, expires, Value::Text(random.text(15, 15)), total, date, address];
        shop.execute_one(&INSERT_CARD, &row)
    }
}

/// (customer) → (discount, address, first and last name).
static READ_BUYER: Statement = keyed::statement!(
    SCHEMA,
    "tpcw_read_buyer",
    "SELECT (c_discount * 100)::bigint, c_addr_id, c_fname, c_lname FROM customer WHERE c_id = $1"
);

/// All columns in order.
static INSERT_ORDER: Statement = keyed::statement!(
    SCHEMA,
    "tpcw_insert_order",
    "INSERT INTO orders (o_id, o_c_id, o_date, o_sub_total, o_tax, o_total, o_ship_type, o_ship_date, \
     o_bill_addr_id, o_ship_addr_id, o_status) VALUES ($1, $2, $3, $4::bigint * 0.01, $5::bigint * 0.01, \
     $6::bigint * 0.01, $7, $8, $9, $10, $11)"
);

/// All columns in order.
static INSERT_LINE: Statement = keyed::statement!(
    SCHEMA,
    "tpcw_insert_order_line",
    "INSERT INTO order_line (ol_id, ol_o_id, ol_i_id, ol_qty, ol_discount, ol_comments) \
     VALUES ($1, $2, $3, $4, $5::bigint * 0.01, $6)"
);

/// (item, quantity): less in stock; below ten, 21 more arrive (TPC-W 2.7.3).
static TAKE_STOCK: Statement = keyed::statement!(
    SCHEMA,
    "tpcw_take_stock",
    "UPDATE item SET i_stock = CASE WHEN i_stock - $2 >= 10 THEN i_stock - $2 ELSE i_stock - $2 + 21 END \
     WHERE i_id = $1"
);

/// (order, card, its number, name on it, expiration, authorization, amount, date, address of delivery). Also written by
/// hand: a keyed statement cannot contain a query.
static INSERT_CARD: Statement = Statement {
    name: "tpcw_insert_card",
    sql: "INSERT INTO cc_xacts (cx_o_id, cx_type, cx_num, cx_name, cx_expire, cx_auth_id, cx_xact_amt, cx_xact_date, \
          cx_co_id) VALUES ($1, $2, $3, $4, $5, $6, $7::bigint * 0.01, $8, \
          (SELECT addr_co_id FROM address WHERE addr_id = $9))",
    native: &|access, parameters, rows| {
        let address = find(access, ADDRESS, parameters[8].int(), Intent::Read)?;
        let country = address.map_or(Value::Null, |address| Value::Int(access.int(address, ADDR_CO_ID)));
        let row: Vec<_> = parameters[..8].iter().copied().chain([country]).collect();
        insert(access, CC_XACTS, &row, rows)
    },
};

/// (cart): takes out all of its lines.
static EMPTY_CART: Statement =
    keyed::statement!(SCHEMA, "tpcw_empty_cart", "DELETE FROM shopping_cart_line WHERE scl_sc_id = $1");

pub(super) static STATEMENTS: [&Statement; 6] =
    [&READ_BUYER, &INSERT_ORDER, &INSERT_LINE, &TAKE_STOCK, &INSERT_CARD, &EMPTY_CART];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_those_of_the_specification() {
        let lines = [(1_000, 2), (333, 1)].map(|(cost, quantity)| Line { item: 1, quantity, cost });
        // 23.33 less 10 % is 20.997; the tax on 21.00 is 1.7325; shipping is 3.00 and 3 pieces at 1.00.
        assert_eq!(Totals::of(&lines, 10), Totals { sub_total: 2_100, tax: 173, total: 2_100 + 173 + 600 });
        assert_eq!(tax(10_000), 825);
    }
}
