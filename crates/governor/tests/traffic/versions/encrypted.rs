//! TLS with a version: the governor's certificate at the server, the server's certificate at the governor, TLS without
//! a request.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

use plimsoll_testing::postgres_version;

use super::super::certificates::{self_signed, signed};
use super::super::client::Client;
use super::super::drivers::connecting_to;
use super::super::governed::Governed;
use super::super::server::Server;
use super::with_libpq;

/// The first version that accepts TLS without a request.
const DIRECT_SINCE: u32 = 17;

/// Authentication rules over TCP: by password with a certificate of the authority, and one role by certificate alone.
const RULES: &str = "local all plimsoll trust
local all all scram-sha-256
hostssl all low_cert 127.0.0.0/8 cert map=governors
hostssl all all 127.0.0.0/8 scram-sha-256 clientcert=verify-ca
";

/// The version whose libpq is the client.
const NEWEST_LIBPQ: u32 = 18;

pub fn check(server: &mut Server, major: u32) {
    let Some(newest) = &postgres_version(NEWEST_LIBPQ) else { return };
    let own = tempfile::tempdir().unwrap();
    let id = std::process::id();
    // The port is fixed; no other test uses this address of this machine.
    let address = format!("127.{}.{}.{}", 128 + major, id >> 7 & 127, 1 + (id & 127));
    certify(own.path(), &address);
    listen(server, own.path(), &address);

    let file = |name: &str| own.path().join(name).display().to_string();
    let url = |more: &str| {
        let (port, root) = (server.own().port(), file("ca.crt"));
        format!("postgres://{address}:{port}/?sslmode=verify-full&sslrootcert={root}{more}")
    };
    let certificate = format!("&sslcert={}&sslkey={}", file("governor.crt"), file("governor.key"));
    let tls = format!("tls = {{ certificate = \"{}\", key = \"{}\" }}", file("server.crt"), file("server.key"));

    let governed = Governed::start_at(&url(&certificate), "", &tls, "");
    let of_server = "SELECT client_dn FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
    for user in ["low", "low_cert"] {
        assert_eq!(governed.client(user, server.database()).value(of_server).unwrap(), "/CN=governor", "{user}");
    }
    for negotiation in ["postgres", "direct"] {
        let mut psql = with_libpq(Command::new("psql"), NEWEST_LIBPQ, newest);
        // The governor shows the server's own certificate, so a login may be bound to it.
        psql.env("PGSSLMODE", "require").env("PGCHANNELBINDING", "require").env("PGSSLNEGOTIATION", negotiation);
        connecting_to(&mut psql, governed.address, server.database());
        let said = psql.args(["-XAtc", of_server]).output().unwrap();
        let error = String::from_utf8_lossy(&said.stderr);
        assert_eq!(String::from_utf8_lossy(&said.stdout).trim(), "/CN=governor", "{negotiation}: {error}");
    }
    drop(governed);

    // Without a certificate the server admits no client.
    let governed = Governed::start_at(&url(""), "", "", "");
    let refused = Client::connect(governed.address, "low", server.database()).expect_err("no certificate was shown");
    assert_eq!(refused.state(), Some("28000"), "{refused}");
    drop(governed);

    let governed = Governed::start_at(&url(&format!("{certificate}&sslnegotiation=direct")), "", "", "");
    let direct = Client::connect(governed.address, "low", server.database());
    match direct {
        Ok(mut client) if major >= DIRECT_SINCE => assert_eq!(client.value(of_server).unwrap(), "/CN=governor"),
        Err(failure) if major < DIRECT_SINCE => assert_eq!(failure.state(), Some("08001"), "{failure}"),
        Ok(_) => panic!("PostgreSQL {major} takes encryption without asking"),
        Err(failure) => panic!("{failure}"),
    }
}

/// An authority, and certificates that it has signed: the server's for its address, and the governor's.
fn certify(folder: &Path, address: &str) {
    self_signed(folder, "ca", "authority");
    signed(folder, "server", "server", "ca", &format!("subjectAltName=IP:{address}\n"));
    signed(folder, "governor", "governor", "ca", "basicConstraints=CA:FALSE\n");
}

/// Has the server listen at that address with its certificate, and require one that the authority has signed.
fn listen(server: &mut Server, folder: &Path, address: &str) {
    let data = server.own().data_folder().to_owned();
    let owner = fs::metadata(&data).unwrap();
    for file in ["server.crt", "server.key", "ca.crt"] {
        fs::copy(folder.join(file), data.join(file)).unwrap();
        chown(data.join(file), Some(owner.uid()), Some(owner.gid())).unwrap();
        fs::set_permissions(data.join(file), Permissions::from_mode(0o600)).unwrap();
    }
    fs::write(data.join("pg_hba.conf"), RULES).unwrap();
    fs::write(data.join("pg_ident.conf"), "governors governor low_cert\n").unwrap();
    let mut connection = server.connection();
    connection.run("CREATE ROLE low_cert LOGIN").unwrap();
    for (parameter, value) in [("ssl_ca_file", "ca.crt"), ("listen_addresses", address), ("ssl", "on")] {
        connection.run(&format!("ALTER SYSTEM SET {parameter} = '{value}'")).unwrap();
    }
    drop(connection);
    server.restart();
}
