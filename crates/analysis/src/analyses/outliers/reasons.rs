//! Finds likely reasons for an outlier: something unusual about the query or the time it ran. A reason is not a proven cause.

use std::collections::HashMap;

use ergometer_statistics::median;
use ergometer_units::{Timestamp, format};

use super::Figure;
use crate::AnalysisError;
use ergometer_runs::saved::{Attempt, Channel, Query, Run, Telemetry};

/// The signals read from telemetry.
const SIGNALS: [&str; 3] = ["clock_core", "temperature", "requests_waiting"];

/// Connecting is a reason if it took at least this share of the excess time.
const PART: f64 = 0.1;

/// Counts and lengths are unusual from this multiple of the median on.
const UNUSUAL: f64 = 1.5;

/// A clock is low, or a temperature high, if it differs this much from the median of the session.
const CLOCK: f64 = 0.97;
const DEGREES: f64 = 5.0;

/// Shorter lags are never a reason.
const LEAST_LAG_S: f64 = 0.005;

/// The data of a run in which reasons are looked up.
pub(super) struct Evidence<'a> {
    run: &'a Run,
    telemetry: Telemetry,
    /// Connect time by session and request.
    connected: HashMap<(u32, u64), f64>,
    /// By session: sorted sending times and end times.
    sessions: HashMap<u32, (Vec<i64>, Vec<i64>)>,
    usual_input: Option<f64>,
    usual_output: Option<f64>,
    usual_lag: Option<f64>,
}

/// An outlier to explain.
pub(super) struct Case<'a> {
    pub(super) query: &'a Query,
    pub(super) figure: Figure,
    pub(super) value: f64,
    pub(super) usual: f64,
    /// Concurrent outliers of the same metric and direction, and all concurrent queries.
    pub(super) beside: (usize, usize),
}

impl<'a> Evidence<'a> {
    pub(super) fn new(run: &'a Run) -> Result<Self, AnalysisError> {
        let mut connected = HashMap::new();
        Attempt::each(&run.folder, |attempt, _| {
            if let Some(millis) = attempt.connect_ms {
                connected.insert((attempt.session, attempt.request), millis / 1e3);
            }
        })?;
        let telemetry = Telemetry::read(&run.folder, &SIGNALS)?;
        let mut evidence = Self {
            run,
            telemetry,
            connected,
            sessions: HashMap::new(),
            usual_input: median_of(run, |query| query.input_tokens.map(|tokens| tokens as f64)),
            usual_output: median_of(run, |query| query.output_tokens.map(|tokens| tokens as f64)),
            usual_lag: median_of(run, lag),
        };
        for query in &run.queries {
            if let (Some(sent), Some(end)) = (query.sent, query.end) {
                let (sents, ends) = evidence.sessions.entry(query.session).or_default();
                sents.push(sent.nanos_since_epoch());
                ends.push(end.nanos_since_epoch());
            }
        }
        for (sents, ends) in evidence.sessions.values_mut() {
            sents.sort_unstable();
            ends.sort_unstable();
        }
        Ok(evidence)
    }

    /// The mean number of requests in flight during a query, including itself.
    fn in_flight(&self, query: &Query) -> Option<f64> {
        let (sent, end) = (query.sent?, query.end?);
        let inside = |other: &Query| {
            let seconds = other.end?.min(end).since(other.sent?.max(sent)).get();
            Some(seconds).filter(|seconds| *seconds > 0.0 && other.session == query.session)
        };
        let together: f64 = self.run.queries.iter().filter_map(inside).sum();
        let seconds = end.since(sent).get();
        (seconds > 0.0).then(|| together / seconds)
    }

    /// The reasons, strongest first. A reason for a large value is never given for a small one, and vice versa.
    pub(super) fn reasons(&self, case: &Case) -> Vec<String> {
        let is_more = case.value > case.usual;
        let mut reasons = Vec::new();
        // The first queries run with cold caches but without a queue.
        if is_more || case.figure == Figure::Ttft {
            reasons.extend(self.beginning(case.query));
        }
        if is_more {
            reasons.extend(self.repeated(case));
            reasons.extend(self.crowd(case));
            reasons.extend(self.hardware(case.query));
        }
        reasons.extend(self.few(case, is_more));
        reasons.extend(self.work(case, is_more));
        if case.beside.0 > 0 && 2 * case.beside.0 >= case.beside.1 {
            reasons.push(format!("{} of {} concurrent queries are outliers too", case.beside.0, case.beside.1));
        }
        reasons
    }

    /// Whether the query was sent before any request of the session ended.
    fn beginning(&self, query: &Query) -> Option<String> {
        let (_, ends) = self.sessions.get(&query.session)?;
        let sent = query.sent?.nanos_since_epoch();
        (sent < *ends.first()?).then(|| String::from("among the first requests after the start or a resume"))
    }

    fn repeated(&self, case: &Case) -> Vec<String> {
        let mut reasons = Vec::new();
        if case.query.attempts > 1 {
            reasons.push(format!("attempt {}", case.query.attempts));
        }
        let connected = self.connected.get(&(case.query.session, case.query.request));
        let counts = |&&seconds: &&f64| case.figure.is_whole_time() && seconds > PART * (case.value - case.usual);
        if let Some(seconds) = connected.filter(counts) {
            reasons.push(format!("a connection was opened ({})", format::quantity(*seconds, "s")));
        }
        reasons
    }

    fn crowd(&self, case: &Case) -> Vec<String> {
        let mut reasons = Vec::new();
        let usual = self.run.mean_in_flight();
        if let Some(now) = self.in_flight(case.query).filter(|now| *now > UNUSUAL * usual) {
            reasons.push(format!("{now:.0} in flight, usually {usual:.0}"));
        }
        let waiting = self.during("requests_waiting", case.query, f64::max);
        if let Some((most, usual)) = waiting.filter(|(most, usual)| *most > UNUSUAL * usual && *most >= 1.0) {
            reasons.push(format!("{most:.0} waiting at the server, usually {usual:.0}"));
        }
        let late = lag(case.query).zip(self.usual_lag);
        if let Some((lag, _)) = late.filter(|(lag, usual)| *lag > LEAST_LAG_S && *lag > 5.0 * usual) {
            reasons.push(format!("sent {} late", format::quantity(lag, "s")));
        }
        reasons
    }

    /// Few concurrent requests: a query is faster then, but gets a larger share of the energy.
    fn few(&self, case: &Case, is_more: bool) -> Option<String> {
        let usual = self.run.mean_in_flight();
        let now = self.in_flight(case.query).filter(|now| now * UNUSUAL < usual)?;
        let is_reason = is_more == (case.figure == Figure::JoulesPerToken);
        is_reason.then(|| format!("only {now:.1} in flight, usually {usual:.1}"))
    }

    fn hardware(&self, query: &Query) -> Vec<String> {
        let mut reasons = Vec::new();
        if let Some((clock, usual)) =
            self.during("clock_core", query, f64::min).filter(|(now, usual)| now < &(CLOCK * usual))
        {
            reasons.push(format!("core clock {clock:.0} MHz, usually {usual:.0}"));
        }
        let hot = self.during("temperature", query, f64::max);
        if let Some((degrees, usual)) = hot.filter(|(now, usual)| now > &(usual + DEGREES)) {
            reasons.push(format!("temperature {degrees:.0} °C, usually {usual:.0}"));
        }
        reasons
    }

    /// A long or short prompt or answer.
    fn work(&self, case: &Case, is_more: bool) -> Vec<String> {
        let mut reasons = Vec::new();
        let input = case.query.input_tokens.map(|tokens| tokens as f64).zip(self.usual_input);
        let is_unusual = |(tokens, usual): &(f64, f64)| {
            if is_more { *tokens > UNUSUAL * usual } else { *tokens * UNUSUAL < *usual }
        };
        if let Some((tokens, usual)) = input.filter(is_unusual) {
            let length = if is_more { "long" } else { "short" };
            reasons.push(format!("{length} prompt: {tokens:.0} tokens, usually {usual:.0}"));
        }
        // In a short answer, the energy and time of the prompt are divided among few tokens.
        let output = case.query.output_tokens.map(|tokens| tokens as f64).zip(self.usual_output);
        let is_short = |(tokens, usual): &(f64, f64)| *tokens * UNUSUAL < *usual;
        let is_long = |(tokens, usual): &(f64, f64)| *tokens > UNUSUAL * usual;
        if let Some((tokens, usual)) = output.filter(|found| if is_more { is_short(found) } else { is_long(found) })
            && case.figure.is_per_token()
        {
            let length = if is_more { "short" } else { "long" };
            reasons.push(format!("{length} answer: {tokens:.0} tokens, usually {usual:.0}"));
        }
        reasons
    }

    /// The value of a GPU or server signal during a query, and its median over the session.
    fn during(&self, signal: &str, query: &Query, fold: fn(f64, f64) -> f64) -> Option<(f64, f64)> {
        let (sent, end) = (query.sent?, query.end?);
        let is_meant = |channel: &&Channel| {
            channel.session == query.session
                && (channel.device.starts_with("gpu:") || channel.device.starts_with("server:"))
        };
        let channels = self.telemetry.channels_with(signal).filter(is_meant);
        let found = channels.filter_map(|channel| {
            let at = |time: Timestamp| channel.at_ns.partition_point(|&at| at < time.nanos_since_epoch());
            // If the clock was set back, a query may end before it was sent.
            let now = channel.values.get(at(sent)..at(end))?.iter().copied().reduce(fold)?;
            Some((now, median(channel.values.iter().copied())?))
        });
        // Of several devices, the one with the largest deviation from its median.
        found.max_by(|one, other| (one.0 / one.1 - 1.0).abs().total_cmp(&(other.0 / other.1 - 1.0).abs()))
    }
}

fn lag(query: &Query) -> Option<f64> {
    Some(query.sent?.since(query.scheduled?).get())
}

fn median_of(run: &Run, figure: impl Fn(&Query) -> Option<f64>) -> Option<f64> {
    median(run.queries.iter().filter_map(figure))
}

impl Evidence<'_> {
    /// The indices of the queries that ran concurrently with a query.
    pub(super) fn beside<'b>(&'b self, query: &'b Query) -> impl Iterator<Item = usize> + 'b {
        let overlaps = move |other: &Query| {
            let apart = other.end? <= query.sent? || query.end? <= other.sent?;
            Some(!apart && other.request != query.request)
        };
        let queries = self.run.queries.iter().enumerate();
        queries
            .filter(move |(_, other)| other.session == query.session && overlaps(other) == Some(true))
            .map(|found| found.0)
    }
}
