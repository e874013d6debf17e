//! A target is met at a real server: fewer and fewer clients hold the row that the important class waits for.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use super::client::Client;
use super::governed::Governed;
use super::server::Server;

/// The time limit of the controller on a busy machine; it takes seconds on a quiet one.
const PATIENCE: Duration = Duration::from_secs(120);

/// Columns of `SHOW TARGETS`.
const STATE: usize = 2;
const LIMITED: usize = 10;

/// Waits until the one target has the expected state.
fn wait_for(console: &mut Client, what: &str, is_so: impl Fn(&[Option<String>]) -> bool) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let answer = console.query("SHOW TARGETS").unwrap();
        // None in the second after it was set.
        let target = answer.rows.into_iter().next().unwrap_or_default();
        if !target.is_empty() && is_so(&target) {
            return;
        }
        assert!(Instant::now() < deadline, "{what}: {target:?}");
        thread::sleep(Duration::from_millis(200));
    }
}

/// Ends clients also if an assertion fails before: the test waits for their threads.
struct EndsOnDrop<'a>(&'a AtomicBool);

impl Drop for EndsOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Six clients hold the row that important transactions change for 20 ms each. The important ones are promised 60 ms,
/// which is too little beside six and enough beside one.
#[test]
fn holders_are_limited_until_important_work_is_as_fast_as_promised() {
    let server = Server::start();
    let governed = Governed::start_with(&server, "", "preemptible = false");
    let mut console = governed.console().unwrap();
    let has_ended = AtomicBool::new(false);
    thread::scope(|scope| {
        let _ends = EndsOnDrop(&has_ended);
        let run = |user: &'static str, sql: &'static str, pause: Duration| {
            let mut client = governed.client(user, server.database());
            let has_ended = &has_ended;
            scope.spawn(move || {
                while !has_ended.load(Relaxed) {
                    client.query(sql).unwrap();
                    thread::sleep(pause);
                }
            });
        };
        for _ in 0..6 {
            let hold = "BEGIN; UPDATE hot SET low = low + 1 WHERE id = 1; SELECT pg_sleep(0.02); COMMIT";
            run("low", hold, Duration::ZERO);
        }
        for _ in 0..3 {
            run("high", "UPDATE hot SET high = high + 1 WHERE id = 1", Duration::from_millis(5));
        }
        console.query("SET class.high.target = p95 < 60ms").unwrap();
        let is_limited = |target: &[Option<String>]| {
            target[LIMITED]
                .as_deref()
                .is_some_and(|limited| limited.contains("low mpl ") && limited.contains(" of any"))
        };
        wait_for(&mut console, "it is not limited", is_limited);
        let is_held = |target: &[Option<String>]| is_limited(target) && target[STATE].as_deref() == Some("held");
        wait_for(&mut console, "it is not held", is_held);
        assert!(governed.count(Some("high"), "target_moves") > 0);
        console.query("SET class.high.target = none").unwrap();
        let deadline = Instant::now() + PATIENCE;
        while console.query("SHOW CLASSES").unwrap().rows[1][2].is_some() {
            assert!(Instant::now() < deadline, "the limit outlives the target");
            thread::sleep(Duration::from_millis(200));
        }
    });
    assert!(governed.said().contains("a lever was moved: "), "{}", governed.said());
}
