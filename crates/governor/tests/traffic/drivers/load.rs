//! Important work on the rows that the programs update: two statements per transaction, with a pause between.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::super::client::Client;

/// Threads of class high, until stopped.
pub struct Load {
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<u64>>,
}

impl Load {
    /// Starts the given number of threads.
    pub fn start(address: SocketAddr, database: &str, count: usize) -> Load {
        let is_over = Arc::new(AtomicBool::new(false));
        let worker = |number: usize| {
            let (is_over, database) = (Arc::clone(&is_over), database.to_owned());
            thread::spawn(move || work(address, &database, number, &is_over))
        };
        let threads = (0..count).map(worker).collect();
        Load { is_over, threads }
    }

    /// Ends the load. No client of the higher class may have been refused, and all must have made progress.
    pub fn stop(self) {
        self.is_over.store(true, Ordering::Relaxed);
        for thread in self.threads {
            let transactions = thread.join().expect("no transaction of class high fails");
            assert!(transactions > 0, "class high did not get one transaction through");
        }
    }
}

/// Rows are updated in the order of their numbers, as the programs do: a wait here always ends.
fn work(address: SocketAddr, database: &str, number: usize, is_over: &AtomicBool) -> u64 {
    let mut client = Client::connect(address, "high", database).unwrap_or_else(|failure| panic!("{failure}"));
    let mut transactions = 0;
    while !is_over.load(Ordering::Relaxed) {
        let first = 1 + (transactions as usize + number) % 2;
        for sql in [
            "BEGIN",
            &format!("UPDATE hot SET high = high + 1 WHERE id = {first}"),
            &format!("UPDATE hot SET high = high + 1 WHERE id = {}", first + 1),
            "COMMIT",
        ] {
            client.query(sql).unwrap_or_else(|failure| panic!("{sql}: {failure}"));
        }
        transactions += 1;
        thread::sleep(Duration::from_millis(5));
    }
    transactions
}
