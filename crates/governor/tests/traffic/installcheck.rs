//! PostgreSQL's own regression suite: its output through a governor equals that without one.
//!
//! The suite belongs to PostgreSQL and is not kept here; [`source`] fetches that of the installed version. Two servers
//! are created, one used directly and one through a governor, with the same psql, test after test in the order of the
//! suite's schedule. The two outputs are compared with each other, not with the suite's expected ones: these depend on
//! how a server was built and configured.

pub mod source;

use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use super::governed::Governed;
use super::server::Server;
use source::Suite;

/// Tests whose output differs from run to run of the same server, each with the reason.
const EXCLUDED: &[(&str, &str)] = &[];

/// Of the suite, every Nth test is run, unless `PLIMSOLL_LONG` is set; those that others build on always are.
const SHARE: usize = 3;

/// The tests that others build on: tables, functions, types.
const GROUNDWORK: &str = "test_setup tablespace create_function_c create_misc create_operator create_procedure create_table \
    create_type create_schema create_index create_view create_aggregate create_function_sql create_cast";

/// A run of the suite: a server, its address, and a folder to which both the server and psql write.
struct Run {
    server: Server,
    folder: tempfile::TempDir,
    governed: Option<Governed>,
}

impl Run {
    fn start(suite: &Suite, is_governed: bool) -> Run {
        let server = Server::start();
        // Not in the home of the user that runs this, which the server's account may not be able to read.
        let folder = tempfile::tempdir_in("/tmp").unwrap();
        copy(&suite.folder, folder.path());
        for name in ["results", "testtablespace", ""] {
            let folder = folder.path().join(name);
            fs::create_dir_all(&folder).unwrap();
            fs::set_permissions(folder, fs::Permissions::from_mode(0o777)).unwrap();
        }
        create_database(&server, "regression");
        let governed = is_governed.then(|| Governed::start(&server));
        Run { server, folder, governed }
    }

    /// Runs a test; returns its output without the names of this run's own folder and process.
    fn output(&self, test: &str) -> String {
        let own = self.server.own();
        let script = fs::File::open(self.folder.path().join("sql").join(format!("{test}.sql"))).unwrap();
        let output = self.folder.path().join("results").join(format!("{test}.out"));
        let file = || fs::File::options().create(true).append(true).open(&output).unwrap();
        let (host, port) = match &self.governed {
            Some(governed) => (governed.address.ip().to_string(), governed.address.port()),
            None => (own.socket_folder().display().to_string(), own.port()),
        };
        let mut psql = Command::new(own.installation().program("psql"));
        psql.args(["-X", "-a", "-q", "-v", "HIDE_TABLEAM=on", "-v", "HIDE_TOAST_COMPRESSION=on", "-d", "regression"])
            .env_clear()
            .env("PATH", env::var_os("PATH").unwrap_or_default())
            .env("PGHOST", host)
            .env("PGPORT", port.to_string())
            .env("PGUSER", own.user())
            .env("PGTZ", "PST8PDT")
            .env("PGDATESTYLE", "Postgres, MDY")
            .env("PGOPTIONS", "-c intervalstyle=postgres_verbose")
            .env("PG_ABS_SRCDIR", self.folder.path())
            .env("PG_ABS_BUILDDIR", self.folder.path())
            .env("PG_LIBDIR", self.folder.path())
            .env("PG_DLSUFFIX", ".so")
            .current_dir(self.folder.path())
            .stdin(Stdio::from(script))
            .stdout(file())
            .stderr(file());
        // The status that psql reports is part of the output.
        let status = psql.status().unwrap();
        let said = String::from_utf8_lossy(&fs::read(&output).unwrap()).into_owned();
        let said = said.replace(&self.folder.path().display().to_string(), "FOLDER");
        format!("{said}{status}\n")
    }
}

/// Creates a database as PostgreSQL's own test programs do.
pub fn create_database(server: &Server, name: &str) {
    let mut own = server.connection();
    own.run(&format!("CREATE DATABASE {name} TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'")).unwrap();
    let locale = ["lc_messages", "lc_monetary", "lc_numeric", "lc_time"].map(|name| format!("{name} = 'C'"));
    let mut settings = locale.to_vec();
    settings.push("bytea_output = 'hex'".to_owned());
    if server.own().version().major >= 14 {
        // Numbers of queries derive from those of tables, which differ from server to server.
        settings.push("compute_query_id = 'regress'".to_owned());
    }
    for setting in settings {
        own.run(&format!("ALTER DATABASE {name} SET {setting}")).unwrap();
    }
}

/// Copies a folder's files and folders, readable for all users.
fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            fs::create_dir_all(&target).unwrap();
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), &target).unwrap();
        }
        fs::set_permissions(&target, fs::Permissions::from_mode(0o755)).unwrap();
    }
}

/// The tests of the schedule in order.
fn scheduled(suite: &Suite) -> Vec<String> {
    let schedule = fs::read_to_string(suite.folder.join("parallel_schedule")).unwrap();
    let tests = schedule.lines().filter_map(|line| line.strip_prefix("test:"));
    let tests = tests.flat_map(str::split_whitespace).map(str::to_owned).collect::<Vec<_>>();
    for (excluded, reason) in EXCLUDED {
        assert!(tests.iter().any(|test| test == excluded), "{excluded}, excluded because {reason}, is no test");
    }
    let is_long = env::var_os("PLIMSOLL_LONG").is_some();
    let is_wanted = |(place, test): &(usize, &String)| {
        let is_excluded = EXCLUDED.iter().any(|(excluded, _)| excluded == test);
        !is_excluded && (is_long || place % SHARE == 0 || GROUNDWORK.split(' ').any(|ground| ground == *test))
    };
    tests.iter().enumerate().filter(is_wanted).map(|(_, test)| test.clone()).collect()
}

/// The first lines in which two outputs differ, side by side.
fn difference(test: &str, direct: &str, governed: &str) -> Option<String> {
    let place = direct.lines().zip(governed.lines()).position(|(direct, governed)| direct != governed);
    let place = place.or_else(|| (direct != governed).then(|| direct.lines().count().min(governed.lines().count())))?;
    let shown = |text: &str| text.lines().skip(place.saturating_sub(3)).take(8).collect::<Vec<_>>().join("\n");
    Some(format!("== {test}, line {}\n-- directly\n{}\n-- governed\n{}", place + 1, shown(direct), shown(governed)))
}

#[test]
fn the_servers_own_tests_say_the_same() {
    let suite = Suite::fetched();
    let tests = scheduled(&suite);
    let run = |is_governed: bool| -> Vec<String> {
        let mut run = Run::start(&suite, is_governed);
        let outputs = tests.iter().map(|test| run.output(test)).collect();
        if let Some(governed) = &mut run.governed {
            governed.assert_alive();
        }
        outputs
    };
    let (direct, governed) = thread::scope(|scope| {
        let direct = scope.spawn(|| run(false));
        let governed = run(true);
        (direct.join().unwrap(), governed)
    });
    let differences = tests.iter().zip(direct.iter().zip(&governed));
    let differences = differences.filter_map(|(test, (direct, governed))| difference(test, direct, governed));
    let differences = differences.collect::<Vec<_>>();
    println!("{} tests of {}", tests.len(), suite.version);
    assert!(tests.len() > 40, "the schedule has hardly any tests: {tests:?}");
    // A suite in which everything fails has equal outputs, too.
    let failed = direct.iter().filter(|output| output.contains("connection to server")).count();
    assert_eq!(failed, 0, "no server: {}", direct[0]);
    assert!(differences.is_empty(), "{} of {} differ\n{}", differences.len(), tests.len(), differences.join("\n"));
}
