//! What the user typed after `ergo trace`: which files, which of their events, in which order, how printed.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use ergometer_units::Picos;
use regex::Regex;

use super::Format;
use super::functions::FunctionsArguments;
use crate::figures::{parse_bytes, parse_picos};

#[derive(Debug, Subcommand)]
pub(crate) enum TraceCommand {
    /// The trace at a glance: how busy each device was, with what, and what to know before believing it.
    Summary(SummaryArguments),
    /// The ops of each module: how often, how long.
    Ops(OpsArguments),
    /// The kernels, whichever op launched them.
    Kernels(KernelsArguments),
    /// All events by name, those of host threads too.
    Events(TableArguments<RowSort>),
    /// The compiled modules (jitted functions): how often each ran, how long a run takes.
    Modules(TableArguments<ModuleSort>),
    /// Every single run of every module.
    Executions(ExecutionsArguments),
    /// The steps of a program: those it annotated, or runs of its busiest module.
    Steps(TableArguments<StepSort>),
    /// Where a device had nothing to do, and what stood around it.
    Gaps(TableArguments<GapSort>),
    /// The named scopes of the program, as a tree: `self` with all inner scopes, `own` without.
    Scopes(TableArguments<ScopeSort>),
    /// The variants of an autotuned function: how long each takes, and which is the fastest.
    Functions(FunctionsArguments),
    /// One HTML file that opens anywhere: devices over time, modules, kernels, ops, gaps, executions.
    Report(PageArguments),
    /// All events with everything the trace says of them, as JSON lines.
    Cat(CatArguments),
}

/// Where traces come from.
#[derive(Debug, Args)]
pub(crate) struct FilesArguments {
    /// Traces: .xplane.pb files, also packed (.gz, .xz, .zst), folders of them (a profiler's log folder: its latest
    /// session), `-` for stdin. Several are one trace, of one or several hosts.
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Read what is whole of a trace that is cut or damaged, and say what is lost.
    #[arg(long)]
    pub(crate) lenient: bool,
    /// The most bytes that one packed file may unpack to, as in 8GiB. Without this 8GiB, or half of the free memory where
    /// that is less.
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub(crate) max_size: Option<u64>,
}

/// Which events.
#[derive(Debug, Args)]
#[command(next_help_heading = "Which events")]
pub(crate) struct FilterArguments {
    /// Only devices that have this in their name, as in gpu:0, host1/device or cpu#2. Repeatable, or with commas.
    #[arg(long, value_name = "TEXT", value_delimiter = ',')]
    pub(crate) device: Vec<String>,
    /// Only events whose module, op or own name (on a GPU the kernel) begins with this; scopes and steps have no say.
    #[arg(long, value_name = "TEXT")]
    pub(crate) prefix: Option<String>,
    /// Only events in whose module, op or own name this regular expression is found.
    #[arg(long, value_name = "PATTERN", value_parser = parse_pattern)]
    pub(crate) regex: Option<Regex>,
    /// Only events (of `gaps`: gaps) at least this long, as in 1us or 500ns.
    #[arg(long, value_name = "TIME", value_parser = parse_picos)]
    pub(crate) min_duration: Option<Picos>,
}

/// In which order, and how much.
#[derive(Debug, Args)]
#[command(next_help_heading = "Order")]
pub(crate) struct OrderArguments<K: Sorted> {
    /// What rows are sorted by: times and counts from large to small, names and starts from small to large.
    #[arg(long, value_name = "KEY", value_enum)]
    pub(crate) sort: Option<K>,
    /// The other way round.
    #[arg(long)]
    pub(crate) reverse: bool,
    /// Only the first rows of each device; 0 is all. Without this a table has 20 (in `summary` 5), json and csv have all.
    #[arg(long, value_name = "N")]
    pub(crate) top: Option<usize>,
}

/// What rows of a table may be sorted by.
pub(crate) trait Sorted: ValueEnum + Copy + Send + Sync + 'static {}

/// What every command that prints rows takes.
#[derive(Debug, Args)]
pub(crate) struct TableArguments<K: Sorted> {
    #[command(flatten)]
    pub(crate) files: FilesArguments,
    /// How to print it.
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

/// Which rows, by what they do.
#[derive(Debug, Args)]
#[command(next_help_heading = "Which rows")]
pub(crate) struct ClassArguments {
    /// Only what does this for the most part.
    #[arg(long, value_enum)]
    pub(crate) class: Option<ClassChoice>,
}

/// Which rows, by their module.
#[derive(Debug, Args)]
#[command(next_help_heading = "Which rows")]
pub(crate) struct ModuleArguments {
    /// Only modules that have this in their name.
    #[arg(long, value_name = "TEXT")]
    pub(crate) module: Option<String>,
}

impl ModuleArguments {
    /// Whether a module is asked for.
    pub(crate) fn takes(&self, module: Option<&str>) -> bool {
        self.module.as_ref().is_none_or(|asked| module.is_some_and(|module| module.contains(asked.as_str())))
    }
}

/// What work does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ClassChoice {
    Compute,
    Communication,
    Memcpy,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Names, durations and order choose among the modules and kernels that are listed; times of devices are of all their work."
)]
pub(crate) struct SummaryArguments {
    #[command(flatten)]
    pub(crate) files: FilesArguments,
    /// How to print it.
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
    /// Where to write. Without, it is `trace_report.html` here; `-` is stdout.
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct CatArguments {
    #[command(flatten)]
    pub(crate) files: FilesArguments,
    /// How to print it: one JSON object a line.
    #[arg(long, value_enum, default_value = "jsonl")]
    pub(crate) format: LinesFormat,
    /// Only the first events; 0 is all.
    #[arg(long, value_name = "N", default_value = "0")]
    pub(crate) top: usize,
    /// With each event also what the trace says of all events of its kind, as `kind_stats`.
    #[arg(long)]
    pub(crate) metadata: bool,
    #[command(flatten)]
    pub(crate) filter: FilterArguments,
}

/// How events are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LinesFormat {
    /// One JSON object a line.
    Jsonl,
}

/// What ops, kernels and events are sorted by.
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

/// What modules are sorted by.
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

/// What executions are sorted by.
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

/// What steps are sorted by.
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

/// What gaps are sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum GapSort {
    Duration,
    Start,
}

/// What scopes are sorted by. Without it they are a tree.
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

impl Sorted for RowSort {}
impl Sorted for ModuleSort {}
impl Sorted for ExecutionSort {}
impl Sorted for StepSort {}
impl Sorted for GapSort {}
impl Sorted for ScopeSort {}

/// A regular expression; where it is wrong the place is shown.
pub(super) fn parse_pattern(text: &str) -> Result<Regex, String> {
    Regex::new(text).map_err(|error| {
        let told = error.to_string();
        let place = told.strip_prefix("regex parse error:\n").and_then(|rest| rest.rsplit_once("\nerror: "));
        match place {
            Some((place, why)) => format!("{why}\n{place}"),
            None => told,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_pattern_shows_where() {
        assert_eq!(parse_pattern("jit_(a|b").unwrap_err(), "unclosed group\n    jit_(a|b\n        ^");
        assert!(parse_pattern("x{99999}{99999}").unwrap_err().contains("size limit"));
        assert!(parse_pattern("^jit_[a-z]+").is_ok());
    }
}
