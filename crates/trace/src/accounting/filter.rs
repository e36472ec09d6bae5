//! Which events a question is about.

use ergometer_units::Picos;
use regex::Regex;

use super::device::DeviceId;
use crate::table::{Kind, Trace};

/// Which events a question is about: those that pass all of these. Self times are those of the whole line: what is
/// filtered out is still part of what surrounds it.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Devices whose name, or `host/name`, has one of these in it, whatever the case and with whole numbers (`gpu:1` is
    /// not in `/device:GPU:10`); all where there are none. One of several devices of a plane is `/host:CPU#1`.
    pub devices: Vec<String>,
    /// A module, op or kernel that begins with this.
    pub prefix: Option<String>,
    /// A module, op or kernel in which this is found.
    pub pattern: Option<Regex>,
    /// Events at least this long.
    pub min_duration: Picos,
}

impl Filter {
    /// Whether a device is asked for.
    #[must_use]
    pub fn takes_device(&self, trace: &Trace, device: DeviceId) -> bool {
        if self.devices.is_empty() {
            return true;
        }
        let host = trace.planes().get(device.plane).and_then(|plane| plane.host).map_or("", |host| trace.text(host));
        let name = format!("{host}{}", device.name(trace)).to_lowercase();
        self.devices.iter().any(|device| is_named(&name, &device.to_lowercase()))
    }

    /// Whether a plane is asked for, whichever devices it has.
    #[must_use]
    pub fn takes_plane(&self, trace: &Trace, plane: usize) -> bool {
        self.takes_device(trace, DeviceId { plane, ordinal: None })
    }

    /// Whether a kind of event is asked for.
    #[must_use]
    pub fn takes_kind(&self, trace: &Trace, kind: &Kind) -> bool {
        let names = [kind.module, kind.op, Some(kind.name)];
        let mut names = names.iter().flatten().map(|&text| trace.text(text));
        match (&self.prefix, &self.pattern) {
            (None, None) => true,
            (Some(prefix), None) => names.any(|name| name.starts_with(prefix.as_str())),
            (None, Some(pattern)) => names.any(|name| pattern.is_match(name)),
            (Some(prefix), Some(pattern)) => {
                names.clone().any(|name| name.starts_with(prefix.as_str())) && names.any(|name| pattern.is_match(name))
            }
        }
    }
}

/// Whether a name has a text in it that does not end within a number.
fn is_named(name: &str, text: &str) -> bool {
    let ends_in_digit = text.ends_with(|character: char| character.is_ascii_digit());
    name.match_indices(text).any(|(at, _)| {
        let goes_on = name[at + text.len()..].starts_with(|character: char| character.is_ascii_digit());
        !(ends_in_digit && goes_on)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_not_the_beginning_of_another() {
        let gpus = ["/device:gpu:1", "/device:gpu:10", "host1/device:gpu:0"];
        let taken = |text: &str| gpus.map(|gpu| is_named(gpu, text));
        assert_eq!(taken("gpu:1"), [true, false, false]);
        assert_eq!(taken("gpu"), [true; 3]);
        assert_eq!(taken("host1/device:gpu:0"), [false, false, true]);
        assert_eq!(taken(""), [true; 3]);
    }
}
