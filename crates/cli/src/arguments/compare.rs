//! The arguments of `ergo compare`.

use std::ffi::OsString;

use clap::{Arg, Args};
use ergometer_analysis::compare::Limit;
use ergometer_diagnostics::{CommandLine, Diagnostic as _};
use ergometer_runs::metrics::METRICS;

use super::Format;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  ergo compare runs/a runs/b                  b against a
  ergo compare a1+a2+a3 b1+b2+b3              three repeats of each run
  ergo compare runs/sweep_H200_llama_builtin  the points of a sweep, and its knee
  ergo compare base new --fail-if 'joules_per_token > +5%' --fail-if 'accuracy < -2'")]
pub(crate) struct CompareArguments {
    /// Run folders, the baseline first, or one sweep folder; `+` joins the repeats of a run, as in a1+a2+a3.
    #[arg(required = true, value_name = "RUN")]
    pub(crate) runs: Vec<OsString>,
    /// Exit with code 1 if this condition is true: METRIC OPERATOR LIMIT, where the operator is >, >=, < or <=. A
    /// limit without a sign is a value (200ms, 90%). A limit with a sign is a change from the baseline: +5%
    /// (relative), +20ms (in the unit of the metric) or -2 (percentage points, for shares such as accuracy). A change that is not
    /// statistically significant is only a warning, except with --strict. Repeatable, or separated by commas.
    #[arg(long, value_name = "EXPR", value_parser = parse_limits)]
    pub(crate) fail_if: Vec<Limits>,
    /// With --fail-if: also fail if the change is beyond the limit but not statistically significant.
    #[arg(long, requires = "fail_if")]
    pub(crate) strict: bool,
    /// Treat changes smaller than this as no change.
    #[arg(long, value_name = "PERCENT", default_value = "0%", value_parser = parse_percent)]
    pub(crate) min_effect: f64,
    /// Show the Pareto front of accuracy, latency and energy; the default with three or more runs.
    #[arg(long)]
    pub(crate) pareto: bool,
    /// Random seed of the bootstrap (resampling for confidence intervals).
    #[arg(long, value_name = "N", default_value = "0")]
    pub(crate) seed: u64,
    /// Output format.
    #[arg(long, value_enum, default_value = "table")]
    pub(crate) format: Format,
}

/// The limits of one `--fail-if`.
#[derive(Debug, Clone)]
pub(crate) struct Limits(pub(crate) Vec<Limit>);

fn parse_limits(text: &str) -> Result<Limits, String> {
    Limit::parse(text).map(Limits).map_err(|error| error.one_line(&CommandLine))
}

/// Explains the metrics of energy.
const JOULES_HELP: &str = "joules_per_token is per output token. joules_per_input_token and \
                           decode_joules_per_output_token are net (above idle power); the others are gross unless named \
                           net.";

/// Adds the metrics to the long help of `--fail-if`.
pub(super) fn with_metrics(fail_if: Arg) -> Arg {
    let metrics: Vec<&str> =
        METRICS.iter().filter(|metric| metric.in_comparisons()).map(|metric| metric.name).collect();
    let help = fail_if.get_help().map(ToString::to_string).unwrap_or_default();
    fail_if.long_help(format!("{help}.\n\nMetrics: {}\n\n{JOULES_HELP}", metrics.join(", ")))
}

/// Parses a percentage.
fn parse_percent(text: &str) -> Result<f64, String> {
    let number = text.trim().strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
    let number = number.filter(|number| (0.0..=100.0).contains(number));
    number.map(|number| number / 100.0).ok_or_else(|| format!("`{text}` is not a percentage: write 1%"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentage_has_its_sign() {
        assert_eq!(parse_percent("2.5 %"), Ok(0.025));
        for wrong in ["", "1", "-1%", "101%", "x%"] {
            assert!(parse_percent(wrong).is_err(), "{wrong}");
        }
    }
}
