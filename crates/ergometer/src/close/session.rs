//! One session of a run, read back: its events, its timeline, its meter, and who used the energy.

use std::io::ErrorKind;

use ergometer_statistics::Estimate;
use ergometer_telemetry::recording::{self, Leniency, RecordingError};
use ergometer_telemetry::{EnergyMeter, Timeline};
use ergometer_units::{Joules, Seconds, Timestamp, Window};

use super::load::Passages;
use super::{CloseError, is_ours};
use crate::attribution::{IdlePower, Sharing, Span};
use crate::config::Counted;
use crate::journal::{JournalFolder, Lost, Manifest, SessionEvents};
use ergometer_runs::Fate;
use ergometer_runs::store::MetadataShape;

/// What a session left in the journal.
pub(super) struct Loaded {
    pub(super) number: u32,
    pub(super) events: SessionEvents,
    /// Its requests in time.
    pub(super) passages: Passages,
    pub(super) timeline: Timeline,
    /// Why its readings could not be used.
    pub(super) unreadable: Option<String>,
}

impl Loaded {
    pub(super) fn read(journal: &JournalFolder, number: u32, shape: &mut MetadataShape) -> Result<Self, CloseError> {
        let path = journal.events_path(number);
        let mut passages = Passages::default();
        let events = SessionEvents::read_with(&path, |exchange| {
            shape.observe(&exchange.query.metadata);
            passages.take(exchange);
        })?;
        let path = journal.readings_path(number);
        let mut unreadable = None;
        let timeline = match recording::read_file_with(&path, Leniency::KeepWhole) {
            Ok(recording) => recording.timeline,
            // Killed before the first reading, or within the first line: there is nothing to keep.
            Err(RecordingError::Empty | RecordingError::Truncated(_)) => Timeline::default(),
            Err(RecordingError::Io { cause, .. }) if cause.kind() == ErrorKind::NotFound => Timeline::default(),
            Err(cause @ RecordingError::Io { .. }) => return Err(CloseError::Readings { path, cause }),
            // Damage takes the energy, not the answers.
            Err(cause) => {
                unreadable = Some(cause.to_string());
                Timeline::default()
            }
        };
        Ok(Self { number, events, passages, timeline, unreadable })
    }

    /// All requests in time; those lost with a kill went on at most until the last reading.
    fn spans(&self) -> Vec<Span> {
        let ended = self.events.requests.iter().map(|located| Span {
            sent: located.sent,
            first_token: located.first_token.map(|first| first.clamp(located.sent, located.end)),
            end: located.end,
        });
        ended.chain(self.lost().map(|(_, span)| span)).collect()
    }

    /// Requests that were lost with a kill: they went on at most until the last that is known.
    pub(super) fn lost(&self) -> impl Iterator<Item = (Lost, Span)> {
        let last = self.timeline.span().map(Window::end);
        let last = last.max(self.events.requests.iter().map(|located| located.end).max());
        self.events.lost.iter().map(move |&lost| {
            let end = last.map_or(lost.sent, |last| last.max(lost.sent));
            (lost, Span { sent: lost.sent, first_token: None, end })
        })
    }

    /// What is known of the joules of a place that are in no record.
    fn unrecorded(&self, sharing: &Sharing, place: usize) -> Unrecorded {
        let mut joules = Unrecorded::default();
        let ended = self.events.requests.iter().map(|located| (located.fate, located.sent, located.end));
        let lost = self.lost().map(|(_, span)| (Fate::Open, span.sent, span.end));
        for (fate, sent, end) in ended.chain(lost) {
            let share = sharing.share(place, sent, end);
            match (fate, share.joules) {
                (Fate::Settled, Some(_)) => {}
                (Fate::Retried, Some(known)) => joules.retried += known.get(),
                _ => joules.other += share.known.get(),
            }
        }
        joules
    }
}

/// Joules that are in no record.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Unrecorded {
    /// Of attempts that were followed by another.
    pub(super) retried: f64,
    /// Of requests that were cancelled or lost, and of such as reach outside of the data.
    pub(super) other: f64,
}

/// A session and its energy.
pub(super) struct Metered<'a> {
    pub(super) loaded: &'a Loaded,
    pub(super) meter: EnergyMeter<'a>,
    pub(super) sharing: Sharing,
    /// The power at rest of each place of the sharing.
    pub(super) idle: Vec<IdlePower>,
    /// The joules of each place that are in no record.
    pub(super) unrecorded: Vec<Unrecorded>,
    pub(super) counted: Counted,
    /// Whether what was measured is what the requests used.
    pub(super) is_ours: bool,
    /// From the first request's start to the last one's end.
    pub(super) window: Option<Window>,
}

impl<'a> Metered<'a> {
    pub(super) fn new(loaded: &'a Loaded, manifest: &Manifest, counted: &Counted) -> Self {
        let spans = loaded.spans();
        let rests: Vec<Window> = loaded.events.idle.iter().map(|(_, window)| *window).collect();
        let mut activity: Vec<Window> = spans.iter().flat_map(|span| span.windows()).collect();
        activity.extend(&rests);
        activity.extend(&loaded.events.warmup);
        let meter = EnergyMeter::counting(&loaded.timeline, &activity, &|device| counted.counts(device));
        let is_ours = is_ours(manifest);
        let sharing = Sharing::new(&meter, &spans, &|device| is_ours && counted.counts(device));
        let idle = sharing.places().map(|place| IdlePower::new(&meter, &rests, place.device, place.scope)).collect();
        let unrecorded = (0..sharing.places().len()).map(|place| loaded.unrecorded(&sharing, place)).collect();
        let first: Option<Timestamp> = spans.iter().map(|span| span.sent).min();
        let last = spans.iter().map(|span| span.end).max();
        let window = first.zip(last).and_then(|(first, last)| Window::new(first, last).ok());
        Self { loaded, meter, sharing, idle, unrecorded, counted: counted.clone(), is_ours, window }
    }

    /// The gross energy of a place over the session, with its interval. Where the data ends before the session does it
    /// is what is known, without an interval.
    pub(super) fn gross(&self, place: usize) -> Estimate {
        let known = self.sharing.balance(place).meter().get();
        let found = self.sharing.places().nth(place).zip(self.window).and_then(|(place, window)| {
            let devices = self.meter.energy(window).devices;
            let found = devices.into_iter().find(|energy| (energy.device, energy.scope) == (place.device, place.scope));
            found?.estimate.ok()
        });
        match found {
            // The slices add up to the estimate, but for what it reaches past the data by: its interval goes with them.
            Some(estimate) if estimate.joules.get() > 0.0 => {
                let scale = known / estimate.joules.get();
                let end = |joules: Joules| Some(joules.get() * scale);
                Estimate { value: known, low: end(estimate.low), high: end(estimate.high) }
            }
            _ => Estimate { value: known, low: None, high: None },
        }
    }

    /// How long it lasted.
    pub(super) fn seconds(&self) -> f64 {
        self.window.map_or(0.0, |window| window.length().get())
    }

    /// The middle of it.
    pub(super) fn middle(&self) -> Timestamp {
        let middle = |window: Window| window.start() + Seconds::new(window.length().get() / 2.0);
        self.window.map_or(Timestamp::from_nanos_since_epoch(0), middle)
    }
}
