//! What the connections of a pool come to, counted as it happens.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::{Connections, Protocol};

/// The counts of a pool.
#[derive(Debug, Default)]
pub(super) struct Tally {
    opened: AtomicU64,
    reused: AtomicU64,
    open: AtomicU64,
    most_open: AtomicU64,
}

/// One open connection; it is no longer one when this is dropped.
#[derive(Debug)]
pub(super) struct Open(Arc<Tally>);

impl Tally {
    /// A connection was opened.
    pub(super) fn opened(self: &Arc<Self>) -> Open {
        self.opened.fetch_add(1, Ordering::Relaxed);
        let open = self.open.fetch_add(1, Ordering::Relaxed) + 1;
        self.most_open.fetch_max(open, Ordering::Relaxed);
        Open(Arc::clone(self))
    }

    /// A request goes out on a connection that was there already.
    pub(super) fn reused(&self) {
        self.reused.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn connections(&self, protocol: Protocol) -> Connections {
        Connections {
            protocol,
            opened: self.opened.load(Ordering::Relaxed),
            reused: self.reused.load(Ordering::Relaxed),
            most_open: self.most_open.load(Ordering::Relaxed),
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}
