//! Limits of this machine: open files, and local ports for connections to one address.

/// Raises the limit of open files to the maximum of this process, and returns it; `None` if the system has no such
/// limit. Each connection is an open file, and 1024 is a usual limit.
#[cfg(unix)]
#[must_use]
pub fn raise_descriptor_limit() -> Option<u64> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    /// The maximum on macOS when it reports no limit (`OPEN_MAX`).
    const MACOS_MOST: u64 = 10_240;
    let limit = getrlimit(Resource::Nofile);
    let is_below = |wanted: Option<u64>| match (limit.current, wanted) {
        (Some(current), Some(wanted)) => current < wanted,
        (Some(_), None) => true,
        (None, _) => false,
    };
    for wanted in [limit.maximum, Some(MACOS_MOST)] {
        let raised = Rlimit { current: wanted, maximum: limit.maximum };
        if is_below(wanted) && setrlimit(Resource::Nofile, raised).is_ok() {
            break;
        }
    }
    Some(getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX))
}

/// Raises the limit on open files; there is none to raise here.
#[cfg(not(unix))]
#[must_use]
pub fn raise_descriptor_limit() -> Option<u64> {
    None
}

/// The number of local ports for connections to one address, which limits how many can be open at once, including those
/// that were just closed. `None` if the system does not report it.
#[must_use]
pub fn ports() -> Option<u64> {
    range(&std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok()?)
}

/// The length of a range as Linux writes it: its first and last number.
fn range(text: &str) -> Option<u64> {
    let mut numbers = text.split_whitespace().map(str::parse::<u64>);
    let (first, last) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    (last + 1).checked_sub(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_range_includes_both_ends() {
        assert_eq!(range("32768\t60999\n"), Some(28_232));
        assert_eq!((range("7 7"), range("7"), range("a b"), range("9 1")), (Some(1), None, None, None));
    }

    #[cfg(unix)]
    #[test]
    fn the_file_limit_never_falls() {
        use rustix::process::{Resource, getrlimit};
        let before = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let raised = raise_descriptor_limit().unwrap();
        assert!(raised >= before && raise_descriptor_limit() == Some(raised));
    }
}
