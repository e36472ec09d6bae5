//! What can be wrong with a run before anything is sent: a configuration, a dataset and a client go in; an error with what to
//! do about it comes out, or what the run needs to know.

use super::{RunError, Sensing};
use crate::config::Counted;
use crate::review::Tokenizer;
use ergometer_clients::http::{ports, raise_descriptor_limit};
use ergometer_clients::{Client, Protocol};
use ergometer_datasets::Dataset;
use ergometer_datasets::grade::Grader;
use ergometer_runs::config::{RunConfig, Schedule};

/// What a run is made of.
pub(super) struct Parts {
    pub(super) config: RunConfig,
    pub(super) dataset: Box<dyn Dataset>,
    pub(super) client: Box<dyn Client>,
    pub(super) sensing: Sensing,
}

/// What was looked at without the client.
pub(super) struct Checked {
    pub(super) grader: Grader,
    pub(super) counted: Counted,
    /// A hash of the tokenizer, where one was given.
    pub(super) tokenizer: Option<String>,
}

/// Files and sockets that are open beside the connections: the journal, sensors, what the runtime needs.
const OTHER_FILES: u64 = 32;

/// A dataset without an end is looked through this far for an answer.
const FAR: u64 = 1000;

impl Parts {
    /// Checks what can be checked without the client.
    pub(super) fn check(&self) -> Result<Checked, RunError> {
        let (config, dataset) = (&self.config, &self.dataset);
        if dataset.size().is_none() && config.max_queries.is_none() && config.duration_s.is_none() {
            return Err(RunError::Config(format!(
                "the dataset {} has no end. hint: --max-queries or --duration ends the run",
                dataset.id()
            )));
        }
        if matches!(config.schedule, Schedule::Replay { .. }) && dataset.get(0)?.arrival_s.is_none() {
            return Err(RunError::Config(format!(
                "the dataset {} has no times of arrival, so it cannot be replayed. hint: --replay FILE names a recording; --rate sends others at a rate",
                dataset.name()
            )));
        }
        if config.request.ignore_eos && config.request.max_tokens.is_none() && dataset.get(0)?.output_tokens.is_none() {
            return Err(RunError::Config(String::from(
                "with --ignore-eos an answer would go on to the end of the context. hint: --max-tokens says how long answers are to be",
            )));
        }
        if !config.think.is_never() && dataset.get(0)?.turn.is_none() {
            return Err(RunError::Config(format!(
                "the dataset {} has no conversations, so nobody thinks. hint: `--dataset-param turns=all` sends all turns of a conversation; leave --think-time out otherwise",
                dataset.name()
            )));
        }
        let grader = match (&config.grader, &config.judge) {
            (Some(_), Some(_)) => {
                return Err(RunError::Config(String::from("answers have one grader. hint: --grader or --judge")));
            }
            (Some(text), None) => text.parse()?,
            (None, Some(_)) => Grader::None,
            (None, None) => dataset.grader(),
        };
        if config.judge.is_some() && !self.has_answer()? {
            return Err(RunError::Config(format!(
                "the dataset {} has no answers that a judge could compare with. hint: leave --judge out; `answer=COLUMN` by --dataset-param names the column",
                dataset.name()
            )));
        }
        self.check_connections()?;
        let counted = Counted::parse(&config.devices)?;
        counted.check(&self.sensing.devices())?;
        let tokenizer = Tokenizer::of(config).map_err(|error| RunError::Config(error.to_string()))?;
        let tokenizer = tokenizer.map(|tokenizer| tokenizer.fingerprint().to_owned());
        Ok(Checked { grader, counted, tokenizer })
    }

    /// Checks that this system lets as many connections be open as a closed loop will have. How many an open one will have,
    /// nobody knows; for it, too, the limit is raised.
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
            let connections = if wanted == 1 { "connection is" } else { "connections are" };
            return Err(RunError::Config(format!(
                "{wanted} {connections} more than this system lets a program have open ({limit} files and sockets, {OTHER_FILES} of them for other things). hint: `ulimit -n {}` before, `--connections` for fewer, or `--http 2`",
                wanted + OTHER_FILES
            )));
        }
        if let Some(ports) = ports().filter(|&ports| wanted > ports) {
            return Err(RunError::Config(format!(
                "{wanted} connections to one server are more than there are local ports ({ports}). hint: `--connections` for fewer, `--http 2`, or a wider /proc/sys/net/ipv4/ip_local_port_range"
            )));
        }
        Ok(())
    }

    /// Whether any query that will be sent has an answer.
    fn has_answer(&self) -> Result<bool, RunError> {
        let most = self.config.max_queries.unwrap_or(u64::MAX);
        for index in 0..self.dataset.size().unwrap_or(FAR).min(most) {
            if !self.dataset.get(index)?.answer.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
