//! The synchronization primitives of threads in a world: each operation is a step. Outside of a world they behave like
//! their originals.

use system::ops::{Deref, DerefMut};
use system::sync::{PoisonError, TryLockError};
use system::time::Duration;

use crate::scheduler::{self, Fault, sleep_at, step, wake};

/// As `parking_lot::Mutex`.
#[derive(Debug, Default)]
pub struct Mutex<T>(system::sync::Mutex<T>);

/// As `parking_lot::MutexGuard`.
#[derive(Debug)]
pub struct MutexGuard<'a, T> {
    mutex: &'a Mutex<T>,
    /// `None` while it is released.
    held: Option<system::sync::MutexGuard<'a, T>>,
}

/// The places at which waiting threads sleep.
fn place<T>(what: &T) -> usize {
    system::ptr::from_ref(what).addr()
}

impl<T> Mutex<T> {
    pub fn new(value: T) -> Self {
        Mutex(system::sync::Mutex::new(value))
    }

    pub fn lock(&self) -> MutexGuard<'_, T> {
        let held = taken(place(self), || self.0.try_lock(), || self.0.lock().unwrap_or_else(PoisonError::into_inner));
        MutexGuard { mutex: self, held: Some(held) }
    }
}

/// Takes a lock: step by step in a world, else by waiting.
fn taken<G>(place: usize, attempt: impl Fn() -> system::sync::TryLockResult<G>, wait: impl FnOnce() -> G) -> G {
    if !scheduler::is_in_world() {
        return wait();
    }
    step();
    loop {
        match attempt() {
            Ok(guard) => return guard,
            Err(TryLockError::Poisoned(error)) => return error.into_inner(),
            Err(TryLockError::WouldBlock) => sleep_at(place, false),
        }
    }
}

impl<T> MutexGuard<'_, T> {
    /// Releases the mutex for the time of a call.
    pub fn unlocked<U>(guard: &mut Self, call: impl FnOnce() -> U) -> U {
        guard.give_up();
        let result = call();
        guard.held = guard.mutex.lock().held.take();
        result
    }

    fn give_up(&mut self) {
        if self.held.take().is_some() {
            wake(place(self.mutex), true);
        }
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        self.give_up();
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        self.held.as_ref().expect("it is held")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.held.as_mut().expect("it is held")
    }
}

/// As `parking_lot::Condvar`. Only threads in a world may wait at it.
#[derive(Debug, Default)]
pub struct Condvar(u8);

impl Condvar {
    pub fn new() -> Self {
        Condvar::default()
    }

    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        self.sleep(guard, false);
    }

    /// The time is over when no other thread can continue.
    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, _time: Duration) {
        self.sleep(guard, true);
    }

    fn sleep<T>(&self, guard: &mut MutexGuard<'_, T>, has_deadline: bool) {
        assert!(scheduler::is_in_world(), "only threads of a world wait at condition variables");
        guard.give_up();
        if scheduler::fault() == Some(Fault::WaitsAfterUnlock) {
            step();
        }
        sleep_at(place(self), has_deadline);
        guard.held = guard.mutex.lock().held.take();
    }

    pub fn notify_one(&self) {
        self.notify(false);
    }

    pub fn notify_all(&self) {
        self.notify(true);
    }

    fn notify(&self, all: bool) {
        step();
        if !scheduler::loses_notification() {
            wake(place(self), all);
        }
    }
}

/// As `parking_lot::RwLock`.
#[derive(Debug, Default)]
pub struct RwLock<T>(system::sync::RwLock<T>);

/// As `parking_lot::RwLockReadGuard`.
#[derive(Debug)]
pub struct RwLockReadGuard<'a, T>(Released<system::sync::RwLockReadGuard<'a, T>>);
/// As `parking_lot::RwLockWriteGuard`.
#[derive(Debug)]
pub struct RwLockWriteGuard<'a, T>(Released<system::sync::RwLockWriteGuard<'a, T>>);

/// A guard, and the threads to wake when it is dropped.
#[derive(Debug)]
struct Released<G> {
    held: Option<G>,
    place: usize,
}

impl<G> Drop for Released<G> {
    fn drop(&mut self) {
        drop(self.held.take());
        wake(self.place, true);
    }
}

impl<T> RwLock<T> {
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        let wait = || self.0.read().unwrap_or_else(PoisonError::into_inner);
        let held = taken(place(self), || self.0.try_read(), wait);
        RwLockReadGuard(Released { held: Some(held), place: place(self) })
    }

    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        let wait = || self.0.write().unwrap_or_else(PoisonError::into_inner);
        let held = taken(place(self), || self.0.try_write(), wait);
        RwLockWriteGuard(Released { held: Some(held), place: place(self) })
    }
}

impl<T> Deref for RwLockReadGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        self.0.held.as_ref().expect("it is held")
    }
}

impl<T> Deref for RwLockWriteGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        self.0.held.as_ref().expect("it is held")
    }
}

impl<T> DerefMut for RwLockWriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.held.as_mut().expect("it is held")
    }
}

/// As `std::sync::atomic`.
pub mod atomic {
    pub use system::sync::atomic::Ordering;
    use system::sync::atomic::Ordering::SeqCst;

    use super::step;

    macro_rules! atomic {
        ($name:ident, $value:ty) => {
            #[derive(Debug, Default)]
            pub struct $name(system::sync::atomic::$name);

            impl $name {
                pub const fn new(value: $value) -> Self {
                    $name(system::sync::atomic::$name::new(value))
                }

                pub fn load(&self, _: Ordering) -> $value {
                    step();
                    self.peek()
                }

                pub fn store(&self, value: $value, _: Ordering) {
                    step();
                    self.0.store(value, SeqCst);
                }

                /// The value, without a step.
                pub(super) fn peek(&self) -> $value {
                    self.0.load(SeqCst)
                }
            }
        };
    }

    macro_rules! number {
        ($name:ident, $value:ty) => {
            atomic!($name, $value);

            impl $name {
                pub fn fetch_add(&self, value: $value, _: Ordering) -> $value {
                    step();
                    self.0.fetch_add(value, SeqCst)
                }

                pub fn fetch_sub(&self, value: $value, _: Ordering) -> $value {
                    step();
                    self.0.fetch_sub(value, SeqCst)
                }

                pub fn fetch_update(
                    &self,
                    _: Ordering,
                    _: Ordering,
                    change: impl FnMut($value) -> Option<$value>,
                ) -> Result<$value, $value> {
                    step();
                    self.0.fetch_update(SeqCst, SeqCst, change)
                }
            }
        };
    }

    atomic!(AtomicBool, bool);
    number!(AtomicU8, u8);
    number!(AtomicU32, u32);
    number!(AtomicU64, u64);
}

/// As `rustix::thread::futex`.
pub mod futex {
    use system::io;

    pub use system_rustix::thread::futex::Flags;

    use super::atomic::AtomicU32;
    use super::{place, step};
    use crate::scheduler::{self, Fault, sleep_at};

    pub fn wait(word: &AtomicU32, _: Flags, seen: u32, _: Option<&()>) -> io::Result<()> {
        if !scheduler::is_in_world() {
            // Outside of a world, callers poll.
            system::thread::yield_now();
            return Ok(());
        }
        step();
        if word.peek() != seen && scheduler::fault() != Some(Fault::FutexSleepsAnyway) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        sleep_at(place(word), false);
        Ok(())
    }

    /// All are woken, however many are asked for.
    pub fn wake(word: &AtomicU32, _: Flags, _: u32) -> io::Result<()> {
        step();
        scheduler::wake(place(word), true);
        Ok(())
    }
}
