//! What the user typed after `ergo trace functions`: what makes a module a variant, and how sure to be.

use clap::{Args, ValueEnum};
use ergometer_trace::FunctionOptions;
use regex::Regex;

use super::Format;
use super::trace::{FilesArguments, FilterArguments, OrderArguments, Sorted, parse_pattern};

#[derive(Debug, Args)]
#[command(
    after_help = "An execution on several devices counts once and takes the longest of them. With --prefix, --regex or \
                  --min-duration its times are those of the events that pass. `trimmed` is the mean without the shortest \
                  and the longest, ± the standard deviation of the rest: the figures of older autotuners. --sort has the fastest first, by whichever time."
)]
pub(crate) struct FunctionsArguments {
    #[command(flatten)]
    pub(crate) files: FilesArguments,
    /// Which modules are variants of a function: the first group of this regular expression is the id.
    #[arg(long, value_name = "PATTERN", default_value = FunctionOptions::PATTERN, value_parser = parse_pattern)]
    pub(crate) pattern: Regex,
    /// Say which variants are slower than the fastest, beyond what chance explains.
    #[arg(long)]
    pub(crate) compare: bool,
    /// How sure intervals and comparisons are.
    #[arg(long, value_name = "PART", default_value = "0.95", value_parser = parse_level)]
    pub(crate) level: f64,
    /// How to print it.
    #[arg(long, value_enum, default_value = "table")]
    pub(crate) format: Format,
    #[command(flatten)]
    pub(crate) filter: FilterArguments,
    #[command(flatten)]
    pub(crate) order: OrderArguments<FunctionSort>,
}

/// What variants are sorted by: all times from small to large, `busy` and `median` being the same. Without it the fastest
/// comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FunctionSort {
    Busy,
    Median,
    Span,
    Mean,
    Min,
    Max,
    Mad,
    Count,
    Id,
}

impl Sorted for FunctionSort {}

/// A level of confidence: `0.95`, or `95%`.
fn parse_level(text: &str) -> Result<f64, String> {
    let wrong = || format!("`{text}` is no level: write a part below 1, as in 0.95 or 99%");
    let (number, whole) = text.strip_suffix('%').map_or((text, 1.0), |number| (number, 100.0));
    let level = number.trim().parse::<f64>().map_err(|_| wrong())? / whole;
    if level > 0.0 && level < 1.0 { Ok(level) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_a_part_below_one() {
        assert_eq!((parse_level("0.99"), parse_level("90 %")), (Ok(0.99), Ok(0.9)));
        for wrong in ["95", "0", "1", "nan", "inf", "-0.5", "", "much"] {
            assert!(parse_level(wrong).is_err(), "{wrong}");
        }
    }
}
