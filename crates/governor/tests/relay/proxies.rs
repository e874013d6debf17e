//! The PROXY protocol on either side, and poolers that do not know every parameter.

use plimsoll_governor::settings::PassingOn;

use crate::world::*;

/// A header of version 2 for TCP over IPv4.
fn header(client: [u8; 4], client_port: u16, local: [u8; 4], local_port: u16) -> Vec<u8> {
    let ports = [client_port.to_be_bytes(), local_port.to_be_bytes()].concat();
    [&b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c"[..], &client, &local, &ports].concat()
}

/// pg_hba.conf of a pooler behind the governor saw the governor's address for every client.
#[test]
fn a_server_that_wants_it_is_told_each_clients_address() {
    let world = World::with(|settings| {
        settings.passing_on.proxy_protocol = true;
        settings.classes.iter_mut().for_each(|class| class.retry_aborted = 1);
    });
    let stream = std::net::TcpStream::connect(world.address()).unwrap();
    let (own, port) = (stream.local_addr().unwrap(), world.address().port());
    let mut client = Peer::new(stream);
    client.send(&startup(&[("user", "ann")]));
    let mut server = world.accept();
    let expected = header([127, 0, 0, 1], own.port(), [127, 0, 0, 1], port);
    assert_eq!(server.bytes(expected.len()), expected);
    assert_eq!(server.packet(), startup(&[("user", "ann")]));
    server.send(&welcome(&[5; 4]));
    client.until(b'Z');
    client.send(&query("begin"));
    server.message();
    server.send(&[tagged(b'C', b"BEGIN\0"), ready(b'T')].concat());
    client.until(b'Z');
    client.send(&query("select slow"));
    server.message();
    // A cancel of the governor's own has no client.
    drop(client);
    let mut canceller = world.accept();
    assert_eq!(canceller.bytes(16), b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0");
    assert_eq!(canceller.packet(), cancel(&[5; 4]));
}

#[test]
fn a_proxy_in_front_says_where_its_clients_are() {
    let world = World::with(|settings| settings.listen.proxy_protocol_from = vec!["127.0.0.1".parse().unwrap()]);
    let header = header([10, 1, 2, 3], 4567, [10, 0, 0, 1], 6432);
    // In pieces and in one piece.
    for (key, pieces) in [(1, header.len() + 30), (2, 1), (3, 20)] {
        let mut client = world.client();
        let all = [header.clone(), startup(&[("user", "ann")])].concat();
        for piece in all.chunks(pieces) {
            client.send(piece);
        }
        let mut server = world.accept();
        assert_eq!(server.packet(), startup(&[("user", "ann")]));
        server.send(&welcome(&[key; 4]));
        client.until(b'Z');
        assert!(world.governor.registry.all().iter().all(|card| card.peer == "10.1.2.3:4567"));
    }
    // A client that bypasses the proxy is not believed.
    let mut client = world.start_up(&[("user", "ann")]);
    client.refused("08P01", "PROXY protocol");
}

/// A header from an address that is not listed would let every client choose its address.
#[test]
fn a_header_of_anybody_else_is_refused() {
    let world = World::new();
    let mut client = world.client();
    client.send(&header([10, 1, 2, 3], 4567, [10, 0, 0, 1], 6432));
    assert_eq!(client.error().0, "08P01");
    assert!(client.is_closed());
}

/// `SHOW plimsoll.class` was an error until a session had set it, so applications could not ask.
#[test]
fn the_server_is_told_the_class() {
    let world = World::with(|settings| settings.passing_on = PassingOn { trust_clients: true, ..PassingOn::default() });
    for (user, class) in [("high1", "high"), ("ann", "low")] {
        let _client = world.start_up(&[("user", user)]);
        assert_eq!(world.accept().packet(), startup(&[("user", user), ("plimsoll.class", class)]));
    }
    // A class that a client requests is its own choice, and a break-glass user is left alone.
    for parameters in [&[("user", "high1"), ("plimsoll.class", "low")][..], &[("user", "fireman")]] {
        let _client = world.start_up(parameters);
        assert_eq!(world.accept().packet(), startup(parameters));
    }
}

#[test]
fn a_class_in_the_start_up_message_is_allowed_or_refused_like_one_that_is_set() {
    let world = World::new();
    for (parameters, expected) in [
        ([("user", "ann"), ("plimsoll.class", "high")], "42501"),
        ([("user", "ann"), ("options", "-c plimsoll.class=high")], "42501"),
        ([("user", "ann"), ("plimsoll.class", "middle")], "22023"),
    ] {
        let mut client = world.start_up(&parameters);
        assert_eq!(client.error().0, expected);
        assert!(client.is_closed());
    }
    assert!(world.nobody_comes() && world.governor.registry.is_empty());
    let parameters = [("user", "high1"), ("plimsoll.class", "low")];
    let mut client = world.start_up(&parameters);
    let mut server = world.accept();
    server.packet();
    let_in(&mut client, &mut server, &[1; 4]);
    client.send(&query("select 1"));
    server.message();
    let card = world.governor.registry.all().remove(0);
    assert_eq!(world.governor.settings().class(card.state().class).name, "low");
    server.send(&done("SELECT 1"));
    client.until(b'Z');
    assert_eq!(world.governor.settings().class(card.state().class).name, "low");
}
