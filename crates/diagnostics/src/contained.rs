//! Turns a panic of a library into an error, without the panic message on stderr.
//!
//! Some readers of file formats panic on damaged input. A panic in any other place is a bug and is still printed.

use std::any::Any;
use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;
use std::thread;

thread_local! {
    /// Whether this thread is inside [`contain_panic`].
    static IS_CONTAINED: Cell<bool> = const { Cell::new(false) };
}

/// Calls a function and returns its result, or the message of its panic. The message is not printed.
///
/// State that the function has changed before it panicked stays changed: do not use it afterwards. A panic on another
/// thread that the function started is printed.
///
/// ```
/// use ergometer_diagnostics::contain_panic;
///
/// assert_eq!(contain_panic(|| 2 + 2), Ok(4));
/// assert_eq!(contain_panic(|| -> u32 { panic!("no length") }), Err(String::from("no length")));
/// ```
pub fn contain_panic<T>(call: impl FnOnce() -> T) -> Result<T, String> {
    if !thread::panicking() {
        skip_contained_messages();
    }
    let before = IS_CONTAINED.replace(true);
    let result = panic::catch_unwind(AssertUnwindSafe(call));
    IS_CONTAINED.set(before);
    result.map_err(|payload| message(&*payload))
}

/// Wraps the panic hook of the process once, so that it prints nothing for a contained panic.
fn skip_contained_messages() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let next = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !IS_CONTAINED.try_with(Cell::get).unwrap_or(false) {
                next(info);
            }
        }));
    });
}

fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("no message").to_owned()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn only_panics_outside_reach_the_hook() {
        thread_local! {
            static IS_MINE: Cell<bool> = const { Cell::new(false) };
        }
        static PRINTED: AtomicU32 = AtomicU32::new(0);
        panic::set_hook(Box::new(|_| {
            if IS_MINE.get() {
                PRINTED.fetch_add(1, Ordering::Relaxed);
            }
        }));
        IS_MINE.set(true);
        let nested = contain_panic(|| {
            let inner = contain_panic(|| -> u32 { panic!("inner {}", 1) });
            assert_eq!(inner, Err(String::from("inner 1")));
            panic!("outer")
        });
        assert_eq!(nested, Err::<(), _>(String::from("outer")));
        assert_eq!(PRINTED.load(Ordering::Relaxed), 0);
        assert!(panic::catch_unwind(|| panic!("printed")).is_err());
        assert_eq!(PRINTED.load(Ordering::Relaxed), 1);
    }
}
