//! The simulated market of a client: it executes the orders that the client has submitted, at random prices and after
//! a few more requests, and tells of new prices. It needs no thread, because the client asks it before each request.

use std::collections::{BTreeMap, VecDeque};

use super::market_feed::{MarketFeed, Orders, Tick};
use super::request::{Request, Source};
use super::trade_result::TradeResult;

/// Executed orders after which a Market-Feed follows.
pub(super) const RESULTS_PER_FEED: usize = 10;

/// Securities of a Market-Feed: as many again as were traded, first those of orders that wait for a price.
const TICKS_PER_FEED: usize = 2 * RESULTS_PER_FEED;

/// The longest time that the market takes for an order, in requests of the client.
const DELAY_MAX: i64 = 5;

#[derive(Debug, Default)]
pub(super) struct Market {
    /// How many requests the client has drawn.
    now: i64,
    /// Orders to be executed: when, and the trade and the security of each.
    submitted: VecDeque<(i64, i64, i64)>,
    /// Orders that wait for a price, those that were asked about least recently first.
    waiting: VecDeque<(i64, i64)>,
    /// Executed orders of which no Market-Feed has told.
    traded: Vec<Tick>,
}

impl Market {
    /// What the market has for the client now, if anything.
    pub(super) fn next(&mut self, source: &mut Source) -> Option<Request> {
        self.now += 1;
        if self.traded.len() >= RESULTS_PER_FEED {
            return Some(Request::MarketFeed(self.feed(source)));
        }
        let (due, trade, security) = *self.submitted.front()?;
        if due > self.now {
            return None;
        }
        self.submitted.pop_front();
        Some(Request::TradeResult(TradeResult { trade, security, price: source.price() }))
    }

    fn feed(&mut self, source: &mut Source) -> MarketFeed {
        let mut ticks: BTreeMap<_, _> = self.traded.drain(..).map(|tick| (tick.security, tick)).collect();
        while ticks.len() < TICKS_PER_FEED {
            let waiting = self.waiting.pop_front().map(|(_, security)| security);
            let security = waiting.unwrap_or_else(|| source.security());
            let new = Tick { security, price: source.price(), quantity: 100 };
            ticks.entry(security).or_insert(new);
        }
        // Their symbols are in the same order.
        MarketFeed { ticks: ticks.into_values().collect() }
    }

    /// The client has submitted an order.
    pub(super) fn submit(&mut self, source: &mut Source, trade: i64, security: i64) {
        let due = self.now + source.uniform(1, DELAY_MAX);
        self.submitted.push_back((due, trade, security));
    }

    /// The client has entered an order that waits for a price.
    pub(super) fn wait(&mut self, trade: i64, security: i64) {
        self.waiting.push_back((trade, security));
    }

    /// An order has been executed.
    pub(super) fn executed(&mut self, result: TradeResult, quantity: i64) {
        self.traded.push(Tick { security: result.security, price: result.price, quantity });
    }

    /// A Market-Feed has been completed. The market whose prices have reached an order's limit executes it, also if
    /// another client has entered it.
    pub(super) fn fed(&mut self, source: &mut Source, orders: Orders) {
        let is_asked_about = |trade| orders.reached.iter().chain(&orders.waiting).any(|(asked, _)| *asked == trade);
        self.waiting.retain(|(trade, _)| !is_asked_about(*trade));
        for (trade, security) in orders.reached {
            self.submit(source, trade, security);
        }
        self.waiting.extend(orders.waiting);
    }
}
