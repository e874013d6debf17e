//! The latch of an index, and the rule that a thread which holds one neither sleeps nor does long work.
//!
//! All threads that insert into an index or validate a scan of it meet at its latch, whatever their priorities. So code
//! that may sleep, call the system or search for cycles asserts that its thread holds no latch
//! ([`assert_none_is_held`]). The count is kept only in builds with debug assertions.

#[cfg(debug_assertions)]
use std::cell::Cell;

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

#[cfg(debug_assertions)]
thread_local!(static HELD: Cell<u32> = const { Cell::new(0) });

#[derive(Debug, Default)]
pub struct Latch(RwLock<()>);

/// A latch that is held, until this is dropped.
#[derive(Debug)]
pub struct Latched<Guard> {
    _guard: Guard,
    _count: Count,
}

/// A latch held exclusively.
pub type Exclusive<'a> = Latched<RwLockWriteGuard<'a, ()>>;
/// A latch held in shared mode.
pub type Shared<'a> = Latched<RwLockReadGuard<'a, ()>>;

impl Latch {
    pub fn share(&self) -> Shared<'_> {
        Latched { _guard: self.0.read(), _count: Count::one_more() }
    }

    pub fn take(&self) -> Exclusive<'_> {
        Latched { _guard: self.0.write(), _count: Count::one_more() }
    }
}

/// One of the latches that a thread holds.
#[derive(Debug)]
struct Count;

impl Count {
    fn one_more() -> Self {
        #[cfg(debug_assertions)]
        HELD.set(HELD.get() + 1);
        Count
    }
}

#[cfg(debug_assertions)]
impl Drop for Count {
    fn drop(&mut self) {
        HELD.set(HELD.get() - 1);
    }
}

/// Asserts, in builds with debug assertions, that the calling thread holds no latch.
pub fn assert_none_is_held() {
    #[cfg(debug_assertions)]
    assert!(HELD.get() == 0 || std::thread::panicking(), "invariant 9: no latch is held while sleeping or searching");
}

#[cfg(all(test, debug_assertions))]
mod tests {
    use super::*;

    #[test]
    fn a_latch_is_counted_as_long_as_it_is_held() {
        let latch = Latch::default();
        drop((latch.share(), latch.share()));
        assert_none_is_held();
        let held = latch.take();
        assert!(std::panic::catch_unwind(assert_none_is_held).is_err(), "it is held");
        drop(held);
        assert_none_is_held();
    }
}
