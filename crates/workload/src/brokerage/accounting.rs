//! What a trade does to holdings, and what it costs: the rules by which the loaded history is made and trades are
//! completed. Prices and amounts are in hundredths.

use super::size::TradeType;

/// Shares that one trade has bought; sold ones that the account did not have are negative.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lot {
    /// The trade that began it.
    pub(super) trade: i64,
    pub(super) quantity: i64,
    pub(super) price: i64,
}

/// The change of a lot by a trade. A lot that did not exist had 0 before; one that is used up has 0 after.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LotChange {
    /// The trade that began the lot.
    pub(super) lot: i64,
    pub(super) before: i64,
    pub(super) after: i64,
}

/// The changes of an account's lots of one security by a trade, and the gain of what was bought and sold again.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Settlement {
    pub(super) changes: Vec<LotChange>,
    pub(super) gain: i64,
}

/// Trades against an account's lots of the security, which are given oldest first: lots of the other sign are used up,
/// the newest first if `is_lifo`; the rest begins a lot.
pub(super) fn settle(lots: &[Lot], trade: Lot, is_lifo: bool) -> Settlement {
    let (mut left, mut gain, mut changes) = (trade.quantity, 0, Vec::new());
    let place = |at: usize| if is_lifo { lots.len() - 1 - at } else { at };
    for lot in (0..lots.len()).map(|at| lots[place(at)]) {
        if left == 0 || lot.quantity.signum() == left.signum() {
            break;
        }
        let taken = left.signum() * left.abs().min(lot.quantity.abs());
        changes.push(LotChange { lot: lot.trade, before: lot.quantity, after: lot.quantity + taken });
        // A sale takes a negative number of shares, bought at the lot's price.
        gain += taken * (lot.price - trade.price);
        left -= taken;
    }
    if left != 0 {
        changes.push(LotChange { lot: trade.trade, before: 0, after: left });
    }
    Settlement { changes, gain }
}

/// The commission of an order at a rate in hundredths of a percent.
pub(super) fn commission(quantity: i64, price: i64, rate: i64) -> i64 {
    quantity * price * rate / 10_000
}

/// The tax on a gain at rates in hundred-thousandths; a loss is not taxed.
pub(super) fn tax(gain: i64, rates: i64) -> i64 {
    gain.max(0) * rates / 100_000
}

/// The costs of a trade.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Costs {
    pub(super) charge: i64,
    pub(super) commission: i64,
    pub(super) tax: i64,
}

/// What the account gets for a trade; less than 0 if it pays. The tax is noted but not withheld from a purchase.
pub(super) fn amount(is_sell: bool, quantity: i64, price: i64, costs: Costs) -> i64 {
    let value = quantity * price;
    match is_sell {
        true => value - costs.charge - costs.commission - costs.tax,
        false => -(value + costs.charge + costs.commission),
    }
}

/// A trade's number of shares, negative for a sale.
pub(super) fn signed(kind: &TradeType, quantity: i64) -> i64 {
    if kind.is_sell { -quantity } else { quantity }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(lots: &[(i64, i64, i64)], trade: (i64, i64, i64), is_lifo: bool, expect: (&[(i64, i64, i64)], i64)) {
        let lot = |&(trade, quantity, price): &(i64, i64, i64)| Lot { trade, quantity, price };
        let lots: Vec<_> = lots.iter().map(lot).collect();
        let Settlement { changes, gain } = settle(&lots, lot(&trade), is_lifo);
        let changes: Vec<_> = changes.iter().map(|change| (change.lot, change.before, change.after)).collect();
        assert_eq!((&changes[..], gain), expect, "{lots:?} {trade:?}");
    }

    #[test]
    fn trades_use_up_lots_of_the_other_sign_and_begin_one_with_the_rest() {
        check(&[], (9, 100, 20), false, (&[(9, 0, 100)], 0));
        check(&[(1, 100, 20)], (9, 200, 25), false, (&[(9, 0, 200)], 0));
        check(&[(1, 100, 20), (2, 200, 22)], (9, -200, 25), false, (&[(1, 100, 0), (2, 200, 100)], 800));
        check(&[(1, 100, 20), (2, 200, 22)], (9, -200, 25), true, (&[(2, 200, 0)], 600));
        check(&[(1, 100, 20)], (9, -400, 25), true, (&[(1, 100, 0), (9, 0, -300)], 500));
        check(&[(1, -300, 20)], (9, 100, 25), false, (&[(1, -300, -200)], -500));
    }

    #[test]
    fn gains_are_taxed_and_losses_are_not() {
        assert_eq!([tax(10_000, 12_345), tax(-10_000, 12_345)], [1_234, 0]);
        let costs = Costs { charge: 100, commission: 50, tax: 7 };
        assert_eq!([amount(true, 10, 20, costs), amount(false, 10, 20, costs)], [43, -350]);
    }
}
