//! How much of a packed file may be unpacked: what the system says of its memory in, a number of bytes out.

use std::fs;

use super::Limits;

impl Limits {
    /// Half of the memory that is free, and no more than by default; only that where the system does not tell.
    #[must_use]
    pub fn of_free_memory() -> Self {
        let limit = Self::default().decompressed_bytes;
        let told = fs::read_to_string("/proc/meminfo").ok();
        let available = told.and_then(|told| available_bytes(&told));
        Self { decompressed_bytes: available.map_or(limit, |available| limit.min(available / 2)) }
    }
}

/// What Linux could give to a program without swapping.
fn available_bytes(told: &str) -> Option<u64> {
    let line = told.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_memory_is_what_linux_says() {
        assert_eq!(available_bytes("MemTotal: 100 kB\nMemAvailable:     24 kB\nBuffers: 1 kB\n"), Some(24 * 1024));
        for nothing in ["", "MemTotal: 100 kB", "MemAvailable: much kB", "MemAvailable: 18446744073709551615 kB"] {
            assert_eq!(available_bytes(nothing), None, "{nothing}");
        }
        assert!(Limits::of_free_memory().decompressed_bytes <= Limits::default().decompressed_bytes);
    }
}
