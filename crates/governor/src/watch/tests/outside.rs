//! Sessions that wait for admission while admitted ones wait for them.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use plimsoll_policy::Asked;

use super::stage::{Client, LOW, governor, server, url};
use crate::governor::{Governor, SessionCommand, WorkerCommand};
use crate::registry::Phase;
use crate::watch;

/// A transaction that waits for admission, as its session shows it.
fn queue(governor: &Governor, client: &Client) {
    assert_eq!(governor.ask_admission(client.card.claim(LOW), Instant::now()), Asked::Wait);
    let mut state = client.card.state();
    (state.phase, state.since) = (Phase::Queued, Instant::now().checked_sub(Duration::from_secs(1)).unwrap());
}

/// A class admits one transaction. The session of a job held an advisory lock between its transactions; another job was
/// inside and waited for it. The statement that would have released the lock had to wait for the one inside. Both
/// waited forever, and so did all later ones, although no important unit was late.
#[test]
fn a_session_that_others_inside_wait_for_is_admitted_beyond_the_limits() {
    let server = server();
    let (governor, commands, _poll) = governor(&server, "never", |settings| {
        settings.classes[1].limits.queue_max = None;
    });
    let [holder, inside, other] = [(); 3].map(|()| Client::new(&governor, &url(&server), LOW));
    holder.run("select pg_advisory_lock(421)");
    assert_eq!(governor.ask_admission(inside.card.claim(LOW), Instant::now()), Asked::Enter);
    inside.send("select pg_advisory_xact_lock(421)");
    queue(&governor, &other);
    queue(&governor, &holder);
    let watcher = watch::start(governor.clone());
    let command = commands.recv_timeout(Duration::from_secs(30)).expect("it is admitted");
    assert!(
        matches!(&command, WorkerCommand::Session(id, SessionCommand::Admitted) if *id == holder.card.id),
        "{command:?}"
    );
    let waiting: Vec<u64> = governor.waiting().iter().map(|waiting| waiting.ticket.0).collect();
    assert_eq!((governor.inside(LOW), waiting), (2, vec![other.card.id.0]));
    holder.run("select pg_advisory_unlock(421)");
    inside.outcome().unwrap();
    watcher.stop();
    assert!(commands.try_recv().is_err(), "nobody else is admitted");
    assert_eq!(governor.statistics.class(LOW).let_in.load(Ordering::Relaxed), 1);
}
