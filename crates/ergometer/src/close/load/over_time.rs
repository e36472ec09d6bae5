//! Writes `analysis/load.json`: the load over time, in at most 600 bins of a second or more.
//!
//! Each attempt counts in the bin in which it was due, in the bin in which it was sent and in the bin in which it ended.
//! Each chunk counts in one bin with its share of the tokens of the answer. So the bins sum to the run.

use std::path::Path;

use ergometer_runs::Exchange;
use ergometer_runs::load_over_time::{BinTail, LoadBin, LoadOverTime, SessionSpan};
use ergometer_statistics::Distribution;
use ergometer_units::{Seconds, Timestamp, Window};

use super::super::CloseError;
use super::attempt::{Attempt, Ending};
use super::{Load, LoadSession, millis};

/// The most bins: a plot shows no more.
const MOST_BINS: u64 = 600;
/// The widths of bins, in seconds; wider ones are multiples of the last.
const WIDTHS: [u32; 13] = [1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600];

/// The bins of a session, and the tokens in each.
#[derive(Debug)]
pub(super) struct Bins {
    start: Timestamp,
    /// The end of the last bin.
    end: Timestamp,
    width: Seconds,
    tokens: Vec<f64>,
}

impl Bins {
    pub(super) fn new(start: Timestamp, end: Timestamp, width: Seconds) -> Self {
        let count = usize::try_from(bins_in(end - start, width)).unwrap_or(usize::MAX);
        Self { start, end, width, tokens: vec![0.0; count] }
    }

    /// The index of the bin of a time; times outside count in the first or the last bin.
    fn place(&self, at: Timestamp) -> usize {
        let after = at.nanos_since_epoch().saturating_sub(self.start.nanos_since_epoch()).max(0);
        let place = after / self.width.as_nanos().max(1);
        usize::try_from(place).unwrap_or(usize::MAX).min(self.tokens.len() - 1)
    }

    fn window(&self, place: usize) -> Window {
        let edge = |place: usize| (self.start + Seconds::new(self.width.get() * place as f64)).min(self.end);
        Window::between(edge(place), edge(place + 1))
    }

    /// Spreads the tokens of an answer over its chunks; an answer without chunks counts at its end.
    pub(super) fn add_tokens(&mut self, exchange: &Exchange) {
        let Some(usage) = exchange.transcript.usage else { return };
        let chunks = &exchange.transcript.chunks;
        if chunks.is_empty() {
            let place = self.place(exchange.end);
            self.tokens[place] += usage.output as f64;
        }
        let each = usage.output as f64 / chunks.len().max(1) as f64;
        for chunk in chunks {
            let place = self.place(chunk.at);
            self.tokens[place] += each;
        }
    }
}

/// The number of bins of a period, at least one.
fn bins_in(length: Seconds, width: Seconds) -> u64 {
    let (length, width) = (length.as_nanos().max(0).unsigned_abs(), width.as_nanos().max(1).unsigned_abs());
    length.div_ceil(width).max(1)
}

/// The narrowest width that gives sessions of these lengths at most [`MOST_BINS`] bins.
pub(super) fn width(lengths: &[Seconds]) -> Seconds {
    let fits = |width: &Seconds| {
        let bins: u64 = lengths.iter().map(|&length| bins_in(length, *width)).sum();
        // Each session has at least one bin.
        bins <= MOST_BINS.max(lengths.len() as u64)
    };
    let last = WIDTHS[WIDTHS.len() - 1];
    let widths = WIDTHS.into_iter().chain((2..).map(|times: u32| times.saturating_mul(last)));
    let mut widths = widths.map(|seconds| Seconds::new(f64::from(seconds)));
    widths.find(|width| fits(width) || width.get() >= f64::from(u32::MAX)).unwrap_or(Seconds::new(1.0))
}

impl Load<'_> {
    /// Writes `analysis/load.json`. `numbers` are the numbers of the sessions.
    pub(in super::super) fn write_over_time(&mut self, folder: &Path, numbers: &[u32]) -> Result<(), CloseError> {
        Ok(self.over_time(numbers).write(folder)?)
    }

    fn over_time(&mut self, numbers: &[u32]) -> LoadOverTime {
        let width = self.sessions.iter().find_map(|session| session.bins.as_ref()).map(|bins| bins.width);
        let mut found = LoadOverTime {
            format_version: LoadOverTime::VERSION,
            bin_s: width.map_or(1.0, Seconds::get),
            sessions: Vec::new(),
            bins: Vec::new(),
        };
        for (session, &number) in self.sessions.iter_mut().zip(numbers) {
            let Some(bins) = &session.bins else { continue };
            let since = |at: Timestamp| (at - bins.start).get();
            found.sessions.push(SessionSpan {
                session: number,
                start_ns: bins.start.nanos_since_epoch(),
                duration_s: since(bins.end),
                steady_state_s: session.steady.ok().map(|window| (since(window.start()), since(window.end()))),
            });
            found.bins.extend(session.over_time(number));
        }
        found
    }
}

impl LoadSession {
    /// The bins in order of time. Sorts the attempts by when they were sent.
    fn over_time(&mut self, number: u32) -> Vec<LoadBin> {
        let Some(bins) = &self.bins else { return Vec::new() };
        let mut found: Vec<LoadBin> = (0..bins.tokens.len())
            .map(|place| LoadBin {
                session: number,
                start_s: bins.width.get() * place as f64,
                output_tokens: bins.tokens[place],
                ..LoadBin::default()
            })
            .collect();
        for &(sent, _) in &self.lost {
            let bin = &mut found[bins.place(sent)];
            (bin.scheduled, bin.sent) = (bin.scheduled + 1, bin.sent + 1);
        }
        for attempt in &self.attempts {
            if attempt.is_sent() {
                found[bins.place(attempt.scheduled)].scheduled += 1;
                found[bins.place(attempt.sent)].sent += 1;
            }
            let ended = &mut found[bins.place(attempt.end)];
            match attempt.ending {
                Ending::Completed => ended.completed += u64::from(attempt.is_record()),
                Ending::Failed(_) if attempt.is_record() => ended.failed += 1,
                Ending::Failed(_) => ended.retried += 1,
                Ending::Cancelled => {}
            }
        }
        for (stretch, count) in self.in_flight.stretches(Window::between(bins.start, bins.end)) {
            let (first, last) = (bins.place(stretch.start()), bins.place(stretch.end()));
            for (place, bin) in (first..).zip(&mut found[first..=last]) {
                let window = bins.window(place);
                let (from, to) = (stretch.start().max(window.start()), stretch.end().min(window.end()));
                if from < to {
                    bin.in_flight += count as f64 * ((to - from) / window.length());
                    bin.in_flight_max = bin.in_flight_max.max(count);
                }
            }
        }
        self.attempts.sort_unstable_by_key(|attempt| attempt.sent);
        for sent_together in self.attempts.chunk_by(|one, other| bins.place(one.sent) == bins.place(other.sent)) {
            let Some(first) = sent_together.first() else { continue };
            let bin = &mut found[bins.place(first.sent)];
            bin.schedule_lag_ms = tail(sent_together, |attempt| Some(attempt.schedule_lag()));
            bin.ttft_ms = tail(sent_together, |attempt| attempt.ttft().filter(|_| attempt.is_completed()));
        }
        found
    }
}

fn tail(attempts: &[Attempt], figure: impl Fn(&Attempt) -> Option<Seconds>) -> Option<BinTail> {
    let values: Vec<f64> = attempts.iter().filter_map(|attempt| figure(attempt).map(millis)).collect();
    Distribution::from_values(&values).map(|found| BinTail { p50: found.p50, p99: found.p99, max: found.max })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::example::{Sketch, load, open_loop};
    use super::*;
    use ergometer_clients::{FailureKind, Locality};

    #[test]
    fn two_bins_by_hand() {
        let failed = Sketch { failure: Some(FailureKind::Empty), ..Sketch::plain(1, 500.0, 1500.0) };
        let late = Sketch {
            scheduled: 900.0,
            sent: 1100.0,
            chunks: &[1200.0, 1900.0],
            end: 2000.0,
            tokens: Some(10),
            index: 2,
            ..Sketch::default()
        };
        let sketches = [
            Sketch { tokens: Some(4), chunks: &[100.0, 200.0, 990.0, 1010.0], ..Sketch::plain(0, 0.0, 1020.0) },
            failed,
            late,
        ];
        let config = open_loop(1.0);
        let found = load(&config, &sketches).over_time(&[3]);
        assert_eq!((found.bin_s, found.bins.len(), found.sessions[0].duration_s), (1.0, 2, 2.0));
        let [one, two] = &found.bins[..] else { panic!("{found:?}") };
        let counts = |bin: &LoadBin| (bin.scheduled, bin.sent, bin.completed, bin.failed);
        assert_eq!((counts(one), counts(two)), ((3, 2, 0, 0), (0, 1, 2, 1)));
        assert!((one.in_flight - 1.5).abs() < 1e-9 && (two.in_flight - 1.42).abs() < 1e-9, "{one:?} {two:?}");
        assert_eq!((one.in_flight_max, two.in_flight_max, one.session, two.start_s), (2, 2, 3, 1.0));
        assert!((one.output_tokens - 3.0).abs() < 1e-9 && (two.output_tokens - 11.0).abs() < 1e-9);
        assert!((two.schedule_lag_ms.unwrap().max - 200.0).abs() < 1e-9 && one.schedule_lag_ms.unwrap().max == 0.0);
        assert!((two.ttft_ms.unwrap().p50 - 100.0).abs() < 1e-9 && one.ttft_ms.unwrap().p99.is_none());
    }

    #[test]
    fn there_are_never_too_many_bins() {
        let width = |seconds: &[f64]| {
            super::width(&seconds.iter().map(|&length| Seconds::new(length)).collect::<Vec<_>>()).get()
        };
        assert_eq!((width(&[]), width(&[0.0]), width(&[600.0]), width(&[600.1])), (1.0, 1.0, 1.0, 2.0));
        assert_eq!((width(&[500.0, 500.0]), width(&[4e6]), width(&[1e-9; 700])), (2.0, 7200.0, 1.0));
    }

    proptest! {
        #[test]
        fn the_bins_sum_to_the_run(
            rows in prop::collection::vec((0.0_f64..5000.0, 0.0_f64..300.0, 0.0_f64..4000.0, 0_u8..4, 0_u64..50), 1..60),
        ) {
            let sketches: Vec<Sketch> = (0..).zip(&rows).map(|(index, &(due, lag, length, fate, tokens))| Sketch {
                index,
                scheduled: due,
                sent: due + lag,
                end: due + lag + length,
                tokens: (fate != 0).then_some(tokens),
                failure: (fate < 2).then_some(FailureKind::MidStream),
                is_retried: fate == 0,
                ..Sketch::default()
            }).collect();
            let config = open_loop(1.0);
            let mut load = load(&config, &sketches);
            let whole = load.summarise(&[], &Locality::ThisMachine, None).whole;
            let found = load.over_time(&[0]);
            let sum = |figure: fn(&LoadBin) -> u64| found.bins.iter().map(figure).sum::<u64>();
            prop_assert_eq!((sum(|bin| bin.scheduled), sum(|bin| bin.sent)), (rows.len() as u64, rows.len() as u64));
            prop_assert_eq!(sum(|bin| bin.completed), whole.completed);
            prop_assert_eq!(sum(|bin| bin.failed), whole.failed.values().sum::<u64>());
            prop_assert_eq!(sum(|bin| bin.retried), rows.iter().filter(|row| row.3 == 0).count() as u64);
            let tokens: f64 = found.bins.iter().map(|bin| bin.output_tokens).sum();
            let wanted: u64 = rows.iter().filter(|row| row.3 != 0).map(|row| row.4).sum();
            prop_assert!((tokens - wanted as f64).abs() < 1e-6);
            let bins = load.sessions[0].bins.as_ref().unwrap();
            let area: f64 = found.bins.iter().enumerate().map(|(place, bin)| bin.in_flight * bins.window(place).length().get()).sum();
            let wanted: f64 = rows.iter().map(|row| row.2 / 1e3).sum();
            prop_assert!((area - wanted).abs() < 1e-6 * (1.0 + wanted), "{area} {wanted}");
            let most = found.bins.iter().map(|bin| bin.in_flight_max).max();
            prop_assert_eq!(most, whole.in_flight.map(|found| found.max).or(Some(0)));
        }
    }
}
