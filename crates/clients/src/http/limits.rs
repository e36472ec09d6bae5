//! What this machine allows a sender: open files, and local ports towards one address.

/// Raises the limit on open files to the highest this process may have, and returns what it is now; `None` where it cannot
/// be told. Each connection is an open file, and 1024 is a usual limit.
#[cfg(unix)]
#[must_use]
pub fn raise_descriptor_limit() -> Option<u64> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    /// What macOS takes where it says that there is no limit (`OPEN_MAX`).
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

/// How many local ports there are towards one address: so many connections can be open at once, those that have just been
/// closed included. `None` where the system does not tell.
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
    fn the_range_of_ports_has_both_its_ends() {
        assert_eq!(range("32768\t60999\n"), Some(28_232));
        assert_eq!((range("7 7"), range("7"), range("a b"), range("9 1")), (Some(1), None, None, None));
    }

    #[cfg(unix)]
    #[test]
    fn the_limit_on_files_never_falls() {
        use rustix::process::{Resource, getrlimit};
        let before = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let raised = raise_descriptor_limit().unwrap();
        assert!(raised >= before && raise_descriptor_limit() == Some(raised));
    }
}
