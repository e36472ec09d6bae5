//! The arguments of `ergo monitor`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::SensorArguments;
use crate::figures::parse_duration;

#[derive(Debug, Args)]
pub(crate) struct MonitorArguments {
    #[command(flatten)]
    pub(crate) sensors: SensorArguments,
    /// Time between two lines or refreshes.
    #[arg(long, short, value_name = "TIME", default_value = "1s", value_parser = parse_duration)]
    pub(crate) interval: Duration,
    /// Stop after this long [default: until Ctrl-C].
    #[arg(long, short, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) duration: Option<Duration>,
    /// Record every reading to this file, for `ergo energy` and `--replay`; a name ending in .gz is compressed.
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
    /// Replay this recording instead of reading sensors.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["device", "sensor", "record", "no_model"])]
    pub(crate) replay: Option<PathBuf>,
    /// Replay this many times faster than recorded.
    #[arg(long, value_name = "FACTOR", default_value = "1", requires = "replay")]
    pub(crate) speed: f64,
    /// Print one frame after two intervals, and exit.
    #[arg(long)]
    pub(crate) once: bool,
    /// Include processes in the lines of --format jsonl and in the frame of --once. The full screen always shows them;
    /// tables never do.
    #[arg(long)]
    pub(crate) processes: bool,
    /// Divide the CPU's energy among processes by this rule; no sensor measures it per process.
    #[arg(long, value_enum, value_name = "RULE")]
    pub(crate) split: Option<SplitRule>,
    /// Initial time range of the graphs, up to 1h; the keys + and - change it.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse_duration)]
    pub(crate) history: Duration,
    /// Output format [default: full screen on a terminal, table elsewhere; with --once, one frame of the full screen as
    /// text].
    #[arg(long, value_enum)]
    pub(crate) format: Option<StreamFormat>,
}

/// How the energy of a device is divided among processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SplitRule {
    /// In proportion to CPU time.
    CpuTime,
}

/// The format of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum StreamFormat {
    /// A table for each interval.
    Table,
    /// One JSON object per interval.
    Jsonl,
}
