//! The initial rows of the tables. The rows of an account, a company and so on follow from the seed, the scale and its
//! number.

use arrow::record_batch::RecordBatch;
use rand_pcg::Pcg64;

use super::history::{AccountHistory, PastTrade, percent, stream};
use super::schema::*;
use super::size::*;
use crate::batch::Batch;
use crate::parts::RowRange;
use crate::random::uniform;
use crate::schema::TableId;
use crate::words::write_words;

/// Makes the rows of tables.
#[derive(Debug, Clone, Copy)]
pub(super) struct Population {
    pub(super) seed: u64,
    pub(super) sizes: Sizes,
}

/// The rows that are being made, and the numbers for it.
struct Rows {
    batch: Batch,
    random: Pcg64,
}

impl Rows {
    fn int(&mut self, number: i64) -> &mut Self {
        self.batch.int(number);
        self
    }

    fn text(&mut self, text: &str) -> &mut Self {
        self.batch.text(text);
        self
    }

    /// Words of a length in bytes between two thirds and all of `longest`.
    fn words(&mut self, longest: usize) -> &mut Self {
        let mut text = String::new();
        write_words(&mut self.random, longest * 2 / 3, longest, &mut text);
        self.text(&text)
    }

    fn uniform(&mut self, low: i64, high: i64) -> &mut Self {
        let number = uniform(&mut self.random, low, high);
        self.int(number)
    }

    fn price(&mut self) -> &mut Self {
        self.uniform(PRICE_MIN, PRICE_MAX)
    }

    /// A day of the ten years before loading.
    fn day(&mut self) -> &mut Self {
        self.uniform(LOAD_DAY - 3_650, LOAD_DAY - 1)
    }
}

impl Population {
    /// The rows of a table for consecutive [units](Sizes::units).
    pub(super) fn make(self, table: TableId, part: RowRange) -> RecordBatch {
        let (_, rows_per_unit) = self.sizes.units(table);
        let room = (part.rows as f64 * rows_per_unit * 1.1) as usize;
        let batch = Batch::new(&SCHEMA.tables[table], room);
        let mut rows = Rows { batch, random: stream(self.seed, table as u64, part.number as i64) };
        for unit in (part.first as i64 + 1..).take(part.rows) {
            match table {
                ACCOUNT_PERMISSION..=WATCH_LIST => self.of_customers(&mut rows, table, unit),
                BROKER..=TRADE_TYPE => self.of_brokers(&mut rows, table, unit),
                COMPANY..=SECURITY => self.of_market(&mut rows, table, unit),
                _ => of_all(&mut rows, table, unit),
            }
        }
        rows.batch.finish()
    }

    fn history(self, account: i64) -> AccountHistory {
        AccountHistory::of(self.seed, self.sizes, account)
    }

    fn of_customers(self, rows: &mut Rows, table: TableId, unit: i64) {
        match table {
            CUSTOMER => customer(rows, unit),
            CUSTOMER_ACCOUNT => {
                let balance = BALANCE_OPENED + self.history(unit).cash();
                rows.int(unit).int(self.sizes.broker_of(unit)).int(customer_of(unit)).words(50);
                rows.int(tax_status(unit)).int(balance);
            }
            ACCOUNT_PERMISSION => {
                let owner = customer_of(unit);
                for (customer, rights) in [(owner, "1111"), (self.sizes.permitted(owner), "0011")] {
                    rows.int(unit).text(&tax_id(customer)).text(rights).words(25).words(20);
                }
            }
            CUSTOMER_TAXRATE => {
                for rate in tax_rates_of(unit) {
                    rows.int(unit).int(rate);
                }
            }
            WATCH_LIST => {
                rows.int(unit).int(unit);
            }
            WATCH_ITEM => {
                for position in 0..WATCHED {
                    rows.int(unit).text(&symbol(self.sizes.watched(unit, position)));
                }
            }
            _ => self.holdings(rows, table, unit),
        }
    }

    fn holdings(self, rows: &mut Rows, table: TableId, account: i64) {
        let history = self.history(account);
        if table == HOLDING_HISTORY {
            for trade in &history.trades {
                for change in &trade.changes {
                    rows.int(trade.id).int(change.lot).int(change.before).int(change.after);
                }
            }
            return;
        }
        for (&security, lots) in history.lots.iter().filter(|(_, lots)| !lots.is_empty()) {
            let symbol = symbol(security);
            if table == HOLDING_SUMMARY {
                rows.int(account).text(&symbol).int(lots.iter().map(|lot| lot.quantity).sum());
                continue;
            }
            for lot in lots {
                let time = history.trades[((lot.trade - 1) % TRADES_PER_ACCOUNT) as usize].time;
                rows.int(lot.trade).int(account).text(&symbol).int(time).int(lot.price).int(lot.quantity);
            }
        }
    }

    fn of_brokers(self, rows: &mut Rows, table: TableId, unit: i64) {
        match table {
            BROKER => self.broker(rows, unit),
            CHARGE => {
                let (kind, tier) = ((unit - 1) / TIERS, (unit - 1) % TIERS + 1);
                let cost = charge(kind as usize, tier);
                rows.text(TRADE_TYPES[kind as usize].id).int(tier).int(cost);
            }
            COMMISSION_RATE => commission(rows, unit - 1),
            TRADE_TYPE => {
                let kind = &TRADE_TYPES[unit as usize - 1];
                rows.text(kind.id).text(kind.name).int(kind.is_sell.into()).int(kind.is_market.into());
            }
            TRADE_REQUEST => {}
            _ => self.history(unit).trades.iter().for_each(|trade| past_trade(rows, table, unit, trade)),
        }
    }

    /// A broker's totals are those of all loaded trades of his accounts.
    fn broker(self, rows: &mut Rows, broker: i64) {
        let accounts = (broker..=self.sizes.accounts()).step_by(self.sizes.brokers() as usize);
        let (mut trades, mut commissions) = (0, 0);
        for account in accounts {
            let history = self.history(account);
            trades += history.trades.len() as i64;
            commissions += history.trades.iter().map(|trade| trade.costs.commission).sum::<i64>();
        }
        rows.int(broker).text("ACTV").words(49).int(trades).int(commissions);
    }

    fn of_market(self, rows: &mut Rows, table: TableId, unit: i64) {
        match table {
            COMPANY => self.company(rows, unit),
            COMPANY_COMPETITOR => {
                for place in 1..=COMPETITORS {
                    // Companies of an industry are that far apart.
                    let competitor = (unit - 1 + place * INDUSTRIES) % self.sizes.companies() + 1;
                    rows.int(unit).int(competitor).int(industry_of(unit));
                }
            }
            FINANCIAL => financial(rows, unit),
            NEWS_ITEM | NEWS_XREF => {
                for news in (unit - 1) * NEWS_PER_COMPANY + 1..=unit * NEWS_PER_COMPANY {
                    match table {
                        NEWS_XREF => rows.int(unit).int(news),
                        _ => rows.int(news).words(80).words(255).words(NEWS_MAX).int(LOAD_TIME_US).words(30).words(30),
                    };
                }
            }
            SECURITY => self.security(rows, unit),
            LAST_TRADE => {
                rows.text(&symbol(unit)).int(LOAD_TIME_US).price().price().int(0);
            }
            DAILY_MARKET => {
                for day in LOAD_DAY - MARKET_DAYS..LOAD_DAY {
                    rows.text(&symbol(unit)).int(day).price().int(PRICE_MAX).int(PRICE_MIN).uniform(1_000, 1_000_000);
                }
            }
            EXCHANGE => {
                let address = self.sizes.customers() + self.sizes.companies() + unit;
                rows.int(unit).words(30).int(self.sizes.securities() / EXCHANGES).int(9 * 60 + 30).int(16 * 60);
                rows.words(150).int(address);
            }
            INDUSTRY => {
                rows.int(unit).words(50).int((unit - 1) % SECTORS + 1);
            }
            SECTOR => {
                rows.int(unit).words(30);
            }
            _ => unreachable!("it is none of the market's tables"),
        }
    }

    fn company(self, rows: &mut Rows, company: i64) {
        rows.int(company).text("ACTV").text(&company_name(company)).int(industry_of(company)).text("AA+");
        rows.words(46).int(self.sizes.customers() + company).words(150).day();
    }

    fn security(self, rows: &mut Rows, security: i64) {
        let (company, issue) = self.sizes.company_of(security);
        rows.text(&symbol(security)).text(issue).text("ACTV").words(70).int(exchange_of(security)).int(company);
        rows.uniform(4_000_000, 9_500_000_000).day().day().uniform(100, 12_000);
        rows.int(PRICE_MAX).day().int(PRICE_MIN).day().uniform(0, 1_000).uniform(0, 12_000);
    }
}

fn customer(rows: &mut Rows, customer: i64) {
    let gender = if percent(&mut rows.random, 50) { "F" } else { "M" };
    rows.int(customer).text(&tax_id(customer)).text("ACTV").words(25).words(20).text("A").text(gender);
    rows.int(tier(customer)).day().int(customer).text(&format!("+1 555 {customer:08}")).words(50).words(50);
}

/// A commission rate, of all combinations of tier, type, exchange and bracket.
fn commission(rows: &mut Rows, number: i64) {
    let brackets = BRACKETS.len() as i64;
    let (bracket, number) = ((number % brackets) as usize, number / brackets);
    let (exchange, number) = (number % EXCHANGES + 1, number / EXCHANGES);
    let (kind, tier) = ((number / TIERS) as usize, number % TIERS + 1);
    let to = BRACKETS.get(bracket + 1).map_or(10_000, |next| next - 1);
    rows.int(tier).text(TRADE_TYPES[kind].id).int(exchange).int(BRACKETS[bracket]).int(to);
    rows.int(commission_rate(tier, kind, exchange, bracket));
}

fn past_trade(rows: &mut Rows, table: TableId, account: i64, trade: &PastTrade) {
    let kind = &TRADE_TYPES[trade.kind];
    match table {
        TRADE => {
            rows.int(trade.id).int(trade.time).text("CMPT").text(kind.id).int(trade.is_cash.into());
            rows.text(&symbol(trade.security)).int(trade.quantity).int(trade.bid).int(account).words(49);
            rows.int(trade.price).int(trade.costs.charge).int(trade.costs.commission).int(trade.costs.tax);
            rows.int(trade.is_lifo.into());
        }
        SETTLEMENT => {
            rows.int(trade.id).text(cash_type(trade.is_cash)).int(trade.time / DAY_US + 2).int(trade.amount);
        }
        CASH_TRANSACTION if trade.is_cash => {
            rows.int(trade.id).int(trade.time).int(trade.amount).words(100);
        }
        TRADE_HISTORY => {
            rows.int(trade.id).text("CMPT").int(trade.time + 2_000_000);
            if !kind.is_market {
                rows.int(trade.id).text("PNDG").int(trade.time);
            }
            rows.int(trade.id).text("SBMT").int(trade.time + 1_000_000);
        }
        _ => {}
    }
}

/// How a trade is paid.
pub(super) fn cash_type(is_cash: bool) -> &'static str {
    if is_cash { "Cash Account" } else { "Margin" }
}

fn financial(rows: &mut Rows, company: i64) {
    const QUARTERS_PER_YEAR: i64 = 4;
    const DAYS_PER_QUARTER: i64 = 91;
    for quarter in 0..QUARTERS {
        rows.int(company).int(2019 + quarter / QUARTERS_PER_YEAR).int(quarter % QUARTERS_PER_YEAR + 1);
        rows.int(LOAD_DAY - (QUARTERS - quarter) * DAYS_PER_QUARTER);
        for _ in FI_REVENUE..=FI_LIABILITY {
            rows.uniform(100, 1_000_000_000);
        }
        rows.uniform(1_000_000, 9_000_000_000).uniform(1_000_000, 9_000_000_000);
    }
}

/// Rows of the tables to which all others refer.
fn of_all(rows: &mut Rows, table: TableId, unit: i64) {
    match table {
        ADDRESS => rows.int(unit).words(80).words(80).uniform(1, ZIP_CODES).text("USA"),
        STATUS_TYPE => {
            let (id, name) = STATUSES[unit as usize - 1];
            rows.text(id).text(name)
        }
        TAXRATE => rows.int(unit).words(50).int(tax_rate(unit)),
        ZIP_CODE => rows.int(unit).words(40).words(40),
        _ => unreachable!("there are 33 tables"),
    };
}
