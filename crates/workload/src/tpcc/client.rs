//! A client: draws a card from its deck and the card's input, then runs it.

use std::sync::Arc;

use super::audit::Audit;
use super::buffers::Buffers;
use super::deck::{Deck, TransactionKind};
use super::delivery::Delivery;
use super::new_order::NewOrder;
use super::order_status::OrderStatus;
use super::payment::Payment;
use super::stock_level::StockLevel;
use super::terminal::Terminal;
use crate::benchmark::{Client, Outcome};
use crate::database::{DatabaseError, Session};

/// A transaction with all of its input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(clippy::large_enum_variant, reason = "each client keeps one and draws it in place")]
pub(super) enum Request {
    NewOrder(NewOrder),
    Payment(Payment),
    OrderStatus(OrderStatus),
    Delivery(Delivery),
    StockLevel(StockLevel),
}

#[derive(Debug)]
pub(super) struct TpccClient {
    number: usize,
    terminal: Terminal,
    deck: Deck,
    request: Option<Request>,
    buffers: Buffers,
    audit: Arc<Audit>,
}

impl TpccClient {
    /// Client `number`, at that terminal.
    pub(super) fn new(number: usize, terminal: Terminal, last_names: Arc<[String]>, audit: Arc<Audit>) -> Self {
        TpccClient { number, terminal, deck: Deck::new(), request: None, buffers: Buffers::new(last_names), audit }
    }

    #[cfg(test)]
    pub(super) fn request(&self) -> Option<&Request> {
        self.request.as_ref()
    }
}

impl Client for TpccClient {
    fn draw(&mut self) -> usize {
        let terminal = &mut self.terminal;
        terminal.move_home();
        let kind = self.deck.take(&mut terminal.random);
        self.request = Some(match kind {
            TransactionKind::NewOrder => Request::NewOrder(NewOrder::draw(terminal)),
            TransactionKind::Payment => Request::Payment(Payment::draw(terminal)),
            TransactionKind::OrderStatus => Request::OrderStatus(OrderStatus::draw(terminal)),
            TransactionKind::Delivery => Request::Delivery(Delivery::draw(terminal)),
            TransactionKind::StockLevel => Request::StockLevel(StockLevel::draw(terminal)),
        });
        kind as usize
    }

    fn run(&mut self, session: &mut dyn Session) -> Result<Outcome, DatabaseError> {
        let request = self.request.as_ref().expect("the driver draws before it runs");
        let buffers = &mut self.buffers;
        let tally = self.audit.of(self.number);
        match request {
            Request::NewOrder(input) => input.run(session, buffers).inspect(|outcome| tally.new_order(input, *outcome)),
            Request::Payment(input) => input.run(session, buffers).inspect(|_| tally.payment(input)),
            Request::OrderStatus(input) => input.run(session, buffers).inspect(|_| tally.order_status(input)),
            Request::Delivery(input) => {
                let (outcome, skipped) = input.run(session, buffers)?;
                tally.delivery(skipped);
                Ok(outcome)
            }
            Request::StockLevel(input) => input.run(session, buffers).inspect(|_| tally.stock_level()),
        }
    }
}
