//! Plays a streamed answer: keeps the score's time, and writes all that is due in one call.
//!
//! What is due at the same time goes together, the head with the role and the last token with the end of the body, as
//! it does from a server whose steps end in several tokens. The time of each chunk is the time after its write.

use std::io;
use std::time::{Duration, Instant};

use tokio::io::{AsyncWrite, AsyncWriteExt};

use crate::frame::Frames;
use crate::generate::Player;
use crate::http;
use crate::reply::Next;
use crate::score::{End, Part, Score};
use crate::stats::Written;
use crate::truth::Served;

/// How many bytes are composed before they are written: a long answer that is due at once goes in pieces.
const MOST_AT_ONCE: usize = 64 * 1024;

impl Player<'_> {
    pub(crate) async fn stream(
        &self,
        score: &Score,
        started_ns: i64,
        writer: &mut (impl AsyncWrite + Unpin),
    ) -> io::Result<Next> {
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
        let mut frames = Frames::new(self.body(started_ns));
        let mut parts = Parts::of(score);
        let mut finishing = None;
        let mut has_status = false;
        loop {
            let now = start.elapsed();
            let mut written = Written::default();
            while let Some(part) = parts.next_due(now).filter(|_| bytes.len() < MOST_AT_ONCE) {
                frames.add(&mut bytes, part, || self.times(started_ns));
                written.add(part);
                parts.at += 1;
            }
            let is_over = parts.is_over(now);
            if is_over && score.end == End::Whole {
                bytes.extend_from_slice(http::LAST_CHUNK);
            }
            if score.end == End::Whole && (is_over || parts.are_past_tokens()) {
                finishing.get_or_insert_with(|| self.entry.finishing());
            }
            if !bytes.is_empty() {
                writer.write_all(&bytes).await?;
                bytes.clear();
                self.entry.wrote(self.shared.clock.now_ns(), written);
                if !has_status {
                    self.entry.status(200);
                    has_status = true;
                }
            }
            if is_over {
                break;
            }
            self.shared.timer.until(start + parts.next_time()).await;
        }
        match score.end {
            End::Whole => {
                self.entry.end(self.shared.clock.now_ns(), Served::Answered);
                Ok(Next::KeepAlive)
            }
            End::Stall => std::future::pending().await,
            End::Cut => Ok(self.broken(Next::Close)),
            End::Reset => Ok(self.broken(Next::Reset)),
        }
    }
}

/// The parts of a score, and how far they have been sent.
#[derive(Debug)]
struct Parts<'a> {
    score: &'a Score,
    at: usize,
    /// How many parts there are up to the last one with tokens.
    up_to_tokens: usize,
}

impl<'a> Parts<'a> {
    fn of(score: &'a Score) -> Self {
        let last = score.steps.iter().rposition(|step| matches!(step.part, Part::Tokens { .. }));
        Self { score, at: 0, up_to_tokens: last.map_or(0, |last| last + 1) }
    }

    /// The next part, where it is due by now.
    fn next_due(&self, now: Duration) -> Option<Part> {
        self.score.steps.get(self.at).filter(|step| step.due <= now).map(|step| step.part)
    }

    /// When the next part is due, or the end.
    fn next_time(&self) -> Duration {
        self.score.steps.get(self.at).map_or(self.score.end_due, |step| step.due)
    }

    /// Whether all parts have been taken and the end is due.
    fn is_over(&self, now: Duration) -> bool {
        self.at == self.score.steps.len() && self.score.end_due <= now
    }

    /// Whether something that comes after all tokens has been taken: a client may see the end in it.
    const fn are_past_tokens(&self) -> bool {
        self.at > self.up_to_tokens
    }
}
