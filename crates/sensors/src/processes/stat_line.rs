//! Parses `/proc/PID/stat`, one line about a process.
//!
//! The name is in parentheses and may contain anything (spaces, parentheses, newlines, invalid UTF-8), so the fields
//! are counted from the last `)`.

/// The used fields of the line, in the kernel's units.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StatLine {
    /// The name, with invalid UTF-8 replaced.
    pub(super) name: String,
    /// CPU time of all its threads, including those that ended, in ticks; without child processes.
    pub(super) cpu_ticks: u64,
    /// When it started, in ticks since boot. It distinguishes a process from a later one with the same id.
    pub(super) start_ticks: u64,
    /// Resident memory in pages. The kernel counts it per processor, so it may be off by some pages.
    pub(super) resident_pages: u64,
}

impl StatLine {
    /// `None` if the line does not have this format.
    pub(super) fn parse(line: &[u8]) -> Option<Self> {
        let open = line.iter().position(|&byte| byte == b'(')?;
        let close = line.iter().rposition(|&byte| byte == b')').filter(|&close| close > open)?;
        let name = String::from_utf8_lossy(&line[open + 1..close]).into_owned();
        let fields: Vec<&str> = std::str::from_utf8(&line[close + 1..]).ok()?.split_ascii_whitespace().collect();
        // proc_pid_stat(5) counts from 1, and the state, right after the name, is field 3.
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        let cpu_ticks = field(14)?.checked_add(field(15)?)?;
        Some(Self { name, cpu_ticks, start_ticks: field(22)?, resident_pages: field(24)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AFTER_NAME: &[u8] =
        b" S 1 815 815 0 -1 4194560 12 0 3 0 1234 66 0 0 20 0 8 0 7711 1073741824 25600 184467 1 1 0\n";

    fn line(name: &[u8]) -> Vec<u8> {
        [b"815 (", name, b")", AFTER_NAME].concat()
    }

    #[test]
    fn fields_are_counted_from_the_last_parenthesis() {
        for name in ["python3", "a b", "x) R 1 2 3 (y", ")", "", "(sd-pam)", "tab\tand\nline"] {
            let stat = StatLine::parse(&line(name.as_bytes())).unwrap();
            let expected = StatLine { name: name.into(), cpu_ticks: 1300, start_ticks: 7711, resident_pages: 25600 };
            assert_eq!(stat, expected);
        }
        assert_eq!(StatLine::parse(&line(b"caf\xe9")).unwrap().name, "caf\u{fffd}");
    }

    #[test]
    fn a_malformed_line_is_none() {
        let wrong: [&[u8]; 6] = [b"", b"815", b"815 (a", b"815 )a( S 1", b"815 (a) S 1 2 3", b"815 (a) \xff\xff"];
        for text in wrong {
            assert_eq!(StatLine::parse(text), None, "{text:?}");
        }
        let huge = line(b"a").iter().map(|&byte| if byte == b'6' { b'x' } else { byte }).collect::<Vec<_>>();
        assert_eq!(StatLine::parse(&huge), None, "a field that is not a number");
    }
}
