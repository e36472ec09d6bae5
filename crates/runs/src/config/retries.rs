//! Retries of failed requests and the wait before each.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The longest wait. A request is not retried if the server asks for a longer one.
pub const LONGEST_WAIT: Duration = Duration::from_secs(120);

/// How failed requests are retried.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Retries {
    /// The most retries of a request.
    pub most: u32,
    /// The wait before the first retry, in seconds. It doubles with each further retry.
    pub backoff_s: f64,
}

impl Default for Retries {
    fn default() -> Self {
        Self { most: 0, backoff_s: 0.5 }
    }
}

impl Retries {
    /// Whether retries are off.
    #[must_use]
    pub const fn is_off(&self) -> bool {
        self.most == 0
    }

    /// The wait after this attempt, from 1, failed; `None` if it is not retried. A wait that the server asks for takes
    /// precedence. Otherwise `jitter` (0 to 1) shortens the wait by up to half, so that requests that failed together
    /// are not retried together.
    #[must_use]
    pub fn wait(&self, attempt: u32, retry_after: Option<Duration>, jitter: f64) -> Option<Duration> {
        if attempt > self.most {
            return None;
        }
        if let Some(asked) = retry_after {
            return (asked <= LONGEST_WAIT).then_some(asked);
        }
        let doubled = self.backoff_s * 2_f64.powi(i32::try_from(attempt.saturating_sub(1)).unwrap_or(i32::MAX));
        let seconds = doubled.min(LONGEST_WAIT.as_secs_f64()) * (1.0 - jitter.clamp(0.0, 1.0) / 2.0);
        Some(Duration::try_from_secs_f64(seconds).unwrap_or(LONGEST_WAIT))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_unless_the_server_sets_one() {
        let retries = Retries { most: 40, backoff_s: 0.5 };
        let wait = |attempt, asked, jitter| retries.wait(attempt, asked, jitter).map(|wait| wait.as_secs_f64());
        assert_eq!([1, 2, 3].map(|attempt| wait(attempt, None, 0.0)), [Some(0.5), Some(1.0), Some(2.0)]);
        assert_eq!(wait(2, None, 1.0), Some(0.5));
        assert_eq!((wait(40, None, 0.0), wait(41, None, 0.0)), (Some(120.0), None));
        let asked = |seconds| Some(Duration::from_secs(seconds));
        assert_eq!((wait(1, asked(7), 0.9), wait(1, asked(3600), 0.0)), (Some(7.0), None));
        assert_eq!(Retries::default().wait(1, None, 0.0), None);
    }
}
