//! The arguments of `ergo profile` for the load: when requests are sent, and how many runs are made.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use ergometer_clients::Protocol;
use ergometer_diagnostics::Diagnostic;
use ergometer_runs::config::{Arrivals, ArrivalsError, LimitedMetric, Slo, Think};

use crate::figures::{parse_duration, parse_positive, parse_up_to};
use crate::phrasing::Options;

#[derive(Debug, Args)]
#[command(next_help_heading = "Load")]
pub(crate) struct LoadArguments {
    /// Keep this many requests in flight. Several values, as in 1,4,16,64, make a sweep: one run for each.
    #[arg(long, short, value_name = "N[,N…]", default_value = "1", value_delimiter = ',', value_parser = parse_up_to::<100_000>)]
    pub(crate) concurrency: Vec<u32>,
    /// Send this many requests per second, whether or not earlier requests have finished. Several values, as in 1,2,4,
    /// make a sweep.
    #[arg(long, value_name = "R[,R…]", conflicts_with = "concurrency", value_delimiter = ',', value_parser = parse_rate)]
    pub(crate) rate: Vec<f64>,
    /// Arrival process of --rate: constant, poisson or gamma[:SHAPE]. A shape below 1 sends bursts; `gamma` alone has
    /// shape 0.5 [default: poisson].
    #[arg(long, value_name = "PROCESS", value_parser = parse_arrivals)]
    pub(crate) arrivals: Option<Arrivals>,
    /// Replay the arrival times and the prompt and output lengths in this file: Mooncake (JSON Lines) or BurstGPT
    /// (CSV).
    #[arg(long, value_name = "FILE", conflicts_with_all = ["concurrency", "rate", "dataset"])]
    pub(crate) replay: Option<PathBuf>,
    /// Replay this many times faster than recorded.
    #[arg(long, value_name = "FACTOR", default_value = "1", requires = "replay", value_parser = parse_rate)]
    pub(crate) replay_speed: f64,
    /// With --rate or --replay: maximum number of requests in flight. Further requests wait, and the wait is measured.
    #[arg(long, value_name = "N", value_parser = parse_positive::<u32>)]
    pub(crate) max_in_flight: Option<u32>,
    /// Ramp up to the concurrency or rate over this time.
    #[arg(long, value_name = "TIME", default_value = "0s", conflicts_with = "replay", value_parser = parse_duration)]
    pub(crate) ramp: Duration,
    /// Pause before each further turn of a conversation (think time): 2s, or exponential:2s for random pauses with this
    /// mean.
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = parse_think)]
    pub(crate) think_time: Think,
    /// Latency limits of a good request, for goodput, as in `ttft=200ms,tpot=50ms,e2e=5s`. Further limits: `itl`, and
    /// `ttft_scheduled` (TTFT counted from the time at which the request was due).
    #[arg(long, value_name = "LIMITS", value_parser = parse_slo)]
    pub(crate) slo: Option<Slo>,
    /// Generate --max-tokens tokens even if the model would stop earlier; for servers with the parameter `ignore_eos`.
    #[arg(long)]
    pub(crate) ignore_eos: bool,
    /// Run every load this many times, and report the spread.
    #[arg(long, value_name = "N", default_value = "1", value_parser = parse_up_to::<1000>)]
    pub(crate) repeat: u32,
    /// Between runs, wait until temperature and power are as low as before the first run, but at most this long.
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = parse_duration)]
    pub(crate) cooldown: Duration,
    /// HTTP version; 2 sends many requests on one connection.
    #[arg(long, value_enum, value_name = "VERSION", default_value = "1.1")]
    pub(crate) http: HttpVersion,
    /// Maximum number of connections [default: one per request in flight; one with HTTP/2].
    #[arg(long, value_name = "N", value_parser = parse_positive::<u32>)]
    pub(crate) connections: Option<u32>,
}

/// An HTTP version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum HttpVersion {
    /// One request at a time on a connection.
    #[value(name = "1.1", alias = "1")]
    One,
    /// Many requests at a time on a connection.
    #[value(name = "2")]
    Two,
}

impl From<HttpVersion> for Protocol {
    fn from(version: HttpVersion) -> Self {
        match version {
            HttpVersion::One => Self::Http1,
            HttpVersion::Two => Self::Http2,
        }
    }
}

fn parse_rate(text: &str) -> Result<f64, String> {
    let rate = text.trim().parse().ok().filter(|rate| (1e-4..=1e6).contains(rate));
    rate.ok_or_else(|| format!("`{text}` is not a number from 0.0001 to 1000000"))
}

fn parse_arrivals(text: &str) -> Result<Arrivals, String> {
    text.parse().map_err(|error: ArrivalsError| error.one_line(&Options))
}

fn parse_think(text: &str) -> Result<Think, String> {
    match text.split_once(':') {
        Some(("exponential", mean)) => Ok(Think::Exponential { mean_s: parse_duration(mean)?.as_secs_f64() }),
        Some((other, _)) => Err(format!("unknown distribution `{other}`: write 2s or exponential:2s")),
        None => {
            let seconds = parse_duration(text)?.as_secs_f64();
            Ok(if seconds == 0.0 { Think::Never } else { Think::Fixed { seconds } })
        }
    }
}

pub(super) fn parse_slo(text: &str) -> Result<Slo, String> {
    let mut slo = Slo::default();
    for part in text.split(',') {
        let Some((name, limit)) = part.split_once('=') else {
            return Err(format!("`{part}` is not a limit: write ttft=200ms"));
        };
        let metric = parse_limited_metric(name.trim())?;
        let seconds = parse_duration(limit.trim())?.as_secs_f64();
        if seconds == 0.0 {
            return Err(format!("{name}=0 would fail every request"));
        }
        if slo.set_limit(metric, seconds).is_some() {
            return Err(format!("{name} is given twice"));
        }
    }
    Ok(slo)
}

fn parse_limited_metric(name: &str) -> Result<LimitedMetric, String> {
    let [first @ .., last] = LimitedMetric::ALL.map(LimitedMetric::name);
    LimitedMetric::find(name)
        .ok_or_else(|| format!("unknown metric `{name}`: the metrics are {} and {last}", first.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_by_name() {
        let slo = parse_slo("ttft=200ms,tpot=50ms, e2e=5s").unwrap();
        assert_eq!(slo, Slo { ttft_s: Some(0.2), tpot_s: Some(0.05), e2e_s: Some(5.0), ..Slo::default() });
        for wrong in ["", "ttft", "ttft=", "ttft=5", "speed=5s", "ttft=1s,ttft=2s", "e2e=0s"] {
            assert!(parse_slo(wrong).is_err(), "{wrong}");
        }
        let unknown = "unknown metric `speed`: the metrics are ttft, ttft_scheduled, tpot, itl and e2e";
        assert_eq!(parse_slo("speed=5s"), Err(String::from(unknown)));
    }

    #[test]
    fn think_time_is_fixed_or_exponential() {
        assert_eq!(parse_think("0s"), Ok(Think::Never));
        assert_eq!(parse_think("1500ms"), Ok(Think::Fixed { seconds: 1.5 }));
        assert_eq!(parse_think("exponential:2s"), Ok(Think::Exponential { mean_s: 2.0 }));
        assert!(parse_think("gamma:2s").is_err() && parse_think("2").is_err());
    }

    #[test]
    fn a_rate_is_a_positive_number() {
        assert_eq!(parse_rate("0.5"), Ok(0.5));
        for wrong in ["0", "-1", "nan", "inf", "1e9", "fast"] {
            assert!(parse_rate(wrong).is_err(), "{wrong}");
        }
    }
}
