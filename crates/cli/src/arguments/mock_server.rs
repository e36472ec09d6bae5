//! What the user typed after `ergo mock-server`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use clap::{Args, ValueEnum};
use ergometer_server::{Delay, FaultRate, Length, Newline, Script, StreamEnd, UsagePlace};

use crate::figures::parse_duration;

#[derive(Debug, Args)]
#[command(
    after_help = "Times and counts are one value or drawn: 50ms, uniform:10ms..20ms, normal:50ms,5ms, exponential:20ms; \
                  counts have no unit.\nFaults: refuse (share of the time), hang, hang-stream, reset, reset-stream, slow, \
                  429, 500, 503, bad-sse, error-stream, truncated, no-usage, empty, no-done, compressed. A request can ask \
                  for one by the header `x-mock-fault: KIND`.\nGET /stats tells what was sent when; DELETE /stats begins again."
)]
pub(crate) struct MockServerArguments {
    #[command(flatten)]
    place: PlaceArguments,
    #[command(flatten)]
    answer: AnswerArguments,
    #[command(flatten)]
    stream: StreamArguments,
    #[command(flatten)]
    fault: FaultArguments,
    /// How to print the address and, at the end, what was served.
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) format: ServerFormat,
}

/// How the server tells where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ServerFormat {
    /// For people, on stderr.
    Text,
    /// For programs: a line on stdout when it listens, and one at the end.
    Json,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Where it listens")]
struct PlaceArguments {
    /// The address of the interface; the default is reached from this machine only.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1", value_parser = parse_host)]
    host: IpAddr,
    /// The port; 0 picks a free one.
    #[arg(long, short, value_name = "PORT", default_value = "9999")]
    port: u16,
    /// Demand the key in this environment variable as a bearer token; other requests get 401.
    #[arg(long, value_name = "KEY-ENV")]
    api_key: Option<String>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "What it answers, and how fast")]
struct AnswerArguments {
    /// From the start of a request to its first token.
    #[arg(long, value_name = "TIME", default_value = "50ms")]
    ttft: Delay,
    /// Between two tokens.
    #[arg(long, value_name = "TIME", default_value = "10ms")]
    gap: Delay,
    /// How many tokens an answer has; a word is a token.
    #[arg(long, value_name = "COUNT", default_value = "64")]
    tokens: Length,
    /// What every answer says, instead of drawn words.
    #[arg(long, value_name = "TEXT", conflicts_with = "tokens")]
    answer: Option<String>,
    /// How many of the first tokens are reasoning.
    #[arg(long, value_name = "N", default_value = "0", value_parser = clap::value_parser!(u64).range(..=1_000_000))]
    reasoning: u64,
    /// How many requests are answered at once; others wait.
    #[arg(long, value_name = "N", default_value = "256", value_parser = clap::value_parser!(u32).range(1..))]
    slots: u32,
    /// The name of the model. Repeatable; other names then get 404. Without it every name is taken.
    #[arg(long, value_name = "NAME")]
    model: Vec<String>,
    /// What all draws begin from: the n-th request draws the same each time.
    #[arg(long, value_name = "N", default_value = "0")]
    seed: u64,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "How it streams")]
struct StreamArguments {
    /// How many tokens come in one chunk.
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u64).range(1..))]
    tokens_per_chunk: u64,
    /// Where a stream says its usage.
    #[arg(long, value_enum, default_value = "chunk")]
    usage: Usage,
    /// Whether `[DONE]` is sent at the end.
    #[arg(long, value_enum, default_value = "on")]
    done: Switch,
    /// How lines end.
    #[arg(long, value_enum, default_value = "lf")]
    newline: LineEnd,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "What goes wrong")]
struct FaultArguments {
    /// A fault and its share of requests, as in reset=0.05 or 429=10%. Repeatable; the shares sum to at most 1.
    #[arg(long, value_name = "KIND=RATE")]
    fault: Vec<FaultRate>,
    /// How many times longer a slow request takes.
    #[arg(long, value_name = "FACTOR", default_value = "10")]
    slow_factor: f64,
    /// What 429 and 503 tell the client to wait, in whole seconds.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_duration)]
    retry_after: Duration,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Usage {
    /// In a chunk of its own, where the request asks for it.
    Chunk,
    /// On the last chunk, always.
    Last,
    /// Nowhere.
    None,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Switch {
    On,
    Off,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum LineEnd {
    Lf,
    Crlf,
}

/// Reads an address, and `localhost`. Other names would need a look-up, and may have several addresses.
fn parse_host(text: &str) -> Result<IpAddr, String> {
    if text == "localhost" {
        return Ok(IpAddr::V4(Ipv4Addr::LOCALHOST));
    }
    text.parse()
        .map_err(|_| format!("`{text}` is no address: write 127.0.0.1, ::1, localhost, or 0.0.0.0 for all interfaces"))
}

impl MockServerArguments {
    /// The environment variable that has the key.
    pub(crate) fn key_variable(&self) -> Option<&str> {
        self.place.api_key.as_deref()
    }

    /// The script, with the key that the variable had.
    pub(crate) fn script(&self, api_key: Option<String>) -> Script {
        Script {
            address: SocketAddr::new(self.place.host, self.place.port),
            ttft: self.answer.ttft,
            gap: self.answer.gap,
            tokens: self.answer.tokens,
            tokens_per_chunk: self.stream.tokens_per_chunk,
            slots: usize::try_from(self.answer.slots).unwrap_or(usize::MAX),
            seed: self.answer.seed,
            models: self.answer.model.clone(),
            reasoning: self.answer.reasoning,
            answer: self.answer.answer.clone(),
            usage: match self.stream.usage {
                Usage::Chunk => UsagePlace::Chunk,
                Usage::Last => UsagePlace::Last,
                Usage::None => UsagePlace::None,
            },
            end: match self.stream.done {
                Switch::On => StreamEnd::Done,
                Switch::Off => StreamEnd::Bare,
            },
            newline: match self.stream.newline {
                LineEnd::Lf => Newline::Lf,
                LineEnd::Crlf => Newline::Crlf,
            },
            faults: self.fault.fault.clone(),
            slow_factor: self.fault.slow_factor,
            retry_after: self.fault.retry_after,
            api_key,
            ..Script::default()
        }
    }
}
