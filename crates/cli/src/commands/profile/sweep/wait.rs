//! The waits of a sweep: what the machine is like before the first run is learned, and between runs it is waited for.

use std::time::Duration;

use ergometer::config::Counted;
use ergometer::run::Prepared;
use ergometer::sweep::{CooledDown, Cooling, Rest, Sweep, Watch};
use ergometer_clients::Place;
use tokio::sync::watch;

use crate::figures::digits;
use crate::screen::Screen;

/// Who waits between runs.
pub(super) struct Cooler {
    screen: Screen,
    most: Duration,
    counted: Counted,
    /// Whether there is anything to wait for.
    is_warm: bool,
}

impl Cooler {
    pub(super) fn new(sweep: &Sweep, screen: Screen) -> Self {
        let most = Duration::try_from_secs_f64(sweep.cooldown_s).unwrap_or_default();
        let counted = Counted::parse(&sweep.config.devices).unwrap_or_default();
        // One that is gone on with may have been stopped a moment ago.
        let is_warm = sweep.points.iter().any(|point| !point.figures.is_empty());
        Self { screen, most, counted, is_warm }
    }

    /// Looks what the machine is like before the first run. Says once where nothing tells.
    pub(super) async fn learn(&self, sweep: &mut Sweep, prepared: &Prepared, stop: &watch::Receiver<bool>) {
        if self.most.is_zero() || sweep.rest.is_some() {
            return;
        }
        if let Place::Elsewhere { host } = prepared.place() {
            let why = format!("the server is on {host}, and what it is like there is not known here");
            self.screen
                .warning(&format!("{why}: --cooldown waits for nothing.  hint: --server-is-local, if it is here"));
            return;
        }
        let watch = Watch::of_this_machine(self.counted.clone()).await;
        let mut stop = stop.clone();
        let rest = tokio::select! {
            rest = watch.rest() => rest,
            _ = stop.wait_for(|&stopped| stopped) => return,
        };
        if rest.is_unknown() {
            let why = "nothing here measures temperature or power: --cooldown waits for nothing";
            self.screen.warning(&format!("{why}.  hint: `ergo doctor` says what could"));
            return;
        }
        self.screen.note(&format!("rest   {}, before the first run", shown(&rest)));
        sweep.rest = Some(rest);
    }

    /// A run was made.
    pub(super) fn has_worked(&mut self) {
        self.is_warm = true;
    }

    /// Waits until the machine is as it was; `None` where there is nothing to wait for.
    pub(super) async fn wait(&self, sweep: &Sweep, stop: &watch::Receiver<bool>) -> Option<CooledDown> {
        let rest = sweep.rest.as_ref().filter(|_| self.is_warm && !self.most.is_zero())?;
        let most = digits(self.most.as_secs_f64());
        self.screen.note(&format!("cooldown  waiting for {}, {most} s at most", shown(rest)));
        let watch = Watch::of_this_machine(self.counted.clone()).await;
        let cooled = watch.cool_down(rest, self.most, stop).await;
        self.screen.note(&ended(&cooled));
        Some(cooled)
    }
}

/// `cooldown  reached after 12.0 s: 41 °C, 78.20 W`.
fn ended(cooled: &CooledDown) -> String {
    let how = match cooled.ended {
        Cooling::Reached => "reached",
        Cooling::GivenUp => "given up",
        Cooling::Interrupted => "interrupted",
    };
    format!("cooldown  {how} after {:.1} s: {}", cooled.after_s, shown(&cooled.rest))
}

/// `41 °C, 78.20 W`; where several devices are warm, each with its name.
fn shown(rest: &Rest) -> String {
    let is_one = rest.temperature_c.len() == 1;
    let degrees = rest
        .temperature_c
        .iter()
        .map(|(device, degrees)| if is_one { format!("{degrees:.0} °C") } else { format!("{device} {degrees:.0} °C") });
    let watts = rest.power_w.map(|watts| format!("{} W", digits(watts)));
    let parts: Vec<String> = degrees.chain(watts).collect();
    if parts.is_empty() { String::from("nothing told") } else { parts.join(", ") }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use ergometer_telemetry::DeviceId;

    use super::*;

    #[test]
    fn a_wait_tells_how_it_ended_and_at_what() {
        let mut rest = Rest { temperature_c: BTreeMap::from([(DeviceId::gpu(0), 41.0)]), power_w: Some(78.2) };
        let cooled = |rest| CooledDown { ended: Cooling::Reached, after_s: 12.04, rest };
        assert_eq!(ended(&cooled(rest.clone())), "cooldown  reached after 12.0 s: 41 °C, 78.20 W");
        rest.temperature_c.insert(DeviceId::gpu(1), 44.0);
        assert_eq!(shown(&Rest { power_w: None, ..rest }), "gpu:0 41 °C, gpu:1 44 °C");
        assert_eq!(shown(&Rest::default()), "nothing told");
    }
}
