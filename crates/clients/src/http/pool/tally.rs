//! Counts the connections of a pool.

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

/// One open connection, counted as open until this value is dropped.
#[derive(Debug)]
pub(super) struct Open(Arc<Tally>);

impl Tally {
    /// Counts a new connection.
    pub(super) fn opened(self: &Arc<Self>) -> Open {
        self.opened.fetch_add(1, Ordering::Relaxed);
        let open = self.open.fetch_add(1, Ordering::Relaxed) + 1;
        self.most_open.fetch_max(open, Ordering::Relaxed);
        Open(Arc::clone(self))
    }

    /// Counts a request on a connection that was already open.
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
