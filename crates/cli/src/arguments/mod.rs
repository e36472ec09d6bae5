//! The command-line arguments, as types. The doc comments are the text of `ergo --help`.

mod analyze;
mod compare;
mod functions;
mod load;
mod mock_server;
mod monitor;
mod parsers;
mod pictures;
mod profile;
mod trace;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use ergometer_sensors::Selector;
use ergometer_sensors::external::Spec;
use ergometer_units::Window;

use crate::figures::{parse_duration, parse_up_to, parse_window};

use parsers::SensorParser;

pub(crate) use analyze::AnalyzeArguments;
pub(crate) use compare::{CompareArguments, Limits};
pub(crate) use functions::{FunctionSort, FunctionsArguments};
pub(crate) use load::LoadArguments;
pub(crate) use mock_server::{MockServerArguments, ServerFormat};
pub(crate) use monitor::{MonitorArguments, SplitRule, StreamFormat};
pub(crate) use pictures::{PictureFormat, PlotArguments, ReportArguments, ThemeChoice};
pub(crate) use profile::{
    AttributeArguments, FinalizeArguments, ListArguments, ListKind, ProfileArguments, ServerArguments, SummaryFormat,
};
pub(crate) use trace::{
    CatArguments, ClassArguments, ClassChoice, ExecutionSort, ExecutionsArguments, FilesArguments, FilterArguments,
    GapSort, KernelsArguments, ModuleSort, OpsArguments, OrderArguments, PageArguments, RowSort, ScopeSort, SortKey,
    StepSort, SummaryArguments, TableArguments, TraceCommand,
};

/// Measure the time and energy of AI inference.
#[derive(Debug, Parser)]
#[command(name = "ergo", version, propagate_version = true, subcommand_required = true, arg_required_else_help = true)]
#[command(
    after_help = "Exit codes: 0 success, 1 failure, 2 invalid arguments or configuration, 3 some requests failed, 130 interrupted (measured data is kept)."
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) global: GlobalArguments,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct GlobalArguments {
    /// Print less: no progress and no warnings.
    #[arg(long, short, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Print more details.
    #[arg(long, short, global = true)]
    pub(crate) verbose: bool,
    /// Print without color (also: `NO_COLOR=1`).
    #[arg(long, global = true)]
    pub(crate) no_color: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Send a dataset to a model and record the time and energy of every query.
    Profile(Box<ProfileArguments>),
    /// Write the result files of a run from its journal, for example after it was killed.
    Finalize(FinalizeArguments),
    /// Re-estimate the energy of each request with one cost model (energy per token and per step) fitted to several
    /// runs of a server.
    Attribute(AttributeArguments),
    /// Analyze saved runs: energy per token, latency distributions, prefill and decode.
    Analyze(AnalyzeArguments),
    /// Plot saved runs: power and requests over time, latency, energy per token, accuracy per joule, sweeps.
    Plot(PlotArguments),
    /// Write a report of saved runs as one self-contained HTML file.
    Report(ReportArguments),
    /// Compare runs, and test whether differences are statistically significant.
    #[command(mut_arg("fail_if", compare::with_metrics))]
    Compare(CompareArguments),
    /// List datasets, clients, graders, sensors, analyses, visualizations or models.
    List(Box<ListArguments>),
    /// Show the sensors of this machine, how accurate they are, and how to enable missing ones.
    Doctor(DoctorArguments),
    /// Show power, energy, memory, temperature and utilization live.
    Monitor(MonitorArguments),
    /// Run a command and report its energy.
    Measure(MeasureArguments),
    /// Estimate the energy of time windows in a recording.
    Energy(EnergyArguments),
    /// Analyze an XLA profiler trace (.xplane.pb, as JAX writes it): compiled modules, ops, kernels, steps.
    #[command(subcommand)]
    Trace(Box<TraceCommand>),
    /// Run a simulated inference server, to try out load tests and failures.
    MockServer(Box<MockServerArguments>),
    /// Print a shell completion script.
    Completions(CompletionsArguments),
    /// Print the manual page.
    Man,
}

/// The format of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Table for people.
    Table,
    /// JSON for programs.
    Json,
    /// CSV for spreadsheets.
    Csv,
}

#[derive(Debug, Args)]
pub(crate) struct SensorArguments {
    /// Use only this device (gpu:0), sensor (nvml-energy:0), or kind of device: gpu, cpu, npu, rail (supply rail),
    /// meter (meter of the whole machine: BMC, battery, or your own --sensor), host (utilization, clock and memory of
    /// the machine, no energy). Repeatable, or separated by commas.
    #[arg(long, value_name = "DEVICE", value_delimiter = ',')]
    pub(crate) device: Vec<Selector>,
    /// Also read your own meter: command:'ipmitool dcmi power reading', csv:FILE, or prometheus:FILE (a file in the
    /// Prometheus text format). Repeatable.
    ///
    /// Options go in brackets: command[every=5s,pattern='Average.* ([0-9]+) Watts']:COMMAND. All sensors take name,
    /// every, unit (W, kW, J, kWh, …) and signal (power or energy). command also takes timeout and pattern; csv takes
    /// time and value (the names of the columns); prometheus takes metric (the name of the metric).
    #[arg(long, value_name = "SPEC", value_parser = SensorParser)]
    pub(crate) sensor: Vec<Spec>,
    /// Do not estimate CPU power from utilization when no sensor measures it.
    #[arg(long)]
    pub(crate) no_model: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArguments {
    #[command(flatten)]
    pub(crate) sensors: SensorArguments,
    /// How long to read the sensors.
    #[arg(long, value_name = "TIME", default_value = "4s", value_parser = parse_duration)]
    pub(crate) duration: Duration,
    /// Output format.
    #[arg(long, value_enum, default_value = "table")]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
pub(crate) struct MeasureArguments {
    #[command(flatten)]
    pub(crate) sensors: SensorArguments,
    /// Run the command this many times.
    #[arg(long, short = 'n', value_name = "N", default_value = "1", value_parser = parse_up_to::<100_000>)]
    pub(crate) repeat: u32,
    /// Measure idle power for this long before and after the command, to compute net energy (energy above idle
    /// power); 0s skips it.
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = parse_duration)]
    pub(crate) idle: Duration,
    /// Record every reading to this file, for `ergo energy` and `ergo monitor --replay`; a name ending in .gz is
    /// compressed.
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
    /// Output format. With json and csv, the command's stdout goes to stderr.
    #[arg(long, value_enum, default_value = "table")]
    pub(crate) format: Format,
    /// The command and its arguments, after `--`.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct EnergyArguments {
    /// Recording made by `ergo monitor --record` or `ergo measure --record`, or raw NVML readings (JSON); either
    /// may be gzip-compressed.
    pub(crate) recording: PathBuf,
    /// Time window in microseconds since the Unix epoch. Repeatable.
    #[arg(long, value_name = "START_US..END_US", value_parser = parse_window)]
    pub(crate) window: Vec<Window>,
    /// File with one window per line: `start end`, in microseconds since the Unix epoch; `-` is stdin.
    #[arg(long, value_name = "FILE")]
    pub(crate) windows: Option<PathBuf>,
    /// Read a truncated recording up to the cut.
    #[arg(long)]
    pub(crate) lenient: bool,
    /// Output format [default: table on a terminal, json elsewhere].
    #[arg(long, value_enum)]
    pub(crate) format: Option<Format>,
}

#[derive(Debug, Args)]
pub(crate) struct CompletionsArguments {
    /// The shell.
    pub(crate) shell: clap_complete::Shell,
}
