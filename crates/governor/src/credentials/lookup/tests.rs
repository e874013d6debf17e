//! Questions to a server that is away. `tests/logins` has those to servers that answer.

use std::sync::mpsc;

use plimsoll_pg::secret::Secret;

use super::*;

fn asks(port: u16) -> Asks {
    let url = format!("postgres://asker@127.0.0.1:{port}/postgres");
    Asks { url: ServerUrl::parse_in(&url, &|_| None).unwrap(), query: "SELECT $1, 'x'".to_owned() }
}

#[test]
fn a_server_that_is_away_lets_nobody_in_and_keeps_nobody_waiting() {
    let (lookup, start) = (Lookup::default(), Instant::now());
    let (answers, received) = mpsc::channel();
    let like = Secret::of_nobody("x", None);
    let users: Vec<String> = (0..50).map(|number| format!("user {}", number / 2)).collect();
    let mut expected = 0;
    for user in &users {
        let answers = answers.clone();
        let found = lookup.find(asks(1), user, Some(&like), start, Box::new(move |known| answers.send(known).unwrap()));
        match found {
            Found::Asking => expected += 1,
            // Its failure is remembered for a moment.
            Found::Now(known) => assert_eq!(known.origin, Origin::Nobody),
        }
    }
    for _ in 0..expected {
        let known = received.recv_timeout(Duration::from_secs(30)).expect("an answer");
        assert_eq!(known.origin, Origin::Nobody);
    }
    // Every client was answered once.
    assert!(received.try_recv().is_err());
    assert!(lookup.shared.state.lock().waiting.is_empty());
}

/// A question that came after the failure of another got the same answer, even where another server was set meanwhile.
#[test]
fn the_questions_to_another_server_are_left() {
    let lookup = Lookup::default();
    lookup.shared.state.lock().has_thread = true;
    let find = |port| lookup.find(asks(port), &format!("of {port}"), None, Instant::now(), Box::new(|_| {}));
    assert!(matches!((find(1), find(2)), (Found::Asking, Found::Asking)));
    let mut state = lookup.shared.state.lock();
    assert!(state.take_queue(&asks(1)).is_empty());
    assert_eq!(state.take_queue(&asks(2)), ["of 1", "of 2"]);
}

#[test]
fn no_more_users_are_asked_for_than_can_be() {
    // Nobody takes the questions: the thread is said to run.
    let (lookup, start) = (Lookup::default(), Instant::now());
    lookup.shared.state.lock().has_thread = true;
    let find = |user: &str| lookup.find(asks(1), user, None, start, Box::new(|_| {}));
    for number in 0..WAITING_MAX {
        assert!(matches!(find(&number.to_string()), Found::Asking));
    }
    assert!(matches!(find("one more"), Found::Now(Known { origin: Origin::Nobody, .. })));
    // Clients of a user that is asked for wait for the same answer.
    assert!(matches!(find("7"), Found::Asking));
}

#[test]
fn older_answers_count_while_the_server_is_away() {
    let lookup = Lookup::default();
    let shared = &lookup.shared;
    shared.state.lock().has_thread = true;
    let asks = asks(1);
    let ask = |now| {
        let (answers, received) = mpsc::channel();
        let answer = Box::new(move |known: Known| answers.send(known.origin).unwrap());
        (lookup.find(asks.clone(), "ann", None, now, answer), received)
    };
    let now = Instant::now();
    let (found, received) = ask(now);
    assert!(matches!(found, Found::Asking));
    let secret = Secret::parse("ann", "geheim").unwrap();
    shared.tell("ann", &asks, &Finding::Secret(secret));
    assert_eq!(received.try_recv(), Ok(Origin::Server));
    // Fresh: nothing is asked.
    assert!(matches!(ask(now).0, Found::Now(Known { origin: Origin::Server, .. })));
    // Later, the server is away.
    let (found, received) = ask(now + Duration::from_secs(30));
    assert!(matches!(found, Found::Asking));
    shared.tell("ann", &asks, &Finding::Failed("away".to_owned()));
    assert_eq!(received.try_recv(), Ok(Origin::Server));
    // The server says that there is no such user any more.
    let (_, received) = ask(now + Duration::from_secs(60));
    shared.tell("ann", &asks, &Finding::None("dropped".to_owned()));
    assert_eq!(received.try_recv(), Ok(Origin::Nobody));
    // Another server was set: nothing of the first counts.
    let other = Asks { query: "SELECT 2, $1".to_owned(), ..asks.clone() };
    lookup.find(other, "ann", None, now, Box::new(|_| {}));
    assert!(shared.state.lock().cache.stale("ann", now).is_none());
}
