//! Clients that must show a certificate, and the proof that it gives.

use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;

use plimsoll_governor::config::{Surroundings, parse};
use plimsoll_governor::settings::Settings;
use plimsoll_pg::connection::PROTOCOL;
use rustls::{ServerConnection, StreamOwned};

use crate::certificates::{self_signed, signed};
use crate::tls::{certificate, encrypted, server};
use crate::world::*;

/// Two authorities, and a certificate of each for `ann`.
fn certify(folder: &Path) {
    for authority in ["ours", "strange"] {
        self_signed(folder, authority, authority);
        signed(folder, &format!("ann-of-{authority}"), "ann", authority, "basicConstraints=CA:FALSE\n");
    }
}

/// The settings of a file with those lines in `[listen.tls]`, or its faults.
fn settings_of(folder: &Path, lines: &str) -> Result<Settings, String> {
    let text = format!(
        "server = \"postgres://x@localhost\"\n[listen.tls]\ncertificate = \"server.crt\"\nkey = \"server.key\"\n{lines}\n"
    );
    let surroundings = Surroundings { folder, environment: &|_| None, classes: &[] };
    parse(&text, "x.toml", &surroundings).map(|config| config.settings).map_err(|error| error.to_string())
}

/// A client that speaks TLS at once, with a certificate if one is named, and has sent its user.
fn client(world: &World, folder: &Path, own: Option<&str>, user: &str) -> Peer {
    let own = own.map(|own| format!("&sslcert={0}/{own}.crt&sslkey={0}/{own}.key", folder.display()));
    let url = format!("postgres://ann@localhost/shop?sslmode=require{}", own.unwrap_or_default());
    let mut client = encrypted(TcpStream::connect(world.address()).unwrap(), &url, &[PROTOCOL]);
    // A client whose certificate was refused may already be disconnected.
    let _ = client.stream.write_all(&startup(&[("user", user)]));
    client
}

/// Only clients with a role's certificate may log in as a role that the server admits by certificate alone, although
/// the server sees the governor's certificate.
#[test]
fn a_certificate_proves_who_its_client_is_and_nothing_else() {
    let (folder, servers_own) = certificate();
    let folder = folder.path();
    certify(folder);
    let listening = settings_of(folder, "client_ca = \"ours.crt\"\nrequired = true").unwrap().listen;
    let world = World::with(|all| {
        (all.listen.tls, all.listen.tls_required) = (listening.tls, true);
        // The governor shows a certificate of its own, so the server's request proves nothing about clients.
        let own = format!("sslcert={0}/server.crt&sslkey={0}/server.key", folder.display());
        all.server = server(all, &format!("sslmode=require&sslnegotiation=direct&{own}"));
        all.passing_on.trust_clients = false;
    });
    let accept = || {
        let (stream, _) = world.server.accept().unwrap();
        Peer::new(StreamOwned::new(ServerConnection::new(Arc::clone(&servers_own)).unwrap(), stream))
    };
    for (user, is_let_in) in [("ann", true), ("root", false)] {
        let mut client = client(&world, folder, Some("ann-of-ours"), user);
        let mut server = accept();
        assert_eq!(server.packet(), startup(&[("user", user)]));
        server.send(&welcome(&[1; 4]));
        if is_let_in {
            assert_eq!(client.until(b'Z'), welcome(&[1; 4]));
        } else {
            assert_eq!(client.error().0, "28000");
        }
    }
    for own in [None, Some("ann-of-strange")] {
        let mut refused = client(&world, folder, own, "ann");
        assert!(!matches!(refused.read(&mut [0]), Ok(1..)), "{own:?} is let in");
    }
    // Without encryption, a client cannot show a certificate.
    let mut plain = world.start_up(&[("user", "ann")]);
    assert_eq!(plain.error().0, "28000");
    assert!(world.nobody_comes());
}

#[test]
fn authorities_of_clients_are_checked() {
    let (folder, _) = certificate();
    let folder = folder.path();
    certify(folder);
    let check = |lines: &str, expect: &str| {
        let error = settings_of(folder, lines).expect_err(expect);
        assert!(error.contains(expect), "{error}");
    };
    check("client_ca = \"ours.crt\"", "client_ca needs required = true");
    check("client_ca = \"none.crt\"\nrequired = true", "cannot take authorities from");
    check("client_ca = \"ours.key\"\nrequired = true", "cannot take authorities from");
}
