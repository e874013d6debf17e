//! Helpers for the tests of all crates: how a test skips work that this machine does not support, how it waits, how it
//! checks messages and generated files, and how it makes a certificate.
//!
//! A test that returns early looks like one that passed. So it calls [`skip`] first, which writes the reason to
//! standard error, adds a line to the file that [`SKIPS`] names, and fails if [`REQUIRE`] lists the need:
//!
//! ```no_run
//! # fn control_group() -> std::io::Result<()> { Ok(()) }
//! use plimsoll_testing::{Need, skip};
//!
//! if let Err(error) = control_group() {
//!     return skip(Need::Cgroups, error);
//! }
//! ```
//!
//! `./check` counts these lines and prints them at its end.
//!
//! [`postgres_version`] finds the versions of PostgreSQL that tests run against, and [`python`] the Python that has the
//! packages of the guides.

use std::fmt::Display;
use std::io::Write;
use std::panic::Location;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// The environment variable that lists the needs that this machine fulfils, by [`Need::name`], separated by commas: a
/// test that skips itself for want of one of these fails.
pub const REQUIRE: &str = "PLIMSOLL_REQUIRE";

/// The environment variable that names the file to which every skip adds a line: need, crate, test and reason,
/// separated by tabs.
pub const SKIPS: &str = "PLIMSOLL_SKIPS";

/// Something that tests need and a machine may lack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Control groups that this process may make, and limits of cores and memory by them.
    Cgroups,
    /// Control groups of version 1, whose limits behave differently.
    CgroupsV1,
    /// A file system on a disk of its own that takes direct requests, and control groups that limit it.
    Disk,
    /// Cache allocation by a mounted resctrl in which this process may make groups.
    Resctrl,
    /// A processor whose performance counters the kernel can see.
    Perf,
    /// The right to call `perf_event_open` for the kernel's own events.
    PerfEvents,
    /// The program `perf`.
    PerfTool,
    /// A kernel that keeps pressure (`/proc/pressure`).
    Pressure,
    /// A kernel that accounts for each thread's times on a core and before it, and for its reads.
    Accounting,
    /// A kernel that accounts for the waiting of each thread for disks (`kernel.task_delayacct`).
    DiskWaits,
    /// The rights of root.
    Root,
    /// A file system in memory at `/dev/shm`.
    Shm,
    /// The right to run on core 0.
    Core0,
    /// PostgreSQL's programs. Nothing is skipped without them: tests that need them always fail.
    Postgres,
    /// The program `pgbouncer`.
    Pgbouncer,
    /// Every version of PostgreSQL that is supported, as [`postgres_version`] finds them.
    PostgresVersions,
    /// The program `valgrind`.
    Valgrind,
}

/// Every need.
pub const NEEDS: [Need; 17] = [
    Need::Cgroups,
    Need::CgroupsV1,
    Need::Disk,
    Need::Resctrl,
    Need::Perf,
    Need::PerfEvents,
    Need::PerfTool,
    Need::Pressure,
    Need::Accounting,
    Need::DiskWaits,
    Need::Root,
    Need::Shm,
    Need::Core0,
    Need::Postgres,
    Need::Pgbouncer,
    Need::PostgresVersions,
    Need::Valgrind,
];

impl Need {
    /// Its name in [`REQUIRE`] and in lines of [`SKIPS`].
    pub fn name(self) -> &'static str {
        match self {
            Need::Cgroups => "cgroups",
            Need::CgroupsV1 => "cgroups-v1",
            Need::Disk => "disk",
            Need::Resctrl => "resctrl",
            Need::Perf => "perf",
            Need::PerfEvents => "perf-events",
            Need::PerfTool => "perf-tool",
            Need::Pressure => "pressure",
            Need::Accounting => "accounting",
            Need::DiskWaits => "disk-waits",
            Need::Root => "root",
            Need::Shm => "shm",
            Need::Core0 => "core-0",
            Need::Postgres => "postgres",
            Need::Pgbouncer => "pgbouncer",
            Need::PostgresVersions => "postgres-versions",
            Need::Valgrind => "valgrind",
        }
    }
}

/// Records that the calling test, or a part of it, is left out because this machine lacks something.
///
/// # Panics
/// If [`REQUIRE`] lists the need, or lists something that is not a need.
#[track_caller]
pub fn skip(need: Need, why: impl Display) {
    let required = std::env::var(REQUIRE).unwrap_or_default();
    let why = one_line(&why.to_string());
    match is_required(&required, need) {
        Ok(false) => {}
        Ok(true) => panic!("this test may not be skipped, for {REQUIRE} lists `{}`: {why}", need.name()),
        Err(unknown) => panic!("{REQUIRE} lists `{unknown}`, which is none of {}", names().join(", ")),
    }
    eprintln!("left out for want of {}: {why}", need.name());
    let Some(file) = std::env::var_os(SKIPS) else { return };
    let line = format!("{}\t{}\t{}\t{why}\n", need.name(), of_crate(), test(Location::caller()));
    // One write of one line: tests of many processes add to the file at the same time.
    let written = std::fs::File::options().create(true).append(true).open(&file);
    let written = written.and_then(|mut file| file.write_all(line.as_bytes()));
    written.unwrap_or_else(|error| panic!("{SKIPS} is {}, to which nothing can be added: {error}", file.display()));
}

/// The folder of the programs of a major version of PostgreSQL, from `tools/postgresql-versions`, which fetches all
/// versions the first time. `None`, after a [`skip`], if they are not available.
///
/// # Panics
/// If the tool knows no such version.
#[track_caller]
pub fn postgres_version(major: u32) -> Option<PathBuf> {
    // Tests run in their crate's folder. A path fixed at compile time may be that of another checkout that shares the
    // build folder.
    let tool = "../../tools/postgresql-versions";
    let said = match Command::new(tool).output() {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout).into_owned(),
        Ok(output) => {
            skip(Need::PostgresVersions, String::from_utf8_lossy(&output.stderr));
            return None;
        }
        Err(error) => {
            skip(Need::PostgresVersions, format!("{tool}: {error}"));
            return None;
        }
    };
    let found =
        said.lines().filter_map(|line| line.split_once('\t')).find(|(version, _)| *version == major.to_string());
    let (_, folder) = found.unwrap_or_else(|| panic!("{tool} knows no PostgreSQL {major}:\n{said}"));
    Some(PathBuf::from(folder))
}

/// The Python of the environment that `docs/python-environment` makes.
///
/// # Panics
/// If `PLIMSOLL_PYTHON_BIN` does not name it.
#[track_caller]
pub fn python() -> PathBuf {
    let remedy = "run ./check, or set it: export PLIMSOLL_PYTHON_BIN=\"$(docs/python-environment)\"";
    let python = std::env::var_os("PLIMSOLL_PYTHON_BIN");
    python.unwrap_or_else(|| panic!("PLIMSOLL_PYTHON_BIN is not set; {remedy}")).into()
}

/// Longer than anything that a test waits for, also on a busy machine; only a broken test waits this long.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until a condition holds.
///
/// # Panics
/// If it does not within [`PATIENCE`].
#[track_caller]
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Checks that a message contains the expected text; `of` is the subject of the message, such as the refused input.
///
/// # Panics
/// If it does not.
#[track_caller]
pub fn says(of: &str, message: &str, expect: &str) {
    assert!(message.contains(expect), "{of}\nexpected {expect}\nfound    {message}");
}

/// Runs OpenSSL in a folder.
///
/// # Panics
/// If it fails.
pub fn openssl(folder: &Path, arguments: &str) {
    let output = Command::new("openssl").current_dir(folder).args(arguments.split_whitespace()).output();
    let output = output.unwrap_or_else(|error| panic!("openssl cannot be run: {error}"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Makes a certificate and its key in a folder, `server.crt` and `server.key`.
///
/// # Panics
/// If OpenSSL fails.
pub fn certificate(folder: &Path) {
    let arguments = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=server \
                     -keyout server.key -out server.crt";
    openssl(folder, arguments);
}

/// The environment variable with which [`check_made`] rewrites files.
pub const BLESS: &str = "PLIMSOLL_BLESS";

/// Checks that a file of the repository which the code generates, wholly or in part, has the text that the code
/// generates now. With [`BLESS`] it is written first.
///
/// # Panics
/// If it has another text, with the command that writes it.
#[track_caller]
pub fn check_made(path: impl AsRef<Path>, text: &str) {
    let path = path.as_ref();
    if std::env::var_os(BLESS).is_some() {
        std::fs::write(path, text).unwrap_or_else(|error| panic!("{} cannot be written: {error}", path.display()));
    }
    let is_same = std::fs::read_to_string(path).is_ok_and(|kept| kept == text);
    let (of, test) = (of_crate(), test(Location::caller()));
    assert!(
        is_same,
        "{} is not what the code makes; write it again with\n  {BLESS}=1 cargo test --release -p {of} {test}",
        path.display()
    );
}

/// Whether a list of needs has this one; fails with an entry that is not a need, since a wrong name would require
/// nothing.
fn is_required(list: &str, need: Need) -> Result<bool, String> {
    let entries = || list.split(',').map(str::trim).filter(|entry| !entry.is_empty());
    match entries().find(|entry| !names().contains(entry)) {
        Some(unknown) => Err(unknown.to_owned()),
        None => Ok(entries().any(|entry| entry == need.name())),
    }
}

fn names() -> Vec<&'static str> {
    NEEDS.iter().map(|need| need.name()).collect()
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The crate whose tests run, from cargo's environment.
fn of_crate() -> String {
    std::env::var("CARGO_PKG_NAME").unwrap_or_else(|_| "?".to_owned())
}

/// The name of the running test's thread, which is that of the test. If tests run one by one on the main thread, the
/// place in the source.
fn test(place: &Location<'_>) -> String {
    match std::thread::current().name() {
        Some(name) if name != "main" => name.to_owned(),
        _ => format!("{}:{}", place.file(), place.line()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_listed_is_required_and_a_wrong_name_is_told() {
        assert_eq!(is_required("", Need::Perf), Ok(false));
        assert_eq!(is_required("cgroups, disk,", Need::Disk), Ok(true));
        assert_eq!(is_required("cgroups-v1", Need::Cgroups), Ok(false));
        assert_eq!(is_required("disk,discs", Need::Disk), Err("discs".to_owned()));
    }

    #[test]
    fn what_a_message_should_say_is_looked_for() {
        says("x = 1", "x.toml:1:1: there is no key `x`", "no key `x`");
        let failed = std::panic::catch_unwind(|| says("x = 1", "no key `x`", "no key `y`")).unwrap_err();
        let said = failed.downcast_ref::<String>().unwrap();
        assert_eq!(said, "x = 1\nexpected no key `y`\nfound    no key `x`");
    }

    #[test]
    fn a_file_that_is_not_what_the_code_makes_is_told() {
        if std::env::var_os(BLESS).is_some() {
            return; // No file differs then.
        }
        let file = std::env::temp_dir().join(format!("plimsoll-made-{}", std::process::id()));
        std::fs::write(&file, "a\n").unwrap();
        check_made(&file, "a\n");
        let failed = std::panic::catch_unwind(|| check_made(&file, "b\n")).unwrap_err();
        std::fs::remove_file(&file).unwrap();
        let said = failed.downcast_ref::<String>().unwrap();
        assert!(said.contains("PLIMSOLL_BLESS=1 cargo test --release -p plimsoll-testing "), "{said}");
        assert!(std::panic::catch_unwind(|| check_made(&file, "a\n")).is_err(), "there is no file");
    }

    #[test]
    fn every_need_is_listed_once() {
        let mut all = names();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), NEEDS.len());
        for (at, need) in NEEDS.iter().enumerate() {
            assert_eq!(*need as usize, at, "{} is not in the order of the enum", need.name());
        }
    }

    /// Not a test by itself: the skip that [`a_skip_is_noted_or_fails`] runs in a process of its own.
    #[test]
    fn skip_in_a_process_of_its_own() {
        if std::env::var_os("PLIMSOLL_TEST_SKIP").is_some() {
            skip(Need::Pressure, "no\nsuch thing");
        }
    }

    #[test]
    fn a_skip_is_noted_or_fails() {
        let file = std::env::temp_dir().join(format!("plimsoll-skips-{}", std::process::id()));
        let run = |required: &str| {
            std::process::Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "tests::skip_in_a_process_of_its_own"])
                .env("PLIMSOLL_TEST_SKIP", "1")
                .env("CARGO_PKG_NAME", "plimsoll-testing")
                .env(SKIPS, &file)
                .env(REQUIRE, required)
                .output()
                .unwrap()
        };
        assert!(run("cgroups").status.success());
        let noted = std::fs::read_to_string(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
        let expect = "pressure\tplimsoll-testing\ttests::skip_in_a_process_of_its_own\tno such thing\n";
        assert_eq!(noted, expect);

        let failed = run("cgroups,pressure");
        let said = String::from_utf8_lossy(&failed.stdout).into_owned();
        assert!(!failed.status.success() && said.contains("may not be skipped"), "{said}");
        assert!(!file.exists(), "what has failed is no skip");
        let failed = run("presure");
        let said = String::from_utf8_lossy(&failed.stdout).into_owned();
        assert!(!failed.status.success() && said.contains("`presure`, which is none of cgroups"), "{said}");
    }
}
