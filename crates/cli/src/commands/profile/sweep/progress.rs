//! Prints the progress of a sweep: the current run, the cooldown, and the result of each run.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use ergometer::run::Observer;
use ergometer::sweep::{NoCooldown, SweepNotice, SweepObserver};
use ergometer_diagnostics::{Message, command, flag, hint};
use ergometer_runs::config::Schedule;
use ergometer_runs::sweep::{Cooldown, CooldownOutcome, IdleState, Sweep, label};

use super::super::live::Live;
use super::super::{head, show as run_show};
use super::show;
use super::warnings::Warnings;
use crate::arguments::SummaryFormat;
use crate::exit::Failure;
use crate::figures::digits;
use crate::screen::Screen;

/// Prints the progress of a sweep and collects the warnings of its runs.
pub(super) struct SweepView {
    screen: Screen,
    format: SummaryFormat,
    /// The view of the current run.
    live: Arc<Mutex<Weak<Live>>>,
    warnings: Warnings,
    /// Why the summary of a run could not be printed.
    unprinted: Option<Failure>,
}

impl SweepView {
    pub(super) fn new(screen: Screen, format: SummaryFormat, live: Arc<Mutex<Weak<Live>>>) -> Self {
        Self { screen, format, live, warnings: Warnings::default(), unprinted: None }
    }

    /// The warnings of all runs, and why something could not be printed.
    pub(super) fn finish(self) -> (Warnings, Option<Failure>) {
        (self.warnings, self.unprinted)
    }
}

impl SweepObserver for SweepView {
    fn notice(&mut self, notice: SweepNotice<'_>) {
        match notice {
            SweepNotice::Complete { point, run, summary } => self.warnings.stored((point, run), summary),
            SweepNotice::Prepared(prepared) => self.screen.note(&head::line(prepared)),
            SweepNotice::NoCooldown(reason) => self.screen.warning(&no_cooldown(&reason)),
            SweepNotice::Rest(rest) => self.screen.note(&format!("idle   {}, before the first run", rest_text(rest))),
            SweepNotice::CoolingDown { rest, limit } => {
                let limit = digits(limit.as_secs_f64());
                self.screen.note(&format!("cooldown  waiting for {}, up to {limit} s", rest_text(rest)));
            }
            SweepNotice::CooledDown(cooled) => self.screen.note(&cooldown_text(cooled)),
            SweepNotice::Starting { sweep, point, run } => self.screen.note(&heading(sweep, point, run)),
            SweepNotice::Closed { sweep, point, run, closed } => {
                self.warnings.closed((point, run), closed);
                if self.screen.is_verbose() && self.format == SummaryFormat::Table {
                    self.unprinted = run_show::print(closed, SummaryFormat::Table, self.screen).err();
                } else {
                    self.screen.note(&show::line(&sweep.points[point].runs[run]));
                }
            }
        }
    }

    fn run_observer(&mut self, schedule: Schedule) -> Arc<dyn Observer> {
        let live = Arc::new(Live::new(self.screen, schedule));
        *self.live.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(&live);
        live
    }
}

/// `point 2 of 4  ·  concurrency 4  ·  repeat 1 of 3`.
fn heading(sweep: &Sweep, point: usize, run: usize) -> String {
    let (points, repeats) = (sweep.points.len(), sweep.repeats);
    let number = if points > 1 { format!("point {} of {points}  ·  ", point + 1) } else { String::new() };
    let repeat = if repeats > 1 { format!("  ·  repeat {} of {repeats}", run + 1) } else { String::new() };
    format!("{number}{}{repeat}", label(&sweep.points[point].schedule))
}

fn no_cooldown(reason: &NoCooldown) -> Message {
    match reason {
        NoCooldown::ServerElsewhere { host } => Message::new(format!(
            "--cooldown has no effect: the server is on {host}, whose sensors cannot be read from this machine"
        ))
        .with_hint(hint!("pass ", flag("server-is-local"), " if the server is on this machine")),
        NoCooldown::NoSensor => {
            Message::new("--cooldown has no effect: no sensor on this machine measures temperature or power")
                .with_hint(hint!(command("doctor"), " lists the sensors that this machine could use"))
        }
    }
}

/// `cooldown  reached after 12.0 s: 41 °C, 78.20 W`.
fn cooldown_text(cooled: &Cooldown) -> String {
    let how = match cooled.ended {
        CooldownOutcome::Reached => "reached",
        CooldownOutcome::GivenUp => "given up",
        CooldownOutcome::Interrupted => "interrupted",
    };
    format!("cooldown  {how} after {:.1} s: {}", cooled.after_s, rest_text(&cooled.rest))
}

/// `41 °C, 78.20 W`; with several devices, each temperature has its name.
fn rest_text(rest: &IdleState) -> String {
    let is_one = rest.temperature_c.len() == 1;
    let degrees = rest
        .temperature_c
        .iter()
        .map(|(device, degrees)| if is_one { format!("{degrees:.0} °C") } else { format!("{device} {degrees:.0} °C") });
    let watts = rest.power_w.map(|watts| format!("{} W", digits(watts)));
    let parts: Vec<String> = degrees.chain(watts).collect();
    if parts.is_empty() { String::from("nothing measured") } else { parts.join(", ") }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use ergometer_telemetry::DeviceId;

    use super::*;

    #[test]
    fn a_cooldown_shows_its_outcome_temperature_and_power() {
        let mut rest = IdleState { temperature_c: BTreeMap::from([(DeviceId::gpu(0), 41.0)]), power_w: Some(78.2) };
        let cooled = |rest| Cooldown { ended: CooldownOutcome::Reached, after_s: 12.04, rest };
        assert_eq!(cooldown_text(&cooled(rest.clone())), "cooldown  reached after 12.0 s: 41 °C, 78.20 W");
        rest.temperature_c.insert(DeviceId::gpu(1), 44.0);
        assert_eq!(rest_text(&IdleState { power_w: None, ..rest }), "gpu:0 41 °C, gpu:1 44 °C");
        assert_eq!(rest_text(&IdleState::default()), "nothing measured");
    }
}
