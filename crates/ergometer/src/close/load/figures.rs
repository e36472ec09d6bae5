//! Computes `load` of `summary.json`: latencies, rates and goodput of the whole run and of its steady state.
//!
//! For the steady state, counts cover requests that ended inside it. The rate weights each completed request by the share
//! of its time inside. Tokens and joules are those inside it. Latencies and goodput cover requests sent inside it.

use std::collections::{BTreeMap, BTreeSet};

use ergometer_statistics::{Distribution, Gaps, median};
use ergometer_telemetry::Provenance;
use ergometer_units::{Seconds, Timestamp, Window};

use super::super::session::MeteredSession;
use super::super::totals::add;
use super::attempt::{Attempt, AttemptRole, Connection, Ending};
use super::in_flight::InFlight;
use super::verdict::{Evidence, verdict};
use super::{Load, LoadSession, millis};
use ergometer_clients::{Connections, FailureKind, Locality};
use ergometer_runs::SenderFacts;
use ergometer_runs::config::Axis;
use ergometer_runs::summary::EnergySource;
use ergometer_runs::summary::{Goodput, LoadFigures, LoadSummary, SteadyEnergy, SteadyState};
use ergometer_statistics::Estimate;

/// The period that figures cover.
#[derive(Debug, Clone, Copy)]
enum Period {
    Whole,
    Steady,
}

impl Period {
    fn window(self, session: &LoadSession) -> Option<Window> {
        match self {
            Self::Whole => session.window,
            Self::Steady => session.steady.ok(),
        }
    }

    /// Whether a time is inside it. The whole run includes its end.
    fn holds(self, session: &LoadSession, at: Timestamp) -> bool {
        match self {
            Self::Whole => true,
            Self::Steady => session.steady.is_ok_and(|window| window.contains(at)),
        }
    }
}

impl Load<'_> {
    /// Summarises the load. `output_per_second` is the rate of the whole run.
    pub(in super::super) fn summarise(
        &mut self,
        metered: &[MeteredSession],
        place: &Locality,
        output_per_second: Option<f64>,
    ) -> LoadSummary {
        let schedule = self.config.schedule;
        let steady_itl = Gaps::distribution(&mut [&mut self.steady_gaps]);
        let itl = Gaps::distribution(&mut [&mut self.steady_gaps, &mut self.other_gaps]);
        let whole =
            LoadFigures { itl_ms: itl, output_tokens_per_second: output_per_second, ..self.figures(Period::Whole) };
        let lines = || self.attempts(Period::Whole).filter(|attempt| attempt.connection != Connection::Unknown);
        let is_new = |attempt: &&Attempt| attempt.connection == Connection::New;
        let facts = metered.iter().filter_map(|session| session.loaded.events.sender.as_ref());
        let senders: Vec<&SenderFacts> = facts.collect();
        let is_open = schedule.concurrency().is_none();
        let rate_asked = self.rate(Period::Whole, |attempt| attempt.scheduled).filter(|_| is_open);
        let client = verdict(&Evidence {
            config: self.config,
            place,
            senders: &senders,
            figures: &whole,
            rate_asked,
            failures: &self.failures(),
        });
        let client_limited = !client.reasons.is_empty();
        LoadSummary {
            mode: Axis::from_schedule(&schedule),
            concurrency: schedule.concurrency(),
            rate: schedule.rate(),
            rate_asked,
            client_limited,
            client,
            connections: senders.iter().filter_map(|facts| facts.connections).reduce(|one, other| Connections {
                protocol: other.protocol,
                opened: one.opened + other.opened,
                reused: one.reused + other.reused,
                most_open: one.most_open.max(other.most_open),
            }),
            requests_on_new_connections: lines().next().map(|_| lines().filter(is_new).count() as u64),
            ttft_new_connection_ms: self.distribution(Period::Whole, |attempt| {
                attempt.ttft().filter(|_| completed(attempt) && is_new(&attempt))
            }),
            steady_state: self.steady_state(metered, steady_itl, client_limited),
            steady_state_reason: self.no_steady_state(),
            whole,
        }
    }

    /// The names of the kinds of failure, including those of retried attempts.
    fn failures(&self) -> Vec<String> {
        let endings = self.attempts(Period::Whole).map(|attempt| attempt.ending);
        let kinds = endings.filter_map(|ending| match ending {
            Ending::Failed(kind) => Some(kind),
            Ending::Completed | Ending::Cancelled => None,
        });
        kinds.collect::<BTreeSet<FailureKind>>().into_iter().map(|kind| kind.to_string()).collect()
    }

    fn steady_state(
        &self,
        metered: &[MeteredSession],
        itl_ms: Option<Distribution>,
        client_limited: bool,
    ) -> Option<SteadyState> {
        let schedule = self.config.schedule;
        let figures = self.figures(Period::Steady);
        if !self.sessions.iter().any(|session| session.steady.is_ok()) {
            return None;
        }
        let is_counted = self.sessions.iter().all(|session| session.steady_uncounted == 0);
        let tokens: f64 = self.sessions.iter().map(|session| session.steady_tokens).sum();
        let output_tokens = Some(tokens).filter(|_| is_counted);
        let nanos = |window: Window| (window.start().nanos_since_epoch(), window.end().nanos_since_epoch());
        Some(SteadyState {
            mode: Axis::from_schedule(&schedule),
            concurrency: schedule.concurrency(),
            rate: schedule.rate(),
            client_limited,
            windows_ns: self.sessions.iter().map(|session| session.steady.ok().map(nanos)).collect(),
            output_tokens,
            energy: self.steady_energy(metered, output_tokens),
            figures: LoadFigures {
                itl_ms,
                requests_per_second: self.steady_rate(figures.duration_s),
                goodput: figures
                    .goodput
                    .zip(self.steady_rate(figures.duration_s))
                    .map(|(goodput, rate)| Goodput { requests_per_second: self.good_of_completed() * rate, ..goodput }),
                output_tokens_per_second: output_tokens
                    .filter(|_| figures.duration_s > 0.0)
                    .map(|tokens| tokens / figures.duration_s),
                ..figures
            },
        })
    }

    /// The share of good requests among the completed requests sent inside the steady state. Multiplied by the rate of
    /// completed requests it is the goodput; the share among all requests would count failures twice.
    fn good_of_completed(&self) -> f64 {
        let done = || self.attempts(Period::Steady).filter(|attempt| completed(attempt));
        let good = done().filter(|attempt| attempt.role == AttemptRole::Good).count();
        good as f64 / done().count().max(1) as f64
    }

    /// Completed requests per second inside the steady state, each weighted by the share of its time inside. Otherwise a
    /// window that opens when requests start together and closes when they end together would miss one per slot.
    fn steady_rate(&self, seconds: f64) -> Option<f64> {
        let share = |window: Window, attempt: &Attempt| {
            let inside = attempt.end.min(window.end()) - attempt.sent.max(window.start());
            let whole = (attempt.end - attempt.sent).get();
            if whole > 0.0 {
                (inside.get() / whole).clamp(0.0, 1.0)
            } else {
                f64::from(u8::from(window.contains(attempt.end)))
            }
        };
        let windows = self.sessions.iter().filter_map(|session| Some((session, session.steady.ok()?)));
        let shares = windows.flat_map(|(session, window)| {
            session.attempts.iter().filter(|attempt| completed(attempt)).map(move |attempt| share(window, attempt))
        });
        (seconds > 0.0).then(|| shares.sum::<f64>() / seconds)
    }

    /// Detects an open loop that sent faster than the server answered, so that latencies grew. Returns the requests sent and answered per second over
    /// the second half of the arrivals of its longest session, and the requests in flight at their end.
    pub(in crate::close) fn backlog(&self) -> Option<(f64, f64, u64)> {
        let session = self.sessions.iter().max_by_key(|session| session.attempts.len())?;
        let sent = || session.attempts.iter().filter(|attempt| attempt.is_sent()).map(|attempt| attempt.sent);
        let (first, last) = (sent().min()?, sent().max()?);
        let middle = first + (last - first) / 2.0;
        let within = |at: Timestamp| middle < at && at <= last;
        let (came, went) =
            (sent().filter(|&at| within(at)).count(), session.attempts.iter().filter(|one| within(one.end)).count());
        let in_flight = sent().count() - session.attempts.iter().filter(|one| one.is_sent() && one.end <= last).count();
        let seconds = (last - middle).get();
        let is_growing = came >= 20 && (went as f64) < 0.9 * came as f64 && came - went >= 10;
        // At the start of every run more requests are sent than answered, until the first answers are complete. In a
        // short run, that is half of the time or more.
        (self.config.schedule.concurrency().is_none() && is_growing && seconds > 0.0 && gets_slower(session))
            .then(|| (came as f64 / seconds, went as f64 / seconds, in_flight as u64))
    }

    /// Why the longest session has no steady state, if no session has one.
    fn no_steady_state(&self) -> Option<String> {
        if self.sessions.iter().any(|session| session.steady.is_ok()) {
            return None;
        }
        let longest = self.sessions.iter().max_by_key(|session| session.attempts.len());
        longest.and_then(|session| session.steady.err()).map(|reason| reason.to_string())
    }

    fn steady_energy(&self, metered: &[MeteredSession], tokens: Option<f64>) -> Option<SteadyEnergy> {
        let windows = || {
            let windows = self.sessions.iter().zip(metered);
            windows.filter_map(|(session, metered)| Some((metered, session.steady.ok()?)))
        };
        let seconds: f64 = windows().map(|(_, window)| window.length().get()).sum();
        let total = |kind: EnergyKind| {
            let each: Option<Vec<Estimate>> = windows().map(|(metered, window)| kind.gross(metered, window)).collect();
            each?.into_iter().reduce(add)
        };
        let kinds = [(EnergyKind::Measured, EnergySource::Measured), (EnergyKind::Modelled, EnergySource::Modelled)];
        let (gross, energy) = kinds.into_iter().find_map(|(kind, source)| Some((total(kind)?, source)))?;
        (seconds > 0.0).then(|| SteadyEnergy {
            gross_j: gross,
            gross_j_per_output_token: tokens.filter(|&tokens| tokens > 0.0).map(|tokens| gross.value / tokens),
            mean_power_w: gross.value / seconds,
            energy,
        })
    }

    fn figures(&self, period: Period) -> LoadFigures {
        let windows = || self.sessions.iter().filter_map(|session| Some((session, period.window(session)?)));
        let duration_s: f64 = windows().map(|(_, window)| window.length().get()).sum();
        let per_second = |count: u64| (duration_s > 0.0).then(|| count as f64 / duration_s);
        let ended = || {
            let sessions = self.sessions.iter();
            sessions.flat_map(move |session| session.attempts.iter().filter(move |one| period.holds(session, one.end)))
        };
        let done = ended().filter(|attempt| completed(attempt)).count() as u64;
        let mut failed = BTreeMap::new();
        for attempt in ended().filter(|attempt| attempt.is_record()) {
            if let Ending::Failed(kind) = attempt.ending {
                *failed.entry(kind).or_default() += 1;
            }
        }
        let of_completed = |figure: fn(&Attempt) -> Option<Seconds>| {
            self.distribution(period, move |attempt| figure(attempt).filter(|_| completed(attempt)))
        };
        LoadFigures {
            duration_s,
            requests_per_second: per_second(done),
            output_tokens_per_second: None,
            sent_per_second: self.rate(period, |attempt| attempt.sent),
            completed: done,
            failed,
            goodput: self.goodput(period, duration_s),
            in_flight: InFlight::over(windows().map(|(session, window)| (&session.in_flight, window))),
            ttft_ms: of_completed(Attempt::ttft),
            ttfo_ms: of_completed(Attempt::ttfo).filter(|_| self.has_late_output(period)),
            ttft_scheduled_ms: of_completed(Attempt::ttft_scheduled),
            itl_ms: None,
            tpot_ms: of_completed(Attempt::tpot),
            e2e_ms: of_completed(Attempt::e2e),
            // A retry has no scheduled time, and a turn of an abandoned conversation was not sent.
            schedule_lag_ms: self.distribution(period, |attempt| {
                Some(attempt.schedule_lag()).filter(|_| attempt.is_sent() && !attempt.is_repeat)
            }),
        }
    }

    /// Whether the first output of some answer was later than its first token: the token was reasoning or had no text.
    fn has_late_output(&self, period: Period) -> bool {
        self.attempts(period).any(|attempt| completed(attempt) && attempt.ttfo() != attempt.ttft())
    }

    fn goodput(&self, period: Period, seconds: f64) -> Option<Goodput> {
        let (mut good, mut all) = (0, 0);
        for attempt in self.attempts(period).filter(|attempt| attempt.is_record()) {
            good += u64::from(attempt.role == AttemptRole::Good);
            all += 1_u64;
        }
        (!self.config.slo.is_none() && all > 0 && seconds > 0.0).then(|| Goodput {
            requests_per_second: good as f64 / seconds,
            share: good as f64 / all as f64,
            good,
        })
    }

    /// The attempts sent in a period.
    fn attempts(&self, period: Period) -> impl Iterator<Item = &Attempt> {
        let sessions = self.sessions.iter();
        sessions.flat_map(move |session| session.attempts.iter().filter(move |one| period.holds(session, one.sent)))
    }

    /// The distribution of a latency over the attempts sent in a period, in milliseconds.
    fn distribution(&self, period: Period, figure: impl Fn(&Attempt) -> Option<Seconds>) -> Option<Distribution> {
        let values: Vec<f64> = self.attempts(period).filter_map(|attempt| figure(attempt).map(millis)).collect();
        Distribution::from_values(&values)
    }

    /// The rate of arrivals in a period over all sessions: (n - 1) / (last - first).
    fn rate(&self, period: Period, time: impl Fn(&Attempt) -> Timestamp) -> Option<f64> {
        let (mut gaps, mut seconds) = (0, 0.0);
        for session in &self.sessions {
            let sent = session
                .attempts
                .iter()
                .filter(|one| !one.is_repeat && one.is_sent() && period.holds(session, one.sent));
            let (mut count, mut ends) = (0_u64, None);
            for at in sent.map(&time) {
                count += 1;
                let (first, last) = ends.get_or_insert((at, at));
                (*first, *last) = (at.min(*first), at.max(*last));
            }
            gaps += count.saturating_sub(1);
            seconds += ends.map_or(0.0, |(first, last)| (last - first).get());
        }
        (seconds > 0.0).then(|| gaps as f64 / seconds)
    }
}

/// Whether requests that were sent later took clearly longer. `true` if too few requests were completed to tell.
fn gets_slower(session: &LoadSession) -> bool {
    let mut done: Vec<&Attempt> = session.attempts.iter().filter(|attempt| completed(attempt)).collect();
    done.sort_by_key(|attempt| attempt.sent);
    let (early, late) = done.split_at(done.len() / 2);
    let typical = |part: &[&Attempt]| median(part.iter().map(|attempt| (attempt.end - attempt.sent).get()));
    match (typical(early), typical(late)) {
        (Some(early), Some(late)) if done.len() >= 20 => late > 1.2 * early,
        _ => true,
    }
}

fn completed(attempt: &Attempt) -> bool {
    attempt.is_completed()
}

/// The devices that a sum covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EnergyKind {
    Measured,
    Modelled,
}

impl EnergyKind {
    /// The gross energy of a window; `None` without such a device, or if one of them has no data.
    fn gross(self, metered: &MeteredSession, window: Window) -> Option<Estimate> {
        let estimates = metered.meter.energy(window).devices;
        let places = metered.sharing.scopes().filter(|place| match self {
            Self::Measured => place.summed,
            Self::Modelled => place.provenance == Provenance::Modelled,
        });
        let mut sum = None;
        for place in places {
            let mut found =
                estimates.iter().filter(|energy| (energy.device, energy.scope) == (place.device, place.scope));
            let estimate = found.next()?.estimate.as_ref().ok()?;
            let (low, high) = (Some(estimate.low.get()), Some(estimate.high.get()));
            let figure = Estimate { value: estimate.joules.get(), low, high };
            sum = Some(sum.map_or(figure, |sum: Estimate| add(sum, figure)));
        }
        sum
    }
}

#[cfg(test)]
mod tests;
