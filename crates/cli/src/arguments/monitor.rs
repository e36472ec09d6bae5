//! The options of `ergo monitor`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::SensorArguments;
use crate::figures::parse_duration;

#[derive(Debug, Args)]
pub(crate) struct MonitorArguments {
    #[command(flatten)]
    pub(crate) sensors: SensorArguments,
    /// The time between two lines or refreshes.
    #[arg(long, short, value_name = "TIME", default_value = "1s", value_parser = parse_duration)]
    pub(crate) interval: Duration,
    /// Stop after this long; without it, at Ctrl-C.
    #[arg(long, short, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) duration: Option<Duration>,
    /// Keep every reading in this file, for `ergo energy` and `--replay`; packed where it ends in .gz.
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
    /// Play this recording instead of reading sensors.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["device", "sensor", "record", "no_model"])]
    pub(crate) replay: Option<PathBuf>,
    /// How many times faster to play the recording.
    #[arg(long, value_name = "FACTOR", default_value = "1", requires = "replay")]
    pub(crate) speed: f64,
    /// Print one frame, after two intervals, and end.
    #[arg(long)]
    pub(crate) once: bool,
    /// Tell the processes, too: in each line of jsonl, in the frame of --once. The whole screen always does.
    #[arg(long)]
    pub(crate) processes: bool,
    /// Divide the CPU's energy among processes by a convention; no sensor measures it.
    #[arg(long, value_enum, value_name = "RULE")]
    pub(crate) split: Option<SplitRule>,
    /// The time that graphs reach back at first, an hour at most.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse_duration)]
    pub(crate) history: Duration,
    /// How to print it; without this the whole screen on a terminal, and a table elsewhere.
    #[arg(long, value_enum)]
    pub(crate) format: Option<StreamFormat>,
}

/// How the energy of a device is divided among processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SplitRule {
    /// By the processor time each had.
    CpuTime,
}

/// How a stream is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum StreamFormat {
    /// One table, refreshed.
    Table,
    /// One JSON object a tick.
    Jsonl,
}
