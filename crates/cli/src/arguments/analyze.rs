//! The arguments of `ergo analyze`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;
use ergometer_analysis::analyses::{self, Limits};
use ergometer_runs::config::Slo;

use super::Format;
use super::load::parse_slo;

#[derive(Debug, Args)]
pub(crate) struct AnalyzeArguments {
    /// Run folders, or sweep folders for all of their runs.
    #[arg(required = true, value_name = "RUN")]
    pub(crate) runs: Vec<PathBuf>,
    /// Only this analysis (`ergo list analyses`). Repeatable, or separated by commas [default: all].
    #[arg(long, value_name = "ID", value_delimiter = ',', hide_possible_values = true, value_parser = PossibleValuesParser::new(analyses::ALL.iter().map(|analysis| analysis.id())))]
    pub(crate) analysis: Vec<String>,
    /// Leave out regressions that could not be fitted. The name is that of the tool `intelligence-per-watt`.
    #[arg(long)]
    pub(crate) skip_zeroes: bool,
    /// Latency limits for goodput, instead of those of the run, as in `ttft=200ms,tpot=50ms,e2e=5s`. Further limits:
    /// `itl`, and `ttft_scheduled` (TTFT from the scheduled time).
    #[arg(long, value_name = "LIMITS", value_parser = parse_limits)]
    pub(crate) slo: Option<Limits>,
    /// Random seed of the bootstrap (resampling for confidence intervals).
    #[arg(long, value_name = "N", default_value = "0")]
    pub(crate) seed: u64,
    /// Only print; do not write to analysis/ in the run folder.
    #[arg(long)]
    pub(crate) no_save: bool,
    /// Output format.
    #[arg(long, value_enum, default_value = "table")]
    pub(crate) format: Format,
}

pub(super) fn parse_limits(text: &str) -> Result<Limits, String> {
    let Slo { ttft_s, ttft_scheduled_s, tpot_s, itl_s, e2e_s } = parse_slo(text)?;
    Ok(Limits { ttft_s, ttft_scheduled_s, tpot_s, itl_s, e2e_s })
}
