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
    /// One slice between each two neighbouring cuts.
    pub slices: Vec<Slice>,
}

/// The energy of one slice.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Slice {
    /// The total energy; `None` outside of the data.
    pub joules: Option<Joules>,
    /// The part of the energy in gaps of the sensors. At best its sum is known, not when it was used.
    pub silent: Joules,
    /// The total length of these gaps in the slice.
    pub silence: Seconds,
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
        let silences = self.silences(timeline, whole);
        let mut next_silence = 0;
        let slices = cuts.windows(2).map(|pair| {
            let Ok(window) = Window::new(pair[0], pair[1]) else {
                return Slice { joules: None, silent: Joules::ZERO, silence: Seconds::ZERO };
            };
            while silences.get(next_silence).is_some_and(|silence| silence.end() <= window.start()) {
                next_silence += 1;
            }
            let touching = silences[next_silence..].iter().take_while(|silence| silence.start() < window.end());
            self.slice(timeline, window, touching)
        });
        let slices = slices.collect();
        let provenance = self.energy_provenance(timeline);
        let summed = self.summed && provenance != Provenance::Modelled;
        Slices { device: self.source.device, scope: self.source.scope, provenance, summed, slices }
    }

    /// The energy of one slice, outside and inside of the silences that overlap it.
    fn slice<'a>(&self, timeline: &Timeline, window: Window, silences: impl Iterator<Item = &'a Window>) -> Slice {
        let (mut heard, mut silent) = (Some(Joules::ZERO), Some(Joules::ZERO));
        let mut silence_length = Seconds::ZERO;
        let mut from = window.start();
        for silence in silences {
            let (start, end) = (silence.start().max(window.start()), silence.end().min(window.end()));
            heard = add(heard, Window::new(from, start).ok().and_then(|window| self.heard(timeline, window)));
            silent = add(silent, Window::new(start, end).ok().and_then(|window| self.bridged(timeline, window)));
            silence_length += end - start;
            from = end;
        }
        heard = add(heard, Window::new(from, window.end()).ok().and_then(|window| self.heard(timeline, window)));
        Slice { joules: add(heard, silent), silent: silent.unwrap_or(Joules::ZERO), silence: silence_length }
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

    fn heard(&self, timeline: &Timeline, window: Window) -> Option<Joules> {
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

    /// The energy in a silence: the integral of the curve, or for a model the mean of the values on both sides.
    fn bridged(&self, timeline: &Timeline, window: Window) -> Option<Joules> {
        let Some(channel) = self.source.modelled.filter(|_| self.curve.is_none()) else {
            return self.heard(timeline, window);
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
