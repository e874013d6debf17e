//! Shopping Cart (TPC-W 2.4): puts an item into the cart, or changes quantities, and shows the cart.
//!
//! Only its own user's client touches a cart. A line holds at most ten of an item, so that the 21 which the
//! specification orders always make up for the quantity sold.

use super::browse::promotions;
use super::numbers::NumberedTable;
use super::random::Random;
use super::schema::*;
use super::shop::{Shop, find_all, referred, set, show};
use crate::database::DatabaseError;
use crate::keyed;
use crate::statement::{Intent, RowAccess, Rows, Statement, Value, insert};

/// The most of an item that a cart holds. The SQL text repeats this number.
const QUANTITY_MAX: i64 = 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ShoppingCart {
    pub(super) change: Change,
    /// An item whose first related item is added to a cart that would otherwise be empty.
    pub(super) fallback: i64,
    pub(super) promoted: i64,
}

/// A user's operation on a cart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// Puts one more of an item into it.
    Add(i64),
    /// Changes some quantities; the new ones follow from this seed.
    Refresh(u64),
}

impl ShoppingCart {
    /// Changes and shows a cart, which is created if there is none, and returns its number.
    pub(super) fn run(&self, shop: &mut Shop<'_>, cart: Option<i64>) -> Result<i64, DatabaseError> {
        let cart = match cart {
            Some(cart) => cart,
            None => create(shop)?,
        };
        match self.change {
            Change::Add(item) => add(shop, cart, item)?,
            Change::Refresh(seed) => refresh(shop, cart, seed)?,
        }
        fill(shop, cart, self.fallback, &READ_CART)?;
        shop.execute_one(&TOUCH_CART, &[Value::Int(cart), Value::Int(shop.now)])?;
        promotions(shop, self.promoted)?;
        Ok(cart)
    }
}

/// Makes a cart.
pub(super) fn create(shop: &mut Shop<'_>) -> Result<i64, DatabaseError> {
    let cart = shop.number(NumberedTable::Cart);
    shop.execute_one(&CREATE_CART, &[cart, Value::Int(shop.now)])?;
    Ok(cart.int())
}

fn add(shop: &mut Shop<'_>, cart: i64, item: i64) -> Result<(), DatabaseError> {
    shop.execute_one(&ADD_TO_CART, &[Value::Int(cart), Value::Int(item)])
}

/// Adds an item to an empty cart. The rows of the last statement, `read`, are then the cart's lines.
pub(super) fn fill(shop: &mut Shop<'_>, cart: i64, fallback: i64, read: &Statement<'_>) -> Result<(), DatabaseError> {
    shop.execute(read, &[Value::Int(cart)])?;
    if shop.rows.is_empty() {
        shop.execute_one(&READ_FIRST_RELATED, &[Value::Int(fallback)])?;
        let item = shop.rows.int(0, 0);
        add(shop, cart, item)?;
        shop.execute_one(read, &[Value::Int(cart)])?;
    }
    Ok(())
}

/// Changes the quantities of some lines, at least one, to others of 0 to 10; of a single line to 1 to 10 (TPC-W 2.4.5.1).
fn refresh(shop: &mut Shop<'_>, cart: i64, seed: u64) -> Result<(), DatabaseError> {
    shop.execute(&READ_CART, &[Value::Int(cart)])?;
    let mut lines: Vec<_> = (0..shop.rows.len()).map(|row| (shop.rows.int(row, 0), shop.rows.int(row, 1))).collect();
    let mut random = Random::new(seed, 0, 0);
    if let [(item, _)] = lines[..] {
        return set_quantity(shop, cart, item, random.uniform(1, QUANTITY_MAX));
    }
    if lines.is_empty() {
        return Ok(());
    }
    for _ in 0..random.uniform(1, lines.len() as i64) {
        let (item, before) = lines.swap_remove(random.uniform(0, lines.len() as i64 - 1) as usize);
        let drawn = random.uniform(0, QUANTITY_MAX - 1);
        set_quantity(shop, cart, item, if drawn >= before { drawn + 1 } else { drawn })?;
    }
    Ok(())
}

fn set_quantity(shop: &mut Shop<'_>, cart: i64, item: i64, quantity: i64) -> Result<(), DatabaseError> {
    let [cart, item] = [cart, item].map(Value::Int);
    match quantity {
        0 => shop.execute_one(&REMOVE_FROM_CART, &[cart, item]),
        _ => shop.execute_one(&SET_QUANTITY, &[cart, item, Value::Int(quantity)]),
    }
}

/// (cart, time).
static CREATE_CART: Statement =
    keyed::statement!(SCHEMA, "tpcw_create_cart", "INSERT INTO shopping_cart (sc_id, sc_time) VALUES ($1, $2)");

/// (cart, time).
static TOUCH_CART: Statement =
    keyed::statement!(SCHEMA, "tpcw_touch_cart", "UPDATE shopping_cart SET sc_time = $2 WHERE sc_id = $1");

/// (cart, item): one more, up to ten. Also written by hand, because ON CONFLICT is beyond keyed statements.
static ADD_TO_CART: Statement = Statement {
    name: "tpcw_add_to_cart",
    sql: "INSERT INTO shopping_cart_line AS line (scl_sc_id, scl_i_id, scl_qty) VALUES ($1, $2, 1) \
          ON CONFLICT (scl_sc_id, scl_i_id) DO UPDATE SET scl_qty = LEAST(line.scl_qty + 1, 10)",
    native: &|access, parameters, rows| match access.find(primary(SHOPPING_CART_LINE), parameters, Intent::Write)? {
        None => insert(access, SHOPPING_CART_LINE, &[parameters[0], parameters[1], Value::Int(1)], rows),
        Some(line) => {
            let quantity = (access.int(line, SCL_QTY) + 1).min(QUANTITY_MAX);
            set(access, Some(line), &[(SCL_QTY, Value::Int(quantity))], rows)
        }
    },
};

/// (cart, item, quantity).
static SET_QUANTITY: Statement = keyed::statement!(
    SCHEMA,
    "tpcw_set_quantity",
    "UPDATE shopping_cart_line SET scl_qty = $3 WHERE scl_sc_id = $1 AND scl_i_id = $2"
);

/// (cart, item).
static REMOVE_FROM_CART: Statement = keyed::statement!(
    SCHEMA,
    "tpcw_remove_from_cart",
    "DELETE FROM shopping_cart_line WHERE scl_sc_id = $1 AND scl_i_id = $2"
);

/// (item) → (its first related item).
static READ_FIRST_RELATED: Statement =
    keyed::statement!(SCHEMA, "tpcw_read_first_related", "SELECT i_related1 FROM item WHERE i_id = $1");

/// The SQL that reads a cart.
macro_rules! read_cart {
    () => {
        "SELECT scl_i_id, scl_qty, (i_cost * 100)::bigint, (i_srp * 100)::bigint, i_title, i_backing \
         FROM shopping_cart_line JOIN item ON i_id = scl_i_id WHERE scl_sc_id = $1 ORDER BY scl_i_id"
    };
}

/// (cart) → (item, quantity, cost, price, title, backing) of each line, in order of item.
pub(super) static READ_CART: Statement = Statement {
    name: "tpcw_read_cart",
    sql: read_cart!(),
    native: &|access, parameters, rows| read_cart(access, parameters, Intent::Read, rows),
};

/// As [`READ_CART`], for a buyer that then takes the items from the stock. An update lock keeps out another buyer of
/// the same items, so that the two cannot wait for each other's read locks.
pub(super) static READ_CART_TO_BUY: Statement = Statement {
    name: "tpcw_read_cart_to_buy",
    sql: read_cart!(),
    native: &|access, parameters, rows| read_cart(access, parameters, Intent::Update, rows),
};

fn read_cart(
    access: &mut dyn RowAccess,
    parameters: &[Value<'_>],
    intent: Intent,
    rows: &mut Rows,
) -> Result<(), DatabaseError> {
    for line in find_all(access, primary(SHOPPING_CART_LINE), parameters, parameters)? {
        if let Some(item) = referred(access, line, SCL_I_ID, ITEM, intent)? {
            show(access, rows, &[(line, &[SCL_I_ID, SCL_QTY]), (item, &[I_COST, I_SRP, I_TITLE, I_BACKING])]);
        }
    }
    Ok(())
}

pub(super) static STATEMENTS: [&Statement; 8] = [
    &CREATE_CART,
    &TOUCH_CART,
    &ADD_TO_CART,
    &SET_QUANTITY,
    &REMOVE_FROM_CART,
    &READ_FIRST_RELATED,
    &READ_CART,
    &READ_CART_TO_BUY,
];
