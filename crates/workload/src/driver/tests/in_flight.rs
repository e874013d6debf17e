//! Requests that are in flight when the window ends.

use super::*;

#[test]
fn load_is_kept_up_until_requests_in_flight_at_the_end_have_ended() {
    // One client's only query outlasts the window until the other workload has completed another thousand requests.
    let (transactions, queries) = (FakeBenchmark::new(), FakeBenchmark::analytical());
    let oltp_done = Arc::new(AtomicU64::new(0));
    let counter = oltp_done.clone();
    let oltp = FakeDatabase::scripted(move |_| {
        counter.fetch_add(1, Ordering::Relaxed);
        Ok(())
    });
    let closed_at = Arc::new(AtomicU64::new(u64::MAX));
    let (seen, closed) = (oltp_done.clone(), closed_at.clone());
    let olap = FakeDatabase::scripted(move |_| {
        while seen.load(Ordering::Relaxed) < closed.load(Ordering::Relaxed).saturating_add(1000) {
            std::thread::yield_now();
        }
        Ok(())
    });
    struct CloseMark(Arc<AtomicU64>, Arc<AtomicU64>);
    impl WindowObserver for CloseMark {
        fn opened(&mut self, _threads: &[WorkloadThreads]) {}
        fn closed(&mut self) {
            self.1.store(self.0.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }
    let options = ClientOptions::default();
    let drives = [
        Drive { name: "oltp", benchmark: &transactions, database: &oltp, options: &options },
        Drive { name: "olap", benchmark: &queries, database: &olap, options: &options },
    ];
    let mut mark = CloseMark(oltp_done, closed_at);
    // Were the transactions to end with the window, this would never return.
    let measured = drive(&drives, SHORT, &mut mark, &AtomicBool::new(false)).expect("it runs");
    assert_eq!(measured.workloads[1].measured.all.completed, 0);
    let query = &measured.workloads[1].all;
    assert!(query.work_done > 0.0 && query.work_done < 1.0, "{}", query.work_done);
    assert_eq!(query.times.occupied, SHORT.measure);
}
