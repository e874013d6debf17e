//! The board's view of clients at work.

use super::*;

/// Looks at the clients until each of them has been seen at work and without a request.
#[derive(Default)]
struct Watcher {
    board: Board,
    servers: Vec<Option<i32>>,
    seen: Vec<RunningRequest>,
}

impl WindowObserver for Watcher {
    fn opened(&mut self, threads: &[WorkloadThreads]) {
        self.board = threads[0].board.clone();
        self.servers = threads[0].servers.clone();
        for client in 0..2 {
            let (mut busy, mut idle) = (None, false);
            while busy.is_none() || !idle {
                let now = self.board.under_way(client);
                idle |= now.is_none();
                busy = busy.or(now);
                std::thread::yield_now();
            }
            self.seen.extend(busy);
        }
    }

    fn closed(&mut self) {}
}

#[test]
fn a_client_says_what_it_is_doing() {
    let priority = "high:1.0".parse().expect("a rule");
    let think = "const 50us".parse().expect("a delay");
    let options = ClientOptions { clients: 2, priority, think, ..ClientOptions::default() };
    // Long enough to be seen.
    let database = FakeDatabase::scripted(|_| {
        std::thread::yield_now();
        Ok(())
    });
    let benchmark = FakeBenchmark::new();
    let drives = [Drive { name: "a", benchmark: &benchmark, database: &database, options: &options }];
    let mut watcher = Watcher::default();
    drive(&drives, SHORT, &mut watcher, &AtomicBool::new(false)).expect("it runs");
    assert_eq!(watcher.seen.len(), 2);
    assert!(
        watcher.seen.iter().all(|seen| seen.priority == Priority::HIGH && seen.transaction < 3),
        "{:?}",
        watcher.seen
    );
    assert_eq!((watcher.board.under_way(0), watcher.board.under_way(1)), (None, None), "all have ended");
    assert_eq!(watcher.servers, [None, None], "the fake is in this process");
}
