//! The arguments of `ergo plot` and `ergo report`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use ergometer_runs::config::Slo;

use super::load::parse_slo;

#[derive(Debug, Args)]
pub(crate) struct PlotArguments {
    /// Run or sweep folders. Several are drawn together, in different colors.
    #[arg(required = true, value_name = "RUN")]
    pub(crate) runs: Vec<PathBuf>,
    /// Only this plot (`ergo list visualizations`). Repeatable, or separated by commas [default: all].
    #[arg(long = "plot", value_name = "ID", value_delimiter = ',')]
    pub(crate) plots: Vec<String>,
    /// Image format.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [PictureFormat::Svg, PictureFormat::Png])]
    pub(crate) format: Vec<PictureFormat>,
    /// Output folder [default: plots in the run folder; ./plots for several runs].
    #[arg(long, short, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
    /// Color theme.
    #[arg(long, value_enum, default_value_t = ThemeChoice::Light)]
    pub(crate) theme: ThemeChoice,
    /// Scale of PNG images; at 1, an image is about 800 pixels wide.
    #[arg(long, default_value_t = 2.0, value_parser = parse_scale)]
    pub(crate) scale: f64,
}

#[derive(Debug, Args)]
pub(crate) struct ReportArguments {
    /// Run or sweep folders. The first is the baseline of the others.
    #[arg(required = true, value_name = "RUN")]
    pub(crate) runs: Vec<PathBuf>,
    /// Output file; `-` is stdout [default: report.html in the run folder; ./report.html for several runs].
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Latency limits for goodput, instead of those of the run, as in `ttft=200ms,tpot=50ms,e2e=5s`. Further limits:
    /// `itl`, and `ttft_scheduled` (TTFT counted from the time at which the request was due).
    #[arg(long, value_name = "LIMITS", value_parser = parse_slo)]
    pub(crate) slo: Option<Slo>,
    /// Random seed of the bootstrap (resampling for confidence intervals).
    #[arg(long, default_value_t = 0)]
    pub(crate) seed: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PictureFormat {
    /// Vector image.
    Svg,
    /// Pixel image.
    Png,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ThemeChoice {
    /// Dark on light.
    Light,
    /// Light on dark.
    Dark,
}

fn parse_scale(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(scale) if (0.1..=10.0).contains(&scale) => Ok(scale),
        _ => Err(format!("`{text}` is not a scale: write a number from 0.1 to 10")),
    }
}
