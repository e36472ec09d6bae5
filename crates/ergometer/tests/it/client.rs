//! A scripted client, which records its calls.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use ergometer_clients::{
    ChunkKind, Client, ClientError, EarlierTurn, FailureKind, Locality, ModelFacts, Request, RequestError,
    RequestOptions, TokenSource, Transcript, Usage,
};
use ergometer_telemetry::Clock;
use tokio::sync::{Notify, Semaphore};

/// A step of the response to one request. After the last step the request completes.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    Say(&'static str),
    Wait(Duration),
    Fail(FailureKind, &'static str),
    /// Waits for a permit.
    Pass(Arc<Semaphore>),
    /// Waits forever.
    Hang,
    Panic,
}

/// An answer in two chunks, with a wait of this many milliseconds before each.
pub(crate) fn answer(text: &'static str, millis: u64) -> Vec<Step> {
    let (first, rest) = text.split_at(1);
    let wait = || Step::Wait(Duration::from_millis(millis));
    vec![wait(), Step::Say(first), wait(), Step::Say(rest)]
}

/// A call of the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Call {
    Health,
    Prepare,
    Stream(u64),
    Count(u64),
    Close,
}

/// The calls of a client, in order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Calls {
    list: Arc<Mutex<Vec<Call>>>,
    before: Arc<Mutex<BTreeMap<u64, Vec<EarlierTurn>>>>,
    more: Arc<Notify>,
}

impl Calls {
    fn add(&self, call: Call) {
        self.list.lock().unwrap().push(call);
        self.more.notify_waiters();
    }

    /// The earlier turns that were sent with a query.
    pub(crate) fn before(&self, index: u64) -> Vec<EarlierTurn> {
        self.before.lock().unwrap()[&index].clone()
    }

    pub(crate) fn all(&self) -> Vec<Call> {
        self.list.lock().unwrap().clone()
    }

    /// The queries that were sent, in order.
    pub(crate) fn sent(&self) -> Vec<u64> {
        let index = |call| if let Call::Stream(index) = call { Some(index) } else { None };
        self.all().into_iter().filter_map(index).collect()
    }

    /// The queries whose tokens were counted, in order.
    pub(crate) fn counted(&self) -> Vec<u64> {
        let index = |call| if let Call::Count(index) = call { Some(index) } else { None };
        self.all().into_iter().filter_map(index).collect()
    }

    pub(crate) fn closings(&self) -> usize {
        self.all().iter().filter(|&call| *call == Call::Close).count()
    }

    /// Waits until this many requests were sent.
    pub(crate) async fn sent_are(&self, count: usize) {
        loop {
            let more = self.more.notified();
            if self.sent().len() >= count {
                return;
            }
            let _ = tokio::time::timeout(Duration::from_millis(20), more).await;
        }
    }
}

/// The response to each query.
pub(crate) type Script = Box<dyn Fn(u64) -> Vec<Step> + Send + Sync>;

/// The token count of each query by the server's tokenizer.
pub(crate) type Counts = Box<dyn Fn(u64) -> Option<Usage> + Send + Sync>;

/// A scripted client.
pub(crate) struct Scripted {
    pub(crate) script: Script,
    pub(crate) calls: Calls,
    pub(crate) place: Locality,
    pub(crate) facts: ModelFacts,
    pub(crate) is_healthy: bool,
    pub(crate) has_model: bool,
    /// `None` if answers have their token counts.
    pub(crate) counts: Option<Counts>,
}

impl Scripted {
    pub(crate) fn new(script: impl Fn(u64) -> Vec<Step> + Send + Sync + 'static) -> Self {
        Self {
            script: Box::new(script),
            calls: Calls::default(),
            place: Locality::ThisMachine,
            facts: ModelFacts::default(),
            is_healthy: true,
            has_model: true,
            counts: None,
        }
    }

    /// Answers have no token counts, and the server's tokenizer returns these.
    pub(crate) fn counted_by(self, counts: impl Fn(u64) -> Option<Usage> + Send + Sync + 'static) -> Self {
        Self { counts: Some(Box::new(counts)), ..self }
    }

    pub(crate) fn calls(&self) -> Calls {
        self.calls.clone()
    }
}

#[async_trait]
impl Client for Scripted {
    fn id(&self) -> &'static str {
        "scripted"
    }

    fn locality(&self) -> Locality {
        self.place.clone()
    }

    async fn health(&self) -> Result<(), ClientError> {
        self.calls.add(Call::Health);
        if self.is_healthy { Ok(()) } else { Err(ClientError::Unavailable("the server is down".into())) }
    }

    async fn models(&self) -> Result<Vec<String>, ClientError> {
        Ok(vec![String::from("m")])
    }

    async fn prepare(&self, _: &RequestOptions) -> Result<ModelFacts, ClientError> {
        self.calls.add(Call::Prepare);
        if self.has_model { Ok(self.facts.clone()) } else { Err(ClientError::Model("no such model".into())) }
    }

    async fn stream(
        &self,
        request: &Request<'_>,
        clock: &Clock,
        transcript: &mut Transcript,
    ) -> Result<(), RequestError> {
        self.calls.before.lock().unwrap().insert(request.index, request.earlier.to_vec());
        self.calls.add(Call::Stream(request.index));
        for step in (self.script)(request.index) {
            match step {
                Step::Say(text) => transcript.push(clock.now(), ChunkKind::Content, text),
                Step::Wait(length) => tokio::time::sleep(length).await,
                Step::Fail(kind, cause) => return Err(RequestError::new(kind, cause)),
                Step::Pass(gate) => gate.acquire().await.unwrap().forget(),
                Step::Hang => std::future::pending().await,
                Step::Panic => panic!("the script says so"),
            }
        }
        let output = transcript.chunks.len() as u64;
        if self.counts.is_none() {
            transcript.usage = Some(Usage { input: 10, output, cached: None, source: TokenSource::Model });
        }
        transcript.finish = Some(String::from("stop"));
        Ok(())
    }

    async fn count(&self, request: &Request<'_>, _: &[&str]) -> Option<Usage> {
        self.calls.add(Call::Count(request.index));
        self.counts.as_ref().and_then(|counts| counts(request.index))
    }

    async fn close(&self) -> Result<(), ClientError> {
        self.calls.add(Call::Close);
        Ok(())
    }
}
