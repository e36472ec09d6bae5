//! What the user typed after `ergo compare`.

use std::ffi::OsString;

use clap::Args;
use ergometer_analysis::compare::Limit;

use super::Format;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ergo compare runs/a runs/b                                  b against a
  ergo compare a1+a2+a3 b1+b2+b3                              three runs each: intervals of what varies between runs
  ergo compare runs/sweep_H200_llama_builtin                  the points of a sweep, and its knee
  ergo compare base new --fail-if 'joules_per_token > +5%' --fail-if 'accuracy < -2'")]
pub(crate) struct CompareArguments {
    /// Folders of runs, the first of which is the baseline, or one of a sweep; `+` joins repeats of one run.
    #[arg(required = true, value_name = "RUN")]
    pub(crate) runs: Vec<OsString>,
    /// Exit with 1 where this is so: METRIC, one of > >= < <=, and a limit. With a sign the limit is a change from the
    /// baseline (+5%, -2, +20ms), without one a value (200ms, 90%). Repeatable, or with commas.
    #[arg(long, value_name = "EXPR", value_parser = parse_limits)]
    pub(crate) fail_if: Vec<Limits>,
    /// With --fail-if: fail too where a change beyond the limit cannot be told from no change.
    #[arg(long, requires = "fail_if")]
    pub(crate) strict: bool,
    /// Call a change smaller than this none.
    #[arg(long, value_name = "PERCENT", default_value = "0%", value_parser = parse_percent)]
    pub(crate) min_effect: f64,
    /// Say which runs nobody beats by accuracy, latency and energy together; from three runs on this is done anyway.
    #[arg(long)]
    pub(crate) pareto: bool,
    /// The seed of resampling.
    #[arg(long, value_name = "N", default_value = "0")]
    pub(crate) seed: u64,
    /// How to print it.
    #[arg(long, value_enum, default_value = "table")]
    pub(crate) format: Format,
}

/// The limits of one `--fail-if`.
#[derive(Debug, Clone)]
pub(crate) struct Limits(pub(crate) Vec<Limit>);

fn parse_limits(text: &str) -> Result<Limits, String> {
    Limit::parse(text).map(Limits)
}

/// Reads `1%`.
fn parse_percent(text: &str) -> Result<f64, String> {
    let number = text.trim().strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
    let number = number.filter(|number| (0.0..=100.0).contains(number));
    number.map(|number| number / 100.0).ok_or_else(|| format!("`{text}` is no part: write percent, as in 1%"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_has_its_sign() {
        assert_eq!(parse_percent("2.5 %"), Ok(0.025));
        for wrong in ["", "1", "-1%", "101%", "x%"] {
            assert!(parse_percent(wrong).is_err(), "{wrong}");
        }
    }
}
