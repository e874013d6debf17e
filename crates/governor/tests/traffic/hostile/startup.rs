//! Messages before a client has named its user.

use std::thread;
use std::time::Duration;

use bytes::BytesMut;
use postgres_protocol::message::frontend;

use super::super::client::Client;
use super::super::server::PASSWORD;
use super::Attacked;

/// A first message with any length, code and rest.
fn first(length: u32, code: u32, rest: &[u8]) -> Vec<u8> {
    [&length.to_be_bytes()[..], &code.to_be_bytes(), rest].concat()
}

/// The first message of a well-behaved client.
fn startup(parameters: &[(&str, &str)]) -> Vec<u8> {
    let mut out = BytesMut::new();
    frontend::startup_message(parameters.iter().copied(), &mut out).unwrap();
    out.to_vec()
}

const PROTOCOL_3: u32 = 3 << 16;
const SSL: u32 = 80_877_103;
const GSS: u32 = 80_877_104;
const CANCEL: u32 = 80_877_102;

#[test]
fn garbage_is_refused() {
    let attacked = Attacked::impatient();
    let user = b"user\0low\0\0";
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("nothing", vec![]),
        ("HTTP", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec()),
        ("TLS at once", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".repeat(40)),
        ("zeros", vec![0; 20_000]),
        ("ones", vec![0xff; 20_000]),
        ("length 0", first(0, PROTOCOL_3, user)),
        ("length 3", first(3, PROTOCOL_3, user)),
        ("length 4", first(4, PROTOCOL_3, user)),
        ("length 7", first(7, PROTOCOL_3, user)),
        ("no parameters and no end of them", first(8, PROTOCOL_3, b"")),
        ("length 10,001", first(10_001, PROTOCOL_3, &[b'a'; 9_993])),
        ("length 2 GB", first(0x7fff_ffff, PROTOCOL_3, user)),
        ("negative length", first(0xffff_fff0, PROTOCOL_3, user)),
        ("protocol 1", first(8 + 10, 1 << 16, user)),
        ("protocol 2", first(8 + 10, 2 << 16, user)),
        ("protocol 4", first(8 + 10, 4 << 16, user)),
        ("code 0", first(8 + 10, 0, user)),
        ("no user", startup(&[("database", "x")])),
        ("an empty user", startup(&[("user", "")])),
        ("a name without value", first(8 + 10, PROTOCOL_3, b"user\0low\0x")),
        ("no zero at all", first(8 + 7, PROTOCOL_3, b"userlow")),
        ("something behind the end", first(8 + 14, PROTOCOL_3, b"user\0low\0\0rest")),
        ("a cancel without key", first(8, CANCEL, b"")),
        ("a cancel with a short key", first(11, CANCEL, b"abc")),
        ("a cancel with a long key", first(8 + 9_000, CANCEL, &[1; 9_000])),
        ("SSL with something behind", first(8, SSL, &startup(&[("user", "low")]))),
        ("SSL with a length", first(12, SSL, b"abcd")),
        ("SSL again and again", first(8, SSL, b"").repeat(1_000)),
        ("GSS and SSL in turn", [first(8, GSS, b""), first(8, SSL, b"")].concat().repeat(500)),
        ("half a message", startup(&[("user", "low")])[..9].to_vec()),
        ("a password at once", [startup(&[("user", "low")]), b"p\0\0\0\x08abc\0".to_vec()].concat()),
        ("a query at once", [startup(&[("user", "low")]), b"Q\0\0\0\x0dSELECT 1\0".to_vec()].concat()),
    ];
    for (what, bytes) in cases {
        for ends in [false, true] {
            let mut client = attacked.bare();
            // It may be refused before all of it was read.
            let _ = client.send(&bytes);
            if ends {
                let _ = client.close_sending();
            }
            assert!(client.is_closed(), "{what}: the connection stays open");
        }
    }
    attacked.stop();
}

#[test]
fn many_parameters_are_no_trouble() {
    let attacked = Attacked::start();
    // Up to the length that servers take.
    let long = "x".repeat(4_000);
    let parameters = [("user", "low"), ("database", attacked.server.database()), ("application_name", &long)];
    let mut client = Client::log_in(attacked.address(), &parameters, PASSWORD).unwrap();
    assert_eq!(client.value("SELECT 1").unwrap(), "1");
    drop(client);
    let names = (0..200).map(|number| format!("plimsoll.p{number}")).collect::<Vec<_>>();
    let mut parameters = vec![("user", "low"), ("database", attacked.server.database())];
    parameters.extend(names.iter().map(|name| (name.as_str(), "1")));
    let mut client = Client::log_in(attacked.address(), &parameters, PASSWORD).unwrap();
    assert_eq!(client.value("SHOW plimsoll.p199").unwrap(), "1");
    drop(client);
    attacked.stop();
}

#[test]
fn a_first_message_may_come_in_any_pieces() {
    let attacked = Attacked::start();
    let bytes = startup(&[("user", "low"), ("database", attacked.server.database())]);
    for split in 1..bytes.len() {
        let mut client = attacked.bare();
        client.send(&bytes[..split]).unwrap();
        thread::sleep(Duration::from_millis(1));
        client.send(&bytes[split..]).unwrap();
        client.finish_log_in(PASSWORD).unwrap();
        assert_eq!(client.value("SELECT 1").unwrap(), "1");
    }
    let mut client = attacked.bare();
    for byte in bytes {
        client.send(&[byte]).unwrap();
        thread::sleep(Duration::from_micros(100));
    }
    client.finish_log_in(PASSWORD).unwrap();
    // A request for encryption first, in the same packet and alone.
    for code in [SSL, GSS] {
        let mut client = attacked.bare();
        client.send(&first(8, code, b"")).unwrap();
        assert_eq!(client.byte().unwrap(), b'N');
        client.send(&startup(&[("user", "low"), ("database", attacked.server.database())])).unwrap();
        client.finish_log_in(PASSWORD).unwrap();
    }
    attacked.stop();
}

#[test]
fn who_takes_too_long_to_log_in_is_sent_away() {
    let attacked = Attacked::impatient();
    let bytes = startup(&[("user", "low"), ("database", attacked.server.database())]);
    let mut silent = (0..100).map(|_| attacked.bare()).collect::<Vec<_>>();
    // An occasional byte does not extend the time limit.
    let mut slow = (0..20).map(|_| attacked.bare()).collect::<Vec<_>>();
    for &byte in &bytes {
        for client in &mut slow {
            let _ = client.send(&[byte]);
        }
        thread::sleep(Duration::from_millis(60));
    }
    // Others stop when they are asked for the password.
    let mut asked = (0..20).map(|_| attacked.bare()).collect::<Vec<_>>();
    for client in &mut asked {
        client.send(&bytes).unwrap();
    }
    for client in silent.iter_mut().chain(&mut slow).chain(&mut asked) {
        assert!(client.is_closed(), "who does not log in stays");
    }
    attacked.stop();
}

#[test]
fn newer_protocols_are_negotiated() {
    let attacked = Attacked::start();
    for minor in [1, 2, 99] {
        let mut rest = b"user\0low\0database\0".to_vec();
        rest.extend_from_slice(attacked.server.database().as_bytes());
        rest.extend_from_slice(b"\0_pq_.unheard_of\0yes\0\0");
        let mut client = attacked.bare();
        client.send(&first(8 + rest.len() as u32, PROTOCOL_3 + minor, &rest)).unwrap();
        client.finish_log_in(PASSWORD).unwrap_or_else(|failure| panic!("3.{minor}: {failure}"));
        assert_eq!(client.value("SELECT 1").unwrap(), "1");
    }
    attacked.stop();
}
