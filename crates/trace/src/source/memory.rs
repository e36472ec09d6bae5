//! Limits uncompressed bytes by the memory that is available.

use std::fs;

use super::Limits;

impl Limits {
    /// Half of the available memory, at most the default limit. The default where the system does not report available
    /// memory.
    #[must_use]
    pub fn from_free_memory() -> Self {
        let limit = Self::default().decompressed_bytes;
        let meminfo = fs::read_to_string("/proc/meminfo").ok();
        let available = meminfo.and_then(|meminfo| available_bytes(&meminfo));
        Self { decompressed_bytes: available.map_or(limit, |available| limit.min(available / 2)) }
    }
}

/// The memory that Linux can provide without swapping, from `/proc/meminfo`.
fn available_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
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
        assert!(Limits::from_free_memory().decompressed_bytes <= Limits::default().decompressed_bytes);
    }
}
