//! Start-up messages of clients, and certificates that change.

use std::io::{BufRead, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use plimsoll_pg::connection::client_tls;
use plimsoll_pg::url::ServerUrl;
use rustls::ClientConnection;
use rustls::pki_types::ServerName;

use super::super::certificates::self_signed;
use super::super::client::{Client, Destination};
use super::super::drivers::connecting_to;
use super::super::drivers::environment::tool;
use super::super::governed::{CONSOLE, Governed};
use super::super::server::{PASSWORD, Server};
use super::World;

/// Start-up messages of clients, and the server's answers: the same text, or the same refusal.
#[test]
fn startup_parameters_and_refusals_are_the_servers() {
    let world = World::start();
    let connect = |place: Destination, extra: &[(&str, &str)], password: &str| {
        let own = [("user", "low"), ("database", world.server.database())];
        let is_said = |name: &str| extra.iter().any(|(said, _)| *said == name);
        let own = own.into_iter().filter(|(name, _)| !is_said(name));
        let parameters = own.chain(extra.iter().copied()).collect::<Vec<_>>();
        let mut client = match Client::log_in(place, &parameters, password) {
            Ok(client) => client,
            Err(failure) => return format!("{failure:?}"),
        };
        let shown = "SELECT string_agg(name || '=' || setting, ' ' ORDER BY name) FROM pg_settings
                     WHERE name IN ('DateStyle', 'TimeZone', 'enable_seqscan', 'extra_float_digits', 'application_name', 'IntervalStyle')";
        client.value(shown).unwrap()
    };
    let check = |extra: &[(&str, &str)], password: &str| {
        let direct = connect(Destination::Unix(world.server.socket()), extra, password);
        for (kind, governed) in [("governed", &world.governed), ("pooled", &world.pooled)] {
            let heard = connect(Destination::Tcp(governed.address), extra, password);
            assert_eq!(heard, direct, "{kind}: {extra:?}");
        }
        direct
    };
    for options in [
        "  -c    datestyle=German,\\ YMD",
        "-c timezone=Europe/Lisbon  -c    datestyle=German,\\ YMD",
        "-ctimezone=Europe/Lisbon  -cdatestyle=German,\\ YMD",
        "--timezone=Europe/Lisbon  --datestyle=German,\\ YMD",
        "-c enable_seqscan=false -c extra_float_digits=2",
        "-c t\\imezone=\\E\\u\\r\\o\\pe/Lisbon",
        "",
        "   ",
    ] {
        let shown = check(&[("options", options)], PASSWORD);
        assert!(shown.contains("DateStyle="), "{options}: {shown}");
    }
    for options in ["-d", "-c timezone", "-c nothing=1", "-c plimsoll", "nonsense", "-c datestyle='open"] {
        let shown = check(&[("options", options)], PASSWORD);
        assert!(shown.contains("Refused") || shown.contains("DateStyle="), "{options}: {shown}");
    }
    for name in ["", "an application", "ünïcode \u{1}", &"long".repeat(40)] {
        check(&[("application_name", name), ("IntervalStyle", "sql_standard")], PASSWORD);
    }
    assert!(check(&[("nothing", "of this name")], PASSWORD).contains("42704"));
    // An unknown user gets the same error as one with a wrong password, and a wrong password is reported before a
    // missing database.
    assert!(check(&[("user", "nobody_of_that_name")], PASSWORD).contains("28P01"));
    assert!(check(&[], "wrong").contains("28P01"));
    assert!(check(&[("database", "nowhere")], "wrong").contains("28P01"));
    assert!(check(&[("database", "nowhere")], PASSWORD).contains("3D000"));
    // The server takes 10,000 bytes, with the class that the governor adds.
    for length in (9_800..9_940).step_by(7) {
        check(&[("options", &format!("-c {}datestyle=German", " ".repeat(length - 3)))], PASSWORD);
    }
    let too_long = "x".repeat(20_000);
    let refused = connect(Destination::Tcp(world.governed.address), &[("options", &too_long)], PASSWORD);
    assert!(refused.contains("Refused") || refused.contains("Lost"), "{refused}");
}

/// Connections after a reload get the new certificate. Sessions continue, and a client that closes without a TLS
/// message causes no warning.
#[test]
fn certificates_change_with_a_reload() {
    tool("psql", "postgresql-client");
    let server = Server::start();
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).display().to_string();
    certify(folder.path(), "first");
    let tls = format!(
        "tls = {{ certificate = \"{}\", key = \"{}\", required = true }}",
        file("server.crt"),
        file("server.key")
    );
    let mut governed = Governed::start_with(&server, &tls, "mpl = 4");
    let address = governed.address;
    let psql = |root: &str| {
        let mut psql = Command::new("psql");
        connecting_to(&mut psql, address, server.database());
        // The server is reached by its socket, so a login cannot be bound to its certificate.
        psql.env("PGSSLMODE", "verify-ca").env("PGSSLROOTCERT", file(root)).env("PGCHANNELBINDING", "disable");
        psql.args(["--no-psqlrc", "--quiet", "--no-align", "--tuples-only"]);
        psql
    };
    let succeeds = |root: &str| psql(root).args(["--command", "SELECT 1"]).output().unwrap().status.success();
    assert!(succeeds("first.crt"));
    let mut before = psql("first.crt").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut input, output) = (before.stdin.take().unwrap(), before.stdout.take().unwrap());
    let mut lines = std::io::BufReader::new(output).lines();
    writeln!(input, "SELECT 'before';").unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), "before");

    certify(folder.path(), "second");
    assert!(succeeds("first.crt"), "nothing was reloaded");
    // The console uses TLS, too.
    let console = |sql: &str| {
        let mut console = psql("first.crt");
        console
            .env("PGUSER", "operator")
            .env("PGDATABASE", CONSOLE)
            .env("PGSSLMODE", "require")
            .env_remove("PGSSLROOTCERT");
        console.args(["--command", sql]).output().unwrap()
    };
    let reloaded = console("RELOAD");
    assert!(reloaded.status.success(), "{}", String::from_utf8_lossy(&reloaded.stderr));
    assert!(succeeds("second.crt") && !succeeds("first.crt"), "the old certificate is still shown");
    // A missing certificate is refused, and the earlier one stays in use.
    std::fs::remove_file(file("server.crt")).unwrap();
    let refused = console("RELOAD");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("server.crt"), "{refused:?}");
    assert!(succeeds("second.crt"));
    writeln!(input, "SELECT 'after';").unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), "after");
    drop(input);
    before.wait().unwrap();

    let said = governed.said().len();
    hang_up(address);
    assert!(succeeds("second.crt"));
    let said = governed.said().split_off(said);
    assert!(!said.contains("WARN") && !said.contains("ERROR"), "{said}");
    governed.assert_alive();
}

/// Makes a self-signed certificate with that name, and replaces the governor's files with it.
fn certify(folder: &Path, name: &str) {
    self_signed(folder, name, "localhost");
    for end in ["key", "crt"] {
        std::fs::copy(folder.join(format!("{name}.{end}")), folder.join(format!("server.{end}"))).unwrap();
    }
}

/// Begins with TLS and closes the connection below it.
fn hang_up(address: SocketAddr) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(&[&8_u32.to_be_bytes()[..], &80_877_103_u32.to_be_bytes()].concat()).unwrap();
    let mut answer = [0];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"S");
    let url = ServerUrl::parse_in("postgres://low@localhost/x?sslmode=require", &|_| None).unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let mut tls = ClientConnection::new(Arc::new(client_tls(&url).unwrap()), name).unwrap();
    while tls.is_handshaking() {
        tls.complete_io(&mut stream).unwrap();
    }
}
