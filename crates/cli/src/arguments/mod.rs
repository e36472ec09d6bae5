//! What the user typed, as types. The help text here is what `ergo --help` prints.

mod analyze;
mod compare;
mod functions;
mod load;
mod mock_server;
mod monitor;
mod pictures;
mod profile;
mod sensor;
mod trace;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::TypedValueParser;
use clap::{Args, Parser, Subcommand, ValueEnum};
use ergometer_sensors::Selector;
use ergometer_sensors::external::Spec;
use ergometer_units::Window;

use crate::figures::{parse_duration, parse_window};

use sensor::SensorParser;

pub(crate) use analyze::AnalyzeArguments;
pub(crate) use compare::{CompareArguments, Limits};
pub(crate) use functions::{FunctionSort, FunctionsArguments};
pub(crate) use load::LoadArguments;
pub(crate) use mock_server::{MockServerArguments, ServerFormat};
pub(crate) use monitor::{MonitorArguments, SplitRule, StreamFormat};
pub(crate) use pictures::{PictureFormat, PlotArguments, ReportArguments, ThemeChoice};
pub(crate) use profile::{FinalizeArguments, ListArguments, Listed, ProfileArguments, ServerArguments, SummaryFormat};
pub(crate) use trace::{
    CatArguments, ClassArguments, ClassChoice, ExecutionSort, ExecutionsArguments, FilesArguments, FilterArguments,
    GapSort, KernelsArguments, ModuleSort, OpsArguments, OrderArguments, PageArguments, RowSort, ScopeSort, Sorted,
    StepSort, SummaryArguments, TableArguments, TraceCommand,
};

/// Measure what AI inference costs, in time and in energy.
#[derive(Debug, Parser)]
#[command(name = "ergo", version, propagate_version = true, subcommand_required = true, arg_required_else_help = true)]
#[command(
    after_help = "Exit codes: 0 done, 1 failed, 2 wrong usage, 3 done but some requests failed, 130 interrupted (what was measured is kept)."
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) global: GlobalArguments,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct GlobalArguments {
    /// Say less: no progress, no warnings.
    #[arg(long, short, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Say more.
    #[arg(long, short, global = true)]
    pub(crate) verbose: bool,
    /// Print without colour (also: `NO_COLOR=1`).
    #[arg(long, global = true)]
    pub(crate) no_color: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Send a dataset to a model and record what every query costs, in time and in energy.
    Profile(Box<ProfileArguments>),
    /// Write the files of a run that was killed, from its journal.
    Finalize(FinalizeArguments),
    /// Find out what a saved run has to tell: what tokens cost, how latencies are distributed, what each phase takes.
    Analyze(AnalyzeArguments),
    /// Draw saved runs: power and requests over time, latencies, energy per token, accuracy per joule, fronts, sweeps.
    Plot(PlotArguments),
    /// Make one HTML file of saved runs that opens anywhere: verdict, figures, charts, tables, configuration.
    Report(ReportArguments),
    /// Say what changed from one run to others, and whether that is more than chance.
    Compare(CompareArguments),
    /// List what there is: datasets, clients, graders, sensors, analyses, visualizations, models.
    List(Box<ListArguments>),
    /// Say which sensors this machine has, how good they are, and how to mend what is missing.
    Doctor(DoctorArguments),
    /// Show power, energy, memory, temperature and utilization as they go.
    Monitor(MonitorArguments),
    /// Run a command and report the energy it took.
    Measure(MeasureArguments),
    /// Estimate the energy of windows of a recording.
    Energy(EnergyArguments),
    /// Say what the time of an accelerator's trace went into: exact times of modules, ops, kernels and steps.
    #[command(subcommand)]
    Trace(Box<TraceCommand>),
    /// Answer like an inference server, by a script: to rehearse a load test, and what goes wrong in one.
    MockServer(Box<MockServerArguments>),
    /// Print a script that completes `ergo` in a shell.
    Completions(CompletionsArguments),
    /// Print the manual page.
    Man,
}

/// How a table is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    Table,
    /// For programs.
    Json,
    /// For spreadsheets.
    Csv,
}

#[derive(Debug, Args)]
pub(crate) struct SensorArguments {
    /// Only these: a device (gpu:0), a kind of device (gpu, cpu, npu, rail, host, meter) or a sensor (nvml-energy:0). Repeatable, or with commas.
    #[arg(long, value_name = "DEVICE", value_delimiter = ',')]
    pub(crate) device: Vec<Selector>,
    /// Also read a meter of your own: command:'ipmitool dcmi power reading', csv:FILE or prometheus:FILE. Repeatable.
    ///
    /// Options stand in brackets, as in command[every=5s,pattern='Average.* ([0-9]+) Watts']:COMMAND: name, every, unit (W, kW, J,
    /// kWh, …), signal (power, energy), timeout and pattern for commands, time and value (columns) for csv, metric for prometheus.
    #[arg(long, value_name = "SPEC", value_parser = SensorParser.map(|written| written.spec))]
    pub(crate) sensor: Vec<Spec>,
    /// Don't model the CPU's power where nothing measures it.
    #[arg(long)]
    pub(crate) no_model: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArguments {
    #[command(flatten)]
    pub(crate) sensors: SensorArguments,
    /// How long to watch the sensors.
    #[arg(long, value_name = "TIME", default_value = "4s", value_parser = parse_duration)]
    pub(crate) duration: Duration,
    /// How to print it.
    #[arg(long, value_enum, default_value = "table")]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
pub(crate) struct MeasureArguments {
    #[command(flatten)]
    pub(crate) sensors: SensorArguments,
    /// Run the command this many times.
    #[arg(long, short = 'n', value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) repeat: u32,
    /// Measure the machine at rest for this long before and after, for the net energy; 0s leaves it out.
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = parse_duration)]
    pub(crate) idle: Duration,
    /// Keep every reading in this file.
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
    /// How to print it. With json and csv the command's own stdout goes to stderr.
    #[arg(long, value_enum, default_value = "table")]
    pub(crate) format: Format,
    /// The command and its arguments, after `--`.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct EnergyArguments {
    /// A recording, by `ergo monitor --record` or in the raw JSON format; gzip is fine.
    pub(crate) recording: PathBuf,
    /// A window, in microseconds since the Unix epoch. Repeatable.
    #[arg(long, value_name = "START_US..END_US", value_parser = parse_window)]
    pub(crate) window: Vec<Window>,
    /// A file with one window a line: `start end`, in microseconds since the Unix epoch; `-` is stdin.
    #[arg(long, value_name = "FILE")]
    pub(crate) windows: Option<PathBuf>,
    /// Read what is whole of a recording that was cut.
    #[arg(long)]
    pub(crate) lenient: bool,
    /// How to print it; without this a table on a terminal and json elsewhere.
    #[arg(long, value_enum)]
    pub(crate) format: Option<Format>,
}

#[derive(Debug, Args)]
pub(crate) struct CompletionsArguments {
    /// The shell.
    pub(crate) shell: clap_complete::Shell,
}
