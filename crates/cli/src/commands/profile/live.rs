//! Shows the progress of a run: a live line on a terminal, one line every 10 s elsewhere. Under load a second line
//! shows latency, throughput and power.

use std::fmt::Write as _;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use ergometer::review::ReviewProgress;
use ergometer::run::{Notice, Observer, Percentiles, Progress};
use ergometer_runs::EnergySource;
use ergometer_runs::config::Schedule;
use ergometer_units::{Seconds, Watts};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::figures::{digits, significant, thousands};
use crate::screen::Screen;

/// The interval of lines without a terminal.
const LINE_EVERY: Duration = Duration::from_secs(10);

pub(super) struct Live {
    screen: Screen,
    bar: ProgressBar,
    line: Mutex<Instant>,
    has_terminal: bool,
    /// Whether several requests may be in flight.
    is_load: bool,
}

impl Live {
    pub(super) fn new(screen: Screen, schedule: Schedule) -> Self {
        let has_terminal = screen.draws();
        let target = if has_terminal { ProgressDrawTarget::stderr_with_hz(10) } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(None, target);
        Self { screen, bar, line: Mutex::new(Instant::now()), has_terminal, is_load: schedule != Schedule::ONE }
    }
}

impl Live {
    /// Prints a message above the live line.
    pub(super) fn note(&self, message: &str) {
        self.bar.suspend(|| self.screen.note(message));
    }

    /// Shows the progress of counting or judging, after the last request.
    fn reviewing(&self, what: &str, done: u64, total: u64) {
        let text = format!("{what}  {done}/{total} answers");
        if self.has_terminal {
            self.bar.set_style(plain());
            self.bar.set_message(text);
            self.bar.tick();
        } else if self.is_time() {
            self.screen.note(&text);
        }
    }

    /// Whether it is time for another line without a terminal.
    fn is_time(&self) -> bool {
        let mut line = self.line.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let is_time = line.elapsed() >= LINE_EVERY;
        if is_time {
            *line = Instant::now();
        }
        is_time
    }
}

impl Observer for Live {
    fn notice(&self, notice: Notice<'_>) {
        match notice {
            Notice::Warming(_) | Notice::Resting(_) | Notice::Closing(_) => {
                self.bar.set_style(plain());
                self.bar.set_message(match notice {
                    Notice::Warming(1) => String::from("warm-up, 1 request"),
                    Notice::Warming(count) => format!("warm-up, {count} requests"),
                    Notice::Resting(length) => {
                        format!("idle   letting the machine settle, then measuring for {:.1} s", length.as_secs_f64())
                    }
                    _ => String::from("writing the run"),
                });
                self.bar.tick();
            }
            Notice::Calibrating(length) => self.note(&calibration(length)),
            Notice::CalibrationReused(run) => self.note(&format!("calibration  reused from {run}")),
            Notice::CalibrationFailed(cause) => {
                self.bar.suspend(|| self.screen.warning(&format!("a calibration request failed: {cause}")));
            }
            Notice::WarmupFailed(cause) => {
                self.bar.suspend(|| self.screen.warning(&format!("warm-up failed: {cause}")));
            }
            Notice::Reviewing(ReviewProgress::JudgeFailed(cause)) => {
                self.bar.suspend(|| self.screen.warning(&format!("an answer could not be judged: {cause}")));
            }
            Notice::Reviewing(ReviewProgress::Counting { done, total }) => self.reviewing("counting", done, total),
            Notice::Reviewing(ReviewProgress::Judging { done, total }) => self.reviewing("judging", done, total),
            Notice::Rested(watts, source, length) => {
                self.bar.suspend(|| self.screen.note(&idle(watts, source, length)));
            }
            Notice::Sending => self.bar.reset(),
            Notice::Sent => self.bar.set_message(String::from("idle   after the last request")),
        }
    }

    fn progress(&self, progress: &Progress) {
        let (text, load) = (figures(progress), self.is_load.then(|| load(progress)));
        if self.has_terminal {
            let prefix = match progress.total {
                Some(total) => {
                    self.bar.set_length(total);
                    self.bar.set_position(progress.done);
                    text
                }
                None => format!("query  {}  {text}", thousands(progress.done as f64)),
            };
            self.bar.set_style(bar(progress.total.is_some(), load.is_some()));
            self.bar.set_prefix(prefix);
            self.bar.set_message(load.unwrap_or_default());
            return;
        }
        if self.is_time() {
            let of = progress.total.map(|total| format!("/{total}")).unwrap_or_default();
            let load = load.map(|load| format!("   {load}")).unwrap_or_default();
            self.screen.note(&format!("query  {}{of}  {text}{load}", progress.done));
        }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// The calibration requests before the run.
fn calibration(length: Duration) -> String {
    format!("calibration  {} s at 1 and 4 in flight, not counted", length.as_secs_f64())
}

/// The idle power before the first request.
fn idle(watts: Watts, source: EnergySource, length: Duration) -> String {
    format!("idle   about {} W over {:.1} s, {source}", digits(watts.get()), length.as_secs_f64())
}

/// Rate, remaining time, energy and failures.
fn figures(progress: &Progress) -> String {
    let rate = progress.done_now as f64 / progress.elapsed.as_secs_f64();
    let mut text = if rate.is_finite() { format!("{}/s", digits(rate)) } else { String::from("-/s") };
    if let Some(total) = progress.total {
        let left = total.saturating_sub(progress.done) as f64 / rate;
        if left.is_finite() {
            let _ = write!(text, "  eta {}", eta(left));
        }
    }
    if let Some(joules) = progress.joules_per_query {
        let _ = write!(text, "   J/query {}", significant(joules.get()));
    }
    let _ = write!(text, "   failed {}", progress.failed);
    text
}

fn eta(seconds: f64) -> String {
    if seconds < 120.0 {
        format!("{seconds:.0} s")
    } else if seconds < 7200.0 {
        format!("{:.0} min", seconds / 60.0)
    } else {
        format!("{:.1} h", seconds / 3600.0)
    }
}

/// Latency, throughput, power and energy under load.
fn load(progress: &Progress) -> String {
    let mut text = format!("{} in flight", progress.in_flight);
    let mut percentiles = |name: &str, found: Option<Percentiles>| {
        if let Some(found) = found {
            let millis = |time: Seconds| digits(time.as_millis());
            let _ = write!(text, "   {name} {} ms p50 {} p99", millis(found.p50), millis(found.p99));
        }
    };
    percentiles("TTFT", progress.ttft);
    percentiles("ITL", progress.itl);
    let tokens = progress.output_tokens as f64 / progress.elapsed.as_secs_f64();
    if tokens.is_finite() && tokens > 0.0 {
        let _ = write!(text, "   {} tok/s", thousands(tokens));
    }
    if let Some(power) = progress.power {
        let _ = write!(text, "   {} W", digits(power.get()));
    }
    if let Some(joules) = progress.joules_per_token {
        let _ = write!(text, "   J/output token {}", significant(joules.get()));
    }
    text
}

/// The style of the progress bar. The bar takes the width that the figures leave.
fn bar(has_end: bool, has_load: bool) -> ProgressStyle {
    let first = if has_end { "query  {wide_bar} {pos}/{len}  {prefix}" } else { "{prefix}" };
    let second = if has_load { "\n       {wide_msg}" } else { "" };
    ProgressStyle::with_template(&format!("{first}{second}"))
        .map_or_else(|_| plain(), |style| style.progress_chars("━╸─"))
}

fn plain() -> ProgressStyle {
    ProgressStyle::with_template("{msg}").unwrap_or_else(|_| ProgressStyle::default_bar())
}

#[cfg(test)]
mod tests {
    use ergometer_units::Joules;

    use super::*;

    #[test]
    fn modelled_idle_power_is_not_called_measured() {
        let shown = |source| idle(Watts::new(7.321), source, Duration::from_secs(2));
        assert_eq!(shown(EnergySource::Modelled), "idle   about 7.321 W over 2.0 s, modelled");
        assert_eq!(shown(EnergySource::Measured), "idle   about 7.321 W over 2.0 s, measured");
    }

    #[test]
    fn calibration_is_shown_with_its_length() {
        assert_eq!(calibration(Duration::from_secs(6)), "calibration  6 s at 1 and 4 in flight, not counted");
        assert_eq!(calibration(Duration::from_millis(500)), "calibration  0.5 s at 1 and 4 in flight, not counted");
    }

    #[test]
    fn the_line_shows_rate_remaining_time_energy_and_failures() {
        let progress = Progress {
            done: 512,
            total: Some(600),
            done_now: 512,
            failed: 1,
            elapsed: Duration::from_secs(8),
            joules_per_query: Some(Joules::new(0.21)),
            ..Progress::default()
        };
        assert_eq!(figures(&progress), "64.00/s  eta 1 s   J/query 0.210   failed 1");
        assert_eq!(figures(&Progress::default()), "-/s   failed 0");
        assert_eq!(load(&Progress::default()), "0 in flight");
        let percentiles = |p50, p99| Some(Percentiles { p50: Seconds::new(p50), p99: Seconds::new(p99) });
        let loaded = Progress {
            in_flight: 64,
            output_tokens: 31_232,
            ttft: percentiles(0.021, 0.034),
            itl: percentiles(0.0051, 0.0079),
            power: Some(Watts::new(412.0)),
            joules_per_token: Some(Joules::new(0.12)),
            ..progress
        };
        assert_eq!(
            load(&loaded),
            "64 in flight   TTFT 21.00 ms p50 34.00 p99   ITL 5.100 ms p50 7.900 p99   3,904 tok/s   412.0 W   J/output token 0.120"
        );
        assert_eq!((eta(90.0), eta(600.0), eta(7200.0)), ("90 s".into(), "10 min".into(), "2.0 h".into()));
    }
}
