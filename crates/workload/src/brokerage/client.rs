//! A client: draws the requests of customers and runs them, and those of its market.

use std::sync::Arc;

use super::audit::Audit;
use super::customer_position::trade_status;
use super::data_maintenance::DataMaintenance;
use super::history::stream;
use super::market::Market;
use super::market_feed::Orders;
use super::request::{Request, Source};
use super::size::{DAY_US, LOAD_TIME_US, Sizes};
use super::trade_order::{LAST_TRADE_BETWEEN, TradeOrder};
use super::transaction::Transaction;
use crate::benchmark::{Client, Outcome};
use crate::database::{DatabaseError, Session};
use crate::statement::{Rows, Value};

/// The purpose of a client's random numbers; those of the tables and of the history are below it.
const CLIENT: u64 = 1_000;

/// Numbers of trades that each client has for itself, so that clients need no common counter.
const TRADES_PER_CLIENT: i64 = 1 << 40;

/// Between two requests of a client, by the clock that stamps rows.
const TICK_US: i64 = 100_000;

/// Requests between two Data-Maintenances: a minute by that clock.
const REQUESTS_PER_MAINTENANCE: i64 = 60_000_000 / TICK_US;

#[derive(Debug)]
pub(super) struct BrokerageClient {
    number: usize,
    source: Source,
    market: Market,
    /// The request drawn last.
    drawn: Option<Request>,
    /// How many requests have been drawn.
    draws: i64,
    /// The number of the last trade that was entered; unknown before the first order.
    last_trade: Option<i64>,
    rows: Rows,
    audit: Arc<Audit>,
}

/// What a completed request has done, for the market and the audit.
enum Effect {
    None,
    Ordered(TradeOrder),
    Executed { quantity: i64 },
    Fed(Orders),
}

impl BrokerageClient {
    pub(super) fn new(number: usize, seed: u64, sizes: Sizes, audit: Arc<Audit>) -> Self {
        let source = Source { random: stream(seed, CLIENT, number as i64), sizes };
        let (market, rows) = (Market::default(), Rows::new());
        BrokerageClient { number, source, market, drawn: None, draws: 0, last_trade: None, rows, audit }
    }

    #[cfg(test)]
    pub(super) fn drawn(&self) -> Option<&Request> {
        self.drawn.as_ref()
    }

    fn draw_request(&mut self) -> Request {
        self.draws += 1;
        let calls = self.draws / REQUESTS_PER_MAINTENANCE;
        if self.number == 0 && self.draws % REQUESTS_PER_MAINTENANCE == 0 {
            let (customer, security) = (self.source.customer(), self.source.security());
            return Request::DataMaintenance(DataMaintenance { call: calls as usize - 1, customer, security });
        }
        self.market.next(&mut self.source).unwrap_or_else(|| self.source.draw())
    }

    /// The number of the client's next trade. Earlier runs on the same data may have entered trades.
    fn next_trade(&mut self, session: &mut dyn Session) -> Result<i64, DatabaseError> {
        if let Some(last) = self.last_trade {
            return Ok(last + 1);
        }
        let first = (self.number as i64 + 1) * TRADES_PER_CLIENT;
        let all = [first, first + TRADES_PER_CLIENT - 1].map(Value::Int);
        session.execute(&LAST_TRADE_BETWEEN, &all, &mut self.rows)?;
        let last = if self.rows.is_empty() { first - 1 } else { self.rows.int(0, 0) };
        self.last_trade = Some(last);
        Ok(last + 1)
    }

    fn apply(&mut self, effect: Effect, request: &Request, trade: i64) {
        let tally = self.audit.of(self.number);
        match (effect, request) {
            (Effect::Ordered(order), _) => {
                self.last_trade = Some(trade);
                match order.kind().is_market {
                    true => self.market.submit(&mut self.source, trade, order.security),
                    false => self.market.wait(trade, order.security),
                }
            }
            (Effect::Executed { quantity }, Request::TradeResult(result)) => self.market.executed(*result, quantity),
            (Effect::Fed(orders), _) => self.market.fed(&mut self.source, orders),
            _ => {}
        }
        tally.completed(request.kind());
    }
}

fn execute(
    request: &Request,
    transaction: &mut Transaction<'_>,
    sizes: Sizes,
    trade: i64,
) -> Result<Effect, DatabaseError> {
    match request {
        Request::TradeOrder(order) => {
            order.run(transaction, sizes, trade)?;
            return Ok(Effect::Ordered(*order));
        }
        Request::TradeResult(result) => return Ok(Effect::Executed { quantity: result.run(transaction)? }),
        Request::MarketFeed(feed) => return Ok(Effect::Fed(feed.run(transaction)?)),
        Request::BrokerVolume(input) => input.run(transaction)?,
        Request::CustomerPosition(input) => input.run(transaction)?,
        Request::MarketWatch(input) => input.run(transaction)?,
        Request::SecurityDetail(input) => input.run(transaction)?,
        Request::TradeLookup(input) => input.run(transaction)?,
        Request::TradeStatus { account } => trade_status(transaction, *account)?,
        Request::DataMaintenance(input) => input.run(transaction, sizes)?,
    }
    Ok(Effect::None)
}

impl Client for BrokerageClient {
    fn draw(&mut self) -> usize {
        let request = self.draw_request();
        let kind = request.kind();
        self.drawn = Some(request);
        kind as usize
    }

    fn run(&mut self, session: &mut dyn Session) -> Result<Outcome, DatabaseError> {
        let request = self.drawn.clone().expect("the driver draws before it runs");
        let trade = match request {
            Request::TradeOrder(_) => self.next_trade(session)?,
            _ => 0,
        };
        // Running begins the day after loading.
        let now = LOAD_TIME_US + DAY_US + self.draws * TICK_US;
        session.begin()?;
        let mut transaction = Transaction { session, rows: &mut self.rows, now };
        let effect = execute(&request, &mut transaction, self.source.sizes, trade)?;
        if let Request::TradeOrder(TradeOrder { is_rolled_back: true, .. }) = request {
            session.rollback()?;
            self.audit.of(self.number).rolled_back();
            return Ok(Outcome::RolledBack);
        }
        session.commit()?;
        self.apply(effect, &request, trade);
        Ok(Outcome::Committed)
    }
}
