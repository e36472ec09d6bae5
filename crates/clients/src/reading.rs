//! The answer of a server is read as it comes, each read with its time, for as long as there is patience.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use ergometer_telemetry::Clock;
use ergometer_units::Timestamp;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::response::Parts;
use serde_json::{Value, json};
use tokio::time::{Instant, Sleep, sleep_until};

use super::http::{Answer, Connection, Target, Timeouts, status_error};
use super::{FailureKind, Request, RequestError, Transcript};

/// Once everything has been said, the connection gets this long to end well, so that it can be used again.
const DRAIN: Duration = Duration::from_millis(100);
/// Once the answer has its end, counts may follow for this long.
const AFTERWORD: Duration = Duration::from_secs(2);
/// An answer with more bytes has lost its way.
const LONGEST_ANSWER: u64 = 256 << 20;
/// So has one that says more: with all its escapes it must fit a line of the journal.
const LONGEST_TEXT: usize = 16 << 20;

/// What makes a transcript of the bytes of an answer.
pub(super) trait Reader: Send {
    /// Takes in bytes that arrived at this time.
    fn take(&mut self, bytes: &[u8], at: Timestamp, transcript: &mut Transcript) -> Result<(), RequestError>;

    /// How far the answer has come.
    fn progress(&self) -> Progress;

    /// No more bytes come; the last came at this time.
    fn finish(self, at: Timestamp, transcript: &mut Transcript) -> Result<(), RequestError>;
}

/// How far an answer has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// More must come.
    Going,
    /// The answer has its end; counts may follow.
    Ended,
    /// Nothing will follow.
    Done,
}

/// A request that is ready to be sent.
pub(super) struct Ready<'a> {
    pub(super) connection: &'a Connection,
    pub(super) target: &'a Target,
    pub(super) body: Vec<u8>,
    /// Its number in the run.
    pub(super) number: Option<u64>,
    pub(super) clock: &'a Clock,
}

impl Ready<'_> {
    /// Sends it and reads its answer to the end, with the reader for an answer of this content type. No secret that was sent
    /// is in what it says of a failure.
    pub(super) async fn exchange<R: Reader>(
        self,
        reader: impl FnOnce(Option<&str>) -> R,
        transcript: &mut Transcript,
    ) -> Result<(), RequestError> {
        let connection = self.connection;
        self.send(reader, transcript).await.map_err(|error| connection.without_secrets(error))
    }

    async fn send<R: Reader>(
        self,
        reader: impl FnOnce(Option<&str>) -> R,
        transcript: &mut Transcript,
    ) -> Result<(), RequestError> {
        let Self { connection, target, body, number, clock } = self;
        let sent = Instant::now();
        transcript.sent = Some(clock.at(sent.into()));
        let timer = pin!(sleep_until(sent + Timeouts::duration(connection.timeouts().first_token_s)));
        let mut patience = Patience { deadline: timer.deadline(), timer, timeouts: connection.timeouts() };
        let post = connection.post(target, body, number, &mut transcript.connection_use);
        let posted = patience.wait_for(post).await;
        // While it waited for a connection to be free it was our own queue that it stood in.
        if let Some(waited) = transcript.connection_use.and_then(|line| line.waited) {
            transcript.sent = Some(clock.at(sent.into()) + waited);
        }
        let mut answer = posted.ok_or_else(|| patience.gone(true))??;
        transcript.first_byte.get_or_insert(clock.at(answer.read_at()));
        let Parts { status, headers, .. } = &answer.head;
        if !status.is_success() {
            let (status, headers) = (*status, headers.clone());
            return Err(status_error(status, &headers, async move || answer.part().await.ok().flatten()).await);
        }
        if let Some(encoding) = headers.get(CONTENT_ENCODING).filter(|encoding| *encoding != "identity") {
            let cause = format!("the answer is compressed ({encoding:?}) though it was asked not to be");
            return Err(RequestError::new(FailureKind::Malformed, cause));
        }
        let reader = reader(headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()));
        patience.read(answer, reader, clock, transcript).await
    }
}

/// What is said to a model in a chat: the system prompt, the turns before, and what is asked now.
pub(super) fn messages(request: &Request<'_>) -> Value {
    let message = |role: &str, text: &str| json!({"role": role, "content": text});
    let system = request.common.system_prompt.as_deref().map(|text| message("system", text));
    let before = request.earlier.iter();
    let before = before.flat_map(|said| [message("user", &said.problem), message("assistant", &said.answer)]);
    Value::Array(system.into_iter().chain(before).chain([message("user", request.problem)]).collect())
}

/// How long a request may take for what. It has one timer, which is looked at only where nothing is there to be read.
struct Patience<'a> {
    timer: Pin<&'a mut Sleep>,
    deadline: Instant,
    timeouts: Timeouts,
}

impl Patience<'_> {
    /// Waits for something until the deadline; `None` where it has passed.
    async fn wait_for<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        let mut work = pin!(work);
        poll_fn(|cx| match work.as_mut().poll(cx) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending => self.poll_gone(cx).map(|()| None),
        })
        .await
    }

    /// The next part of an answer; `None` where the deadline has passed.
    async fn part(&mut self, answer: &mut Answer) -> Option<Result<Option<Bytes>, RequestError>> {
        poll_fn(|cx| match answer.poll_part(cx) {
            Poll::Ready(part) => Poll::Ready(Some(part)),
            Poll::Pending => self.poll_gone(cx).map(|()| None),
        })
        .await
    }

    /// Whether the deadline has passed. The timer follows it only where it must: set too early, it is set again when it rings.
    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.timer.deadline() > self.deadline {
            self.timer.as_mut().reset(self.deadline);
        }
        while self.timer.as_mut().poll(cx).is_ready() {
            if self.timer.deadline() >= self.deadline {
                return Poll::Ready(());
            }
            self.timer.as_mut().reset(self.deadline);
        }
        Poll::Pending
    }

    fn gone(&self, is_first: bool) -> RequestError {
        let Timeouts { first_token_s, between_tokens_s, .. } = self.timeouts;
        if is_first {
            RequestError::new(FailureKind::TimeoutFirstToken, format!("nothing was said within {first_token_s} s"))
        } else {
            RequestError::new(FailureKind::TimeoutBetweenTokens, format!("silent for {between_tokens_s} s"))
        }
    }

    /// Reads an answer to its end.
    async fn read<R: Reader>(
        &mut self,
        mut answer: Answer,
        mut reader: R,
        clock: &Clock,
        transcript: &mut Transcript,
    ) -> Result<(), RequestError> {
        let mut last = answer.read_at();
        let mut bytes_left = LONGEST_ANSWER;
        loop {
            match self.part(&mut answer).await {
                Some(Ok(Some(bytes))) => {
                    last = answer.read_at();
                    bytes_left = bytes_left.checked_sub(bytes.len() as u64).ok_or_else(|| {
                        let cause = format!("the answer is longer than {} MiB", LONGEST_ANSWER >> 20);
                        RequestError::new(FailureKind::Malformed, cause)
                    })?;
                    let before = (transcript.chunks.len(), reader.progress());
                    reader.take(&bytes, clock.at(last), transcript)?;
                    let after = (transcript.chunks.len(), reader.progress());
                    if transcript.text.len() + transcript.reasoning.len() + transcript.tool_calls.len() > LONGEST_TEXT {
                        let cause = format!("the answer says more than {} MiB", LONGEST_TEXT >> 20);
                        return Err(RequestError::new(FailureKind::Malformed, cause));
                    }
                    if after != before {
                        self.deadline = Instant::from_std(last) + self.wait_after(after.1);
                    }
                }
                Some(Ok(None)) => break,
                // What was said is whole; how the line went down does not matter.
                Some(Err(_)) | None if reader.progress() != Progress::Going => {
                    // To wait for the line to go down is our choice, not the answer's time.
                    transcript.ended = Some(clock.at(last));
                    break;
                }
                Some(Err(error)) => return Err(error),
                None => return Err(self.gone(transcript.chunks.is_empty())),
            }
        }
        reader.finish(clock.at(last), transcript)?;
        if transcript.chunks.is_empty() {
            return Err(RequestError::new(FailureKind::Empty, "the answer is empty"));
        }
        Ok(())
    }

    fn wait_after(&self, progress: Progress) -> Duration {
        match progress {
            Progress::Going => Timeouts::duration(self.timeouts.between_tokens_s),
            Progress::Ended => AFTERWORD,
            Progress::Done => DRAIN,
        }
    }
}

/// The beginning of what could not be understood, for a cause.
pub(super) fn excerpt(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(400)]);
    let mut short: String = text.chars().take(120).collect();
    if short.len() < text.len() || bytes.len() > 400 {
        short.push('…');
    }
    format!("`{}`", short.escape_debug())
}
