//! What the user typed into a trace and a filter: files opened in parallel, and everything told that there is to know.

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::path::PathBuf;

use ergometer_diagnostics::{Diagnostic, Message, hint, option};
use ergometer_trace::accounting::{DeviceId, Filter};
use ergometer_trace::{
    KeepIds, KeepLines, Leniency, Limits, Platform, ReadOptions, Reading, SkipReason, Source, SourceError, Trace,
    TraceError, find, read,
};
use ergometer_units::Picos;
use rayon::prelude::*;

use super::cell::Cell;
use super::listing::Column;
use crate::arguments::{FilesArguments, FilterArguments};
use crate::exit::Failure;
use crate::screen::Screen;

/// A trace, and what was said while it was read.
pub(super) struct Opened {
    pub(super) files: Vec<PathBuf>,
    pub(super) trace: Trace,
    pub(super) warnings: Vec<Message>,
}

/// What of a trace a command looks at: less is faster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Needs {
    /// All events, and what ties them together.
    Everything,
    /// All events.
    Times,
    /// What devices did.
    Work,
}

/// Opens files as one trace. Warnings are told as they are found.
pub(super) fn open(arguments: &FilesArguments, needs: Needs, screen: Screen) -> Result<Opened, Failure> {
    let leniency = if arguments.lenient { Leniency::KeepWhole } else { Leniency::Strict };
    let limits = arguments.max_size.map(|decompressed_bytes| Limits { decompressed_bytes });
    let reading = Reading { limits: limits.unwrap_or_else(Limits::from_free_memory), leniency };
    let found = find(&arguments.files).map_err(Failure::failed)?;
    for twice in given_twice(&arguments.files) {
        screen.note(&format!("{} is given more than once: it counts once", twice.display()));
    }
    for skipped in &found.skipped {
        let told = skipped.to_string();
        match skipped.reason {
            SkipReason::OlderSession => screen.note(&told),
            SkipReason::EmptySession => screen.warning(&told),
            SkipReason::PackedCopy => screen.detail(&told),
        }
    }
    let sources: Vec<Source> = found
        .files
        .par_iter()
        .map(|file| Source::open(file, &reading))
        .collect::<Result<_, _>>()
        .map_err(|error| unopened(&error))?;
    let (ids, lines) = match needs {
        Needs::Everything => (KeepIds::Yes, KeepLines::All),
        Needs::Times => (KeepIds::No, KeepLines::All),
        Needs::Work => (KeepIds::No, KeepLines::OfWork),
    };
    let options = ReadOptions { leniency, ids, lines, ..ReadOptions::default() };
    let trace = read(sources, &options).map_err(|error| unread(&error, leniency))?;
    let warnings: Vec<Message> = trace.notices().iter().map(Diagnostic::to_message).collect();
    for warning in &warnings {
        screen.warning(warning);
    }
    Ok(Opened { files: found.files, trace, warnings })
}

/// The files that were typed again.
fn given_twice(files: &[PathBuf]) -> Vec<&PathBuf> {
    let mut seen = HashSet::new();
    let is_again = |file: &&PathBuf| !seen.insert(fs::canonicalize(file).unwrap_or_else(|_| PathBuf::from(file)));
    files.iter().filter(is_again).collect()
}

/// What was asked for already is no hint.
fn unread(error: &TraceError, leniency: Leniency) -> Failure {
    let failure = Failure::failed(error);
    match (error, leniency) {
        (TraceError::Damaged { .. }, Leniency::KeepWhole) => {
            failure.hint("copy or record the trace again: no part of it can be read")
        }
        _ => failure,
    }
}

fn unopened(error: &SourceError) -> Failure {
    let failure = Failure::failed(error);
    match error {
        SourceError::TooLarge { .. } => failure.hint(hint!(
            "check that the file is a trace; raise the limit with ",
            option("max-size"),
            ", or unpack the file: the limit does not apply to uncompressed files"
        )),
        _ => failure,
    }
}

impl Opened {
    /// The filter, once every device that was asked for is found to be there.
    pub(super) fn filter(&self, arguments: &FilterArguments) -> Result<Filter, Failure> {
        for device in &arguments.device {
            let alone = Filter { devices: vec![device.clone()], ..Filter::default() };
            if !self.devices().iter().any(|&device| alone.takes_device(&self.trace, device)) {
                return Err(Failure::usage(format!("no device of the trace has `{device}` in its name"))
                    .hint(format!("the devices are {}", self.plane_names().join(", "))));
            }
        }
        Ok(Filter {
            devices: arguments.device.clone(),
            prefix: arguments.prefix.clone(),
            pattern: arguments.regex.clone(),
            min_duration: arguments.min_duration.unwrap_or(Picos::ZERO),
        })
    }

    /// The planes, each followed by the devices that its ops may name where it is a host's.
    fn devices(&self) -> Vec<DeviceId> {
        let ordinals: BTreeSet<i64> = self.trace.kinds().iter().filter_map(|kind| kind.device_ordinal).collect();
        let planes = self.trace.planes().iter().enumerate();
        planes
            .flat_map(|(number, plane)| {
                let of_host = ordinals.iter().filter(|_| plane.platform == Platform::Host && ordinals.len() > 1);
                let ordinals: Vec<Option<i64>> = [None].into_iter().chain(of_host.copied().map(Some)).collect();
                ordinals.into_iter().map(move |ordinal| DeviceId { plane: number, ordinal })
            })
            .collect()
    }

    /// The planes that have events, or all where none has.
    fn plane_names(&self) -> Vec<String> {
        let name = |with_events: bool| {
            let planes = self.trace.planes().iter().enumerate();
            let planes = planes.filter(|(_, plane)| !with_events || plane.lines.iter().any(|line| !line.is_empty()));
            planes.map(|(number, _)| plane_label(&self.trace, number)).collect::<Vec<String>>()
        };
        let filled = name(true);
        if filled.is_empty() { name(false) } else { filled }
    }

    /// Tells why there is nothing to show.
    pub(super) fn tell_empty(&self, what: &str, arguments: &FilterArguments, screen: Screen) {
        let planes = self.plane_names().join(", ");
        if is_filtered(arguments) {
            screen.note(&format!("no {what} match the filter; the trace has {} events", self.trace.event_count()));
        } else if !arguments.device.is_empty() {
            let chosen = arguments.device.join(", ");
            screen.note(&format!(
                "no {what} on {chosen}: nothing is left of the devices that did something; the trace has {planes}"
            ));
        } else {
            screen.note(&format!("no {what}: nothing ran on a device in this trace; it has {planes}"));
        }
    }
}

/// Whether events are chosen by name or length.
pub(super) fn is_filtered(arguments: &FilterArguments) -> bool {
    arguments.prefix.is_some() || arguments.regex.is_some() || arguments.min_duration.is_some()
}

/// The name of a plane, with its host where there are several.
pub(super) fn plane_label(trace: &Trace, plane: usize) -> String {
    device_label(trace, DeviceId { plane, ordinal: None })
}

/// The name of a device, with its host where there are several.
pub(super) fn device_label(trace: &Trace, device: DeviceId) -> String {
    device.label(trace)
}

/// The columns that say of which device a row is; in a table it is one, which leaves at this rank.
pub(super) const fn device_columns(rank: u8) -> [Column; 4] {
    [
        Column::shared("", "device").only_table().rank(rank),
        Column::data("plane"),
        Column::data("host"),
        Column::data("device_ordinal"),
    ]
}

/// The cells of a device, one for each of [`device_columns`].
pub(super) fn device_cells(trace: &Trace, device: DeviceId) -> Vec<Cell<'_>> {
    vec![
        Cell::owned(device_label(trace, device)),
        Cell::text(Some(plane_name(trace, device.plane))),
        Cell::text(host(trace, device.plane)),
        Cell::number(device.ordinal),
    ]
}

/// The host of a plane, where the trace names it.
pub(super) fn host(trace: &Trace, plane: usize) -> Option<&str> {
    trace.planes().get(plane)?.host.map(|host| trace.text(host))
}

/// The name of a plane as the trace has it.
pub(super) fn plane_name(trace: &Trace, plane: usize) -> &str {
    trace.planes().get(plane).map_or("", |plane| trace.text(plane.name))
}
