//! Waits between two runs until temperature and power are back to their values before the first run, or until a time
//! limit.
//!
//! A warm GPU draws more power for the same work and may clock lower, so a run would be affected by the run before it.
//! Modelled power does not depend on heat, so only measured power counts.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ergometer_runs::sweep::{Cooldown, CooldownOutcome, IdleState};
use ergometer_telemetry::{Clock, DeviceId, Sampler, Scope, Sensor, Signal, Timeline};
use ergometer_units::{Seconds, Window};
use tokio::sync::watch;

use crate::config::CountedDevices;
use crate::run::{Sensing, power};
use crate::stop::stopped;

/// How often the sensors are checked, and the time over which power is averaged.
const CHECK_PERIOD: Duration = Duration::from_secs(1);

/// The temperatures and the power of the counted devices over a window.
fn idle_state(timeline: &Timeline, counted: &CountedDevices, window: Window) -> IdleState {
    let temperature = |device: DeviceId| {
        let scopes = [Scope::Device, Scope::Package];
        let id = scopes.into_iter().find_map(|scope| timeline.find(device, scope, Signal::Temperature))?;
        Some((device, timeline.column(id).last()?.value))
    };
    let devices = timeline.devices().into_iter().filter(|&device| counted.counts(device));
    IdleState {
        temperature_c: devices.filter_map(temperature).collect(),
        power_w: power(timeline, counted, window).map(|(watts, _)| watts.get()),
    }
}

/// Reads sensors of temperature and power until it is dropped.
pub struct Watch {
    sampler: Sampler,
    clock: Arc<Clock>,
    counted: CountedDevices,
}

impl Watch {
    /// Reads the sensors of this machine for the counted devices.
    pub async fn open(counted: CountedDevices) -> Self {
        Self::start(Sensing::open_machine(false).await.sensors, counted)
    }

    /// Reads these sensors.
    #[must_use]
    pub fn start(sensors: Vec<Box<dyn Sensor>>, counted: CountedDevices) -> Self {
        let clock = Arc::new(Clock::start());
        Self { sampler: Sampler::start(sensors, Arc::clone(&clock), None), clock, counted }
    }

    /// The state of the machine, after one second of readings.
    pub async fn rest(&self) -> IdleState {
        tokio::time::sleep(CHECK_PERIOD).await;
        self.state()
    }

    /// Waits until the machine has cooled down to `rest`, the time limit is over, or the user stops.
    pub async fn cool_down(&self, rest: &IdleState, most: Duration, stop: &watch::Receiver<bool>) -> Cooldown {
        cool_down(rest, &Waiting { most, step: CHECK_PERIOD }, stop, || self.state()).await
    }

    fn state(&self) -> IdleState {
        let now = self.clock.now();
        let window = Window::between(now - Seconds::new(CHECK_PERIOD.as_secs_f64()), now);
        self.sampler.with_timeline(|timeline| idle_state(timeline, &self.counted, window))
    }
}

/// How long to wait, and how often to check.
struct Waiting {
    most: Duration,
    step: Duration,
}

async fn cool_down(
    rest: &IdleState,
    waiting: &Waiting,
    stop: &watch::Receiver<bool>,
    mut state: impl FnMut() -> IdleState,
) -> Cooldown {
    let began = Instant::now();
    let mut stop = stop.clone();
    loop {
        let left = waiting.most.saturating_sub(began.elapsed());
        let is_stopped = tokio::select! {
            () = tokio::time::sleep(waiting.step.min(left)) => false,
            () = stopped(&mut stop) => true,
        };
        let now = state();
        let ended = if is_stopped {
            CooldownOutcome::Interrupted
        } else if rest.is_back(&now) {
            CooldownOutcome::Reached
        } else if began.elapsed() >= waiting.most {
            CooldownOutcome::GivenUp
        } else {
            continue;
        };
        return Cooldown { ended, after_s: began.elapsed().as_secs_f64(), rest: now };
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn rest(degrees: f64, watts: f64) -> IdleState {
        IdleState { temperature_c: BTreeMap::from([(DeviceId::gpu(0), degrees)]), power_w: Some(watts) }
    }

    #[test]
    fn back_is_within_two_degrees_and_five_percent() {
        let cold = rest(40.0, 100.0);
        assert!(cold.is_back(&rest(42.0, 105.0)) && cold.is_back(&rest(30.0, 60.0)));
        assert!(!cold.is_back(&rest(43.0, 100.0)) && !cold.is_back(&rest(40.0, 106.0)));
        assert!(rest(40.0, 10.0).is_back(&rest(40.0, 12.0)), "5 % of 10 W is below the accuracy of a sensor");
        assert!(!cold.is_back(&IdleState { power_w: None, ..cold.clone() }), "a missing value does not count as back");
        assert!(!cold.is_back(&IdleState { temperature_c: BTreeMap::new(), ..cold.clone() }));
        let power_only = IdleState { power_w: Some(100.0), ..IdleState::default() };
        assert!(
            power_only.is_back(&rest(90.0, 100.0)) && IdleState::default().is_unknown() && !power_only.is_unknown()
        );
    }

    #[tokio::test]
    async fn cooldown_ends_when_cool_at_the_limit_or_when_stopped() {
        let (wish, stop) = watch::channel(false);
        let cold = rest(40.0, 100.0);
        let hour = Waiting { most: Duration::from_secs(3600), step: Duration::ZERO };
        let mut degrees = 50.0;
        let cooled = cool_down(&cold, &hour, &stop, || {
            degrees -= 1.0;
            rest(degrees, 100.0)
        });
        let cooled = cooled.await;
        assert_eq!((cooled.ended, cooled.rest), (CooldownOutcome::Reached, rest(42.0, 100.0)));
        let moment = Waiting { most: Duration::from_millis(1), step: Duration::ZERO };
        let given_up = cool_down(&cold, &moment, &stop, || rest(80.0, 300.0)).await;
        assert_eq!((given_up.ended, given_up.rest), (CooldownOutcome::GivenUp, rest(80.0, 300.0)));
        wish.send_replace(true);
        let hour = Waiting { step: hour.most, ..hour };
        assert_eq!(cool_down(&cold, &hour, &stop, || rest(80.0, 300.0)).await.ended, CooldownOutcome::Interrupted);
    }

    #[test]
    fn a_wait_is_stored_with_its_figures() {
        let cooled = Cooldown { ended: CooldownOutcome::GivenUp, after_s: 60.0, rest: rest(51.0, 120.0) };
        let text = serde_json::to_string(&cooled).unwrap();
        assert_eq!(text, r#"{"ended":"given_up","after_s":60.0,"temperature_c":{"gpu:0":51.0},"power_w":120.0}"#);
        assert_eq!(serde_json::from_str::<Cooldown>(&text).unwrap(), cooled);
    }
}
