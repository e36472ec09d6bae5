//! Grades answers with a model.

use std::sync::Arc;

use ergometer_diagnostics::{Diagnostic, Hint, Message, hint, option};
use ergometer_telemetry::Clock;
use serde_json::{Map, Value};

use super::prompt::{SYSTEM, question};
use super::verdict::{Verdict, verdict};
use crate::journal::Judgement;
use ergometer_clients::redact::Secrets;
use ergometer_clients::{Client, ClientError, ClientSpec, Request, RequestError, RequestOptions, Transcript};
use ergometer_runs::Exchange;
use ergometer_runs::config::{JudgeSpec, Retries};

/// Enough for a few sentences and some reasoning.
const MAX_TOKENS: u64 = 1024;

/// Why a judge cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum JudgeError {
    /// Its address, key or another option is invalid.
    #[error("{0}")]
    Invalid(Message),
    /// Its server does not answer, or answers but cannot grade.
    #[error("{0}")]
    Unusable(Message),
}

impl Diagnostic for JudgeError {
    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Invalid(message) | Self::Unusable(message) => message.hint(),
        }
    }
}

impl From<ClientError> for JudgeError {
    /// Names the options of the judge in the hint instead of those of the run's client.
    fn from(error: ClientError) -> Self {
        let is_reached = !matches!(error, ClientError::Unreachable(_));
        let place = if is_reached { "the judge cannot be used" } else { "cannot reach the judge" };
        let mut message = error.to_message().at(place);
        message.hint = match &error {
            ClientError::Unreachable(_) => Some(hint!(
                "check that the server is running; ",
                option("judge"),
                " takes the address of an OpenAI-compatible server"
            )),
            _ => message.hint.map(|hint| {
                hint.with_renamed_option("api-key-env", "judge-api-key-env").with_renamed_option("base-url", "judge")
            }),
        };
        match error {
            ClientError::Unknown { .. } | ClientError::Parameter(_) => Self::Invalid(message),
            ClientError::Model(_) | ClientError::Unreachable(_) | ClientError::Unavailable(_) => {
                Self::Unusable(message)
            }
        }
    }
}

/// A model that grades.
#[derive(Clone)]
pub struct Judge {
    client: Arc<dyn Client>,
    model: String,
    common: Arc<RequestOptions>,
}

/// The most characters of a reply that are stored.
const LONGEST_REPLY: usize = 1 << 16;

impl Judge {
    /// Connects to the judge and checks its health. If `spec` has no model, uses the only model of the server and stores its
    /// name in `spec`.
    pub async fn open(spec: &mut JudgeSpec) -> Result<Self, JudgeError> {
        if spec.model.is_empty() {
            let nameless = open_client(spec)?;
            let only = ergometer_clients::only_model(&*nameless, "judge-model").await;
            let _ = nameless.close().await;
            spec.model = only?;
        }
        Self::admit(open_client(spec)?, &spec.model).await
    }

    /// Uses an existing client, and closes it on an error.
    pub async fn admit(client: Box<dyn Client>, model: &str) -> Result<Self, JudgeError> {
        // Grade reproducibly, as far as the server can.
        let parameters = Map::from_iter([(String::from("temperature"), Value::from(0))]);
        let common = RequestOptions {
            system_prompt: Some(String::from(SYSTEM)),
            max_tokens: Some(MAX_TOKENS),
            ignore_eos: false,
            parameters,
            seed: 0,
        };
        let ready = async {
            client.health().await?;
            client.prepare(&common).await
        };
        if let Err(error) = ready.await {
            let _ = client.close().await;
            return Err(error.into());
        }
        Ok(Self { client: Arc::from(client), model: model.to_owned(), common: Arc::new(common) })
    }

    /// Its model.
    #[must_use]
    pub fn model(&self) -> &str {
        &self.model
    }

    /// Judges an answer. Retries transient failures.
    pub(super) async fn judge(&self, exchange: &Exchange, retries: Retries) -> Result<Judgement, RequestError> {
        let problem = question(&exchange.query, &exchange.transcript.text);
        let request = Request {
            id: None,
            index: exchange.query.index,
            earlier: &[],
            problem: &problem,
            output_tokens: None,
            common: &self.common,
        };
        let clock = Clock::start();
        let mut attempt = 1;
        loop {
            let mut transcript = Transcript::default();
            match self.client.stream(&request, &clock, &mut transcript).await {
                Ok(()) => return Ok(self.judgement(exchange, transcript.text)),
                Err(error) => {
                    let wait = retries.wait(attempt, error.retry_after, fastrand::f64());
                    let Some(wait) = wait.filter(|_| error.kind.is_transient()) else { return Err(error) };
                    tokio::time::sleep(wait).await;
                    attempt += 1;
                }
            }
        }
    }

    fn judgement(&self, exchange: &Exchange, mut reply: String) -> Judgement {
        let correct = verdict(&reply).map(|verdict| verdict == Verdict::Correct);
        // Truncate the reply of a judge that does not stop. The mark lets the start of a secret be found and redacted.
        if let Some((end, _)) = reply.char_indices().nth(LONGEST_REPLY) {
            reply.truncate(end);
            reply.push('…');
        }
        Judgement { request: exchange.request, session: exchange.session, judge: self.model.clone(), correct, reply }
    }

    /// Values that must not appear in any file.
    pub(super) fn secrets(&self) -> Secrets {
        self.client.secrets()
    }

    /// Closes its client.
    pub async fn close(&self) {
        let _ = self.client.close().await;
    }
}

fn open_client(spec: &JudgeSpec) -> Result<Box<dyn Client>, JudgeError> {
    let mut client = ClientSpec {
        id: String::from("openai"),
        model: spec.model.clone(),
        base_url: Some(spec.base_url.clone()),
        ..ClientSpec::default()
    };
    client.network.api_key_env.clone_from(&spec.api_key_env);
    client.network.ca.clone_from(&spec.ca);
    client.network.insecure = spec.insecure;
    Ok(ergometer_clients::open(&client)?)
}

#[cfg(test)]
mod tests {
    use ergometer_diagnostics::CommandLine;

    use super::*;

    fn spec(base_url: &str, api_key_env: Option<&str>) -> JudgeSpec {
        let api_key_env = api_key_env.map(str::to_owned);
        JudgeSpec { base_url: base_url.to_owned(), model: String::from("m"), api_key_env, ..JudgeSpec::default() }
    }

    async fn refused(mut spec: JudgeSpec) -> JudgeError {
        Judge::open(&mut spec).await.err().unwrap()
    }

    #[tokio::test]
    async fn errors_name_the_options_of_the_judge() {
        let error = refused(spec("http://localhost:1", Some("ERGOMETER_NO_SUCH_KEY"))).await;
        assert!(matches!(error, JudgeError::Invalid(_)), "{error:?}");
        let error = error.one_line(&CommandLine);
        assert!(error.contains("is unset") && error.contains("with --judge-api-key-env"), "{error}");
        // PATH is set wherever tests run.
        let error = refused(spec("http://judge.example", Some("PATH"))).await.one_line(&CommandLine);
        assert!(error.contains("the judge cannot be used") && error.contains("over plain HTTP"), "{error}");
        // A port without a listener: it was free a moment ago.
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let error = refused(spec(&format!("http://127.0.0.1:{port}"), None)).await;
        assert!(matches!(error, JudgeError::Unusable(_)), "{error:?}");
        let error = error.one_line(&CommandLine);
        assert!(error.contains("cannot reach the judge: no server answers"), "{error}");
        assert!(error.contains("is running; --judge takes"), "{error}");
    }
}
