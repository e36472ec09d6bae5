//! Simulates sensors: converts a true power curve into the readings of a timeline.
//!
//! The curve is constant between breakpoints, so its energy over any window and the output of a low-pass or a boxcar at
//! any time are exact, without numerical integration.

use std::time::Duration;

use ergometer_telemetry::{Batch, Channel, DeviceId, Provenance, Reading, Scope, SensorInfo, Signal, Timeline};
use ergometer_units::{Seconds, Timestamp, Window};

use crate::random::Random;

/// The time zero of the simulation.
const EPOCH: Timestamp = Timestamp::from_nanos_since_epoch(1_794_730_772_123_456_789);

/// The time `offset` seconds into the simulation.
pub(crate) fn time(offset: f64) -> Timestamp {
    EPOCH + Seconds::new(offset)
}

/// The window between two times in seconds.
pub(crate) fn window(from: f64, to: f64) -> Window {
    Window::new(time(from), time(to)).unwrap()
}

/// The true power, starting at time zero.
#[derive(Debug, Clone, Default)]
pub(crate) struct Curve {
    /// For each piece: its start, its watts, and the joules before it.
    pieces: Vec<(f64, f64, f64)>,
    end: f64,
}

impl Curve {
    /// Appends a piece of this length and power.
    pub(crate) fn push(&mut self, seconds: f64, watts: f64) {
        let before = self.energy(self.end);
        self.pieces.push((self.end, watts, before));
        self.end += seconds;
    }

    pub(crate) fn end(&self) -> f64 {
        self.end
    }

    fn piece(&self, at: f64) -> usize {
        self.pieces.partition_point(|piece| piece.0 <= at).saturating_sub(1)
    }

    /// The joules from zero to `at`. Before zero and after the end, power is that of the first and the last piece.
    fn energy(&self, at: f64) -> f64 {
        self.pieces.get(self.piece(at)).map_or(0.0, |&(start, watts, before)| before + watts * (at - start))
    }

    /// The true energy of a window.
    pub(crate) fn joules(&self, from: f64, to: f64) -> f64 {
        self.energy(to) - self.energy(from)
    }

    /// The output of a sensor with this memory.
    fn output(&self, memory: Memory) -> SensorOutput<'_> {
        let mut level = self.pieces.first().map_or(0.0, |piece| piece.1);
        let levels = match memory {
            Memory::None | Memory::Boxcar(_) => Vec::new(),
            Memory::LowPass(tau) => {
                let ends = self.pieces.iter().skip(1).map(|piece| piece.0).chain([self.end]);
                let before = |(&(start, watts, _), end): (&(f64, f64, f64), f64)| {
                    let at_start = level;
                    level = watts + (level - watts) * (-(end - start) / tau).exp();
                    at_start
                };
                self.pieces.iter().zip(ends).map(before).collect()
            }
        };
        SensorOutput { curve: self, memory, levels }
    }
}

/// How a sensor smooths power over time; constants are in seconds.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Memory {
    None,
    LowPass(f64),
    Boxcar(f64),
}

struct SensorOutput<'a> {
    curve: &'a Curve,
    memory: Memory,
    /// The output of a low-pass at the start of each piece.
    levels: Vec<f64>,
}

impl SensorOutput<'_> {
    fn watts(&self, at: f64) -> f64 {
        let piece = self.curve.piece(at);
        let (start, watts, _) = self.curve.pieces[piece];
        match self.memory {
            Memory::None => watts,
            Memory::LowPass(tau) => watts + (self.levels[piece] - watts) * (-(at - start).max(0.0) / tau).exp(),
            Memory::Boxcar(width) => self.curve.joules(at - width, at) / width,
        }
    }

    /// The integral of [`watts`](Self::watts): for a low-pass, the input energy minus the energy it has yet to output.
    fn joules(&self, at: f64) -> f64 {
        match self.memory {
            Memory::None | Memory::Boxcar(_) => self.curve.energy(at),
            Memory::LowPass(tau) => self.curve.energy(at) - tau * (self.watts(at) - self.levels[0]),
        }
    }
}

/// Power samples with timestamps of the driver.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ring {
    pub(crate) memory: Memory,
    pub(crate) period: f64,
    pub(crate) lag: f64,
    /// Timestamps are late by up to this, in seconds.
    pub(crate) jitter: f64,
    /// This share of timestamps is another 10 ms late.
    pub(crate) late: f64,
    pub(crate) noise: f64,
}

impl Ring {
    pub(crate) fn readings(&self, curve: &Curve, random: &mut Random) -> Vec<Reading> {
        let output = curve.output(self.memory);
        let mut readings = Vec::new();
        let mut tick = random.between(0.0, self.period);
        while tick < curve.end() {
            let late = if random.chance(self.late) { 0.010 } else { 0.0 };
            let at = time(tick + random.between(0.0, self.jitter) + late);
            // NVML reports milliwatts.
            let watts = output.watts(tick - self.lag) + self.noise * random.normal();
            readings.push(Reading { channel: 0, after: at, at, value: (watts * 1e3).round().max(0.0) / 1e3 });
            tick += self.period;
        }
        readings
    }
}

/// An energy counter. With a boxcar memory it uses each mean for a whole period, and misses the rest of the period.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Counter {
    pub(crate) memory: Memory,
    pub(crate) period: f64,
    pub(crate) lag: f64,
    pub(crate) read: Read,
    /// The joules of one count.
    pub(crate) unit: f64,
}

/// How a counter is read.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Read {
    /// Continuously: each step is known to lie in an interval of a random length between these.
    EveryStep { shortest: f64, longest: f64 },
    /// At this interval, far longer than its period.
    Every { interval: f64 },
}

impl Counter {
    pub(crate) fn readings(&self, curve: &Curve, random: &mut Random) -> Vec<Reading> {
        let output = curve.output(self.memory);
        let mut readings = Vec::new();
        let phase = random.between(0.0, self.period);
        let interval = match self.read {
            Read::EveryStep { .. } => self.period,
            Read::Every { interval } => interval,
        };
        let mut counted = 0.0;
        let mut next = phase;
        while next < curve.end() {
            let (step, after, at) = match self.read {
                Read::EveryStep { shortest, longest } => {
                    let (bracket, share) = (random.between(shortest, longest), random.between(0.0, 1.0));
                    (next, next - bracket * share, next + bracket * (1.0 - share))
                }
                Read::Every { interval } => {
                    // A sleep ends a fraction of a millisecond late, sometimes a few milliseconds.
                    let late = if random.chance(0.05) { 0.1 * interval } else { 2e-4 };
                    let read = next + random.between(0.0, late);
                    let step = phase + ((read - phase) / self.period).floor() * self.period;
                    (step, read - 2e-5, read)
                }
            };
            counted = match self.memory {
                Memory::Boxcar(_) => counted + output.watts(step - self.lag) * interval,
                Memory::None | Memory::LowPass(_) => output.joules(step - self.lag),
            };
            // A counter does not start at zero: it counts since the driver was loaded.
            let joules = 1e5 + counted;
            let value = (joules / self.unit).floor() * self.unit;
            readings.push(Reading { channel: 0, after: time(after), at: time(at), value });
            next += interval;
        }
        readings
    }
}

/// The channel of simulated readings.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChannelSpec {
    pub(crate) device: DeviceId,
    pub(crate) scope: Scope,
    pub(crate) signal: Signal,
    pub(crate) provenance: Provenance,
    pub(crate) update_period: Option<f64>,
}

impl ChannelSpec {
    pub(crate) fn ring(device: DeviceId) -> Self {
        let (signal, provenance) = (Signal::PowerRing, Provenance::SampledPower);
        Self { device, scope: Scope::Device, signal, provenance, update_period: None }
    }

    pub(crate) fn counter(device: DeviceId, update_period: f64) -> Self {
        let (signal, provenance) = (Signal::Energy, Provenance::Counter);
        Self { device, scope: Scope::Device, signal, provenance, update_period: Some(update_period) }
    }

    pub(crate) fn with_scope(self, scope: Scope) -> Self {
        Self { scope, ..self }
    }
}

/// Adds a sensor with one channel and its readings to a timeline.
pub(crate) fn add(timeline: &mut Timeline, spec: ChannelSpec, readings: Vec<Reading>) {
    let ChannelSpec { device, scope, signal, provenance, update_period } = spec;
    let interval = Duration::from_millis(50);
    let info = SensorInfo { id: format!("{signal}:{device}"), name: "simulated".to_owned(), device, interval };
    let update_period = update_period.map(Seconds::new);
    let key = timeline.add_sensor(&info, &[Channel { device, scope, signal, provenance, update_period }]);
    timeline.append(key, &Batch { readings, events: Vec::new() });
}

/// The device of most tests.
pub(crate) const GPU: DeviceId = DeviceId::gpu(0);

/// A power ring like that of an H200.
pub(crate) const RING: Ring =
    Ring { memory: Memory::LowPass(0.012), period: 0.02, lag: 0.005, jitter: 0.001, late: 0.07, noise: 2.0 };

/// A counter that counts the true power.
pub(crate) const COUNTER: Counter = Counter {
    memory: Memory::None,
    period: 0.1,
    lag: 0.0,
    read: Read::EveryStep { shortest: 0.006, longest: 0.025 },
    unit: 1e-3,
};
