//! The interactions that identify a user: Customer Registration, Buy Request, Order Inquiry (TPC-W 2.5, 2.6, 2.13).

use super::cart::{self, READ_CART};
use super::numbers::NumberedTable;
use super::population::{DAY_US, SESSION_US};
use super::random::{Random, user_name};
use super::schema::*;
use super::shop::{Shop, find, find_all, referred, show};
use super::size::COUNTRIES;
use super::words::country_name;
use crate::database::DatabaseError;
use crate::keyed;
use crate::statement::{Intent, RowAccess, RowRef, Statement, Value};

/// The form that asks a user to sign in or to register; it shows the name of a known customer. The form that asks for
/// the user whose order is to be shown does the same.
pub(super) fn registration_form(shop: &mut Shop<'_>, customer: Option<i64>) -> Result<(), DatabaseError> {
    if let Some(customer) = customer {
        shop.execute_one(&READ_USER_NAME, &[Value::Int(customer)])?;
    }
    Ok(())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BuyRequest {
    /// The seed of a new customer's personal data.
    pub(super) registration: u64,
    /// An item whose first related item is added to a cart that would otherwise be empty.
    pub(super) fallback: i64,
}

impl BuyRequest {
    /// Signs a customer in, or registers a new one, and shows the cart. Returns the customer and the cart.
    pub(super) fn run(
        &self,
        shop: &mut Shop<'_>,
        customer: Option<i64>,
        cart: Option<i64>,
    ) -> Result<(i64, i64), DatabaseError> {
        let customer = match customer {
            Some(customer) => {
                let [login, expires] = [shop.now, shop.now + SESSION_US].map(Value::Int);
                shop.execute_one(&SIGN_IN, &[Value::Int(customer), login, expires])?;
                customer
            }
            None => register(shop, self.registration)?,
        };
        shop.execute_one(&READ_CUSTOMER, &[Value::Text(&user_name(customer))])?;
        let cart = match cart {
            Some(cart) => cart,
            None => cart::create(shop)?,
        };
        cart::fill(shop, cart, self.fallback, &READ_CART)?;
        Ok((customer, cart))
    }
}

/// Enters a customer and the customer's address; the new customer's number.
fn register(shop: &mut Shop<'_>, seed: u64) -> Result<i64, DatabaseError> {
    let mut random = Random::new(seed, 0, 0);
    let address = enter_address(shop, &mut random)?;
    let customer = shop.number(NumberedTable::Customer);
    let name = user_name(customer.int());
    let [first_name, last_name] = [(); 2].map(|()| random.text(8, 15).to_owned());
    let phone = random.digits(9, 16).to_owned();
    let email = format!("{}@{}.com", random.text(8, 15).to_owned(), random.text(2, 9));
    let [discount, birthdate] = [random.uniform(0, 50), random.uniform(-32_872, 11_322)].map(Value::Int);
    let today = Value::Int(shop.now / DAY_US);
    let row = [
        customer,
        Value::Text(&name),
        Value::Text(&name.to_lowercase()),
        Value::Text(&first_name),
        Value::Text(&last_name),
        Value::Int(address),
        Value::Text(&phone),
        Value::Text(&email),
        today,
        today,
        Value::Int(shop.now),
        Value::Int(shop.now + SESSION_US),
        discount,
        Value::Int(0),
        Value::Int(0),
        birthdate,
        Value::Text(random.text(100, 500)),
    ];
    shop.execute_one(&INSERT_CUSTOMER, &row)?;
    Ok(customer.int())
}

/// Draws an address and returns its number; the address is entered unless it exists.
pub(super) fn enter_address(shop: &mut Shop<'_>, random: &mut Random) -> Result<i64, DatabaseError> {
    let lengths = [(15, 40), (15, 40), (4, 30), (2, 20), (5, 10)];
    let texts = lengths.map(|(shortest, longest)| random.text(shortest, longest).to_owned());
    let country = country_name(random.uniform(1, COUNTRIES));
    shop.execute_one(&FIND_COUNTRY, &[Value::Text(&country)])?;
    let country = Value::Int(shop.rows.int(0, 0));
    let [street1, street2, city, state, zip] = [0, 1, 2, 3, 4].map(|at: usize| Value::Text(&texts[at]));
    shop.execute_one(&FIND_ADDRESS, &[street1, street2, city, state, zip, country])?;
    if let Value::Int(address) = shop.rows.value(0, 0) {
        return Ok(address);
    }
    let address = shop.number(NumberedTable::Address);
    shop.execute_one(&INSERT_ADDRESS, &[address, street1, street2, city, state, zip, country])?;
    Ok(address.int())
}

/// (customer) → (user name).
static READ_USER_NAME: Statement =
    keyed::statement!(SCHEMA, "tpcw_read_user_name", "SELECT c_uname FROM customer WHERE c_id = $1");

/// (customer, time, time of expiration).
static SIGN_IN: Statement =
    keyed::statement!(SCHEMA, "tpcw_sign_in", "UPDATE customer SET c_login = $2, c_expiration = $3 WHERE c_id = $1");

/// (user name) → (customer, password, first and last name, phone, email, discount, birthdate, data, streets, city, state, zip,
/// country).
static READ_CUSTOMER: Statement = Statement {
    name: "tpcw_read_customer",
    sql: "SELECT c_id, c_passwd, c_fname, c_lname, c_phone, c_email, (c_discount * 100)::bigint, c_birthdate, c_data, \
          addr_street1, addr_street2, addr_city, addr_state, addr_zip, co_name FROM customer \
          JOIN address ON addr_id = c_addr_id JOIN country ON co_id = addr_co_id WHERE c_uname = $1",
    native: &|access, parameters, rows| {
        for customer in find_all(access, CUSTOMER_BY_USER_NAME, parameters, parameters)? {
            let at = access.int(customer, C_ADDR_ID);
            let Some((address, country)) = address_and_country(access, at)? else { continue };
            let about = [C_ID, C_PASSWD, C_FNAME, C_LNAME, C_PHONE, C_EMAIL, C_DISCOUNT, C_BIRTHDATE, C_DATA];
            let place = [ADDR_STREET1, ADDR_STREET2, ADDR_CITY, ADDR_STATE, ADDR_ZIP];
            show(access, rows, &[(customer, &about), (address, &place), (country, &[CO_NAME])]);
        }
        Ok(())
    },
};

pub(super) fn address_and_country(
    access: &mut dyn RowAccess,
    address: i64,
) -> Result<Option<(RowRef, RowRef)>, DatabaseError> {
    let Some(address) = find(access, ADDRESS, address, Intent::Read)? else { return Ok(None) };
    let country = referred(access, address, ADDR_CO_ID, COUNTRY, Intent::Read)?;
    Ok(country.map(|country| (address, country)))
}

/// (name) → (country).
static FIND_COUNTRY: Statement =
    keyed::statement!(SCHEMA, "tpcw_find_country", "SELECT co_id FROM country WHERE co_name = $1");

/// (streets, city, state, zip, country) → (the first such address, null if there is none).
static FIND_ADDRESS: Statement = keyed::statement!(
    SCHEMA,
    "tpcw_find_address",
    "SELECT min(addr_id) FROM address WHERE addr_street1 = $1 AND addr_street2 = $2 AND addr_city = $3 \
     AND addr_state = $4 AND addr_zip = $5 AND addr_co_id = $6"
);

/// (address, streets, city, state, zip, country).
static INSERT_ADDRESS: Statement = keyed::statement!(
    SCHEMA,
    "tpcw_insert_address",
    "INSERT INTO address (addr_id, addr_street1, addr_street2, addr_city, addr_state, addr_zip, addr_co_id) \
     VALUES ($1, $2, $3, $4, $5, $6, $7)"
);

/// All columns in order.
static INSERT_CUSTOMER: Statement = keyed::statement!(
    SCHEMA,
    "tpcw_insert_customer",
    "INSERT INTO customer (c_id, c_uname, c_passwd, c_fname, c_lname, c_addr_id, c_phone, c_email, c_since, \
     c_last_login, c_login, c_expiration, c_discount, c_balance, c_ytd_pmt, c_birthdate, c_data) \
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13::bigint * 0.01, $14::bigint * 0.01, \
     $15::bigint * 0.01, $16, $17)"
);

pub(super) static STATEMENTS: [&Statement; 7] =
    [&READ_USER_NAME, &SIGN_IN, &READ_CUSTOMER, &FIND_COUNTRY, &FIND_ADDRESS, &INSERT_ADDRESS, &INSERT_CUSTOMER];
