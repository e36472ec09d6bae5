//! The arguments of `ergo trace functions`.

use clap::{Args, ValueEnum};
use ergometer_trace::FunctionOptions;
use regex::Regex;

use super::Format;
use super::trace::{FilesArguments, FilterArguments, OrderArguments, SortKey, parse_pattern};

/// The help of --sort, which sorts times in the other direction than the other `ergo trace` commands.
const SORT_HELP: &str = "Sort key. Times are sorted in ascending order, so that the fastest variant comes first; \
                         counts in descending order, ids in ascending order";

/// The help of --top: rows are variants, which do not belong to a device.
const TOP_HELP: &str = "Number of variants; 0 prints all [default: 20 in tables, all in json and csv]";

#[derive(Debug, Args)]
#[command(
    after_help = "An execution on several devices counts once, with the longest of their times. With --prefix, --regex or \
                  --min-duration its times cover only the events that match. `mean` is shown ± half of its interval \
                  (--level). `trimmed` is the mean ± standard deviation without the smallest and the largest value, as \
                  older autotuners report it.\nTimes of an \
                  execution: busy is the time during which at least one of its events ran, span the time from its \
                  first start to its last end.",
    mut_arg("sort", |sort| sort.help(SORT_HELP)),
    mut_arg("top", |top| top.help(TOP_HELP))
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

impl SortKey for FunctionSort {}

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

    /// The help of an option of an `ergo trace` command.
    fn help(command: &str, option: &str) -> String {
        let root = Arguments::command();
        let command = root.find_subcommand("trace").unwrap().find_subcommand(command).unwrap();
        let argument = command.get_arguments().find(|argument| argument.get_long() == Some(option)).unwrap();
        argument.get_help().unwrap().to_string()
    }

    /// The direction of --sort, and the rows of --top, differ between the commands.
    #[test]
    fn help_of_sort_and_top_has_the_rows_of_the_command() {
        assert!(help("functions", "sort").starts_with("Sort key. Times are sorted in ascending order"));
        assert!(help("ops", "sort").starts_with("Sort key. Times and counts are sorted in descending order"));
        assert!(help("functions", "top").starts_with("Number of variants;"));
        assert!(help("ops", "top").starts_with("Number of rows per device;"));
    }

    #[test]
    fn the_filters_of_gaps_select_gaps() {
        for option in ["prefix", "regex", "min-duration"] {
            assert!(help("gaps", option).starts_with("Only gaps "), "{option}");
            assert!(help("ops", option).starts_with("Only events "), "{option}");
        }
    }

    #[test]
    fn a_level_is_between_zero_and_one() {
        assert_eq!((parse_level("0.99"), parse_level("90 %")), (Ok(0.99), Ok(0.9)));
        for wrong in ["95", "0", "1", "nan", "inf", "-0.5", "", "much"] {
            assert!(parse_level(wrong).is_err(), "{wrong}");
        }
    }
}
