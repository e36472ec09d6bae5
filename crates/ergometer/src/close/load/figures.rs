//! `load` in `summary.json`: latencies, rates and what is good, of the whole run and of its steady state.
//!
//! Of the steady state, counts are of requests that ended inside it; the rate takes each completed request by the share of
//! its time inside; tokens and joules are those that fell inside it; latencies and what is good are of requests sent inside.

use std::collections::{BTreeMap, BTreeSet};

use ergometer_telemetry::Provenance;
use ergometer_units::{Seconds, Timestamp, Window};

use super::super::session::Metered;
use super::super::totals::Figure;
use super::in_flight::InFlight;
use super::passage::{Connection, Ending, Passage, Standing};
use super::summary::{Goodput, LoadFigures, LoadSummary, SteadyEnergy, SteadyState};
use super::verdict::{Evidence, verdict};
use super::{Load, LoadSession, millis};
use crate::client::{Connections, FailureKind, Place};
use crate::journal::SenderFacts;
use ergometer_statistics::{Distribution, Gaps};

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
        place: &Place,
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
            mode: schedule.mode(),
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
            mode: schedule.mode(),
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
            let each: Option<Vec<Figure>> = windows().map(|(metered, window)| kind.gross(metered, window)).collect();
            each?.into_iter().reduce(Figure::plus)
        };
        let kinds = [(EnergyKind::Measured, "measured"), (EnergyKind::Modelled, "modelled")];
        let (gross, energy) = kinds.into_iter().find_map(|(kind, name)| Some((total(kind)?, name)))?;
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
        Distribution::of(&values)
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
    fn gross(self, metered: &Metered, window: Window) -> Option<Figure> {
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
            let figure = Figure { value: estimate.joules.get(), low, high };
            sum = Some(sum.map_or(figure, |sum: Figure| sum.plus(figure)));
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::super::example::{Sketch, at, closed_loop, load, open_loop};
    use super::*;
    use crate::client::{Line, Protocol};
    use crate::config::{RunConfig, Slo};

    fn near(found: Option<f64>, wanted: f64) -> bool {
        found.is_some_and(|found| (found - wanted).abs() <= 1e-9 * wanted.abs())
    }

    /// Two at a time for a second: each takes 100 ms, and so does the last one alone.
    fn two_at_a_time() -> Vec<Sketch> {
        let one = |number: u32| {
            let sent = 50.0 * f64::from(number);
            Sketch { tokens: Some(2), ..Sketch::plain(u64::from(number), sent, sent + 100.0) }
        };
        (0..20).map(one).collect()
    }

    #[test]
    fn the_whole_run_by_hand() {
        let config = RunConfig { slo: Slo { e2e_s: Some(0.15), ..Slo::default() }, ..closed_loop(2) };
        let mut sketches = two_at_a_time();
        sketches[3].failure = Some(FailureKind::Truncated);
        sketches[3].tokens = None;
        sketches[5].end += 60.0;
        let found = load(&config, &sketches).summarise(&[], &Place::ThisMachine, Some(7.0));
        let whole = &found.whole;
        assert_eq!((found.mode, found.concurrency, found.rate, found.rate_asked), ("concurrency", Some(2), None, None));
        assert!(near(Some(whole.duration_s), 1.05) && near(whole.requests_per_second, 19.0 / 1.05), "{whole:?}");
        assert!(near(whole.sent_per_second, 20.0) && whole.output_tokens_per_second == Some(7.0));
        assert_eq!((whole.completed, whole.failed.clone()), (19, BTreeMap::from([(FailureKind::Truncated, 1)])));
        let goodput = whole.goodput.unwrap();
        assert_eq!(goodput.good, 18, "one failed and one took 160 ms");
        assert!(near(Some(goodput.requests_per_second), 18.0 / 1.05) && near(Some(goodput.share), 0.9));
        assert!(near(whole.in_flight.map(|found| found.mean), (20.0 * 0.1 + 0.06) / 1.05));
        assert_eq!(whole.in_flight.unwrap().max, 3);
        assert_eq!((whole.e2e_ms.unwrap().count, whole.schedule_lag_ms.unwrap().count), (19, 20));
        assert!(near(whole.e2e_ms.map(|e2e| e2e.max), 160.0));
        assert_eq!(
            (found.connections, found.requests_on_new_connections, found.ttft_new_connection_ms),
            (None, None, None)
        );
    }

    #[test]
    fn a_closed_loop_is_steady_while_it_is_full() {
        let found = load(&closed_loop(2), &two_at_a_time()).summarise(&[], &Place::ThisMachine, None);
        let steady = found.steady_state.unwrap();
        assert_eq!(found.steady_state_reason, None);
        let nanos = |millis: f64| at(millis).nanos_since_epoch();
        assert_eq!(
            steady.windows_ns,
            [Some((nanos(50.0), nanos(1000.0)))],
            "from the second sent to the last but one's end"
        );
        let figures = &steady.figures;
        assert!(near(Some(figures.duration_s), 0.95) && near(figures.in_flight.map(|found| found.mean), 2.0));
        assert_eq!(figures.e2e_ms.unwrap().count, 19, "all but the first were sent inside");
        assert_eq!(figures.completed, 18, "the last but one ended at its end, the last after it");
        assert!(near(steady.output_tokens, 36.0) && near(figures.output_tokens_per_second, 36.0 / 0.95));
        assert!(steady.energy.is_none());
    }

    #[test]
    fn failures_do_not_count_twice_against_what_is_good() {
        let config = RunConfig { slo: Slo { e2e_s: Some(0.15), ..Slo::default() }, ..closed_loop(2) };
        let mut sketches = two_at_a_time();
        for place in [4, 7, 8, 11] {
            (sketches[place].failure, sketches[place].tokens) = (Some(FailureKind::Truncated), None);
        }
        let found = load(&config, &sketches).summarise(&[], &Place::ThisMachine, None).steady_state.unwrap().figures;
        let goodput = found.goodput.unwrap();
        assert_eq!((goodput.good, goodput.share), (15, 15.0 / 19.0));
        assert_eq!(Some(goodput.requests_per_second), found.requests_per_second, "all that completed are good");
    }

    #[test]
    fn an_open_loop_is_steady_from_the_median_answer_to_the_last_arrival() {
        // Every 100 ms for 2 s; each takes 300 ms, sends a chunk after 100 and one after 300 ms, and is sent 10 ms late.
        let one = |number: u32| {
            let due = 100.0 * f64::from(number);
            let sketch = Sketch::plain(u64::from(number), due, due + 310.0);
            Sketch { sent: due + 10.0, tokens: Some(6), ..sketch }
        };
        let sketches: Vec<Sketch> = (0..21).map(one).collect();
        let config = open_loop(10.0);
        let found = load(&config, &sketches).summarise(&[], &Place::ThisMachine, None);
        assert!(near(found.rate_asked, 10.0) && near(found.whole.sent_per_second, 10.0) && found.rate == Some(10.0));
        let steady = found.steady_state.unwrap();
        let nanos = |millis: f64| at(millis).nanos_since_epoch();
        assert_eq!(steady.windows_ns, [Some((nanos(300.0), nanos(2000.0)))]);
        assert_eq!(steady.figures.e2e_ms.unwrap().count, 17, "sent at 310 to 1910");
        assert_eq!(steady.figures.completed, 17, "ended at 310 to 1910");
        assert!(near(steady.figures.ttft_scheduled_ms.map(|ttft| ttft.p50), 310.0));
        assert!(near(steady.figures.schedule_lag_ms.map(|lag| lag.max), 10.0));
        let ramped = RunConfig { ramp_s: 0.5, ..config };
        let steady = load(&ramped, &sketches).summarise(&[], &Place::ThisMachine, None).steady_state.unwrap();
        assert_eq!(steady.windows_ns, [Some((nanos(800.0), nanos(2000.0)))], "the ramp is not steady");
    }

    #[test]
    fn what_is_not_steady_says_why() {
        let reason = |config: RunConfig, sketches: &[Sketch]| {
            let found = load(&config, sketches).summarise(&[], &Place::ThisMachine, None);
            assert!(found.steady_state.is_none());
            found.steady_state_reason.unwrap()
        };
        assert_eq!(reason(closed_loop(4), &two_at_a_time()), "there were never more than 2 in flight; it begins at 4");
        assert!(reason(closed_loop(2), &two_at_a_time()[..9]).starts_with("it has 8 completed requests"));
        assert!(reason(open_loop(1.0), &two_at_a_time()[..2]).contains("shorter time than a median answer"));
        let failed = Sketch { failure: Some(FailureKind::Connect), ..Sketch::plain(0, 0.0, 1.0) };
        assert_eq!(reason(open_loop(1.0), &[failed]), "no request completed");
        let whole = load(&open_loop(1.0), &[failed]).summarise(&[], &Place::ThisMachine, None).whole;
        assert_eq!((whole.sent_per_second, whole.e2e_ms, whole.completed), (None, None, 0));
    }

    #[test]
    fn a_conversation_is_open_while_its_human_thinks() {
        // Two conversations of 20 turns of 10 ms, each followed by 30 ms of thought: never two requests at once.
        let turn = |number: u32| {
            let sent = 20.0 * f64::from(number);
            Sketch { conversation: Some(u64::from(number % 2)), ..Sketch::plain(u64::from(number), sent, sent + 10.0) }
        };
        let sketches: Vec<Sketch> = (0..40).map(turn).collect();
        let found = load(&closed_loop(2), &sketches).summarise(&[], &Place::ThisMachine, None);
        assert_eq!(found.whole.in_flight.unwrap().max, 1);
        let nanos = |millis: f64| at(millis).nanos_since_epoch();
        assert_eq!(found.steady_state.unwrap().windows_ns, [Some((nanos(20.0), nanos(770.0)))]);
    }

    #[test]
    fn gaps_are_pooled_over_completed_requests() {
        let answer = |index, chunks, end| Sketch { chunks, ..Sketch::plain(index, 0.0, end) };
        let failed = Sketch { failure: Some(FailureKind::Truncated), ..answer(2, &[1.0, 900.0], 901.0) };
        let whole = Sketch { is_whole: true, ..answer(3, &[5.0], 6.0) };
        let sketches = [answer(0, &[10.0, 11.0, 13.0], 14.0), answer(1, &[2.0, 5.0], 6.0), failed, whole];
        let found = load(&closed_loop(1), &sketches).summarise(&[], &Place::ThisMachine, None).whole;
        let itl = found.itl_ms.unwrap();
        assert_eq!((itl.count, itl.min, itl.p50, itl.max), (3, 1.0, 2.0, 3.0));
        assert_eq!((found.ttft_ms.unwrap().count, found.e2e_ms.unwrap().count), (2, 3));
    }

    #[test]
    fn an_attempt_that_is_repeated_is_sent_once_and_in_flight_twice() {
        let first =
            Sketch { failure: Some(FailureKind::HttpStatus(503)), is_retried: true, ..Sketch::plain(0, 0.0, 100.0) };
        let sketches = [first, Sketch::plain(0, 900.0, 1000.0), Sketch::plain(1, 500.0, 1000.0)];
        let found = load(&open_loop(2.0), &sketches).summarise(&[], &Place::ThisMachine, None);
        assert!(near(found.rate_asked, 2.0) && near(found.whole.sent_per_second, 2.0), "{found:?}");
        assert_eq!((found.whole.completed, found.whole.failed.len()), (2, 0));
        assert!(near(found.whole.in_flight.map(|found| found.mean), 0.7));
        assert_eq!(found.whole.schedule_lag_ms.unwrap().count, 2, "nobody scheduled the second attempt");
        let waited = found.whole.ttft_scheduled_ms.unwrap();
        assert!(waited.max >= 900.0, "its user waited from the first: {waited:?}");
        let slow = Sketch::plain(2, 600.0, 5000.0);
        let crowd: Vec<Sketch> = (0..61)
            .map(|number| Sketch { index: number, ..Sketch::plain(number, 10.0 * number as f64, 5000.0) })
            .collect();
        let found = load(&open_loop(100.0), &crowd).backlog().unwrap();
        assert!(near(Some(found.0), 100.0) && found.1 == 0.0 && found.2 == 61, "{found:?}");
        assert_eq!(load(&closed_loop(60), &crowd).backlog(), None, "a closed loop waits");
        assert_eq!(load(&open_loop(2.0), &[slow]).backlog(), None);
    }

    #[test]
    fn new_connections_are_told_apart() {
        let line = |connect| Some(Line { protocol: Protocol::Http1, connect, waited: None });
        let new = Sketch { line: line(Some(Seconds::from_millis(4.0))), ..Sketch::plain(0, 0.0, 30.0) };
        let old = Sketch { line: line(None), ..Sketch::plain(1, 0.0, 10.0) };
        let found = load(&closed_loop(2), &[new, old]).summarise(&[], &Place::ThisMachine, None);
        assert_eq!(found.requests_on_new_connections, Some(1));
        assert!(near(found.ttft_new_connection_ms.map(|ttft| ttft.p50), 30.0));
        let found = load(&closed_loop(2), &[old]).summarise(&[], &Place::ThisMachine, None);
        assert_eq!((found.requests_on_new_connections, found.ttft_new_connection_ms), (Some(0), None));
    }
}
