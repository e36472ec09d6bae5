//! Remembers the largest allocation of a thread.
#![expect(unsafe_code, reason = "an allocator is unsafe; this one passes everything on to that of the system")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static LARGEST: Cell<usize> = const { Cell::new(0) };
}

struct Remembering;

#[global_allocator]
static ALLOCATOR: Remembering = Remembering;

fn remember(bytes: usize) {
    let _ = LARGEST.try_with(|largest| largest.set(largest.get().max(bytes)));
}

// SAFETY: each call goes to the allocator of the system with the same arguments.
unsafe impl GlobalAlloc for Remembering {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        remember(layout.size());
        // SAFETY: the caller keeps the contract of `GlobalAlloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        remember(layout.size());
        // SAFETY: the caller keeps the contract of `GlobalAlloc`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        remember(size);
        // SAFETY: the caller keeps the contract of `GlobalAlloc`.
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `GlobalAlloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// The size of the largest allocation during a call, in bytes.
pub(crate) fn largest_during(call: impl FnOnce()) -> usize {
    LARGEST.set(0);
    call();
    LARGEST.get()
}
