//! Replication passes untouched.

use std::process::{Command, Stdio};

use super::super::client::Client;
use super::super::drivers::environment::tool;
use super::super::governed::Governed;
use super::super::server::{PASSWORD, Server};

/// Waits for a foreign program, which must end well.
fn ends_well(command: &mut Command) {
    let output = command.stdin(Stdio::null()).output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A server that may be replicated, also by row, and a role that may do so.
fn replicating_server() -> Server {
    let mut server = Server::start();
    server.connection().run("ALTER SYSTEM SET max_wal_senders = 4").unwrap();
    server.restart_with("wal_level", "logical");
    let mut own = server.connection();
    own.run(&format!("CREATE ROLE low_replica LOGIN REPLICATION PASSWORD '{PASSWORD}'")).unwrap();
    own.run("CREATE TABLE told (i int PRIMARY KEY); GRANT ALL ON told TO public").unwrap();
    let rules = server.own().data_folder().join("pg_hba.conf");
    let known = std::fs::read_to_string(&rules).unwrap();
    std::fs::write(&rules, format!("{known}local replication all scram-sha-256\n")).unwrap();
    own.run("SELECT pg_reload_conf()").unwrap();
    server
}

/// Replication passes untouched: its commands, and PostgreSQL's own tools for each kind of it.
#[test]
fn replication_works_through_a_governor() {
    tool("pg_basebackup", "postgresql-client");
    let server = replicating_server();
    let mut own = server.connection();
    let mut governed = Governed::start_with(&server, "", "mpl = 1");

    for kind in ["database", "yes"] {
        let said = [("user", "low_replica"), ("database", server.database()), ("replication", kind)];
        let mut client = Client::log_in(governed.address, &said, PASSWORD).unwrap();
        let answer = client.query("IDENTIFY_SYSTEM").unwrap();
        let database = answer.rows[0][3].as_deref();
        assert_eq!(database, (kind == "database").then(|| server.database()));
        let failure = client.query("NOTHING").expect_err("no such command");
        assert_eq!(failure.state(), Some(if kind == "database" { "42601" } else { "0A000" }), "{failure}");
        assert_eq!(client.query("SHOW wal_level").unwrap().value(), Some("logical"));
    }
    let unprivileged = [("user", "low"), ("database", server.database()), ("replication", "database")];
    let failure = Client::log_in(governed.address, &unprivileged, PASSWORD).expect_err("no right to it");
    assert_eq!(failure.state(), Some("42501"), "{failure}");

    let folder = tempfile::tempdir().unwrap();
    let program = |name: &str| {
        let mut program = Command::new(name);
        program.env("PGPASSWORD", PASSWORD).args(["--host", "127.0.0.1", "--username", "low_replica", "--no-password"]);
        program.arg("--port").arg(governed.address.port().to_string());
        program
    };
    ends_well(
        program("pg_basebackup")
            .args(["--checkpoint=fast", "--wal-method=stream", "--pgdata"])
            .arg(folder.path().join("copy")),
    );
    assert!(folder.path().join("copy/PG_VERSION").exists());

    let logical = |action: &str| {
        let mut receive = program("pg_recvlogical");
        receive.args(["--slot=ours", "--dbname", server.database(), action]);
        receive
    };
    ends_well(logical("--create-slot").arg("--plugin=test_decoding"));
    own.run("INSERT INTO told VALUES (1), (2)").unwrap();
    let end = server.value("SELECT pg_current_wal_insert_lsn()");
    let file = folder.path().join("told");
    ends_well(logical("--start").args(["--no-loop", "--endpos", &end, "--file"]).arg(&file));
    let told = std::fs::read_to_string(&file).unwrap();
    assert_eq!(told.matches("table public.told: INSERT: i[integer]:").count(), 2, "{told}");
    ends_well(&mut logical("--drop-slot"));

    ends_well(program("pg_receivewal").args(["--slot=physical", "--create-slot"]));
    own.run("SELECT pg_switch_wal()").unwrap();
    let end = server.value("SELECT pg_current_wal_insert_lsn()");
    own.run("INSERT INTO told VALUES (3)").unwrap();
    let wal = folder.path().join("wal");
    std::fs::create_dir(&wal).unwrap();
    ends_well(
        program("pg_receivewal").args(["--slot=physical", "--no-loop", "--endpos", &end, "--directory"]).arg(&wal),
    );
    assert!(std::fs::read_dir(&wal).unwrap().count() > 0, "no log was received");
    ends_well(program("pg_receivewal").args(["--slot=physical", "--drop-slot"]));

    // Beside all of that, an ordinary session is governed.
    assert_eq!(governed.client("low", server.database()).value("SELECT count(*) FROM told").unwrap(), "3");
    governed.assert_alive();
}
