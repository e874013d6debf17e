//! Every signal that ends a program, at every phase of a command: it ends soon, with 130, and leaves nothing at a server.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "common/program.rs"]
mod program;

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::time::{Duration, Instant};

use program::{RunningProgram, assert_ended, plimsoll, run, said};

/// The signals that a terminal sends, also when it is closed, and those of operators and service managers.
const SIGNALS: [&str; 3] = ["INT", "TERM", "HUP"];

/// A command ends within this time. The two seconds that are promised are on a machine that does nothing else; tests run beside
/// others.
const WITHIN: Duration = Duration::from_secs(6);

/// Starts a command, waits until it says `moment`, sends the signal, and returns what it said. It must end soon, with 130.
fn interrupted(arguments: &[&str], folder: &Path, moment: &str, signal: &str) -> String {
    let mut running = RunningProgram::start(&mut plimsoll(arguments, folder));
    running.until(moment);
    running.signal(signal);
    let began = Instant::now();
    let code = running.end();
    let took = began.elapsed();
    assert_eq!(code, Some(130), "{signal} at `{moment}`: {}", running.said);
    assert!(took < WITHIN, "{signal} at `{moment}`: it took {took:?}: {}", running.said);
    std::mem::take(&mut running.said)
}

/// Processes of servers in a folder.
fn servers_in(folder: &Path) -> Vec<String> {
    let mark = folder.display().to_string();
    let command = |entry: fs::DirEntry| fs::read_to_string(entry.path().join("cmdline")).ok();
    let all = fs::read_dir("/proc").unwrap().flatten().filter_map(command);
    all.filter(|command| command.contains("postgres") && command.contains(&mark)).collect()
}

/// A folder for private servers, whose user must be able to enter it.
fn server_folder() -> tempfile::TempDir {
    let folder = tempfile::Builder::new().prefix("plimsoll-signals").tempdir_in("/var/tmp").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(folder.path(), mode).unwrap();
    folder
}

/// A workload whose one statement takes 40 seconds.
const SLOW: &str = r#"
writes = "nothing"
[[transaction]]
name = "slow"
statements = ["SELECT pg_sleep(40)"]
"#;

#[test]
fn a_bench_of_the_embedded_engine_ends_in_every_phase() {
    let folder = tempfile::tempdir().unwrap();
    for signal in SIGNALS {
        let loading = ["bench", "tpcc:20", "--clients", "2"];
        interrupted(&loading, folder.path(), "loading tpcc", signal);
        let warming_up = ["bench", "rows:0.001", "--warmup", "60", "--seconds", "60"];
        interrupted(&warming_up, folder.path(), "run 1 of 1", signal);
        let measuring = ["bench", "rows:0.001", "--warmup", "0", "--seconds", "60"];
        interrupted(&measuring, folder.path(), "run 1 of 1", signal);
        interrupted(&["check", "tpcc:20"], folder.path(), "loading tpcc", signal);
    }
}

/// Statements of 40 seconds: Ctrl-C waited for them, in the warm-up, in the window and after it.
#[test]
fn a_bench_of_a_server_ends_in_every_phase_and_leaves_no_server() {
    let (folder, servers) = (tempfile::tempdir().unwrap(), server_folder());
    fs::write(folder.path().join("slow.toml"), SLOW).unwrap();
    let option = format!("folder={}", servers.path().display());
    let bench = |workload: &'static str, more: &[&'static str]| {
        let fixed = ["bench", workload, "--target", "postgres:", "--option", &option];
        [&fixed[..], more].concat().into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    for (signal, arguments, moment) in [
        ("INT", bench("tpcc:50", &[]), "loading tpcc"),
        ("TERM", bench("tpcc:50", &[]), "loading tpcc"),
        ("INT", bench("file:slow.toml", &["--warmup", "60", "--seconds", "60"]), "run 1 of 1"),
        ("TERM", bench("file:slow.toml", &["--warmup", "0", "--seconds", "60"]), "run 1 of 1"),
        ("INT", bench("file:slow.toml", &["--warmup", "0", "--seconds", "60", "--clients", "40"]), "run 1 of 1"),
        ("INT", bench("file:slow.toml", &["--warmup", "0", "--seconds", "0.2"]), "outlast the window"),
        ("TERM", bench("file:slow.toml", &["--warmup", "0", "--seconds", "0.2"]), "outlast the window"),
    ] {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        interrupted(&arguments, folder.path(), moment, signal);
        plimsoll_testing::until("the server to end", || servers_in(servers.path()).is_empty());
    }
}

/// A server that accepts connections and never answers: nothing can be cancelled there.
#[test]
fn a_bench_of_a_server_that_does_not_answer_ends() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = format!("postgres://nobody@{}/x", listener.local_addr().unwrap());
    let folder = tempfile::tempdir().unwrap();
    for signal in SIGNALS {
        let mut running =
            RunningProgram::start(&mut plimsoll(&["bench", "rows:0.001", "--target", &target], folder.path()));
        let _connection = listener.accept().unwrap();
        running.signal(signal);
        let began = Instant::now();
        assert_eq!(running.end(), Some(130), "{}", running.said);
        assert!(began.elapsed() < WITHIN, "it took {:?}", began.elapsed());
    }
}

/// An experiment keeps a run whose window is open; a warm-up is worth nothing.
#[test]
fn an_experiment_ends_at_once_while_it_loads_or_warms_up() {
    let folder = tempfile::tempdir().unwrap();
    let text = |scale: &str| {
        format!(
            "name = \"x\"\n[[workload]]\nkind = \"tpcc\"\nscale = {scale}\n[run]\nwarmup = \"60s\"\nmeasure = \"60s\"\nrepeats = 2\n"
        )
    };
    fs::write(folder.path().join("large.toml"), text("20")).unwrap();
    fs::write(folder.path().join("small.toml"), text("1")).unwrap();
    for signal in SIGNALS {
        interrupted(&["run", "large.toml", "--out", "out"], folder.path(), "loading tpcc", signal);
        interrupted(&["run", "small.toml", "--out", "out"], folder.path(), "run 1 of 2", signal);
        assert!(!folder.path().join("out").exists(), "nothing was measured, so nothing is written");
    }
}

/// `--seconds 2` took 80 seconds where statements took 40.
#[test]
fn statements_that_outlast_the_window_are_cut_if_that_is_asked_for() {
    let (folder, servers) = (tempfile::tempdir().unwrap(), server_folder());
    fs::write(folder.path().join("slow.toml"), SLOW).unwrap();
    let option = format!("folder={}", servers.path().display());
    let bench = ["bench", "file:slow.toml", "--target", "postgres:", "--option", &option];
    let began = Instant::now();
    let cut = run(&[&bench[..], &["--seconds", "1", "--warmup", "0", "--seconds-max", "3"]].concat(), folder.path());
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    let told = program::printed(&cut).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        told.contains("1 request under way at the end of the window was cancelled 3 s after the beginning"),
        "{told}"
    );
    assert!(said(&cut).contains("waiting for requests that outlast the window"), "{}", said(&cut));
    let senseless = run(&[&bench[..], &["--seconds", "5", "--seconds-max", "3"]].concat(), folder.path());
    assert_ended(&senseless, 2);
    assert!(said(&senseless).contains("--seconds-max 3: warm-up and window alone take 6.0 s"), "{}", said(&senseless));
}

/// A million threads took six minutes to begin, and Ctrl-C was not heeded meanwhile.
#[test]
fn more_clients_than_the_machine_can_hold_are_refused_before_one_begins() {
    let folder = tempfile::tempdir().unwrap();
    let began = Instant::now();
    let refused = run(&["bench", "rows:0.001", "--clients", "1000000"], folder.path());
    assert_ended(&refused, 2);
    assert!(said(&refused).contains("1000000 clients cannot run here: "), "{}", said(&refused));
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    let refused = run(&["bench", "rows:0.001", "--clients", "600", "--target", "postgres:"], folder.path());
    assert_ended(&refused, 2);
    assert!(said(&refused).contains("600 clients, but the server accepts "), "{}", said(&refused));
}
