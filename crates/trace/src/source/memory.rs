//! Limits memory by what is available.

use std::fs;

use super::Limits;

impl Limits {
    /// Half of the available memory, at most the default limit. Available is what Linux can provide without swapping,
    /// and what is left of a limit on the address space (`ulimit -v`). The default where the system reports neither.
    #[must_use]
    pub fn from_free_memory() -> Self {
        let limit = Self::default().decompressed_bytes;
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let free = available_bytes(&text("/proc/meminfo"));
        let addresses = left_addresses(&text("/proc/self/limits"), &text("/proc/self/status"));
        let available = free.into_iter().chain(addresses).min();
        Self { decompressed_bytes: available.map_or(limit, |available| limit.min(available / 2)) }
    }
}

/// The memory that Linux can provide without swapping, from `/proc/meminfo`.
fn available_bytes(meminfo: &str) -> Option<u64> {
    kilobytes(meminfo, "MemAvailable:")
}

/// The address space that this process may still use, from `/proc/self/limits` and `/proc/self/status`; `None` without
/// a limit.
fn left_addresses(limits: &str, status: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max address space"))?;
    let limit: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(limit.saturating_sub(kilobytes(status, "VmSize:")?))
}

/// The value of a line in kB, in bytes.
fn kilobytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_memory_is_read_from_meminfo() {
        assert_eq!(available_bytes("MemTotal: 100 kB\nMemAvailable:     24 kB\nBuffers: 1 kB\n"), Some(24 * 1024));
        for nothing in ["", "MemTotal: 100 kB", "MemAvailable: much kB", "MemAvailable: 18446744073709551615 kB"] {
            assert_eq!(available_bytes(nothing), None, "{nothing}");
        }
        let limits = "Max stack size            8388608              unlimited            bytes\n\
                      Max address space         4096000              unlimited            bytes\n";
        let status = "Name:\tergo\nVmPeak:\t    2000 kB\nVmSize:\t    1000 kB\n";
        assert_eq!(left_addresses(limits, status), Some(3_072_000));
        assert_eq!(left_addresses(limits, "VmSize: 9000 kB"), Some(0));
        assert_eq!(left_addresses("Max address space         unlimited            unlimited   bytes\n", status), None);
        assert!(Limits::from_free_memory().decompressed_bytes <= Limits::default().decompressed_bytes);
    }
}
