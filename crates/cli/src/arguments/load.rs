//! What the user typed after `ergo profile` about the load: when requests are sent, and how often all of it is done.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use ergometer::config::{Arrivals, Slo, Think};
use ergometer_clients::Protocol;

use super::parse_duration;

#[derive(Debug, Args)]
#[command(next_help_heading = "The load")]
pub(crate) struct LoadArguments {
    /// Keep this many requests in flight. Several, as in 1,4,16,64, are a sweep: one run for each.
    #[arg(long, short, value_name = "N[,N…]", default_value = "1", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) concurrency: Vec<u32>,
    /// Send this many requests a second, however long answers take. Several, as in 1,2,4, are a sweep.
    #[arg(long, value_name = "R[,R…]", conflicts_with = "concurrency", value_delimiter = ',', value_parser = parse_rate)]
    pub(crate) rate: Vec<f64>,
    /// How the requests of --rate are spread: constant, poisson (the default), or gamma:SHAPE (below 1 in bursts; 0.5 where it is not said).
    #[arg(long, value_name = "HOW")]
    pub(crate) arrivals: Option<Arrivals>,
    /// Send requests at the times, and with the lengths of prompt and answer, that this file has: Mooncake's or `BurstGPT`'s, JSON Lines or CSV.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["concurrency", "rate", "dataset"])]
    pub(crate) replay: Option<PathBuf>,
    /// Replay this many times faster than recorded.
    #[arg(long, value_name = "FACTOR", default_value = "1", requires = "replay", value_parser = parse_rate)]
    pub(crate) replay_speed: f64,
    /// Have at most this many requests in flight with --rate or --replay; the others wait, and their wait is counted.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_in_flight: Option<u32>,
    /// Take this long until all requests are in flight, or until the rate is reached.
    #[arg(long, value_name = "TIME", default_value = "0s", conflicts_with = "replay", value_parser = parse_duration)]
    pub(crate) ramp: Duration,
    /// How long the human of a conversation thinks before the next turn: 2s, or exponential:2s.
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = parse_think)]
    pub(crate) think_time: Think,
    /// What a request must keep to, to count as good: ttft=200ms,tpot=50ms,e2e=5s; also itl and `ttft_scheduled`.
    #[arg(long, value_name = "LIMITS", value_parser = parse_slo)]
    pub(crate) slo: Option<Slo>,
    /// Let answers have all of --max-tokens, wherever the model would end; for servers that know `ignore_eos`.
    #[arg(long)]
    pub(crate) ignore_eos: bool,
    /// Do every run this often, and tell how far the repeats are apart.
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) repeat: u32,
    /// Wait between runs until temperature and power are back to what they were before the first, up to this long.
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = parse_duration)]
    pub(crate) cooldown: Duration,
    /// The version of HTTP: 1.1, or 2 with many requests on one connection.
    #[arg(long, value_enum, value_name = "VERSION", default_value = "1.1")]
    pub(crate) http: HttpVersion,
    /// Open at most this many connections; by default as many as requests in flight, and one with HTTP/2.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) connections: Option<u32>,
}

/// A version of HTTP, as it is typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum HttpVersion {
    /// One request at a time on a connection.
    #[value(name = "1.1", alias = "1")]
    One,
    /// Many at a time on one.
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
    rate.ok_or_else(|| format!("`{text}` is no number from 0.0001 to 1000000"))
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
        let place = match name.trim() {
            "ttft" => &mut slo.ttft_s,
            "ttft_scheduled" => &mut slo.ttft_scheduled_s,
            "tpot" => &mut slo.tpot_s,
            "itl" => &mut slo.itl_s,
            "e2e" => &mut slo.e2e_s,
            other => {
                return Err(format!(
                    "unknown metric `{other}`: the metrics are ttft, ttft_scheduled, tpot, itl and e2e"
                ));
            }
        };
        let seconds = parse_duration(limit.trim())?.as_secs_f64();
        if seconds == 0.0 {
            return Err(format!("{name}=0 would make every request fail it"));
        }
        if place.replace(seconds).is_some() {
            return Err(format!("{name} is limited twice"));
        }
    }
    Ok(slo)
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
    }

    #[test]
    fn a_human_thinks_for_a_time_or_about_so_long() {
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
