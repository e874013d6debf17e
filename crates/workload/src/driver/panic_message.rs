//! Turns a panic of a client into its message and place.

use std::cell::{Cell, RefCell};
use std::panic::{self, AssertUnwindSafe, PanicHookInfo};
use std::sync::Once;

thread_local! {
    /// Whether this thread's panics are caught here.
    static CATCHING: Cell<bool> = const { Cell::new(false) };
    /// The message of the last caught panic.
    static MESSAGE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Calls `f`; if it panics, returns the panic's message and place instead of printing them.
///
/// Only a panic hook sees the place. The hook is installed once for the process and passes panics on threads outside
/// this function on to the previous hook.
pub(super) fn catching<T>(f: impl FnOnce() -> T) -> Result<T, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| if CATCHING.get() { note(info) } else { before(info) }));
    });
    CATCHING.set(true);
    // State that `f` leaves half-done does not matter: callers pass values that they do not use afterwards.
    let result = panic::catch_unwind(AssertUnwindSafe(f));
    CATCHING.set(false);
    result.map_err(|_| MESSAGE.take().unwrap_or_else(|| "no message".to_owned()))
}

fn note(info: &PanicHookInfo<'_>) {
    let message = info.payload_as_str().unwrap_or("no message");
    let place = info.location().map(|place| format!(" at {}:{}", place.file(), place.line())).unwrap_or_default();
    MESSAGE.set(Some(format!("{message}{place}")));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_its_message_and_place() {
        assert_eq!(catching(|| 5), Ok(5));
        let line = line!() + 1;
        let message = catching(|| panic!("found {} widgets", 3)).expect_err("it panics");
        assert!(message.starts_with("found 3 widgets at "), "{message}");
        assert!(message.ends_with(&format!("panic_message.rs:{line}")), "{message}");
    }
}
