//! Runs that end before they are complete.

use super::*;

/// Statements of 40 seconds kept a run of two seconds for 80, and Ctrl-C waited for them.
#[test]
fn ctrl_c_cancels_statements_that_are_under_way() {
    let long = Window { warmup: WarmUp::For(Duration::from_secs(600)), measure: Duration::from_secs(600) };
    let measuring = Window { warmup: WarmUp::For(Duration::ZERO), ..long };
    let check = |phase, window| {
        let mut log = Log { stop_in: Some((phase, Arc::default())), ..Log::default() };
        run_one(&FakeDatabase::endless(), &ClientOptions::default(), window, &mut log)
    };
    assert_eq!(check(Phase::WarmUp, long).expect_err("stopped"), DriveError::Stopped);
    assert_eq!(check(Phase::Measure, measuring).expect_err("stopped"), DriveError::Stopped);
    let measured = check(Phase::Finish, SHORT).expect("the window had ended");
    assert_eq!(measured.workloads[0].measured.aborted.error, 0, "a cancelled request has not failed");
}

#[test]
fn ctrl_c_ends_a_warm_up_and_spares_an_open_window_if_that_is_asked_for() {
    let check = |phase, warmup| {
        let (benchmark, database) = (FakeBenchmark::new(), FakeDatabase::quick());
        let asked = Arc::new(AtomicBool::new(false));
        let mut log = Log { stop_in: Some((phase, asked.clone())), ..Log::default() };
        let options = ClientOptions::default();
        let drives = [Drive { name: "a", benchmark: &benchmark, database: &database, options: &options }];
        let window = Window { warmup: WarmUp::For(warmup), ..SHORT };
        drive(&drives, window, &mut log, Stop { asked: &asked, spares_window: true, cut_after: None })
    };
    assert_eq!(check(Phase::WarmUp, Duration::from_secs(600)).expect_err("stopped"), DriveError::Stopped);
    let measured = check(Phase::Measure, Duration::ZERO).expect("the window is measured to its end");
    assert_eq!(measured.window, SHORT.measure);
}

#[test]
fn requests_that_outlast_the_window_are_cut_and_reported() {
    let (benchmark, database, asked) = (FakeBenchmark::new(), FakeDatabase::endless(), AtomicBool::new(false));
    let options = ClientOptions { clients: 2, ..ClientOptions::default() };
    let drives = [Drive { name: "a", benchmark: &benchmark, database: &database, options: &options }];
    let cut_after = Some(Duration::from_millis(300));
    let measured = drive(&drives, SHORT, &mut (), Stop { asked: &asked, spares_window: false, cut_after });
    let measured = measured.expect("it runs");
    let told =
        measured.warnings.iter().filter(|told| told.starts_with("2 requests under way at the end of the window"));
    assert_eq!(told.count(), 1, "{:?}", measured.warnings);
    assert_eq!(measured.workloads[0].measured.aborted.error, 0);
}

#[test]
fn more_clients_than_the_server_accepts_are_refused_before_one_connects() {
    let database = FakeDatabase::with_room(96);
    let options = ClientOptions { clients: 97, ..ClientOptions::default() };
    let error = run_one(&database, &options, SHORT, &mut Log::default()).expect_err("too many").to_string();
    assert!(error.contains("97 clients, but the server accepts 96 more connections; use fewer clients"), "{error}");
}

/// The work itself ends with the error of its statement; an unstopped one is left alone.
#[test]
fn work_outside_of_runs_is_cancelled_too() {
    let database = FakeDatabase::endless();
    let commit = || database.session(FakeBenchmark::new().schema()).expect("it is open").commit();
    let stopped = crate::cancelling::cancelling(&database, &AtomicBool::new(true), commit);
    assert!(stopped.is_err());
    assert_eq!(crate::cancelling::cancelling(&database, &AtomicBool::new(false), || 7), 7);
}
