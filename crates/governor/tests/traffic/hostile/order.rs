//! The governor's own answers, refusals and cancels among answers of the server: each in its place.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use plimsoll_testing::until;

use super::super::client::{Client, cancel};
use super::super::requests::{query, unit};
use super::Attacked;

/// A unit of the extended protocol that returns a text.
fn extended(text: &str) -> Vec<u8> {
    unit(&format!("SELECT '{text}'"))
}

/// A client of class low that is inside until it commits.
fn holder(attacked: &Attacked) -> Client {
    let mut holder = attacked.client("low");
    holder.query("BEGIN; SELECT 1").unwrap();
    holder
}

/// Waits until the given number of transactions are queued.
pub fn wait_for_queue(attacked: &Attacked, count: usize) {
    let mut console = attacked.governed.console().unwrap();
    until(&format!("{count} wait"), || console.query("SHOW QUEUE").unwrap().rows.len() == count);
}

#[test]
fn refused_units_leave_the_others_their_own_answers() {
    let attacked = Attacked::start_with("", "mpl = 1\nqueue_timeout = \"200ms\"");
    for _ in 0..3 {
        let mut holder = holder(&attacked);
        let mut client = attacked.client("low");
        let units = ["a", "b", "c", "d", "e"].map(extended).concat();
        client.send(&[units, query("SELECT 'f'")].concat()).unwrap();
        let first = client.answer().unwrap();
        assert_eq!((first.refusal.map(|refusal| refusal.state), first.status), (Some("53300".to_owned()), b'I'));
        assert_eq!(first.tags, b"EZ");
        holder.query("COMMIT").unwrap();
        for text in ["b", "c", "d", "e", "f"] {
            let answer = client.answer().unwrap();
            match &answer.refusal {
                Some(refusal) => assert_eq!((&refusal.state[..], &answer.tags[..]), ("53300", &b"EZ"[..])),
                None => assert_eq!(answer.value(), Some(text)),
            }
        }
        assert_eq!(client.value("SELECT 'after'").unwrap(), "after");
    }
    attacked.stop();
}

#[test]
fn a_full_queue_refuses_at_once() {
    let attacked = Attacked::start_with("", "mpl = 1\nqueue_max = 2");
    let mut holder = holder(&attacked);
    let mut waiting = (0..2).map(|_| attacked.client("low")).collect::<Vec<_>>();
    for client in &mut waiting {
        client.send_query("SELECT 'let in'").unwrap();
    }
    wait_for_queue(&attacked, 2);
    let mut refused = attacked.client("low");
    assert_eq!(refused.query("SELECT 1").unwrap_err().state(), Some("53300"));
    // A refused block has failed as a whole: units sent after its BEGIN must not run without it.
    assert_eq!(refused.query("BEGIN").unwrap_err().state(), Some("53300"));
    assert_eq!(refused.query("SELECT 1").unwrap_err().state(), Some("25P02"));
    refused.query("ROLLBACK").unwrap();
    holder.query("COMMIT").unwrap();
    for client in &mut waiting {
        assert_eq!(client.answer().unwrap().value(), Some("let in"));
    }
    assert_eq!(refused.value("SELECT 1").unwrap(), "1");
    drop((holder, waiting, refused));
    attacked.stop();
}

#[test]
fn a_cancelled_waiter_is_refused_and_goes_on() {
    let attacked = Attacked::start_with("", "mpl = 1");
    let mut holder = holder(&attacked);
    let mut waiter = attacked.client("low");
    for extended_protocol in [false, true] {
        let unit = if extended_protocol { extended("never") } else { query("SELECT 'never'") };
        waiter.send(&unit).unwrap();
        wait_for_queue(&attacked, 1);
        cancel(attacked.address(), &waiter.key).unwrap();
        let answer = waiter.answer().unwrap();
        assert_eq!((answer.refusal.unwrap().state.as_str(), &answer.tags[..]), ("57014", &b"EZ"[..]));
        wait_for_queue(&attacked, 0);
    }
    assert_eq!(holder.query("COMMIT").unwrap().commands, ["COMMIT"]);
    assert_eq!(waiter.value("SELECT 'in'").unwrap(), "in");
    drop((holder, waiter));
    attacked.stop();
}

#[test]
fn a_client_that_goes_leaves_the_queue() {
    let attacked = Attacked::start_with("", "mpl = 1");
    let mut holder = holder(&attacked);
    let mut waiting = (0..6).map(|_| attacked.client("low")).collect::<Vec<_>>();
    for (number, client) in waiting.iter_mut().enumerate() {
        client.send_query("BEGIN; CREATE TABLE never (id int)").unwrap();
        if number % 2 == 0 {
            // More than it may send now.
            client.send(&[b'x'; 100]).unwrap();
        }
    }
    wait_for_queue(&attacked, 6);
    drop(waiting);
    wait_for_queue(&attacked, 0);
    holder.query("COMMIT").unwrap();
    assert_eq!(attacked.client("low").value("SELECT to_regclass('never') IS NULL").unwrap(), "t");
    drop(holder);
    attacked.stop();
}

#[test]
fn who_waits_for_long_is_told() {
    let attacked = Attacked::start_with("", "mpl = 1");
    let mut holder = holder(&attacked);
    let mut waiter = attacked.client("low");
    waiter.send_query("SELECT 'late'").unwrap();
    // After five seconds, before any answer.
    assert_eq!(waiter.message().unwrap().tag, b'N');
    holder.query("COMMIT").unwrap();
    let answer = waiter.answer().unwrap();
    assert_eq!((answer.value(), &answer.tags[..]), (Some("late"), &b"TDCZ"[..]));
    drop((holder, waiter));
    attacked.stop();
}

#[test]
fn the_governors_own_answers_keep_their_places() {
    let attacked = Attacked::start();
    let mut client = attacked.client("high");
    for _ in 0..20 {
        let units = [
            query("SELECT repeat('x', 3000000)"),
            query("SET plimsoll.class = 'low'"),
            query("SELECT 'two'"),
            query("SET plimsoll.class = 'nowhere'"),
            query("SELECT 'three'"),
            extended("four"),
            query("RESET plimsoll.class"),
            extended("five"),
        ];
        client.send(&units.concat()).unwrap();
        assert_eq!(client.answer().unwrap().value().map(str::len), Some(3_000_000));
        assert_eq!(client.answer().unwrap().commands, ["SET"]);
        assert_eq!(client.answer().unwrap().value(), Some("two"));
        // Refused by the governor, or, behind unanswered units, set by a server that knows no classes.
        let unknown = client.answer().unwrap();
        assert!(unknown.refusal.is_some() || unknown.commands == ["SET"], "{unknown:?}");
        assert_eq!(client.answer().unwrap().value(), Some("three"));
        let answer = client.answer().unwrap();
        assert_eq!((answer.value(), &answer.tags[..]), (Some("four"), &b"12DCZ"[..]));
        assert_eq!(client.answer().unwrap().commands, ["RESET"]);
        assert_eq!(client.answer().unwrap().value(), Some("five"));
    }
    drop(client);
    attacked.stop();
}

#[test]
fn cancels_between_statements_leave_answers_in_order() {
    let attacked = Attacked::start();
    let mut client = attacked.client("low");
    let (address, key, is_over) = (attacked.address(), client.key.clone(), AtomicBool::new(false));
    thread::scope(|scope| {
        let canceller = scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                cancel(address, &key).unwrap();
            }
        });
        let mut cancelled = 0;
        for round in 0..60 {
            let texts = (0..5).map(|number| format!("{round}-{number}")).collect::<Vec<_>>();
            let units = texts.iter().enumerate().flat_map(|(number, text)| match number % 2 {
                0 => extended(text),
                _ => query(&format!("SELECT '{text}' FROM pg_sleep(0.003)")),
            });
            client.send(&units.collect::<Vec<_>>()).unwrap();
            for text in &texts {
                let answer = client.answer().unwrap();
                match &answer.refusal {
                    Some(refusal) => {
                        assert_eq!(refusal.state, "57014");
                        cancelled += 1;
                    }
                    None => assert_eq!(answer.value(), Some(text.as_str())),
                }
                assert_eq!(answer.tags.iter().filter(|&&tag| tag == b'Z').count(), 1);
            }
        }
        is_over.store(true, Ordering::Relaxed);
        canceller.join().unwrap();
        assert!(cancelled > 0, "no cancel came in time");
    });
    assert_eq!(client.value("SELECT 'after'").unwrap(), "after");
    drop(client);
    attacked.stop();
}
