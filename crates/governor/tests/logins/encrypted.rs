//! Logins over TLS: a password in clear text, and a certificate of the governor's.

use std::fs::{self, Permissions};
use std::net::TcpStream;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::sync::Arc;

use plimsoll_governor::credentials::{FailureKind, LoginFailure, ServerCredentials, ServerSession, Terms};
use plimsoll_pg::connection::client_tls;
use plimsoll_pg::secret::Secret;
use plimsoll_pg::url::ServerUrl;
use plimsoll_testing::postgres_version;
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};

use crate::certificates::{self_signed, signed};
use crate::server::{PASSWORD, Server, drive};

/// A version that accepts TLS without a request.
const DIRECT: u32 = 18;

/// Rules over TCP.
const RULES: &str = "local all plimsoll trust
hostssl all certified 127.0.0.0/8 cert map=governors
host all plain 127.0.0.0/8 password
host all all 127.0.0.0/8 scram-sha-256
";

/// Has the server listen at an address with a certificate.
fn listen(server: &mut Server, folder: &Path, address: &str) {
    self_signed(folder, "ca", "authority");
    signed(folder, "server", "server", "ca", &format!("subjectAltName=IP:{address}\n"));
    signed(folder, "governor", "governor", "ca", "basicConstraints=CA:FALSE\n");
    let data = server.own.data_folder().to_owned();
    let owner = fs::metadata(&data).unwrap();
    for file in ["server.crt", "server.key", "ca.crt"] {
        fs::copy(folder.join(file), data.join(file)).unwrap();
        chown(data.join(file), Some(owner.uid()), Some(owner.gid())).unwrap();
        fs::set_permissions(data.join(file), Permissions::from_mode(0o600)).unwrap();
    }
    fs::write(data.join("pg_hba.conf"), RULES).unwrap();
    fs::write(data.join("pg_ident.conf"), "governors governor certified\n").unwrap();
    let mut connection = server.connection();
    connection.run("CREATE ROLE certified LOGIN").unwrap();
    for (parameter, value) in [("ssl_ca_file", "ca.crt"), ("listen_addresses", address), ("ssl", "on")] {
        connection.run(&format!("ALTER SYSTEM SET {parameter} = '{value}'")).unwrap();
    }
    drop(connection);
    server.own.restart().unwrap();
}

#[test]
fn encryption_admits_a_clear_password_and_a_certificate() {
    let Some(programs) = postgres_version(DIRECT) else { return };
    let (mut server, folder) = (Server::start(Some(&programs)), tempfile::tempdir().unwrap());
    let id = std::process::id();
    // The port is fixed; no other test uses this address of this machine.
    let address = format!("127.{}.{}.{}", 60, id >> 7 & 127, 1 + (id & 127));
    listen(&mut server, folder.path(), &address);
    let place = format!("{address}:{}", server.own.port());
    let database = server.own.database();
    let Ok(Secret::Clear(clear)) = Secret::parse("plain", PASSWORD) else { panic!("it is a password") };
    let clear = || ServerCredentials::Clear(clear.clone());

    let open = |user: &str, credentials: ServerCredentials| -> Result<ServerSession, LoginFailure> {
        let terms = Terms { is_private: false, must_be_asked: true };
        drive(&mut TcpStream::connect(&place).unwrap(), user, database, credentials, terms)
    };
    let encrypted = |user: &str, credentials: ServerCredentials, must_be_asked: bool| {
        let file = |name: &str| folder.path().join(name).display().to_string();
        let own = format!("sslcert={}&sslkey={}", file("governor.crt"), file("governor.key"));
        let url = format!("postgres://x@{place}/x?sslmode=verify-full&sslrootcert={}&{own}", file("ca.crt"));
        let config = client_tls(&ServerUrl::parse_in(&url, &|_| None).unwrap()).unwrap();
        let name = ServerName::try_from(address.clone()).unwrap();
        let connection = ClientConnection::new(Arc::new(config), name).unwrap();
        let mut stream = StreamOwned::new(connection, TcpStream::connect(&place).unwrap());
        drive(&mut stream, user, database, credentials, Terms { is_private: true, must_be_asked })
    };
    let failure = open("plain", clear()).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Credentials, "{failure}");
    assert!(failure.message.contains("over an open connection"), "{failure}");
    encrypted("plain", clear(), true).unwrap();
    // The server offers channel binding here, which is not required.
    open("scram", clear()).unwrap();
    encrypted("scram", clear(), true).unwrap();
    // The certificate is the governor's: it says nothing about a client.
    let failure = encrypted("certified", ServerCredentials::None, true).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Unasked, "{failure}");
    encrypted("certified", ServerCredentials::None, false).unwrap();
    let failure = encrypted("other", ServerCredentials::None, false).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Credentials, "{failure}");
}
