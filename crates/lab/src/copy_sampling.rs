//! Samples the copy that queries read, from before the warm-up to the end of the window, so that the age of changes published
//! before the window is known.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use plimsoll_workload::database::DatabaseError;
use plimsoll_workload::freshness::{CopyHistory, CopyWatch, Freshness};

/// From one look to the next. A look at a server and its standby is two short statements.
const PERIOD: Duration = Duration::from_millis(20);

/// Looks at a copy from [`start`](CopySampling::start) to [`finish`](CopySampling::finish).
pub struct CopySampling {
    /// `None` once the thread was joined.
    thread: Option<JoinHandle<CopyLooks>>,
    stop: Arc<AtomicBool>,
    began: Instant,
    /// When the window opened, and when each of its seconds ended.
    marks: Vec<Duration>,
}

/// The results of the looks.
#[derive(Debug, Default)]
struct CopyLooks {
    history: CopyHistory,
    /// Why looking ended early.
    failure: Option<DatabaseError>,
}

/// The state of the copy during a window.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CopyReading {
    /// Over the whole window; `None` without looks.
    pub whole: Option<Freshness>,
    /// In each second, the rest at its end included.
    pub seconds: Vec<Option<Freshness>>,
    /// Why queries were not measured on data of the window; `None` if they were.
    pub fault: Option<String>,
}

impl CopySampling {
    /// Begins to look.
    pub fn start(mut watch: Box<dyn CopyWatch>) -> CopySampling {
        let (stop, began) = (Arc::new(AtomicBool::new(false)), Instant::now());
        let stopped = Arc::clone(&stop);
        let work = move || look_on(watch.as_mut(), began, &stopped);
        let thread = thread::Builder::new().name("copy-freshness".to_owned()).spawn(work);
        CopySampling { thread: Some(thread.expect("there are few threads yet")), stop, began, marks: Vec::new() }
    }

    /// Opens the window, or ends one of its seconds.
    pub fn mark(&mut self) {
        self.marks.push(self.began.elapsed());
    }

    /// Ends the window and the looking, and returns the results.
    pub fn finish(mut self) -> CopyReading {
        self.mark();
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take().expect("it is waited for here only");
        thread.thread().unpark();
        let looked = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        looked.reading(&self.marks)
    }
}

/// A run that fails does not wait, because the copy may no longer answer.
impl Drop for CopySampling {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Looks until it is stopped or a look fails.
fn look_on(watch: &mut dyn CopyWatch, began: Instant, stop: &AtomicBool) -> CopyLooks {
    let mut looked = CopyLooks::default();
    // Relaxed: it carries no data, and a missed wake-up costs one period.
    while !stop.load(Ordering::Relaxed) {
        let at = began.elapsed();
        match watch.look() {
            Ok(state) => looked.history.add(at, state),
            Err(error) => {
                looked.failure = Some(error);
                break;
            }
        }
        thread::park_timeout((at + PERIOD).saturating_sub(began.elapsed()));
    }
    looked
}

impl CopyLooks {
    /// The state of the copy between the marks.
    fn reading(&self, marks: &[Duration]) -> CopyReading {
        let (Some(opened), Some(closed)) = (marks.first(), marks.last()) else { return CopyReading::default() };
        let seconds = marks.windows(2).map(|second| self.history.within(second[0], second[1])).collect();
        let failed = self.failure.as_ref();
        let failed = failed.map(|why| format!("the copy that queries read could not be watched to the end: {why}"));
        let stale = self.history.stale(*opened, *closed).map(|lag| {
            format!(
                "queries read none of the window's changes: at its end, after {:.1} s, the copy that they read was {:.1} s old; \
                 let fewer clients write; on a standby lower max_standby_streaming_delay, or leave hot_standby_feedback on",
                (*closed - *opened).as_secs_f64(),
                lag.as_secs_f64()
            )
        });
        CopyReading { whole: self.history.within(*opened, *closed), seconds, fault: failed.or(stale) }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use plimsoll_workload::freshness::{ChangeUnit, CopyState};

    use super::*;

    /// A made-up copy: each look finds 100 bytes more published, of which `applied` are applied, and it fails after
    /// `gone_after` looks.
    pub(crate) struct Copy {
        pub looks: u64,
        pub applied: fn(u64) -> u64,
        pub gone_after: u64,
    }

    impl CopyWatch for Copy {
        fn look(&mut self) -> Result<CopyState, DatabaseError> {
            self.looks += 1;
            if self.looks > self.gone_after {
                return Err(DatabaseError::ConnectionLost("the standby has ended".to_owned()));
            }
            Ok(CopyState {
                unit: ChangeUnit::LogBytes,
                published: self.looks * 100,
                applied: (self.applied)(self.looks * 100),
                readable: (self.applied)(self.looks * 100),
                applying: None,
                merged: None,
                delta_bytes: None,
                versions: None,
                blocked: None,
            })
        }
    }

    /// A window of two seconds after a second of warm-up, with a look every 20 ms.
    fn window(mut copy: Copy) -> CopyReading {
        let mut looked = CopyLooks::default();
        for look in 0..=150 {
            match copy.look() {
                Ok(state) => looked.history.add(PERIOD * look, state),
                Err(error) => {
                    looked.failure = Some(error);
                    break;
                }
            }
        }
        looked.reading(&[1, 2, 3].map(Duration::from_secs))
    }

    #[test]
    fn a_window_has_its_seconds_and_a_copy_that_fails_or_stands_still_is_a_fault() {
        let found = window(Copy { looks: 0, applied: |published| published - 50, gone_after: u64::MAX });
        assert_eq!((found.seconds.len(), &found.fault), (2, &None));
        let whole = found.whole.expect("it was looked at");
        assert!((whole.lambda.expect("measured") - 5_000.0).abs() < 1e-6, "{whole:?}");
        let still = window(Copy { looks: 0, applied: |_| 100, gone_after: u64::MAX });
        let why = still.fault.expect("it stands still");
        assert!(why.contains("after 2.0 s") && why.contains("was 3.0 s old"), "{why}");
        let gone = window(Copy { looks: 0, applied: |published| published, gone_after: 60 });
        assert!(gone.fault.expect("it is gone").ends_with("the standby has ended"));
    }

    #[test]
    fn looking_begins_at_once_and_ends_when_it_is_told_to() {
        let mut sampling =
            CopySampling::start(Box::new(Copy { looks: 0, applied: |published| published, gone_after: u64::MAX }));
        sampling.mark();
        thread::sleep(PERIOD * 5);
        let found = sampling.finish();
        let whole = found.whole.expect("there were looks");
        assert_eq!((whole.lag_us.and_then(|lag| lag.max), found.fault), (Some(0.0), None));
    }
}
