//! Opens trace files in parallel, prints warnings about them, and builds the event filter.

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

/// A trace with its files and warnings.
pub(super) struct OpenTrace {
    pub(super) files: Vec<PathBuf>,
    pub(super) trace: Trace,
    pub(super) warnings: Vec<Message>,
}

/// The part of a trace that a command reads; less is faster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Needs {
    /// All events, with the ids that link them.
    Everything,
    /// All events.
    Times,
    /// The events of devices.
    Work,
}

/// Opens files as one trace, and prints its warnings.
pub(super) fn open(arguments: &FilesArguments, needs: Needs, screen: Screen) -> Result<OpenTrace, Failure> {
    let leniency = if arguments.lenient { Leniency::KeepWhole } else { Leniency::Strict };
    let limits = arguments.max_size.map(|decompressed_bytes| Limits { decompressed_bytes });
    let reading = Reading { limits: limits.unwrap_or_else(Limits::from_free_memory), leniency };
    let found = find(&arguments.files).map_err(Failure::failed)?;
    for duplicate in duplicates(&arguments.files) {
        screen.note(&format!("{} was given more than once; it is read once", duplicate.display()));
    }
    for skipped in &found.skipped {
        let message = skipped.to_string();
        match skipped.reason {
            SkipReason::OlderSession => screen.note(&message),
            SkipReason::EmptySession => screen.warning(&message),
            SkipReason::PackedCopy => screen.detail(&message),
        }
    }
    let sources: Vec<Source> = found
        .files
        .par_iter()
        .map(|file| Source::open(file, &reading))
        .collect::<Result<_, _>>()
        .map_err(|error| open_failure(&error))?;
    let (ids, lines) = match needs {
        Needs::Everything => (KeepIds::Yes, KeepLines::All),
        Needs::Times => (KeepIds::No, KeepLines::All),
        Needs::Work => (KeepIds::No, KeepLines::OfWork),
    };
    let options = ReadOptions { leniency, ids, lines, max_table_bytes: reading.limits.decompressed_bytes };
    let trace = read(sources, &options).map_err(|error| read_failure(&error, leniency))?;
    let warnings: Vec<Message> = trace.notices().iter().map(Diagnostic::to_message).collect();
    for warning in &warnings {
        screen.warning(warning);
    }
    Ok(OpenTrace { files: found.files, trace, warnings })
}

/// The files that were given more than once.
fn duplicates(files: &[PathBuf]) -> Vec<&PathBuf> {
    let mut seen = HashSet::new();
    let is_again = |file: &&PathBuf| !seen.insert(fs::canonicalize(file).unwrap_or_else(|_| PathBuf::from(file)));
    files.iter().filter(is_again).collect()
}

/// The failure of a trace that cannot be read. With --lenient, its hint does not suggest --lenient.
fn read_failure(error: &TraceError, leniency: Leniency) -> Failure {
    let failure = Failure::failed(error);
    match (error, leniency) {
        (TraceError::Damaged { .. }, Leniency::KeepWhole) => {
            failure.hint("copy or record the trace again: no part of it can be read")
        }
        (TraceError::TableTooLarge { .. }, _) => failure.hint(hint!(
            "check that this is a trace; record a shorter one, or raise the limit with ",
            option("max-size")
        )),
        _ => failure,
    }
}

/// The failure of a file that cannot be opened. Compressed files and standard input are copied to memory; other files
/// are mapped.
fn open_failure(error: &SourceError) -> Failure {
    let failure = Failure::failed(error);
    match error {
        SourceError::TooLarge { .. } => failure.hint(hint!(
            "check that this is a trace; raise the limit with ",
            option("max-size"),
            ", or pass the path of an uncompressed file: the limit does not apply to it"
        )),
        SourceError::NoMemory { .. } => {
            failure.hint("pass the path of an uncompressed file: it is mapped, not copied to memory")
        }
        _ => failure,
    }
}

impl OpenTrace {
    /// Builds the filter. An unknown device is an error.
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

    /// The planes; a host plane is followed by the devices that its ops name.
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

    /// The names of the planes with events; of all planes if none has events.
    fn plane_names(&self) -> Vec<String> {
        let name = |with_events: bool| {
            let planes = self.trace.planes().iter().enumerate();
            let planes = planes.filter(|(_, plane)| !with_events || plane.lines.iter().any(|line| !line.is_empty()));
            planes.map(|(number, _)| plane_label(&self.trace, number)).collect::<Vec<String>>()
        };
        let filled = name(true);
        if filled.is_empty() { name(false) } else { filled }
    }

    /// Prints why there are no rows.
    pub(super) fn explain_empty(&self, what: &str, arguments: &FilterArguments, screen: Screen) {
        let planes = self.plane_names().join(", ");
        if is_filtered(arguments) {
            screen.note(&format!("no {what} match the filter; the trace has {} events", self.trace.event_count()));
        } else if !arguments.device.is_empty() {
            let chosen = arguments.device.join(", ");
            screen.note(&format!("no {what} on {chosen}: no matching device has events; the trace has {planes}"));
        } else {
            screen.note(&format!("no {what}: no device in this trace has events; the trace has {planes}"));
        }
    }
}

/// Whether events are filtered by name or duration.
pub(super) fn is_filtered(arguments: &FilterArguments) -> bool {
    arguments.prefix.is_some() || arguments.regex.is_some() || arguments.min_duration.is_some()
}

/// The name of a plane, with its host if there are several.
pub(super) fn plane_label(trace: &Trace, plane: usize) -> String {
    device_label(trace, DeviceId { plane, ordinal: None })
}

/// The name of a device, with its host if there are several.
pub(super) fn device_label(trace: &Trace, device: DeviceId) -> String {
    device.label(trace)
}

/// The columns of the device of a row. A table has one, with this rank.
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

/// The host of a plane, if the trace has it.
pub(super) fn host(trace: &Trace, plane: usize) -> Option<&str> {
    trace.planes().get(plane)?.host.map(|host| trace.text(host))
}

/// The name of a plane in the trace.
pub(super) fn plane_name(trace: &Trace, plane: usize) -> &str {
    trace.planes().get(plane).map_or("", |plane| trace.text(plane.name))
}
