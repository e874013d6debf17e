//! Ways to log in, over TCP, with and without encryption.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use plimsoll_pg::connection::{Connection, SUPPORTED, WireError};
use plimsoll_pg::scram::{keyed, salted};
use plimsoll_pg::url::ServerUrl;
use plimsoll_postgres::server::PrivateServer;
use plimsoll_testing::postgres_version;
use sha2::{Digest, Sha256};

use super::shared::new_server;

/// Which users may log in how. The first line that matches counts.
const RULES: &str = "
local     all all                      trust
host      all md5       127.0.0.0/8     md5
host      all scram     127.0.0.0/8     scram-sha-256
host      all plain     127.0.0.0/8     password
hostssl   all certified 127.0.0.0/8     cert
hostssl   all encrypted 127.0.0.0/8     trust
hostnossl all naked     127.0.0.0/8     trust
";

/// A server that listens on an address of this machine that no other server uses: its port is fixed.
struct Listening {
    server: PrivateServer,
    address: String,
    folder: tempfile::TempDir,
}

impl Listening {
    fn start() -> Self {
        Listening::with(&[])
    }

    fn with(options: &[(&str, &str)]) -> Self {
        // Tests of one process run at the same time.
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let (id, number) = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let address = format!("127.{}.{}.{}", 64 + (number & 63), id >> 7 & 127, 1 + (id & 127));
        let mut listening = Listening { server: new_server(options), address, folder: tempfile::tempdir().unwrap() };
        let data = listening.server.data_folder().to_owned();
        fs::write(data.join("pg_hba.conf"), RULES).unwrap();
        listening.certify("elsewhere");
        let sql = "SET password_encryption = 'md5'; CREATE ROLE md5 LOGIN PASSWORD 'mänd'; SET password_encryption = 'scram-sha-256'; \
             CREATE ROLE scram LOGIN PASSWORD 'schränk'; CREATE ROLE plain LOGIN PASSWORD 'open'; CREATE ROLE encrypted LOGIN; \
             CREATE ROLE naked LOGIN; CREATE ROLE certified LOGIN";
        let mut own = listening.own();
        own.run(sql).unwrap();
        own.run(&format!("ALTER SYSTEM SET listen_addresses = '{}'", listening.address)).unwrap();
        own.run("ALTER SYSTEM SET ssl = on").unwrap();
        own.run("ALTER SYSTEM SET ssl_ca_file = 'ca.crt'").unwrap();
        drop(own);
        listening.server.restart().unwrap();
        listening
    }

    /// A session through the socket.
    fn own(&self) -> Connection {
        let server = &self.server;
        let url = ServerUrl::of_socket(server.socket_folder(), server.port(), server.user(), server.database());
        Connection::open(&url).unwrap()
    }

    /// Gives the server a certificate for a host, from an authority of the test's own.
    fn certify(&self, host: &str) {
        let folder = self.folder.path();
        if !folder.join("ca.crt").exists() {
            openssl(folder, "req -x509 -nodes -days 2 -subj /CN=authority -keyout ca.key -out ca.crt");
            openssl(folder, "req -x509 -nodes -days 2 -subj /CN=stranger -keyout stranger.key -out stranger.crt");
            openssl(folder, "req -nodes -subj /CN=certified -keyout own.key -out own.csr");
            fs::write(folder.join("names"), "basicConstraints=CA:FALSE\n").unwrap();
            openssl(
                folder,
                "x509 -req -days 2 -in own.csr -CA ca.crt -CAkey ca.key -CAcreateserial -extfile names -out own.crt",
            );
            fs::set_permissions(folder.join("own.key"), fs::Permissions::from_mode(0o600)).unwrap();
        }
        let kind = if host.parse::<std::net::IpAddr>().is_ok() { "IP" } else { "DNS" };
        fs::write(folder.join("names"), format!("subjectAltName={kind}:{host}\n")).unwrap();
        openssl(folder, "req -nodes -subj /CN=server -keyout server.key -out server.csr");
        openssl(
            folder,
            "x509 -req -days 2 -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -extfile names -out server.crt",
        );
        let data = self.server.data_folder();
        let owner = fs::metadata(data).unwrap();
        for file in ["server.crt", "server.key", "ca.crt"] {
            fs::copy(folder.join(file), data.join(file)).unwrap();
            chown(data.join(file), Some(owner.uid()), Some(owner.gid())).unwrap();
            fs::set_permissions(data.join(file), fs::Permissions::from_mode(0o600)).unwrap();
        }
    }

    /// Opens a session with that login, with further parameters of the URL.
    fn open(&self, login: &str, parameters: &str) -> Result<Connection, WireError> {
        let database = self.server.database();
        let url = format!("postgres://{login}@{}/{database}?{parameters}", self.address);
        Connection::open(&ServerUrl::parse_in(&url, &|_| None).unwrap())
    }

    fn check(&self, login: &str, parameters: &str, is_encrypted: bool) {
        let mut connection =
            self.open(login, parameters).unwrap_or_else(|error| panic!("{login} {parameters}: {error}"));
        let ssl = connection.text("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()").unwrap();
        assert_eq!(ssl.as_deref(), Some(if is_encrypted { "t" } else { "f" }), "{login} {parameters}");
        let long = connection.text("SELECT repeat('x', 1000000)").unwrap().unwrap();
        assert_eq!(long.len(), 1_000_000);
        assert!(connection.is_local() && connection.server_process().is_some());
    }

    fn check_refused(&self, login: &str, parameters: &str, expect: &str) {
        let error = self.open(login, parameters).expect_err(expect).to_string();
        assert!(error.contains(expect), "{login} {parameters}: {error}, expected {expect}");
        assert!(!error.contains("wrong-password"), "{error}");
    }
}

/// Runs openssl, which the tests of TLS need.
fn openssl(folder: &Path, arguments: &str) {
    let mut command = Command::new("openssl");
    command.current_dir(folder).args(arguments.split(' '));
    if arguments.starts_with("req") {
        command.args(["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]);
    }
    let output = command.output().unwrap_or_else(|error| panic!("openssl: {error}; install it: apt install openssl"));
    assert!(output.status.success(), "openssl {arguments}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn roles_log_in_as_the_server_asks() {
    let mut server = Listening::start();
    let trusted = |file: &str| format!("sslrootcert={}", server.folder.path().join(file).display());
    let (authority, stranger) = (trusted("ca.crt"), trusted("stranger.crt"));

    for (login, password) in [("md5", "m%C3%A4nd"), ("scram", "schr%C3%A4nk")] {
        server.check(&format!("{login}:{password}"), "sslmode=disable", false);
        server.check(&format!("{login}:{password}"), "sslmode=prefer", true);
        server.check_refused(&format!("{login}:wrong-password"), "sslmode=disable", "28P01");
        server.check_refused(&format!("{login}:wrong-password"), "", "it comes from the URL, PGPASSWORD or ~/.pgpass");
        server.check_refused(login, "", "asks for the password");
    }
    server.check("plain:open", "sslmode=require", true);
    server.check_refused("plain:open", "sslmode=disable", "in plain text over an open connection");
    server.check_refused("nobody:x", "", "28000");
    server.check_refused("scram:schr%C3%A4nk", "dbname=nowhere", "createdb nowhere");

    // Encryption as the server requires it, and as we request it.
    server.check("encrypted", "sslmode=require", true);
    server.check("encrypted", "", true);
    server.check_refused("encrypted", "sslmode=disable", "28000");
    server.check("naked", "sslmode=disable", false);
    server.check("naked", "sslmode=prefer", false);
    server.check_refused("naked", "sslmode=require", "28000");

    // Certificates.
    server.check("encrypted", &format!("sslmode=verify-ca&{authority}"), true);
    server.check("encrypted", &format!("sslmode=require&{authority}"), true);
    server.check("encrypted", &format!("sslmode=prefer&{stranger}"), true);
    server.check_refused("encrypted", &format!("sslmode=require&{stranger}"), "invalid peer certificate");
    server.check_refused("encrypted", &format!("sslmode=verify-ca&{stranger}"), "invalid peer certificate");
    server.check_refused("encrypted", "sslmode=verify-ca", "needs the certificates to trust");
    server.check_refused("encrypted", "sslrootcert=system", "invalid peer certificate");
    server.check_refused("encrypted", "sslmode=verify-ca&sslrootcert=/no/such/file", "/no/such/file");
    server.check_refused("encrypted", &format!("sslmode=verify-full&{authority}"), "not valid for name");
    let itself = trusted("server.crt");
    server.check("encrypted", &format!("sslmode=verify-ca&{itself}"), true);
    server.certify(&server.address);
    server.server.restart().unwrap();
    server.check("encrypted", &format!("sslmode=verify-full&{authority}"), true);
    server.check_refused("encrypted", &format!("sslmode=verify-full&{itself}x"), "root certificates");

    // Our own certificate, with a key that no other user may read.
    let file = |name: &str| server.folder.path().join(name).display().to_string();
    let own = format!("sslmode=require&sslcert={}&sslkey={}", file("own.crt"), file("own.key"));
    server.check("certified", &own, true);
    server.check_refused("certified", "sslmode=require", "28000");
    fs::set_permissions(file("own.key"), fs::Permissions::from_mode(0o644)).unwrap();
    server.check_refused("certified", &own, "chmod 600");
    fs::set_permissions(file("own.key"), fs::Permissions::from_mode(0o600)).unwrap();
    server.check_refused("certified", &own.replace("own.crt", "stranger.crt"), "do not go together");

    // A cancel request uses the same encryption.
    let connection = server.open("encrypted", "sslmode=require").unwrap();
    connection.canceller().send().unwrap();

    // The server without encryption.
    server.own().run("ALTER SYSTEM SET ssl = off").unwrap();
    server.server.restart().unwrap();
    server.check("scram:schr%C3%A4nk", "sslmode=prefer", false);
    server.check_refused("scram:schr%C3%A4nk", "sslmode=require", "does not speak TLS");
    server.check_refused("plain:open", "", "in plain text over an open connection");
}

#[test]
fn nobody_there_is_told_with_the_place() {
    let folder = tempfile::tempdir().unwrap();
    let url = ServerUrl::of_socket(folder.path(), 5432, "ann", "shop");
    let error = Connection::open(&url).unwrap_err().to_string();
    assert!(error.contains(".s.PGSQL.5432") && error.contains("is a server running here"), "{error}");
    let url = ServerUrl::parse_in("postgres://ann@127.0.0.1:1/shop", &|_| None).unwrap();
    let error = Connection::open(&url).unwrap_err().to_string();
    assert!(
        error.starts_with("cannot connect to 127.0.0.1:1") && error.contains("is a server running there"),
        "{error}"
    );
    // A peer that accepts the connection and sends nothing.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("postgres://ann@{}/shop?connect_timeout=2", silent.local_addr().unwrap());
    let error = Connection::open(&ServerUrl::parse_in(&url, &|_| None).unwrap()).unwrap_err().to_string();
    assert!(error.contains("no answer in time (connect_timeout)"), "{error}");
}

/// The first version that accepts encryption without a request.
const DIRECT_SINCE: u32 = 17;

#[test]
fn every_version_lets_us_in() {
    for major in SUPPORTED {
        let Some(folder) = postgres_version(major) else { return };
        let server = Listening::with(&[("bin_folder", folder.to_str().unwrap())]);
        assert_eq!(server.server.version().major, major);
        assert!(server.server.has_statement_statistics(), "{major} has no pg_stat_statements");
        server.check("md5:m%C3%A4nd", "sslmode=require", true);
        server.check("scram:schr%C3%A4nk", "sslmode=require", true);
        let file = |name: &str| server.folder.path().join(name).display().to_string();
        server.check("certified", &format!("sslcert={}&sslkey={}", file("own.crt"), file("own.key")), true);
        let direct = "sslmode=require&sslnegotiation=direct";
        if major >= DIRECT_SINCE {
            server.check("encrypted", direct, true);
        } else {
            server.check_refused("encrypted", direct, "use sslnegotiation=postgres");
        }
        let mut connection = server.own();
        assert_eq!(connection.server_version_num() / 10_000, major);
        connection.canceller().send().unwrap();
        connection.run("SELECT 1").unwrap();
    }
}

/// A password should be hashed 600,000 times today (OWASP). Our own login refused verifiers of more than 100,000 iterations,
/// which every other client takes.
#[test]
fn a_verifier_of_many_iterations_is_taken() {
    let server = Listening::start();
    let (salt, iterations, until) = (b"sixteen bytes of", 120_000, Instant::now() + Duration::from_secs(60));
    let salted = salted("schränk".as_bytes(), salt, iterations, until).expect("seconds at most");
    let stored = Sha256::digest(keyed(&salted, &[b"Client Key"]));
    let [salt, stored, own] =
        [&salt[..], &stored, &keyed(&salted, &[b"Server Key"])].map(|bytes| STANDARD.encode(bytes));
    server.own().run(&format!("ALTER ROLE scram PASSWORD 'SCRAM-SHA-256${iterations}:{salt}${stored}:{own}'")).unwrap();
    server.check("scram:schr%C3%A4nk", "sslmode=disable&connect_timeout=60", false);
    server.check_refused("scram:wrong", "sslmode=disable&connect_timeout=60", "28P01");
}
