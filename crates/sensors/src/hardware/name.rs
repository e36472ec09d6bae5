//! Parses the name of a device into a short name, memory size and maker.
//!
//! It follows rules instead of a table, so that new devices get sensible names. Words that do not identify the device
//! are dropped: makers, memory sizes and types, core counts, clock speeds, trademarks. For the remaining words:
//! - the model is the first piece with a digit in it (`H200`, `i9-13900K`), a lone digit excepted (the 9 of `Ryzen 9`);
//! - a model of digits only needs the words before it (`RTX 4090`, `EPYC 9654`); one with letters does not (`8480C`);
//! - words after the model distinguish variants and stay (`Ti`, `PCIe`, `v4`), except `Pro`, `Max` and `Ultra`;
//! - without a model, all remaining words are the name (`Xeon`, `TITAN V`).

use std::sync::LazyLock;

use regex::Regex;

/// Makers of devices.
const MAKERS: &str = "advanced amd ampere apple arm ati corp corporation devices inc intel micro nvidia qualcomm";

/// Words in the names of many devices.
const GENERAL: &str = "\
    accelerator adapter center compatible controller cpu cpus data datacenter device edition family gen generation \
    gpu graphics processor processors series server technology the vga virtual workstation \
    bronze gold platinum silver";

/// Names of product lines: dropped beside a model, unless it has nothing else before its digits.
const BRANDS: &str = "core geforce instinct quadro radeon ryzen tesla";

/// Words after a model that are dropped: `M3`, `M3 Pro` and `M3 Max` have one label.
const TIERS: &str = "max pro ultra";

/// Parts of a name that do not identify the device: trademarks, remarks in brackets, core counts, clock speeds.
static REMARKS: LazyLock<Regex> = LazyLock::new(|| {
    compile(
        r"(?ix) \([^)]*\) | [®™©] | @.* | \bwith\b.* |
        \b (?: \d+ | single | dual | triple | quad | six | eight ) [-\ ] cores? \b | \b \d+ (?:\.\d+)? \s? [gm]hz \b",
    )
});

/// Memory, by size (`80GB`, `144G`) or by type (`HBM3e`, `GDDR6X`). A number of four digits and a G is a model:
/// `5600G`.
static MEMORY: LazyLock<Regex> =
    LazyLock::new(|| compile(r"(?i)^(?:(\d+)(?:gb|gib)|(\d{1,3})g|\d+(?:mb|mib|tb|tib)|(?:hbm|g?ddr|lpddr)\d\w*)$"));

fn compile(pattern: &str) -> Regex {
    Regex::new(pattern).expect("a constant pattern, compiled in the tests")
}

/// A parsed device name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct DeviceName {
    /// The short name in ASCII capitals and digits. Empty if no word identifies the device.
    pub(super) short: String,
    /// Whether the short name is only a product line, such as `QUADRO`.
    pub(super) is_only_brand: bool,
    /// The memory in the name, in gigabytes.
    pub(super) memory_gb: Option<u32>,
    /// The maker in the name, in lower case.
    pub(super) maker: Option<String>,
}

impl DeviceName {
    /// Parses a name.
    pub(super) fn parse(name: &str) -> Self {
        let mut parsed = Self::default();
        let bare = REMARKS.replace_all(name, " ");
        let mut pieces: Vec<String> = Vec::new();
        for word in bare.split(|character: char| character.is_whitespace() || ",;/|".contains(character)) {
            // A word with hyphens is one piece: `A100-SXM4-80GB` is A100SXM4, `Neoverse-N1` is NEOVERSEN1.
            let piece: String = word.split('-').filter_map(|part| parsed.take_part(part)).collect();
            if !piece.is_empty() {
                pieces.push(piece);
            }
        }
        let (short, is_only_brand) = shorten(&pieces);
        Self { short, is_only_brand, ..parsed }
    }

    /// The letters and digits of a part of a name, in capitals; stores and drops memory sizes and makers.
    fn take_part(&mut self, part: &str) -> Option<String> {
        if let Some(memory) = MEMORY.captures(part) {
            let size = memory.get(1).or(memory.get(2)).and_then(|size| size.as_str().parse().ok());
            self.memory_gb = self.memory_gb.or(size);
            return None;
        }
        let letters: String = part.chars().filter(char::is_ascii_alphanumeric).collect();
        let lower = letters.to_ascii_lowercase();
        if holds(MAKERS, &lower) {
            self.maker.get_or_insert(lower);
            return None;
        }
        (!holds(GENERAL, &lower) && !is_ordinal(&lower)).then(|| letters.to_ascii_uppercase())
    }
}

/// The short name of the pieces of a name, and whether it is only a product line.
fn shorten(pieces: &[String]) -> (String, bool) {
    let is_brand = |piece: &String| holds(BRANDS, &piece.to_ascii_lowercase());
    let is_model = |piece: &String| piece.len() > 1 && piece.contains(|character: char| character.is_ascii_digit());
    let Some(place) = pieces.iter().position(is_model) else {
        return (pieces.concat(), pieces.iter().all(is_brand));
    };
    let model = &pieces[place];
    let mut short = String::new();
    if is_number(model) {
        let before = pieces[..place].iter().filter(|piece| !is_lone_digit(piece));
        short = before.clone().filter(|piece| !is_brand(piece)).cloned().collect();
        if short.is_empty() {
            short = before.cloned().next_back().unwrap_or_default();
        }
    }
    short.push_str(model);
    let is_dropped =
        |piece: &String| is_lone_digit(piece) || is_brand(piece) || holds(TIERS, &piece.to_ascii_lowercase());
    short.extend(pieces[place + 1..].iter().filter(|piece| !is_dropped(piece)).map(String::as_str));
    (short, false)
}

fn holds(list: &str, word: &str) -> bool {
    list.split(' ').any(|listed| listed == word)
}

fn is_number(piece: &str) -> bool {
    piece.bytes().all(|byte| byte.is_ascii_digit())
}

/// The 9 of `Ryzen 9`.
fn is_lone_digit(piece: &str) -> bool {
    piece.len() == 1 && is_number(piece)
}

/// `12th`, as in `12th Gen`.
fn is_ordinal(word: &str) -> bool {
    ["st", "nd", "rd", "th"]
        .iter()
        .any(|ending| word.strip_suffix(ending).is_some_and(|digits| !digits.is_empty() && is_number(digits)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn memory_and_maker_are_taken_from_the_name() {
        for (name, short, memory_gb, maker) in [
            ("NVIDIA A100-SXM4-80GB", "A100SXM4", Some(80), Some("nvidia")),
            ("NVIDIA GH200 144G HBM3e", "GH200", Some(144), Some("nvidia")),
            ("NVIDIA H100 80GB HBM3", "H100", Some(80), Some("nvidia")),
            ("Tesla T4", "T4", None, None),
            ("AMD Ryzen 5 5600G", "5600G", None, Some("amd")),
            ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", "A100SXM4MIG1G5GB", Some(40), Some("nvidia")),
        ] {
            let found = DeviceName::parse(name);
            assert_eq!((found.short.as_str(), found.memory_gb, found.maker.as_deref()), (short, memory_gb, maker));
        }
    }

    #[test]
    fn a_product_line_alone_is_marked() {
        assert!(DeviceName::parse("Quadro").is_only_brand);
        assert!(DeviceName::parse("AMD Radeon(TM) Graphics").is_only_brand);
        assert!(!DeviceName::parse("NVIDIA TITAN V").is_only_brand);
    }

    proptest! {
        #[test]
        fn a_short_name_has_only_capitals_and_digits(name in ".*") {
            let short = DeviceName::parse(&name).short;
            prop_assert!(short.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit()), "{}", short);
        }
    }
}
