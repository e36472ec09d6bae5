//! The arguments of `ergo mock-server`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use clap::{Args, ValueEnum};
use ergometer_diagnostics::Diagnostic;
use ergometer_mock_server::{Delay, FaultRate, Length, Newline, Script, ScriptError, StreamEnd, UsagePosition};

use crate::figures::{parse_duration, parse_positive};
use crate::phrasing::Options;

/// The maximum number of reasoning tokens of an answer.
const MOST_REASONING: u64 = 1_000_000;

/// The end of the help.
const FOOTER: &str = "\
Times and counts are fixed or random: 50ms, uniform:10ms..20ms, normal:50ms,5ms, exponential:20ms; counts have no unit.
Faults:
  refuse        connections are refused (the rate is a share of the time, not of the requests)
  hang          no response
  hang-stream   the stream stalls in the middle
  reset         connection reset before the response
  reset-stream  connection reset in the middle of the stream
  truncated     connection closed in the middle of the stream
  slow          all times are multiplied by --slow-factor
  429, 500, 503 this status; 429 and 503 with Retry-After
  bad-sse       a line of the stream is not JSON; the stream continues
  error-stream  the stream ends in the middle with an error object
  no-usage      no token usage, even if requested
  no-done       no `[DONE]` (Ollama: no line with `done: true`)
  empty         an answer without content
  compressed    gzip although the client does not accept it
The header `x-mock-fault: KIND` requests a fault.
GET /stats reports each request, with the times at which it was received and answered; DELETE /stats resets them.";

#[derive(Debug, Args)]
#[command(after_help = FOOTER)]
pub(crate) struct MockServerArguments {
    #[command(flatten)]
    address: AddressArguments,
    #[command(flatten)]
    answer: AnswerArguments,
    #[command(flatten)]
    stream: StreamArguments,
    #[command(flatten)]
    fault: FaultArguments,
    /// Format of the output: the address at the start, and the statistics at the end.
    #[arg(long, value_enum, default_value = "text", help_heading = "Output")]
    pub(crate) format: ServerFormat,
}

/// The output format of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ServerFormat {
    /// Text on stderr.
    Text,
    /// JSON on stdout: one line when the server listens, and one line at the end.
    Json,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Address")]
struct AddressArguments {
    /// Address to listen on; the default accepts connections from this machine only.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1", value_parser = parse_host)]
    host: IpAddr,
    /// Port; 0 picks a free port.
    #[arg(long, short, value_name = "PORT", default_value = "9999")]
    port: u16,
    /// Require the API key in the environment variable NAME as a bearer token; requests without it get 401.
    #[arg(long, value_name = "NAME")]
    api_key: Option<String>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Responses")]
struct AnswerArguments {
    /// Time to first token.
    #[arg(long, value_name = "TIME", default_value = "50ms")]
    ttft: Delay,
    /// Time between two tokens.
    #[arg(long, value_name = "TIME", default_value = "10ms")]
    gap: Delay,
    /// Number of tokens in an answer; a word is a token.
    #[arg(long, value_name = "COUNT", default_value = "64")]
    tokens: Length,
    /// Text of every answer, instead of random words.
    #[arg(long, value_name = "TEXT", conflicts_with = "tokens")]
    answer: Option<String>,
    /// Number of reasoning tokens at the start of an answer.
    #[arg(long, value_name = "N", default_value = "0", value_parser = parse_reasoning)]
    reasoning: u64,
    /// Number of requests answered at the same time; others wait.
    #[arg(long, value_name = "N", default_value = "256", value_parser = parse_positive::<u32>)]
    slots: u32,
    /// Model name. Repeatable; requests for other models get 404 [default: accepts every name].
    #[arg(long, value_name = "NAME")]
    model: Vec<String>,
    /// Random seed: the n-th request gets the same random values every time.
    #[arg(long, value_name = "N", default_value = "0")]
    seed: u64,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Streaming")]
struct StreamArguments {
    /// Number of tokens per chunk.
    #[arg(long, value_name = "N", default_value = "1", value_parser = parse_positive::<u64>)]
    tokens_per_chunk: u64,
    /// Where a stream reports its token usage.
    #[arg(long, value_enum, default_value = "chunk")]
    usage: Usage,
    /// Number of prompt tokens that the usage reports as cached, at most all of them [default: not reported].
    #[arg(long, value_name = "N")]
    cached_tokens: Option<u64>,
    /// Whether to send `[DONE]` at the end.
    #[arg(long, value_enum, default_value = "on")]
    done: Switch,
    /// Line ending.
    #[arg(long, value_enum, default_value = "lf")]
    newline: LineEnd,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Faults")]
struct FaultArguments {
    /// Fault and its rate (share of the requests), as in reset=0.05 or 429=10%. Repeatable; the rates may sum to at most
    /// 1.
    #[arg(long, value_name = "KIND=RATE", value_parser = parse_fault)]
    fault: Vec<FaultRate>,
    /// Factor by which the fault `slow` slows a request down.
    #[arg(long, value_name = "FACTOR", default_value = "10")]
    slow_factor: f64,
    /// Retry-After of 429 and 503, in whole seconds.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_duration)]
    retry_after: Duration,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Usage {
    /// In a separate chunk, if the request asks for usage.
    Chunk,
    /// Always in the last chunk.
    Last,
    /// Never.
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

/// Parses a fault with its rate. The hint lists all faults.
fn parse_fault(text: &str) -> Result<FaultRate, String> {
    text.parse().map_err(|error: ScriptError| error.one_line(&Options))
}

/// Parses a number of reasoning tokens.
fn parse_reasoning(text: &str) -> Result<u64, String> {
    let tokens = text.trim().parse::<u64>().ok().filter(|tokens| *tokens <= MOST_REASONING);
    tokens.ok_or_else(|| format!("`{text}` is not a whole number from 0 to {MOST_REASONING}"))
}

/// Parses an IP address or `localhost`. Other names would need DNS, and may have several addresses.
fn parse_host(text: &str) -> Result<IpAddr, String> {
    if text == "localhost" {
        return Ok(IpAddr::V4(Ipv4Addr::LOCALHOST));
    }
    text.parse().map_err(|_| {
        format!("`{text}` is not an IP address: write 127.0.0.1, ::1, localhost, or 0.0.0.0 for all interfaces")
    })
}

impl MockServerArguments {
    /// The environment variable with the API key.
    pub(crate) fn key_variable(&self) -> Option<&str> {
        self.address.api_key.as_deref()
    }

    /// The script of the server, with the value of the API key.
    pub(crate) fn script(&self, api_key: Option<String>) -> Script {
        Script {
            address: SocketAddr::new(self.address.host, self.address.port),
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
                Usage::Chunk => UsagePosition::Chunk,
                Usage::Last => UsagePosition::Last,
                Usage::None => UsagePosition::None,
            },
            cached_tokens: self.stream.cached_tokens,
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

#[cfg(test)]
mod tests {
    use ergometer_mock_server::Fault;

    use super::*;

    #[test]
    fn the_help_explains_every_fault() {
        let names = FOOTER.lines().filter(|line| line.starts_with("  ")).flat_map(|line| line[..16].split([' ', ',']));
        let mut names: Vec<&str> = names.filter(|name| !name.is_empty()).collect();
        let mut all = Fault::ALL.map(Fault::name);
        names.sort_unstable();
        all.sort_unstable();
        assert_eq!(names, all);
    }
}
