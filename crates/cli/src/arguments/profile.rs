//! What the user typed after `ergo profile`, `ergo finalize` and `ergo list`.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::TypedValueParser;
use clap::{Args, ValueEnum};

use super::sensor::SensorParser;
use super::{Format, LoadArguments};
use crate::figures::{parse_count, parse_duration, parse_pair, parse_price};

#[derive(Debug, Args)]
#[command(after_help = "Without arguments: the built-in dataset on the embedded model `tiny`, into the folder runs.")]
pub(crate) struct ProfileArguments {
    #[command(flatten)]
    pub(crate) what: WhatArguments,
    #[command(flatten)]
    pub(crate) how: HowArguments,
    #[command(flatten)]
    pub(crate) load: LoadArguments,
    #[command(flatten)]
    pub(crate) energy: EnergyArguments,
    #[command(flatten)]
    pub(crate) place: PlaceArguments,
    #[command(flatten)]
    pub(crate) resume: ResumeArguments,
    /// How to print the summary.
    #[arg(long, value_enum, default_value = "table")]
    pub(crate) format: SummaryFormat,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "What is asked, and whom")]
pub(crate) struct WhatArguments {
    /// The dataset: an id (`ergo list datasets`), or the path of a JSON, JSON Lines, CSV, Parquet or Arrow file or of a Hugging Face folder.
    #[arg(long, value_name = "ID|PATH", default_value = "builtin")]
    pub(crate) dataset: String,
    /// A parameter of the dataset, such as problem=COLUMN, shuffle=SEED, limit=N or where=COLUMN=VALUE. Repeatable.
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_pair)]
    pub(crate) dataset_param: Vec<(String, String)>,
    /// The client (`ergo list clients`): embedded, or with --base-url openai.
    #[arg(long, value_name = "ID")]
    pub(crate) client: Option<String>,
    /// A parameter of the client. Repeatable.
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_pair)]
    pub(crate) client_param: Vec<(String, String)>,
    /// The model: its name, by default the server's only one; for the embedded client tiny, small or the path of a folder.
    #[arg(long, value_name = "NAME|PATH")]
    pub(crate) model: Option<String>,
    /// Said before every problem.
    #[arg(long, value_name = "TEXT")]
    pub(crate) system_prompt: Option<String>,
    /// The most tokens an answer may have.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) max_tokens: Option<u64>,
    /// A parameter of every request, such as temperature=0.7. Repeatable.
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_pair)]
    pub(crate) param: Vec<(String, String)>,
    /// How answers are graded (`ergo list graders`); by default as the dataset says.
    #[arg(long, value_name = "GRADER")]
    pub(crate) grader: Option<String>,
    /// Let the model at this OpenAI-compatible server grade the answers, after the run.
    #[arg(long, value_name = "URL", conflicts_with = "grader")]
    pub(crate) judge: Option<String>,
    /// The judge's model; by default the server's only one.
    #[arg(long, value_name = "NAME", requires = "judge")]
    pub(crate) judge_model: Option<String>,
    /// The environment variable with the judge's key.
    #[arg(long, value_name = "NAME", requires = "judge")]
    pub(crate) judge_api_key_env: Option<String>,
    /// The tokenizer that counts where the server does not: tokenizer.json or the folder of a model.
    #[arg(long, value_name = "PATH")]
    pub(crate) tokenizer: Option<PathBuf>,
    // The last, as its heading holds for all that follows.
    #[command(flatten)]
    pub(crate) server: ServerArguments,
}

/// How a server is reached.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "The server")]
pub(crate) struct ServerArguments {
    /// The address of the server, with or without /v1.
    #[arg(long, value_name = "URL")]
    pub(crate) base_url: Option<String>,
    /// The environment variable with the server's key. The key goes over https or to this machine only.
    #[arg(long, value_name = "NAME")]
    pub(crate) api_key_env: Option<String>,
    /// A header of every request. Repeatable; its value is never stored.
    #[arg(long, value_name = "NAME: VALUE")]
    pub(crate) header: Vec<String>,
    /// Trust the certificates in this PEM file, besides the system's.
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
    /// Accept any certificate. Whoever is on the way can read and change everything.
    #[arg(long)]
    pub(crate) insecure: bool,
    /// A connection that takes longer has failed.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_duration)]
    pub(crate) connect_timeout: Duration,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "How much, how fast")]
pub(crate) struct HowArguments {
    /// Send this many queries at most.
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) max_queries: Option<u64>,
    /// Send requests for this long at most.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) duration: Option<Duration>,
    /// Send this many requests first that do not count.
    #[arg(long, value_name = "N", default_value = "1")]
    pub(crate) warmup: u32,
    /// What random choices start from.
    #[arg(long, value_name = "N", default_value = "0")]
    pub(crate) seed: u64,
    /// A request whose first content takes longer has failed.
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = parse_duration)]
    pub(crate) first_token_timeout: Duration,
    /// A request that is silent for longer after its first content has failed.
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = parse_duration)]
    pub(crate) token_timeout: Duration,
    /// A request that takes longer in all has failed.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) timeout: Option<Duration>,
    /// Send a request again up to this many times where its failure may pass. Every attempt is recorded.
    #[arg(long, value_name = "N", default_value = "0")]
    pub(crate) retries: u32,
    /// Wait this long before the second attempt and twice as long before each further one, unless the server says how long.
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = parse_duration)]
    pub(crate) retry_backoff: Duration,
    /// Stop after this many failed requests.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) max_failures: Option<u64>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Energy and cost")]
pub(crate) struct EnergyArguments {
    /// Only these count: a device (gpu:0) or a kind of device (gpu, cpu, npu, rail, host, meter). Repeatable, or with commas.
    #[arg(long, value_name = "DEVICE", value_delimiter = ',')]
    pub(crate) device: Vec<String>,
    /// Also read a meter of your own: command:'ipmitool dcmi power reading', csv:FILE or prometheus:FILE. Repeatable.
    ///
    /// Options stand in brackets, as in command[every=5s,pattern='Average.* ([0-9]+) Watts']:COMMAND: name, every, unit (W, kW, J,
    /// kWh, …), signal (power, energy), timeout and pattern for commands, time and value (columns) for csv, metric for prometheus.
    #[arg(long, value_name = "SPEC", value_parser = SensorParser.map(|written| written.text))]
    pub(crate) sensor: Vec<String>,
    /// Don't model the CPU's power where nothing measures it.
    #[arg(long)]
    pub(crate) no_model: bool,
    /// The server is on this machine, whatever its address says.
    #[arg(long)]
    pub(crate) server_is_local: bool,
    /// Where the server's metrics are, for the timeline; by default /metrics of the server, if it answers. `off` leaves them out.
    #[arg(long, value_name = "URL")]
    pub(crate) server_metrics: Option<String>,
    /// Measure the machine at rest for this long before and after, for the net energy; 0s leaves it out.
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = parse_duration)]
    pub(crate) idle: Duration,
    /// How many parameters the model has, such as 8B or 135M, where the client cannot tell.
    #[arg(long, value_name = "COUNT", value_parser = parse_count)]
    pub(crate) model_params: Option<u64>,
    /// US dollars for a million input tokens.
    #[arg(long, value_name = "USD", value_parser = parse_price)]
    pub(crate) price_input: Option<f64>,
    /// US dollars for a million output tokens.
    #[arg(long, value_name = "USD", value_parser = parse_price)]
    pub(crate) price_output: Option<f64>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Where it goes")]
pub(crate) struct PlaceArguments {
    /// The folder of run folders.
    #[arg(long, value_name = "DIR", default_value = "runs")]
    pub(crate) output_dir: PathBuf,
    /// What stands at the end of the run folder's name.
    #[arg(long, value_name = "SUFFIX")]
    pub(crate) name: Option<String>,
    /// Replace a run of the same name, once the new one has its first record; a sweep, once it has its first run.
    #[arg(long)]
    pub(crate) overwrite: bool,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct ResumeArguments {
    /// Resume a run or a sweep that was stopped or killed, with the settings in its folder.
    #[arg(long = "resume", value_name = "DIR", conflicts_with_all = settings_of_a_run())]
    pub(crate) folder: Option<PathBuf>,
}

/// The options that may be combined with --resume: secrets and addresses, which a run folder does not store in full.
const COMBINED_WITH_RESUME: [&str; 6] = ["header", "base_url", "client_param", "judge", "server_metrics", "sensor"];

/// The options that a resumed run takes from its folder, so that they conflict with --resume.
fn settings_of_a_run() -> Vec<clap::Id> {
    let mut command = clap::Command::new("profile");
    command = WhatArguments::augment_args(command);
    command = HowArguments::augment_args(command);
    command = LoadArguments::augment_args(command);
    command = EnergyArguments::augment_args(command);
    command = PlaceArguments::augment_args(command);
    let ids = command.get_arguments().map(|argument| argument.get_id().clone());
    ids.filter(|id| !COMBINED_WITH_RESUME.contains(&id.as_str())).collect()
}

/// How a summary is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SummaryFormat {
    /// For people.
    Table,
    /// For programs: what is in summary.json, or in sweep.json.
    Json,
    /// For spreadsheets: a row for each point of a sweep.
    Csv,
}

#[derive(Debug, Args)]
pub(crate) struct FinalizeArguments {
    /// The run folder.
    pub(crate) run: PathBuf,
    /// How to print the summary.
    #[arg(long, value_enum, default_value = "table")]
    pub(crate) format: SummaryFormat,
}

#[derive(Debug, Args)]
pub(crate) struct ListArguments {
    /// What to list.
    #[arg(value_enum, default_value = "all")]
    pub(crate) what: Listed,
    /// Whose models: the client, embedded, or with --base-url openai.
    #[arg(long, value_name = "ID")]
    pub(crate) client: Option<String>,
    /// How to print it.
    #[arg(long, value_enum, default_value = "table")]
    pub(crate) format: Format,
    // The last, as its heading holds for all that follows.
    #[command(flatten)]
    pub(crate) server: ServerArguments,
}

/// What can be listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Listed {
    /// Where queries come from.
    Datasets,
    /// Who answers them.
    Clients,
    /// How answers are graded.
    Graders,
    /// What this machine measures with.
    Sensors,
    /// What `ergo analyze` finds out about a saved run.
    Analyses,
    /// What `ergo plot` draws.
    Visualizations,
    /// The models a client has; see --client and --base-url.
    Models,
    /// All of these but the models.
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
