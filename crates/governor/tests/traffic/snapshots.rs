//! `pg_dump --jobs`: a leader exports a snapshot and waits for its workers, which import it.

use std::process::Command;
use std::time::{Duration, Instant};

use super::client::PASSWORD;
use super::governed::Governed;
use super::server::Server;

/// The leader of a dump held the only places of its class and waited for workers that waited for a place: with as many
/// places as jobs, or fewer, the dump never ended.
#[test]
fn a_parallel_dump_ends_with_any_limit() {
    let server = Server::start();
    for table in 0..8 {
        server.connection().run(&format!("CREATE TABLE t{table} AS SELECT generate_series(1, 1000) id")).unwrap();
    }
    server.connection().run("GRANT SELECT ON ALL TABLES IN SCHEMA public TO low").unwrap();
    let programs = server.value("SELECT setting FROM pg_config WHERE name = 'BINDIR'");
    for mpl in [1, 4] {
        let governed = Governed::start_with(&server, "", &format!("mpl = {mpl}"));
        let folder = tempfile::tempdir().unwrap();
        let began = Instant::now();
        let mut dump = Command::new(format!("{programs}/pg_dump"))
            .args(["-h", "127.0.0.1", "-p", &governed.address.port().to_string(), "-U", "low", "-j", "4", "-Fd"])
            .args(["-d", server.database(), "-f"])
            .arg(folder.path().join("dump"))
            .env("PGPASSWORD", PASSWORD)
            .spawn()
            .unwrap();
        let ended = loop {
            if let Some(ended) = dump.try_wait().unwrap() {
                break ended;
            }
            if began.elapsed() > Duration::from_secs(60) {
                let rows = governed.console().unwrap().query("SHOW QUEUE").unwrap().rows;
                dump.kill().unwrap();
                panic!("mpl {mpl}: the dump waits for ever: {rows:?}");
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        assert!(ended.success(), "mpl {mpl}: {ended}\n{}", governed.said());
        assert!(governed.count(Some("low"), "let_in_beyond_limits") > 0, "mpl {mpl}: the limit was never reached");
    }
}
