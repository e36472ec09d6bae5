//! Stores all readings of a run, and computes gaps and statistics of any window.
//!
//! Nothing is downsampled or overwritten. Every column is sorted by time and contains only finite values; other
//! readings are rejected with an event.

mod column;
mod gaps;
mod spacing;
mod stats;

use std::ops::Range;

use ergometer_units::{Timestamp, Window};

use crate::{Batch, Channel, DeviceId, Event, EventKind, Provenance, Scope, SensorInfo, Signal};

pub use column::{Column, Point, Readings};
pub use stats::Stats;

/// One sensor of a [`Timeline`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SensorKey(usize);

/// One channel of a [`Timeline`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChannelId(usize);

impl SensorKey {
    /// The key of the first sensor.
    pub(crate) const FIRST: Self = Self(0);

    /// Its index among the sensors, in order of addition.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0
    }
}

impl ChannelId {
    /// Its index among the channels of all sensors, in order of addition.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0
    }
}

/// All readings and events of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Timeline {
    sensors: Vec<Source>,
    tracks: Vec<Track>,
    events: Vec<Event>,
}

#[derive(Debug, Clone, PartialEq)]
struct Source {
    info: SensorInfo,
    tracks: Range<usize>,
    rejected: u64,
}

#[derive(Debug, Clone, PartialEq)]
struct Track {
    channel: Channel,
    sensor: usize,
    column: Column,
}

impl Track {
    fn clone_empty(&self) -> Self {
        Self { channel: self.channel.clone(), sensor: self.sensor, column: Column::default() }
    }
}

impl Timeline {
    /// Adds a sensor and its channels.
    pub fn add_sensor(&mut self, info: &SensorInfo, channels: &[Channel]) -> SensorKey {
        let key = SensorKey(self.sensors.len());
        let first = self.tracks.len();
        self.tracks.extend(channels.iter().map(|channel| Track {
            channel: channel.clone(),
            sensor: key.0,
            column: Column::default(),
        }));
        self.sensors.push(Source { info: info.clone(), tracks: first..self.tracks.len(), rejected: 0 });
        key
    }

    /// Adds a batch of a sensor. Readings of unknown channels and values that are not finite are rejected, with an
    /// event for the first one of each sensor. A key of another timeline has no effect.
    pub fn append(&mut self, key: SensorKey, batch: &Batch) {
        let Some(source) = self.sensors.get_mut(key.0) else { return };
        let tracks = &mut self.tracks[source.tracks.clone()];
        for reading in &batch.readings {
            match tracks.get_mut(reading.channel) {
                Some(track) if reading.value.is_finite() => {
                    let at_ns = reading.at.nanos_since_epoch();
                    let early_ns = at_ns.saturating_sub(reading.after.nanos_since_epoch()).max(0);
                    track.column.push(at_ns, u32::try_from(early_ns).unwrap_or(u32::MAX), reading.value);
                }
                _ => {
                    if source.rejected == 0 {
                        let message = format!(
                            "{} sent an invalid reading ({} on channel {}); invalid readings are ignored",
                            source.info.id, reading.value, reading.channel
                        );
                        self.events.push(Event::new(reading.at, EventKind::ReadFailed, message));
                    }
                    source.rejected += 1;
                }
            }
        }
        self.events.extend_from_slice(&batch.events);
    }

    /// Adds an event.
    pub fn note(&mut self, event: Event) {
        self.events.push(event);
    }

    /// Sorts the readings of a recording.
    pub(crate) fn sort(&mut self) {
        self.tracks.iter_mut().for_each(|track| track.column.sort());
    }

    /// The column of a channel, for reading a recording.
    pub(crate) fn column_mut(&mut self, index: usize) -> Option<&mut Column> {
        self.tracks.get_mut(index).map(|track| &mut track.column)
    }

    /// The sensors, in the order in which they were added.
    #[must_use]
    pub fn sensors(&self) -> impl ExactSizeIterator<Item = (SensorKey, &SensorInfo)> {
        self.sensors.iter().enumerate().map(|(index, source)| (SensorKey(index), &source.info))
    }

    /// The channels of all sensors.
    #[must_use]
    pub fn channels(&self) -> impl ExactSizeIterator<Item = (ChannelId, &Channel)> {
        self.tracks.iter().enumerate().map(|(index, track)| (ChannelId(index), &track.channel))
    }

    /// The channels of one sensor, in the sensor's own order.
    pub fn channels_of(&self, key: SensorKey) -> impl Iterator<Item = (ChannelId, &Channel)> {
        let range = self.sensors.get(key.0).map_or(0..0, |source| source.tracks.clone());
        range.map(|index| (ChannelId(index), &self.tracks[index].channel))
    }

    /// The first channel of this device, scope and signal.
    #[must_use]
    pub fn find(&self, device: DeviceId, scope: Scope, signal: Signal) -> Option<ChannelId> {
        let wanted = |channel: &Channel| channel.device == device && channel.scope == scope && channel.signal == signal;
        self.tracks.iter().position(|track| wanted(&track.channel)).map(ChannelId)
    }

    /// The description of a channel.
    ///
    /// # Panics
    /// If the id belongs to another timeline with more channels.
    #[must_use]
    pub fn channel(&self, id: ChannelId) -> &Channel {
        &self.tracks[id.0].channel
    }

    /// The readings of a channel.
    ///
    /// # Panics
    /// If the id belongs to another timeline with more channels.
    #[must_use]
    pub fn column(&self, id: ChannelId) -> &Column {
        &self.tracks[id.0].column
    }

    /// The distinct devices, sorted.
    #[must_use]
    pub fn devices(&self) -> Vec<DeviceId> {
        let channels = self.tracks.iter().map(|track| track.channel.device);
        let mut devices: Vec<_> = self.sensors.iter().map(|source| source.info.device).chain(channels).collect();
        devices.sort_unstable();
        devices.dedup();
        devices
    }

    /// The name of a device, from its first sensor.
    #[must_use]
    pub fn device_name(&self, device: DeviceId) -> Option<&str> {
        self.sensors.iter().find(|source| source.info.device == device).map(|source| source.info.name.as_str())
    }

    /// The events, in order of arrival.
    #[must_use]
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// The number of readings.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tracks.iter().map(|track| track.column.len()).sum()
    }

    /// Whether there are no readings.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tracks.iter().all(|track| track.column.is_empty())
    }

    /// The window from the first to the last reading of any channel.
    #[must_use]
    pub fn span(&self) -> Option<Window> {
        let times = || self.tracks.iter().map(|track| track.column.readings().at_ns);
        let first = times().filter_map(|times| times.first()).min()?;
        let last = times().filter_map(|times| times.last()).max()?;
        Window::new(Timestamp::from_nanos_since_epoch(*first), Timestamp::from_nanos_since_epoch(*last)).ok()
    }

    /// When sampling started: the first reading of energy or power that got its time when it was read. A driver's
    /// buffer also has samples from seconds before that (`power_ring`, utilization). Without such a reading, the start
    /// of [`span`](Self::span).
    #[must_use]
    pub fn sampling_start(&self) -> Option<Timestamp> {
        let is_read =
            |track: &&Track| track.channel.provenance != Provenance::Gauge && track.channel.signal != Signal::PowerRing;
        let firsts = self.tracks.iter().filter(is_read).filter_map(|track| track.column.readings().at_ns.first());
        let first = firsts.min().map(|&first| Timestamp::from_nanos_since_epoch(first));
        first.or_else(|| self.span().map(Window::start))
    }

    /// The readings of a window, for each channel with the reading before and the reading after it, and all events.
    #[must_use]
    pub fn around(&self, window: Window) -> Self {
        let track = |track: &Track| Track { column: track.column.around(window), ..track.clone_empty() };
        Self {
            sensors: self.sensors.clone(),
            tracks: self.tracks.iter().map(track).collect(),
            events: self.events.clone(),
        }
    }

    /// Removes events and readings before a time, except the last reading of each channel.
    pub fn forget_before(&mut self, time: Timestamp) {
        self.events.retain(|event| event.at_ns >= time.nanos_since_epoch());
        self.tracks.iter_mut().for_each(|track| track.column.forget_before(time));
    }

    /// The parts of a window in which the channel had no readings for longer than 250 ms and five times its usual
    /// spacing. The usual spacing is the larger of the channel's update period and the median time between readings, or
    /// the interval of its sensor if neither is known.
    #[must_use]
    pub fn gaps(&self, id: ChannelId, window: Window) -> Vec<Window> {
        gaps::gaps(self.column(id), window, self.gap_threshold_ns(id))
    }

    /// The time-weighted statistics of a channel over a window, or `None` if it has no value there. A value is valid
    /// until the next reading, but at most for the minimum length of a [gap](Self::gaps).
    #[must_use]
    pub fn stats(&self, id: ChannelId, window: Window) -> Option<Stats> {
        stats::stats(self.column(id), window, self.gap_threshold_ns(id))
    }

    /// Like [`stats`](Self::stats), for the sum of several channels (the power of eight GPUs), over the time in which
    /// all of them have a value. `None` without channels.
    #[must_use]
    pub fn stats_of_sum(&self, ids: &[ChannelId], window: Window) -> Option<Stats> {
        let columns: Vec<_> = ids.iter().map(|&id| (self.column(id), self.gap_threshold_ns(id))).collect();
        stats::stats_of_sum(&columns, window)
    }

    fn gap_threshold_ns(&self, id: ChannelId) -> i64 {
        let track = &self.tracks[id.0];
        let period_ns = track.channel.update_period.map(ergometer_units::Seconds::as_nanos);
        let interval = self.sensors[track.sensor].info.interval;
        let interval_ns = || i64::try_from(interval.as_nanos()).unwrap_or(i64::MAX);
        gaps::threshold_ns(period_ns.max(track.column.median_spacing_ns()).unwrap_or_else(interval_ns))
    }
}

#[cfg(test)]
pub(crate) mod example;

#[cfg(test)]
mod tests {
    use ergometer_units::Seconds;

    use super::example::{gauge, sensor, time, window};
    use super::*;
    use crate::Reading;

    #[test]
    fn find_returns_the_first_of_two_sensors_of_a_device() {
        let mut timeline = Timeline::default();
        let first = timeline.add_sensor(&sensor("first"), &[gauge(Signal::Temperature), gauge(Signal::ClockCore)]);
        let second = timeline.add_sensor(&sensor("second"), &[gauge(Signal::Temperature), gauge(Signal::Energy)]);
        let mut batch = Batch::default();
        batch.push(0, time(1000), 40.0);
        timeline.append(first, &batch);
        batch.clear();
        batch.push(1, time(3000), 7.0);
        timeline.append(second, &batch);

        let find = |signal| timeline.find(DeviceId::gpu(0), Scope::Device, signal).map(ChannelId::index);
        assert_eq!(
            (find(Signal::Temperature), find(Signal::Energy), find(Signal::PowerRing)),
            (Some(0), Some(3), None)
        );
        assert_eq!(timeline.devices(), [DeviceId::gpu(0)]);
        assert_eq!(timeline.device_name(DeviceId::gpu(0)), Some("first"));
        assert_eq!(timeline.span(), Some(window(1000, 3000)));
        assert_eq!((timeline.len(), timeline.channels().len(), timeline.sensors().len()), (2, 4, 2));
        assert_eq!(timeline.channels_of(second).map(|(id, _)| id.index()).collect::<Vec<_>>(), [2, 3]);
    }

    #[test]
    fn samples_that_a_driver_held_are_from_before_the_start() {
        let mut timeline = Timeline::default();
        assert_eq!(timeline.sampling_start(), None);
        let with = |signal, provenance| Channel { provenance, ..gauge(signal) };
        let ring = [with(Signal::PowerRing, Provenance::SampledPower), gauge(Signal::Utilization)];
        let ring = timeline.add_sensor(&sensor("ring"), &ring);
        let mut batch = Batch::default();
        batch.push(0, time(2000), 100.0);
        batch.push(1, time(1000), 50.0);
        timeline.append(ring, &batch);
        assert_eq!(timeline.sampling_start(), Some(time(1000)), "no channel has a reading with the time of its read");
        let counter = timeline.add_sensor(&sensor("counter"), &[with(Signal::Energy, Provenance::Counter)]);
        batch.clear();
        batch.push(0, time(5000), 7.0);
        timeline.append(counter, &batch);
        assert_eq!(timeline.sampling_start(), Some(time(5000)));
    }

    #[test]
    fn invalid_readings_are_rejected_with_one_event() {
        let mut timeline = Timeline::default();
        let key = timeline.add_sensor(&sensor("odd"), &[gauge(Signal::Temperature)]);
        let mut batch = Batch::default();
        batch.push(0, time(1), f64::NAN);
        batch.push(0, time(2), f64::INFINITY);
        batch.push(9, time(3), 1.0);
        batch.push(0, time(4), 40.0);
        timeline.append(key, &batch);
        assert_eq!((timeline.len(), timeline.events().len()), (1, 1));
        assert!(timeline.events()[0].message.contains("odd sent an invalid reading (NaN on channel 0)"));
        timeline.append(SensorKey(5), &batch);
        assert_eq!(timeline.len(), 1, "a key of another timeline");
        assert!(Timeline::default().is_empty() && Timeline::default().span().is_none());
    }

    #[test]
    fn an_uncertainty_longer_than_its_column_allows_saturates() {
        let mut timeline = Timeline::default();
        let key = timeline.add_sensor(&sensor("slow"), &[gauge(Signal::Energy)]);
        let readings = vec![
            Reading { channel: 0, after: time(0), at: time(10_000_000_000), value: 1.0 },
            Reading { channel: 0, after: time(20_000_000_001), at: time(20_000_000_000), value: 2.0 },
        ];
        timeline.append(key, &Batch { readings, events: Vec::new() });
        let id = timeline.find(DeviceId::gpu(0), Scope::Device, Signal::Energy).unwrap();
        assert_eq!(timeline.column(id).readings().early_ns, [u32::MAX, 0]);
    }

    #[test]
    fn the_gap_threshold_uses_the_update_period_the_spacing_or_the_interval() {
        let second = 1_000_000_000;
        let slow = Channel { update_period: Some(Seconds::new(1.0)), ..gauge(Signal::Energy) };
        let mut timeline = Timeline::default();
        let key = timeline.add_sensor(&sensor("slow"), &[slow, gauge(Signal::Temperature)]);
        let mut batch = Batch::default();
        for channel in [0, 1] {
            batch.push(channel, time(0), 1.0);
        }
        timeline.append(key, &batch);
        let [energy, temperature] = [Signal::Energy, Signal::Temperature]
            .map(|signal| timeline.find(DeviceId::gpu(0), Scope::Device, signal).unwrap());
        assert_eq!(timeline.gaps(energy, window(0, 4 * second)), []);
        assert_eq!(timeline.gaps(energy, window(0, 6 * second)).len(), 1);
        assert_eq!(timeline.gaps(temperature, window(0, second / 4)), [], "the sensor's interval is 100 ms");
        assert_eq!(timeline.gaps(temperature, window(0, second)).len(), 1);
        assert_eq!(timeline.stats(temperature, window(0, second)).unwrap().covered, Seconds::new(0.5));
    }

    #[test]
    fn around_keeps_neighbours_and_forget_before_removes_readings() {
        let mut timeline = Timeline::default();
        let info = SensorInfo {
            id: String::from("one"),
            name: String::from("one"),
            device: DeviceId::gpu(0),
            interval: std::time::Duration::from_millis(10),
        };
        let channel = Channel {
            device: DeviceId::gpu(0),
            scope: Scope::Device,
            signal: Signal::PowerRing,
            provenance: crate::Provenance::SampledPower,
            update_period: None,
        };
        let key = timeline.add_sensor(&info, &[channel]);
        let at = |second: i64| Timestamp::from_nanos_since_epoch(second * 1_000_000_000);
        let readings = (0..10).map(|second| crate::Reading {
            channel: 0,
            after: at(second),
            at: at(second),
            value: f64::from(u8::try_from(second).unwrap()),
        });
        timeline.append(key, &Batch { readings: readings.collect(), events: Vec::new() });
        let id = timeline.find(DeviceId::gpu(0), Scope::Device, Signal::PowerRing).unwrap();
        let part = timeline.around(Window::new(at(3), at(5)).unwrap());
        assert_eq!(part.column(id).readings().values, [2.0, 3.0, 4.0, 5.0]);
        assert_eq!(part.column(id).median_spacing_ns(), timeline.column(id).median_spacing_ns());
        timeline.forget_before(at(6));
        assert_eq!(timeline.column(id).readings().values, [5.0, 6.0, 7.0, 8.0, 9.0]);
        timeline.forget_before(at(100));
        assert_eq!(timeline.column(id).readings().values, [9.0]);
        timeline.forget_before(at(0));
        assert_eq!(timeline.len(), 1);
    }
}
