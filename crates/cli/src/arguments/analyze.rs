//! The arguments of `ergo analyze`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use ergometer_analysis::analyses;
use ergometer_runs::config::Slo;
use ergometer_runs::cost_model::RequestShape;

use super::Format;
use super::load::parse_slo;

#[derive(Debug, Args)]
pub(crate) struct AnalyzeArguments {
    /// Run folders, or sweep folders for all of their runs.
    #[arg(required = true, value_name = "RUN")]
    pub(crate) runs: Vec<PathBuf>,
    /// Only this analysis (`ergo list analyses`). Repeatable, or separated by commas [default: all].
    #[arg(long, value_name = "ID", value_delimiter = ',', hide_possible_values = true, value_parser = analysis_ids())]
    pub(crate) analysis: Vec<String>,
    /// Omit regressions without a fit from the table (the option has the same name in intelligence-per-watt).
    #[arg(long)]
    pub(crate) skip_zeroes: bool,
    /// Latency limits for goodput, instead of those of the run, as in `ttft=200ms,tpot=50ms,e2e=5s`. Further limits:
    /// `itl`, and `ttft_scheduled` (TTFT counted from the time at which the request was due).
    #[arg(long, value_name = "LIMITS", value_parser = parse_slo)]
    pub(crate) slo: Option<Slo>,
    /// With the analysis `cost_model`: predict the energy of a request with this many input and output tokens, while
    /// this many such requests are in flight, as in `in=1000,out=200,concurrency=32`. Repeatable.
    #[arg(long, value_name = "SHAPE", value_parser = parse_shape)]
    pub(crate) predict: Vec<RequestShape>,
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

/// The ids of analyses, also with hyphens.
fn analysis_ids() -> impl TypedValueParser<Value = String> {
    let value = |analysis: &&dyn analyses::Analysis| match analysis.id() {
        "cost_model" => PossibleValue::new("cost_model").alias("cost-model"),
        "energy_per_token" => PossibleValue::new("energy_per_token").alias("energy-per-token"),
        id => PossibleValue::new(id),
    };
    PossibleValuesParser::new(analyses::ALL.iter().map(value)).map(|id| id.replace('-', "_"))
}

/// The most tokens or requests of a shape: far above any server, and exact in a float.
const MOST: f64 = 1e9;

fn parse_shape(text: &str) -> Result<RequestShape, String> {
    const FORM: &str = "write in=1000,out=200,concurrency=32";
    let (mut input, mut output, mut concurrency) = (None, None, None);
    for part in text.split(',') {
        let (name, value) = part.split_once('=').ok_or_else(|| format!("`{part}` has no value: {FORM}"))?;
        let place = match name.trim() {
            "in" => &mut input,
            "out" => &mut output,
            "concurrency" => &mut concurrency,
            other => return Err(format!("unknown part `{other}`: {FORM}")),
        };
        let number = value.trim().parse::<f64>().ok().filter(|number| (1.0..=MOST).contains(number));
        let number = number.ok_or_else(|| format!("`{value}` is not a number from 1 to 1,000,000,000: {FORM}"))?;
        if place.replace(number).is_some() {
            return Err(format!("{} is given twice: {FORM}", name.trim()));
        }
    }
    let missing = |name: &str| format!("{name} is missing: {FORM}");
    Ok(RequestShape {
        input: input.ok_or_else(|| missing("in"))?,
        output: output.ok_or_else(|| missing("out"))?,
        concurrency: concurrency.ok_or_else(|| missing("concurrency"))?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_shape_is_read_by_name() {
        let shape = RequestShape { input: 1000.0, output: 200.0, concurrency: 32.5 };
        assert_eq!(parse_shape("in=1000,out=200,concurrency=32.5"), Ok(shape));
        assert_eq!(parse_shape("concurrency=32.5, out=200, in=1000"), Ok(shape));
        for (wrong, why) in [
            ("", "`` has no value"),
            ("in=5", "out is missing"),
            ("in=5,out=6", "concurrency is missing"),
            ("in=5,out=6,concurrency=0", "`0` is not a number"),
            ("in=NaN,out=6,concurrency=1", "`NaN` is not a number"),
            ("in=5,in=5,out=6,concurrency=1", "in is given twice"),
            ("input=5,out=6,concurrency=1", "unknown part `input`"),
        ] {
            let error = parse_shape(wrong).unwrap_err();
            assert!(error.starts_with(why) && error.ends_with("write in=1000,out=200,concurrency=32"), "{error}");
        }
    }
}
