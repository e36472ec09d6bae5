//! The arguments of `ergo profile`, `ergo finalize` and `ergo list`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::parsers::{GraderParser, SensorParser};
use super::{Format, LoadArguments};
use crate::figures::{parse_count, parse_duration, parse_duration_or_off, parse_pair, parse_positive, parse_price};
use ergometer_datasets::grade::Grader;
use ergometer_sensors::external::Spec;

#[derive(Debug, Args)]
#[command(
    after_help = "Without arguments: sends the built-in dataset to the embedded model `tiny` and writes to the folder runs."
)]
pub(crate) struct ProfileArguments {
    #[command(flatten)]
    pub(crate) dataset: DatasetArguments,
    #[command(flatten)]
    pub(crate) requests: RequestArguments,
    #[command(flatten)]
    pub(crate) load: LoadArguments,
    #[command(flatten)]
    pub(crate) energy: EnergyArguments,
    #[command(flatten)]
    pub(crate) output: OutputArguments,
    #[command(flatten)]
    pub(crate) resume: ResumeArguments,
    /// Format of the summary.
    #[arg(long, value_enum, default_value = "table")]
    pub(crate) format: SummaryFormat,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Dataset and model")]
pub(crate) struct DatasetArguments {
    /// Dataset: an id (`ergo list datasets`), or the path of a JSON, JSON Lines, CSV, Parquet or Arrow file or a Hugging Face folder.
    #[arg(long, value_name = "ID|PATH", default_value = "builtin")]
    pub(crate) dataset: String,
    /// Dataset parameter, such as problem=COLUMN, shuffle=SEED, limit=N or where=COLUMN=VALUE. Repeatable.
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_pair)]
    pub(crate) dataset_param: Vec<(String, String)>,
    /// Client (`ergo list clients`) [default: openai with --base-url, embedded without].
    #[arg(long, value_name = "ID")]
    pub(crate) client: Option<String>,
    /// Client parameter (`ergo list clients`). Repeatable.
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_pair)]
    pub(crate) client_param: Vec<(String, String)>,
    /// Model name [default: the server's only model]. The embedded client takes tiny, small or a model folder.
    #[arg(long, value_name = "NAME|PATH")]
    pub(crate) model: Option<String>,
    /// System prompt of every request.
    #[arg(long, value_name = "TEXT")]
    pub(crate) system_prompt: Option<String>,
    /// Maximum number of output tokens per request.
    #[arg(long, value_name = "N", value_parser = parse_positive::<u64>)]
    pub(crate) max_tokens: Option<u64>,
    /// Parameter of every request, such as temperature=0.7. Repeatable.
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_pair)]
    pub(crate) param: Vec<(String, String)>,
    /// Grader of the answers (`ergo list graders`) [default: the dataset's].
    #[arg(long, value_name = "GRADER", value_parser = GraderParser)]
    pub(crate) grader: Option<Grader>,
    /// After the run, let a model on this OpenAI-compatible server grade the answers.
    #[arg(long, value_name = "URL", conflicts_with = "grader")]
    pub(crate) judge: Option<String>,
    /// Model of the judge [default: the server's only model].
    #[arg(long, value_name = "NAME", requires = "judge")]
    pub(crate) judge_model: Option<String>,
    /// Environment variable with the API key of the judge.
    #[arg(long, value_name = "NAME", requires = "judge")]
    pub(crate) judge_api_key_env: Option<String>,
    /// Tokenizer for servers that do not report token counts: tokenizer.json or a model folder.
    #[arg(long, value_name = "PATH")]
    pub(crate) tokenizer: Option<PathBuf>,
    // Last, as its help heading applies to all arguments that follow.
    #[command(flatten)]
    pub(crate) server: ServerArguments,
}

/// How to connect to a server.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Server")]
pub(crate) struct ServerArguments {
    /// URL of the server, with or without /v1.
    #[arg(long, value_name = "URL")]
    pub(crate) base_url: Option<String>,
    /// Environment variable with the API key. The key is only sent over https or to this machine.
    #[arg(long, value_name = "NAME")]
    pub(crate) api_key_env: Option<String>,
    /// HTTP header of every request. Repeatable; the value is never stored.
    #[arg(long, value_name = "NAME: VALUE")]
    pub(crate) header: Vec<String>,
    /// Also trust the certificates in this PEM file.
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
    /// Accept any TLS certificate. Others on the network can then read and change all traffic.
    #[arg(long)]
    pub(crate) insecure: bool,
    /// Connect timeout.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_duration)]
    pub(crate) connect_timeout: Duration,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Requests")]
pub(crate) struct RequestArguments {
    /// Maximum number of queries.
    #[arg(long, short = 'n', value_name = "N", value_parser = parse_positive::<u64>)]
    pub(crate) max_queries: Option<u64>,
    /// Stop sending requests after this time.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) duration: Option<Duration>,
    /// Number of warm-up requests, which are not counted.
    #[arg(long, value_name = "N", default_value = "1")]
    pub(crate) warmup: u32,
    /// Random seed.
    #[arg(long, value_name = "N", default_value = "0")]
    pub(crate) seed: u64,
    /// Timeout until the first token.
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = parse_duration)]
    pub(crate) first_token_timeout: Duration,
    /// Timeout between two tokens.
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = parse_duration)]
    pub(crate) token_timeout: Duration,
    /// Timeout of the whole request.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) timeout: Option<Duration>,
    /// Retry a request up to this many times after a transient failure. Every attempt is recorded.
    #[arg(long, value_name = "N", default_value = "0")]
    pub(crate) retries: u32,
    /// Wait before the first retry. The wait doubles with each further retry; the server's Retry-After takes
    /// precedence.
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = parse_duration)]
    pub(crate) retry_backoff: Duration,
    /// Stop after this many failed requests.
    #[arg(long, value_name = "N", value_parser = parse_positive::<u64>)]
    pub(crate) max_failures: Option<u64>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Energy and cost")]
pub(crate) struct EnergyArguments {
    /// Count only the energy of this device (gpu:0) or kind of device: gpu, cpu, npu, rail (supply rail), meter
    /// (meter of the whole machine: BMC, battery, or your own --sensor). Repeatable, or separated by commas.
    #[arg(long, value_name = "DEVICE", value_delimiter = ',')]
    pub(crate) device: Vec<String>,
    /// Also read your own meter: command:'ipmitool dcmi power reading', csv:FILE, or prometheus:FILE (a file in the
    /// Prometheus text format). Repeatable.
    ///
    /// Options go in brackets: command[every=5s,pattern='Average.* ([0-9]+) Watts']:COMMAND. All sensors take name,
    /// every, unit (W, kW, J, kWh, …) and signal (power or energy). command also takes timeout and pattern; csv takes
    /// time and value (the names of the columns); prometheus takes metric (the name of the metric).
    #[arg(long, value_name = "SPEC", value_parser = SensorParser)]
    pub(crate) sensor: Vec<Spec>,
    /// Do not estimate CPU power from utilization when no sensor measures it.
    #[arg(long)]
    pub(crate) no_model: bool,
    /// Treat the server as running on this machine, whatever its address.
    #[arg(long)]
    pub(crate) server_is_local: bool,
    /// URL of the server's Prometheus metrics [default: /metrics of the server, if it responds]; `off` disables them.
    #[arg(long, value_name = "URL")]
    pub(crate) server_metrics: Option<String>,
    /// Measure idle power for this long before and after the run, to compute net energy (energy above idle power); 0s
    /// skips it.
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = parse_duration)]
    pub(crate) idle: Duration,
    /// Before a run with --concurrency 8 or more, or with --rate or --replay, send calibration requests for this long:
    /// first one at a time, then four at a time, half of the time each. They are not part of the results; they make the
    /// energy per request more accurate. A calibration less than 24 hours old is reused. `off` disables it.
    #[arg(long, value_name = "TIME|off", default_value = "6s", value_parser = parse_duration_or_off)]
    pub(crate) calibrate: Duration,
    /// Log of the server's engine steps during the run, to attribute energy to requests: the log of vLLM with
    /// --enable-logging-iteration-details, or JSON Lines with a prefill or decode step per line (format:
    /// docs/attribution.md). For a sweep, pass it to `ergo attribute` afterwards.
    #[arg(long, value_name = "FILE")]
    pub(crate) engine_log: Option<PathBuf>,
    /// Number of model parameters, such as 8B or 135M, if the client does not report it.
    #[arg(long, value_name = "COUNT", value_parser = parse_count)]
    pub(crate) model_params: Option<u64>,
    /// Price in US dollars per million input tokens.
    #[arg(long, value_name = "USD", value_parser = parse_price)]
    pub(crate) price_input: Option<f64>,
    /// Price in US dollars per million output tokens.
    #[arg(long, value_name = "USD", value_parser = parse_price)]
    pub(crate) price_output: Option<f64>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct OutputArguments {
    /// Folder in which the run folder is created.
    #[arg(long, value_name = "DIR", default_value = "runs")]
    pub(crate) output_dir: PathBuf,
    /// Suffix of the run folder's name.
    #[arg(long, value_name = "SUFFIX")]
    pub(crate) name: Option<String>,
    /// Replace an existing run or sweep of the same name. The old one is kept until the new run has its first record, or
    /// until the first run of the new sweep is finished.
    #[arg(long)]
    pub(crate) overwrite: bool,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct ResumeArguments {
    /// Resume the run or sweep in this folder, with its settings.
    #[arg(long = "resume", value_name = "DIR", conflicts_with_all = settings_of_a_run())]
    pub(crate) folder: Option<PathBuf>,
}

/// The options that may be combined with --resume: secrets and addresses, which a run folder does not store in full.
const COMBINED_WITH_RESUME: [&str; 6] = ["header", "base_url", "client_param", "judge", "server_metrics", "sensor"];

/// The options that a resumed run takes from its folder, and that therefore conflict with --resume.
fn settings_of_a_run() -> Vec<clap::Id> {
    let mut command = clap::Command::new("profile");
    command = DatasetArguments::augment_args(command);
    command = RequestArguments::augment_args(command);
    command = LoadArguments::augment_args(command);
    command = EnergyArguments::augment_args(command);
    command = OutputArguments::augment_args(command);
    let ids = command.get_arguments().map(|argument| argument.get_id().clone());
    ids.filter(|id| !COMBINED_WITH_RESUME.contains(&id.as_str())).collect()
}

/// The format of a summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SummaryFormat {
    /// Table for people.
    Table,
    /// The content of summary.json or sweep.json.
    Json,
    /// CSV with a row for each point of a sweep.
    Csv,
}

/// The format of the summary of one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RunFormat {
    /// Table for people.
    Table,
    /// The content of summary.json.
    Json,
}

impl From<RunFormat> for SummaryFormat {
    fn from(format: RunFormat) -> Self {
        match format {
            RunFormat::Table => Self::Table,
            RunFormat::Json => Self::Json,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct FinalizeArguments {
    /// Run folder.
    pub(crate) run: PathBuf,
    /// Log of the server's engine steps, to attribute energy to requests: the log of vLLM with
    /// --enable-logging-iteration-details, or JSON Lines with a prefill or decode step per line (format:
    /// docs/attribution.md).
    #[arg(long, value_name = "FILE")]
    pub(crate) engine_log: Option<PathBuf>,
    /// Format of the summary.
    #[arg(long, value_enum, default_value = "table")]
    pub(crate) format: RunFormat,
}

#[derive(Debug, Args)]
pub(crate) struct AttributeArguments {
    /// Run folders with the same model, server and devices, or a sweep folder.
    #[arg(required = true, value_name = "RUN")]
    pub(crate) runs: Vec<PathBuf>,
    /// Log of the server's engine steps: the log of vLLM with --enable-logging-iteration-details, or JSON Lines with a
    /// prefill or decode step per line (format: docs/attribution.md).
    #[arg(long, value_name = "FILE")]
    pub(crate) engine_log: Option<PathBuf>,
    /// Output format.
    #[arg(long, value_enum, default_value = "table")]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
pub(crate) struct ListArguments {
    /// What to list.
    #[arg(value_enum, default_value = "all")]
    pub(crate) kind: ListKind,
    /// Client whose models to list [default: openai with --base-url, embedded without].
    #[arg(long, value_name = "ID")]
    pub(crate) client: Option<String>,
    /// Output format.
    #[arg(long, value_enum, default_value = "table")]
    pub(crate) format: Format,
    // Last, as its help heading applies to all arguments that follow.
    #[command(flatten)]
    pub(crate) server: ServerArguments,
}

/// The kinds of things to list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ListKind {
    /// Sources of queries.
    Datasets,
    /// Clients of inference servers, and the embedded model.
    Clients,
    /// Graders of answers.
    Graders,
    /// Sensors of this machine.
    Sensors,
    /// Analyses of `ergo analyze`.
    Analyses,
    /// Plots of `ergo plot`.
    Visualizations,
    /// Models of a client; see --client and --base-url.
    Models,
    /// All kinds except models.
    All,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::arguments::Arguments;

    /// A new option must conflict with --resume, or be listed here or in [`COMBINED_WITH_RESUME`].
    #[test]
    fn every_option_is_refused_or_allowed_with_resume() {
        let mut root = Arguments::command();
        root.build();
        let profile = root.find_subcommand("profile").unwrap();
        let id = |argument: &clap::Arg| argument.get_id().to_string();
        let resume = profile.get_arguments().find(|argument| argument.get_long() == Some("resume")).unwrap();
        let conflicts: Vec<String> = profile.get_arg_conflicts_with(resume).into_iter().map(id).collect();
        let printing = ["format", "quiet", "verbose", "no_color", "help", "version"];
        let allowed: Vec<&str> = COMBINED_WITH_RESUME.into_iter().chain(printing).collect();
        let others = profile.get_arguments().map(id).filter(|other| *other != id(resume));
        for other in others {
            let is_refused = conflicts.contains(&other);
            assert_ne!(is_refused, allowed.contains(&other.as_str()), "{other} with --resume");
        }
        assert!(conflicts.len() >= 45 && conflicts.contains(&String::from("overwrite")));
    }
}
