//! The settings of a monitor, and the checks of their ranges.

use std::path::PathBuf;
use std::time::Duration;

use ergometer_diagnostics::{Diagnostic, Hint, flag, hint, option};

use crate::ui::LONGEST_SPAN;

/// The shortest interval: a terminal flickers below it, and no sensor updates faster.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(10);

/// The shortest time that a graph can show.
const SHORTEST_SPAN: Duration = Duration::from_secs(1);

/// The settings of a monitor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The time between two ticks or refreshes.
    pub interval: Duration,
    /// Stop after this time; `None` runs until interrupted.
    pub duration: Option<Duration>,
    /// How far back graphs reach at first.
    pub history: Duration,
    /// Record every reading to this file.
    pub record: Option<PathBuf>,
    /// Whether to list processes. A recording has none.
    pub processes: bool,
    /// How to divide the CPU's energy among processes.
    pub split: Option<Split>,
}

/// A rule that divides the energy of the CPU among processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Split {
    /// In proportion to the CPU time of each process.
    CpuTime,
}

impl Default for Config {
    /// One tick a second until interrupted, with graphs of one minute.
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(1),
            duration: None,
            history: Duration::from_secs(60),
            record: None,
            processes: false,
            split: None,
        }
    }
}

impl Config {
    /// Checks that every setting is in its range.
    pub fn check(&self) -> Result<(), ConfigError> {
        if self.interval < SHORTEST_INTERVAL {
            return Err(ConfigError::ShortInterval);
        }
        if self.duration.is_some_and(|duration| duration.is_zero()) {
            return Err(ConfigError::NoDuration);
        }
        if !(SHORTEST_SPAN..=LONGEST_SPAN).contains(&self.history) {
            return Err(ConfigError::HistoryOutOfRange);
        }
        Ok(())
    }
}

/// A setting is out of range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The interval is below 10 ms.
    #[error("the interval is shorter than 10 ms")]
    ShortInterval,
    /// The duration is zero.
    #[error("the duration is zero")]
    NoDuration,
    /// The history is shorter than a second or longer than an hour.
    #[error("the history of graphs is not between 1 second and 1 hour")]
    HistoryOutOfRange,
}

impl Diagnostic for ConfigError {
    fn hint(&self) -> Option<Hint> {
        Some(match self {
            Self::ShortInterval => hint!("use ", option("interval").value("10ms"), " or longer"),
            Self::NoDuration => {
                hint!("use ", option("duration").value("10s"), ", or ", flag("once"), " for one frame")
            }
            Self::HistoryOutOfRange => hint!("set ", option("history"), " to a time from 1s to 1h"),
        })
    }
}

#[cfg(test)]
mod tests {
    use ergometer_diagnostics::CommandLine;

    use super::*;

    #[test]
    fn settings_out_of_range_name_the_option() {
        let config = |interval_ms, duration: Option<u64>, history_s| Config {
            interval: Duration::from_millis(interval_ms),
            duration: duration.map(Duration::from_secs),
            history: Duration::from_secs(history_s),
            ..Config::default()
        };
        assert_eq!(Config::default().check(), Ok(()));
        assert_eq!(config(10, Some(1), 3600).check(), Ok(()));
        let hint = |config: Config| config.check().unwrap_err().hint().unwrap().phrase(&CommandLine);
        assert_eq!(hint(config(9, None, 60)), "use --interval 10ms or longer");
        assert_eq!(hint(config(10, Some(0), 60)), "use --duration 10s, or --once for one frame");
        assert_eq!(hint(config(10, None, 0)), "set --history to a time from 1s to 1h");
        assert_eq!(config(10, None, 3601).check(), Err(ConfigError::HistoryOutOfRange));
    }
}
