//! Sends a streamed answer on schedule, and writes everything that is due in one call.
//!
//! Parts that are due at the same time are written together: the head with the role, the last token with the end of the
//! body. The time of a chunk is the time when its write returned.

use std::io;
use std::time::{Duration, Instant};

use tokio::io::{AsyncWrite, AsyncWriteExt};

use crate::generate::Responder;
use crate::http;
use crate::reply::ConnectionAction;
use crate::schedule::{BodyEnd, Schedule, StreamPart};
use crate::stats::ChunkCount;
use crate::stream_encoder::StreamEncoder;
use crate::truth::RequestOutcome;

/// The size from which encoded bytes are written, so that a long answer that is due at once is split.
const MAX_WRITE_BYTES: usize = 64 * 1024;

impl Responder<'_> {
    pub(crate) async fn stream(
        &self,
        schedule: &Schedule,
        started_ns: i64,
        writer: &mut (impl AsyncWrite + Unpin),
    ) -> io::Result<ConnectionAction> {
        let start = Instant::now();
        let mut bytes = http::head(
            200,
            &[
                ("content-type", self.content_type()),
                ("cache-control", "no-cache"),
                ("transfer-encoding", "chunked"),
                ("x-request-id", self.id),
            ],
        );
        let mut encoder = StreamEncoder::new(self.body(started_ns));
        let mut cursor = StreamCursor::new(schedule);
        let mut finishing = None;
        let mut has_status = false;
        loop {
            let now = start.elapsed();
            let mut written = ChunkCount::default();
            while let Some(part) = cursor.next_due(now).filter(|_| bytes.len() < MAX_WRITE_BYTES) {
                encoder.add(&mut bytes, part, || self.times(started_ns));
                written.add(part);
                cursor.at += 1;
            }
            let is_over = cursor.is_over(now);
            if is_over && schedule.end == BodyEnd::Whole {
                bytes.extend_from_slice(http::LAST_CHUNK);
            }
            if schedule.end == BodyEnd::Whole && (is_over || cursor.are_past_tokens()) {
                finishing.get_or_insert_with(|| self.entry.finishing());
            }
            if !bytes.is_empty() {
                writer.write_all(&bytes).await?;
                bytes.clear();
                self.entry.record_write(self.state.clock.now_ns(), written);
                if !has_status {
                    self.entry.status(200);
                    has_status = true;
                }
            }
            if is_over {
                break;
            }
            self.state.timer.until(start + cursor.next_time()).await;
        }
        match schedule.end {
            BodyEnd::Whole => {
                self.entry.end(self.state.clock.now_ns(), RequestOutcome::Answered);
                Ok(ConnectionAction::KeepAlive)
            }
            BodyEnd::Stall => std::future::pending().await,
            BodyEnd::Cut => Ok(self.broken(ConnectionAction::Close)),
            BodyEnd::Reset => Ok(self.broken(ConnectionAction::Reset)),
        }
    }
}

/// The position in a schedule.
#[derive(Debug)]
struct StreamCursor<'a> {
    schedule: &'a Schedule,
    at: usize,
    /// The number of parts up to the last one with tokens.
    up_to_tokens: usize,
}

impl<'a> StreamCursor<'a> {
    fn new(schedule: &'a Schedule) -> Self {
        let last = schedule.steps.iter().rposition(|step| matches!(step.part, StreamPart::Tokens { .. }));
        Self { schedule, at: 0, up_to_tokens: last.map_or(0, |last| last + 1) }
    }

    /// The next part, if it is due.
    fn next_due(&self, now: Duration) -> Option<StreamPart> {
        self.schedule.steps.get(self.at).filter(|step| step.due <= now).map(|step| step.part)
    }

    /// When the next part or the end is due.
    fn next_time(&self) -> Duration {
        self.schedule.steps.get(self.at).map_or(self.schedule.end_due, |step| step.due)
    }

    /// Whether all parts have been sent and the end is due.
    fn is_over(&self, now: Duration) -> bool {
        self.at == self.schedule.steps.len() && self.schedule.end_due <= now
    }

    /// Whether a part after all tokens has been sent. A client may treat such a part as the end.
    const fn are_past_tokens(&self) -> bool {
        self.at > self.up_to_tokens
    }
}
