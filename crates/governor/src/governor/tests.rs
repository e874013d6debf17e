//! Admission together with sessions.

use std::sync::Arc;
use std::time::{Duration, Instant};

use plimsoll_policy::{Asked, Claim, ClassIndex, Login, Ticket};

use super::*;
use crate::registry::SessionCard;
use crate::session::{Outbox, Reported, Session};
use crate::settings::for_tests;

const LOW: ClassIndex = ClassIndex(1);

struct Nowhere;

impl Outbox for Nowhere {
    fn to_server(&mut self, _: &[u8]) {}
    fn to_client(&mut self, _: &[u8]) {}
}

/// A class admits one transaction, and one is inside. The client of another disconnects just as its queue time expires:
/// it is no longer queued, but its session has not been notified. The session took that for an admission and gave back
/// a place that it never had, so that two were admitted afterwards.
#[test]
fn a_client_that_leaves_as_its_queue_time_expires_gives_back_no_place() {
    let began = Instant::now();
    let mut settings = for_tests();
    settings.classes[1].limits.timeout = Some(Duration::from_secs(1));
    let governor = Arc::new(Governor::new(settings, began));
    assert_eq!(governor.ask_admission(Claim { ticket: Ticket(100), class: LOW, tenant: 0 }, began), Asked::Enter);
    let login = Login { user: "ann".to_owned(), database: "shop".to_owned(), application_name: String::new() };
    let id = governor.registry.next_id();
    let card = Arc::new(SessionCard::new(id, 0, "here".to_owned(), login, LOW, began));
    governor.registry.insert(card.clone());
    let mut session = Session::new(governor.clone(), card, Reported::default(), began);
    let _ = session.on_client(b"Q\0\0\0\x0dselect 1\0", began, &mut Nowhere).unwrap();
    assert_eq!(governor.waiting().len(), 1);

    let later = began + Duration::from_secs(2);
    governor.expire_waiting(later);
    assert_eq!((governor.waiting().len(), governor.inside(LOW)), (0, 1));
    session.close(later);
    assert_eq!(governor.inside(LOW), 1, "the other is still inside");
}
