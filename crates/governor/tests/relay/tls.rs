//! TLS between clients and the governor, and between it and the server.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use plimsoll_governor::settings::Settings;
use plimsoll_pg::connection::{PROTOCOL, client_tls};
use plimsoll_pg::url::ServerUrl;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConnection, ServerConfig, ServerConnection, StreamOwned};

use crate::certificates::self_signed;
use crate::world::*;

/// The URL that clients use.
const URL: &str = "postgres://ann@localhost/shop?sslmode=require";

/// A self-signed certificate for `localhost`, and its folder.
pub fn certificate() -> (tempfile::TempDir, Arc<ServerConfig>) {
    let folder = tempfile::tempdir().unwrap();
    self_signed(folder.path(), "server", "localhost");
    let certificate = CertificateDer::from_pem_file(folder.path().join("server.crt")).unwrap();
    let key = PrivateKeyDer::from_pem_file(folder.path().join("server.key")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let mut config = builder.with_no_client_auth().with_single_cert(vec![certificate], key).unwrap();
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    (folder, Arc::new(config))
}

impl Stream for StreamOwned<ClientConnection, TcpStream> {
    fn wait(&self, at_most: Duration) {
        self.sock.wait(at_most);
    }
}

impl Stream for StreamOwned<ServerConnection, TcpStream> {
    fn wait(&self, at_most: Duration) {
        self.sock.wait(at_most);
    }
}

/// The URL of the test's server, with these parameters.
pub fn server(settings: &Settings, parameters: &str) -> ServerUrl {
    url(&format!("postgres://x@localhost:{}/x?{parameters}", settings.server.port))
}

/// Starts TLS on a connection as a client of that URL, and offers these protocols.
pub fn encrypted(stream: TcpStream, server: &str, protocols: &[&[u8]]) -> Peer {
    let mut config = client_tls(&url(server)).unwrap();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    let connection = ClientConnection::new(Arc::new(config), ServerName::try_from("localhost").unwrap()).unwrap();
    Peer::new(StreamOwned::new(connection, stream))
}

/// Starts TLS without a request, and offers these protocols.
fn encrypt_at_once(address: SocketAddr, protocols: &[&[u8]]) -> Peer {
    encrypted(TcpStream::connect(address).unwrap(), URL, protocols)
}

/// Requests TLS, and starts it.
fn encrypt(address: SocketAddr) -> Peer {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(&packet([1234, 5679], b"")).unwrap();
    let mut answer = [0];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"S");
    encrypted(stream, URL, &[PROTOCOL])
}

/// Accepts a connection that requests TLS.
fn accept_encrypted(world: &World, settings: &Arc<ServerConfig>) -> Peer {
    let (stream, _) = world.server.accept().unwrap();
    stream.wait(PATIENCE);
    let mut plain = Peer::new(stream.try_clone().unwrap());
    assert_eq!(plain.packet(), packet([1234, 5679], b""));
    plain.send(b"S");
    Peer::new(StreamOwned::new(ServerConnection::new(Arc::clone(settings)).unwrap(), stream))
}

#[test]
fn both_sides_may_be_encrypted() {
    let (folder, settings) = certificate();
    let root = folder.path().join("server.crt");
    let world = World::with(|all| {
        all.listen.tls = Some(Arc::clone(&settings));
        all.server = server(all, &format!("sslmode=verify-full&sslrootcert={}", root.display()));
    });
    let mut client = encrypt(world.address());
    client.send(&startup(&[("user", "ann")]));
    let mut server = accept_encrypted(&world, &settings);
    assert_eq!(server.packet(), startup(&[("user", "ann")]));
    let_in(&mut client, &mut server, &[1; 4]);
    // More than TLS takes at once, both ways.
    let long = query(&"x".repeat(3_000_000));
    let reader = std::thread::spawn(move || {
        assert_eq!(server.message().len(), 3_000_006);
        server.send(&[tagged(b'D', &vec![9; 3_000_000]), done("SELECT 1")].concat());
        server
    });
    client.send(&long);
    assert_eq!(client.until(b'Z'), [tagged(b'D', &vec![9; 3_000_000]), done("SELECT 1")].concat());
    let mut server = reader.join().unwrap();
    // Many small messages in one record, and one message in many records.
    for byte in query("select 1") {
        client.send(&[byte]);
    }
    assert_eq!(server.message(), query("select 1"));
    server.send(&[tagged(b'N', b"x\0").repeat(5000), done("SELECT 1")].concat());
    assert_eq!(client.until(b'Z').len(), 5000 * 7 + done("SELECT 1").len());
}

#[test]
fn a_client_without_tls_is_refused_where_it_is_required() {
    let (_, settings) = certificate();
    let world = World::with(|all| {
        all.listen.tls = Some(settings);
        all.listen.tls_required = true;
    });
    let mut plain = world.start_up(&[("user", "ann")]);
    plain.refused("28000", "sslmode=require");
    let mut client = encrypt(world.address());
    client.send(&startup(&[("user", "ann")]));
    world.accept();
}

#[test]
fn a_server_without_tls_is_taken_only_if_that_was_said() {
    for (mode, is_taken) in [("prefer", true), ("require", false)] {
        let world = World::with(|all| {
            all.server = url(&format!("postgres://x@127.0.0.1:{}/x?sslmode={mode}", all.server.port));
        });
        let mut client = world.start_up(&[("user", "ann")]);
        let mut server = world.accept();
        assert_eq!(server.packet(), packet([1234, 5679], b""));
        server.send(b"N");
        if is_taken {
            assert_eq!(server.packet(), startup(&[("user", "ann")]));
        } else {
            let text = client.refused("08001", "sslmode=require");
            assert!(!text.contains("Is PostgreSQL running"), "it is: {text}");
        }
    }
}

#[test]
fn a_server_with_another_certificate_is_refused() {
    let (_, settings) = certificate();
    let (other, _) = certificate();
    let root = other.path().join("server.crt");
    let world =
        World::with(|all| all.server = server(all, &format!("sslmode=verify-full&sslrootcert={}", root.display())));
    let mut client = world.start_up(&[("user", "ann")]);
    let mut server = accept_encrypted(&world, &settings);
    assert!(server.read(&mut [0]).is_err(), "the governor said something to a stranger");
    let text = client.refused("08001", "certificate");
    assert!(text.contains("sslrootcert") && !text.contains("Is PostgreSQL running"), "{text}");
    assert!(fs::exists(&root).unwrap());
}

#[test]
fn garbage_instead_of_tls_ends_the_connection() {
    let (_, settings) = certificate();
    let world = World::with(|all| all.listen.tls = Some(settings));
    let mut client = world.client();
    client.send(&packet([1234, 5679], b""));
    assert_eq!(client.bytes(1), b"S");
    client.send(&[7; 100]);
    let mut rest = Vec::new();
    let _ = client.stream.read_to_end(&mut rest);
    // An alert of TLS at most.
    assert!(rest.is_empty() || rest[0] == 0x15, "{rest:?}");
}

#[test]
fn clients_may_speak_tls_without_asking() {
    let (_, settings) = certificate();
    let world = World::with(|all| all.listen.tls = Some(settings));
    let mut client = encrypt_at_once(world.address(), &[PROTOCOL]);
    client.send(&startup(&[("user", "ann")]));
    let mut server = world.accept();
    assert_eq!(server.packet(), startup(&[("user", "ann")]));
    let_in(&mut client, &mut server, &[5; 32]);
    client.send(&query("select 1"));
    assert_eq!(server.message(), query("select 1"));
    // A second handshake within TLS, or after a request for it, is not a valid start.
    let mut nested = encrypt_at_once(world.address(), &[PROTOCOL]);
    nested.send(&[0x16, 3, 1, 0, 5, 1, 0, 0, 1, 0]);
    assert_eq!(nested.error().0, "08P01");
}

/// A web page can have a browser send any bytes to a port that speaks TLS with the certificate of the page's host. It
/// cannot make it offer PostgreSQL's protocol.
#[test]
fn who_speaks_tls_without_asking_must_say_which_protocol() {
    let (_, settings) = certificate();
    let world = World::with(|all| all.listen.tls = Some(settings));
    for protocols in [&[][..], &[&b"http/1.1"[..]]] {
        let mut client = encrypt_at_once(world.address(), protocols);
        let _ = client.stream.write_all(&startup(&[("user", "ann")]));
        let mut rest = Vec::new();
        let _ = client.stream.read_to_end(&mut rest);
        assert_eq!(rest, b"", "{protocols:?}");
    }
    assert!(world.nobody_comes());
    // Without a certificate there is no protocol to offer.
    let world = World::new();
    let mut client = world.client();
    client.send(&[0x16, 3, 1, 2, 0, 1, 0]);
    assert!(client.is_closed());
}

#[test]
fn the_server_may_be_spoken_to_in_tls_without_asking() {
    let (folder, settings) = certificate();
    let root = folder.path().join("server.crt");
    let world = World::with(|all| {
        let parameters = format!("sslmode=verify-full&sslnegotiation=direct&sslrootcert={}", root.display());
        all.server = server(all, &parameters);
    });
    let mut client = world.start_up(&[("user", "ann")]);
    let (stream, _) = world.server.accept().unwrap();
    let connection = ServerConnection::new(Arc::clone(&settings)).unwrap();
    let mut server = Peer::new(StreamOwned::new(connection, stream));
    assert_eq!(server.packet(), startup(&[("user", "ann")]));
    let_in(&mut client, &mut server, &[1; 4]);

    // Another server with the same certificate, to which an attacker has diverted the connection.
    let mut other = ServerConfig::clone(&settings);
    other.alpn_protocols.clear();
    let mut client = world.start_up(&[("user", "ann")]);
    let (stream, _) = world.server.accept().unwrap();
    let mut server = Peer::new(StreamOwned::new(ServerConnection::new(Arc::new(other)).unwrap(), stream));
    let _ = server.read(&mut [0; 100]);
    client.refused("08001", "sslnegotiation=direct");

    // A client from before version 17 sees a packet of an impossible length, and closes.
    let mut client = world.start_up(&[("user", "ann")]);
    drop(world.server.accept().unwrap());
    client.refused("08001", "needs PostgreSQL 17");
}

/// The server admits the user that the certificate names, and that is the governor.
#[test]
fn the_governors_certificate_proves_nothing_about_its_clients() {
    let (folder, settings) = certificate();
    for (trust_clients, is_let_in) in [(false, false), (true, true)] {
        let world = World::with(|all| {
            let folder = folder.path().display();
            let own = format!("sslcert={folder}/server.crt&sslkey={folder}/server.key");
            all.server = server(all, &format!("sslmode=require&{own}"));
            all.passing_on.trust_clients = trust_clients;
        });
        let mut client = world.start_up(&[("user", "ann")]);
        let mut server = accept_encrypted(&world, &settings);
        assert_eq!(server.packet(), startup(&[("user", "ann")]));
        server.send(&welcome(&[1; 4]));
        if is_let_in {
            client.until(b'Z');
        } else {
            client.refused("28000", "trust_clients");
        }
    }
}
