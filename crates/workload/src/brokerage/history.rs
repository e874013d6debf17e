//! The trades that an account has when it is loaded, and the holdings that they leave.

use std::collections::BTreeMap;

use rand_pcg::Pcg64;

use super::accounting::{Costs, Lot, LotChange, amount, commission, settle, signed, tax};
use super::size::*;
use crate::random::{mix, uniform};

/// A completed trade.
#[derive(Debug)]
pub(super) struct PastTrade {
    pub(super) id: i64,
    pub(super) security: i64,
    /// The position of its type.
    pub(super) kind: usize,
    pub(super) quantity: i64,
    pub(super) bid: i64,
    pub(super) price: i64,
    pub(super) time: i64,
    pub(super) is_cash: bool,
    pub(super) is_lifo: bool,
    pub(super) costs: Costs,
    /// What the account got, in hundredths.
    pub(super) amount: i64,
    pub(super) changes: Vec<LotChange>,
}

/// All of an account's trades, and the lots that they leave by security.
#[derive(Debug)]
pub(super) struct AccountHistory {
    pub(super) trades: Vec<PastTrade>,
    pub(super) lots: BTreeMap<i64, Vec<Lot>>,
}

/// A stream of random numbers for a purpose.
pub(super) fn stream(seed: u64, purpose: u64, number: i64) -> Pcg64 {
    Pcg64::new(u128::from(mix(seed)), u128::from(mix(purpose)) << 64 | number as u128)
}

/// Whether something happens that does so in that many of 100 cases.
pub(super) fn percent(random: &mut Pcg64, cases: i64) -> bool {
    uniform(random, 1, 100) <= cases
}

/// The position of a drawn type: six of ten are executed at any price; half of all are sales, and half of the sales at
/// a limit are to stop a loss.
pub(super) fn draw_type(random: &mut Pcg64) -> usize {
    let (is_market, is_sell) = (percent(random, 60), percent(random, 50));
    let is_stop_loss = is_sell && !is_market && percent(random, 50);
    let id = match (is_market, is_sell) {
        (true, true) => "TMS",
        (true, false) => "TMB",
        (false, true) if is_stop_loss => "TSL",
        (false, true) => "TLS",
        (false, false) => "TLB",
    };
    TRADE_TYPES.iter().position(|kind| kind.id == id).expect("it is in the list")
}

pub(super) fn draw_quantity(random: &mut Pcg64) -> i64 {
    [100, 200, 400, 800][uniform(random, 0, 3) as usize]
}

/// The purpose of the numbers of this file; those of the tables are below it.
const HISTORY: u64 = 100;

impl AccountHistory {
    pub(super) fn of(seed: u64, sizes: Sizes, account: i64) -> AccountHistory {
        let mut random = stream(seed, HISTORY, account);
        let mut history = AccountHistory { trades: Vec::new(), lots: BTreeMap::new() };
        for number in 1..=TRADES_PER_ACCOUNT {
            history.add(&mut random, sizes, account, number);
        }
        history
    }

    fn add(&mut self, random: &mut Pcg64, sizes: Sizes, account: i64, number: i64) {
        let id = (account - 1) * TRADES_PER_ACCOUNT + number;
        let security = sizes.traded(account, uniform(random, 0, TRADED_PER_ACCOUNT - 1));
        let (kind, quantity) = (draw_type(random), draw_quantity(random));
        let [bid, price] = [0; 2].map(|_| uniform(random, PRICE_MIN, PRICE_MAX));
        let is_lifo = percent(random, 35);
        let trade = Lot { trade: id, quantity: signed(&TRADE_TYPES[kind], quantity), price };
        let lots = self.lots.entry(security).or_default();
        let settled = settle(lots, trade, is_lifo);
        apply(lots, &settled.changes, price);
        let costs = costs(account, security, kind, quantity, price, settled.gain);
        self.trades.push(PastTrade {
            id,
            security,
            kind,
            quantity,
            bid,
            price,
            // Within the days of the market's history, in order.
            time: LOAD_TIME_US - (TRADES_PER_ACCOUNT + 1 - number) * 6 * DAY_US + uniform(random, 0, DAY_US - 1),
            is_cash: percent(random, 84),
            is_lifo,
            costs,
            amount: amount(TRADE_TYPES[kind].is_sell, quantity, price, costs),
            changes: settled.changes,
        });
    }

    /// What the account got for all trades that were settled in cash, in hundredths.
    pub(super) fn cash(&self) -> i64 {
        self.trades.iter().filter(|trade| trade.is_cash).map(|trade| trade.amount).sum()
    }
}

fn apply(lots: &mut Vec<Lot>, changes: &[LotChange], price: i64) {
    for change in changes {
        match lots.iter_mut().find(|lot| lot.trade == change.lot) {
            Some(lot) => lot.quantity = change.after,
            None => lots.push(Lot { trade: change.lot, quantity: change.after, price }),
        }
    }
    lots.retain(|lot| lot.quantity != 0);
}

fn costs(account: i64, security: i64, kind: usize, quantity: i64, price: i64, gain: i64) -> Costs {
    let customer = customer_of(account);
    let bracket = BRACKETS.iter().rposition(|from| *from <= quantity).expect("the first begins at one share");
    let rate = commission_rate(tier(customer), kind, exchange_of(security), bracket);
    let rates = if tax_status(account) == 0 { 0 } else { tax_rates_of(customer).map(tax_rate).iter().sum() };
    Costs { charge: charge(kind, tier(customer)), commission: commission(quantity, price, rate), tax: tax(gain, rates) }
}
