//! The numbers of new rows, which the shop's application hands out, as it does in other implementations of TPC-W.
//!
//! Every client of a benchmark takes numbers here. The first client reads the greatest numbers from the database, which
//! may hold rows of earlier runs. A number that a failed transaction has taken is not used again.

use std::sync::atomic::{AtomicI64, Ordering};

use parking_lot::Mutex;

use super::schema::SCHEMA;
use crate::database::{DatabaseError, Session};
use crate::keyed;
use crate::statement::{Rows, Statement};

/// The tables whose rows are numbered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NumberedTable {
    Customer = 0,
    Address = 1,
    Order = 2,
    Cart = 3,
}

/// The next numbers of four tables.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    is_known: Mutex<bool>,
    next: [AtomicI64; 4],
}

impl Numbers {
    /// Forgets all numbers: the data have been reloaded.
    pub(super) fn forget(&self) {
        *self.is_known.lock() = false;
    }

    /// Asks the database for the greatest numbers unless they are known. Call before a transaction begins.
    pub(super) fn prepare(&self, session: &mut dyn Session, rows: &mut Rows) -> Result<(), DatabaseError> {
        let mut is_known = self.is_known.lock();
        if *is_known {
            return Ok(());
        }
        session.begin()?;
        for (next, statement) in self.next.iter().zip(STATEMENTS) {
            session.execute(statement, &[], rows)?;
            // Relaxed: the mutex makes them visible to clients that prepare after this.
            next.store(rows.int(0, 0) + 1, Ordering::Relaxed);
        }
        session.commit()?;
        *is_known = true;
        Ok(())
    }

    /// A number that has not been used.
    pub(super) fn take(&self, of: NumberedTable) -> i64 {
        self.next[of as usize].fetch_add(1, Ordering::Relaxed)
    }
}

/// () → (greatest number of a customer, 0 if there is none).
static LAST_CUSTOMER: Statement =
    keyed::statement!(SCHEMA, "tpcw_last_customer", "SELECT COALESCE(max(c_id), 0) FROM customer");

/// () → (greatest number of an address).
static LAST_ADDRESS: Statement =
    keyed::statement!(SCHEMA, "tpcw_last_address", "SELECT COALESCE(max(addr_id), 0) FROM address");

/// () → (greatest number of an order).
static LAST_ORDER: Statement =
    keyed::statement!(SCHEMA, "tpcw_last_order", "SELECT COALESCE(max(o_id), 0) FROM orders");

/// () → (greatest number of a cart).
static LAST_CART: Statement =
    keyed::statement!(SCHEMA, "tpcw_last_cart", "SELECT COALESCE(max(sc_id), 0) FROM shopping_cart");

/// In the order of [`NumberedTable`].
pub(super) static STATEMENTS: [&Statement; 4] = [&LAST_CUSTOMER, &LAST_ADDRESS, &LAST_ORDER, &LAST_CART];
