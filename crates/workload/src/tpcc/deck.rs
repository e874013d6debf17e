//! The deck from which a client takes its next kind of transaction (TPC-C 5.2.4.2).

use super::random::Random;

/// The kinds of transaction, in the order of [`TRANSACTIONS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum TransactionKind {
    NewOrder,
    Payment,
    OrderStatus,
    Delivery,
    StockLevel,
}

/// The names of the kinds.
pub(crate) const TRANSACTIONS: [&str; 5] = ["new_order", "payment", "order_status", "delivery", "stock_level"];

/// Each kind as often as it is in a deck.
const CARDS: [(TransactionKind, usize); 5] = [
    (TransactionKind::NewOrder, 10),
    (TransactionKind::Payment, 10),
    (TransactionKind::OrderStatus, 1),
    (TransactionKind::Delivery, 1),
    (TransactionKind::StockLevel, 1),
];

pub(super) const DECK: usize = 23;

/// A deck from which cards are drawn one by one and which is shuffled again when it is used up. Each client's mix is
/// therefore exact after every deck.
#[derive(Debug)]
pub(super) struct Deck {
    cards: [TransactionKind; DECK],
    taken: usize,
}

impl Deck {
    /// A deck to be shuffled before its first card is taken.
    pub(super) fn new() -> Self {
        let mut cards = [TransactionKind::NewOrder; DECK];
        let kinds = CARDS.iter().flat_map(|&(kind, count)| std::iter::repeat_n(kind, count));
        for (card, kind) in cards.iter_mut().zip(kinds) {
            *card = kind;
        }
        Deck { cards, taken: DECK }
    }

    /// The next card.
    pub(super) fn take(&mut self, random: &mut Random) -> TransactionKind {
        if self.taken == DECK {
            random.shuffle(&mut self.cards);
            self.taken = 0;
        }
        self.taken += 1;
        self.cards[self.taken - 1]
    }
}

#[cfg(test)]
mod tests {
    use super::super::random::Purpose;
    use super::*;

    #[test]
    fn every_deck_holds_each_kind_as_often_as_prescribed() {
        assert_eq!(CARDS.iter().map(|&(_, count)| count).sum::<usize>(), DECK);
        let mut random = Random::new(5, Purpose::Client, 0, 0);
        let mut deck = Deck::new();
        let mut orders = std::collections::BTreeSet::new();
        for _ in 0..500 {
            let cards = (0..DECK).map(|_| deck.take(&mut random)).collect::<Vec<_>>();
            for (kind, count) in CARDS {
                assert_eq!(cards.iter().filter(|&&card| card == kind).count(), count, "{kind:?}");
            }
            orders.insert(cards);
        }
        assert!(orders.len() > 490, "decks are shuffled anew: {} orders", orders.len());
    }
}
