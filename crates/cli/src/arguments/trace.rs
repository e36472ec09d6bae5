//! The arguments of `ergo trace`: files, filters, order and format.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use ergometer_units::Picos;
use regex::Regex;

use super::Format;
use super::functions::FunctionsArguments;
use crate::figures::{parse_bytes, parse_picos};

/// Defines the times of ops, kernels and events.
const ROW_TIMES: &str = "\
Times of a row:
  self   sum of the durations of its events, each without the time of the events nested in it
  share  its self time as a share of the self time of the device
  total  sum of the durations of its events
  busy   time during which at least one of its events ran";

/// Defines the times of modules and executions.
const WORK_TIMES: &str = "\
Times (columns per execution: mean over the executions of a module, ± half of the 95 % interval):
  busy   time during which at least one of its events ran
  span   time from the first start to the last end of its events
  self   sum of the durations of its events, each without the time of the events nested in it
  share  its self time as a share of the self time of the device
  total  sum of the durations of its events";

/// Defines the times of steps.
const STEP_TIMES: &str = "\
Times of a step:
  window start  start of the step itself
  window        time from the start to the end of the step itself
  work start    start of the first of its events
  work span     time from the first start to the last end of its events, also after the window; sort
                key: span
  busy          time during which at least one of its events ran
  self          sum of the durations of its events, each without the time of the events nested in it
  share         its self time as a share of the self time of the device
  total         sum of the durations of its events";

/// Defines the times of scopes.
const SCOPE_TIMES: &str = "\
Times of a scope:
  self   sum of the self times of its ops, including those in nested scopes; the self time of an op
         is its duration without the time of the events nested in it
  own    like self, but without the ops in nested scopes
  share  its self time as a share of the self time of the device
  total  sum of the durations of its ops, including those in nested scopes
  busy   time during which at least one of its ops ran, including those in nested scopes";

/// What the filters and the order of `summary` apply to.
const SUMMARY_FILTERS: &str =
    "Filters and order apply to the lists of modules and kernels; the times of a device cover all its events.";

/// The help of the filters of `gaps`, which apply to gaps and not to events.
const GAPS_PREFIX: &str = "Only gaps before or after an event whose module, op or event name (kernel name on a GPU) \
                           starts with this text";
const GAPS_REGEX: &str =
    "Only gaps before or after an event whose module, op or event name matches this regular expression";
const GAPS_MIN_DURATION: &str = "Only gaps of at least this duration, as in 1us or 500ns";

#[derive(Debug, Subcommand)]
pub(crate) enum TraceCommand {
    /// Overview: how busy each device was, its top modules and kernels, and warnings about the trace.
    Summary(SummaryArguments),
    /// Ops by module: counts and times.
    #[command(after_help = ROW_TIMES)]
    Ops(OpsArguments),
    /// Kernels: counts and times, over all ops.
    #[command(after_help = ROW_TIMES)]
    Kernels(KernelsArguments),
    /// All events by name, including those of host threads.
    #[command(after_help = ROW_TIMES)]
    Events(TableArguments<RowSort>),
    /// Compiled modules (jitted functions): number and time of executions.
    #[command(after_help = WORK_TIMES)]
    Modules(TableArguments<ModuleSort>),
    /// Every execution of every module.
    #[command(after_help = WORK_TIMES)]
    Executions(ExecutionsArguments),
    /// Steps of the program: annotated steps if there are any, else executions of the busiest module.
    #[command(after_help = STEP_TIMES)]
    Steps(TableArguments<StepSort>),
    /// Idle gaps of each device, with the events before and after.
    #[command(
        mut_arg("prefix", |prefix| prefix.help(GAPS_PREFIX)),
        mut_arg("regex", |regex| regex.help(GAPS_REGEX)),
        mut_arg("min_duration", |duration| duration.help(GAPS_MIN_DURATION))
    )]
    Gaps(TableArguments<GapSort>),
    /// Named scopes of the program, as a tree.
    #[command(after_help = SCOPE_TIMES)]
    Scopes(TableArguments<ScopeSort>),
    /// Variants of an autotuned function: their times, and the fastest.
    Functions(FunctionsArguments),
    /// Write a self-contained HTML report: timeline, modules, kernels, ops, gaps and executions.
    Report(PageArguments),
    /// All events with all their values, as JSON lines.
    Cat(CatArguments),
}

/// The trace files.
#[derive(Debug, Args)]
pub(crate) struct FilesArguments {
    /// Trace files (.xplane.pb, also .gz, .xz or .zst), folders, or `-` for stdin. In a profiler's log folder, the
    /// latest session is read. Several files, even from several hosts, are read as one trace.
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Read a truncated or damaged trace as far as possible, and report what is lost.
    #[arg(long)]
    pub(crate) lenient: bool,
    /// Maximum size of one decompressed file, and of the events in memory [default: 8GiB, or half the free memory if
    /// less].
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub(crate) max_size: Option<u64>,
}

/// Which events to count.
#[derive(Debug, Args)]
#[command(next_help_heading = "Filters")]
pub(crate) struct FilterArguments {
    /// Only devices with this text in their name, as in gpu:0, host1/device or cpu#2. Repeatable, or separated by commas.
    #[arg(long, value_name = "TEXT", value_delimiter = ',')]
    pub(crate) device: Vec<String>,
    /// Only events whose module, op or event name (kernel name on a GPU) starts with this text. Scope and step names are not matched.
    #[arg(long, value_name = "TEXT")]
    pub(crate) prefix: Option<String>,
    /// Only events whose module, op or event name matches this regular expression.
    #[arg(long, value_name = "PATTERN", value_parser = parse_pattern)]
    pub(crate) regex: Option<Regex>,
    /// Only events of at least this duration, as in 1us or 500ns.
    #[arg(long, value_name = "TIME", value_parser = parse_picos)]
    pub(crate) min_duration: Option<Picos>,
}

/// The order and number of rows.
#[derive(Debug, Args)]
#[command(next_help_heading = "Order")]
pub(crate) struct OrderArguments<K: SortKey> {
    /// Sort key. Times and counts are sorted in descending order, names and start times in ascending order.
    #[arg(long, value_name = "KEY", value_enum)]
    pub(crate) sort: Option<K>,
    /// Reverse the order.
    #[arg(long)]
    pub(crate) reverse: bool,
    /// Number of rows per device; 0 prints all [default: 20 in tables (5 in `summary`), all in json and csv].
    #[arg(long, value_name = "N")]
    pub(crate) top: Option<usize>,
}

/// What the rows of a table are sorted by.
pub(crate) trait SortKey: ValueEnum + Copy + Send + Sync + 'static {}

/// The arguments of every command that prints rows.
#[derive(Debug, Args)]
pub(crate) struct TableArguments<K: SortKey> {
    #[command(flatten)]
    pub(crate) files: FilesArguments,
    /// Output format.
    #[arg(long, value_enum, default_value = "table")]
    pub(crate) format: Format,
    #[command(flatten)]
    pub(crate) filter: FilterArguments,
    #[command(flatten)]
    pub(crate) order: OrderArguments<K>,
}

#[derive(Debug, Args)]
pub(crate) struct OpsArguments {
    #[command(flatten)]
    pub(crate) table: TableArguments<RowSort>,
    #[command(flatten)]
    pub(crate) class: ClassArguments,
    #[command(flatten)]
    pub(crate) module: ModuleArguments,
}

#[derive(Debug, Args)]
pub(crate) struct KernelsArguments {
    #[command(flatten)]
    pub(crate) table: TableArguments<RowSort>,
    #[command(flatten)]
    pub(crate) class: ClassArguments,
}

#[derive(Debug, Args)]
pub(crate) struct ExecutionsArguments {
    #[command(flatten)]
    pub(crate) table: TableArguments<ExecutionSort>,
    #[command(flatten)]
    pub(crate) module: ModuleArguments,
}

/// Which rows to print, by class.
#[derive(Debug, Args)]
#[command(next_help_heading = "Filters")]
pub(crate) struct ClassArguments {
    /// Only ops or kernels with most of their time in this class; memcpy includes memset.
    #[arg(long, value_enum)]
    pub(crate) class: Option<ClassChoice>,
}

/// Which rows to print, by module.
#[derive(Debug, Args)]
#[command(next_help_heading = "Filters")]
pub(crate) struct ModuleArguments {
    /// Only modules with this text in their name.
    #[arg(long, value_name = "TEXT")]
    pub(crate) module: Option<String>,
}

impl ModuleArguments {
    /// Whether a module passes the filter.
    pub(crate) fn takes(&self, module: Option<&str>) -> bool {
        self.module.as_ref().is_none_or(|text| module.is_some_and(|module| module.contains(text.as_str())))
    }
}

/// The class of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ClassChoice {
    Compute,
    Communication,
    Memcpy,
}

#[derive(Debug, Args)]
#[command(after_help = format!("{SUMMARY_FILTERS}\n\n{ROW_TIMES}"))]
pub(crate) struct SummaryArguments {
    #[command(flatten)]
    pub(crate) files: FilesArguments,
    /// Output format.
    #[arg(long, value_enum, default_value = "table")]
    pub(crate) format: Format,
    #[command(flatten)]
    pub(crate) filter: FilterArguments,
    #[command(flatten)]
    pub(crate) order: OrderArguments<RowSort>,
}

#[derive(Debug, Args)]
pub(crate) struct PageArguments {
    #[command(flatten)]
    pub(crate) files: FilesArguments,
    /// Output file; `-` is stdout [default: `trace_report.html`].
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct CatArguments {
    #[command(flatten)]
    pub(crate) files: FilesArguments,
    /// Output format: one JSON object per line.
    #[arg(long, value_enum, default_value = "jsonl")]
    pub(crate) format: LinesFormat,
    /// Number of events; 0 prints all.
    #[arg(long, value_name = "N", default_value = "0")]
    pub(crate) top: usize,
    /// Include the metadata that all events of the same kind share, in the field `kind_stats`.
    #[arg(long)]
    pub(crate) metadata: bool,
    #[command(flatten)]
    pub(crate) filter: FilterArguments,
}

/// The format of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LinesFormat {
    /// One JSON object per line.
    Jsonl,
}

/// The sort keys of ops, kernels and events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RowSort {
    #[value(name = "self")]
    SelfTime,
    Share,
    Total,
    Busy,
    Count,
    Min,
    Median,
    P90,
    Max,
    Name,
    Start,
}

/// The sort keys of modules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ModuleSort {
    Busy,
    #[value(name = "self")]
    SelfTime,
    Total,
    Span,
    Executions,
    Events,
    Name,
    Start,
}

/// The sort keys of executions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExecutionSort {
    Start,
    Busy,
    #[value(name = "self")]
    SelfTime,
    Total,
    Span,
    Events,
    Name,
}

/// The sort keys of steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum StepSort {
    Start,
    Busy,
    #[value(name = "self")]
    SelfTime,
    Total,
    Span,
    Window,
    Events,
    Executions,
    Name,
}

/// The sort keys of gaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum GapSort {
    Duration,
    Start,
}

/// The sort keys of scopes. The default is a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ScopeSort {
    Tree,
    #[value(name = "self")]
    SelfTime,
    Own,
    Total,
    Busy,
    Count,
    Min,
    Median,
    P90,
    Max,
    Name,
}

impl SortKey for RowSort {}
impl SortKey for ModuleSort {}
impl SortKey for ExecutionSort {}
impl SortKey for StepSort {}
impl SortKey for GapSort {}
impl SortKey for ScopeSort {}

/// Parses a regular expression. The error shows the position.
pub(super) fn parse_pattern(text: &str) -> Result<Regex, String> {
    Regex::new(text).map_err(|error| {
        let message = error.to_string();
        let position = message.strip_prefix("regex parse error:\n").and_then(|rest| rest.rsplit_once("\nerror: "));
        match position {
            Some((position, why)) => format!("{why}\n{position}"),
            None => message,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_pattern_shows_the_position() {
        assert_eq!(parse_pattern("jit_(a|b").unwrap_err(), "unclosed group\n    jit_(a|b\n        ^");
        assert!(parse_pattern("x{99999}{99999}").unwrap_err().contains("size limit"));
        assert!(parse_pattern("^jit_[a-z]+").is_ok());
    }
}
