//! Files like those that people have.

use std::path::Path;

use super::*;

fn read(text: &str) -> Result<Import, String> {
    read_for(text, None)
}

fn read_for(text: &str, server: Option<&str>) -> Result<Import, String> {
    let folder = Path::new("/etc/pgbouncer");
    let options = ImportOptions { server: server.map(str::to_owned) };
    let ini = Ini::of_text(text, folder)?;
    translate(&ini, &folder.join("pgbouncer.ini"), &options).map_err(|error| error.to_string())
}

fn good(text: &str) -> Import {
    read(text).unwrap_or_else(|error| panic!("{error}\nin\n{text}"))
}

/// The notes of a key, with their kinds.
fn notes<'i>(import: &'i Import, key: &str) -> Vec<(Kind, &'i str)> {
    let of_key = import.notes.iter().filter(|note| note.key == key);
    of_key.map(|note| (note.kind, note.text.as_str())).collect()
}

fn has(import: &Import, key: &str, kind: Kind, part: &str) {
    let notes = notes(import, key);
    assert!(notes.iter().any(|(found, text)| *found == kind && text.contains(part)), "{key}: {notes:?}");
}

const MINIMAL: &str = "[databases]\n* = host=db.example\n[pgbouncer]\nlisten_addr = *\n";

#[test]
fn the_least_file_becomes_settings_that_are_valid() {
    let import = good(MINIMAL);
    let config = parse(
        &import.settings,
        "plimsoll.toml",
        &Surroundings {
            folder: Path::new("/"),
            environment: &|name| (name == "USER").then(|| "ann".to_owned()),
            classes: &[],
        },
    );
    let settings = config.unwrap_or_else(|error| panic!("{error}\nin\n{}", import.settings)).settings;
    assert_eq!(settings.server.address(), "db.example:5432");
    assert_eq!(settings.listen.addresses, ["[::]:6432".parse().unwrap()]);
    assert_eq!(settings.admin.database, "pgbouncer");
    assert_eq!(settings.class(settings.rules.default_class()).name, "high", "nobody waits");
    has(&import, "unix_socket_dir", Kind::Differs, "write socket_folders");
    assert!(import.notes.is_sorted_by_key(|note| note.kind), "worst first");
}

/// Every key of pgbouncer is known, and a file that has all of them at their defaults loses nothing.
#[test]
fn defaults_lose_nothing() {
    let import = good(
        "[databases]\n* = host=db.example\n[pgbouncer]\nlisten_addr = 127.0.0.1\nunix_socket_dir =\nauth_type = md5\n\
         pool_mode = session\nmax_client_conn = 100\ndefault_pool_size = 20\nmin_pool_size = 0\nreserve_pool_size = 0\n\
         max_db_connections = 0\nmax_user_connections = 0\nserver_reset_query = DISCARD ALL\nserver_lifetime = 3600\n\
         server_idle_timeout = 600\nquery_timeout = 0\nquery_wait_timeout = 120\nclient_idle_timeout = 0\n\
         idle_transaction_timeout = 0\nclient_tls_sslmode = disable\nserver_tls_sslmode = prefer\nlogfile =\npidfile =\n\
         verbose = 0\ndisable_pqexec = 0\ntcp_keepalive = 1\nso_reuseport = 0\nmax_prepared_statements = 200\n\
         ignore_startup_parameters = extra_float_digits\nclient_tls_protocols = secure\nunix_socket_mode = 0777\n",
    );
    let lost: Vec<_> = import.notes.iter().filter(|note| matches!(note.kind, Kind::Missing | Kind::Open)).collect();
    assert!(lost.iter().all(|note| note.key == "check"), "{lost:#?}");
    assert!(import.settings.contains("clients_max = 100\n"), "{}", import.settings);
    assert!(import.settings.contains("queue_timeout = \"120s\"\n"), "{}", import.settings);
}

#[test]
fn databases_are_those_of_one_server() {
    let text = "[databases]\nshop = host=db1 port=5433\norders = host=db1 port=5433 dbname=orders_2024\n\
                reports = host=db2 user=reader password='se cret' pool_size=5 connect_query='SET x = 1'\n\
                old = host=db1,db3 port=5433\n[pgbouncer]\nlisten_addr = 127.0.0.1\n";
    let import = good(text);
    assert!(import.settings.contains("server = \"postgres://db1:5433/?sslmode=prefer\"\n"), "{}", import.settings);
    assert!(!import.settings.contains("se cret") && !import.to_string().contains("se cret"), "no password is written");
    has(&import, "reports", Kind::Open, "`import … --server db2:5432`");
    has(&import, "orders", Kind::Open, "ALTER DATABASE \"orders_2024\" RENAME TO \"orders\"");
    has(&import, "old", Kind::Open, "only db1 is written");
    has(&import, "[databases]", Kind::Differs, "REVOKE CONNECT");
    let other = read_for(text, Some("db2:5432")).unwrap();
    assert!(other.settings.contains("server = \"postgres://db2:5432/"), "{}", other.settings);
    has(&other, "reports", Kind::Open, "all clients become \"reader\"");
    has(&other, "reports", Kind::Missing, "its password is not written");
    has(&other, "reports", Kind::Missing, "pool_size: `size` in [pool]");
    let wrong = read_for(text, Some("db9:1")).unwrap_err();
    assert!(wrong.contains("no database is at db9:1; there are `db1:5433`, `db2:5432`"), "{wrong}");
}

#[test]
fn a_server_behind_a_socket_has_a_folder() {
    let import = good("[databases]\nshop =\n[pgbouncer]\nlisten_addr = ::1, 127.0.0.1\nlisten_port = 7000\n");
    let server = "server = \"postgres:///?host=/var/run/postgresql&port=5432\"\n";
    assert!(import.settings.contains(server), "{}", import.settings);
    assert!(import.settings.contains("addresses = [\"[::1]:7000\", \"127.0.0.1:7000\"]"), "{}", import.settings);
}

#[test]
fn encryption_is_translated_on_both_sides() {
    let import = good(
        "[databases]\n* = host=db.example\n[pgbouncer]\nlisten_addr = 127.0.0.1\nclient_tls_sslmode = verify-full\n\
         client_tls_cert_file = server.crt\nclient_tls_key_file = /etc/ssl/server.key\nclient_tls_ca_file = ca.crt\n\
         client_tls_protocols = tlsv1.0,tlsv1.2\nserver_tls_sslmode = verify-full\nserver_tls_ca_file = /etc/ssl/pg.crt\n\
         server_connect_timeout = 5\n",
    );
    for line in [
        "[listen.tls]\ncertificate = \"/etc/pgbouncer/server.crt\"\nkey = \"/etc/ssl/server.key\"\nrequired = true\n",
        "client_ca = \"/etc/pgbouncer/ca.crt\"\n",
        "server = \"postgres://db.example:5432/?sslmode=verify-full&sslrootcert=/etc/ssl/pg.crt&connect_timeout=5\"\n",
    ] {
        assert!(import.settings.contains(line), "{line}\nin\n{}", import.settings);
    }
    has(&import, "client_tls_protocols", Kind::Differs, "older versions are refused");
    // The files are not there: the check says so before the governor does.
    has(&import, "check", Kind::Open, "/etc/pgbouncer/server.crt");
    let half = good(&format!("{MINIMAL}client_tls_sslmode = require\n"));
    has(&half, "client_tls_sslmode", Kind::Open, "client_tls_cert_file and client_tls_key_file");
}

#[test]
fn statement_mode_is_refused_with_its_reason() {
    let import = good(&format!("{MINIMAL}pool_mode = statement\n"));
    has(&import, "pool_mode", Kind::Open, "statement mode is refused: it breaks transactions");
    let wrong = read(&format!("{MINIMAL}pool_mode = transactions\n")).unwrap_err();
    assert_eq!(wrong, "pgbouncer.ini:5: pool_mode = transactions is none; write session or transaction");
}

/// Keys of pools and of logins become settings.
#[test]
fn transaction_mode_says_what_it_needs() {
    let import = good(&format!(
        "{MINIMAL}pool_mode = transaction\ndefault_pool_size = 25\nserver_idle_timeout = 60\nauth_file = userlist.txt\n\
         auth_user = pgbouncer\n"
    ));
    let check = |key: &str, path: &str| has(&import, key, Kind::Translated, path);
    check("pool_mode", "pool.mode");
    check("default_pool_size", "pool.size");
    check("server_idle_timeout", "pool.idle_timeout");
    check("auth_file", "login.users_file");
    check("auth_user", "login.auth_user");
    let session = good(&format!("{MINIMAL}default_pool_size = 25\nauth_file = userlist.txt\n"));
    has(&session, "default_pool_size", Kind::Unneeded, "`clients_max` in [listen] at most");
    has(&session, "auth_file", Kind::Unneeded, "clients log in at the server itself");
}

#[test]
fn users_of_the_console_bring_their_verifiers() {
    let folder = tempfile::tempdir().unwrap();
    let verifier = crate::admin::scram::hash_password("secret");
    let users = folder.path().join("userlist.txt");
    std::fs::write(&users, format!("\"ops\" \"{verifier}\"\n\"bob\" \"md5abc\"\n")).unwrap();
    let import =
        good(&format!("{MINIMAL}admin_users = ops, bob\nstats_users = stats\nauth_file = {}\n", users.display()));
    assert!(
        import.settings.contains(&format!("verifier = \"{verifier}\"\nmay_change = true\n")),
        "{}",
        import.settings
    );
    assert!(!import.settings.contains("md5abc"));
    assert!(import.settings.contains("# name = \"bob\"\n") && import.settings.contains("# name = \"stats\"\n"));
    has(&import, "admin_users", Kind::Open, "none is known for bob");
}

/// The importer took no verifier from a line with a mistake, and the note blamed the user of the console.
#[test]
fn bad_lines_of_a_users_file_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let users = folder.path().join("userlist.txt");
    std::fs::write(&users, "\"ops\" \"SCRAM-SHA-256$4096\"\nbob \"x\"\n").unwrap();
    let text = format!("{MINIMAL}admin_users = ops\nauth_file = {}\n", users.display());
    let import = good(&text);
    for fault in
        ["userlist.txt:1: user \"ops\": this is not a SCRAM verifier", "userlist.txt:2: the name is not in double"]
    {
        has(&import, "auth_file", Kind::Open, fault);
    }
    // Clients that log in by the file need it as well; each line is named once.
    let pooled = good(&format!("{text}pool_mode = transaction\n"));
    let named = pooled.notes.iter().filter(|note| note.text.contains("userlist.txt:2:"));
    assert_eq!(named.count(), 1, "{:?}", pooled.notes);
}

#[test]
fn users_and_peers_are_read() {
    let import = good(&format!(
        "{MINIMAL}[users]\nreader = max_user_connections=5 query_timeout=30\n[peers]\n1 = host=db-a\n2 = host=/run/two port=7\n\
         3 = host=::1\n"
    ));
    has(&import, "reader", Kind::Missing, "ALTER ROLE \"reader\" CONNECTION LIMIT 5");
    has(&import, "reader", Kind::Missing, "statement_timeout = '30s'");
    let peers = "peers = [\"db-a:6432\", \"/run/two/.s.PGSQL.7\", \"[::1]:6432\"]\n";
    assert!(import.settings.contains(peers), "{}", import.settings);
}

#[test]
fn unknown_keys_are_left_out_and_named() {
    let import = good(&format!("{MINIMAL}defualt_pool_size = 5\nmax_client_conn = 9000000\n"));
    has(&import, "defualt_pool_size", Kind::Missing, "(did you mean `default_pool_size`?)");
    has(&import, "max_client_conn", Kind::Missing, "cannot be written: the most is 1000000");
}

/// All bad lines are told at once, each with its place and what to do.
#[test]
fn bad_lines_are_told_with_their_places() {
    let told = read(
        "listen_port = 1\n[databases]\nshop host=a\nshop = hots=a\nother = host='a\n[pgbouncr]\nx = 1\n[pgbouncer\n\
         %include nothing.ini\n",
    )
    .unwrap_err();
    let lines: Vec<&str> = told.lines().collect();
    for (line, expect) in [
        (0, "pgbouncer.ini:1: `listen_port` stands before any section"),
        (1, "pgbouncer.ini:3: `shop host=a` is not `key = value`"),
        (2, "pgbouncer.ini:6: pgbouncer has no section [pgbouncr] (did you mean `pgbouncer`?)"),
        (3, "pgbouncer.ini:8: the name of a section has no `]`"),
        (4, "pgbouncer.ini:9: cannot read /etc/pgbouncer/nothing.ini"),
    ] {
        assert!(lines[line].starts_with(expect), "{told}");
    }
    let told = read(
        "[databases]\nshop = hots=a\nother = host='a\nthird = port=99999\n[pgbouncer]\nmax_client_conn = many\n\
         server_lifetime = x\nunix_socket_mode = 9\n[peers]\n1 = port=6432\n[users]\nann = pool_mode\n",
    )
    .unwrap_err();
    for expect in [
        "pgbouncer.ini:2: shop: connection strings have no key `hots` (did you mean `host`?)",
        "pgbouncer.ini:3: other: the value of `host` has no closing quote",
        "pgbouncer.ini:4: third: `99999` is not a port",
        "pgbouncer.ini:6: max_client_conn = many is not a whole number",
        "pgbouncer.ini:7: server_lifetime = x is not a number of seconds",
        "pgbouncer.ini:8: unix_socket_mode = 9 is not an octal number",
        "pgbouncer.ini:10: peer 1 has no host",
        "pgbouncer.ini:12: user ann: `pool_mode` has no value",
    ] {
        assert!(told.contains(expect), "{expect}\nin\n{told}");
    }
    let none = read("[pgbouncer]\nlisten_addr = *\n").unwrap_err();
    assert!(none.contains("[databases] names no server"), "{none}");
}

#[test]
fn included_files_are_read_in_their_places() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pgbouncer.ini");
    std::fs::write(folder.path().join("databases.ini"), "[databases]\n'my.db' = host=db1\n\n;x = host=x\nwrong\n")
        .unwrap();
    std::fs::write(&file, "; comment\n# comment\n%include databases.ini\n[pgbouncer]\nlisten_addr=127.0.0.1\n")
        .unwrap();
    let told = import(&file, &ImportOptions::default()).unwrap_err().to_string();
    assert!(told.contains("databases.ini:5: `wrong` is not `key = value`"), "{told}");
    std::fs::write(folder.path().join("databases.ini"), "[databases]\n\"my db\" = host=db1\n").unwrap();
    let read = import(&file, &ImportOptions::default()).unwrap();
    has(&read, "my db", Kind::Translated, "server = db1:5432");
    // A file that includes itself.
    std::fs::write(&file, "%include pgbouncer.ini\n").unwrap();
    let told = import(&file, &ImportOptions::default()).unwrap_err().to_string();
    assert!(told.contains("more than 10 deep"), "{told}");
    let missing = import(&folder.path().join("none.ini"), &ImportOptions::default()).unwrap_err().to_string();
    assert!(missing.contains("none.ini: cannot read it"), "{missing}");
}

#[test]
fn the_report_has_the_worst_first() {
    let report =
        good(&format!("{MINIMAL}pool_mode = statement\nquery_timeout = 5\nmax_client_conn = 500\n")).to_string();
    let place = |heading: &str| report.find(heading).unwrap_or_else(|| panic!("{heading}\nin\n{report}"));
    assert!(place("To decide before you switch:") < place("No counterpart:"), "{report}");
    assert!(place("No counterpart:") < place("Translated:"), "{report}");
    assert!(report.contains("  query_timeout (line 6): the server ends long statements"), "{report}");
    assert!(report.lines().skip(1).all(|line| line.chars().count() <= 80), "{report}");
}
