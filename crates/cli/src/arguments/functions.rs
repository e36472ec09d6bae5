//! The arguments of `ergo trace functions`.

use clap::{Args, ValueEnum};
use ergometer_trace::FunctionOptions;
use regex::Regex;

use super::Format;
use super::trace::{FilesArguments, FilterArguments, OrderArguments, Sorted, parse_pattern};

/// The help of --sort, which sorts times in the other direction than the other `ergo trace` commands.
const SORT_HELP: &str = "Sort key. Times are sorted in ascending order, so that the fastest variant comes first; \
                         counts in descending order, ids in ascending order";

#[derive(Debug, Args)]
#[command(
    after_help = "An execution on several devices counts once, with the longest of their times. With --prefix, --regex or \
                  --min-duration its times cover only the events that match. `trimmed` is the mean ± standard \
                  deviation without the smallest and the largest value, as older autotuners report it.\nTimes of an \
                  execution: busy is the time during which at least one of its events ran, span the time from its \
                  first start to its last end.",
    mut_arg("sort", |sort| sort.help(SORT_HELP))
)]
pub(crate) struct FunctionsArguments {
    #[command(flatten)]
    pub(crate) files: FilesArguments,
    /// Regular expression that matches the modules of the variants; its first group is the id of a variant.
    #[arg(long, value_name = "PATTERN", default_value = FunctionOptions::PATTERN, value_parser = parse_pattern)]
    pub(crate) pattern: Regex,
    /// Test which variants are significantly slower than the fastest.
    #[arg(long)]
    pub(crate) compare: bool,
    /// Confidence level of intervals and comparisons.
    #[arg(long, value_name = "LEVEL", default_value = "0.95", value_parser = parse_level)]
    pub(crate) level: f64,
    /// Output format.
    #[arg(long, value_enum, default_value = "table")]
    pub(crate) format: Format,
    #[command(flatten)]
    pub(crate) filter: FilterArguments,
    #[command(flatten)]
    pub(crate) order: OrderArguments<FunctionSort>,
}

/// The sort keys of variants: times in ascending order, counts in descending order. `busy` and `median` are the same.
/// The default is the fastest first.
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

/// Parses a confidence level: `0.95`, or `95%`.
fn parse_level(text: &str) -> Result<f64, String> {
    let wrong = || format!("`{text}` is not a confidence level: write a number between 0 and 1, as in 0.95 or 99%");
    let (number, whole) = text.strip_suffix('%').map_or((text, 1.0), |number| (number, 100.0));
    let level = number.trim().parse::<f64>().map_err(|_| wrong())? / whole;
    if level > 0.0 && level < 1.0 { Ok(level) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::arguments::Arguments;

    /// The direction of --sort differs between the commands.
    #[test]
    fn help_of_sort_has_the_direction_of_the_command() {
        let root = Arguments::command();
        let trace = root.find_subcommand("trace").unwrap();
        let help = |name: &str| {
            let sort =
                trace.find_subcommand(name).unwrap().get_arguments().find(|argument| argument.get_id() == "sort");
            sort.unwrap().get_help().unwrap().to_string()
        };
        assert!(help("functions").starts_with("Sort key. Times are sorted in ascending order"));
        assert!(help("ops").starts_with("Sort key. Times and counts are sorted in descending order"));
    }

    #[test]
    fn a_level_is_between_zero_and_one() {
        assert_eq!((parse_level("0.99"), parse_level("90 %")), (Ok(0.99), Ok(0.9)));
        for wrong in ["95", "0", "1", "nan", "inf", "-0.5", "", "much"] {
            assert!(parse_level(wrong).is_err(), "{wrong}");
        }
    }
}
