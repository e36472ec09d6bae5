//! A run as it goes: a line that is drawn over on a terminal, and one line now and then elsewhere.

use std::fmt::Write as _;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use ergometer::review::Reviewing;
use ergometer::run::{Notice, Observer, Progress};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::figures::{digits, significant, thousands};
use crate::screen::Screen;

/// Without a terminal, this often.
const LINE_EVERY: Duration = Duration::from_secs(10);

pub(super) struct Live {
    screen: Screen,
    bar: ProgressBar,
    line: Mutex<Instant>,
    has_terminal: bool,
}

impl Live {
    pub(super) fn new(screen: Screen) -> Self {
        let has_terminal = screen.draws();
        let target = if has_terminal { ProgressDrawTarget::stderr_with_hz(10) } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(None, target);
        Self { screen, bar, line: Mutex::new(Instant::now()), has_terminal }
    }
}

impl Live {
    /// Something to say above the line.
    pub(super) fn note(&self, message: &str) {
        self.bar.suspend(|| self.screen.note(message));
    }

    /// How far it is after the last request.
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

    /// Whether it is time for another line, where there is no terminal.
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
                        format!("idle   settling, then measured for {:.1} s", length.as_secs_f64())
                    }
                    _ => String::from("writing the run"),
                });
                self.bar.tick();
            }
            Notice::WarmupFailed(cause) => {
                self.bar.suspend(|| self.screen.warning(&format!("warm-up failed: {cause}")));
            }
            Notice::Reviewing(Reviewing::JudgeFailed(cause)) => {
                self.bar.suspend(|| self.screen.warning(&format!("an answer could not be judged: {cause}")));
            }
            Notice::Reviewing(Reviewing::Counting { done, total }) => self.reviewing("counting", done, total),
            Notice::Reviewing(Reviewing::Judging { done, total }) => self.reviewing("judging", done, total),
            Notice::Rested(watts, length) => self.bar.suspend(|| {
                let watts = digits(watts.get());
                self.screen.note(&format!("idle   {watts} W  measured for {:.1} s", length.as_secs_f64()));
            }),
            Notice::Sending => self.bar.reset(),
            Notice::Sent => self.bar.set_message(String::from("idle   after the last request")),
        }
    }

    fn progress(&self, progress: &Progress) {
        let text = figures(progress);
        if self.has_terminal {
            match progress.total {
                Some(total) => {
                    self.bar.set_style(bar());
                    self.bar.set_length(total);
                    self.bar.set_position(progress.done);
                }
                None => self.bar.set_style(plain()),
            }
            let text = if progress.total.is_some() {
                text
            } else {
                format!("query  {}  {text}", thousands(progress.done as f64))
            };
            self.bar.set_message(text);
            return;
        }
        if self.is_time() {
            let of = progress.total.map(|total| format!("/{total}")).unwrap_or_default();
            self.screen.note(&format!("query  {}{of}  {text}", progress.done));
        }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

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

fn bar() -> ProgressStyle {
    // The bar takes what the figures leave, so that the line fits and can be drawn over.
    ProgressStyle::with_template("query  {wide_bar} {pos}/{len}  {msg}")
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
    fn the_line_tells_rate_time_left_energy_and_failures() {
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
        assert_eq!((eta(90.0), eta(600.0), eta(7200.0)), ("90 s".into(), "10 min".into(), "2.0 h".into()));
    }
}
