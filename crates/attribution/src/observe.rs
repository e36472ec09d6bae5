//! Observes what the work of a server cost: the energy above idle of stretches of time, and the work done in them.

use ergometer_runs::cost_model::{TERMS, Term, Work};
use ergometer_statistics::{Series, percentile};
use ergometer_telemetry::EnergyMeter;
use ergometer_units::{Joules, Seconds, Timestamp};

use crate::{IdlePower, MeteredScope, StepWork, Steps};

/// Stretches of time with known work.
#[derive(Debug, Clone, PartialEq)]
pub struct Stretches {
    cuts: Vec<Timestamp>,
    /// The work between each two neighbouring cuts; `None` where the server had nothing to do for long.
    work: Vec<Option<Work>>,
}

/// When prompts were computed, if only the arrival of their first tokens is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrefillTime {
    /// In one step, which ended with the first token.
    LastStep,
    /// In chunks, since the first token of the request before it.
    Spread,
}

/// Prompts are taken as computed in chunks only if that lowers the unexplained variance to less than this part.
pub const CLEARLY_BETTER: f64 = 0.75;

impl PrefillTime {
    /// Both.
    pub const ALL: [Self; 2] = [Self::LastStep, Self::Spread];
}

/// A pause longer than this is not part of a stretch: the server had nothing to do. Shorter ones may be long prefills, during
/// which no token arrives.
const PAUSE: Seconds = Seconds::new(10.0);

/// Windows of an engine log are at least this long.
const SHORTEST_WINDOW: Seconds = Seconds::new(0.4);

impl Stretches {
    /// Stretches of at least this length: equal windows if the start of each step is known, else neighbouring steps that
    /// are joined.
    #[must_use]
    pub fn new(steps: &Steps, shortest: Seconds, prefill: PrefillTime) -> Self {
        let list = steps.steps();
        if list.iter().all(|step| step.start.is_some()) {
            return Self::windows(list, shortest.max(SHORTEST_WINDOW));
        }
        let mut stretches = Self::joined(list, shortest);
        if prefill == PrefillTime::Spread && !steps.prompts().is_empty() {
            stretches.spread(steps.prompts());
        }
        stretches
    }

    /// Divides prompts by time among the stretches in which they may have been computed: servers compute long prompts in
    /// chunks, beside decode steps.
    fn spread(&mut self, prompts: &[StepWork]) {
        for work in self.work.iter_mut().flatten() {
            (work[Term::PromptToken as usize], work[Term::Prompt as usize]) = (0.0, 0.0);
        }
        for prompt in prompts {
            let start = prompt.start.unwrap_or(prompt.end);
            let first = self.cuts.partition_point(|&cut| cut < prompt.end.min(start)).max(1);
            for place in first.. {
                let Some((work, cuts)) = self.work.get_mut(place - 1).zip(self.cuts.get(place - 1..=place)) else {
                    break;
                };
                if cuts[0] >= prompt.end && place > first {
                    break;
                }
                let overlap = prompt.end.min(cuts[1]) - start.max(cuts[0]);
                let whole = prompt.end - start;
                let is_inside = cuts[0] < prompt.end && prompt.end <= cuts[1];
                let share = if whole > Seconds::ZERO {
                    (overlap / whole).clamp(0.0, 1.0)
                } else {
                    f64::from(u8::from(is_inside))
                };
                if let Some(work) = work {
                    work.iter_mut().zip(prompt.work).for_each(|(sum, amount)| *sum += share * amount);
                }
            }
        }
    }

    /// Equal windows. A step that reaches into several is divided by time.
    fn windows(steps: &[StepWork], length: Seconds) -> Self {
        let mut stretches = Self { cuts: Vec::new(), work: Vec::new() };
        let first = steps.iter().map(|step| step.start.unwrap_or(step.end)).min();
        let Some((first, last)) = first.zip(steps.iter().map(|step| step.end).max()) else { return stretches };
        let count = whole((last - first) / length);
        let mut works = vec![Work::default(); count];
        for step in steps {
            let begin = step.start.unwrap_or(step.end);
            let places = whole((begin - first) / length)..=whole((step.end - first) / length);
            for place in places.filter(|&place| place < count) {
                let start = first + Seconds::new(place as f64 * length.get());
                let overlap = step.end.min(start + length) - begin.max(start);
                let whole = step.end - begin;
                let share = if whole > Seconds::ZERO { (overlap / whole).clamp(0.0, 1.0) } else { 1.0 };
                works[place].iter_mut().zip(step.work).for_each(|(sum, amount)| *sum += share * amount);
            }
        }
        stretches.cuts.push(first);
        for (place, work) in works.into_iter().enumerate() {
            let has_work = work.iter().any(|&amount| amount > 0.0);
            stretches.cut(first + Seconds::new((place + 1) as f64 * length.get()), has_work.then_some(work));
        }
        stretches
    }

    /// Joins neighbouring steps until a stretch is long enough.
    fn joined(steps: &[StepWork], shortest: Seconds) -> Self {
        let mut stretches = Self { cuts: Vec::new(), work: Vec::new() };
        let Some(first) = steps.first() else { return stretches };
        stretches.cuts.push(first.end);
        let mut work = Work::default();
        let (mut start, mut before) = (first.end, first.end);
        for step in &steps[1..] {
            if step.end - before > PAUSE {
                stretches.cut(step.end, None);
                (start, work) = (step.end, Work::default());
            } else {
                work.iter_mut().zip(step.work).for_each(|(sum, amount)| *sum += amount);
                if step.end - start >= shortest {
                    stretches.cut(step.end, Some(work));
                    (start, work) = (step.end, Work::default());
                }
            }
            before = step.end;
        }
        stretches
    }

    /// Stretches whose work is known, but not their times: they count in [`load_range`](Self::load_range) only.
    #[must_use]
    pub fn without_times(work: impl IntoIterator<Item = Work>) -> Self {
        Self { cuts: Vec::new(), work: work.into_iter().map(Some).collect() }
    }

    /// The known work of each stretch, and its start and end.
    #[cfg(test)]
    pub(crate) fn observed(&self) -> impl Iterator<Item = (Work, &[Timestamp])> {
        self.work.iter().zip(self.cuts.windows(2)).filter_map(|(work, cuts)| Some(((*work)?, cuts)))
    }

    fn cut(&mut self, at: Timestamp, work: Option<Work>) {
        if self.cuts.last().is_some_and(|&last| last < at) {
            self.cuts.push(at);
            self.work.push(work);
        }
    }

    /// How much the number of sequences per decode step varies: its 90th over its 10th percentile.
    #[must_use]
    pub fn load_range<'a>(all: impl IntoIterator<Item = &'a Self>) -> f64 {
        let works = all.into_iter().flat_map(|stretches| stretches.work.iter().flatten());
        let loads = works.filter(|work| work[Term::Step as usize] > 0.0);
        let mut loads: Vec<f64> = loads.map(|work| work[Term::Sequence as usize] / work[Term::Step as usize]).collect();
        loads.sort_by(f64::total_cmp);
        match (percentile(&loads, 10.0), percentile(&loads, 90.0)) {
            (Some(low), Some(high)) if low > 0.0 => high / low,
            _ => 1.0,
        }
    }
}

/// The whole part of a number of windows.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "neither negative nor above MOST_WINDOWS")]
fn whole(windows: f64) -> usize {
    // Division leaves 3 windows as 2.9999999999999996.
    (windows + 1e-9).clamp(0.0, MOST_WINDOWS) as usize
}

/// The most windows of a session: 46 days.
const MOST_WINDOWS: f64 = 1e7;

/// The observations of each metered scope. The device worked for a step `lag` before its tokens arrived. Stretches in which
/// the sensors had a gap are left out, and all of them if idle power is unknown.
#[must_use]
pub fn observe(
    meter: &EnergyMeter,
    scopes: &[MeteredScope],
    idle: &[IdlePower],
    stretches: &Stretches,
    lag: Seconds,
) -> Vec<Series> {
    let cuts: Vec<Timestamp> = stretches.cuts.iter().map(|&cut| cut - lag).collect();
    let slices = meter.slices(&cuts);
    let series = scopes.iter().zip(idle).map(|(scope, idle)| {
        let mut series = Series::new(TERMS);
        let found = slices.iter().find(|slices| (slices.device, slices.scope) == (scope.device, scope.scope));
        let rows = found.into_iter().flat_map(|found| &found.slices).zip(&stretches.work).zip(cuts.windows(2));
        for ((slice, work), cuts) in rows {
            let length = cuts[1] - cuts[0];
            let middle = cuts[0] + Seconds::new(length.get() / 2.0);
            let (Some(work), Some(joules), Some((power, _))) = (work, slice.joules, idle.at(middle)) else { continue };
            if slice.gap_joules <= Joules::ZERO {
                series.push(work, (joules - power * length).get());
            }
        }
        series
    });
    series.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(ms: i64, tokens: u8) -> StepWork {
        let tokens = f64::from(tokens);
        StepWork { start: None, end: at(ms), work: [0.0, 0.0, 1.0, tokens, 10.0 * tokens, 0.0] }
    }

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_nanos_since_epoch(ms * 1_000_000)
    }

    #[test]
    fn prompts_are_divided_among_the_stretches_in_which_they_may_have_been_computed() {
        let steps: Vec<StepWork> = (0..6).map(|i| step(100 * i, 1)).collect();
        let mut stretches = Stretches::joined(&steps, Seconds::new(0.1));
        let prompt = |start, end, tokens| StepWork {
            start: Some(at(start)),
            end: at(end),
            work: [tokens, 1.0, 0.0, 0.0, 0.0, 0.0],
        };
        stretches.spread(&[
            prompt(50, 250, 40.0),
            prompt(300, 300, 7.0),
            prompt(-100, 100, 10.0),
            prompt(450, 550, 6.0),
        ]);
        let tokens: Vec<f64> = stretches.work.iter().map(|work| work.unwrap()[Term::PromptToken as usize]).collect();
        assert_eq!(tokens, [10.0 + 5.0, 20.0, 10.0 + 7.0, 0.0, 3.0]);
    }

    #[test]
    fn a_step_with_known_start_is_divided_among_windows_by_time() {
        let timed = |start, end, tokens| StepWork { start: Some(at(start)), ..step(end, tokens) };
        let steps = [timed(0, 300, 3), timed(300, 500, 4), timed(500, 500, 1), timed(2000, 2400, 2)];
        let stretches = Stretches::windows(&steps, Seconds::new(0.4));
        assert_eq!(stretches.cuts, [0, 400, 800, 1200, 1600, 2000, 2400].map(at));
        let sequences: Vec<Option<f64>> =
            stretches.work.iter().map(|work| work.map(|work| work[Term::Sequence as usize])).collect();
        assert_eq!(sequences, [Some(5.0), Some(3.0), None, None, None, Some(2.0)]);
    }

    #[test]
    fn stretches_hold_the_work_after_their_start_up_to_their_end() {
        let steps: Vec<StepWork> = (0..9).map(|i| step(100 * i, 2)).chain([step(19_000, 1), step(19_300, 1)]).collect();
        let stretches = Stretches::joined(&steps, Seconds::new(0.2));
        let sequences: Vec<Option<f64>> =
            stretches.work.iter().map(|work| work.map(|work| work[Term::Sequence as usize])).collect();
        assert_eq!(sequences, [Some(4.0), Some(4.0), Some(4.0), Some(4.0), None, Some(1.0)]);
        assert_eq!(stretches.cuts.len(), 7);
        assert!((Stretches::load_range([&stretches]) - 2.0).abs() < 0.7);
        assert_eq!(Stretches::joined(&[], Seconds::new(0.2)).cuts, []);
        assert_eq!(Stretches::windows(&[], Seconds::new(0.2)).cuts, []);
    }
}
