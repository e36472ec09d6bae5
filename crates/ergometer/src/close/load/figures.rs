//! `load` in `summary.json`: latencies, rates and what is good, of the whole run and of its steady state.
//!
//! Of the steady state, counts are of requests that ended inside it; the rate takes each completed request by the share of
//! its time inside; tokens and joules are those that fell inside it; latencies and what is good are of requests sent inside.

use std::collections::{BTreeMap, BTreeSet};

use ergometer_statistics::{Distribution, Gaps};
use ergometer_telemetry::Provenance;
use ergometer_units::{Seconds, Timestamp, Window};

use super::super::session::Metered;
use super::super::totals::add;
use super::in_flight::InFlight;
use super::passage::{Connection, Ending, Passage, Standing};
use super::verdict::{Evidence, verdict};
use super::{Load, LoadSession, millis};
use ergometer_clients::{Connections, FailureKind, Locality};
use ergometer_runs::SenderFacts;
use ergometer_runs::config::Axis;
use ergometer_runs::summary::EnergySource;
use ergometer_runs::summary::{Goodput, LoadFigures, LoadSummary, SteadyEnergy, SteadyState};
use ergometer_statistics::Estimate;

/// What part of a session is looked at.
#[derive(Debug, Clone, Copy)]
enum Part {
    Whole,
    Steady,
}

impl Part {
    fn window(self, session: &LoadSession) -> Option<Window> {
        match self {
            Self::Whole => session.window,
            Self::Steady => session.steady.ok(),
        }
    }

    /// Whether a time falls into it; the end of a run is part of the run.
    fn holds(self, session: &LoadSession, at: Timestamp) -> bool {
        match self {
            Self::Whole => true,
            Self::Steady => session.steady.is_ok_and(|window| window.contains(at)),
        }
    }
}

impl Load<'_> {
    /// Puts everything together. `output_per_second` is that of the whole run.
    pub(in super::super) fn summarise(
        &mut self,
        metered: &[Metered],
        place: &Locality,
        output_per_second: Option<f64>,
    ) -> LoadSummary {
        let schedule = self.config.schedule;
        let steady_itl = Gaps::distribution(&mut [&mut self.steady_gaps]);
        let itl = Gaps::distribution(&mut [&mut self.steady_gaps, &mut self.other_gaps]);
        let whole =
            LoadFigures { itl_ms: itl, output_tokens_per_second: output_per_second, ..self.figures(Part::Whole) };
        let lines = || self.passages(Part::Whole).filter(|passage| passage.connection != Connection::Unknown);
        let is_new = |passage: &&Passage| passage.connection == Connection::New;
        let facts = metered.iter().filter_map(|session| session.loaded.events.sender.as_ref());
        let senders: Vec<&SenderFacts> = facts.collect();
        let is_open = schedule.concurrency().is_none();
        let rate_asked = self.rate(Part::Whole, |passage| passage.scheduled).filter(|_| is_open);
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
            ttft_new_connection_ms: self
                .distribution(Part::Whole, |passage| passage.ttft().filter(|_| completed(passage) && is_new(&passage))),
            steady_state: self.steady_state(metered, steady_itl, client_limited),
            steady_state_reason: self.no_steady_state(),
            whole,
        }
    }

    /// The kinds of failure there were, by name, attempts that were repeated included.
    fn failures(&self) -> Vec<String> {
        let endings = self.passages(Part::Whole).map(|passage| passage.ending);
        let kinds = endings.filter_map(|ending| match ending {
            Ending::Failed(kind) => Some(kind),
            Ending::Completed | Ending::Cancelled => None,
        });
        kinds.collect::<BTreeSet<FailureKind>>().into_iter().map(|kind| kind.to_string()).collect()
    }

    fn steady_state(
        &self,
        metered: &[Metered],
        itl_ms: Option<Distribution>,
        client_limited: bool,
    ) -> Option<SteadyState> {
        let schedule = self.config.schedule;
        let figures = self.figures(Part::Steady);
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

    /// The share of good ones among the completed requests sent inside the steady state. Times the rate, which is of
    /// completed requests, it is the rate of good ones; the share of all would count failures against them twice.
    fn good_of_completed(&self) -> f64 {
        let done = || self.passages(Part::Steady).filter(|passage| completed(passage));
        let good = done().filter(|passage| passage.standing == Standing::Good).count();
        good as f64 / done().count().max(1) as f64
    }

    /// Completed requests a second inside the steady state, each by the share of its time that lies inside: a window that
    /// opens when requests begin together and closes when they end together would else miss one of each slot.
    fn steady_rate(&self, seconds: f64) -> Option<f64> {
        let share = |window: Window, passage: &Passage| {
            let inside = passage.end.min(window.end()) - passage.sent.max(window.start());
            let whole = (passage.end - passage.sent).get();
            if whole > 0.0 {
                (inside.get() / whole).clamp(0.0, 1.0)
            } else {
                f64::from(u8::from(window.contains(passage.end)))
            }
        };
        let windows = self.sessions.iter().filter_map(|session| Some((session, session.steady.ok()?)));
        let shares = windows.flat_map(|(session, window)| {
            session.passages.iter().filter(|passage| completed(passage)).map(move |passage| share(window, passage))
        });
        (seconds > 0.0).then(|| shares.sum::<f64>() / seconds)
    }

    /// Where an open loop sent more than was answered: requests a second that were sent, and that ended, over the second half
    /// of the arrivals of its longest session, and how many were in flight at their end.
    pub(in crate::close) fn backlog(&self) -> Option<(f64, f64, u64)> {
        let session = self.sessions.iter().max_by_key(|session| session.passages.len())?;
        let sent = || session.passages.iter().filter(|passage| passage.is_sent()).map(|passage| passage.sent);
        let (first, last) = (sent().min()?, sent().max()?);
        let middle = first + (last - first) / 2.0;
        let within = |at: Timestamp| middle < at && at <= last;
        let (came, went) =
            (sent().filter(|&at| within(at)).count(), session.passages.iter().filter(|one| within(one.end)).count());
        let in_flight = sent().count() - session.passages.iter().filter(|one| one.is_sent() && one.end <= last).count();
        let seconds = (last - middle).get();
        let is_growing = came >= 20 && (went as f64) < 0.9 * came as f64 && came - went >= 10;
        (self.config.schedule.concurrency().is_none() && is_growing && seconds > 0.0)
            .then(|| (came as f64 / seconds, went as f64 / seconds, in_flight as u64))
    }

    /// The reason of the longest session, where none has a steady state.
    fn no_steady_state(&self) -> Option<String> {
        if self.sessions.iter().any(|session| session.steady.is_ok()) {
            return None;
        }
        let longest = self.sessions.iter().max_by_key(|session| session.passages.len());
        longest.and_then(|session| session.steady.err()).map(|reason| reason.to_string())
    }

    fn steady_energy(&self, metered: &[Metered], tokens: Option<f64>) -> Option<SteadyEnergy> {
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

    fn figures(&self, part: Part) -> LoadFigures {
        let windows = || self.sessions.iter().filter_map(|session| Some((session, part.window(session)?)));
        let duration_s: f64 = windows().map(|(_, window)| window.length().get()).sum();
        let per_second = |count: u64| (duration_s > 0.0).then(|| count as f64 / duration_s);
        let ended = || {
            let sessions = self.sessions.iter();
            sessions.flat_map(move |session| session.passages.iter().filter(move |one| part.holds(session, one.end)))
        };
        let done = ended().filter(|passage| completed(passage)).count() as u64;
        let mut failed = BTreeMap::new();
        for passage in ended().filter(|passage| passage.is_record()) {
            if let Ending::Failed(kind) = passage.ending {
                *failed.entry(kind).or_default() += 1;
            }
        }
        let of_completed = |figure: fn(&Passage) -> Option<Seconds>| {
            self.distribution(part, move |passage| figure(passage).filter(|_| completed(passage)))
        };
        LoadFigures {
            duration_s,
            requests_per_second: per_second(done),
            output_tokens_per_second: None,
            sent_per_second: self.rate(part, |passage| passage.sent),
            completed: done,
            failed,
            goodput: self.goodput(part, duration_s),
            in_flight: InFlight::over(windows().map(|(session, window)| (&session.in_flight, window))),
            ttft_ms: of_completed(Passage::ttft),
            ttft_scheduled_ms: of_completed(Passage::ttft_scheduled),
            itl_ms: None,
            tpot_ms: of_completed(Passage::tpot),
            e2e_ms: of_completed(Passage::e2e),
            // Nobody scheduled a repeat, and a turn that was given up was not sent.
            schedule_lag_ms: self.distribution(part, |passage| {
                Some(passage.schedule_lag()).filter(|_| passage.is_sent() && !passage.is_repeat)
            }),
        }
    }

    fn goodput(&self, part: Part, seconds: f64) -> Option<Goodput> {
        let (mut good, mut all) = (0, 0);
        for passage in self.passages(part).filter(|passage| passage.is_record()) {
            good += u64::from(passage.standing == Standing::Good);
            all += 1_u64;
        }
        (!self.config.slo.is_none() && all > 0 && seconds > 0.0).then(|| Goodput {
            requests_per_second: good as f64 / seconds,
            share: good as f64 / all as f64,
            good,
        })
    }

    /// The attempts sent in a part.
    fn passages(&self, part: Part) -> impl Iterator<Item = &Passage> {
        let sessions = self.sessions.iter();
        sessions.flat_map(move |session| session.passages.iter().filter(move |one| part.holds(session, one.sent)))
    }

    /// How something is distributed over the attempts sent in a part, in milliseconds.
    fn distribution(&self, part: Part, figure: impl Fn(&Passage) -> Option<Seconds>) -> Option<Distribution> {
        let values: Vec<f64> = self.passages(part).filter_map(|passage| figure(passage).map(millis)).collect();
        Distribution::from_values(&values)
    }

    /// (n - 1) / (last - first) of the arrivals of a part, over its sessions.
    fn rate(&self, part: Part, time: impl Fn(&Passage) -> Timestamp) -> Option<f64> {
        let (mut gaps, mut seconds) = (0, 0.0);
        for session in &self.sessions {
            let sent =
                session.passages.iter().filter(|one| !one.is_repeat && one.is_sent() && part.holds(session, one.sent));
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

fn completed(passage: &Passage) -> bool {
    passage.is_completed()
}

/// Which devices a sum runs over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EnergyKind {
    Measured,
    Modelled,
}

impl EnergyKind {
    /// The gross energy of a window; `None` where there is no such device, or one of them has no data there.
    fn gross(self, metered: &Metered, window: Window) -> Option<Estimate> {
        let estimates = metered.meter.energy(window).devices;
        let places = metered.sharing.places().filter(|place| match self {
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
