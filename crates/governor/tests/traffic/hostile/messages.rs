//! Messages that a client may send after its login.

use std::thread;
use std::time::{Duration, Instant};

use plimsoll_testing::until;

use super::super::client::{Client, message};
use super::super::requests::{bind, close, copy_data, copy_done, describe, execute, flush, parse, query, sync};
use super::{Attacked, Beside, GROWTH_MAX};

/// All types of messages that clients send.
const TYPES: &[u8] = b"QPBEDCHSFdcfXp";

#[test]
fn lengths_that_cannot_be_end_the_connection() {
    let attacked = Attacked::start();
    for &tag in TYPES {
        for length in [0_u32, 1, 2, 3, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff] {
            let mut client = attacked.client("low");
            let _ = client.send(&[&[tag][..], &length.to_be_bytes(), b"SELECT 1\0and more"].concat());
            assert!(client.is_closed(), "{} with length {length}: the connection stays open", char::from(tag));
        }
    }
    attacked.assert_small();
    attacked.stop();
}

#[test]
fn types_that_do_not_exist_end_the_connection() {
    let attacked = Attacked::start();
    for tag in (0..=255).filter(|tag| !TYPES.contains(tag)).step_by(5) {
        let mut client = attacked.client("low");
        assert_eq!(client.value("SELECT 1").unwrap(), "1");
        let _ = client.send(&message(tag, b"what is this"));
        assert!(client.is_closed(), "type {tag}: the connection stays open");
    }
    attacked.stop();
}

#[test]
fn messages_may_come_in_any_pieces() {
    let attacked = Attacked::start();
    let out = [
        query("BEGIN"),
        parse("named", "SELECT $1::text || 'b'"),
        describe("named"),
        flush(),
        bind("named", &["a"]),
        execute(),
        close("named"),
        sync(),
        query("COMMIT"),
    ]
    .concat();
    let mut client = attacked.client("low");
    let mut check = |pieces: &mut dyn Iterator<Item = &[u8]>| {
        for piece in pieces {
            client.send(piece).unwrap();
            thread::sleep(Duration::from_micros(200));
        }
        assert_eq!(client.answer().unwrap().commands, ["BEGIN"]);
        let answer = client.answer().unwrap();
        assert_eq!((answer.value(), &answer.tags[..]), (Some("ab"), &b"1tT2DC3Z"[..]));
        assert_eq!(client.answer().unwrap().commands, ["COMMIT"]);
    };
    for split in 1..out.len() {
        check(&mut [&out[..split], &out[split..]].into_iter());
    }
    check(&mut out.chunks(1));
    drop(client);
    attacked.stop();
}

#[test]
fn a_message_of_many_megabytes_is_not_kept() {
    let attacked = Attacked::start();
    for (tag, user) in [(b'Q', "low"), (b'P', "high"), (b'B', "low")] {
        let mut client = attacked.client(user);
        client.send(&[tag]).unwrap();
        client.send(&900_000_000_u32.to_be_bytes()).unwrap();
        let chunk = [b'x'; 1 << 20];
        for _ in 0..(2 * GROWTH_MAX) >> 20 {
            client.send(&chunk).unwrap();
        }
        attacked.assert_small();
    }
    let mut client = attacked.client("low");
    let sql = format!("SELECT length('{}')", "x".repeat(30_000_000));
    assert_eq!(client.value(&sql).unwrap(), "30000000");
    drop(client);
    attacked.stop();
}

/// More than the kernel keeps between client, governor and server.
const FLOOD_MAX: usize = 64 << 20;

/// Sends as much of the bytes, repeatedly, as is taken within a while although no answers are read.
fn flood(client: &mut Client, bytes: &[u8]) -> usize {
    let mut sent = 0;
    let mut stalled = Instant::now();
    while sent < FLOOD_MAX && stalled.elapsed() < Duration::from_millis(500) {
        match client.send_some(&bytes[sent % bytes.len()..]).unwrap() {
            0 => thread::sleep(Duration::from_millis(1)),
            taken => {
                sent += taken;
                stalled = Instant::now();
            }
        }
    }
    sent
}

#[test]
fn who_does_not_read_is_not_written_for() {
    let attacked = Attacked::start();
    // Results.
    let mut readers = (0..4).map(|_| attacked.client("low")).collect::<Vec<_>>();
    for client in &mut readers {
        client.send_query("SELECT repeat('x', 1000) FROM generate_series(1, 300000)").unwrap();
    }
    thread::sleep(Duration::from_millis(500));
    attacked.assert_small();
    // A client that reads after all gets everything.
    assert_eq!(readers[0].answer().unwrap().commands, ["SELECT 300000"]);
    drop(readers);

    // Thousands of queries, and messages that are each answered but never followed by a Sync. They are long, so that
    // few of them fill the buffers between, and their answers are longer still.
    let comment = "c".repeat(1000);
    let asked = query(&format!("SELECT repeat('y', 5000) -- {comment}"));
    let parsed = [parse("", &format!("SELECT 1{} -- {comment}", ",1".repeat(200))), describe("")].concat();
    for (user, bytes) in [("high", &asked), ("low", &asked), ("high", &parsed), ("low", &parsed)] {
        let mut client = attacked.client(user);
        let sent = flood(&mut client, bytes);
        assert!(sent < FLOOD_MAX, "{sent} bytes were taken of somebody who reads no answers");
        attacked.assert_small();
        // After the rest of the truncated message, every answer arrives, and in order.
        let rest = (bytes.len() - sent % bytes.len()) % bytes.len();
        let count = (sent + rest) / bytes.len();
        let mut remainder = bytes[bytes.len() - rest..].to_vec();
        let is_query = bytes[0] == b'Q';
        if !is_query {
            // A server holds back the end of its answers until it is asked for it.
            remainder.extend(sync());
        }
        let mut reader = client.second_handle();
        let writer = thread::spawn(move || reader.send(&remainder));
        for _ in 0..count {
            if is_query {
                assert_eq!(client.answer().unwrap().commands, ["SELECT 1"]);
            } else {
                assert_eq!(&[(); 3].map(|()| client.message().unwrap().tag), b"1tT");
            }
        }
        writer.join().unwrap().unwrap();
        if !is_query {
            assert_eq!(client.answer().unwrap().tags, b"Z");
        }
        assert_eq!(client.value("SELECT 1").unwrap(), "1");
    }
    attacked.stop();
}

#[test]
fn a_copy_may_be_left_at_any_point() {
    let attacked = Attacked::start();
    let mut own = attacked.server.connection();
    own.run("DROP TABLE IF EXISTS copied; CREATE TABLE copied (id int); GRANT ALL ON copied TO public").unwrap();
    let data = copy_data("1\n2\n");
    let (done, fail) = (copy_done(), message(b'f', b"no more\0"));
    let mut client = attacked.client("low");
    // Outside of a copy, the server ignores its messages, and so must the governor.
    for stray in [&data, &done, &fail] {
        client.send(stray).unwrap();
        assert_eq!(client.value("SELECT 'here'").unwrap(), "here");
    }
    // Done twice, failed after done, done after failed, more after the end.
    for (ends, copied) in [
        (vec![&done, &done], 2),
        (vec![&done, &fail, &data], 2),
        (vec![&fail, &done], 0),
        (vec![&fail, &data, &data, &done, &fail], 0),
    ] {
        own.run("TRUNCATE copied").unwrap();
        client.send_query("COPY copied FROM STDIN").unwrap();
        assert_eq!(client.message().unwrap().tag, b'G');
        client.send(&data).unwrap();
        for end in ends {
            client.send(end).unwrap();
        }
        let answer = client.answer().unwrap();
        assert_eq!(answer.refusal.is_none(), copied > 0, "{answer:?}");
        assert_eq!(client.value("SELECT count(*) FROM copied").unwrap(), copied.to_string());
    }
    // A copy that the server refuses half-way: the rest is on its way, and is discarded.
    own.run("TRUNCATE copied").unwrap();
    client.send_query("COPY copied FROM STDIN").unwrap();
    client.send(&message(b'd', b"1\nnonsense\n")).unwrap();
    for _ in 0..100 {
        client.send(&message(b'd', &b"3\n".repeat(1000))).unwrap();
    }
    client.send(&done).unwrap();
    assert_eq!(client.answer().unwrap().refusal.unwrap().state, "22P02");
    assert_eq!(client.value("SELECT count(*) FROM copied").unwrap(), "0");
    drop(client);
    // Disconnected in the middle of a message of the copy: the place in the class is free again for the next.
    for round in 0..12 {
        let mut client = attacked.client("low");
        client.send_query("COPY copied FROM STDIN").unwrap();
        assert_eq!(client.message().unwrap().tag, b'G', "round {round}");
        client.send(&data[..3 + round % 6]).unwrap();
    }
    let copies = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'COPY copied%'";
    until("copies end whose clients are gone", || attacked.server.value(copies) == "0");
    assert_eq!(attacked.server.value("SELECT count(*) FROM copied"), "0");
    attacked.stop();
}

#[test]
fn many_come_and_go() {
    let attacked = Attacked::start();
    let files = attacked.governed.open_files();
    let more = Beside::start(attacked.address(), attacked.server.database());
    for round in 0..300 {
        let mut client = attacked.client(if round % 2 == 0 { "low" } else { "high" });
        match round % 5 {
            0 => drop(client),
            1 => client.send_query("SELECT pg_sleep(0.01)").unwrap(),
            2 => client.send(b"Q\0\0").unwrap(),
            3 => client.send(&message(b'X', b"")).unwrap(),
            _ => client.close_sending().unwrap(),
        }
    }
    more.stop();
    // Two for the well-behaved client beside it, in any state.
    until("files are closed", || attacked.governed.open_files() <= files + 2);
    attacked.stop();
}
