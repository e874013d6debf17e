//! A private server, and operators whose settings do not match it.

mod rented;

use std::fs::Permissions;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use plimsoll_pg::connection::Connection;
use plimsoll_pg::url::Password;
use plimsoll_postgres::server::PrivateServer;
use plimsoll_testing::until;
use rustls::pki_types::pem::PemObject;

use super::*;
use crate::testing;

/// A server without TLS whose roles log in by SCRAM; `plimsoll` is its superuser.
struct Stage {
    own: PrivateServer,
}

impl Stage {
    fn start() -> Self {
        let own = testing::server(&[("shared_buffers", "16MB"), ("fsync", "off"), ("max_connections", "20")]);
        let stage = Stage { own };
        stage.run(
            "CREATE ROLE watcher LOGIN PASSWORD 'right'; CREATE ROLE nologin PASSWORD 'right'; \
             GRANT pg_signal_backend TO watcher",
        );
        stage.rules("local all plimsoll trust\nlocal all stranger trust\nlocal all all scram-sha-256\n");
        stage
    }

    fn url(&self, user: &str, password: Option<&str>) -> ServerUrl {
        let mut url = ServerUrl::of_socket(self.own.socket_folder(), self.own.port(), user, "postgres");
        url.password = password.map(Password::new);
        url
    }

    fn connection(&self) -> Connection {
        Connection::open(&testing::url(&self.own)).unwrap_or_else(|error| panic!("{error}"))
    }

    fn run(&self, sql: &str) {
        self.connection().run(sql).unwrap_or_else(|error| panic!("{error}"));
    }

    /// Replaces pg_hba.conf; returns once the server has read it.
    fn rules(&self, rules: &str) {
        std::fs::write(self.own.data_folder().join("pg_hba.conf"), rules).expect("the folder is ours");
        // The postmaster sets this time before it reads its files; a new process has the new ones.
        let loaded = "SELECT extract(epoch FROM pg_conf_load_time())";
        let loaded = || self.connection().text(loaded).unwrap_or_else(|error| panic!("{error}"));
        let before = loaded();
        self.run("SELECT pg_reload_conf()");
        until("the server has read its pg_hba.conf", || loaded() != before);
    }

    /// Restarts it with TLS and the certificate in that folder, and with these rules; returns its address.
    fn speak_tls(&mut self, folder: &Path, rules: &str) -> String {
        let data = std::fs::metadata(self.own.data_folder()).expect("a folder");
        for name in ["server.crt", "server.key"] {
            let to = self.own.data_folder().join(name);
            std::fs::copy(folder.join(name), &to).expect("a file");
            std::fs::set_permissions(&to, Permissions::from_mode(0o600)).expect("the file is ours");
            chown(&to, Some(data.uid()), Some(data.gid())).expect("the folder is the server's");
        }
        self.rules(rules);
        // The port of private servers is fixed, so this one gets an address that no other test uses.
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let id = std::process::id();
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        let host = format!("127.{}.{}.{}", 128 + (id >> 14 & 31) + 32 * (next & 1), id >> 7 & 127, 1 + (id & 127));
        self.run(&format!("ALTER SYSTEM SET listen_addresses = '{host}'"));
        self.run("ALTER SYSTEM SET ssl = on");
        self.own.restart().unwrap_or_else(|error| panic!("{error}"));
        host
    }

    /// The URL by which `watcher` reaches the server over TCP, through a relay that changes its messages until a
    /// session has begun.
    fn over_tcp(&self, mode: &str, change: fn(&mut [u8])) -> ServerUrl {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let socket = self.own.socket_folder().join(format!(".s.PGSQL.{}", self.own.port()));
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let socket = socket.clone();
                thread::spawn(move || forward(&client, &socket, change));
            }
        });
        tcp_url(&address.to_string(), mode)
    }
}

fn tcp_url(address: &str, mode: &str) -> ServerUrl {
    let url = format!("postgres://watcher:right@{address}/postgres?sslmode={mode}");
    ServerUrl::parse_in(&url, &|_| None).unwrap_or_else(|error| panic!("{error}"))
}

/// Forwards bytes both ways until one side ends.
fn forward(client: &TcpStream, socket: &Path, change: fn(&mut [u8])) {
    let server = UnixStream::connect(socket).expect("the server listens");
    thread::scope(|scope| {
        scope.spawn(|| {
            let _ = io::copy(&mut &*client, &mut &server);
            let _ = server.shutdown(Shutdown::Write);
        });
        let mut bytes = [0; 1 << 16];
        while let Ok(length @ 1..) = (&server).read(&mut bytes) {
            change(&mut bytes[..length]);
            if (&*client).write_all(&bytes[..length]).is_err() {
                break;
            }
        }
        let _ = client.shutdown(Shutdown::Both);
    });
}

#[track_caller]
fn check(found: &Found, what: &str, is_good: bool, parts: &[&str]) {
    let probe = found.probes.iter().find(|probe| probe.what == what);
    let probe = probe.unwrap_or_else(|| panic!("nothing is said of {what}: {found:?}"));
    assert_eq!(probe.is_good, is_good, "{probe:?}");
    for part in parts {
        assert!(probe.found.contains(part), "no `{part}` in {probe:?}");
    }
}

/// One operator had configured a role that did not exist yet, another a wrong password, a third a role without LOGIN.
/// All three got the same message, and looked for the fault in pg_hba.conf.
#[test]
fn each_refused_login_names_its_statements() {
    let stage = Stage::start();
    let server = stage.url("nobody", None);
    let tried =
        |control: &ServerUrl| probe(Tried { server: Some(&server), control: Some(control), ..Tried::default() });
    let found = tried(&stage.url("stranger", None));
    check(
        &found,
        "control",
        false,
        &["The role is missing", "CREATE ROLE stranger LOGIN PASSWORD", "GRANT pg_signal_backend"],
    );
    check(&found, "server", true, &["listens and asks"]);

    let found = tried(&stage.url("watcher", Some("wrong")));
    check(&found, "control", false, &["28P01", "ALTER ROLE watcher PASSWORD", "PGPASSWORD or ~/.pgpass"]);
    check(&found, "server", true, &["listens and asks"]);

    let found = tried(&stage.url("nologin", Some("right")));
    check(&found, "control", false, &["ALTER ROLE nologin LOGIN"]);

    let found = tried(&ServerUrl { database: "none".to_owned(), ..stage.url("watcher", Some("right")) });
    check(&found, "control", false, &["CREATE DATABASE none", "such as postgres"]);

    let found = tried(&stage.url("watcher", Some("right")));
    check(&found, "control", true, &["watcher logs in"]);
    check(&found, "rights", true, &["may cancel"]);
    check(&found, "server", true, &["lets watcher in without TLS", "as it will clients"]);
    assert!(found.warnings.is_empty(), "{found:?}");
}

/// The server had no TLS, `server` had `sslmode=require`, and the check passed, because it had only opened a
/// connection. Then no client could log in.
#[test]
fn a_server_without_tls_fails_where_clients_need_it() {
    let stage = Stage::start();
    let url = |mode| stage.over_tcp(mode, |_| {});
    let found = probe(Tried { server: Some(&url("require")), control: Some(&url("disable")), ..Tried::default() });
    check(&found, "control", true, &[]);
    check(&found, "server", false, &["clients cannot log in with sslmode=require", "does not speak TLS"]);
    let found = probe(Tried { server: Some(&url("prefer")), ..Tried::default() });
    check(&found, "server", true, &["without TLS (sslmode=prefer)"]);
}

/// pg_hba.conf had a line for the applications' machines but not for the governor's, whose address is the only one that
/// the server sees.
#[test]
fn a_missing_line_of_pg_hba_is_told_with_the_line() {
    let stage = Stage::start();
    stage.rules("local all plimsoll trust\nhost all all 10.1.2.3/32 scram-sha-256\n");
    let url = stage.over_tcp("disable", |_| {});
    let found = probe(Tried { server: Some(&url), control: Some(&url), ..Tried::default() });
    for what in ["server", "control"] {
        check(&found, what, false, &["no pg_hba.conf entry", "host all watcher GOVERNOR_ADDRESS/32 scram-sha-256"]);
    }
}

/// There was a pooler between the governor and the server. Everything seemed to work, but no lock was ever traced to a
/// client: the pooler gives its clients process numbers of its own.
#[test]
fn a_pooler_in_the_place_of_the_server_is_found_out() {
    let stage = Stage::start();
    let url = stage.over_tcp("disable", |bytes| {
        // BackendKeyData is the only message of that tag and length before the first answer.
        let head = [b'K', 0, 0, 0, 12];
        if let Some(at) = bytes.windows(head.len()).position(|part| part == head) {
            bytes[at + 5..at + 9].copy_from_slice(&7i32.to_be_bytes());
        }
    });
    let found = probe(Tried { server: Some(&url), ..Tried::default() });
    check(&found, "pooler", false, &["is a pooler", "put the pooler in front"]);
}

/// With `trust` for the governor's machine, any client that reached the governor could log in as a superuser of the
/// server.
#[test]
fn a_server_that_asks_for_no_password_is_a_warning() {
    let stage = Stage::start();
    let control = stage.url("plimsoll", None);
    let open = |opens| {
        probe(Tried { server: Some(&control), control: Some(&control), opens: Some(opens), ..Tried::default() })
    };
    let found = open(Opens::Clients(2000));
    let warns = |parts: &[&str]| {
        let is_it = |warning: &String| parts.iter().all(|part| warning.contains(part));
        assert!(found.warnings.iter().any(is_it), "{parts:?}: {found:?}");
    };
    warns(&["could become plimsoll without a password"]);
    warns(&["takes 2000 clients", "the server 17 "]);
    check(&found, "rights", true, &["superuser"]);
    // A pool opens no more than its size, however many clients there are.
    let about_pool = |size| open(Opens::Pool(size)).warnings.into_iter().find(|warning| warning.contains("a pool has"));
    let told = about_pool(17).expect("one is the governor's own");
    assert!(told.contains("a pool has 17 connections") && told.contains("the server 17 connections"), "{told}");
    assert_eq!(about_pool(16), None);
}

/// Certificate and key `server.crt` and `server.key` in a folder.
fn certificate(folder: &Path) -> CertificateDer<'static> {
    testing::certificate(folder);
    CertificateDer::from_pem_file(folder.join("server.crt")).expect("a certificate")
}

/// An operator followed the check's advice and gave the governor the server's certificate, but the check still reported
/// that clients cannot log in.
#[test]
fn the_servers_own_certificate_in_front_is_recognised() {
    let mut stage = Stage::start();
    let folder = tempfile::tempdir().expect("a folder");
    let own = certificate(folder.path());
    let rules = "local all plimsoll trust\nhostssl all all 127.0.0.0/8 scram-sha-256\n";
    let host = stage.speak_tls(folder.path(), rules);
    let url = |mode: &str| tcp_url(&format!("{host}:{}", stage.own.port()), mode);
    let other = tempfile::tempdir().expect("a folder");
    let other = certificate(other.path());
    let found = |mode: &str, shown: &CertificateDer<'static>| {
        let (server, control) = (url(mode), url("require"));
        let tried =
            Tried { server: Some(&server), control: Some(&control), certificate: Some(shown), ..Tried::default() };
        probe(tried)
    };
    for (shown, holds) in [(&own, true), (&other, false)] {
        let found = found("prefer", shown);
        check(&found, "server", true, &["over TLS (sslmode=prefer)"]);
        assert_eq!(found.binding_holds, holds);
        assert_eq!(found.warnings.iter().any(|warning| warning == BINDING), !holds, "{found:?}");
    }
    assert!(found("require", &other).warnings.is_empty(), "the file alone shows that");
}
