//! Important work on the rows that the programs update: two statements a transaction, with some time between.

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
    /// Starts so many.
    pub fn start(address: SocketAddr, database: &str, count: usize) -> Load {
        let is_over = Arc::new(AtomicBool::new(false));
        let worker = |number: usize| {
            let (is_over, database) = (Arc::clone(&is_over), database.to_owned());
            thread::spawn(move || work(address, &database, number, &is_over))
        };
        let threads = (0..count).map(worker).collect();
        Load { is_over, threads }
    }

    /// Ends it. Nobody of the higher class may have been refused anything; they all must have come through.
    pub fn stop(self) {
        self.is_over.store(true, Ordering::Relaxed);
        for thread in self.threads {
            let transactions = thread.join().expect("no transaction of class high fails");
            assert!(transactions > 0, "class high did not get one transaction through");
        }
    }
}

/// Rows are updated in the order of their numbers, as the programs do: what waits here always has an end.
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
