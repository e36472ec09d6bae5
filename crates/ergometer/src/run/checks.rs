//! Checks the configuration, dataset and client of a run before the first request. An error has a hint.

use std::time::Duration;

use ergometer_diagnostics::{Diagnostic, Hint, Message, hint, option};

use super::{RunError, Sensing};
use crate::config::CountedDevices;
use crate::review::Tokenizer;
use ergometer_clients::http::{ports, raise_descriptor_limit};
use ergometer_clients::{Client, Protocol};
use ergometer_datasets::Dataset;
use ergometer_datasets::grade::Grader;
use ergometer_runs::config::{RunConfig, Schedule};

/// The configuration, dataset, client and sensors of a run.
pub(super) struct RunInputs {
    pub(super) config: RunConfig,
    pub(super) dataset: Box<dyn Dataset>,
    pub(super) client: Box<dyn Client>,
    pub(super) sensing: Sensing,
}

/// Settings that the checks resolve from the configuration and the dataset.
pub(super) struct ResolvedSettings {
    pub(super) grader: Grader,
    pub(super) counted: CountedDevices,
    /// The hash of the tokenizer, if one is configured.
    pub(super) tokenizer: Option<String>,
}

/// Open files and sockets other than connections: of the journal, the sensors and the runtime.
const OTHER_FILES: u64 = 32;

/// The number of queries of an endless dataset that are searched for a reference answer.
const MAX_SEARCHED: u64 = 1000;

impl RunInputs {
    /// Checks everything that does not need a response of the server.
    pub(super) fn check(&self) -> Result<ResolvedSettings, RunError> {
        let (config, dataset) = (&self.config, &self.dataset);
        let refuse = |text: String, hint: Hint| Err(RunError::config(Message::new(text).with_hint(hint)));
        if dataset.size().is_none() && config.max_queries.is_none() && config.duration_s.is_none() {
            let hint = hint!("end the run with ", option("max-queries"), " or ", option("duration"));
            return refuse(format!("the dataset {} is endless", dataset.id()), hint);
        }
        if matches!(config.schedule, Schedule::Replay { .. }) && dataset.get(0)?.arrival_s.is_none() {
            let text = format!("the dataset {} has no arrival times, so it cannot be replayed", dataset.name());
            let replay = option("replay").value("FILE");
            return refuse(text, hint!("pass a recording with ", replay, ", or send at a rate with ", option("rate")));
        }
        if config.request.ignore_eos && config.request.max_tokens.is_none() && dataset.get(0)?.output_tokens.is_none() {
            let text = String::from("`ignore_eos` needs a limit: without one, every answer fills the whole context");
            return refuse(text, hint!("pass ", option("max-tokens")));
        }
        if !config.think.is_never() && dataset.get(0)?.turn.is_none() {
            let text = format!("the dataset {} is not multi-turn, so a think time has no effect", dataset.name());
            let turns = |turns: &'static str| option("dataset-param").value(turns);
            let (all, some, think) = (turns("turns=all"), turns("turns=N"), option("think-time"));
            let hint =
                hint!("use the dataset sharegpt with ", all, " or synthetic with ", some, ", or leave out ", think);
            return refuse(text, hint);
        }
        let grader = match (&config.grader, &config.judge) {
            (Some(_), Some(_)) => {
                let text = String::from("answers cannot be graded by both a grader and a judge");
                return refuse(text, hint!("pass ", option("grader"), " or ", option("judge")));
            }
            (Some(grader), None) => grader.clone(),
            (None, Some(_)) => Grader::None,
            (None, None) => dataset.grader(),
        };
        if config.judge.is_some() && !self.has_answer()? {
            let text = format!("the dataset {} has no reference answers for a judge to compare with", dataset.name());
            let column = option("dataset-param").value("answer=COLUMN");
            return refuse(text, hint!("leave out ", option("judge"), ", or name the column of answers with ", column));
        }
        check_durations(config)?;
        self.check_connections()?;
        let counted = config.devices.clone();
        counted.check(&self.sensing.devices())?;
        let tokenizer = Tokenizer::from_config(config).map_err(|error| RunError::config(error.to_message()))?;
        let tokenizer = tokenizer.map(|tokenizer| tokenizer.fingerprint().to_owned());
        Ok(ResolvedSettings { grader, counted, tokenizer })
    }

    /// Checks that this system allows as many open connections as a closed loop needs. The number an open loop needs is
    /// unknown in advance; the limit on open files is raised for it, too.
    fn check_connections(&self) -> Result<(), RunError> {
        if self.client.base_url().is_none() {
            return Ok(());
        }
        let limit = raise_descriptor_limit();
        let network = &self.config.client.network;
        let concurrency = self.config.schedule.concurrency().filter(|_| network.protocol == Protocol::Http1);
        let Some(concurrency) = concurrency else { return Ok(()) };
        let wanted = u64::from(network.connections.map_or(concurrency, |most| most.min(concurrency)));
        if let Some(limit) = limit.filter(|&limit| wanted.saturating_add(OTHER_FILES) > limit) {
            let text = format!(
                "{wanted} connections need more open files than this system allows ({limit}, of which {OTHER_FILES} are needed for other things)"
            );
            let raise = format!("raise the limit with `ulimit -n {}`, lower ", wanted + OTHER_FILES);
            let hint = hint!(raise, option("connections"), ", or use ", option("http").value("2"));
            return Err(RunError::config(Message::new(text).with_hint(hint)));
        }
        if let Some(ports) = ports().filter(|&ports| wanted > ports) {
            let text = format!("{wanted} connections to one server need more local ports than there are ({ports})");
            let hint = hint!(
                "lower ",
                option("connections"),
                ", use ",
                option("http").value("2"),
                ", or widen /proc/sys/net/ipv4/ip_local_port_range"
            );
            return Err(RunError::config(Message::new(text).with_hint(hint)));
        }
        Ok(())
    }

    /// Whether any query that will be sent has a reference answer.
    fn has_answer(&self) -> Result<bool, RunError> {
        let most = self.config.max_queries.unwrap_or(u64::MAX);
        for index in 0..self.dataset.size().unwrap_or(MAX_SEARCHED).min(most) {
            if !self.dataset.get(index)?.answer.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Reads a duration of a configuration. `name` is its option, and with `_s` its field.
pub(crate) fn read_duration(name: &'static str, seconds: f64) -> Result<Duration, RunError> {
    Duration::try_from_secs_f64(seconds).map_err(|_| {
        let text = format!("`{name}_s` is {seconds}, which is not a valid number of seconds");
        RunError::config(Message::new(text).with_hint(hint!("pass a finite time of 0 or more with ", option(name))))
    })
}

/// Checks the durations of a configuration.
fn check_durations(config: &RunConfig) -> Result<(), RunError> {
    let durations = [
        ("duration", config.duration_s),
        ("ramp", Some(config.ramp_s)),
        ("timeout", config.timeout_s),
        ("idle", Some(config.idle_s)),
        ("calibrate", Some(config.calibrate_s)),
    ];
    durations
        .into_iter()
        .try_for_each(|(name, seconds)| seconds.map_or(Ok(()), |seconds| read_duration(name, seconds).map(drop)))
}
