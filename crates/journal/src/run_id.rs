//! The id of a run, and the ids of its requests, which are sent to the server.

use std::fmt;

use super::Manifest;

/// The id of a run: when it was created, in hexadecimal nanoseconds since the epoch. A resumed run keeps its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunId(String);

impl Manifest {
    /// The id of the run.
    #[must_use]
    pub fn run_id(&self) -> RunId {
        RunId(format!("{:x}", self.created_ns))
    }
}

impl RunId {
    /// The id of the request with this number in the run.
    #[must_use]
    pub fn request(&self, number: u64) -> String {
        format!("ergometer-{self}-{number}")
    }

    /// The id of a warm-up request. Each session numbers its warm-up requests from 0.
    #[must_use]
    pub fn warmup(&self, number: u64) -> String {
        format!("ergometer-{self}-warmup-{number}")
    }

    /// The id of a calibration request.
    #[must_use]
    pub fn calibration(&self, number: u64) -> String {
        format!("ergometer-{self}-calibration-{number}")
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_requests_start_with_the_id_of_the_run() {
        let run = RunId(format!("{:x}", 1_794_730_772_000_000_001_i64));
        assert_eq!(run.request(7), "ergometer-18e82a20d485c801-7");
        assert_eq!(run.warmup(0), "ergometer-18e82a20d485c801-warmup-0");
        assert_eq!(run.calibration(3), "ergometer-18e82a20d485c801-calibration-3");
    }
}
