//! The energy of many slices of time at once, for sharing it out: only the joules, no intervals.

use ergometer_units::{Joules, Seconds, Timestamp, Window};

use super::meter::{EnergyMeter, Metered, modelled};
use crate::{DeviceId, Provenance, Scope, Timeline};

/// The energy of consecutive slices of time, of one device and scope.
#[derive(Debug, Clone, PartialEq)]
pub struct Slices {
    /// The device.
    pub device: DeviceId,
    /// The part of it.
    pub scope: Scope,
    /// How it is known.
    pub provenance: Provenance,
    /// Whether it is part of the sum over measured devices.
    pub summed: bool,
    /// One for each pair of neighbouring cuts.
    pub slices: Vec<Slice>,
}

/// The energy of one slice.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Slice {
    /// All of it; `None` outside of the data.
    pub joules: Option<Joules>,
    /// What of it falls into silences of the sensors: known as a sum at best, not by when it was used.
    pub silent: Joules,
}

impl EnergyMeter<'_> {
    /// The energy between each two neighbouring cuts (in order), device by device. It is read off the same curves as
    /// [`energy`](Self::energy), so the slices of a window add up to the window's.
    #[must_use]
    pub fn slices(&self, cuts: &[Timestamp]) -> Vec<Slices> {
        let (Some(&first), Some(&last)) = (cuts.first(), cuts.last()) else { return Vec::new() };
        let Ok(whole) = Window::new(first, last) else { return Vec::new() };
        self.sources.iter().map(|metered| metered.slices(self.timeline, cuts, whole)).collect()
    }
}

impl Metered {
    fn slices(&self, timeline: &Timeline, cuts: &[Timestamp], whole: Window) -> Slices {
        let silences = self.silences(timeline, whole);
        let mut next_silence = 0;
        let slices = cuts.windows(2).map(|pair| {
            let Ok(window) = Window::new(pair[0], pair[1]) else {
                return Slice { joules: None, silent: Joules::ZERO };
            };
            while silences.get(next_silence).is_some_and(|silence| silence.end() <= window.start()) {
                next_silence += 1;
            }
            let touching = silences[next_silence..].iter().take_while(|silence| silence.start() < window.end());
            let silent = touching.filter_map(|silence| {
                let (start, end) = (silence.start().max(window.start()), silence.end().min(window.end()));
                self.joules(timeline, Window::new(start, end).ok()?)
            });
            Slice { silent: silent.sum(), joules: self.joules(timeline, window) }
        });
        let slices = slices.collect();
        let provenance = self.told_provenance(timeline);
        let summed = self.summed && provenance != Provenance::Modelled;
        Slices { device: self.source.device, scope: self.source.scope, provenance, summed, slices }
    }

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
}
