//! Computes correct answers per joule and per watt.

use ergometer_statistics::{Interval, Resampling, ratio_interval};

use super::tally::Tally;
use ergometer_runs::summary::{EnergySource, IntelligenceSummary};
use ergometer_statistics::Estimate;

/// Computes both from the tally, the gross energy with its interval, and the time.
///
/// Per joule: correct answers / gross joules over the duration of the run; a failed request is a wrong answer. Requests
/// without a record and queries without energy do not count. Per watt: the share of correct answers / mean gross power.
/// The interval is the paired bootstrap over queries in the order of sending, in blocks if several are in flight;
/// `with_meter` widens it by the interval of the meter.
pub(super) fn intelligence(
    tally: &Tally,
    gross: Estimate,
    seconds: f64,
    is_modelled: bool,
    seed: u64,
) -> Option<IntelligenceSummary> {
    if tally.graded_with_energy == 0 || gross.value <= 0.0 || seconds <= 0.0 {
        return None;
    }
    let mut pairs = tally.pairs.clone();
    pairs.sort_unstable_by_key(|&(request, ..)| request);
    let pairs: Vec<(f64, f64)> = pairs.into_iter().map(|(_, correct, joules)| (correct, joules)).collect();
    let paired: (f64, f64) = pairs.iter().fold((0.0, 0.0), |sum, pair| (sum.0 + pair.0, sum.1 + pair.1));
    let per_joule = paired.0 / gross.value;
    // The energies of requests are correlated while they are in flight together.
    let block = if tally.concurrency > 1 { 2 * tally.concurrency as usize } else { 1 };
    let resampled = ratio_interval(&pairs, Resampling { block, seed, ..Resampling::default() });
    // The pairs have the energy of the requests; the run also has the energy between them.
    let scale = paired.1 / gross.value;
    let scaled = resampled.map(|interval| Interval { low: interval.low * scale, high: interval.high * scale });
    let meter = gross.low.zip(gross.high).filter(|(low, _)| *low > 0.0);
    let stretched = scaled.zip(meter).map(|(interval, (low, high))| Interval {
        low: interval.low * gross.value / high,
        high: interval.high * gross.value / low,
    });
    // Accuracy / (joules / seconds) is per-joule x seconds / graded queries.
    let per_watt = seconds / tally.graded_with_energy as f64;
    let figure = |interval: Option<Interval>, factor: f64| Estimate {
        value: per_joule * factor,
        low: interval.map(|interval| interval.low * factor),
        high: interval.map(|interval| interval.high * factor),
    };
    Some(IntelligenceSummary {
        per_joule: figure(scaled, 1.0),
        per_joule_with_meter: Some(figure(stretched, 1.0)),
        per_watt: Some(figure(scaled, per_watt)),
        per_watt_with_meter: Some(figure(stretched, per_watt)),
        energy: Some(if is_modelled { EnergySource::Modelled } else { EnergySource::Measured }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn correct_answers_are_divided_by_the_joules_of_the_run() {
        let pairs = (0..200).map(|number| (number, f64::from(u8::from(number % 4 != 0)), 2.0)).collect();
        let tally = Tally { graded_with_energy: 200, pairs, concurrency: 1, ..Tally::default() };
        let gross = Estimate { value: 500.0, low: Some(450.0), high: Some(550.0) };
        let found = intelligence(&tally, gross, 100.0, false, 0).unwrap();
        assert!((found.per_joule.value - 0.3).abs() < 1e-12, "150 right, 500 J");
        assert!((found.per_watt.unwrap().value - 0.75 / 5.0).abs() < 1e-12, "75 % at 5 W");
        let (low, high) = (found.per_joule.low.unwrap(), found.per_joule.high.unwrap());
        assert!(low < 0.3 && 0.3 < high && high - low < 0.06, "{low} {high}");
        assert!(
            found.per_joule_with_meter.unwrap().low.unwrap() < low
                && found.per_joule_with_meter.unwrap().high.unwrap() > high
        );
        assert_eq!(found.energy, Some(EnergySource::Measured));
        assert!(intelligence(&Tally::default(), gross, 100.0, false, 0).is_none(), "nothing graded");
    }
}
