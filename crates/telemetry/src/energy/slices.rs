//! Computes the energy of many consecutive time slices, for attribution: joules only, no intervals.

use ergometer_units::{Joules, Seconds, Timestamp, Watts, Window};

use super::meter::{EnergyMeter, ScopeMeter, modelled};
use crate::{DeviceId, Provenance, Scope, Timeline};

/// The energy of consecutive slices of time, of one device and scope.
#[derive(Debug, Clone, PartialEq)]
pub struct Slices {
    /// The device.
    pub device: DeviceId,
    /// The part of it.
    pub scope: Scope,
    /// How the energy was obtained.
    pub provenance: Provenance,
    /// Whether it is part of the sum over measured devices.
    pub summed: bool,
    /// The slices between neighbouring cuts.
    pub slices: Vec<Slice>,
}

/// The energy of one slice.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Slice {
    /// The total energy; `None` outside of the data.
    pub joules: Option<Joules>,
    /// The part of the energy in gaps of the sensors. At best its sum is known, not when it was used.
    pub gap_joules: Joules,
    /// The total length of these gaps in the slice.
    pub gap_length: Seconds,
}

impl EnergyMeter<'_> {
    /// The window from the first to the last reading, for each device and scope with energy.
    pub fn data(&self) -> impl Iterator<Item = Window> {
        self.sources.iter().filter_map(|metered| metered.data(self.timeline))
    }

    /// The energy between each two neighbouring cuts (sorted), for each device and scope. It uses the same curves as
    /// [`energy`](Self::energy), so the slices of a window add up to the energy of the window.
    #[must_use]
    pub fn slices(&self, cuts: &[Timestamp]) -> Vec<Slices> {
        let (Some(&first), Some(&last)) = (cuts.first(), cuts.last()) else { return Vec::new() };
        let Ok(whole) = Window::new(first, last) else { return Vec::new() };
        self.sources.iter().map(|metered| metered.slices(self.timeline, cuts, whole)).collect()
    }
}

impl ScopeMeter {
    fn slices(&self, timeline: &Timeline, cuts: &[Timestamp], whole: Window) -> Slices {
        let gaps = self.gaps(timeline, whole);
        let mut next_gap = 0;
        let slices = cuts.windows(2).map(|pair| {
            let Ok(window) = Window::new(pair[0], pair[1]) else {
                return Slice { joules: None, gap_joules: Joules::ZERO, gap_length: Seconds::ZERO };
            };
            while gaps.get(next_gap).is_some_and(|gap| gap.end() <= window.start()) {
                next_gap += 1;
            }
            let overlapping = gaps[next_gap..].iter().take_while(|gap| gap.start() < window.end());
            self.slice(timeline, window, overlapping)
        });
        let slices = slices.collect();
        let provenance = self.energy_provenance(timeline);
        let summed = self.summed && provenance != Provenance::Modelled;
        Slices { device: self.source.device, scope: self.source.scope, provenance, summed, slices }
    }

    /// The energy of one slice, outside and inside of the gaps that overlap it.
    fn slice<'a>(&self, timeline: &Timeline, window: Window, gaps: impl Iterator<Item = &'a Window>) -> Slice {
        let (mut outside, mut inside) = (Some(Joules::ZERO), Some(Joules::ZERO));
        let mut gap_length = Seconds::ZERO;
        let mut from = window.start();
        for gap in gaps {
            let (start, end) = (gap.start().max(window.start()), gap.end().min(window.end()));
            outside = add(outside, Window::new(from, start).ok().and_then(|window| self.joules(timeline, window)));
            inside = add(inside, Window::new(start, end).ok().and_then(|window| self.gap_joules(timeline, window)));
            gap_length += end - start;
            from = end;
        }
        outside = add(outside, Window::new(from, window.end()).ok().and_then(|window| self.joules(timeline, window)));
        Slice { joules: add(outside, inside), gap_joules: inside.unwrap_or(Joules::ZERO), gap_length }
    }

    fn data(&self, timeline: &Timeline) -> Option<Window> {
        match (&self.curve, self.source.modelled) {
            (Some(curve), _) => {
                let (first, last) = curve.span();
                Window::new(self.base + Seconds::new(first), self.base + Seconds::new(last)).ok()
            }
            (None, Some(channel)) => {
                let column = timeline.column(channel);
                Window::new(column.get(0)?.after, column.last()?.at).ok()
            }
            (None, None) => None,
        }
    }

    /// The energy of a window; `None` outside of the data.
    fn joules(&self, timeline: &Timeline, window: Window) -> Option<Joules> {
        if window.length() <= Seconds::ZERO {
            return Some(Joules::ZERO);
        }
        match (&self.curve, self.source.modelled) {
            (Some(curve), _) => {
                self.within(curve, window).ok()?;
                Some(curve.joules(window))
            }
            (None, Some(channel)) => modelled(timeline, channel, window).ok().map(|estimate| estimate.joules),
            (None, None) => None,
        }
    }

    /// The energy in a gap: the integral of the curve, or for a modelled power the mean of the values on both sides.
    fn gap_joules(&self, timeline: &Timeline, window: Window) -> Option<Joules> {
        let Some(channel) = self.source.modelled.filter(|_| self.curve.is_none()) else {
            return self.joules(timeline, window);
        };
        let column = timeline.column(channel);
        let before = column.at_or_before(window.start())?;
        let after = column.get(column.range(window).end)?;
        Some(Watts::new(f64::midpoint(before.value, after.value)) * window.length())
    }
}

fn add(one: Option<Joules>, other: Option<Joules>) -> Option<Joules> {
    one.zip(other).map(|(one, other)| one + other)
}
