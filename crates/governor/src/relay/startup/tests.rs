//! Whole, split, and hostile first packets.

use proptest::prelude::*;

use super::*;

fn packet(version: u32, body: &[u8]) -> Vec<u8> {
    let mut bytes = (body.len() as u32 + 8).to_be_bytes().to_vec();
    bytes.extend(version.to_be_bytes());
    bytes.extend(body);
    bytes
}

fn session(parameters: &[(&str, &str)]) -> Vec<u8> {
    let mut body = Vec::new();
    for (name, value) in parameters {
        body.extend(format!("{name}\0{value}\0").bytes());
    }
    body.push(0);
    packet(code(3, 0), &body)
}

fn check(bytes: &[u8], expect: Result<Packet, &str>) {
    match (read(bytes), expect) {
        (Ok(Some((packet, length))), Ok(expected)) => {
            let packet = match packet {
                Packet::Session(startup) => Packet::Session(Startup { others: 0, parameters: Vec::new(), ..startup }),
                packet => packet,
            };
            assert_eq!((packet, length), (expected, bytes.len()));
        }
        (Err(Refused(code, _)), Err(expected)) => assert_eq!(code, expected),
        (other, expected) => panic!("{other:?} instead of {expected:?}"),
    }
}

fn is(user: &str, database: &str, application_name: &str, is_replication: bool) -> Result<Packet, &'static str> {
    let login =
        Login { user: user.to_owned(), database: database.to_owned(), application_name: application_name.to_owned() };
    let (parameters, timeouts) = (Vec::new(), Timeouts::default());
    Ok(Packet::Session(Startup { login, is_replication, class: None, parameters, others: 0, timeouts }))
}

#[test]
fn sessions_say_who_they_are() {
    check(&session(&[("user", "ann")]), is("ann", "ann", "", false));
    check(&session(&[("database", "shop"), ("user", "ann"), ("application_name", "x")]), is("ann", "shop", "x", false));
    check(&session(&[("user", "ann"), ("replication", "database")]), is("ann", "ann", "", true));
    check(&session(&[("user", "ann"), ("replication", "T")]), is("ann", "ann", "", true));
    check(&session(&[("user", "ann"), ("replication", "of")]), is("ann", "ann", "", false));
    check(&session(&[("user", "ann"), ("replication", "maybe")]), Err("22023"));
    check(&session(&[("user", "")]), Err("28000"));
    check(&session(&[]), Err("28000"));
    // Protocol 3.2 with an option of its own: the server answers it.
    check(&packet(code(3, 2), b"user\0ann\0_pq_.x\x001\0\0"), is("ann", "ann", "", false));
}

/// `break_glass = ["fireman"]`, and rules for `shop*`, apply to the names that the server uses. It truncates long ones,
/// so a client with a longer name was one user to the governor and another to the server.
#[test]
fn long_names_are_cut_as_the_server_cuts_them() {
    let (long, cut) = ("x".repeat(80), "x".repeat(63));
    check(&session(&[("user", &long)]), is(&cut, &cut, "", false));
    check(&session(&[("user", "ann"), ("database", &long)]), is("ann", &cut, "", false));
    // Within a two-byte character, too; no role has such a name.
    let letters = "x".repeat(62) + "é";
    check(
        &session(&[("user", &letters)]),
        is(&("x".repeat(62) + "\u{fffd}"), &("x".repeat(62) + "\u{fffd}"), "", false),
    );
}

#[test]
fn a_class_is_asked_for_in_several_ways() {
    let asked = |parameters: &[(&str, &str)]| match read(&session(parameters)) {
        Ok(Some((Packet::Session(startup), _))) => startup.class,
        other => panic!("{other:?}"),
    };
    let options = |options: &str| asked(&[("user", "ann"), ("options", options)]);
    assert_eq!(asked(&[("user", "ann")]), None);
    assert_eq!(asked(&[("user", "ann"), ("Plimsoll.Class", "high")]).as_deref(), Some("high"));
    assert_eq!(options("-c plimsoll.class=high").as_deref(), Some("high"));
    assert_eq!(options(r" -cplimsoll.class=very\ high  -c a=b").as_deref(), Some("very high"));
    assert_eq!(options("-c plimsoll.class=high --plimsoll.class=low").as_deref(), Some("low"));
    assert_eq!(options("-c work_mem=1MB --x -c"), None);
    let both = [("user", "ann"), ("options", "-c plimsoll.class=high"), ("plimsoll.class", "low")];
    assert_eq!(asked(&both).as_deref(), Some("low"));
}

#[test]
fn a_class_is_announced_where_there_is_room() {
    let mut packet = session(&[("user", "ann")]);
    announce(&mut packet, "high");
    assert_eq!(packet, session(&[("user", "ann"), ("plimsoll.class", "high")]));
    let full = session(&[("user", "ann"), ("options", &"x".repeat(9_970))]);
    let mut packet = full.clone();
    announce(&mut packet, "high");
    assert_eq!(packet, full);
}

#[test]
fn requests_for_encryption_are_eight_bytes() {
    check(&packet(TLS, b""), Ok(Packet::Tls));
    check(&packet(GSS, b""), Ok(Packet::Gss));
    check(&packet(TLS, b"x"), Err("08P01"));
}

#[test]
fn keys_for_cancelling_have_4_to_256_bytes() {
    let cancel = |secret: &[u8]| packet(CANCEL, &[&7_i32.to_be_bytes()[..], secret].concat());
    for length in [4, 32, 256] {
        let secret = vec![9; length];
        check(&cancel(&secret), Ok(Packet::Cancel { process: 7, secret: secret.clone().into(), is_forwarded: false }));
    }
    for length in [0, 3, 257] {
        check(&cancel(&vec![9; length]), Err("08P01"));
    }
    check(&packet(CANCEL, b""), Err("08P01"));
}

#[test]
fn nonsense_is_refused() {
    check(&packet(code(2, 0), b""), Err("0A000"));
    check(&packet(code(4, 0), b"user\0ann\0\0"), Err("0A000"));
    check(b"GET / HTTP/1.1\r\n\r\n", Err("08P01"));
    check(&[0, 0, 0, 7, 0, 0, 0], Err("08P01"));
    check(&[0xff; 8], Err("08P01"));
    check(&packet(code(3, 0), b"user\0ann"), Err("08P01"));
    check(&packet(code(3, 0), b"user\0ann\0"), Err("08P01"));
    check(&packet(code(3, 0), b"user\0ann\0\0more"), Err("08P01"));
    check(&packet(code(3, 0), b""), Err("08P01"));
    let long = "x".repeat(PACKET_MAX);
    check(&session(&[("user", &long)]), Err("08P01"));
}

proptest! {
    #[test]
    fn part_of_a_packet_is_waited_for(end in 0_usize..40) {
        let whole = session(&[("user", "ann"), ("database", "shop"), ("application_name", "x")]);
        prop_assert_eq!(read(&whole[..end]), Ok(None));
    }

    #[test]
    fn nothing_makes_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80), length in 0_u32..80) {
        let _ = read(&bytes);
        let sized: Vec<u8> = length.to_be_bytes().into_iter().chain([0, 3, 0, 0]).chain(bytes).collect();
        let _ = read(&sized);
    }
}
