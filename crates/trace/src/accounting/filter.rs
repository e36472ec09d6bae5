//! Selects events by device, name and duration.

use ergometer_units::Picos;
use regex::Regex;

use super::device::DeviceId;
use crate::table::{Kind, Trace};

/// Selects the events that match all of these conditions. Self times do not depend on the filter: events that do not
/// match still count as children of the events around them.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Texts to find in the name of the device, or in `host/name`, ignoring case and matching whole numbers (`gpu:1`
    /// does not match `/device:GPU:10`). Empty for all devices. One of several devices of a plane is `/host:CPU#1`.
    pub devices: Vec<String>,
    /// The beginning of the name of the module, op or kernel.
    pub prefix: Option<String>,
    /// A pattern to find in the name of the module, op or kernel.
    pub pattern: Option<Regex>,
    /// The shortest duration.
    pub min_duration: Picos,
}

impl Filter {
    /// Whether a device matches.
    #[must_use]
    pub fn takes_device(&self, trace: &Trace, device: DeviceId) -> bool {
        if self.devices.is_empty() {
            return true;
        }
        let host = trace.planes().get(device.plane).and_then(|plane| plane.host).map_or("", |host| trace.text(host));
        let name = format!("{host}{}", device.name(trace)).to_lowercase();
        self.devices.iter().any(|device| is_named(&name, &device.to_lowercase()))
    }

    /// Whether a plane matches, without a device number.
    #[must_use]
    pub fn takes_plane(&self, trace: &Trace, plane: usize) -> bool {
        self.takes_device(trace, DeviceId { plane, ordinal: None })
    }

    /// Whether a kind of event matches by name.
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

/// Whether a name contains a text that does not end within a number.
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
    fn a_number_matches_only_as_a_whole() {
        let gpus = ["/device:gpu:1", "/device:gpu:10", "host1/device:gpu:0"];
        let taken = |text: &str| gpus.map(|gpu| is_named(gpu, text));
        assert_eq!(taken("gpu:1"), [true, false, false]);
        assert_eq!(taken("gpu"), [true; 3]);
        assert_eq!(taken("host1/device:gpu:0"), [false, false, true]);
        assert_eq!(taken(""), [true; 3]);
    }
}
