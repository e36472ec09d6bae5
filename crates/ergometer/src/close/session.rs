//! Reads a session of a run from the journal and attributes its energy to requests.

use std::io::ErrorKind;

use ergometer_clients::Locality;
use ergometer_statistics::Estimate;
use ergometer_telemetry::recording::{self, Leniency, RecordingError};
use ergometer_telemetry::{EnergyMeter, Provenance, Timeline};
use ergometer_units::{Joules, Seconds, Timestamp, Window};

use super::attribution::{Observed, SessionAttribution};
use super::load::Attempts;
use super::review_results::ReviewResults;
use super::streams::Streams;
use super::{CloseError, is_ours};
use crate::attribution::{IdlePower, Sharing, Span, Stream};
use crate::config::CountedDevices;
use crate::journal::{JournalFolder, LostRequest, Manifest, SessionEvents};
use ergometer_runs::Fate;
use ergometer_runs::cost_model::CostModels;
use ergometer_runs::regular_file;
use ergometer_runs::store::MetadataShape;

/// A session as read from the journal.
pub(super) struct LoadedSession {
    pub(super) number: u32,
    pub(super) events: SessionEvents,
    /// The attempts of the session.
    pub(super) attempts: Attempts,
    pub(super) timeline: Timeline,
    /// What the client saw of each request, in the order of `events.requests`.
    pub(super) streams: Vec<Stream>,
    /// The same of the calibration requests.
    pub(super) calibration: Vec<Stream>,
    /// Whether the server reports cached prompt tokens.
    pub(super) reports_cached: bool,
    /// Why its readings could not be used.
    pub(super) unreadable: Option<String>,
}

impl LoadedSession {
    /// Reads a session. `results` has token counts that are not in its events.
    pub(super) fn read(
        (journal, number): (&JournalFolder, u32),
        (manifest, results): (&Manifest, &ReviewResults),
        shape: &mut MetadataShape,
    ) -> Result<Self, CloseError> {
        let path = journal.readings_path(number);
        let mut unreadable = None;
        let opened = regular_file::open(&path);
        let opened = opened.map_err(|cause| RecordingError::Io { action: "open", path: None, cause });
        let recording = opened.and_then(|file| recording::read(file, Leniency::KeepWhole));
        let timeline = match recording {
            Ok(recording) => recording.timeline,
            // The run was killed before the first complete reading.
            Err(RecordingError::Empty | RecordingError::Truncated(_)) => Timeline::default(),
            Err(RecordingError::Io { cause, .. }) if cause.kind() == ErrorKind::NotFound => Timeline::default(),
            Err(cause @ RecordingError::Io { .. }) => return Err(CloseError::Readings { path, cause }),
            // Without readable readings the session has answers, but no energy.
            Err(cause) => {
                unreadable = Some(cause.to_string());
                Timeline::default()
            }
        };
        // Arrival times need much memory, and without energy nothing is divided.
        let is_metered =
            is_ours(manifest) && timeline.channels().any(|(_, channel)| channel.provenance != Provenance::Gauge);
        let path = journal.events_path(number);
        let mut attempts = Attempts::default();
        let (mut streams, mut calibration) = (Streams::new(is_metered), Streams::new(is_metered));
        let events = SessionEvents::read_with(&path, |exchange| {
            shape.observe(&exchange.query.metadata);
            attempts.add(exchange);
            streams.add(exchange, results.usage(exchange, manifest));
        })?;
        events.calibration.iter().for_each(|exchange| calibration.add(exchange, exchange.transcript.usage));
        let reports_cached = streams.reports_cached;
        // Calibration requests may all have been cancelled before their token counts arrived.
        let rate = streams.tokens_per_character();
        let calibration_rate = calibration.tokens_per_character().or(rate);
        let (streams, calibration) = (streams.finish(rate), calibration.finish(calibration_rate));
        Ok(Self { number, events, attempts, timeline, streams, calibration, reports_cached, unreadable })
    }

    /// The spans of all requests, including those lost when the run was killed.
    fn spans(&self) -> Vec<Span> {
        let ended = self.events.requests.iter().map(|located| Span {
            sent: located.sent,
            first_token: located.first_token.map(|first| first.clamp(located.sent, located.end)),
            end: located.end,
        });
        ended.chain(self.lost().map(|(_, span)| span)).collect()
    }

    /// Requests that were in flight when the run was killed. They end at the last known time.
    pub(super) fn lost(&self) -> impl Iterator<Item = (LostRequest, Span)> {
        let last = self.timeline.span().map(Window::end);
        let last = last.max(self.events.requests.iter().map(|located| located.end).max());
        self.events.lost.iter().map(move |&lost| {
            let end = last.map_or(lost.sent, |last| last.max(lost.sent));
            (lost, Span { sent: lost.sent, first_token: None, end })
        })
    }

    /// The known energy of a metered scope that is in no record.
    fn unrecorded(&self, sharing: &Sharing, attribution: &SessionAttribution, place: usize) -> UnrecordedEnergy {
        let mut joules = UnrecordedEnergy::default();
        let ended = self.events.requests.iter().enumerate();
        let ended = ended.map(|(request, located)| (located.fate, located.sent, located.end, Some(request)));
        let lost = self.lost().map(|(_, span)| (Fate::Open, span.sent, span.end, None));
        for (fate, sent, end, request) in ended.chain(lost) {
            let share = sharing.share(place, sent, end);
            let attributed = request.and_then(|request| attribution.get(place, request));
            let known = attributed.map_or(share.known.get(), |found| found.idle + found.net.share);
            match (fate, share.joules) {
                (Fate::Settled, Some(_)) => {}
                (Fate::Retried, Some(_)) => joules.retried += known,
                _ => joules.other += known,
            }
        }
        joules.other += attribution.others(place);
        joules
    }
}

/// Energy that is in no record, in joules.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct UnrecordedEnergy {
    /// Energy of retried attempts.
    pub(super) retried: f64,
    /// Energy of requests that were cancelled or lost, or that reach beyond the data, and of other clients of the server.
    pub(super) other: f64,
}

/// A session with its energy.
pub(super) struct MeteredSession<'a> {
    pub(super) loaded: &'a LoadedSession,
    pub(super) meter: EnergyMeter<'a>,
    pub(super) sharing: Sharing,
    /// The idle power of each metered scope.
    pub(super) idle: Vec<IdlePower>,
    /// The net energy of requests that ran together.
    pub(super) attribution: SessionAttribution,
    /// The energy of each metered scope that is in no record.
    pub(super) unrecorded: Vec<UnrecordedEnergy>,
    pub(super) counted: CountedDevices,
    /// Whether the requests were served by this machine.
    pub(super) is_ours: bool,
    /// Whether they were served by this process.
    pub(super) is_in_process: bool,
    /// From the first request's start to the last one's end.
    pub(super) window: Option<Window>,
}

impl<'a> MeteredSession<'a> {
    pub(super) fn new(loaded: &'a LoadedSession, manifest: &Manifest, counted: &CountedDevices) -> Self {
        let spans = loaded.spans();
        let rests: Vec<Window> = loaded.events.idle.iter().map(|(_, window)| *window).collect();
        let mut activity: Vec<Window> = spans.iter().flat_map(|span| span.windows()).collect();
        activity.extend(&rests);
        activity.extend(&loaded.events.warmup);
        activity.extend(loaded.calibration.iter().map(|stream| Window::between(stream.sent, stream.end)));
        let meter = EnergyMeter::counting(&loaded.timeline, &activity, &|device| counted.counts(device));
        let is_ours = is_ours(manifest);
        let is_in_process = manifest.place == Locality::ThisProcess;
        let sharing = Sharing::new(&meter, &spans, &|device| is_ours && counted.counts(device));
        let idle = sharing.scopes().map(|place| IdlePower::new(&meter, &rests, place.device, place.scope)).collect();
        let first: Option<Timestamp> = spans.iter().map(|span| span.sent).min();
        let last = spans.iter().map(|span| span.end).max();
        let window = first.zip(last).and_then(|(first, last)| Window::new(first, last).ok());
        let (attribution, unrecorded) = (SessionAttribution::default(), Vec::new());
        let counted = counted.clone();
        Self { loaded, meter, sharing, idle, attribution, unrecorded, counted, is_ours, is_in_process, window }
    }

    /// Divides the energy of requests that ran together.
    pub(super) fn attribute(&mut self, observed: &Observed, models: Option<&CostModels>) {
        self.attribution = SessionAttribution::new(self, observed, models);
        let scopes = 0..self.sharing.scopes().len();
        let unrecorded = scopes.map(|place| self.loaded.unrecorded(&self.sharing, &self.attribution, place));
        self.unrecorded = unrecorded.collect();
    }

    /// The gross energy of a metered scope over the session, with its interval. If the data ends before the session, it is
    /// the known energy without an interval. `None` without any data.
    pub(super) fn gross(&self, place: usize) -> Option<Estimate> {
        if !self.sharing.has_data(place) {
            return None;
        }
        let known = self.sharing.balance(place).meter().get();
        let found = self.sharing.scopes().nth(place).zip(self.window).and_then(|(place, window)| {
            let devices = self.meter.energy(window).devices;
            let found = devices.into_iter().find(|energy| (energy.device, energy.scope) == (place.device, place.scope));
            found?.estimate.ok()
        });
        Some(match found {
            // The slices add up to the estimate except beyond the data, so the interval is scaled with them.
            Some(estimate) if estimate.joules.get() > 0.0 => {
                let scale = known / estimate.joules.get();
                let end = |joules: Joules| Some(joules.get() * scale);
                Estimate { value: known, low: end(estimate.low), high: end(estimate.high) }
            }
            _ => Estimate { value: known, low: None, high: None },
        })
    }

    /// Whether requests have net energy: the idle power of a device is known.
    pub(super) fn has_net(&self) -> bool {
        self.idle.iter().any(|idle| idle.powers().next().is_some())
    }

    /// The duration of the session, in seconds.
    pub(super) fn seconds(&self) -> f64 {
        self.window.map_or(0.0, |window| window.length().get())
    }

    /// The middle of the session.
    pub(super) fn middle(&self) -> Timestamp {
        let middle = |window: Window| window.start() + Seconds::new(window.length().get() / 2.0);
        self.window.map_or(Timestamp::from_nanos_since_epoch(0), middle)
    }
}
