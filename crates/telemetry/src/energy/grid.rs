//! Finds the regular clock behind irregular timestamps.
//!
//! A driver updates its counter and samples its power at a steady period, but timestamps are late: on an H200 the
//! counter steps every 100.000 ms and the power ring every 20.000 ms, while timestamps and reads scatter by several
//! milliseconds. The input is timestamps; the output is the clock, or `None` if they do not fit one.

use super::observations::median_spacing;

/// A steady clock: ticks at `phase + n · period`, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Grid {
    pub(super) period: f64,
    pub(super) phase: f64,
}

/// The minimum share of intervals that contain a tick of the grid.
const MIN_SHARE: f64 = 0.9;

/// The minimum number of intervals for a grid.
const MIN_INTERVALS: usize = 20;

impl Grid {
    /// The tick nearest to `at`.
    pub(super) fn nearest(self, at: f64) -> f64 {
        self.phase + ((at - self.phase) / self.period).round() * self.period
    }

    /// The last tick before `at`, or a tick up to a fifth of a period later, because a few timestamps are early.
    pub(super) fn at_or_before(self, at: f64) -> f64 {
        self.phase + ((at - self.phase) / self.period + 0.2).floor() * self.period
    }

    /// The clock whose ticks lie in the intervals `(after, at]`, each of which contains a step of a counter.
    pub(super) fn from_intervals(intervals: &[(f64, f64)]) -> Option<Self> {
        if intervals.len() < MIN_INTERVALS {
            return None;
        }
        let middles: Vec<f64> = intervals.iter().map(|&(after, at)| f64::midpoint(after, at)).collect();
        let guess = median_spacing(&middles)?;
        let period = fit_period(&middles, guess)?;
        // Sweep over the phases (modulo the period, from the first interval's middle) for the one in most intervals.
        let origin = middles[0] - period / 2.0;
        let mut ends: Vec<(f64, i32)> = Vec::with_capacity(2 * intervals.len());
        for &(after, at) in intervals {
            if at - after >= period {
                continue;
            }
            let start = (after - origin).rem_euclid(period);
            let end = start + (at - after);
            ends.push((start, 1));
            ends.push((end.min(period), -1));
            if end > period {
                ends.push((0.0, 1));
                ends.push((end - period, -1));
            }
        }
        ends.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)));
        let (mut depth, mut deepest, mut range) = (0, 0, (0.0, 0.0));
        for (index, &(phase, change)) in ends.iter().enumerate() {
            depth += change;
            if depth > deepest {
                deepest = depth;
                range = (phase, ends.get(index + 1).map_or(phase, |next| next.0));
            }
        }
        let fits = f64::from(deepest) >= MIN_SHARE * intervals.len() as f64;
        fits.then_some(Self { period, phase: origin + f64::midpoint(range.0, range.1) })
    }

    /// The clock of samples whose timestamps are on time or late. Most timestamps have about the phase of the clock.
    pub(super) fn from_late_stamps(stamps: &[f64]) -> Option<Self> {
        if stamps.len() < 5 * MIN_INTERVALS {
            return None;
        }
        let guess = median_spacing(stamps)?;
        let mut best: Option<(usize, Self)> = None;
        // The period of a driver's timer is a whole number of milliseconds; the two clocks differ by up to 60 ppm.
        let round = (guess * 1e3).round() / 1e3;
        for step in -30..=30 {
            let period = round * (1.0 + f64::from(step) * 2e-6);
            let (count, phase) = densest_phase(stamps, period);
            if best.as_ref().is_none_or(|&(most, _)| count > most) {
                best = Some((count, Self { period, phase }));
            }
        }
        // Random timestamps put a tenth of themselves into a tenth of a period, those of a clock far more.
        best.filter(|&(count, _)| count as f64 >= 0.4 * stamps.len() as f64).map(|(_, grid)| grid)
    }
}

/// The period: the slope of a least-squares line through the times as a function of their tick number.
fn fit_period(times: &[f64], guess: f64) -> Option<f64> {
    let mut period = guess;
    for _ in 0..4 {
        let (mut count, mut sum_tick, mut sum_time, mut sum_square, mut sum_product) = (0.0, 0.0, 0.0, 0.0, 0.0);
        let mut tick = 0.0;
        for pair in times.windows(2) {
            // Counting ticks between neighbours keeps errors of the guess from accumulating.
            tick += ((pair[1] - pair[0]) / period).round();
            let time = pair[1] - times[0];
            count += 1.0;
            sum_tick += tick;
            sum_time += time;
            sum_square += tick * tick;
            sum_product += tick * time;
        }
        let spread = count * sum_square - sum_tick * sum_tick;
        if spread <= 0.0 {
            return None;
        }
        period = (count * sum_product - sum_tick * sum_time) / spread;
        if period.is_nan() || period <= 0.0 {
            return None;
        }
    }
    Some(period)
}

/// The tenth of a period that holds most timestamps: their number and the phase of its middle.
fn densest_phase(stamps: &[f64], period: f64) -> (usize, f64) {
    const BINS: usize = 40;
    let origin = stamps[0];
    let mut histogram = [0_usize; BINS];
    for stamp in stamps {
        let position = ((stamp - origin) / period).rem_euclid(1.0) * BINS as f64;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 <= position <= BINS")]
        let bin = (position as usize).min(BINS - 1);
        histogram[bin] += 1;
    }
    let width = BINS / 10;
    let (count, bin) = (0..BINS)
        .map(|bin| ((0..width).map(|next| histogram[(bin + next) % BINS]).sum::<usize>(), bin))
        .max_by_key(|&(count, _)| count)
        .unwrap_or((0, 0));
    (count, origin + (bin as f64 + width as f64 / 2.0) / BINS as f64 * period)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pseudo-random number in 0..1, the same on every machine.
    fn scatter(index: u32) -> f64 {
        f64::from(index.wrapping_mul(2_654_435_761) >> 8) / f64::from(1_u32 << 24)
    }

    #[test]
    fn finds_the_clock_of_a_counter_from_wide_read_intervals() {
        let intervals: Vec<(f64, f64)> = (0..600)
            .filter(|index| index % 17 != 3)
            .map(|index| {
                let tick = 5.0203 + 0.099_999_8 * f64::from(index);
                (tick - 0.001 - 0.010 * scatter(index), tick + 0.001 + 0.015 * scatter(index + 1000))
            })
            .collect();
        let grid = Grid::from_intervals(&intervals).unwrap();
        assert!((grid.period - 0.099_999_8).abs() < 1e-6, "{grid:?}");
        let tick = 5.0203 + 0.099_999_8 * 300.0;
        assert!((grid.nearest(tick) - tick).abs() < 0.0015, "{grid:?}");
    }

    #[test]
    fn finds_no_clock_in_irregular_steps() {
        let mut at = 0.0;
        let intervals: Vec<(f64, f64)> = (0..400)
            .map(|index| {
                at += 0.05 + 0.1 * scatter(index);
                (at - 0.004, at + 0.004)
            })
            .collect();
        assert_eq!(Grid::from_intervals(&intervals), None);
        let stamps: Vec<f64> = intervals.iter().map(|interval| interval.0).collect();
        assert_eq!(Grid::from_late_stamps(&stamps), None);
    }

    #[test]
    fn corrects_late_timestamps() {
        let late = |index: u32| if index.is_multiple_of(7) { 0.011 } else { 0.0008 * scatter(index) };
        let stamps: Vec<f64> = (0..2000).map(|index| 3.3 + 0.02 * f64::from(index) + late(index)).collect();
        let grid = Grid::from_late_stamps(&stamps).unwrap();
        for (index, &stamp) in (0..2000).zip(&stamps) {
            let truth = 3.3 + 0.02 * f64::from(index);
            assert!((grid.at_or_before(stamp) - truth).abs() < 0.0015, "{index}: {} {truth}", grid.at_or_before(stamp));
        }
    }
}
