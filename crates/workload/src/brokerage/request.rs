//! The kinds of transaction, how often customers cause each, and the input of each.

use rand_pcg::Pcg64;

use super::broker_volume::BrokerVolume;
use super::customer_position::CustomerPosition;
use super::data_maintenance::DataMaintenance;
use super::history::{draw_quantity, draw_type, percent};
use super::market_feed::MarketFeed;
use super::market_watch::{MarketWatch, Watched};
use super::security_detail::SecurityDetail;
use super::size::*;
use super::trade_lookup::{Purpose, Selection, TradeLookup};
use super::trade_order::TradeOrder;
use super::trade_result::TradeResult;
use crate::random::uniform;

/// The kinds of transaction, in the order of [`NAMES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    BrokerVolume,
    CustomerPosition,
    MarketFeed,
    MarketWatch,
    SecurityDetail,
    TradeLookup,
    TradeOrder,
    TradeResult,
    TradeStatus,
    TradeUpdate,
    DataMaintenance,
}

pub(super) const NAMES: [&str; 11] = [
    "broker_volume",
    "customer_position",
    "market_feed",
    "market_watch",
    "security_detail",
    "trade_lookup",
    "trade_order",
    "trade_result",
    "trade_status",
    "trade_update",
    "data_maintenance",
];

/// How often customers cause each kind, of [`DRAWS`]. The market causes the others: about 100 Trade-Results and 10
/// Market-Feeds for as many of these, 1,000 together.
pub(super) const MIX: [(Kind, i64); 8] = [
    (Kind::BrokerVolume, 49),
    (Kind::CustomerPosition, 130),
    (Kind::MarketWatch, 180),
    (Kind::SecurityDetail, 140),
    (Kind::TradeLookup, 80),
    (Kind::TradeOrder, 101),
    (Kind::TradeStatus, 190),
    (Kind::TradeUpdate, 20),
];

pub(super) const DRAWS: i64 = 890;

/// A transaction with all of its input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Request {
    BrokerVolume(BrokerVolume),
    CustomerPosition(CustomerPosition),
    MarketFeed(MarketFeed),
    MarketWatch(MarketWatch),
    SecurityDetail(SecurityDetail),
    /// A Trade-Lookup or a Trade-Update.
    TradeLookup(TradeLookup),
    TradeOrder(TradeOrder),
    TradeResult(TradeResult),
    TradeStatus {
        account: i64,
    },
    DataMaintenance(DataMaintenance),
}

impl Request {
    pub(super) fn kind(&self) -> Kind {
        match self {
            Request::BrokerVolume(_) => Kind::BrokerVolume,
            Request::CustomerPosition(_) => Kind::CustomerPosition,
            Request::MarketFeed(_) => Kind::MarketFeed,
            Request::MarketWatch(_) => Kind::MarketWatch,
            Request::SecurityDetail(_) => Kind::SecurityDetail,
            Request::TradeLookup(TradeLookup { purpose: Purpose::Read, .. }) => Kind::TradeLookup,
            Request::TradeLookup(TradeLookup { purpose: Purpose::Update, .. }) => Kind::TradeUpdate,
            Request::TradeOrder(_) => Kind::TradeOrder,
            Request::TradeResult(_) => Kind::TradeResult,
            Request::TradeStatus { .. } => Kind::TradeStatus,
            Request::DataMaintenance(_) => Kind::DataMaintenance,
        }
    }
}

/// Draws the requests of customers.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) random: Pcg64,
    pub(super) sizes: Sizes,
}

impl Source {
    /// Draws a kind by its share, then its input.
    pub(super) fn draw(&mut self) -> Request {
        match self.kind() {
            Kind::BrokerVolume => Request::BrokerVolume(self.broker_volume()),
            Kind::CustomerPosition => Request::CustomerPosition(self.customer_position()),
            Kind::MarketWatch => Request::MarketWatch(self.market_watch()),
            Kind::SecurityDetail => Request::SecurityDetail(self.security_detail()),
            Kind::TradeLookup => Request::TradeLookup(self.trade_lookup()),
            Kind::TradeUpdate => Request::TradeLookup(self.trade_update()),
            Kind::TradeOrder => Request::TradeOrder(self.trade_order()),
            Kind::TradeStatus => Request::TradeStatus { account: self.account() },
            kind => unreachable!("customers do not cause {kind:?}"),
        }
    }

    fn kind(&mut self) -> Kind {
        let mut left = self.uniform(0, DRAWS - 1);
        for (kind, share) in MIX {
            if left < share {
                return kind;
            }
            left -= share;
        }
        unreachable!("the shares add up to {DRAWS}")
    }

    pub(super) fn uniform(&mut self, low: i64, high: i64) -> i64 {
        uniform(&mut self.random, low, high)
    }

    pub(super) fn percent(&mut self, cases: i64) -> bool {
        percent(&mut self.random, cases)
    }

    pub(super) fn price(&mut self) -> i64 {
        self.uniform(PRICE_MIN, PRICE_MAX)
    }

    pub(super) fn security(&mut self) -> i64 {
        self.uniform(1, self.sizes.securities())
    }

    /// A customer: some of each thousand are much more active than others (as NURand of TPC-C draws them).
    pub(super) fn customer(&mut self) -> i64 {
        const BITS: i64 = 1_023;
        let thousand = self.uniform(0, self.sizes.scale - 1) * CUSTOMERS_PER_SCALE;
        let drawn = self.uniform(0, BITS) | self.uniform(1, CUSTOMERS_PER_SCALE);
        thousand + drawn % CUSTOMERS_PER_SCALE + 1
    }

    pub(super) fn account(&mut self) -> i64 {
        (self.customer() - 1) * ACCOUNTS_PER_CUSTOMER + self.uniform(1, ACCOUNTS_PER_CUSTOMER)
    }

    /// A day of the market's history that has `days` days from it on.
    fn market_day(&mut self, days: i64) -> i64 {
        self.uniform(LOAD_DAY - MARKET_DAYS, LOAD_DAY - days)
    }

    fn broker_volume(&mut self) -> BrokerVolume {
        const BROKERS: (i64, i64) = (20, 40);
        let all = self.sizes.brokers();
        let count = self.uniform(BROKERS.0.min(all / 2), BROKERS.1.min(all));
        let first = self.uniform(1, all - count + 1);
        BrokerVolume { first, last: first + count - 1, sector: self.uniform(1, SECTORS) }
    }

    fn customer_position(&mut self) -> CustomerPosition {
        let customer = self.customer();
        let position = self.uniform(1, ACCOUNTS_PER_CUSTOMER);
        let account = (customer - 1) * ACCOUNTS_PER_CUSTOMER + position;
        CustomerPosition { customer, is_by_tax_id: self.percent(50), history_of: self.percent(50).then_some(account) }
    }

    fn market_watch(&mut self) -> MarketWatch {
        let watched = match self.uniform(1, 100) {
            1..=60 => Watched::List { customer: self.customer() },
            61..=95 => Watched::Account(self.account()),
            _ => Watched::Industry(self.uniform(1, INDUSTRIES)),
        };
        MarketWatch { watched, day: self.market_day(1) }
    }

    fn security_detail(&mut self) -> SecurityDetail {
        let days = self.uniform(5, 20);
        let (security, first) = (self.security(), self.market_day(days));
        SecurityDetail { security, first, last: first + days - 1, has_articles: self.percent(1) }
    }

    fn trade_lookup(&mut self) -> TradeLookup {
        let selection = match self.uniform(1, 100) {
            1..=30 => self.trades(),
            31..=60 => Selection::Account { account: self.account(), from: self.trade_time() },
            61..=90 => Selection::Security { security: self.security(), from: self.trade_time() },
            _ => Selection::Holdings { account: self.account(), from: self.trade_time() },
        };
        TradeLookup { selection, purpose: Purpose::Read }
    }

    fn trade_update(&mut self) -> TradeLookup {
        let selection = match self.uniform(1, 100) {
            1..=33 => self.trades(),
            34..=66 => Selection::Account { account: self.account(), from: self.trade_time() },
            _ => Selection::Security { security: self.security(), from: self.trade_time() },
        };
        TradeLookup { selection, purpose: Purpose::Update }
    }

    /// Loaded trades, in ascending order.
    fn trades(&mut self) -> Selection {
        const TRADES: usize = 20;
        let trade =
            |source: &mut Source| (source.account() - 1) * TRADES_PER_ACCOUNT + source.uniform(1, TRADES_PER_ACCOUNT);
        let mut trades: Vec<_> = (0..TRADES).map(|_| trade(self)).collect();
        trades.sort_unstable();
        Selection::Trades(trades)
    }

    /// A time of the loaded trades.
    fn trade_time(&mut self) -> i64 {
        LOAD_TIME_US - self.uniform(1, 6 * TRADES_PER_ACCOUNT) * DAY_US
    }

    fn trade_order(&mut self) -> TradeOrder {
        let account = self.account();
        let position = self.uniform(0, TRADED_PER_ACCOUNT - 1);
        TradeOrder {
            account,
            is_by_owner: self.percent(90),
            security: self.sizes.traded(account, position),
            is_by_name: self.percent(40),
            kind: draw_type(&mut self.random),
            quantity: draw_quantity(&mut self.random),
            bid: self.price(),
            is_cash: self.percent(84),
            is_lifo: self.percent(35),
            is_rolled_back: self.percent(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_and_three_of_four_transactions_only_read() {
        assert_eq!(MIX.iter().map(|(_, share)| share).sum::<i64>(), DRAWS);
        let writes = [Kind::TradeOrder, Kind::TradeUpdate];
        let reads: i64 = MIX.iter().filter(|(kind, _)| !writes.contains(kind)).map(|(_, share)| share).sum();
        assert_eq!(reads, 769, "76.9 % of 1,000 with the market's");
    }
}
