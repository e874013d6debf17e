//! Binds threads of one pool to the class of the job that they poll.
//!
//! The kernel is asked only when the class is another one than that of the job that the thread has polled before, as in the study, for
//! which a change took less than 100 µs.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use datafusion::common::runtime::{JoinSetTracer, set_join_set_tracer};
use futures::FutureExt;
use futures::future::BoxFuture;
use plimsoll_policy::cache_class::CacheClass;

use crate::query::jobs::{CacheBinder, JobCounts};

/// Binds the calling thread where that is needed, and counts it.
#[derive(Debug)]
pub struct Switch {
    binder: Arc<dyn CacheBinder>,
    counts: Arc<JobCounts>,
}

thread_local! {
    /// The last class to which this thread was bound. A thread belongs to one pool, and so to one binder.
    static BOUND: Cell<Option<CacheClass>> = const { Cell::new(None) };
    /// The job that this thread polls now.
    static POLLED: RefCell<Option<(CacheClass, Arc<Switch>)>> = const { RefCell::new(None) };
}

impl Switch {
    /// A switch that counts there. From now on tasks that DataFusion starts within a job belong to it.
    pub(super) fn new(binder: Arc<dyn CacheBinder>, counts: Arc<JobCounts>) -> Self {
        // It can be set once in a process, and only this code sets it, always to the same value.
        let _ = set_join_set_tracer(&Inherit);
        Switch { binder, counts }
    }

    fn to(&self, class: CacheClass) {
        if BOUND.replace(Some(class)) == Some(class) {
            return;
        }
        let began = Instant::now();
        self.binder.bind(rustix::thread::gettid().as_raw_pid(), class);
        let mut counts = self.counts.lock();
        counts.switches += 1;
        counts.switch_time += began.elapsed();
    }
}

/// Work that is polled by threads bound to its class.
pub(super) struct Switched<T> {
    class: CacheClass,
    switch: Arc<Switch>,
    work: BoxFuture<'static, T>,
}

impl<T> Switched<T> {
    pub(super) fn new(class: CacheClass, switch: Arc<Switch>, work: BoxFuture<'static, T>) -> Self {
        Switched { class, switch, work }
    }
}

/// Says which job is polled until it is dropped, even by a panic.
struct Polling(Option<(CacheClass, Arc<Switch>)>);

impl Polling {
    fn begin(class: CacheClass, switch: &Arc<Switch>) -> Self {
        Polling(POLLED.replace(Some((class, Arc::clone(switch)))))
    }
}

impl Drop for Polling {
    fn drop(&mut self) {
        POLLED.set(self.0.take());
    }
}

impl<T> Future for Switched<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        self.switch.to(self.class);
        let _polling = Polling::begin(self.class, &self.switch);
        self.work.poll_unpin(context)
    }
}

/// Makes tasks that are started within a job part of it. Other tasks of DataFusion are not changed.
struct Inherit;

impl JoinSetTracer for Inherit {
    fn trace_future(&self, work: BoxFuture<'static, Box<dyn Any + Send>>) -> BoxFuture<'static, Box<dyn Any + Send>> {
        match POLLED.with_borrow(Clone::clone) {
            Some((class, switch)) => Switched::new(class, switch, work).boxed(),
            None => work,
        }
    }

    fn trace_block(
        &self,
        work: Box<dyn FnOnce() -> Box<dyn Any + Send> + Send>,
    ) -> Box<dyn FnOnce() -> Box<dyn Any + Send> + Send> {
        work
    }
}
