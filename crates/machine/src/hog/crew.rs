//! The threads of a hog. They are pinned, ready before the hog is reported as running, and end with it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::thread::CpuSet;

use super::HogError;

/// Longest single sleep, and so the longest time until a worker notices that it must stop.
const NAP_MAX: Duration = Duration::from_millis(50);

/// Threads that work until the crew is dropped.
#[derive(Debug)]
pub struct Crew {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

/// A worker's flag that tells it to end.
#[derive(Debug, Clone)]
pub struct Leave(Arc<AtomicBool>);

impl Leave {
    /// Whether the worker is to end. Relaxed: the flag guards no other data.
    pub fn is_asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Sleeps, unless asked to end.
    pub fn sleep(&self, mut wait: Duration) {
        while !wait.is_zero() && !self.is_asked() {
            let nap = wait.min(NAP_MAX);
            std::thread::sleep(nap);
            wait -= nap;
        }
    }
}

impl Crew {
    /// Starts `count` threads. Each thread calls `prepare`, which pins it and makes its buffer, and then runs the
    /// closure that this returns. All are ready when `start` returns; if one could not prepare, all have ended.
    pub fn start<P, W>(count: usize, prepare: P) -> Result<Crew, HogError>
    where
        P: Fn(usize) -> Result<W, HogError> + Send + Sync + 'static,
        W: FnOnce(&Leave),
    {
        let mut crew = Crew { stop: Arc::new(AtomicBool::new(false)), threads: Vec::with_capacity(count) };
        let prepare = Arc::new(prepare);
        let (ready, all_ready) = mpsc::channel();
        for index in 0..count {
            let (prepare, ready, leave) = (Arc::clone(&prepare), ready.clone(), Leave(Arc::clone(&crew.stop)));
            let body = move || match prepare(index) {
                Ok(work) => {
                    let _ = ready.send(Ok(()));
                    drop(ready);
                    work(&leave);
                }
                Err(error) => {
                    let _ = ready.send(Err(error));
                }
            };
            let thread = std::thread::Builder::new().name(format!("hog-{index}")).spawn(body);
            crew.threads.push(thread.map_err(HogError::Thread)?);
        }
        drop(ready);
        // The first failure; dropping the crew ends its threads.
        all_ready.iter().collect::<Result<(), HogError>>()?;
        Ok(crew)
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A worker that panicked has reported it on stderr.
            let _ = thread.join();
        }
    }
}

/// Pins the calling thread to one core.
pub fn pin(core: usize) -> Result<(), HogError> {
    let refused = |error| HogError::Core { core, error };
    if core >= CpuSet::MAX_CPU {
        return Err(refused(std::io::ErrorKind::InvalidInput.into()));
    }
    let mut cores = CpuSet::new();
    cores.set(core);
    rustix::thread::sched_setaffinity(None, &cores).map_err(|error| refused(error.into()))
}

/// Pins the calling thread to one of `cores` by its number within the crew; leaves it unpinned if there are none.
pub(crate) fn pin_to_one(cores: &[usize], index: usize) -> Result<(), HogError> {
    if cores.is_empty() { Ok(()) } else { pin(cores[index % cores.len()]) }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[test]
    fn threads_are_ready_and_go() {
        let working = Arc::new(AtomicUsize::new(0));
        let inside = Arc::clone(&working);
        let crew = Crew::start(3, move |_| {
            inside.fetch_add(1, Ordering::SeqCst);
            let inside = Arc::clone(&inside);
            Ok(move |leave: &Leave| {
                leave.sleep(Duration::from_secs(3600));
                inside.fetch_sub(1, Ordering::SeqCst);
            })
        })
        .unwrap();
        assert_eq!(working.load(Ordering::SeqCst), 3);
        drop(crew);
        assert_eq!(working.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn one_that_cannot_ends_all() {
        let prepare = |index| {
            pin_to_one(if index == 1 { &[999_999] } else { &[] }, index)?;
            Ok(|leave: &Leave| leave.sleep(Duration::from_secs(3600)))
        };
        let error = Crew::start(2, prepare).unwrap_err().to_string();
        assert!(error.contains("core 999999"), "{error}");
    }
}
