//! The sizes of the tables, and the facts about rows that follow from their numbers alone, so that clients know them
//! without reading.

use super::schema::*;
use crate::random::mix;
use crate::schema::TableId;

pub(super) const CUSTOMERS_PER_SCALE: i64 = 1_000;
pub(super) const ACCOUNTS_PER_CUSTOMER: i64 = 5;
const BROKERS_PER_SCALE: i64 = 10;
const COMPANIES_PER_SCALE: i64 = 500;
const SECURITIES_PER_SCALE: i64 = 685;

/// Trades of each account when it is loaded, all of them completed. The specification has about 3,456.
pub(super) const TRADES_PER_ACCOUNT: i64 = 10;

/// Securities that an account trades in.
pub(super) const TRADED_PER_ACCOUNT: i64 = 10;

/// Securities on a customer's watch list.
pub(super) const WATCHED: i64 = 100;

/// Days of a security's history, which end the day before loading. The specification has 1,305.
pub(super) const MARKET_DAYS: i64 = 65;

/// Quarters of a company's financial history, which end the year before loading.
pub(super) const QUARTERS: i64 = 20;

pub(super) const COMPETITORS: i64 = 3;
pub(super) const NEWS_PER_COMPANY: i64 = 2;
pub(super) const EXCHANGES: i64 = 4;
pub(super) const INDUSTRIES: i64 = 102;
pub(super) const SECTORS: i64 = 12;
pub(super) const TIERS: i64 = 3;
pub(super) const ZIP_CODES: i64 = 14_741;

/// Rates of taxes: those of countries come first, then those of divisions. Each customer pays one of either.
pub(super) const COUNTRY_RATES: i64 = 20;
pub(super) const DIVISION_RATES: i64 = 300;

/// The least numbers of shares of the brackets of commission rates.
pub(super) const BRACKETS: [i64; 4] = [1, 101, 401, 601];

/// Every account's cash before its first trade, in hundredths.
pub(super) const BALANCE_OPENED: i64 = 10_000_000;

/// The range of all prices, in hundredths.
pub(super) const PRICE_MIN: i64 = 2_000;
pub(super) const PRICE_MAX: i64 = 3_000;

pub(super) const DAY_US: i64 = 86_400_000_000;

/// The time of loading, in microseconds: always 2024-01-01 00:00 UTC.
pub(super) const LOAD_TIME_US: i64 = 1_704_067_200_000_000;

/// The day of loading, since 1970-01-01.
pub(super) const LOAD_DAY: i64 = LOAD_TIME_US / DAY_US;

/// A kind of order.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TradeType {
    pub(super) id: &'static str,
    pub(super) name: &'static str,
    pub(super) is_sell: bool,
    /// Whether it is executed at any price, rather than at a limit.
    pub(super) is_market: bool,
}

pub(super) const TRADE_TYPES: [TradeType; 5] = [
    TradeType { id: "TLB", name: "Limit-Buy", is_sell: false, is_market: false },
    TradeType { id: "TLS", name: "Limit-Sell", is_sell: true, is_market: false },
    TradeType { id: "TMB", name: "Market-Buy", is_sell: false, is_market: true },
    TradeType { id: "TMS", name: "Market-Sell", is_sell: true, is_market: true },
    TradeType { id: "TSL", name: "Stop-Loss", is_sell: true, is_market: false },
];

/// The states of a trade, with their names.
pub(super) const STATUSES: [(&str, &str); 5] =
    [("ACTV", "Active"), ("CMPT", "Completed"), ("CNCL", "Canceled"), ("PNDG", "Pending"), ("SBMT", "Submitted")];

/// The sizes of all tables. Rows are numbered from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sizes {
    pub(super) scale: i64,
}

impl Sizes {
    pub(super) fn customers(self) -> i64 {
        self.scale * CUSTOMERS_PER_SCALE
    }

    pub(super) fn accounts(self) -> i64 {
        self.customers() * ACCOUNTS_PER_CUSTOMER
    }

    pub(super) fn brokers(self) -> i64 {
        self.scale * BROKERS_PER_SCALE
    }

    pub(super) fn companies(self) -> i64 {
        self.scale * COMPANIES_PER_SCALE
    }

    pub(super) fn securities(self) -> i64 {
        self.scale * SECURITIES_PER_SCALE
    }

    pub(super) fn trades(self) -> i64 {
        self.accounts() * TRADES_PER_ACCOUNT
    }

    /// What the rows of a table are made for, such as accounts for their trades, and the mean number of rows for one.
    pub(super) fn units(self, table: TableId) -> (i64, f64) {
        let fixed = |rows: i64| (rows, 1.0);
        let types = TRADE_TYPES.len() as i64;
        match table {
            CUSTOMER | WATCH_LIST => (self.customers(), 1.0),
            CUSTOMER_TAXRATE => (self.customers(), 2.0),
            WATCH_ITEM => (self.customers(), WATCHED as f64),
            CUSTOMER_ACCOUNT => (self.accounts(), 1.0),
            ACCOUNT_PERMISSION => (self.accounts(), 2.0),
            TRADE | SETTLEMENT => (self.accounts(), TRADES_PER_ACCOUNT as f64),
            CASH_TRANSACTION => (self.accounts(), 8.4),
            HOLDING => (self.accounts(), 7.83),
            HOLDING_SUMMARY => (self.accounts(), 6.27),
            HOLDING_HISTORY => (self.accounts(), 10.67),
            TRADE_HISTORY => (self.accounts(), 24.0),
            TRADE_REQUEST => (0, 1.0),
            BROKER => (self.brokers(), 1.0),
            COMPANY => (self.companies(), 1.0),
            COMPANY_COMPETITOR => (self.companies(), COMPETITORS as f64),
            FINANCIAL => (self.companies(), QUARTERS as f64),
            NEWS_ITEM | NEWS_XREF => (self.companies(), NEWS_PER_COMPANY as f64),
            SECURITY | LAST_TRADE => (self.securities(), 1.0),
            DAILY_MARKET => (self.securities(), MARKET_DAYS as f64),
            ADDRESS => (self.customers() + self.companies() + EXCHANGES, 1.0),
            CHARGE => fixed(types * TIERS),
            COMMISSION_RATE => fixed(types * TIERS * EXCHANGES * BRACKETS.len() as i64),
            TRADE_TYPE => fixed(types),
            STATUS_TYPE => fixed(STATUSES.len() as i64),
            EXCHANGE => fixed(EXCHANGES),
            INDUSTRY => fixed(INDUSTRIES),
            SECTOR => fixed(SECTORS),
            TAXRATE => fixed(COUNTRY_RATES + DIVISION_RATES),
            ZIP_CODE => fixed(ZIP_CODES),
            _ => unreachable!("there are 33 tables"),
        }
    }

    pub(super) fn broker_of(self, account: i64) -> i64 {
        (account - 1) % self.brokers() + 1
    }

    /// The customer who may trade for another.
    pub(super) fn permitted(self, owner: i64) -> i64 {
        owner % self.customers() + 1
    }

    /// One of the securities that an account trades in, by its position from 0.
    pub(super) fn traded(self, account: i64, position: i64) -> i64 {
        // The step is larger than 1 so that neighbours on a watch list are not all held together.
        const STEP: i64 = 7;
        let first = mix(account as u64) % self.securities() as u64;
        (first as i64 + position * STEP) % self.securities() + 1
    }

    /// One of the securities on a customer's watch list, by its position from 0.
    pub(super) fn watched(self, customer: i64, position: i64) -> i64 {
        let first = mix(!customer as u64) % self.securities() as u64;
        (first as i64 + position) % self.securities() + 1
    }

    /// The company whose security it is, and which of its issues.
    pub(super) fn company_of(self, security: i64) -> (i64, &'static str) {
        match security <= self.companies() {
            true => (security, "COMMON"),
            false => (security - self.companies(), "PREF_A"),
        }
    }
}

pub(super) fn customer_of(account: i64) -> i64 {
    (account - 1) / ACCOUNTS_PER_CUSTOMER + 1
}

/// A customer's tier: of five, one is in the first, three are in the second and one is in the third.
pub(super) fn tier(customer: i64) -> i64 {
    [1, 2, 2, 2, 3][mix(customer as u64) as usize % 5]
}

/// Whether an account's gains are taxed: 0 if not, else 1 or 2.
pub(super) fn tax_status(account: i64) -> i64 {
    [0, 1, 1, 2, 2][mix(account as u64) as usize % 5]
}

/// The tax rates of a customer's country and division.
pub(super) fn tax_rates_of(customer: i64) -> [i64; 2] {
    [1 + customer % COUNTRY_RATES, COUNTRY_RATES + 1 + customer % DIVISION_RATES]
}

/// A tax rate in hundred-thousandths.
pub(super) fn tax_rate(rate: i64) -> i64 {
    1_000 + (mix(rate as u64) % 15_000) as i64
}

pub(super) fn exchange_of(security: i64) -> i64 {
    (security - 1) % EXCHANGES + 1
}

pub(super) fn industry_of(company: i64) -> i64 {
    (company - 1) % INDUSTRIES + 1
}

/// A charge in hundredths.
pub(super) fn charge(kind: usize, tier: i64) -> i64 {
    150 + 100 * kind as i64 + 50 * (TIERS - tier)
}

/// A commission rate in hundredths of a percent: less for better customers and for larger orders.
pub(super) fn commission_rate(tier: i64, kind: usize, exchange: i64, bracket: usize) -> i64 {
    120 - 20 * tier - 4 * kind as i64 - exchange - 10 * bracket as i64
}

pub(super) fn tax_id(customer: i64) -> String {
    format!("TX{customer:09}")
}

pub(super) fn company_name(company: i64) -> String {
    format!("{} Company No. {company}", symbol(company))
}

/// A security's symbol, five capitals in the order of their numbers.
pub(super) fn symbol(security: i64) -> String {
    let letter = |place: u32| char::from(b'A' + (security / 26_i64.pow(place) % 26) as u8);
    (0..5).rev().map(letter).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn symbols_are_in_the_order_of_their_numbers() {
        let symbols: Vec<_> = (1..=2_000).map(symbol).collect();
        assert!(symbols.is_sorted_by(|a, b| a < b), "{symbols:?}");
        assert_eq!((&*symbols[0], &*symbols[25]), ("AAAAB", "AAABA"));
    }

    #[test]
    fn traded_and_watched_securities_are_different_ones_that_exist() {
        let sizes = Sizes { scale: 1 };
        for number in 1..=sizes.customers() {
            let traded: BTreeSet<_> = (0..TRADED_PER_ACCOUNT).map(|place| sizes.traded(number, place)).collect();
            let watched: BTreeSet<_> = (0..WATCHED).map(|place| sizes.watched(number, place)).collect();
            assert_eq!((traded.len(), watched.len()), (TRADED_PER_ACCOUNT as usize, WATCHED as usize));
            assert!(traded.union(&watched).all(|security| (1..=sizes.securities()).contains(security)));
        }
    }
}
