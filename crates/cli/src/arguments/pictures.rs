//! What is asked of `ergo plot` and `ergo report`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use ergometer_analysis::analyses::Limits;

use super::analyze::parse_limits;

#[derive(Debug, Args)]
pub(crate) struct PlotArguments {
    /// Folders of runs, or of sweeps. Several are drawn together, a colour each.
    #[arg(required = true, value_name = "RUN")]
    pub(crate) runs: Vec<PathBuf>,
    /// Only these plots; `ergo list visualizations` has their names. Repeatable.
    #[arg(long = "plot", value_name = "ID", value_delimiter = ',')]
    pub(crate) plots: Vec<String>,
    /// What to write.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [PictureFormat::Svg, PictureFormat::Png])]
    pub(crate) format: Vec<PictureFormat>,
    /// Where to write: a folder. Without, it is `plots` in the folder of the run, or here where there are several.
    #[arg(long, short, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
    /// Dark on light, or light on dark.
    #[arg(long, value_enum, default_value_t = ThemeChoice::Light)]
    pub(crate) theme: ThemeChoice,
    /// How many dots of a PNG a unit of the picture has; 1 is 800 wide or so.
    #[arg(long, default_value_t = 2.0, value_parser = parse_scale)]
    pub(crate) scale: f64,
}

#[derive(Debug, Args)]
pub(crate) struct ReportArguments {
    /// Folders of runs, or of sweeps. The first of several is what the others are compared with.
    #[arg(required = true, value_name = "RUN")]
    pub(crate) runs: Vec<PathBuf>,
    /// Where to write. Without, it is `report.html` in the folder of the run, or here where there are several; `-` is stdout.
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Judge requests by these limits in place of the run's own: ttft=200ms,tpot=50ms,e2e=5s; also itl and `ttft_scheduled`.
    #[arg(long, value_name = "LIMITS", value_parser = parse_limits)]
    pub(crate) slo: Option<Limits>,
    /// The seed of resampling.
    #[arg(long, default_value_t = 0)]
    pub(crate) seed: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PictureFormat {
    /// Sharp at any size, and opens in browsers.
    Svg,
    /// For slides and chats.
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
        _ => Err(format!("`{text}` is no scale: write a number from 0.1 to 10")),
    }
}
