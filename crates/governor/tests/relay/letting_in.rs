//! From the first byte to the first query.

use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::world::*;

const TLS: [u16; 2] = [1234, 5679];
const GSS: [u16; 2] = [1234, 5680];

#[test]
fn a_startup_message_in_single_bytes_is_passed_on_as_it_is() {
    let world = World::new();
    let mut client = world.client();
    let packet = startup(&[("user", "ann"), ("database", "shop"), ("options", "-c search_path=x"), ("_pq_.y", "1")]);
    for byte in &packet {
        client.send(&[*byte]);
    }
    let mut server = world.accept();
    assert_eq!(server.packet(), packet);
    for byte in welcome(&[1; 4]) {
        server.send(&[byte]);
    }
    assert_eq!(client.until(b'Z'), welcome(&[1; 4]));
    for byte in query("select 1") {
        client.send(&[byte]);
    }
    assert_eq!(server.message(), query("select 1"));
    server.send(&done("SELECT 0"));
    assert_eq!(client.until(b'Z'), done("SELECT 0"));
    let card = world.governor.registry.all().remove(0);
    assert_eq!((card.login.user.as_str(), card.login.database.as_str(), card.process()), ("ann", "shop", Some(7)));
}

#[test]
fn encryption_is_answered_even_if_there_is_none() {
    let world = World::new();
    let mut client = world.client();
    for request in [GSS, TLS] {
        client.send(&packet(request, b""));
        assert_eq!(client.bytes(1), b"N");
    }
    client.send(&startup(&[("user", "ann")]));
    assert_eq!(world.accept().packet(), startup(&[("user", "ann")]));
    let mut client = world.client();
    client.send(&packet(TLS, b""));
    assert_eq!(client.bytes(1), b"N");
    client.send(&packet(TLS, b""));
    assert_eq!(client.error().0, "08P01");
}

#[test]
fn what_follows_a_request_for_encryption_in_plain_text_is_refused() {
    // CVE-2021-23214: an attacker in between appends data to the client's message.
    let world = World::new();
    for request in [GSS, TLS] {
        let mut client = world.client();
        client.send(&[packet(request, b""), startup(&[("user", "ann")])].concat());
        assert_eq!(client.error().0, "08P01");
        assert!(client.is_closed());
    }
    assert!(world.nobody_comes());
}

#[test]
fn nonsense_is_refused_and_others_are_served() {
    let world = World::new();
    let (mut other, mut server) = world.session("ann", &[1; 4]);
    for (nonsense, code) in [
        (b"GET / HTTP/1.1\r\n\r\n".to_vec(), "08P01"),
        (vec![0; 8], "08P01"),
        (packet([2, 0], b""), "0A000"),
        (startup(&[("database", "shop")]), "28000"),
        (startup(&[("user", &"x".repeat(10_000))]), "08P01"),
        (startup(&[("user", "ann"), ("replication", "perhaps")]), "22023"),
    ] {
        let mut client = world.client();
        client.send(&nonsense);
        assert_eq!(client.error().0, code);
        assert!(client.is_closed());
    }
    other.send(&query("select 1"));
    assert_eq!(server.message(), query("select 1"));
}

#[test]
fn whoever_says_nothing_is_shown_out() {
    let world = World::with(|settings| settings.listen.login_timeout = Duration::from_millis(50));
    let mut silent = world.client();
    let mut slow = world.client();
    slow.send(&startup(&[("user", "ann")])[..9]);
    assert!(silent.is_closed() && slow.is_closed());
    // Nor may a password take forever.
    let mut client = world.start_up(&[("user", "ann")]);
    let mut server = world.accept();
    server.packet();
    server.send(&tagged(b'R', &[0, 0, 0, 3]));
    assert_eq!(client.error().0, "57014");
    assert!(server.is_closed());
}

#[test]
fn one_client_too_many_is_told_so_unless_it_is_to_break_the_glass() {
    let world = World::with(|settings| settings.listen.clients_max = 1);
    let (first, server) = world.session("ann", &[1; 4]);
    let mut second = world.start_up(&[("user", "bob")]);
    assert_eq!(second.error().0, "53300");
    let _fireman = world.session("fireman", &[2; 4]);
    drop((first, server));
    // A place is free as soon as the relay has noticed the disconnect; the break-glass user took none.
    until("the first client to be gone", || world.governor.registry.len() == 1);
    let _third = world.session("bob", &[3; 4]);
}

#[test]
fn a_server_that_is_not_there_is_named() {
    let world = World::with(|settings| {
        // A port that was closed again.
        settings.server.port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    });
    let mut client = world.start_up(&[("user", "ann")]);
    let text = client.refused("08001", "127.0.0.1");
    assert!(text.contains("refused"), "{text}");
    assert!(client.is_closed());
    assert!(world.governor.registry.is_empty());
}

#[test]
fn a_server_is_found_by_name() {
    let world = World::with(|settings| settings.server.host = plimsoll_pg::url::ServerHost::Tcp("localhost".into()));
    let _session = world.session("ann", &[1; 4]);
}

#[test]
fn clients_come_by_unix_sockets_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_owned();
    let world = World::with(|settings| settings.listen.socket_folders = vec![path.clone()]);
    let socket = path.join(format!(".s.PGSQL.{}", world.address().port()));
    let mut client = Peer::new(UnixStream::connect(&socket).unwrap());
    // PostgreSQL does not encrypt local connections.
    client.send(&packet(TLS, b""));
    assert_eq!(client.bytes(1), b"N");
    client.send(&startup(&[("user", "ann")]));
    let mut server = world.accept();
    server.packet();
    let_in(&mut client, &mut server, &[3; 32]);
    drop(world);
    assert!(!socket.exists());
}

#[test]
fn clients_are_dealt_out_to_all_workers() {
    let world = World::with(|settings| settings.listen.workers = 2);
    let _sessions = [1, 2, 3, 4].map(|key| world.session("ann", &[key; 4]));
    let mut workers: Vec<usize> = world.governor.registry.all().iter().map(|card| card.worker).collect();
    workers.sort_unstable();
    assert_eq!(workers, [0, 0, 1, 1]);
}
