//! Predicts when the energy counter steps next, and so how long to wait before the next read.
//!
//! An H200 steps its counter every 99.9998 ms with a constant phase (measured), and a read blocks for 3-5 ms. So the
//! regular grid of steps is learned, and the counter is read only around the next expected step.
//!
//! Each observed step is an interval: from the start of the last read with the old value to the end of the first read
//! with the new value. The period and the last step are known as lower and upper bounds, and each new step narrows
//! them. A step that contradicts the bounds means that the grid has moved: then reads are at even intervals until it is
//! learned again.

use std::time::{Duration, Instant};

use ergometer_units::Seconds;

/// The wait between reads while the grid is unknown.
const EVEN_WAIT: Duration = Duration::from_millis(5);
/// The interval of the reads around an expected step, unless a read takes longer.
const NEAR_PERIOD: Duration = Duration::from_millis(5);
/// The shortest wait, so that slow reads do not become a busy loop.
const LEAST_WAIT: Duration = Duration::from_micros(500);
/// How long before the earliest expected step the reads begin. One whole read must still return the old value;
/// otherwise the step is only known within a whole period. In a simulation with read times recorded on an H200, a lead
/// of 8 ms has more than one such step in ten and 2.5 reads per step; 16 ms has fewer than one in twenty and 3.5 reads
/// per step. Reads at even intervals need 12.6 per step.
const LEAD: Seconds = Seconds::new(0.016);
/// How far a step may deviate from the grid.
const JITTER: Seconds = Seconds::new(0.001);
/// A read that begins this long after the latest expected step and returns the old value disproves the grid.
const OVERDUE: Seconds = Seconds::new(0.010);
/// A wider interval is not used for learning, because it may contain two steps. Slow reads take up to 35 ms.
const WIDEST_LEARNED: Seconds = Seconds::new(0.045);
/// How many consecutive steps make a grid, and how accurate its period must be then.
const STEPS_TO_LEARN: u32 = 4;
const PERIOD_KNOWN_TO: Seconds = Seconds::new(0.015);
/// For a shorter period, reads at even intervals are as good.
const LEAST_PERIOD: Seconds = Seconds::new(0.040);
/// The period is refined over this many steps (a minute, to about 30 us). Over more steps the drift of the clocks
/// matters.
const STEPS_TO_REFINE: u32 = 600;

/// How many consecutive steps are read before some are skipped.
const STEPS_TO_TRUST: u32 = 20;
/// The shortest certain time between two steps that is enough for a read. The slowest reads take 35 ms.
const LEAST_ROOM: Seconds = Seconds::new(0.040);

/// The lower and upper bound of a time or a duration.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Span {
    low: Seconds,
    high: Seconds,
}

impl Span {
    fn width(self) -> Seconds {
        self.high - self.low
    }

    fn intersect(self, other: Self) -> Option<Self> {
        let both = Self { low: self.low.max(other.low), high: self.high.min(other.high) };
        (both.low <= both.high).then_some(both)
    }

    fn after(self, steps: u32, period: Self) -> Self {
        let steps = f64::from(steps);
        Self { low: self.low + period.low * steps, high: self.high + period.high * steps }
    }

    /// The period, if this step came `steps` after the step in `first`.
    fn period_since(self, first: Self, steps: u32) -> Self {
        let steps = f64::from(steps);
        Self { low: (self.low - first.high) / steps, high: (self.high - first.low) / steps }
    }
}

/// A sequence of consecutive steps.
#[derive(Debug, Clone, Copy)]
struct StepSequence {
    first: Span,
    last: Span,
    steps: u32,
    period: Option<Span>,
}

impl StepSequence {
    const fn from(step: Span) -> Self {
        Self { first: step, last: step, steps: 0, period: None }
    }

    /// The sequence with the next step, or `None` if the step does not fit.
    fn with_next(self, step: Span) -> Option<Self> {
        let steps = self.steps + 1;
        let observed = step.period_since(self.first, steps);
        let period = self.period.map_or(Some(observed), |period| period.intersect(observed))?;
        Some(Self { first: self.first, last: step, steps, period: Some(period) })
    }

    /// The period, if the sequence is long and accurate enough to be a grid.
    fn grid_period(&self) -> Option<Span> {
        let period = self.period?;
        let known = self.steps >= STEPS_TO_LEARN && period.width() <= PERIOD_KNOWN_TO && period.low >= LEAST_PERIOD;
        known.then_some(period)
    }
}

#[derive(Debug, Clone, Copy)]
enum Knowledge {
    Nothing,
    Learning(StepSequence),
    Grid { run: StepSequence, period: Span },
}

/// The known part of the grid of a counter's steps.
#[derive(Debug)]
pub(super) struct EdgeGrid {
    base: Instant,
    knowledge: Knowledge,
}

impl EdgeGrid {
    /// An unknown grid. Times are stored as seconds since `base`.
    pub(super) const fn new(base: Instant) -> Self {
        Self { base, knowledge: Knowledge::Nothing }
    }

    /// Discards the learned grid.
    pub(super) const fn forget(&mut self) {
        self.knowledge = Knowledge::Nothing;
    }

    /// Notes a step between two instants.
    pub(super) fn note_step(&mut self, after: Instant, at: Instant) {
        let step = Span { low: self.seconds(after) - JITTER, high: self.seconds(at) + JITTER };
        let fitting = match self.knowledge {
            Knowledge::Nothing => None,
            Knowledge::Learning(run) => learn(run, step),
            Knowledge::Grid { run, period } => track(run, period, step),
        };
        self.knowledge = fitting.unwrap_or_else(|| {
            if step.width() > WIDEST_LEARNED {
                Knowledge::Nothing
            } else {
                Knowledge::Learning(StepSequence::from(step))
            }
        });
    }

    /// Notes a read that began at `start` and returned the old value.
    pub(super) fn note_unchanged(&mut self, start: Instant) {
        if let Knowledge::Grid { run, period } = self.knowledge
            && self.seconds(start) > run.last.after(1, period).high + OVERDUE
        {
            self.forget();
        }
    }

    /// How long to wait after a read that began at `start` and ended at `end`.
    pub(super) fn wait(&self, start: Instant, end: Instant) -> Duration {
        let Knowledge::Grid { run, period } = self.knowledge else { return EVEN_WAIT };
        let until_near = run.last.after(1, period).low - LEAD - self.seconds(end);
        Duration::try_from_secs_f64(until_near.get())
            .ok()
            .filter(|wait| *wait > LEAST_WAIT)
            .unwrap_or_else(|| NEAR_PERIOD.saturating_sub(end.saturating_duration_since(start)).max(LEAST_WAIT))
    }

    /// Advances the last step to the latest one that is certainly before `now`.
    pub(super) fn advance_to(&mut self, now: Instant) {
        let now = self.seconds(now);
        if let Knowledge::Grid { run, period } = &mut self.knowledge {
            let steps = whole_steps((now - run.last.high) / period.high);
            run.last = run.last.after(steps, *period);
            run.steps = run.steps.saturating_add(steps);
        }
    }

    /// The earliest and the latest time of the last step before a read, if the read is certainly between two steps.
    pub(super) fn step_behind(&self, start: Instant, end: Instant) -> Option<(Instant, Instant)> {
        let Knowledge::Grid { run, period } = self.knowledge else { return None };
        let (start, end) = (self.seconds(start), self.seconds(end));
        let step = run.last.after(whole_steps((start - run.last.high) / period.high), period);
        let is_between = step.high <= start && end <= step.low + period.low;
        is_between.then(|| (self.instant(step.low), self.instant(step.high)))
    }

    /// How long to wait from `now` for a middle between two steps that is at least `least` away, if it is known.
    pub(super) fn wait_for_middle(&self, now: Instant, least: Duration) -> Option<Duration> {
        let Knowledge::Grid { run, period } = self.knowledge else { return None };
        let earliest = self.seconds(now) + Seconds::from(least);
        let step = run.last.after(whole_steps((earliest - run.last.high) / period.low).saturating_add(1), period);
        let room = step.low + period.low - step.high;
        let middle = step.high + room / 2.0;
        let wait = Duration::try_from_secs_f64((middle - self.seconds(now)).get()).ok()?;
        (room > LEAST_ROOM).then_some(wait)
    }

    /// How long to wait from `now` for a step that is at least `least` away.
    pub(super) fn wait_for_step(&self, now: Instant, least: Duration) -> Duration {
        let Knowledge::Grid { run, period } = self.knowledge else { return EVEN_WAIT };
        let earliest = self.seconds(now) + Seconds::from(least) + LEAD;
        let step = run.last.after(whole_steps((earliest - run.last.low) / period.low).saturating_add(1), period);
        Duration::try_from_secs_f64((step.low - LEAD - self.seconds(now)).get()).unwrap_or(LEAST_WAIT)
    }

    /// Whether the grid is accurate enough to skip steps.
    pub(super) fn is_known(&self) -> bool {
        matches!(self.knowledge, Knowledge::Grid { run, .. } if run.steps >= STEPS_TO_TRUST)
    }

    fn instant(&self, at: Seconds) -> Instant {
        Duration::try_from_secs_f64(at.get()).map_or(self.base, |offset| self.base + offset)
    }

    fn seconds(&self, instant: Instant) -> Seconds {
        Seconds::from(instant.saturating_duration_since(self.base))
    }
}

/// A number of steps, rounded down; zero if it is negative.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "float to int casts saturate")]
fn whole_steps(steps: f64) -> u32 {
    steps as u32
}

fn learn(run: StepSequence, step: Span) -> Option<Knowledge> {
    if step.width() > WIDEST_LEARNED {
        return None;
    }
    let run = run.with_next(step)?;
    Some(run.grid_period().map_or(Knowledge::Learning(run), |period| Knowledge::Grid { run, period }))
}

fn track(mut run: StepSequence, mut period: Span, step: Span) -> Option<Knowledge> {
    // The observed step is the latest one that a read could return. The interval may contain earlier steps.
    let since = ((step.high - run.last.low) / period.low).floor();
    if !(1.0..f64::from(STEPS_TO_REFINE)).contains(&since) {
        return None;
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 1 and 600, checked above")]
    let since = since as u32;
    run.last = run.last.after(since, period).intersect(step)?;
    run.steps = run.steps.saturating_add(since);
    if run.steps <= STEPS_TO_REFINE {
        period = period.intersect(run.last.period_since(run.first, run.steps))?;
    }
    Some(Knowledge::Grid { run, period })
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: Duration = Duration::from_micros(99_999);

    /// Reads a counter that steps every `STEP`; `read` is the duration of each read. Returns the number of reads and
    /// the width of each step's interval.
    fn follow(
        grid: &mut EdgeGrid,
        from: Instant,
        length: Duration,
        mut read: impl FnMut(u32) -> Duration,
    ) -> (u32, Vec<Duration>) {
        let value_at = |instant: Instant| instant.duration_since(grid_origin(from)).as_nanos() / STEP.as_nanos();
        let (mut now, mut reads, mut widths) = (from, 0, Vec::new());
        let mut seen = value_at(now);
        let mut seen_at = now;
        while now < from + length {
            let start = now;
            now += read(reads);
            reads += 1;
            let value = value_at(now);
            if value == seen {
                grid.note_unchanged(start);
            } else {
                grid.note_step(seen_at, now);
                widths.push(now - seen_at);
            }
            (seen, seen_at) = (value, start);
            now += grid.wait(start, now);
        }
        (reads, widths)
    }

    /// The origin of the steps, with a phase that is not zero.
    fn grid_origin(from: Instant) -> Instant {
        from.checked_sub(Duration::from_millis(37)).unwrap_or(from)
    }

    fn start() -> Instant {
        Instant::now() + Duration::from_secs(1000)
    }

    #[test]
    fn a_known_grid_is_read_only_around_its_steps() {
        let from = start();
        let mut grid = EdgeGrid::new(from);
        let (_, widths) = follow(&mut grid, from, Duration::from_secs(1), |_| Duration::from_millis(4));
        assert!(matches!(grid.knowledge, Knowledge::Grid { .. }), "learned within a second: {grid:?}");
        assert!(widths.len() >= 9, "no step is missed while learning");
        let later = from + STEP * 12;
        let (reads, widths) = follow(&mut grid, later, Duration::from_secs(60), |_| Duration::from_millis(4));
        assert!(reads < 600 * 6, "{reads} reads for 600 steps; at even intervals it would be 6,600");
        assert!((595..=601).contains(&widths.len()), "{} steps of 600", widths.len());
        let wide = widths.iter().filter(|width| **width > Duration::from_millis(15)).count();
        assert!(wide <= 3, "{wide} steps have a wide interval");
        let Knowledge::Grid { period, .. } = grid.knowledge else { panic!("the grid was lost: {grid:?}") };
        assert!((period.low.get()..=period.high.get()).contains(&STEP.as_secs_f64()), "{period:?}");
        assert!(period.width() < Seconds::new(0.0002), "{period:?}");
    }

    #[test]
    fn slow_reads_do_not_lose_the_grid() {
        let from = start();
        let mut grid = EdgeGrid::new(from);
        let slow = |read: u32| Duration::from_millis(if read % 19 == 7 { 33 } else { 4 });
        follow(&mut grid, from, Duration::from_secs(3), slow);
        let (reads, widths) = follow(&mut grid, from + STEP * 40, Duration::from_secs(60), slow);
        assert!(matches!(grid.knowledge, Knowledge::Grid { .. }));
        assert!((595..=601).contains(&widths.len()) && reads < 3000, "{reads} reads, {} steps", widths.len());
    }

    #[test]
    fn a_grid_that_moves_is_learned_again() {
        let from = start();
        let mut grid = EdgeGrid::new(from);
        follow(&mut grid, from, Duration::from_secs(2), |_| Duration::from_millis(4));
        let moved = from + Duration::from_millis(2250);
        grid.note_unchanged(moved);
        assert!(matches!(grid.knowledge, Knowledge::Nothing), "a missing step disproves the grid");
        assert_eq!(grid.wait(moved, moved), EVEN_WAIT);
        follow(&mut grid, moved, Duration::from_secs(2), |_| Duration::from_millis(4));
        assert!(matches!(grid.knowledge, Knowledge::Grid { .. }));
        let far_off = moved + Duration::from_secs(2) + Duration::from_millis(137);
        grid.note_step(far_off, far_off + Duration::from_millis(1));
        assert!(matches!(grid.knowledge, Knowledge::Learning(_)), "a step between two expected ones disproves it too");
    }

    #[test]
    fn an_irregular_counter_is_read_at_even_intervals() {
        let from = start();
        let mut grid = EdgeGrid::new(from);
        let mut at = from;
        for irregular_ms in [70, 130, 90, 160, 55, 120, 75, 140] {
            at += Duration::from_millis(irregular_ms);
            grid.note_step(at, at + Duration::from_millis(5));
            assert_eq!(grid.wait(at, at), EVEN_WAIT);
        }
    }
}
