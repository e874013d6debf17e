//! A terminal: the warehouse and district of its user, and the user's input.
//!
//! The specification gives each terminal a warehouse and a district for good. MW 2.5.1 draws both again for each
//! transaction, "which produces more uniform access to the database" ([`Home::Drawn`]).

use super::customer::CustomerChoice;
use super::population::RUN_TIME_US;
use super::random::{CUSTOMER_BITS, Constants, LAST_NAME_BITS, LAST_NAMES, Purpose, Random};
use super::schema::{CUSTOMERS_PER_DISTRICT, DISTRICTS_PER_WAREHOUSE};

/// Whose warehouse and district a terminal's transactions are about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Home {
    /// The terminal's own (TPC-C 2.8.1.1, 2.4.1.1).
    #[default]
    Fixed,
    /// Those drawn for the transaction, any with equal probability (MW 2.5.1).
    Drawn,
}

impl Home {
    /// The names of both.
    pub(super) const NAMES: [&str; 2] = ["fixed", "drawn"];

    /// # Panics
    /// If it is none of [`Self::NAMES`].
    pub(super) fn named(name: &str) -> Self {
        match name {
            "fixed" => Home::Fixed,
            "drawn" => Home::Drawn,
            _ => panic!("no home of terminals is called {name}"),
        }
    }
}

/// The state of a terminal from which input is drawn.
#[derive(Debug)]
pub(super) struct Terminal {
    pub(super) random: Random,
    pub(super) constants: Constants,
    pub(super) warehouses: i64,
    home: Home,
    /// The home warehouse, of the next transaction if homes are drawn.
    pub(super) warehouse: i64,
    /// The district that this terminal's Stock-Level reads (TPC-C 2.8.1.1), the next one if homes are drawn. All other
    /// transactions draw their districts in any case.
    pub(super) stock_level_district: i64,
    clock_us: i64,
}

impl Terminal {
    /// The terminal of that number. Terminals are dealt out over warehouses first, then over districts.
    pub(super) fn new(seed: u64, constants: Constants, warehouses: i64, home: Home, number: usize) -> Self {
        let number_signed = i64::try_from(number).expect("there are fewer clients than 2^63");
        Terminal {
            random: Random::new(seed, Purpose::Client, number as u64, 0),
            constants,
            warehouses,
            home,
            warehouse: number_signed % warehouses + 1,
            stock_level_district: number_signed / warehouses % DISTRICTS_PER_WAREHOUSE + 1,
            clock_us: RUN_TIME_US,
        }
    }

    /// Moves to the home of the next transaction, if homes are drawn.
    pub(super) fn move_home(&mut self) {
        if self.home == Home::Drawn {
            self.warehouse = self.random.uniform(1, self.warehouses);
            self.stock_level_district = self.district();
        }
    }

    /// The time that rows are stamped with: a clock that moves 10 ms with each request, at any speed of the database,
    /// so that equal seeds stamp equal times.
    pub(super) fn now(&mut self) -> i64 {
        self.clock_us += 10_000;
        self.clock_us
    }

    pub(super) fn district(&mut self) -> i64 {
        self.random.uniform(1, DISTRICTS_PER_WAREHOUSE)
    }

    /// Any warehouse but the home warehouse; `None` if there is no other.
    pub(super) fn remote_warehouse(&mut self) -> Option<i64> {
        (self.warehouses > 1).then(|| self.random.uniform_except(1, self.warehouses, self.warehouse))
    }

    /// A customer's number.
    pub(super) fn customer_id(&mut self) -> i64 {
        self.random.non_uniform(CUSTOMER_BITS, 1, CUSTOMERS_PER_DISTRICT, self.constants.customer)
    }

    /// A customer, in 60 of 100 cases by last name (TPC-C 2.5.1.2, 2.6.1.2).
    pub(super) fn customer(&mut self) -> CustomerChoice {
        if self.random.uniform(1, 100) <= 60 {
            let constant = self.constants.last_name;
            CustomerChoice::ByLastName(self.random.non_uniform(LAST_NAME_BITS, 0, LAST_NAMES - 1, constant))
        } else {
            CustomerChoice::ById(self.customer_id())
        }
    }
}
