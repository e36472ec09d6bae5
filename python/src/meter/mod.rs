//! The meter of a Python process: samples sensors until it is stopped, and computes the energy of any window in that
//! time.
//!
//! No function waits with Python's global lock held. The sampling threads do not exist after a fork: `abandon` must be
//! called in the child process. It takes no lock and does not wait.

mod energy;
mod timeline;

use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread;
use std::time::Duration;

use ergometer_diagnostics::{Diagnostic, Hint, Keywords, Message};
use ergometer_sensors::{Selector, modelled::ModelPolicy};
use ergometer_telemetry::{Clock, EnergyMeter, Provenance, Sampler, Timeline};
use ergometer_units::{Seconds, Timestamp, Window};
use pyo3::prelude::*;

use crate::error::{MeterError, exception};
use crate::interruptible::interruptible;
use crate::table::Table;
pub(crate) use energy::Energy;

/// Interval between checks for signals while waiting.
const SIGNAL_CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Timeout for reading the buffers of all sensors. The slowest read measured takes 35 ms.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(500);

/// How much of the timeline before and after a window its power curve uses.
const BEFORE: Seconds = Seconds::new(10.0);
const AFTER: Seconds = Seconds::new(2.0);

/// Samples the sensors of this machine on background threads until it is stopped.
#[pyclass(frozen, module = "ergometer._native")]
pub(crate) struct Meter {
    clock: Arc<Clock>,
    devices: Vec<String>,
    has_energy: bool,
    state: RwLock<State>,
    abandoned: AtomicBool,
}

enum State {
    Running(Sampler),
    Stopped(Timeline),
}

/// Start and end of a window, in nanoseconds since the epoch.
type StartEnd = (i64, i64);

/// The energy of all devices together, and of each device.
type Energies = (Energy, Vec<Energy>);

impl Meter {
    /// Calls a function with all readings until now, after reading the buffers of the sensors: some sensors empty
    /// theirs only once a second.
    fn with_current_timeline<T>(&self, read: impl FnOnce(&Timeline) -> T) -> PyResult<T> {
        self.check()?;
        if let State::Running(sampler) = &*self.state.read().unwrap_or_else(PoisonError::into_inner) {
            // A sensor that does not answer in time has no newer readings; its windows have a note.
            let _ = sampler.drain(DRAIN_TIMEOUT);
        }
        self.with_timeline(read)
    }

    /// Calls a function with the readings so far. The function must be short.
    fn with_timeline<T>(&self, read: impl FnOnce(&Timeline) -> T) -> PyResult<T> {
        self.check()?;
        Ok(match &*self.state.read().unwrap_or_else(PoisonError::into_inner) {
            State::Running(sampler) => sampler.with_timeline(read),
            State::Stopped(timeline) => read(timeline),
        })
    }

    fn check(&self) -> PyResult<()> {
        if self.abandoned.load(Ordering::Acquire) {
            let message =
                Message::new("this meter was started before the process forked; it does not run in the child");
            return Err(exception::<MeterError>(&message.with_hint(Hint::text("start a meter after the fork"))));
        }
        Ok(())
    }

    /// The readings of a window and the ones next to it, or all readings.
    fn readings(&self, window: Option<Window>) -> PyResult<Timeline> {
        self.with_current_timeline(|timeline| window.map_or_else(|| timeline.clone(), |window| timeline.around(window)))
    }
}

#[pymethods]
impl Meter {
    #[new]
    #[pyo3(signature = (devices=None, *, model=true))]
    fn new(py: Python<'_>, devices: Option<Vec<String>>, model: bool) -> PyResult<Self> {
        let modelled = if model { ModelPolicy::WhereUnmeasured } else { ModelPolicy::Off };
        let all_sensors = interruptible(py, move || ergometer_sensors::probe_machine(modelled).sensors)?;
        let Ok(selectors) =
            devices.unwrap_or_default().iter().map(|name| name.parse()).collect::<Result<Vec<Selector>, _>>();
        let sensors =
            ergometer_sensors::select(all_sensors, &selectors).map_err(|error| exception::<MeterError>(&error))?;
        let has_energy = ergometer_sensors::have_energy(&sensors);
        let mut devices: Vec<_> = sensors.iter().map(|sensor| sensor.info().device).collect();
        devices.sort_unstable();
        devices.dedup();
        let clock = Arc::new(Clock::start());
        let sampler = Sampler::start(sensors, Arc::clone(&clock), None);
        Ok(Self {
            clock,
            devices: devices.iter().map(ToString::to_string).collect(),
            has_energy,
            state: RwLock::new(State::Running(sampler)),
            abandoned: AtomicBool::new(false),
        })
    }

    /// The devices it samples.
    #[getter]
    fn devices(&self) -> Vec<String> {
        self.devices.clone()
    }

    /// Whether any of its sensors has energy or power, measured or modelled.
    #[getter]
    fn has_energy(&self) -> bool {
        self.has_energy
    }

    /// Whether it is still sampling.
    #[getter]
    fn is_running(&self, py: Python<'_>) -> bool {
        py.detach(|| {
            !self.abandoned.load(Ordering::Acquire)
                && matches!(&*self.state.read().unwrap_or_else(PoisonError::into_inner), State::Running(_))
        })
    }

    /// The current time in nanoseconds since the epoch, by the clock used for all readings.
    fn now_ns(&self) -> i64 {
        self.clock.now().nanos_since_epoch()
    }

    /// Waits until this time of its clock.
    fn wait_until(&self, py: Python<'_>, time_ns: i64) -> PyResult<()> {
        loop {
            let left_ns = u64::try_from(time_ns.saturating_sub(self.now_ns())).unwrap_or(0);
            if left_ns == 0 {
                return Ok(());
            }
            py.detach(|| thread::sleep(SIGNAL_CHECK_INTERVAL.min(Duration::from_nanos(left_ns))));
            py.check_signals()?;
        }
    }

    /// Waits until each channel of energy or power has a reading, or until the timeout. Returns whether all have one.
    fn wait_for_readings(&self, py: Python<'_>, timeout_s: f64) -> PyResult<bool> {
        let deadline = self.clock.now() + Seconds::new(timeout_s);
        loop {
            let is_read = py.detach(|| {
                self.with_timeline(|timeline| {
                    let mut energy_channels =
                        timeline.channels().filter(|(_, channel)| channel.provenance != Provenance::Gauge);
                    energy_channels.all(|(id, _)| !timeline.column(id).is_empty())
                })
            })?;
            if is_read || self.clock.now() >= deadline {
                return Ok(is_read);
            }
            py.detach(|| thread::sleep(Duration::from_millis(5)));
            py.check_signals()?;
        }
    }

    /// The energy of a window: of all devices together, and of each device.
    #[pyo3(signature = (start_ns, end_ns, activity=Vec::new()))]
    fn energy(&self, py: Python<'_>, start_ns: i64, end_ns: i64, activity: Vec<StartEnd>) -> PyResult<Energies> {
        let mut energies = self.energies(py, vec![(start_ns, end_ns)], activity)?;
        energies.pop().ok_or_else(|| exception::<MeterError>("no window"))
    }

    /// The energy of several windows, from one power curve. `activity` lists other windows in which devices were used.
    #[pyo3(signature = (windows, activity=Vec::new()))]
    fn energies(&self, py: Python<'_>, windows: Vec<StartEnd>, activity: Vec<StartEnd>) -> PyResult<Vec<Energies>> {
        let windows: Vec<Window> = windows.into_iter().map(window).collect::<PyResult<_>>()?;
        let hull = |one: Window, other: Window| {
            Window::new(one.start().min(other.start()), one.end().max(other.end())).unwrap_or(one)
        };
        let Some(whole) = windows.iter().copied().reduce(hull) else { return Ok(Vec::new()) };
        let whole = Window::new(whole.start() - BEFORE, whole.end() + AFTER).unwrap_or(whole);
        let timeline = py.detach(|| self.readings(Some(whole)))?;
        let mut known = windows.clone();
        known.extend(
            activity
                .into_iter()
                .filter_map(|start_end| window(start_end).ok())
                .filter(|other| other.start() < whole.end() && other.end() > whole.start()),
        );
        interruptible(py, move || {
            let meter = EnergyMeter::new(&timeline, &known);
            windows.iter().map(|&window| Energy::from_window(&meter.energy(window))).collect()
        })
    }

    /// All readings, or those of a window, with the columns of a run's telemetry.
    #[pyo3(signature = (start_ns=None, end_ns=None))]
    fn timeline(&self, py: Python<'_>, start_ns: Option<i64>, end_ns: Option<i64>) -> PyResult<Table> {
        let requested = match (start_ns, end_ns) {
            (None, None) => None,
            (start, end) => Some(window((start.unwrap_or(i64::MIN), end.unwrap_or(i64::MAX)))?),
        };
        let timeline = py.detach(|| self.readings(requested))?;
        timeline::table(&timeline, requested)
    }

    /// The last reading of each channel, with the same columns.
    fn latest(&self, py: Python<'_>) -> PyResult<Table> {
        py.detach(|| self.with_current_timeline(timeline::latest))?
    }

    /// Warnings of the sensors, in a window or since the start.
    #[pyo3(signature = (start_ns=None, end_ns=None))]
    fn warnings(&self, py: Python<'_>, start_ns: Option<i64>, end_ns: Option<i64>) -> PyResult<Vec<String>> {
        let span = start_ns.unwrap_or(i64::MIN)..=end_ns.unwrap_or(i64::MAX);
        py.detach(|| {
            self.with_timeline(|timeline| {
                let events = timeline.events().iter().filter(|event| span.contains(&event.at_ns));
                events.map(|event| event.one_line(&Keywords)).collect()
            })
        })
    }

    /// Discards readings before a time, except the last one of each channel.
    fn forget_before(&self, py: Python<'_>, time_ns: i64) -> PyResult<()> {
        self.check()?;
        py.detach(|| {
            let time = Timestamp::from_nanos_since_epoch(time_ns);
            match &mut *self.state.write().unwrap_or_else(PoisonError::into_inner) {
                State::Running(sampler) => sampler.forget_before(time),
                State::Stopped(timeline) => timeline.forget_before(time),
            }
        });
        Ok(())
    }

    /// Reads every sensor once more and stops sampling. The readings stay.
    fn stop(&self, py: Python<'_>) -> PyResult<()> {
        self.check()?;
        py.detach(|| {
            let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
            if let State::Running(_) = &*state
                && let State::Running(sampler) = mem::replace(&mut *state, State::Stopped(Timeline::default()))
            {
                *state = State::Stopped(sampler.stop());
            }
        });
        Ok(())
    }

    /// Gives up the meter in a forked child process, without waiting.
    fn abandon(&self) {
        self.abandoned.store(true, Ordering::Release);
    }
}

/// Leaks the state of an abandoned meter: a thread that held one of its locks may not exist in this process.
impl Drop for Meter {
    fn drop(&mut self) {
        if *self.abandoned.get_mut() {
            mem::forget(mem::replace(&mut self.state, RwLock::new(State::Stopped(Timeline::default()))));
        }
    }
}

fn window((start_ns, end_ns): StartEnd) -> PyResult<Window> {
    let (start, end) = (Timestamp::from_nanos_since_epoch(start_ns), Timestamp::from_nanos_since_epoch(end_ns));
    Window::new(start, end).map_err(|error| exception::<MeterError>(&error.to_string()))
}
