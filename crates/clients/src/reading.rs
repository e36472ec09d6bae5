//! Sends a request and reads its answer with the time of each read, until the answer ends or a timeout passes.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use ergometer_telemetry::Clock;
use ergometer_units::Timestamp;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::response::Parts;
use serde::{Deserialize as _, Deserializer};
use serde_json::{Value, json};
use tokio::task::coop::unconstrained;
use tokio::task::yield_now;
use tokio::time::{Instant, Sleep, sleep_until};

use super::http::{Answer, Connection, Target, Timeouts, status_error};
use super::{FailureKind, Request, RequestError, Transcript};

/// After the last content, the connection has this long to end cleanly, so that it can be reused.
const DRAIN: Duration = Duration::from_millis(100);
/// After the end of the answer, token counts may follow for this long.
const AFTERWORD: Duration = Duration::from_secs(2);
/// Maximum size of an answer in bytes.
const LONGEST_ANSWER: u64 = 256 << 20;
/// Maximum size of the text of an answer, which must fit a line of the journal even when escaped.
const LONGEST_TEXT: usize = 16 << 20;
/// The most parts of an answer that are read without a pause. One read may contain thousands of chunks of a byte, and a
/// timeout of the whole request or the end of the run is noticed only in a pause.
const MOST_IN_ROW: u32 = 64;

/// Parses the bytes of an answer into a transcript.
pub(super) trait Reader: Send {
    /// Parses bytes that arrived at this time.
    fn take(&mut self, bytes: &[u8], at: Timestamp, transcript: &mut Transcript) -> Result<(), RequestError>;

    /// How far the answer has come.
    fn progress(&self) -> Progress;

    /// Ends the answer. The last bytes arrived at this time.
    fn finish(self, at: Timestamp, transcript: &mut Transcript) -> Result<(), RequestError>;
}

/// How far an answer has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// More content must follow.
    Going,
    /// The answer has ended; token counts may follow.
    Ended,
    /// Nothing will follow.
    Done,
}

/// A request that is ready to be sent.
pub(super) struct Ready<'a> {
    pub(super) connection: &'a Connection,
    pub(super) target: &'a Target,
    pub(super) body: Vec<u8>,
    /// The request id.
    pub(super) id: Option<&'a str>,
    pub(super) clock: &'a Clock,
}

impl Ready<'_> {
    /// Sends the request and reads its answer with a reader for the content type of the answer. Failures have their
    /// secrets redacted.
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
        let Self { connection, target, body, id, clock } = self;
        let sent = Instant::now();
        transcript.sent = Some(clock.at(sent.into()));
        let timer = pin!(sleep_until(sent + Timeouts::duration(connection.timeouts().first_token_s)));
        let mut deadline = Deadline { at: timer.deadline(), timer, timeouts: connection.timeouts(), in_row: 0 };
        let header = id.and_then(|id| connection.request_id(id));
        transcript.request_id = id.filter(|_| header.is_some()).map(str::to_owned);
        let post = connection.post(target, body, header, &mut transcript.connection_use);
        let posted = deadline.wait_for(post).await;
        // Waiting for a free connection is time in our own queue, before the request is sent.
        if let Some(waited) = transcript.connection_use.and_then(|line| line.waited) {
            transcript.sent = Some(clock.at(sent.into()) + waited);
        }
        let mut answer = posted.ok_or_else(|| deadline.timeout_error(true))??;
        transcript.first_byte.get_or_insert(clock.at(answer.read_at()));
        let Parts { status, headers, .. } = &answer.head;
        if !status.is_success() {
            let (status, headers) = (*status, headers.clone());
            return Err(status_error(status, &headers, async move || answer.part().await.ok().flatten()).await);
        }
        if let Some(encoding) = headers.get(CONTENT_ENCODING).filter(|encoding| *encoding != "identity") {
            let cause =
                format!("the response is compressed ({encoding:?}), although the request did not accept compression");
            return Err(RequestError::new(FailureKind::Malformed, cause));
        }
        let reader = reader(headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()));
        deadline.read(answer, reader, clock, transcript).await
    }
}

/// The messages of a chat: the system prompt, the earlier turns and the problem.
pub(super) fn messages(request: &Request<'_>) -> Value {
    let message = |role: &str, text: &str| json!({"role": role, "content": text});
    let system = request.common.system_prompt.as_deref().map(|text| message("system", text));
    let earlier = request.earlier.iter();
    let earlier = earlier.flat_map(|turn| [message("user", &turn.problem), message("assistant", &turn.answer)]);
    Value::Array(system.into_iter().chain(earlier).chain([message("user", request.problem)]).collect())
}

/// The deadline of a request. It is checked when there is nothing to read, and after every read without content: bytes
/// that arrive without a pause never let the timer fire.
struct Deadline<'a> {
    timer: Pin<&'a mut Sleep>,
    at: Instant,
    timeouts: Timeouts,
    /// The parts read since the last pause.
    in_row: u32,
}

impl Deadline<'_> {
    /// Waits for a future until the deadline; `None` if the deadline has passed.
    async fn wait_for<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        let mut work = pin!(work);
        poll_fn(|cx| match work.as_mut().poll(cx) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending => self.poll_passed(cx).map(|()| None),
        })
        .await
    }

    /// The next part of an answer; `None` if the deadline has passed.
    async fn part(&mut self, answer: &mut Answer) -> Option<Result<Option<Bytes>, RequestError>> {
        if self.in_row >= MOST_IN_ROW {
            self.in_row = 0;
            yield_now().await;
        }
        poll_fn(|cx| match answer.poll_part(cx) {
            Poll::Ready(part) => {
                self.in_row += 1;
                Poll::Ready(Some(part))
            }
            Poll::Pending => {
                self.in_row = 0;
                self.poll_passed(cx).map(|()| None)
            }
        })
        .await
    }

    /// Whether the deadline has passed. A timer that is too early is reset only when it fires, which saves resets.
    fn poll_passed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.timer.deadline() > self.at {
            self.timer.as_mut().reset(self.at);
        }
        // Without budget a timer never fires, and an answer that always has something to read uses the budget up.
        while pin!(unconstrained(self.timer.as_mut())).poll(cx).is_ready() {
            if self.timer.deadline() >= self.at {
                return Poll::Ready(());
            }
            self.timer.as_mut().reset(self.at);
        }
        Poll::Pending
    }

    fn timeout_error(&self, is_first: bool) -> RequestError {
        let Timeouts { first_token_s, between_tokens_s, .. } = self.timeouts;
        if is_first {
            RequestError::new(FailureKind::TimeoutFirstToken, format!("no content within {first_token_s} s"))
        } else {
            RequestError::new(
                FailureKind::TimeoutBetweenTokens,
                format!("no further content within {between_tokens_s} s"),
            )
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
                        let cause = format!("the response body is longer than {} MiB", LONGEST_ANSWER >> 20);
                        RequestError::new(FailureKind::Malformed, cause)
                    })?;
                    let before = (transcript.chunks.len(), reader.progress());
                    reader.take(&bytes, clock.at(last), transcript)?;
                    let after = (transcript.chunks.len(), reader.progress());
                    if transcript.text.len() + transcript.reasoning.len() + transcript.tool_calls.len() > LONGEST_TEXT {
                        let cause = format!("the text of the answer is longer than {} MiB", LONGEST_TEXT >> 20);
                        return Err(RequestError::new(FailureKind::Malformed, cause));
                    }
                    if after != before {
                        self.at = Instant::from_std(last) + self.wait_after(after.1);
                    } else if Instant::from_std(last) >= self.at {
                        // Bytes without content do not put the deadline off, even if they arrive without a pause.
                        match after.1 {
                            Progress::Going => return Err(self.timeout_error(transcript.chunks.is_empty())),
                            Progress::Ended | Progress::Done => {
                                transcript.ended = Some(clock.at(last));
                                break;
                            }
                        }
                    }
                }
                Some(Ok(None)) => break,
                // The answer is complete, so the way the connection ended does not matter.
                Some(Err(_)) | None if reader.progress() != Progress::Going => {
                    // Waiting for the connection to close is not part of the answer.
                    transcript.ended = Some(clock.at(last));
                    break;
                }
                Some(Err(error)) => return Err(error),
                None => return Err(self.timeout_error(transcript.chunks.is_empty())),
            }
        }
        reader.finish(clock.at(last), transcript)?;
        if transcript.chunks.is_empty() && !transcript.has_text() {
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

/// Deserializes a count that an answer need not have; `None` if it is not a whole number.
pub(super) fn whole_number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    Ok(Value::deserialize(deserializer)?.as_u64())
}

/// The start of bytes that could not be parsed, for an error.
pub(super) fn excerpt(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(400)]);
    let mut short: String = text.chars().take(120).collect();
    if short.len() < text.len() || bytes.len() > 400 {
        short.push('…');
    }
    format!("`{}`", short.escape_debug())
}
