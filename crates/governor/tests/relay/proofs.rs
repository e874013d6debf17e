//! Authentication: a real server that trusts the governor's connection, and TLS on both sides.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::process::Command;

use plimsoll_governor::settings::Address;
use plimsoll_pg::connection::Connection;
use plimsoll_pg::url::{ServerUrl, account_name};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::postgres::{direct, governed, server};
use crate::tls::certificate;
use crate::world::*;

/// The governor and its server run on one machine, and pg_hba.conf has `peer` for the Unix socket between them. Any
/// client that reached the governor's TCP port logged in as the role of the governor's account, without a password.
#[test]
fn a_client_does_not_become_the_role_of_the_governors_account() {
    let server = server();
    let (account, role) = (account_name().unwrap(), server.user());
    let mut connection = Connection::open(&direct(&server)).unwrap();
    fs::write(server.data_folder().join("pg_ident.conf"), format!("m {account} {role}\n")).unwrap();
    fs::write(server.data_folder().join("pg_hba.conf"), "local all all peer map=m\n").unwrap();
    connection.run("select pg_reload_conf()").unwrap();
    // The postmaster reloads it asynchronously; the last line is about another role.
    until("peer to hold", || {
        let url = ServerUrl::of_socket(server.socket_folder(), server.port(), "nobody", server.database());
        Connection::open(&url).unwrap_err().to_string().contains("eer authentication failed")
    });
    for is_trusted in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let governed = governed(direct(&server), |settings| {
            settings.passing_on.trust_clients = is_trusted;
            settings.listen.socket_folders = vec![folder.path().to_owned()];
        });
        let tcp = format!("postgres://{role}@{}/{}?sslmode=disable", tcp_address(&governed.1), server.database());
        let tcp = Connection::open(&url(&tcp));
        if is_trusted {
            assert_eq!(tcp.unwrap().text("select 1").unwrap().as_deref(), Some("1"));
        } else {
            let error = tcp.unwrap_err().to_string();
            assert!(error.contains("without asking for a password"), "{error}");
        }
        // The server would admit the same account at the governor's socket as well.
        assert!(governed.1.addresses().iter().any(|address| matches!(address, Address::Socket(_))));
        let port = tcp_address(&governed.1).port();
        let local = ServerUrl::of_socket(folder.path(), port, role, server.database());
        let mut local = Connection::open(&local).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(local.text("select current_user::text").unwrap().as_deref(), Some(role));
    }
}

/// `SHOW plimsoll.class` was an error until a session had set it.
#[test]
fn a_real_server_shows_the_class() {
    let server = server();
    let governed = governed(direct(&server), |settings| settings.passing_on.announce_class = true);
    let url = |user: &str, options: &str| {
        let address = tcp_address(&governed.1);
        format!(
            "host={} port={} user={user} dbname=postgres sslmode=disable options='{options}'",
            address.ip(),
            address.port()
        )
    };
    let mut own = Connection::open(&direct(&server)).unwrap();
    own.run("create role high_1 login superuser").unwrap();
    let show = |user: &str, options: &str| {
        let output = psql(&url(user, options), "show plimsoll.class");
        String::from_utf8_lossy(&output.stdout).trim().to_owned() + &String::from_utf8_lossy(&output.stderr)
    };
    assert_eq!(show(server.user(), ""), "low");
    assert_eq!(show("high_1", ""), "high");
    assert_eq!(show("high_1", "-c plimsoll.class=low"), "low");
    let refused = show(server.user(), "-c plimsoll.class=high");
    assert!(refused.contains("may not choose class \"high\""), "{refused}");
}

fn psql(conninfo: &str, sql: &str) -> std::process::Output {
    let mut command = Command::new("psql");
    command.args(["-X", "-A", "-t", "-c", sql, conninfo]).env("PGPASSWORD", "secret").env("HOME", "/nonexistent");
    command.env_remove("PGSSLMODE").env_remove("PGOPTIONS").output().expect("psql comes with PostgreSQL")
}

/// TLS in front of the governor and behind it, and libpq with its defaults. The server offers SCRAM-SHA-256-PLUS, which
/// no proxy with a certificate of its own can forward. libpq signs that it would have bound its login, and must be
/// refused. With `sslmode=prefer` it then reconnected in plain text, and was admitted: a connection that looked
/// encrypted was not.
#[test]
fn tls_on_both_sides_with_libpqs_defaults() {
    let mut server = server();
    let (folder, servers_own) = certificate();
    let data = fs::metadata(server.data_folder()).unwrap();
    for name in ["server.crt", "server.key"] {
        let to = server.data_folder().join(name);
        fs::copy(folder.path().join(name), &to).unwrap();
        fs::set_permissions(&to, Permissions::from_mode(0o600)).unwrap();
        chown(&to, Some(data.uid()), Some(data.gid())).unwrap();
    }
    // Its port is fixed, so it gets an address that no other test uses.
    let id = std::process::id();
    let host = format!("127.{}.{}.{}", 64 + (id >> 14 & 63), id >> 7 & 127, 1 + (id & 127));
    let hba = "local all all trust\nhostssl all all 127.0.0.0/8 scram-sha-256\n";
    fs::write(server.data_folder().join("pg_hba.conf"), hba).unwrap();
    let mut own = Connection::open(&direct(&server)).unwrap();
    own.run("create role app login password 'secret'").unwrap();
    own.run(&format!("alter system set listen_addresses = '{host}'")).unwrap();
    own.run("alter system set ssl = on").unwrap();
    drop(own);
    server.restart().unwrap();
    let url = url(&format!("postgres://x@{host}:{}/x?sslmode=require", server.port()));
    let (other, governors_own) = certificate();
    let encrypted = "select ssl from pg_stat_ssl where pid = pg_backend_pid()";
    for is_same in [true, false] {
        let (tls, folder) = if is_same { (&servers_own, &folder) } else { (&governors_own, &other) };
        let governed = governed(url.clone(), |settings| {
            settings.listen.tls = Some(std::sync::Arc::clone(tls));
            settings.listen.certificate =
                Some(CertificateDer::from_pem_file(folder.path().join("server.crt")).unwrap());
        });
        let address = tcp_address(&governed.1);
        let ask = |more: &str| {
            let base = format!("host={} port={} user=app dbname=postgres", address.ip(), address.port());
            let output = psql(&format!("{base} {more}"), encrypted);
            let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
            (output.status.success(), said)
        };
        let check = |more: &str, is_let_in: bool| {
            let (outcome, said) = ask(more);
            assert_eq!(outcome, is_let_in, "same certificate: {is_same}, {more}: {said}");
            assert!(is_let_in || said.contains("channel_binding=disable") || more.contains("=require "), "{said}");
        };
        check("sslmode=prefer channel_binding=disable", true);
        check("sslmode=require", is_same);
        check("sslmode=prefer", is_same);
        check("channel_binding=require sslmode=require", is_same);
        if is_same {
            check("sslmode=disable", true);
        }
    }
}
