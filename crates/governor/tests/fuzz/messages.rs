//! Arbitrary bytes from the client and from the server, in arbitrary pieces, with commands between them.
//!
//! A session does not panic, buffers at most one inspected message of the server, and leaves no transaction inside when
//! it ends.

use std::time::{Duration, Instant};

use plimsoll_governor::governor::SessionCommand;
use plimsoll_governor::registry::EventId;
use plimsoll_governor::session::{INSPECT_MAX, Outbox, Session};

use super::choices::Choices;
use super::world::World;

struct Nowhere;

impl Outbox for Nowhere {
    fn to_server(&mut self, _bytes: &[u8]) {}
    fn to_client(&mut self, _bytes: &[u8]) {}
}

/// Feeds a session: of class high if the first byte is odd, otherwise of class low.
pub fn feed(bytes: &[u8]) {
    let (mut choices, mut now) = (Choices::of(bytes), Instant::now());
    let world = World::new(now);
    let (mut session, card) = world.session(choices.of_these(&["low", "high"]), now);
    let (mut said, mut answered) = (Vec::new(), Vec::new());
    while !choices.is_over() {
        now += Duration::from_millis(300);
        let count = choices.below(64);
        match choices.below(16) {
            0..5 => said.extend_from_slice(choices.bytes(count)),
            5..10 => answered.extend_from_slice(choices.bytes(count)),
            10 => {
                let (transaction, unit) = world.place(&card);
                card.aim_preemption(transaction, unit);
            }
            11 if card.state().cancels.in_flight > 0 => {
                card.cancel_arrived(choices.once_in(2), choices.once_in(2));
                session.on_command(SessionCommand::CancelArrived, now, &mut Nowhere);
            }
            12 => drop(card.aim_client_cancel()),
            13 => {
                let (transaction, unit) = world.place(&card);
                let command = SessionCommand::RollBackIdle { transaction, unit, event: EventId(1) };
                session.on_command(command, now, &mut Nowhere);
            }
            14 => session.on_command(SessionCommand::ClientCancelled, now, &mut Nowhere),
            _ => session.on_time(now, &mut Nowhere),
        }
        if session.has_ended() || !offer(&mut session, &mut said, &mut answered, now) {
            break;
        }
    }
    session.close(now);
    world.assert_empty();
}

/// Offers the bytes of each peer; returns whether both follow the protocol.
fn offer(session: &mut Session, said: &mut Vec<u8>, answered: &mut Vec<u8>, now: Instant) -> bool {
    let Ok(taken) = session.on_server(answered, now, &mut Nowhere) else { return false };
    answered.drain(..taken);
    assert!(answered.len() <= INSPECT_MAX);
    if session.takes_client_bytes() {
        let Ok(taken) = session.on_client(said, now, &mut Nowhere) else { return false };
        said.drain(..taken);
    }
    session.wakes_at();
    true
}
