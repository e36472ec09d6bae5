//! The embedded client: the model runs in this process and streams its tokens.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use ergometer_diagnostics::{Diagnostic as _, Message, hint, option};
use ergometer_inference::{Conversation, Demo, EndOfSequence, Exchange, Finish, GenerateError, Model, Sampling};
use ergometer_telemetry::{Clock, DeviceKind};
use ergometer_units::{Seconds, Timestamp};
use serde_json::Value;
use tokio::sync::mpsc;

use super::registry::names;
use super::{
    Chunk, ChunkKind, Client, ClientError, ClientInfo, ClientSpec, FailureKind, Locality, ModelFacts, Request,
    RequestError, RequestOptions, TokenSource, Transcript, Usage,
};

const REQUEST_PARAMETERS: &[(&str, &str)] = &[
    ("temperature", "sampling temperature; 0 always chooses the most likely token [default: 0]"),
    ("top_p", "sample from the most likely tokens that together have this probability"),
    ("top_k", "sample from this many most likely tokens"),
    ("stop", "end the answer before this text; a JSON list for several texts"),
];

pub(super) const INFO: ClientInfo = ClientInfo {
    id: "embedded",
    description: "a Llama model in this process, on the CPU; the models tiny and small are built in",
    parameters: &[],
    request_parameters: REQUEST_PARAMETERS,
};

/// The embedded client.
pub(super) struct Embedded {
    spec: ClientSpec,
    model: Mutex<Option<Arc<Model>>>,
}

impl Embedded {
    pub(super) fn new(spec: &ClientSpec) -> Result<Self, ClientError> {
        if spec.base_url.is_some() || !spec.headers.is_empty() || spec.network.api_key_env.is_some() {
            let text = "the client `embedded` runs in this process and uses no address, headers or API key";
            let hint = hint!(
                "leave out ",
                option("base-url"),
                ", ",
                option("header"),
                " and ",
                option("api-key-env"),
                ", or choose another client with ",
                option("client")
            );
            return Err(ClientError::Parameter(Message::new(text).with_hint(hint)));
        }
        spec.check(&INFO)?;
        Ok(Self { spec: spec.clone(), model: Mutex::new(None) })
    }

    fn loaded(&self) -> Option<Arc<Model>> {
        self.model.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn load(spec: &ClientSpec) -> Result<Model, ClientError> {
        let name = &spec.model;
        match (name.as_str(), &spec.model_folder) {
            (_, Some(folder)) => Model::load(folder),
            ("tiny", None) => Model::demo(Demo::Tiny),
            ("small", None) => Model::demo(Demo::Small),
            _ => {
                let hint = hint!(
                    "the built-in models are tiny and small; for another Llama model, pass the path of its folder with ",
                    option("model")
                );
                return Err(ClientError::Model(Message::new(format!("no embedded model `{name}`")).with_hint(hint)));
            }
        }
        .map_err(|error| ClientError::Model(error.to_message()))
    }
}

#[async_trait]
impl Client for Embedded {
    fn id(&self) -> &'static str {
        "embedded"
    }

    fn locality(&self) -> Locality {
        Locality::ThisProcess
    }

    async fn health(&self) -> Result<(), ClientError> {
        Ok(())
    }

    async fn models(&self) -> Result<Vec<String>, ClientError> {
        Ok(["tiny", "small"].map(String::from).to_vec())
    }

    async fn prepare(&self, common: &RequestOptions) -> Result<ModelFacts, ClientError> {
        sampling(common, common.max_tokens, 0)?;
        let spec = self.spec.clone();
        let model = tokio::task::spawn_blocking(move || Self::load(&spec))
            .await
            .map_err(|error| ClientError::Model(Message::new(error.to_string())))??;
        let info = model.info();
        let facts = ModelFacts {
            parameters: Some(info.parameters),
            weight_bytes: Some(info.weight_bytes),
            context: Some(info.context as u64),
            fingerprint: Some(info.fingerprint.clone()),
            computes_on: Some(DeviceKind::Cpu),
        };
        *self.model.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(model));
        Ok(facts)
    }

    async fn stream(
        &self,
        request: &Request<'_>,
        clock: &Clock,
        transcript: &mut Transcript,
    ) -> Result<(), RequestError> {
        let rejected = |cause: String| RequestError::new(FailureKind::Rejected, cause);
        let model = self.loaded().ok_or_else(|| rejected(String::from("the model is not loaded")))?;
        let sampling = sampling(request.common, request.max_tokens(), request.index)
            .map_err(|error| RequestError { hint: error.hint(), ..rejected(error.to_string()) })?;
        let (system, problem) = (request.common.system_prompt.clone(), request.problem.to_owned());
        let earlier = request.earlier.to_vec();
        let anchor = Anchor { clock: clock.now(), instant: std::time::Instant::now() };
        let (sender, mut receiver) = mpsc::unbounded_channel::<(Timestamp, String)>();
        let work = tokio::task::spawn_blocking(move || {
            let started = thread_time();
            let before: Vec<Exchange<'_>> =
                earlier.iter().map(|turn| Exchange { user: &turn.problem, assistant: &turn.answer }).collect();
            let conversation = Conversation { system: system.as_deref(), before: &before, user: &problem };
            let prompt = model.encode_conversation(&conversation)?;
            // The receiver is dropped when the request is cancelled.
            let goes_on = || !sender.is_closed();
            let generated = model.generate_while(&prompt, &sampling, &goes_on, &mut |piece| match sender
                .send((anchor.now(), piece.to_owned()))
            {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            })?;
            // With several threads, the CPU time of this one is not the whole CPU time.
            let ended = thread_time().filter(|_| !model.info().is_parallel);
            let processor_time = started.zip(ended).map(|(started, ended)| ended - started);
            Ok::<_, GenerateError>((generated, processor_time))
        });
        while let Some((at, piece)) = receiver.recv().await {
            // The model counts tokens without text, so they are token events, too.
            let kind = if piece.is_empty() { ChunkKind::Silent } else { ChunkKind::Content };
            transcript.push_event(Chunk { at, kind, choice: 0 });
            transcript.append(kind, &piece);
        }
        let broken = |cause: String| RequestError::new(FailureKind::MidStream, cause);
        let (generated, processor_time) = match work.await {
            Ok(Ok(done)) => done,
            Ok(Err(error)) => return Err(RequestError { hint: error.hint(), ..rejected(error.to_string()) }),
            Err(error) => return Err(broken(error.to_string())),
        };
        transcript.usage = Some(Usage {
            input: generated.input_tokens as u64,
            output: generated.output_tokens as u64,
            cached: None,
            source: TokenSource::Model,
        });
        transcript.processor_time = processor_time;
        transcript.finish = Some(String::from(match generated.finish {
            Finish::Stop => "stop",
            Finish::Length => "length",
            Finish::Cancelled => "cancelled",
        }));
        Ok(())
    }

    async fn close(&self) -> Result<(), ClientError> {
        self.model.lock().unwrap_or_else(PoisonError::into_inner).take();
        Ok(())
    }
}

/// The run's clock on another thread, which cannot borrow it.
#[derive(Debug, Clone, Copy)]
struct Anchor {
    clock: Timestamp,
    instant: std::time::Instant,
}

impl Anchor {
    fn now(self) -> Timestamp {
        self.clock + Seconds::from_nanos(i64::try_from(self.instant.elapsed().as_nanos()).unwrap_or(i64::MAX))
    }
}

/// The processor time of the calling thread so far.
fn thread_time() -> Option<Seconds> {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Some(Seconds::from_nanos(time.tv_sec.checked_mul(1_000_000_000)?.checked_add(time.tv_nsec)?))
}

/// The sampling options of a request. Its seed depends only on its query, so that the order of requests does not change
/// the answers.
fn sampling(common: &RequestOptions, max_tokens: Option<u64>, index: u64) -> Result<Sampling, ClientError> {
    let mut sampling =
        Sampling { seed: common.seed ^ index.wrapping_mul(0x9e37_79b9_7f4a_7c15), ..Sampling::default() };
    sampling.end_of_sequence = if common.ignore_eos { EndOfSequence::Ignore } else { EndOfSequence::Stop };
    sampling.max_tokens = max_tokens.map(|tokens| usize::try_from(tokens).unwrap_or(usize::MAX));
    for (name, value) in &common.parameters {
        let wrong = |wanted: &str| {
            let text = format!("the request parameter {name} is {value}, but must be {wanted}");
            ClientError::Parameter(Message::new(text))
        };
        let number = |range: std::ops::RangeInclusive<f64>, wanted: &str| {
            value.as_f64().filter(|number| range.contains(number)).ok_or_else(|| wrong(wanted))
        };
        match name.as_str() {
            "temperature" => {
                #[expect(clippy::cast_possible_truncation, reason = "a temperature of at most 100")]
                let temperature = number(0.0..=100.0, "a number from 0 to 100")? as f32;
                sampling.temperature = temperature;
            }
            "top_p" => {
                #[expect(clippy::cast_possible_truncation, reason = "a share of at most 1")]
                let share = number(f64::MIN_POSITIVE..=1.0, "a number above 0 and up to 1")? as f32;
                sampling.top_p = Some(share);
            }
            "top_k" => {
                let count = value.as_u64().filter(|&count| count > 0).and_then(|count| usize::try_from(count).ok());
                sampling.top_k = Some(count.ok_or_else(|| wrong("a whole number above 0"))?);
            }
            "stop" => {
                sampling.stop = match value {
                    Value::String(text) if !text.is_empty() => vec![text.clone()],
                    Value::Array(texts)
                        if texts.iter().all(|text| text.as_str().is_some_and(|text| !text.is_empty())) =>
                    {
                        texts.iter().filter_map(Value::as_str).map(String::from).collect()
                    }
                    _ => return Err(wrong("a text, or a list of texts")),
                };
            }
            _ => {
                let hint = hint!(
                    format!("its request parameters are {}; see also ", names(REQUEST_PARAMETERS)),
                    option("max-tokens"),
                    ", ",
                    option("seed"),
                    " and ",
                    option("system-prompt")
                );
                let text = format!("the client `embedded` has no request parameter `{name}`");
                return Err(ClientError::Parameter(Message::new(text).with_hint(hint)));
            }
        }
    }
    Ok(sampling)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_token_is_an_event() {
        let client = Embedded::new(&ClientSpec { model: String::from("tiny"), ..ClientSpec::default() }).unwrap();
        for ignore_eos in [false, true] {
            let common = RequestOptions { max_tokens: Some(48), ignore_eos, ..RequestOptions::default() };
            client.prepare(&common).await.unwrap();
            let mut silent = 0;
            for index in 0..4 {
                let problem = format!("What is {index} + {index}?");
                let request =
                    Request { id: None, index, earlier: &[], problem: &problem, output_tokens: None, common: &common };
                let mut transcript = Transcript::default();
                client.stream(&request, &Clock::start(), &mut transcript).await.unwrap();
                assert_eq!(transcript.chunks.len() as u64, transcript.usage.unwrap().output, "{transcript:?}");
                silent += transcript.chunks.iter().filter(|chunk| chunk.kind == ChunkKind::Silent).count();
            }
            assert!(silent > 0, "ignore_eos {ignore_eos}: no token without text");
        }
    }
}
