//! The meter of a Python process: sensors are sampled from when it is made until it is stopped, and the energy of any
//! window of that time is told.
//!
//! Nothing here waits with Python's lock held. After a fork the threads that sample are not there: the child's meter is
//! to be abandoned, which touches no lock and waits for nobody.

mod energy;
mod timeline;

use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread;
use std::time::Duration;

use ergometer_sensors::{Selector, modelled::Modelled};
use ergometer_telemetry::{Clock, EnergyMeter, Provenance, Sampler, Timeline};
use ergometer_units::{Seconds, Timestamp, Window};
use pyo3::prelude::*;

use crate::error::MeterError;
use crate::interruptible::interruptible;
use crate::table::Table;
pub(crate) use energy::Energy;

/// How often signals are looked for while waiting.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// How long a sensor may take to hand out what it holds. The slowest read measured takes 35 ms.
const DRAIN_PATIENCE: Duration = Duration::from_millis(500);

/// How much of the timeline before a window its curve is made of, and how much after.
const BEFORE: Seconds = Seconds::new(10.0);
const AFTER: Seconds = Seconds::new(2.0);

/// Samples the sensors of this machine on threads of their own until it is stopped.
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

/// A window as Python gives it: from when to when, in nanoseconds since the epoch.
type Given = (i64, i64);

/// The energy of all devices together, and of each.
type Told = (Energy, Vec<Energy>);

impl Meter {
    /// Looks at what was read until now: sensors hand out first what they hold, as a power ring is emptied once a second
    /// only.
    fn look_now<T>(&self, look: impl FnOnce(&Timeline) -> T) -> PyResult<T> {
        self.check()?;
        if let State::Running(sampler) = &*self.state.read().unwrap_or_else(PoisonError::into_inner) {
            // One that does not answer has no more to say; its windows tell of it.
            let _ = sampler.drain(DRAIN_PATIENCE);
        }
        self.look(look)
    }

    /// Looks at what was read so far, briefly.
    fn look<T>(&self, look: impl FnOnce(&Timeline) -> T) -> PyResult<T> {
        self.check()?;
        Ok(match &*self.state.read().unwrap_or_else(PoisonError::into_inner) {
            State::Running(sampler) => sampler.with_timeline(look),
            State::Stopped(timeline) => look(timeline),
        })
    }

    fn check(&self) -> PyResult<()> {
        if self.abandoned.load(Ordering::Acquire) {
            return Err(MeterError::new_err(
                "this meter was started before the process forked and does not run in the child. \
                 hint: start another one after the fork",
            ));
        }
        Ok(())
    }

    /// The readings of a window and what frames it, or all.
    fn part(&self, window: Option<Window>) -> PyResult<Timeline> {
        self.look_now(|timeline| window.map_or_else(|| timeline.clone(), |window| timeline.around(window)))
    }
}

#[pymethods]
impl Meter {
    #[new]
    #[pyo3(signature = (devices=None, *, model=true))]
    fn new(py: Python<'_>, devices: Option<Vec<String>>, model: bool) -> PyResult<Self> {
        let modelled = if model { Modelled::WhereUnmeasured } else { Modelled::Off };
        let found = interruptible(py, move || ergometer_sensors::probe_machine(modelled).sensors)?;
        let Ok(asked) =
            devices.unwrap_or_default().iter().map(|name| name.parse()).collect::<Result<Vec<Selector>, _>>();
        let sensors =
            ergometer_sensors::select(found, &asked).map_err(|error| MeterError::new_err(error.to_string()))?;
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

    /// The devices it looks at.
    #[getter]
    fn devices(&self) -> Vec<String> {
        self.devices.clone()
    }

    /// Whether any of its sensors knows of energy or power, measured or modelled.
    #[getter]
    fn has_energy(&self) -> bool {
        self.has_energy
    }

    /// Whether it is sampling still.
    #[getter]
    fn is_running(&self, py: Python<'_>) -> bool {
        py.detach(|| {
            !self.abandoned.load(Ordering::Acquire)
                && matches!(&*self.state.read().unwrap_or_else(PoisonError::into_inner), State::Running(_))
        })
    }

    /// The time now, in nanoseconds since the epoch, by the clock that all readings are stamped with.
    fn now_ns(&self) -> i64 {
        self.clock.now().nanos_since_epoch()
    }

    /// Waits until its clock shows this time.
    fn wait_until(&self, py: Python<'_>, time_ns: i64) -> PyResult<()> {
        loop {
            let left_ns = u64::try_from(time_ns.saturating_sub(self.now_ns())).unwrap_or(0);
            if left_ns == 0 {
                return Ok(());
            }
            py.detach(|| thread::sleep(LOOK_EVERY.min(Duration::from_nanos(left_ns))));
            py.check_signals()?;
        }
    }

    /// Waits until each channel of energy or power was read once, or for the timeout. Says whether all were.
    fn wait_for_readings(&self, py: Python<'_>, timeout_s: f64) -> PyResult<bool> {
        let deadline = self.clock.now() + Seconds::new(timeout_s);
        loop {
            let is_read = py.detach(|| {
                self.look(|timeline| {
                    let mut metered =
                        timeline.channels().filter(|(_, channel)| channel.provenance != Provenance::Gauge);
                    metered.all(|(id, _)| !timeline.column(id).is_empty())
                })
            })?;
            if is_read || self.clock.now() >= deadline {
                return Ok(is_read);
            }
            py.detach(|| thread::sleep(Duration::from_millis(5)));
            py.check_signals()?;
        }
    }

    /// The energy of a window, of all devices together and of each.
    #[pyo3(signature = (start_ns, end_ns, activity=Vec::new()))]
    fn energy(&self, py: Python<'_>, start_ns: i64, end_ns: i64, activity: Vec<Given>) -> PyResult<Told> {
        let mut told = self.energies(py, vec![(start_ns, end_ns)], activity)?;
        told.pop().ok_or_else(|| MeterError::new_err("no window was asked for"))
    }

    /// The energy of several windows, by one curve. `activity` is what else is known to have run.
    #[pyo3(signature = (windows, activity=Vec::new()))]
    fn energies(&self, py: Python<'_>, windows: Vec<Given>, activity: Vec<Given>) -> PyResult<Vec<Told>> {
        let windows: Vec<Window> = windows.into_iter().map(window).collect::<PyResult<_>>()?;
        let hull = |one: Window, other: Window| {
            Window::new(one.start().min(other.start()), one.end().max(other.end())).unwrap_or(one)
        };
        let Some(whole) = windows.iter().copied().reduce(hull) else { return Ok(Vec::new()) };
        let whole = Window::new(whole.start() - BEFORE, whole.end() + AFTER).unwrap_or(whole);
        let timeline = py.detach(|| self.part(Some(whole)))?;
        let mut known = windows.clone();
        known.extend(
            activity
                .into_iter()
                .filter_map(|given| window(given).ok())
                .filter(|other| other.start() < whole.end() && other.end() > whole.start()),
        );
        interruptible(py, move || {
            let meter = EnergyMeter::new(&timeline, &known);
            windows.iter().map(|&window| Energy::of(&meter.energy(window))).collect()
        })
    }

    /// Every reading, or those of a window, with the columns of a run's telemetry.
    #[pyo3(signature = (start_ns=None, end_ns=None))]
    fn timeline(&self, py: Python<'_>, start_ns: Option<i64>, end_ns: Option<i64>) -> PyResult<Table> {
        let asked = match (start_ns, end_ns) {
            (None, None) => None,
            (start, end) => Some(window((start.unwrap_or(i64::MIN), end.unwrap_or(i64::MAX)))?),
        };
        let timeline = py.detach(|| self.part(asked))?;
        timeline::table(&timeline, asked)
    }

    /// The last reading of each channel, with the same columns.
    fn latest(&self, py: Python<'_>) -> PyResult<Table> {
        py.detach(|| self.look_now(timeline::latest))?
    }

    /// What happened to sensors that a number cannot say; in a window, or since it was started.
    #[pyo3(signature = (start_ns=None, end_ns=None))]
    fn warnings(&self, py: Python<'_>, start_ns: Option<i64>, end_ns: Option<i64>) -> PyResult<Vec<String>> {
        let span = start_ns.unwrap_or(i64::MIN)..=end_ns.unwrap_or(i64::MAX);
        py.detach(|| {
            self.look(|timeline| {
                let events = timeline.events().iter().filter(|event| span.contains(&event.at_ns));
                events.map(|event| event.message.clone()).collect()
            })
        })
    }

    /// Lets go of what was read before a time, but for the last reading of each channel.
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

    /// Reads every sensor once more and ends; what was read stays.
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

    /// Lets go of it in a child of a fork, without waiting for anything.
    fn abandon(&self) {
        self.abandoned.store(true, Ordering::Release);
    }
}

/// One that was abandoned is left as it is: a thread that held one of its locks may not be there.
impl Drop for Meter {
    fn drop(&mut self) {
        if *self.abandoned.get_mut() {
            mem::forget(mem::replace(&mut self.state, RwLock::new(State::Stopped(Timeline::default()))));
        }
    }
}

fn window((start_ns, end_ns): Given) -> PyResult<Window> {
    let (start, end) = (Timestamp::from_nanos_since_epoch(start_ns), Timestamp::from_nanos_since_epoch(end_ns));
    Window::new(start, end).map_err(|error| MeterError::new_err(error.to_string()))
}
